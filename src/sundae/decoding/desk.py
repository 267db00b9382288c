"""Running requests: rows of many requests in batches that fit the memory, scored and ranked."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import torch

from sundae.config import SamplingConfig
from sundae.core.length import PAD, text_length
from sundae.core.network import Denoiser
from sundae.core.noise import Noise
from sundae.core.sampling import ChainState, model_score
from sundae.decoding.canvas import Canvas, Watch, constrained, first_state, run_canvas
from sundae.decoding.constraints import Constraints, Guard, Guarded
from sundae.decoding.layout import FREE, FREE_OR_END, Desk, Layout
from sundae.decoding.reading import Origin, Reading, Stretch, together
from sundae.decoding.reuse import Head, Reusing
from sundae.decoding.rules import build_rule

BATCH_BYTES = 256 << 20
"""What the logits of one batch may take, if all its positions are asked for."""


def batch_rows(*, canvas: int, vocabulary_size: int) -> int:
    """Rows that are run together."""
    return max(1, BATCH_BYTES // (4 * canvas * vocabulary_size))


@dataclass(frozen=True)
class Outcome:
    """One finished row: its tokens, its model score (of the canvas) and the length of its text, and its cost.

    If it was watched, also how its batch is read and which row of that it was.
    """

    tokens: list[int]
    score: float
    length: int
    steps: int
    network_calls: int
    watched: tuple[Reading, int] | None = field(default=None, compare=False)

    @property
    def score_per_token(self) -> float:
        """What candidates of different length are compared by."""
        return self.score / max(1, self.length)

    def origins(self, *, source: str | None = None, score: float | None = None) -> tuple[Origin, ...]:
        """This row, if anybody saw it; for a translation, of what; its score per token unless another is given."""
        if self.watched is None:
            return ()
        return (Origin(*self.watched, self.score_per_token if score is None else score, source),)


@dataclass(frozen=True)
class Order:
    """One row to be written: a layout, or None for an empty canvas, and which sample of the seed it is.

    `width` is a canvas of its own, for a model whose canvases differ.
    """

    layout: Layout | None
    sample: int
    width: int | None = None


def canvas_of(orders: Sequence[Order], desk: Desk) -> Canvas:
    """Rows as one canvas; a model of whole texts sees pads up to its canvas, another one nothing beyond the text."""
    widths = [_width(order, desk) for order in orders]
    shape = (len(orders), max(widths))
    template, classes = torch.full(shape, PAD), torch.full(shape, FREE)
    editable = torch.zeros(shape, dtype=torch.bool)
    for row, order in enumerate(orders):
        if order.layout is None:
            editable[row, : widths[row]] = True
            classes[row] = FREE_OR_END
            continue
        position = 0
        for piece in order.layout.pieces:
            end = position + len(piece.tokens)
            template[row, position:end] = torch.tensor(piece.tokens)
            editable[row, position:end] = torch.tensor(piece.editable)
            if piece.classes:
                classes[row, position:end] = torch.tensor(piece.classes)
            position = end
    inside = torch.arange(shape[1]) < torch.tensor(widths)[:, None]
    samples = torch.tensor([order.sample for order in orders])
    if not bool((classes[editable] != FREE_OR_END).any()):
        return Canvas(template, editable, inside, samples)
    return Canvas(template, editable, inside, samples, desk.classes.table(), classes)


def _width(order: Order, desk: Desk) -> int:
    if order.width is not None:
        return order.width
    return desk.canvas if desk.ends or order.layout is None else len(order.layout)


def run_orders(
    orders: Sequence[Order],
    desk: Desk,
    *,
    denoiser: Denoiser,
    head: Head,
    sampling: SamplingConfig,
    seed: int,
    constraints: Constraints | None = None,
    watch: Watch | None = None,
    progress: Callable[[int], None] | None = None,
    scored: bool = True,
    spare: bool = True,
) -> list[Outcome]:
    """Run all rows to their end, batch by batch; `watch` sees each of them.

    The denoiser is asked about rows by their numbers among all orders.  `head` turns its hidden states into logits:
    what did not change is not computed again, unless `spare` is False.  A score costs one more call; without it the
    scores are 0.
    """
    size = len(desk.shapes.begins)
    rows = batch_rows(canvas=desk.canvas, vocabulary_size=size)
    outcomes: list[Outcome] = []
    for begin in range(0, len(orders), rows):
        some = orders[begin : begin + rows]
        canvas = canvas_of(some, desk)
        own = _numbered_from(begin, denoiser)
        reusing = Reusing(own, head=head, rows=len(some), spare=spare)
        rule, start, asked = build_rule(sampling), None, reusing
        if constraints is not None and constraints.banned:
            guard, noise = Guard(constraints, desk.tokenizer), Noise(seed)
            first = first_state(canvas, vocabulary_size=size, noise=noise)
            start = guard.clean(first, canvas, noise=noise, vocabulary_size=size)
            rule, asked = Guarded(rule, guard), guard.offer(constrained(reusing, canvas))
        states = run_canvas(asked, canvas, sampling=sampling, vocabulary_size=size, seed=seed, rule=rule, start=start)
        reading = None if watch is None else _reading(some, canvas, desk, own)
        seen = None if reading is None else together(reading, watch)
        state, ends = _drained(states, reusing, seen)
        outcomes += _outcomes(state, ends, canvas, own if scored else None, reading=reading)
        if progress is not None:
            progress(len(outcomes))
    return outcomes


def _numbered_from(first: int, denoiser: Denoiser) -> Denoiser:
    return lambda ask: denoiser(replace(ask, rows=ask.rows + first))


def _reading(orders: Sequence[Order], canvas: Canvas, desk: Desk, denoiser: Denoiser) -> Reading:
    stretches: list[list[Stretch] | None] = []
    for order in orders:
        pieces = () if order.layout is None else order.layout.pieces
        own = [Stretch(len(piece.tokens), piece.text, piece.leading_space) for piece in pieces]
        stretches.append(own or None)
    return Reading(desk.tokenizer, canvas=canvas, denoiser=denoiser, stretches=stretches)


def _drained(states: Iterator[ChainState], reusing: Reusing, watch: Watch | None) -> tuple[ChainState, list[int]]:
    """The last state, with the calls that were really made, and the step at which each row ended."""
    steps = torch.zeros_like(reusing.calls)
    state = next(states)  # x_0
    while True:
        state = replace(state, calls=reusing.calls, network_calls=reusing.network_calls)
        if watch is not None:
            watch(state)
        following = next(states, None)
        if following is None:
            return state, steps.tolist()
        steps[~state.finished] = following.step
        state = following


def _outcomes(
    state: ChainState, steps: list[int], canvas: Canvas, judge: Denoiser | None, *, reading: Reading | None
) -> list[Outcome]:
    scores = [0.0] * len(state.tokens)
    if judge is not None:
        scores = model_score(judge, state.tokens, inside=canvas.inside).total.tolist()
    length = text_length(state.tokens.masked_fill(~canvas.inside, PAD))
    return [
        Outcome(
            tokens.tolist(),
            scores[row],
            int(length[row]),
            steps[row],
            int(state.calls[row]),
            None if reading is None else (reading, row),
        )
        for row, tokens in enumerate(state.tokens)
    ]
