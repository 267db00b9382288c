"""The unrolled denoising loss L^(1:k): learn to mend corrupted text and the model's own mending of it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from sundae.core.corruption import corruption_divergence
from sundae.core.noise import Noise, sample_categorical


@dataclass(frozen=True)
class Judgement:
    """One pass of the network against the clean text: its mean loss, a sample of it, and how often argmax was right."""

    loss: Float[Tensor, ""]
    sample: Int[Tensor, " tokens"] | None
    accuracy: Float[Tensor, ""]


Judge = Callable[[Tensor, Tensor, Tensor | None], Judgement]
"""Of hidden states, clean tokens and one uniform number for each (None: draw no sample)."""


@dataclass(frozen=True)
class UnrolledLoss:
    """`total` is L^(1:k) and carries the gradient; `per_step` holds L^(1) .. L^(k)."""

    total: Float[Tensor, ""]
    per_step: Float[Tensor, " steps"]
    accuracy: Float[Tensor, " steps"]


def plain_judge(logits: Callable[[Tensor], Tensor], *, label_smoothing: float = 0.0, temperature: float = 1.0) -> Judge:
    """-log f_theta(x | x_t-1) by the book; `temperature` is that of the unroll, where 0 takes argmax.

    Paper: eq. 3; listing, loss_fn.
    """

    def judge(hidden: Tensor, clean: Tensor, uniform: Tensor | None) -> Judgement:
        scores = logits(hidden).float()
        loss = F.cross_entropy(scores, clean, label_smoothing=label_smoothing)
        fixed = scores.detach()
        sample = None if uniform is None else sample_categorical(fixed, uniform=uniform, temperature=temperature)
        return Judgement(loss, sample, (fixed.argmax(-1) == clean).float().mean())

    return judge


def unrolled_loss(
    denoise: Callable[[Tensor], Tensor],
    *,
    clean: Int[Tensor, "batch width"],
    corrupted: Int[Tensor, "batch width"],
    inside: Bool[Tensor, "batch width"],
    judge: Judge,
    noise: Noise,
    samples: Int[Tensor, " batch"],
    steps: int = 2,
    weights: Sequence[float] = (),
) -> UnrolledLoss:
    """L^(1:k), the (weighted) mean of L^(1) .. L^(k): each is the token mean over all canvases, pads included.

    `denoise` gives the hidden states of f_theta(. | x) and is called `steps` times; no gradient flows through samples.
    `noise` must be another one at every update (fold the update's number in), or the same samples would be drawn again.

    Paper: sec. 2.1; eq. 3 (by app. A.1 a bound on eq. 4); listing, unrolled_fn and build_loss_fn.
    """
    assert len(weights) in (0, steps), "one weight for each step, or none"
    rows, positions = samples[:, None], torch.arange(clean.shape[1], device=clean.device)
    x = corrupted  # x_0 ~ q(. | x)
    judgements: list[Judgement] = []
    for t in range(1, steps + 1):
        # The last sample would feed no pass, so it is not drawn.
        uniform = noise.fold("unroll", t).uniform(rows, positions)[inside] if t < steps else None
        judgement = judge(denoise(x)[inside], clean[inside], uniform)  # log f_theta(x | x_t-1)
        judgements.append(judgement)
        if judgement.sample is not None:
            x = x.masked_scatter(inside, judgement.sample)  # x_t ~ f_theta(. | x_t-1)
    losses = torch.stack([judgement.loss for judgement in judgements])
    share = torch.tensor(weights or [1.0] * steps, dtype=losses.dtype, device=losses.device)
    return UnrolledLoss(
        total=(losses * share).sum() / share.sum(),
        per_step=losses.detach(),
        accuracy=torch.stack([judgement.accuracy for judgement in judgements]),
    )


def likelihood_bound(token_loss: float, *, length: int, vocabulary_size: int) -> float:
    """A lower bound on log p_T(x) in nats: -KL(q || p_0) - L^(T), from the token mean of L^(T).

    Paper: app. A.2 (Relation to VAE), last equation.
    """
    return -corruption_divergence(length, vocabulary_size=vocabulary_size) - length * token_loss
