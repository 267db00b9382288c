"""AdamW with the paper's schedule, and the moving average of the weights."""

import math

import torch
from torch import Tensor, nn

from sundae.config import TrainingConfig


def build_optimiser(network: nn.Module, config: TrainingConfig) -> torch.optim.AdamW:
    """AdamW with decay on matrices only: biases, norms and single vectors have nothing to shrink.

    Paper: sec. 3.1 (Experiment Settings).
    """
    matrices = [weight for weight in network.parameters() if weight.dim() >= 2]
    vectors = [weight for weight in network.parameters() if weight.dim() < 2]
    return torch.optim.AdamW(
        [{"params": matrices, "weight_decay": config.weight_decay}, {"params": vectors, "weight_decay": 0.0}],
        lr=config.learning_rate,
        betas=(config.beta1, config.beta2),
        eps=config.epsilon,
        fused=True,
    )


def learning_rate(step: int, config: TrainingConfig) -> float:
    """The rate of update `step` (from 1): a linear warm-up, then a cosine down to the final rate.

    Paper: sec. 3.1 (Experiment Settings); sec. 3.2.
    """
    if step < config.warmup_steps:
        share = step / config.warmup_steps
        return config.initial_learning_rate + share * (config.learning_rate - config.initial_learning_rate)
    done = (step - config.warmup_steps) / max(1, config.steps - config.warmup_steps)
    height = config.learning_rate - config.final_learning_rate
    return config.final_learning_rate + height * (1 + math.cos(math.pi * min(1.0, done))) / 2


class MovingAverage:
    """An exponential moving average of the weights; early on it forgets faster, so that the start leaves no trace."""

    def __init__(self, network: nn.Module, decay: float) -> None:
        self.decay = decay
        self.weights = {name: weight.detach().clone() for name, weight in network.named_parameters()}

    @torch.no_grad()
    def update(self, network: nn.Module, step: int) -> None:
        decay = min(self.decay, (1 + step) / (10 + step))
        for name, weight in network.named_parameters():
            self.weights[name].lerp_(weight.detach(), 1 - decay)


def average(states: list[dict[str, Tensor]]) -> dict[str, Tensor]:
    """The mean of several checkpoints' weights.

    Paper: sec. 3.1 ("we average the last 10 checkpoints").
    """
    return {name: torch.stack([state[name].double() for state in states]).mean(0).float() for name in states[0]}
