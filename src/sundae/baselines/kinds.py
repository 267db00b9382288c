"""Which network and which loss a configuration names."""

from sundae.baselines.autoregressive import Autoregressive, AutoregressiveLoss
from sundae.baselines.cmlm import MaskedLoss, MaskedTransformer
from sundae.baselines.shifted import ShiftedTransformer
from sundae.config import NetworkConfig, ObjectiveConfig
from sundae.core.network import Transformer
from sundae.training.losses import DenoisingLoss, LossModule


def build_network(config: NetworkConfig) -> Transformer:
    """A network with fresh weights."""
    match config.kind:
        case "sundae":
            return ShiftedTransformer(config) if config.shifted else Transformer(config)
        case "autoregressive":
            return Autoregressive(config)
        case "cmlm":
            return MaskedTransformer(config)


def build_loss(network: Transformer, objective: ObjectiveConfig) -> LossModule:
    """What a network of this kind is trained with."""
    match network:
        case Autoregressive():
            return AutoregressiveLoss(network, objective)
        case MaskedTransformer():
            return MaskedLoss(network, objective)
        case _:
            return DenoisingLoss(network, objective)
