"""A space of texts so small that the paper's sums over X can be done: {0, 1, 2}^2."""

import itertools

import torch

from sundae.core.network import Transformer

SPACE = torch.tensor(list(itertools.product(range(3), repeat=2)))


def transition_matrix(network: Transformer) -> torch.Tensor:
    """f_theta(x | x') for all pairs, rows x'; eq. 2."""
    with torch.no_grad():
        log_f = network.logits(network(SPACE)).double().log_softmax(-1)
    return torch.stack([log_f[:, [0, 1], text].sum(1).exp() for text in SPACE], dim=1)


def exact_chain(network: Transformer, *, steps: int) -> torch.Tensor:
    """p_T(x) from the uniform prior; eq. 1."""
    prior = torch.full((len(SPACE),), 1 / len(SPACE), dtype=torch.float64)
    return prior @ torch.linalg.matrix_power(transition_matrix(network), steps)
