"""Accept what the model is sure of, put fresh noise everywhere else, and let the model say how much that is."""

from collections.abc import Generator
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.nn.functional import pad

from sundae.core.network import Ask, Prediction
from sundae.core.sampling import Update, View, lowest
from sundae.decoding.drawing import Drawing, in_slices
from sundae.decoding.renoise import keep_or_renoise


def entropy_of(logits: Tensor) -> Tensor:
    """In nats, of each line: the logarithm of the sum less the mean logit, both above the largest."""
    above = logits.float() - logits.amax(-1, keepdim=True)
    weight = above.exp()
    total = weight.sum(-1)
    mean = torch.linalg.vecdot(weight, above.clamp_(min=-1e4)) / total  # a barred token has no weight
    return total.log() - mean


def count_within(bound: float, entropy: Tensor, *, among: Tensor) -> Tensor:
    """The largest k of each row such that its k lowest entropies, the largest of them left out, sum to at most `bound`.

    That sum is never less than the mutual information of the k tokens: what drawing them apart can lose.
    """
    ordered = entropy.masked_fill(~among, torch.inf).sort(dim=1).values
    without_largest = pad(ordered.cumsum(1)[:, :-1], (1, 0))
    return ((without_largest <= bound) & ordered.isfinite()).sum(1)


@dataclass(frozen=True)
class EntropyBounded:
    """Draw everywhere; keep tokens in order of rising entropy while sum - max <= `bound`, noise the others afresh.

    The bound is that of the EB-sampler (Ben-Hamu et al., 2025, arXiv 2505.24857), which unmasks; noise and the stop are
    after DiffusionGemma (`transformers`, `diffusers.EntropyBoundScheduler`).  What is kept is decided anew at every
    step among all editable positions, so a token that no longer fits is given up again.  At least one is kept, at the
    last step all are.  Entropies are the model's own, in nats, whatever the temperature.

    A row is settled when argmax reproduces the text that it was asked about and its mean entropy is below
    `stop_entropy` (0: never); such a row is left alone from then on, stopped or not.  One network call a step.
    """

    drawing: Drawing = field(default_factory=Drawing)
    bound: float = 16.0
    stop_entropy: float = 0.5
    deterministic: bool = field(default=False, init=False)
    runs_to_end: bool = field(default=False, init=False)

    def step(self, view: View) -> Generator[Ask, Prediction, Update]:
        logits = yield from view.logits(view.tokens, where=view.editable)
        entropy = torch.zeros_like(view.certainty).masked_scatter(view.editable, in_slices(entropy_of, logits))
        positions = view.editable.sum(1)
        stable = (view.tokens.masked_scatter(view.editable, logits.argmax(-1)) == view.tokens).all(1)
        settled = stable & (entropy.sum(1) / positions < self.stop_entropy)

        last = view.step == view.steps
        count = positions if last else count_within(self.bound, entropy, among=view.editable)
        keep = lowest(entropy, among=view.editable, count=count)
        drawn = self.drawing.tokens(logits, view=view, where=view.editable)
        tokens = keep_or_renoise(view, logits, drawn=drawn, keep=keep)
        return Update(
            torch.where(settled[:, None], view.tokens, tokens),
            seen=view.editable,
            certainty=view.certainty,
            settled=settled,
        )
