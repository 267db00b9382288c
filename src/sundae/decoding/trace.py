"""What a chain did to a text, step by step: recorded while it runs, kept as JSON.

A trace is one JSON object in UTF-8:

    format        "sundae-trace"
    version       1
    sundae        the version of the package that wrote it
    verb          what was asked for: "generate", "fill", ...
    model         the model's name, for people
    seed          the seed of the chain's noise
    sampling      the sampling settings, name by name
    note          what `probability` and `tracing_calls` are, for people
    rows          one object for each text, or for each window or sentence of a long one:
      text            the finished text
      score           what it was ranked by
      source          the text that it translates, or null
      locked          the positions that were given, and so never change
      tracing_calls   how often the network computed this text for the probabilities alone: once for each state
      states          one object for x_0, x_1, ...:
        step            t
        calls           network calls that this text has cost so far; those for tracing are not among them
        length          how many tokens the text has; what the canvas holds after them is not part of it
        tokens          the text of each position: the first `length` of them join to the text at this step
        labels          {position: token} where a token is not what it shows, such as a part of a character
        changed         the positions that this step changed
        probability     f_theta(y_i | y) of each position's token, given the whole state

Byte-level tokens may end inside a character.  The character is then shown by the token that completes it, and the
tokens before it show nothing; each of them has its label, such as \\xe2\\x98.
"""

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeVar, cast

import torch
from torch import Tensor

import sundae
from sundae.core.network import Ask, Denoiser
from sundae.core.sampling import ChainState
from sundae.decoding.reading import Reading, Shown
from sundae.errors import DataError

FORMAT = "sundae-trace"
VERSION = 1
NOTE = (
    "probability is f_theta(y_i | y), the model's probability of each token given the whole state; for that the "
    "network computes each state once more (tracing_calls), which is not a cost of decoding and not counted in calls"
)

AT_ONCE = 32
"""States whose probabilities are computed in one call."""

Setting = str | int | float | bool | None


@dataclass(frozen=True, kw_only=True)
class TracedState(Shown):
    """One text at one step; the fields are those of the JSON."""

    step: int
    calls: int
    changed: tuple[int, ...]
    probability: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class TracedRow:
    """One text from its first state to its last."""

    states: tuple[TracedState, ...]
    locked: tuple[int, ...]
    score: float
    source: str | None = None

    @property
    def text(self) -> str:
        """The finished text."""
        return self.states[-1].text


@dataclass(frozen=True, kw_only=True)
class Trace:
    """What was asked for, and all that happened to each text."""

    verb: str
    model: str
    seed: int
    sampling: Mapping[str, Setting]
    rows: tuple[TracedRow, ...]

    def to_json(self) -> str:
        """The trace as one line."""
        content = {
            "format": FORMAT,
            "version": VERSION,
            "sundae": sundae.__version__,
            "verb": self.verb,
            "model": self.model,
            "seed": self.seed,
            "sampling": dict(self.sampling),
            "note": NOTE,
            "rows": [_row_content(row) for row in self.rows],
        }
        return json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":")) + "\n"

    @classmethod
    def from_json(cls, text: str, *, where: str = "the trace") -> "Trace":
        """The inverse of `to_json`; whatever is not a trace is a DataError that says where."""
        try:
            content: object = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise DataError(f"{where} is not a trace", why=f"not valid JSON: {error}") from None
        if not isinstance(content, dict) or content.get("format") != FORMAT:
            raise DataError(f"{where} is not a trace", why=f'it lacks "format": "{FORMAT}"')
        if content.get("version") != VERSION:
            raise DataError(
                f"cannot read {where}",
                why=f"version {content.get('version')!r} is not {VERSION}",
                hint="a newer sundae",
            )
        try:
            return _read_trace(_Fields(content, "it"))
        except _BadTraceError as error:
            raise DataError(f"{where} is damaged", why=str(error)) from None


class Recorder:
    """A Watch that keeps every state of a chain; what `denoiser` thinks of a row is asked when the row is wanted."""

    def __init__(self, denoiser: Denoiser, *, reading: Reading) -> None:
        self._denoiser, self._reading = denoiser, reading
        self._states: list[ChainState] = []

    def __call__(self, state: ChainState) -> None:
        """Keep x_t."""
        self._states.append(state)

    def row(self, number: int, *, score: float, source: str | None = None) -> TracedRow:
        """What happened to one row of the chain, until it was finished."""
        assert self._states, "a recorder must have seen the chain"
        before = sum(not bool(state.finished[number]) for state in self._states)
        states = self._states[: before + 1]
        own = self._reading.inside[number]
        tokens = torch.stack([state.tokens[number] for state in states])
        likely = torch.cat([self._probability(some, number=number) for some in tokens.split(AT_ONCE)])[:, own].tolist()
        traced: list[TracedState] = []
        for state, probability in zip(states, likely, strict=True):
            shown = self._reading.read(state.tokens[number], row=number)
            traced.append(
                TracedState(
                    step=state.step,
                    calls=int(state.calls[number]),
                    length=shown.length,
                    tokens=shown.tokens,
                    labels=shown.labels,
                    changed=tuple(state.changed[number][own].nonzero().squeeze(1).tolist()),
                    probability=tuple(float(f"{each:.4g}") for each in probability),
                )
            )
        locked = tuple(self._reading.locked[number].nonzero().squeeze(1).tolist())
        return TracedRow(states=tuple(traced), locked=locked, score=score, source=source)

    def _probability(self, tokens: Tensor, *, number: int) -> Tensor:
        inside = self._reading.inside[number].expand_as(tokens)
        rows = torch.full((len(tokens),), number)
        logits = self._denoiser(Ask(tokens, rows, inside, inside)).logits.float()
        chosen = logits.gather(1, tokens[inside][:, None]).squeeze(1) - logits.logsumexp(1)
        return logits.new_zeros(tokens.shape).masked_scatter(inside, chosen.exp().clamp(max=1.0))


def _row_content(row: TracedRow) -> dict[str, object]:
    return {
        "text": row.text,
        "score": row.score,
        "source": row.source,
        "locked": row.locked,
        "tracing_calls": len(row.states),
        "states": [
            {
                "step": state.step,
                "calls": state.calls,
                "length": state.length,
                "tokens": state.tokens,
                "labels": {str(place): label for place, label in state.labels.items()},
                "changed": state.changed,
                "probability": state.probability,
            }
            for state in row.states
        ],
    }


# ---- reading


class _BadTraceError(ValueError):
    pass


_T = TypeVar("_T")


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("is not a text")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        raise TypeError("holds a lone surrogate") from None
    return value


def _whole(value: object) -> int:
    if type(value) is not int:
        raise TypeError("is not a whole number")
    return value


def _count(value: object) -> int:
    if _whole(value) < 0:
        raise TypeError("is negative")
    return cast(int, value)


def _number(value: object) -> float:
    if type(value) not in (int, float) or not math.isfinite(cast(float, value)):
        raise TypeError("is not a finite number")
    return float(cast(float, value))


def _share(value: object) -> float:
    if not 0.0 <= _number(value) <= 1.0:
        raise TypeError("is not between 0 and 1")
    return float(cast(float, value))


def _setting(value: object) -> Setting:
    if isinstance(value, str):
        return _text(value)
    return value if value is None or isinstance(value, bool) or type(value) is int else _number(value)


def _object(value: object) -> dict[str, object]:
    if not isinstance(value, dict):
        raise TypeError("is not an object")
    return cast(dict[str, object], value)


def _list(value: object) -> list[object]:
    if not isinstance(value, list):
        raise TypeError("is not a list")
    return cast(list[object], value)


@dataclass(frozen=True)
class _Fields:
    """An object of the JSON, and where in it we are, so that an error can say so."""

    content: Mapping[str, object]
    where: str

    def get(self, name: str, check: Callable[[object], _T]) -> _T:
        if name not in self.content:
            raise _BadTraceError(f"{self.where} has no {name!r}")
        try:
            return check(self.content[name])
        except TypeError as error:
            raise _BadTraceError(f"{name!r} of {self.where} {error}") from None

    def each(self, name: str, check: Callable[[object], _T]) -> tuple[_T, ...]:
        return self.get(name, lambda value: tuple(map(check, _list(value))))

    def objects(self, name: str, singular: str) -> list["_Fields"]:
        inside = "" if self.where == "it" else f" of {self.where}"
        return [
            _Fields(content, f"{singular} {number}{inside}") for number, content in enumerate(self.each(name, _object))
        ]

    def require(self, holds: bool, why: str) -> None:
        if not holds:
            raise _BadTraceError(f"{self.where} {why}")


def _read_trace(fields: _Fields) -> Trace:
    settings = fields.get("sampling", _object)
    trace = Trace(
        verb=fields.get("verb", _text),
        model=fields.get("model", _text),
        seed=fields.get("seed", _whole),
        sampling={_text(name): _Fields(settings, "'sampling'").get(name, _setting) for name in settings},
        rows=tuple(_read_row(row) for row in fields.objects("rows", "row")),
    )
    fields.require(len(trace.rows) > 0, "has no rows")
    return trace


def _read_row(fields: _Fields) -> TracedRow:
    row = TracedRow(
        states=tuple(_read_state(state) for state in fields.objects("states", "state")),
        locked=fields.each("locked", _count),
        score=fields.get("score", _number),
        source=fields.get("source", lambda value: None if value is None else _text(value)),
    )
    fields.require(len(row.states) > 0, "has no states")
    width = len(row.states[0].tokens)
    fields.require(all(len(state.tokens) == width for state in row.states), "has states of different width")
    fields.require(all(place < width for place in row.locked), "has a lock outside its canvas")
    fields.require(all(a.step < b.step for a, b in pairwise(row.states)), "has steps in disorder")
    locked = set(row.locked)
    fields.require(all(locked.isdisjoint(state.changed) for state in row.states), "changes what is locked")
    fields.require(fields.get("text", _text) == row.text, "has a text that its last state does not say")
    return row


def _read_state(fields: _Fields) -> TracedState:
    labels = fields.get("labels", _object)
    named = _Fields(labels, f"the labels of {fields.where}")
    fields.require(all(name.isascii() and name.isdecimal() for name in labels), "has a label without a position")
    state = TracedState(
        step=fields.get("step", _count),
        calls=fields.get("calls", _count),
        length=fields.get("length", _count),
        tokens=fields.each("tokens", _text),
        labels={int(name): named.get(name, _text) for name in labels},
        changed=fields.each("changed", _count),
        probability=fields.each("probability", _share),
    )
    width = len(state.tokens)
    fields.require(len(state.probability) == width, "has not one probability for each token")
    fields.require(state.length <= width, "has a text longer than its canvas")
    fields.require(all(place < width for place in (*state.changed, *state.labels)), "names a position outside")
    return state
