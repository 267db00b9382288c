"""A request as the chain sees it: canvases with what is given, what is open, and what may be written there."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from sundae.config import SamplingConfig
from sundae.core.length import PAD
from sundae.core.network import Ask, Denoiser, Prediction
from sundae.core.noise import Noise, sample_categorical
from sundae.core.sampling import ChainState, Rule, draw_start, run_chain, unfold_chain
from sundae.decoding.rules import build_rule


@dataclass(frozen=True)
class Canvas:
    """`template` holds the given tokens, `editable` marks the open positions, `inside` those that a row owns at all.

    `barred` (classes by tokens) says which tokens may not be written at positions of a class, and `classes` (rows by
    positions) which class a position has; None: anything goes.  Row i is sample `samples[i]` of the seed.
    """

    template: Tensor
    editable: Tensor
    inside: Tensor
    samples: Tensor
    barred: Tensor | None = None
    classes: Tensor | None = None

    @classmethod
    def empty(cls, width: int, *, rows: int, widths: Tensor | None = None, first: int = 0) -> "Canvas":
        """Nothing given: unconditional generation, or translation with a canvas of its own for each row."""
        inside = torch.ones(rows, width, dtype=torch.bool)
        if widths is not None:
            inside = torch.arange(width) < widths[:, None]
        return cls(torch.full((rows, width), PAD), inside, inside, torch.arange(first, first + rows))


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


def constrained(denoiser: Denoiser, canvas: Canvas) -> Denoiser:
    """The same denoiser, but it never proposes a token that is barred at its position."""
    barred, classes = canvas.barred, canvas.classes
    if barred is None or classes is None:
        return denoiser

    def answer(ask: Ask) -> Prediction:
        prediction = denoiser(ask)
        mask = barred[classes[ask.rows][ask.where]]
        return replace(prediction, logits=prediction.logits.masked_fill(mask, -torch.inf))

    return answer


def first_state(canvas: Canvas, *, vocabulary_size: int, noise: Noise) -> Tensor:
    """x_0: noise where the chain may write, uniform over what is not barred there."""
    start = draw_start(
        canvas.template, editable=canvas.editable, samples=canvas.samples, vocabulary_size=vocabulary_size, noise=noise
    )
    return without_barred(start, canvas, noise=noise)


def without_barred(start: Tensor, canvas: Canvas, *, noise: Noise) -> Tensor:
    """A first state in which nothing stands where it is barred: a schedule may leave a position as it started."""
    if canvas.barred is None or canvas.classes is None:
        return start
    wrong = canvas.editable & canvas.barred[canvas.classes, start]
    allowed = (~canvas.barred[canvas.classes[wrong]]).float()
    positions = torch.arange(start.shape[1])
    uniform = noise.fold("allowed start").uniform(canvas.samples[:, None], positions)[wrong]
    return start.masked_scatter(wrong, sample_categorical(allowed.log(), uniform=uniform))


def run_canvas(
    denoiser: Denoiser,
    canvas: Canvas,
    *,
    sampling: SamplingConfig,
    vocabulary_size: int,
    seed: int,
    rule: Rule | None = None,
    start: Tensor | None = None,
) -> Iterator[ChainState]:
    """Run the chain on a canvas, with the rule that the settings name unless another is given."""
    noise = Noise(seed)
    chain = unfold_chain(
        first_state(canvas, vocabulary_size=vocabulary_size, noise=noise) if start is None else start,
        rule=build_rule(sampling) if rule is None else rule,
        steps=sampling.steps,
        noise=noise,
        samples=canvas.samples,
        inside=canvas.inside,
        editable=canvas.editable,
        stop=sampling.stop_early,
    )
    return run_chain(constrained(denoiser, canvas), chain)
