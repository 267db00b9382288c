"""AdamW with the paper's schedule, Muon beside it, and the moving average of the weights."""

import math
from typing import Any

import torch
from torch import Tensor, nn

from sundae.config import TrainingConfig
from sundae.core.network import Block


def build_optimiser(network: nn.Module, config: TrainingConfig) -> torch.optim.AdamW:
    """AdamW with decay on matrices only: biases, norms and single vectors have nothing to shrink.

    Paper: sec. 3.1 (Experiment Settings).
    """
    matrices = [weight for weight in network.parameters() if weight.dim() >= 2]
    vectors = [weight for weight in network.parameters() if weight.dim() < 2]
    groups = [{"params": matrices, "weight_decay": config.weight_decay}, {"params": vectors, "weight_decay": 0.0}]
    settings = {"lr": config.learning_rate, "betas": (config.beta1, config.beta2), "eps": config.epsilon}
    if config.optimiser == "muon":
        blocks = [module for module in network.modules() if isinstance(module, Block)]
        inside = [weight for block in blocks for weight in block.parameters() if weight.dim() == 2]
        return Muon(groups, turned=inside, **settings)
    return torch.optim.AdamW(groups, fused=True, **settings)


class Muon(torch.optim.AdamW):
    """AdamW, but a matrix inside a block moves by its momentum with all singular values made about one.

    Jordan et al. (2024), "Muon: an optimizer for hidden layers in neural networks".  An update is scaled to the size
    that AdamW's usually has (Liu et al., 2025, "Muon is scalable for LLM training"), so one learning rate serves both.
    torch.optim.Muon rounds to bfloat16, which many CPUs do slowly or not at all; here it is float32, and matrices of
    one shape are turned together.
    """

    MOMENTUM = 0.95

    def __init__(self, groups: list[dict[str, Any]], *, turned: list[nn.Parameter], **settings: Any) -> None:
        super().__init__(groups, fused=True, **settings)
        self.turned = turned

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]
        together: dict[torch.Size, list[tuple[nn.Parameter, Tensor]]] = {}
        for weight in self.turned:
            gradient, weight.grad = weight.grad, None  # AdamW passes over what has no gradient
            if gradient is not None:
                momentum = self.state[weight].setdefault("momentum", torch.zeros_like(weight))
                momentum.lerp_(gradient, 1 - self.MOMENTUM)
                ahead = gradient.lerp(momentum, self.MOMENTUM)  # Nesterov's
                together.setdefault(weight.shape, []).append((weight, ahead))
        super().step()
        group = self.param_groups[0]
        for shape, moves in together.items():
            directions = orthogonal(torch.stack([ahead for _, ahead in moves]))
            for (weight, _), direction in zip(moves, directions, strict=True):
                weight.mul_(1 - group["lr"] * group["weight_decay"])
                weight.add_(direction, alpha=-group["lr"] * 0.2 * max(shape) ** 0.5)


def orthogonal(matrices: Tensor) -> Tensor:
    """Matrices with the same singular vectors and singular values near one, by four steps of Newton and Schulz.

    The coefficients are those of Jordan et al. (2024): they lift small values fast and leave all between 0.7 and 1.2.
    They divide by |X| and take five steps; the root of |X X'| bounds the largest value more closely and saves one.
    """
    x = matrices.mT if matrices.shape[-2] > matrices.shape[-1] else matrices
    gram = x @ x.mT
    size = torch.linalg.matrix_norm(gram, keepdim=True).sqrt() + 1e-7
    x, gram = x / size, gram / size**2
    for step in range(4):
        gram = x @ x.mT if step else gram
        bent = torch.baddbmm(gram, gram, gram, beta=-4.7750, alpha=2.0315)
        x = torch.baddbmm(x, bent, x, beta=3.4445)
    return x.mT if matrices.shape[-2] > matrices.shape[-1] else x


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
