"""Templates as canvases: how long each blank is tried, and which tokens may stand where in it.

A blank whose length is not fixed in tokens gives several layouts; they are all tried, and the score decides.
"""

import itertools
import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from sundae.core.length import PAD
from sundae.decoding.shapes import TokenShapes
from sundae.errors import UsageError
from sundae.text.template import Blank, Template
from sundae.text.tokenizer import Tokenizer, continuation, text_ids

LONGEST_UNKNOWN = 12
"""Most tokens that are tried for `[[?]]` when text follows it."""
LONGEST_WORD = 4
"""Most tokens that are tried for one word."""
_MOST_GAPS = 2000
"""Shapes of one blank that are looked at, the shortest first: [[1-40w]] has billions."""

# Classes of positions, by what may stand there.
FREE, FREE_OR_END, BEGIN, WORD_BEGIN, WORD_INSIDE, WORD_START, AFTER_WORD, AFTER_WORD_OR_END, APART = range(9)


class Classes:
    """Which tokens are barred at a position of each class; blanks with a vocabulary of their own add classes."""

    def __init__(self, shapes: TokenShapes) -> None:
        every = torch.ones_like(shapes.begins)
        begins, wordlike = shapes.begins, shapes.wordlike
        allowed = {
            FREE: every,
            FREE_OR_END: every,
            BEGIN: begins,
            WORD_BEGIN: begins & wordlike,
            WORD_INSIDE: ~begins & wordlike,
            WORD_START: ~begins & wordlike & shapes.lettered,  # a word without a space before it
            AFTER_WORD: ~(wordlike & ~begins),
            AFTER_WORD_OR_END: ~(wordlike & ~begins),
            APART: begins | ~shapes.lettered,  # no word grows together with the one before it
        }
        ending = (FREE_OR_END, AFTER_WORD_OR_END)
        self._rows = [_barred(tokens.clone(), with_end=kind in ending) for kind, tokens in allowed.items()]
        self._own: dict[frozenset[int], int] = {}

    def of_tokens(self, tokens: frozenset[int]) -> int:
        """The class of positions at which only these tokens may stand."""
        if tokens not in self._own:
            allowed = torch.zeros_like(self._rows[0])
            allowed[list(tokens)] = True
            self._own[tokens] = len(self._rows)
            self._rows.append(_barred(allowed, with_end=False))
        return self._own[tokens]

    def table(self) -> Tensor:
        """Classes by tokens."""
        return torch.stack(self._rows)


def _barred(allowed: Tensor, *, with_end: bool) -> Tensor:
    barred = ~allowed
    barred[PAD] = not with_end
    return barred


@dataclass(frozen=True)
class Piece:
    """A stretch of a canvas: text as it was given, or a gap with a class for each of its positions.

    A gap's `tokens` are pads, but where a word that must or may appear has its place: there they are fixed.
    """

    tokens: tuple[int, ...]
    text: str | None = None
    classes: tuple[int, ...] = ()
    leading_space: bool = False

    @property
    def editable(self) -> list[bool]:
        """What the chain may write."""
        return [self.text is None and token == PAD for token in self.tokens]


@dataclass(frozen=True)
class Layout:
    """One way to lay a template on a canvas."""

    pieces: tuple[Piece, ...]

    def __len__(self) -> int:
        return sum(len(piece.tokens) for piece in self.pieces)

    @property
    def further_tokens(self) -> int:
        """Tokens that go on with a word, in blanks of words."""
        return sum(piece.classes.count(WORD_INSIDE) for piece in self.pieces)

    def text(self, tokens: Sequence[int], tokenizer: Tokenizer) -> tuple[str, tuple[tuple[int, int], ...]]:
        """What a finished canvas says, and where in it the gaps are; given text is put back as it was written."""
        parts: list[str] = []
        spans: list[tuple[int, int]] = []
        position = length = 0
        for piece in self.pieces:
            part = piece.text
            if part is None:
                own = text_ids(tokens[position : position + len(piece.tokens)])
                part = continuation(tokenizer, own, after=tokens[:position])
                if piece.leading_space and not part.startswith(" "):
                    part = " " + part
                spans.append((length + len(part) - len(part.lstrip(" ")), length + len(part)))
            parts.append(part)
            position += len(piece.tokens)
            length += len(part)
        return "".join(parts), tuple(spans)


@dataclass(frozen=True)
class Desk:
    """What laying out needs to know of a model: its tokens, its canvas, and whether its texts end before it does."""

    tokenizer: Tokenizer
    shapes: TokenShapes
    canvas: int
    ends: bool
    classes: Classes = field(compare=False)

    def spell(self, word: str, *, after_space: bool) -> list[int]:
        """The tokens of a word inside a text."""
        return self.tokenizer.encode(f" {word}" if after_space and self.shapes.spaced else word)


def lay_out(
    template: Template,
    desk: Desk,
    *,
    tries: int,
    seed: int = 0,
    allowed: Mapping[int, Sequence[str]] | None = None,
    first_number: int = 1,
) -> list[Layout]:
    """All ways to lay a template on the canvas, or `tries` of them if there are more, the shortest among them.

    `first_number` is what the template's first blank is called in errors: it may be a window of a longer one.
    """
    given = {
        place: Piece(tuple(desk.tokenizer.encode(segment.text)), segment.text)
        for place, segment in enumerate(template.segments)
        if not isinstance(segment, Blank)
    }
    room = desk.canvas - sum(len(piece.tokens) for piece in given.values())
    least = sum(_fewest(blank, desk) for blank in template.blanks)
    if least > room:
        total = desk.canvas - room + least
        raise UsageError(
            f"the template has {total} tokens", why=f"the model's canvas holds {desk.canvas}", hint="shorter blanks"
        )
    options: list[list[Piece]] = []
    number = 0
    for place, segment in enumerate(template.segments):
        if not isinstance(segment, Blank):
            options.append([given[place]])
            continue
        number += 1
        spare = room - least + _fewest(segment, desk)
        last = place == len(template.segments) - 1
        words = (allowed or {}).get(number)
        found = list(itertools.islice(_gaps(segment, desk, room=spare, last=last, words=words), _MOST_GAPS))
        if not found:
            name = f"blank {number + first_number - 1} cannot be filled"
            raise UsageError(name, why=_why_no_word_fits(segment), hint="a blank of another length")
        options.append(found)
    layouts = _chosen(options, room=desk.canvas, tries=tries, seed=seed)
    if not layouts:
        raise UsageError("the blanks do not fit together", why=f"the model's canvas holds {desk.canvas} tokens")
    return layouts


def _why_no_word_fits(blank: Blank) -> str:
    count = f"{blank.low}" if blank.low == blank.high else f"{blank.low} to {blank.high}"
    if blank.unit == "words":
        return f"no allowed words add up to {count}, or the canvas has no room for them"
    return f"no allowed word or phrase has {count} tokens, or the canvas has no room for it"


def _chosen(options: list[list[Piece]], *, room: int, tries: int, seed: int) -> list[Layout]:
    count = math.prod(len(each) for each in options)
    if count <= max(tries, 1000):
        every = [Layout(pieces) for pieces in itertools.product(*options)]
        fitting = sorted((layout for layout in every if len(layout) <= room), key=len)
        if len(fitting) <= tries:
            return fitting
        chosen = random.Random(seed).sample(range(1, len(fitting)), tries - 1)  # noqa: S311
        return [fitting[index] for index in (0, *sorted(chosen))]
    chooser = random.Random(seed)  # noqa: S311 - which lengths are tried is no secret
    shortest = Layout(tuple(min(each, key=lambda piece: len(piece.tokens)) for each in options))
    found = {shortest: None} if len(shortest) <= room else {}
    for _ in range(50 * tries):
        layout = Layout(tuple(chooser.choice(each) for each in options))
        if len(layout) <= room:
            found[layout] = None
        if len(found) >= tries:
            break
    return list(found)


def _fewest(blank: Blank, desk: Desk) -> int:
    characters = blank.unit == "words" and desk.tokenizer.kind == "character"
    return 2 * blank.low if characters else blank.low


def _gaps(blank: Blank, desk: Desk, *, room: int, last: bool, words: Sequence[str] | None) -> Iterator[Piece]:
    """The lengths that a blank may have, as gaps."""
    first = BEGIN if blank.leading_space else FREE
    if words is not None:
        yield from _own_words(blank, desk, room=room, words=words)
    elif blank.unit == "words":
        for count in range(blank.low, blank.high + 1):
            yield from _word_gaps(count, desk, room=room, leading_space=blank.leading_space)
    elif last and desk.ends and blank.low < blank.high:
        # Nothing follows: the model itself decides where the text ends.
        size = min(blank.high, room)
        classes = [first, *[FREE] * (blank.low - 1), *[FREE_OR_END] * (size - blank.low)]
        yield Piece((PAD,) * size, classes=tuple(classes), leading_space=blank.leading_space)
    else:
        high = min(blank.high, LONGEST_UNKNOWN if blank.unknown else blank.high, room)
        for size in range(blank.low, high + 1):
            classes = (first, *[FREE] * (size - 1))
            yield Piece((PAD,) * size, classes=classes, leading_space=blank.leading_space)


def _word_gaps(count: int, desk: Desk, *, room: int, leading_space: bool) -> Iterator[Piece]:
    if desk.tokenizer.kind == "character":  # a word is its characters: only how many there are can be tried
        for size in range(2 * count, min(room, 8 * count) + 1):
            yield Piece((PAD,) * size, classes=(BEGIN if leading_space else FREE, *[FREE] * (size - 1)))
        return
    longest = LONGEST_WORD if desk.shapes.spaced else 1
    for extra in range(min(count * (longest - 1), room - count) + 1):
        for sizes in _compositions(count, extra, longest - 1):
            classes: list[int] = []
            for size in sizes:
                classes += [WORD_BEGIN, *[WORD_INSIDE] * size]
            if not leading_space and desk.shapes.spaced and desk.tokenizer.kind != "sentencepiece":
                classes[0] = WORD_START
            yield Piece((PAD,) * len(classes), classes=tuple(classes), leading_space=leading_space)
        if extra >= LONGEST_WORD:  # one long word, or several of two tokens: more is seldom a word
            return


def _compositions(count: int, extra: int, most: int) -> Iterator[tuple[int, ...]]:
    """`count` numbers from 0 to `most` that add up to `extra`."""
    if count == 1:
        if extra <= most:
            yield (extra,)
        return
    for first in range(min(extra, most) + 1):
        for rest in _compositions(count - 1, extra - first, most):
            yield (first, *rest)


@dataclass(frozen=True)
class _Listed:
    """A place for a word from a list: open to all those of a single token, or fixed as one that has several."""

    tokens: tuple[int, ...]
    kind: int
    words: int


def _own_words(blank: Blank, desk: Desk, *, room: int, words: Sequence[str]) -> Iterator[Piece]:
    """Gaps made of words and phrases from a list."""
    in_words = blank.unit == "words" and not blank.unknown
    for count in range(1, (blank.high if in_words else 1) + 1):
        places = (_listed(desk, words, after_space=blank.leading_space or index > 0) for index in range(count))
        for listed in itertools.islice(itertools.product(*places), _MOST_GAPS):
            size = sum(len(each.tokens) for each in listed)
            length = sum(each.words for each in listed) if in_words else size
            if size <= room and blank.low <= length <= blank.high:
                yield Piece(
                    tuple(token for each in listed for token in each.tokens),
                    classes=tuple(each.kind for each in listed for _ in each.tokens),
                    leading_space=blank.leading_space,
                )


def _listed(desk: Desk, words: Sequence[str], *, after_space: bool) -> list[_Listed]:
    spelt = [(desk.spell(word, after_space=after_space), len(word.split())) for word in dict.fromkeys(words)]
    single = frozenset(ids[0] for ids, _ in spelt if len(ids) == 1)
    longer = [_Listed(tuple(ids), FREE, count) for ids, count in spelt if len(ids) > 1]
    longer.sort(key=lambda each: len(each.tokens))
    return [_Listed((PAD,), desk.classes.of_tokens(single), 1), *longer] if single else longer


def place_words(layout: Layout, words: Sequence[str], desk: Desk, *, seed: int) -> Layout | None:
    """The layout with every word fixed somewhere in its gaps, in a random order and place; None if they do not fit."""
    chooser = random.Random(seed)  # noqa: S311
    pieces = [list(piece.tokens) for piece in layout.pieces]
    classes = [list(piece.classes) for piece in layout.pieces]
    taken = [[not may for may in piece.editable] for piece in layout.pieces]
    barred = desk.classes.table()
    for word in chooser.sample(list(words), len(words)):
        places: list[tuple[int, int, list[int]]] = []
        for index, piece in enumerate(layout.pieces):
            for offset in range(len(piece.tokens)):
                ids = desk.spell(word, after_space=piece.leading_space or offset > 0)
                end = offset + len(ids)
                kinds = piece.classes[offset : end + 1]
                if (
                    end <= len(piece.tokens)
                    and not any(taken[index][offset:end])
                    and not barred[list(kinds[: len(ids)]), ids].any()  # such tokens may stand there
                    and WORD_INSIDE not in kinds[len(ids) :]  # and no part of a word is left over
                ):
                    places.append((index, offset, ids))
        if not places:
            return None
        index, offset, ids = chooser.choice(places)
        end = offset + len(ids)
        pieces[index][offset:end] = ids
        taken[index][offset:end] = [True] * len(ids)
        if end < len(classes[index]) and not taken[index][end]:  # the word must not go on
            after = {FREE: AFTER_WORD, FREE_OR_END: AFTER_WORD_OR_END}
            classes[index][end] = after.get(classes[index][end], classes[index][end])
        inner = {FREE_OR_END: FREE, AFTER_WORD_OR_END: AFTER_WORD}  # the text must not end before it
        classes[index][:offset] = [inner.get(kind, kind) for kind in classes[index][:offset]]
    return Layout(
        tuple(
            piece if piece.text is not None else Piece(tuple(ids), None, tuple(kinds), piece.leading_space)
            for piece, ids, kinds in zip(layout.pieces, pieces, classes, strict=True)
        )
    )
