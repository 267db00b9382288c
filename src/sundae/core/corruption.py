"""The corruption q(x^c | x), the prior p_0, and how far apart they are."""

import math
from typing import Literal, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor

from sundae.core.noise import Noise


def uniform_prior(
    samples: Int[Tensor, " batch"], *, width: int, vocabulary_size: int, noise: Noise
) -> Int[Tensor, "batch width"]:
    """x_0 ~ p_0: every token uniform over the vocabulary.

    Paper: sec. 2 (p_0); listing, get_random_text.
    """
    positions = torch.arange(width, device=samples.device)
    return noise.fold("prior").integer(vocabulary_size, samples[:, None], positions)


def corruption_rates(
    samples: Int[Tensor, " batch"], *, noise: Noise, spread: Literal["independent", "even"] = "independent"
) -> Float[Tensor, " batch"]:
    """alpha ~ U[0, 1], one for each sequence; `even` spaces a batch's rates evenly from one draw on.

    Paper: app. A.3, first stage.
    """
    field = noise.fold("corruption rate")
    if spread == "independent":
        return field.uniform(samples)
    offsets = torch.arange(len(samples), device=samples.device) / len(samples)
    return (field.uniform(0).to(samples.device) + offsets) % 1.0


def corrupt(
    text: Int[Tensor, "batch width"],
    *,
    rates: Float[Tensor, " batch"],
    samples: Int[Tensor, " batch"],
    vocabulary_size: int,
    noise: Noise,
) -> Int[Tensor, "batch width"]:
    """x^c = (1 - m) x + m eta with m ~ Bernoulli(alpha) and eta uniform, the same token allowed.

    Paper: sec. 2.1 (Corruption function); app. A.3; listing, corrupt_text.
    """
    rows, positions = samples[:, None], torch.arange(text.shape[1], device=text.device)
    selected = noise.fold("corruption mask").uniform(rows, positions) < rates[:, None]
    replacement = noise.fold("corruption noise").integer(vocabulary_size, rows, positions)
    return torch.where(selected, replacement, text)


def corruption_divergence(length: int, *, vocabulary_size: int) -> float:
    """KL(q(x^c | x) || p_0) in nats, exact: q depends on x^c only through m, the number of tokens that are as in x.

    Paper: app. A.2 (Relation to VAE).
    """
    # q_m = integral over the rate a of (1 - a + a/v)^m (a/v)^(N-m): a polynomial of degree N in a, for which
    # Gauss-Legendre quadrature with N // 2 + 1 nodes is exact.  Golub and Welsch (1969) give nodes and weights.
    order = torch.arange(1, length // 2 + 1, dtype=torch.float64)
    beside = order / (4 * order**2 - 1).sqrt()
    jacobi = torch.diag(beside, -1) + torch.diag(beside, 1)
    nodes, vectors = cast(tuple[Tensor, Tensor], torch.linalg.eigh(jacobi))  # pyright: ignore[reportUnknownMemberType]
    rate, log_weight = ((nodes + 1) / 2)[:, None], vectors[0].square().log()[:, None]
    kept = torch.arange(length + 1, dtype=torch.float64)
    log_same, log_other = (1 - rate + rate / vocabulary_size).log(), (rate / vocabulary_size).log()
    log_q = torch.logsumexp(log_weight + kept * log_same + (length - kept) * log_other, dim=0)
    # C(N, m) (v - 1)^(N - m) sequences keep exactly m tokens.
    log_ways = math.lgamma(length + 1) - torch.lgamma(kept + 1) - torch.lgamma(length - kept + 1)
    log_ways = log_ways + (length - kept) * math.log(vocabulary_size - 1)
    log_prior = -length * math.log(vocabulary_size)
    return float(((log_ways + log_q).exp() * (log_q - log_prior)).sum())
