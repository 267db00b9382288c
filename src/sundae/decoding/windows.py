"""Texts longer than the canvas: one stretch at a time, with its neighbours locked beside it as far as there is room."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from sundae.decoding.layout import Desk
from sundae.text.sentences import SENTENCE_END, split_sentences
from sundae.text.template import Blank, Segment, Template, Text

_WORD = re.compile(r"\s*\S+")
SPARE = 3
"""Tokens that a blank of unknown length should have beyond its least."""


def fits(template: Template, desk: Desk, *, tightly: bool = False) -> bool:
    """Whether a template fits the canvas as a whole, and leaves its blanks some room; or with none to spare."""
    return (_least if tightly else _ample)(template.segments, desk) <= desk.canvas


def _ample(segments: Sequence[Segment], desk: Desk) -> int:
    """The tokens of a template if each blank has room for a few lengths, and one for a word of several tokens."""
    more = (
        min(blank.high - blank.low, SPARE) + (blank.unit == "words") for blank in segments if isinstance(blank, Blank)
    )
    return _least(segments, desk) + sum(more)


def _least(segments: Sequence[Segment], desk: Desk) -> int:
    return sum(
        segment.low if isinstance(segment, Blank) else len(desk.tokenizer.encode(segment.text)) for segment in segments
    )


@dataclass(frozen=True)
class Window:
    """A template that fits the canvas; its first `before` and last `after` characters are context.

    `space` is white space before what is written that the window does not show: a sentence does not begin with it.
    """

    template: Template
    before: int
    after: int
    space: str = ""

    def own(self, text: str) -> str:
        """What a filled window has to say, without its context."""
        return self.space + text[self.before : len(text) - self.after]


def window_around(left: str, core: Sequence[Segment], right: str, desk: Desk) -> Window:
    """What is to be written, with as much of the text around it as the canvas holds.

    A model of single sentences sees no further than its sentence, and no white space around that.
    """
    space = ""
    if desk.ends:
        right = split_sentences(right)[0].rstrip() if right else ""
        spaced = isinstance(core[0], Blank) and core[0].leading_space
        *_, left = ("", *split_sentences(left + " " * spaced))
        if _ends_sentence(left):
            left = ""
            if isinstance(core[0], Blank) and spaced:
                space, core = " ", [replace(core[0], leading_space=False), *core[1:]]
        left = left.removesuffix(" " * spaced).lstrip()
    room = max(0, desk.canvas - _ample(core, desk))
    # Half for each side, and what one does not need for the other.
    near_right = _first_words(right, desk, room=room // 2)
    near_left = _last_words(left, desk, room=room - len(desk.tokenizer.encode(near_right)))
    near_right = _first_words(right, desk, room=room - len(desk.tokenizer.encode(near_left)))
    segments: list[Segment] = []
    for segment in (Text(near_left) if near_left else None, *core, Text(near_right) if near_right else None):
        if isinstance(segment, Text) and segments and isinstance(segments[-1], Text):
            segments[-1] = Text(segments[-1].text + segment.text)
        elif segment is not None:
            segments.append(segment)
    return Window(Template(tuple(segments)), len(near_left), len(near_right), space)


def _ends_sentence(text: str) -> bool:
    found = None
    for found in SENTENCE_END.finditer(text):  # noqa: B007 - the last one is wanted
        pass
    return found is not None and found.end() == len(text)


def first_group(segments: Sequence[Segment], desk: Desk) -> tuple[int, int]:
    """The first blanks that can be seen together: in one sentence, and near enough for the canvas."""
    blanks = [place for place, segment in enumerate(segments) if isinstance(segment, Blank)]
    begin = end = blanks[0]
    for place in blanks[1:]:
        between = "".join(segment.text for segment in segments[end:place] if not isinstance(segment, Blank)) + " "
        if _least(segments[begin : place + 1], desk) > desk.canvas or SENTENCE_END.search(between):
            break
        end = place
    return begin, end + 1


def _last_words(text: str, desk: Desk, *, room: int) -> str:
    best = ""
    for found in reversed(list(_WORD.finditer(text))):
        if len(desk.tokenizer.encode(text[found.start() :])) > room:
            break
        best = text[found.start() :]
    return best


def _first_words(text: str, desk: Desk, *, room: int) -> str:
    best = ""
    for found in _WORD.finditer(text):
        if len(desk.tokenizer.encode(text[: found.end()])) > room:
            break
        best = text[: found.end()]
    return best
