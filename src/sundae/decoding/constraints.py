"""What a text may not hold, must hold, or may be made of: kept at every step, not hoped for at the end."""

import re
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate

import torch
from torch import Tensor

from sundae.core.length import PAD, text_length
from sundae.core.network import Ask, Denoiser, Prediction
from sundae.core.noise import Noise
from sundae.core.sampling import Rule, Update, View
from sundae.decoding.canvas import Canvas
from sundae.decoding.reading import token_texts
from sundae.decoding.shapes import phrase_pattern
from sundae.errors import UsageError
from sundae.text.tokenizer import Tokenizer

MOST_REPAIRS = 16
"""Tokens that are tried at most at a place where the last step brought a banned phrase."""


@dataclass(frozen=True)
class Constraints:
    """Words and phrases, whole and in any case: `banned` never stand in a text, `must` do.

    `allowed` has for the number of a blank (from 1) the only words that may stand in it.
    """

    banned: tuple[str, ...] = ()
    must: tuple[str, ...] = ()
    allowed: Mapping[int, tuple[str, ...]] = field(default_factory=dict[int, tuple[str, ...]])

    def __post_init__(self) -> None:
        if not all(phrase.strip() for phrase in (*self.banned, *self.must, *sum(self.allowed.values(), ()))):
            raise UsageError("an empty word", why="it cannot be banned, allowed or required")
        for phrase in self.must:
            found = self.find_banned(phrase)
            if found:
                raise UsageError(f"{phrase!r} must appear", why=f"but {phrase[slice(*found[0])]!r} is banned")
        for number, words in self.allowed.items():
            if not words:
                raise UsageError(f"nothing is allowed in blank {number}", why="no words were given")
            if all(self.find_banned(word) for word in words):
                raise UsageError(f"nothing is allowed in blank {number}", why="every allowed word is banned")

    def allowed_and_not_banned(self) -> dict[int, tuple[str, ...]]:
        """Of the words that may stand in a blank, those that may stand in a text at all."""
        return {
            number: tuple(word for word in words if not self.find_banned(word))
            for number, words in self.allowed.items()
        }

    @cached_property
    def _banned(self) -> re.Pattern[str] | None:
        if not self.banned:
            return None
        return re.compile("|".join(phrase_pattern(phrase) for phrase in self.banned), re.IGNORECASE)

    def find_banned(self, text: str) -> list[tuple[int, int]]:
        """Where banned phrases stand."""
        return [] if self._banned is None else [found.span() for found in self._banned.finditer(text)]

    def require_none_banned(self, text: str) -> None:
        """Refuse a result that holds a banned phrase, because it stands where nothing may change."""
        for begin, end in self.find_banned(text):
            raise UsageError(
                f"{text[begin:end]!r} is banned",
                why="and it stands in text that may not change",
                hint="a lock or template without it",
            )

    def missing(self, text: str) -> list[str]:
        """Which of the words that must appear do not."""
        return [word for word in self.must if not re.search(phrase_pattern(word), text, re.IGNORECASE)]


class Guard:
    """Keeps banned phrases out of every state of a chain.

    The first state is cleaned; from then on a step that would bring a phrase is taken back where it did, position by
    position, until none is left.  That ends, because the state before had none.  A token that was taken back is not
    offered again at its place, so that the chain does not run into the same wall at every step.
    """

    def __init__(self, constraints: Constraints, tokenizer: Tokenizer) -> None:
        self.constraints, self.tokenizer = constraints, tokenizer
        self._taken_back: dict[int, list[tuple[int, int]]] = {}

    def offending(self, row: Tensor) -> set[int]:
        """Positions of a canvas whose tokens are part of a banned phrase.

        What stands after a pad is looked at too: while the chain runs, the pad may still go away.  But then what the
        text says now, up to its first pad, is looked at alone as well: a pad can end a word that goes on behind it.
        """
        places = [place for place, token in enumerate(row.tolist()) if token != PAD]
        visible = int(text_length(row[None]))
        found = self._offending(row, places)
        return found if len(places) == visible else found | self._offending(row, places[:visible])

    def _offending(self, row: Tensor, places: list[int]) -> set[int]:
        ids = [int(row[place]) for place in places]
        text = self.tokenizer.decode(ids)
        spans = self.constraints.find_banned(text)
        if not spans:
            return set()
        ends = list(accumulate(len(piece) for piece in token_texts(self.tokenizer, ids)))
        begins = [0, *ends[:-1]]
        return {
            place
            for place, begin, end in zip(places, begins, ends, strict=True)
            if any(begin < high and low < end for low, high in spans)
        }

    def clean(self, start: Tensor, canvas: Canvas, *, noise: Noise, vocabulary_size: int) -> Tensor:
        """The first state without banned phrases: where they stand, other noise is drawn, of what may stand there."""
        start = start.clone()
        every = torch.arange(vocabulary_size)
        for row, open_ in enumerate(canvas.editable):
            for attempt in range(1000):
                offending = self.offending(start[row])
                if not offending:
                    break
                open_places = [place for place in sorted(offending) if bool(open_[place])]
                if not open_places:
                    phrase = self.tokenizer.decode([int(start[row, place]) for place in sorted(offending)]).strip()
                    raise UsageError(f"{phrase!r} is banned", why="and it stands in text that may not change")
                place = torch.tensor(open_places[attempt % len(open_places)])
                allowed = every
                if canvas.barred is not None and canvas.classes is not None:
                    allowed = every[~canvas.barred[canvas.classes[row, place]]]
                fresh = noise.fold("clean", attempt).integer(len(allowed), canvas.samples[row], place)
                start[row, place] = allowed[fresh]
            else:
                raise UsageError("no start without banned phrases was found", why="too much is banned")
        return start

    def offer(self, denoiser: Denoiser) -> Denoiser:
        """The same denoiser without what was taken back before."""

        def answer(ask: Ask) -> Prediction:
            prediction = denoiser(ask)
            rows = [self._taken_back.get(row, []) for row in ask.rows.tolist()]
            if not any(rows):
                return prediction
            logits = prediction.logits.clone()
            index = (ask.where.flatten().cumsum(0) - 1).view(ask.where.shape)
            for row, pairs in enumerate(rows):
                for place, token in pairs:
                    if bool(ask.where[row, place]) and int((logits[index[row, place]] > -torch.inf).sum()) > 1:
                        logits[index[row, place], token] = -torch.inf
            return replace(prediction, logits=logits)

        return answer

    def mend(self, rows: Tensor, *, before: Tensor, after: Tensor) -> Tensor:
        """`after`, with so much of it taken back that nothing banned is left."""
        after = after.clone()
        for index, row in enumerate(rows.tolist()):
            while offending := self.offending(after[index]):
                changed = [place for place in sorted(offending) if after[index, place] != before[index, place]]
                # The last one first: what was written to its left can then go on in another way.  If no position of
                # the phrase itself changed then it was made whole by a change beside it.
                places = changed or (after[index] != before[index]).nonzero().squeeze(1).tolist()
                assert places, "the state before had no banned phrase"
                place = places[-1]
                self._taken_back.setdefault(row, []).append((place, int(after[index, place])))
                after[index, place] = before[index, place]
        return after


@dataclass(frozen=True)
class Guarded:
    """Any step rule, with banned phrases taken back after every step.

    What is taken back at the last step may be noise, if the rule makes noise; it then becomes the likeliest token that
    is not offered in vain.
    """

    rule: Rule
    guard: Guard
    deterministic: bool = field(default=False, init=False)

    @property
    def runs_to_end(self) -> bool:
        return self.rule.runs_to_end

    def step(self, view: View) -> Generator[Ask, Prediction, Update]:
        update = yield from self.rule.step(view)
        tokens = torch.where(view.editable, update.tokens, view.tokens)
        mended = self.guard.mend(view.rows, before=view.tokens, after=tokens)
        for _ in range(MOST_REPAIRS if view.step == view.steps else 0):
            held = mended != tokens
            if not bool(held.any()):
                break
            logits = yield from view.logits(mended, where=held)
            tokens = mended.masked_scatter(held, logits.argmax(1))
            mended = self.guard.mend(view.rows, before=mended, after=tokens)
        # A row that was held back has not settled: it may go another way at the next step.
        settled = None if update.settled is None else update.settled & (mended == tokens).all(1)
        return replace(update, tokens=mended, seen=update.seen & (mended == tokens), settled=settled)
