"""Dropout that draws its random bits in bulk: torch's own draws each number apart, 6% of a small network's step."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

_LEVELS = 1 << 16


class BulkDropout(nn.Module):
    """`nn.Dropout` with sixteen random bits for each number, so its rate is a multiple of 2^-16."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate

    def forward(self, x: Tensor) -> Tensor:
        dropped = round(self.rate * _LEVELS)
        if not self.training or not dropped:
            return x
        if x.device.type != "cpu":
            return F.dropout(x, self.rate)
        words = torch.empty(-(-x.numel() // 4), dtype=torch.int64).random_(-(1 << 63), None)
        bits = words.view(torch.int16)[: x.numel()].view(x.shape)
        kept = (bits >= dropped - _LEVELS // 2).to(x.dtype)
        return x * kept.mul_(_LEVELS / (_LEVELS - dropped))


def draw_in_bulk(network: nn.Module) -> None:
    """Put `BulkDropout` in the place of every dropout of a network."""
    for module in list(network.modules()):
        for name, child in module.named_children():
            if isinstance(child, nn.Dropout):
                setattr(module, name, BulkDropout(child.p).train(child.training))
