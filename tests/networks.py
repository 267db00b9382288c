"""Small real networks for tests."""

import torch

from sundae.config import NetworkConfig
from sundae.core.network import Transformer


def build(seed: int = 0, **changes: int | float | bool) -> Transformer:
    """A small network with weights large enough that its predictions are far from uniform."""
    torch.manual_seed(seed)
    settings = {"vocabulary_size": 11, "canvas": 12, "width": 16, "hidden": 32, "heads": 2, "decoder_layers": 2}
    network = Transformer(NetworkConfig(**(settings | {"dropout": 0.0, "length_hidden": 8} | changes)))  # pyright: ignore[reportArgumentType]
    with torch.no_grad():
        for name, weight in network.named_parameters():
            if "embedding" in name or "position" in name:
                weight.mul_(1.6)
    return network.eval()
