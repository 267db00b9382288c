"""The same judgement as `core.objective.plain_judge`, several times faster where the vocabulary is large.

The plain way writes the logits of all tokens to memory and reads them back for the loss, the sample and the gradient.
Here a slice of rows is taken through all of these while it is in cache, and the gradient is known before the next slice
begins.  Nothing is computed twice.
"""

from typing import Any

import torch
from torch import Tensor

from sundae.core.noise import sample_categorical
from sundae.core.objective import Judge, Judgement

SLICE_ELEMENTS = 1 << 21
"""Logits in one slice: 8 MB, so that a slice stays in the cache of a common CPU."""


def draw(odds: Tensor, uniform: Tensor) -> tuple[Tensor, Tensor]:
    """A token of each row in proportion to its odds, and the sum of the row: first a block of tokens, then one in it.

    It is the inverse of the cumulative distribution, as in `sample_categorical`; a running sum over all tokens would
    take as long as the exponentials and the logits together.
    """
    width = max(size for size in range(1, 129) if odds.shape[1] % size == 0)
    blocks = odds.view(len(odds), -1, width)
    until = blocks.sum(2).cumsum(1)
    total = until[:, -1:]
    threshold = uniform * total
    # Where nothing is a number no block is found; the loss will say so.
    block = torch.searchsorted(until, threshold, right=True).clamp(max=until.shape[1] - 1)
    before = until.gather(1, (block - 1).clamp(min=0)).masked_fill(block == 0, 0.0)
    own = blocks[torch.arange(len(odds), device=odds.device), block[:, 0]].cumsum(1)
    # The block's own sum may be rounded otherwise: stay below it, where a token with odds is found.
    rest = torch.minimum(threshold - before, own[:, -1:] * (1 - 2**-24))
    token = torch.searchsorted(own, rest, right=True).clamp(max=width - 1)
    return (block * width + token).squeeze(1), total


class _FusedJudgement(torch.autograd.Function):
    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu", cast_inputs=torch.float32)  # the loss is never in half precision
    def forward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        clean: Tensor,
        uniform: Tensor | None,
        label_smoothing: float,
        temperature: float,
    ) -> tuple[Tensor, Tensor, Tensor]:
        tokens, vocabulary_size = len(hidden), len(weight)
        wanted = ctx.needs_input_grad[0] or ctx.needs_input_grad[1]
        gradient = torch.empty_like(hidden) if wanted else None
        weight_gradient = torch.zeros_like(weight) if wanted else None
        loss = hidden.new_zeros((), dtype=torch.float64)
        right = torch.zeros((), dtype=torch.long, device=hidden.device)
        sample = torch.empty_like(clean)
        size = max(1, min(tokens, SLICE_ELEMENTS // vocabulary_size))
        buffer = hidden.new_empty(size, vocabulary_size)
        # Label smoothing adds the same small number to every logit's gradient: two vectors do for all of it.
        mean_weight = weight.mean(0) if label_smoothing else None
        for begin in range(0, tokens, size):
            rows = slice(begin, min(begin + size, tokens))
            h, target = hidden[rows], clean[rows, None]
            logits = torch.mm(h, weight.t(), out=buffer[: len(h)])
            highest, own = logits.amax(1, keepdim=True), logits.gather(1, target)
            right += (own == highest).sum()
            if uniform is not None and temperature != 1.0:
                sample[rows] = sample_categorical(logits, uniform=uniform[rows], temperature=temperature)
            odds = logits.sub_(highest).exp_()
            if uniform is not None and temperature == 1.0:
                sample[rows], total = draw(odds, uniform[rows, None])
            else:
                total = odds.sum(1, keepdim=True)
            log_total = total.log() + highest
            loss += (log_total - own).sum(dtype=torch.float64) * (1 - label_smoothing)
            if mean_weight is not None:
                loss += (log_total[:, 0] - h @ mean_weight).sum(dtype=torch.float64) * label_smoothing
            if gradient is not None and weight_gradient is not None:
                # d loss / d logits = (f - (1 - smoothing) onehot - smoothing / v) / tokens
                slope = odds.mul_(1 / (total * tokens))
                slope.scatter_add_(1, target, torch.full_like(own, -(1 - label_smoothing) / tokens))
                torch.mm(slope, weight, out=gradient[rows])
                weight_gradient.addmm_(slope.t(), h)
        if mean_weight is not None and gradient is not None and weight_gradient is not None:
            gradient -= mean_weight * (label_smoothing / tokens)
            weight_gradient -= hidden.mean(0) * (label_smoothing / vocabulary_size)
        ctx.gradients = (gradient, weight_gradient)
        ctx.mark_non_differentiable(sample, right)
        return (loss / tokens).to(hidden.dtype), sample, right

    @staticmethod
    @torch.amp.custom_bwd(device_type="cpu")
    def backward(ctx: Any, loss_gradient: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        gradient, weight_gradient = ctx.gradients
        ctx.gradients = None
        return gradient.mul_(loss_gradient), weight_gradient.mul_(loss_gradient), None, None, None, None


def fused_judge(weight: Tensor, *, label_smoothing: float = 0.0, temperature: float = 1.0) -> Judge:
    """The loss, sample and gradient of one pass, slice by slice; `weight` is the output embedding.

    Its backward may be called once: the gradient is made in the forward pass and given away.
    """

    def judge(hidden: Tensor, clean: Tensor, uniform: Tensor | None) -> Judgement:
        loss, sample, right = _FusedJudgement.apply(hidden, weight, clean, uniform, label_smoothing, temperature)  # pyright: ignore[reportGeneralTypeIssues]
        return Judgement(loss, None if uniform is None else sample, right.float() / len(clean))

    return judge
