"""Denoise everything, then noise a share of it again, so that the next step can correct what this one decided."""

from collections.abc import Generator
from dataclasses import dataclass, field

import torch

from sundae.core.network import Ask, Prediction
from sundae.core.sampling import Update, View, lowest, update_share
from sundae.decoding.drawing import Drawing, gumbel_noise, log_probability
from sundae.decoding.renoise import keep_or_renoise


@dataclass(frozen=True)
class PredictorCorrector:
    """Draw everywhere, then noise ceil(r (1 - t/T) N) of the N editable positions afresh, chosen at random.

    With `doubt` w a drawn token of probability p is chosen with weight p^-w (by Gumbel's trick, without replacement),
    so that what the model doubts comes first; 0 chooses any as soon as another.

    `renoise_share` is r; r = 1 is how Paella samples (Rampas et al., 2022, arXiv 2211.07292).  Correctors of discrete
    diffusion are from Campbell et al. (2022, arXiv 2205.14987); ReMDM (Wang et al., 2025, arXiv 2503.00307) puts masks
    back where this rule puts noise.  The last step noises nothing.  Runs to its end; one network call a step, which
    predicts and corrects at once: the model sees no difference between noise and a mistake.
    """

    drawing: Drawing = field(default_factory=Drawing)
    renoise_share: float = 0.3
    doubt: float = 0.0
    deterministic: bool = field(default=False, init=False)
    runs_to_end: bool = field(default=True, init=False)

    def step(self, view: View) -> Generator[Ask, Prediction, Update]:
        logits = yield from view.logits(view.tokens, where=view.editable)
        drawn = self.drawing.tokens(logits, view=view, where=view.editable)
        share = update_share(self.renoise_share * (1 - view.step / view.steps))
        count = share(view.step, view.steps, view.editable.sum(1))
        order = view.uniform("choice")
        if self.doubt > 0:
            sureness = self.doubt * log_probability(logits, drawn)
            order = torch.zeros_like(view.certainty).masked_scatter(view.editable, sureness) - gumbel_noise(order)
        noisy = lowest(order, among=view.editable, count=count)
        tokens = keep_or_renoise(view, logits, drawn=drawn, keep=~noisy)
        return Update(tokens, seen=view.editable, certainty=view.certainty)
