"""Small real baselines for tests, with weights large enough that their predictions are far from uniform."""

import torch

from sundae.baselines.autoregressive import Autoregressive
from sundae.baselines.cmlm import MaskedTransformer
from sundae.config import NetworkConfig


def settings(**changes: object) -> NetworkConfig:
    usual = {"vocabulary_size": 11, "canvas": 12, "width": 16, "hidden": 32, "heads": 2, "decoder_layers": 2}
    return NetworkConfig(**(usual | {"dropout": 0.0, "length_hidden": 8} | changes))  # pyright: ignore[reportArgumentType]


def _sharpened(network):  # pyright: ignore
    with torch.no_grad():
        for name, weight in network.named_parameters():
            if "embedding" in name or "position" in name:
                weight.mul_(1.6)
    return network.eval()


def twin(seed: int = 0, **changes: object) -> Autoregressive:
    torch.manual_seed(seed)
    return _sharpened(Autoregressive(settings(kind="autoregressive", **changes)))


def masked(seed: int = 0, **changes: object) -> MaskedTransformer:
    torch.manual_seed(seed)
    return _sharpened(MaskedTransformer(settings(kind="cmlm", encoder_layers=1, source_positions=12, **changes)))
