"""What the loop trains: a module whose forward gives a loss.  Under DDP it is this that is wrapped."""

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn

from sundae.config import ObjectiveConfig
from sundae.core.corruption import corrupt, corruption_rates
from sundae.core.length import half_length, length_loss, likeliest_half_length, text_length
from sundae.core.network import Transformer
from sundae.core.noise import Noise
from sundae.core.objective import unrolled_loss
from sundae.training.batches import Batch
from sundae.training.fused import fused_judge


@dataclass(frozen=True)
class Losses:
    """`total` carries the gradient; `parts` are detached figures for the log."""

    total: Tensor
    parts: dict[str, Tensor]


class LossModule(Protocol):
    """A network together with its objective."""

    @property
    def network(self) -> Transformer: ...

    def begin(self, done: float) -> None:
        """Told before an update what share of all is done."""
        ...

    def __call__(self, batch: Batch, noise: Noise) -> Losses: ...


class DenoisingLoss(nn.Module):
    """L^(1:k), and beside it the length loss where there is a source.

    Paper: sec. 2.1, eq. 3; sec. 3.1 (Target Length Prediction); app. B.
    """

    def __init__(self, network: Transformer, objective: ObjectiveConfig) -> None:
        super().__init__()
        self.network, self.objective = network, objective
        self.plain = False

    def begin(self, done: float) -> None:
        """At first L^(1) alone, if so configured: an update costs about half, and learns nearly as much."""
        self.plain = done < self.objective.plain_share

    def forward(self, batch: Batch, noise: Noise) -> Losses:
        network, objective = self.network, self.objective
        plain = self.plain and network.training  # validation is of the whole loss
        rates = corruption_rates(batch.samples, noise=noise, spread=objective.corruption_rates)
        corrupted = corrupt(
            batch.clean,
            rates=rates,
            samples=batch.samples,
            vocabulary_size=network.config.vocabulary_size,
            noise=noise,
        )
        memory, parts, extra = None, {}, 0.0
        if batch.source is not None and batch.source_inside is not None:
            encodings = network.encode(batch.source, inside=batch.source_inside)
            half = half_length(text_length(batch.clean))
            memory = network.remember(encodings, inside=batch.source_inside, half=half)
            if network.config.length_prediction:
                logits = network.length_predictor(encodings, inside=batch.source_inside)
                extra = length_loss(logits, half=half)
                parts = {
                    "length_loss": extra.detach(),
                    "length_accuracy": (likeliest_half_length(logits) == half).float().mean(),
                }
        inside = None if bool(batch.inside.all()) else batch.inside
        judge = fused_judge(
            network.embedding.weight,
            label_smoothing=objective.label_smoothing,
            temperature=objective.unroll_temperature,
        )
        loss = unrolled_loss(
            lambda x: network(x, inside=inside, memory=memory),
            clean=batch.clean,
            corrupted=corrupted,
            inside=batch.inside,
            judge=judge,
            noise=noise,
            samples=batch.samples,
            steps=1 if plain else objective.unroll_steps,
            weights=() if plain else objective.step_weights,
        )
        for step, (value, accuracy) in enumerate(zip(loss.per_step, loss.accuracy, strict=True), start=1):
            parts |= {f"loss_{step}": value, f"accuracy_{step}": accuracy}
        return Losses(loss.total + objective.length_weight * extra, parts)


@torch.no_grad()
def validate(module: LossModule, batches: list[Batch], *, noise: Noise) -> dict[str, float]:
    """Mean figures over fixed batches with fixed corruptions, in evaluation mode."""
    was_training = module.network.training
    module.network.eval()
    sums: dict[str, float] = {}
    tokens = 0
    for index, batch in enumerate(batches):
        losses = module(batch, noise.fold("validation", index))
        tokens += batch.tokens
        for name, value in {"loss": losses.total, **losses.parts}.items():
            sums[name] = sums.get(name, 0.0) + float(value) * batch.tokens
    module.network.train(was_training)
    return {name: total / tokens for name, total in sums.items()}
