"""Keep the most confident predictions, more of them at every step, and put fresh noise everywhere else."""

import math
from collections.abc import Generator
from dataclasses import dataclass, field

import torch
from torch import Tensor

from sundae.core.network import Ask, Prediction
from sundae.core.sampling import Update, View, lowest
from sundae.decoding.drawing import Drawing, gumbel_noise, log_probability
from sundae.decoding.renoise import keep_or_renoise


def cosine_count(step: int, steps: int, editable: Tensor) -> Tensor:
    """k_t = N - floor(N cos(pi t / 2T)): how many of N predictions are kept; few at first, all at the end."""
    # A hair more, so that N cos(pi / 3) is N / 2 and not just below.
    return editable - torch.floor(editable.double() * math.cos(math.pi / 2 * step / steps) + 1e-9).long()


@dataclass(frozen=True)
class Confidence:
    """Draw everywhere; the k_t likeliest of the drawn tokens stay (cosine schedule), the others are noised afresh.

    Schedule and confidence, which is the model's own probability of a drawn token, are MaskGIT's (Chang et al., 2022,
    arXiv 2202.04200); noise in the place of masks is from RDM (Zheng et al., 2023, arXiv 2302.05737).  What stays is
    decided anew at every step.  `choice_temperature` adds Gumbel noise of that scale, falling linearly to 0, to the
    log-probabilities (MaskGIT; RDM's "stochastic").  Runs to its end; one network call a step.
    """

    drawing: Drawing = field(default_factory=Drawing)
    choice_temperature: float = 0.0
    deterministic: bool = field(default=False, init=False)
    runs_to_end: bool = field(default=True, init=False)

    def step(self, view: View) -> Generator[Ask, Prediction, Update]:
        logits = yield from view.logits(view.tokens, where=view.editable)
        drawn = self.drawing.tokens(logits, view=view, where=view.editable)
        of_drawn = log_probability(logits, drawn)
        confidence = torch.zeros_like(view.certainty).masked_scatter(view.editable, of_drawn)
        if self.choice_temperature > 0:
            gumbel = gumbel_noise(view.uniform("choice"))
            confidence = confidence + self.choice_temperature * (1 - view.step / view.steps) * gumbel
        count = cosine_count(view.step, view.steps, view.editable.sum(1))
        keep = lowest(-confidence, among=view.editable, count=count)
        tokens = keep_or_renoise(view, logits, drawn=drawn, keep=keep)
        return Update(tokens, seen=view.editable, certainty=view.certainty)
