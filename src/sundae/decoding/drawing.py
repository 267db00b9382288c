"""From logits to tokens at one step of a chain: a temperature that may change on the way, and truncation."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from sundae.config import LOWEST_TEMPERATURE
from sundae.core.noise import SLICE, sample_categorical
from sundae.core.sampling import View
from sundae.decoding.truncation import keep_likeliest


def in_slices(compute: Callable[[Tensor], Tensor], logits: Tensor) -> Tensor:
    """One number for each line of logits, computed a few lines at a time: beyond the cache it is far slower."""
    count = -(-logits.numel() // SLICE)
    return torch.cat([compute(own) for own in logits.chunk(count)]) if count > 1 else compute(logits)


def log_probability(logits: Tensor, tokens: Tensor) -> Tensor:
    """Of one token for each line of logits."""
    return logits.gather(1, tokens[:, None]).squeeze(1) - in_slices(lambda own: own.float().logsumexp(-1), logits)


def gumbel_noise(uniform: Tensor) -> Tensor:
    """Of Gumbel's distribution, from uniform numbers."""
    # Between 0 and 1, never either: in float32 the largest number would round to 1.
    return -torch.log(-torch.log(uniform.double() + 2.0**-25)).float()


@dataclass(frozen=True)
class Drawing:
    """How a step draws its tokens.

    The temperature goes linearly from `temperature` at the first step to `final_temperature` at the last (None: it
    stays), as in Paella (Rampas et al., 2022, arXiv 2211.07292) and DiffusionGemma (0.8 to 0.4; `transformers`).
    `top_k` and `top_p` cut the tail of the model's own distribution, before the temperature, as the baselines do.
    """

    temperature: float = 1.0
    final_temperature: float | None = None
    top_k: int = 0
    top_p: float = 1.0

    @property
    def always_argmax(self) -> bool:
        """Whether every step takes the likeliest token."""
        return self.temperature == 0 and self.final_temperature in (None, 0)

    @property
    def plain(self) -> bool:
        """Whether there is nothing here but one temperature."""
        return self.final_temperature in (None, self.temperature) and self.top_k == 0 and self.top_p == 1

    def temperature_at(self, step: int, steps: int) -> float:
        """tau_t; a chain of one step has the first temperature."""
        if self.final_temperature is None or steps == 1:
            return self.temperature
        now = self.temperature + (self.final_temperature - self.temperature) * ((step - 1) / (steps - 1))
        return now if now >= LOWEST_TEMPERATURE else 0.0

    def tokens(self, logits: Tensor, *, view: View, where: Tensor) -> Tensor:
        """One token for each True of `where`, whose logits these are."""
        return sample_categorical(
            keep_likeliest(logits, top_k=self.top_k, top_p=self.top_p),
            uniform=view.uniform("token")[where],
            temperature=self.temperature_at(view.step, view.steps),
        )
