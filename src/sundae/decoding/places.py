"""Words that a translation must hold and does not: where could they stand?

Where it is not known what a word stands for, it is tried at every place of the text, between words and instead of one
or two of them; the model's score tells the good places from the bad.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from sundae.core.length import PAD
from sundae.decoding.layout import AFTER_WORD, AFTER_WORD_OR_END, FREE, FREE_OR_END, Layout, Piece

_WORD = re.compile(r"\w+(?:['\u2019-]\w+)*|[^\w\s]+")
REPLACED = 2
"""Words of the text that one word may take the place of, at most."""
KEPT = 4
"""Ways to place some of the words that are kept while the others are placed."""


@dataclass(frozen=True)
class Spliced:
    """A text into which words were put, and where each begins."""

    text: str
    score: float = 0.0
    places: tuple[tuple[int, str], ...] = ()


Score = Callable[[Sequence[str]], list[float]]
"""Of texts, all translations of one source: how well the model likes each."""


Allowed = Callable[[str, str], bool]
"""Of the text before and after a word has come: other words must not be lost by it."""


def put_instead(text: str, spans: Mapping[str, tuple[int, int] | None], *, allowed: Allowed) -> Spliced:
    """The text with words where others stood, as far as that is known and no two want the same place."""
    way = Spliced(text)
    known = ((span, word) for word, span in spans.items() if span is not None)
    for (begin, end), word in sorted(known, reverse=True):  # what comes later in the text does not move the others
        taken = bool(way.places) and way.places[0][0] < end
        new = way.text[:begin] + word + way.text[end:]
        if not taken and allowed(way.text, new):
            shift = len(word) - (end - begin)
            way = Spliced(new, places=((begin, word), *((place + shift, other) for place, other in way.places)))
    return way


def splice(begun: Spliced, words: Sequence[str], *, score: Score, allowed: Allowed) -> list[Spliced]:
    """The best ways to have all these words in the text too, best first."""
    ways = [begun]
    for word in words:
        found = {each.text: each for way in ways for each in _with_word(way, word) if allowed(way.text, each.text)}
        if not found:  # no room for this one; the others may have some
            continue
        scored = zip(found.values(), score(list(found)), strict=True)
        ways = sorted((Spliced(each.text, own, each.places) for each, own in scored), key=lambda way: -way.score)[:KEPT]
    return ways


def _with_word(way: Spliced, word: str) -> Iterator[Spliced]:
    text = way.text
    words = [found.span() for found in _WORD.finditer(text)]
    for index in range(len(words) + 1):
        begin = words[index][0] if index < len(words) else len(text)
        before = " " if text[begin - 1 : begin].strip() and (text[begin - 1].isalnum() or begin == len(text)) else ""
        for replaced in range(min(REPLACED, len(words) - index) + 1):
            end = words[index + replaced - 1][1] if replaced else begin
            after = " " if not replaced and begin < len(text) and (not before or text[begin].isalnum()) else ""
            if any(begin < place + len(other) and place < end for place, other in way.places):
                continue
            shift = len(before) + len(word) + len(after) - (end - begin)
            moved = tuple((place + shift * (place >= end), other) for place, other in way.places)
            new = text[:begin] + before + word + after + text[end:]
            yield Spliced(new, places=(*moved, (begin + len(before), word)))


def locked_layout(width: int, places: Sequence[tuple[int, Sequence[int]]]) -> Layout | None:
    """An empty canvas but for tokens at some places: no word goes on, and the text does not end before the last.

    None if they do not fit.
    """
    tokens, classes = [PAD] * width, [FREE_OR_END] * width
    for begin, ids in places:
        if begin + len(ids) > width or any(tokens[begin : begin + len(ids)]):
            return None
        tokens[begin : begin + len(ids)] = ids
    last = max(begin for begin, _ in places)
    classes[:last] = [FREE] * last
    for begin, ids in places:
        end = begin + len(ids)
        if end < width:
            classes[end] = AFTER_WORD if end < last else AFTER_WORD_OR_END
    return Layout((Piece(tuple(tokens), classes=tuple(classes)),))
