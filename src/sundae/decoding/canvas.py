"""A request as the chain sees it: a canvas with what is given, what is open, and what may not be written there."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from sundae.config import SamplingConfig
from sundae.core.length import PAD
from sundae.core.network import Ask, Denoiser, Prediction
from sundae.core.noise import Noise
from sundae.core.sampling import ChainState, draw_start, run_chain, unfold_chain
from sundae.decoding.rules import build_rule


@dataclass(frozen=True)
class Canvas:
    """`template` holds the given tokens, `editable` marks the open positions, `inside` those that a row owns at all.

    `barred` (positions by tokens) is True where a token may not be written; None: anything goes.
    """

    template: Tensor
    editable: Tensor
    inside: Tensor
    barred: Tensor | None = None

    @classmethod
    def empty(cls, width: int, *, rows: int, widths: Tensor | None = None) -> "Canvas":
        """Nothing given: unconditional generation, or translation with a canvas of its own for each row."""
        inside = torch.ones(rows, width, dtype=torch.bool)
        if widths is not None:
            inside = torch.arange(width) < widths[:, None]
        return cls(torch.full((rows, width), PAD), inside, inside)

    def repeated(self, times: int) -> "Canvas":
        """The same request several times, for candidates that differ by their noise."""
        rows = (each.repeat_interleave(times, 0) for each in (self.template, self.editable, self.inside))
        return Canvas(*rows, barred=self.barred)


Watch = Callable[[ChainState], None]


def last_of(states: Iterator[ChainState], watch: Watch | None = None) -> ChainState:
    """Drain a chain, showing each state to `watch`."""
    state = next(states)
    if watch is not None:
        watch(state)
    for state in states:
        if watch is not None:
            watch(state)
    return state


def constrained(denoiser: Denoiser, barred: Tensor) -> Denoiser:
    """The same denoiser, but it never proposes a token that is barred at its position (positions by tokens)."""

    def answer(ask: Ask) -> Prediction:
        prediction = denoiser(ask)
        positions = ask.where.nonzero()[:, 1]
        return replace(prediction, logits=prediction.logits.masked_fill(barred[positions], -torch.inf))

    return answer


def run_canvas(
    denoiser: Denoiser, canvas: Canvas, *, sampling: SamplingConfig, vocabulary_size: int, seed: int
) -> Iterator[ChainState]:
    """Run the chain on a canvas; row i is sample i of the seed, whatever the batch."""
    noise, samples = Noise(seed), torch.arange(len(canvas.template))
    start = draw_start(
        canvas.template, editable=canvas.editable, samples=samples, vocabulary_size=vocabulary_size, noise=noise
    )
    chain = unfold_chain(
        start,
        rule=build_rule(sampling),
        steps=sampling.steps,
        noise=noise,
        samples=samples,
        inside=canvas.inside,
        editable=canvas.editable,
        stop=sampling.stop_early,
    )
    return run_chain(denoiser if canvas.barred is None else constrained(denoiser, canvas.barred), chain)
