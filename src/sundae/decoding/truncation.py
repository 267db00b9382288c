"""Cutting off the tail of a distribution before drawing from it."""

import torch
from torch import Tensor


def keep_likeliest(logits: Tensor, *, top_k: int = 0, top_p: float = 1.0) -> Tensor:
    """The logits with all but the likeliest tokens at -inf; what is kept keeps its proportions.

    `top_k` keeps so many (0: all; Fan et al., 2018).  `top_p` keeps the smallest set of the likeliest whose
    probabilities add up to at least so much (Holtzman et al., 2020).  At least one token is always kept.
    """
    if 0 < top_k < logits.shape[-1]:
        least = logits.topk(top_k, dim=-1).values[..., -1:]
        logits = logits.masked_fill(logits < least, -torch.inf)
    if top_p < 1.0:
        ordered, order = logits.sort(dim=-1, descending=True, stable=True)
        before = torch.softmax(ordered.float(), dim=-1).cumsum(-1).roll(1, -1)  # probability of the likelier ones
        before[..., 0] = 0.0
        cut = (before >= top_p).index_fill(-1, torch.tensor(0, device=logits.device), False)
        logits = logits.masked_fill(torch.zeros_like(cut).scatter(-1, order, cut), -torch.inf)
    return logits
