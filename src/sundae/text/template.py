"""Templates: text with blanks to fill and locks to keep.

`[[6]]` six tokens, `[[3w]]` three words, `[[2-8]]` two to eight tokens, `[[?]]` as many as it takes, `{{keep}}` a lock.
A backslash takes the meaning from a following `[[` or `{{`, and two backslashes before one of them stand for one;
anywhere else a backslash is a backslash.  Of three or more brackets in a row the last two open.  Inside a lock
`\\{`, `\\}` and `\\\\` stand for the second character.
"""

import re
from dataclasses import dataclass
from itertools import pairwise, zip_longest
from typing import Literal, assert_never

from sundae.errors import UsageError

LONGEST_BLANK = 1000

# The look-behind starts a match only at the first backslash of a run, or a long run would take quadratic time.
_OPENING = re.compile(r"(?<!\\)(\\*)(\[\[+|\{\{+)")
_BLANK = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?(w?)")


@dataclass(frozen=True)
class Text:
    """Text that stands as it is."""

    text: str

    def __post_init__(self) -> None:
        if not self.text:
            raise UsageError("a segment of text is empty")


@dataclass(frozen=True)
class Lock:
    """Text that a refinement must not change."""

    text: str

    def __post_init__(self) -> None:
        if not self.text:
            raise UsageError("the lock {{}} is empty", hint="{{text to keep}}")


@dataclass(frozen=True, kw_only=True)
class Blank:
    """A gap of `low` to `high` tokens or words; `leading_space`: its first token must begin with a space."""

    low: int
    high: int
    unit: Literal["tokens", "words"] = "tokens"
    unknown: bool = False
    leading_space: bool = False

    def __post_init__(self) -> None:
        if self.unknown and (self.low, self.high, self.unit) != (1, LONGEST_BLANK, "tokens"):
            raise UsageError("a blank of unknown length", why=f"spans 1 to {LONGEST_BLANK} tokens")
        name = f"the blank {_blank_text(self)}"
        if self.low < 1:
            raise UsageError(name, why="must hold at least 1")
        if self.low > self.high:
            raise UsageError(name, why="ends below its beginning", hint=f"[[{self.high}-{self.low}]]")


Segment = Text | Lock | Blank


def unknown_blank(*, leading_space: bool = False) -> Blank:
    """The blank `[[?]]`."""
    return Blank(low=1, high=LONGEST_BLANK, unknown=True, leading_space=leading_space)


@dataclass(frozen=True)
class Template:
    """A text with gaps, in order; each segment is encoded apart."""

    segments: tuple[Segment, ...]

    def __post_init__(self) -> None:
        for before, after in pairwise(self.segments):
            if isinstance(before, Text) and isinstance(after, Text):
                raise UsageError("two segments of text stand side by side", hint="one segment")
            spaced = isinstance(before, Text) and before.text.endswith(" ")
            if spaced and isinstance(after, Blank) and not after.leading_space:
                raise UsageError("a space before a blank belongs to the blank", hint="leading_space=True")

    @property
    def blanks(self) -> tuple[Blank, ...]:
        """The gaps alone."""
        return tuple(segment for segment in self.segments if isinstance(segment, Blank))


def parse_template(source: str) -> Template:
    """The segments of a template; what cannot be read is an error that shows the place."""
    segments: list[Segment] = []
    literal: list[str] = []
    position = 0

    def finish_text(before_blank: bool) -> bool:
        text = "".join(literal)
        literal.clear()
        spaced = before_blank and text.endswith(" ")
        if spaced:
            text = text[:-1]
        if text:
            segments.append(Text(text))
        return spaced

    while opening := _OPENING.search(source, position):
        backslashes, brackets = opening.groups()
        literal.append(source[position : opening.start()] + "\\" * (len(backslashes) // 2))
        if len(backslashes) % 2:
            literal.append(brackets[:2])
            position = opening.start() + len(backslashes) + 2
            continue
        literal.append(brackets[2:])
        start = opening.end() - 2
        if brackets.startswith("["):
            spaced = finish_text(before_blank=True)
            blank, position = _read_blank(source, start, leading_space=spaced)
            segments.append(blank)
        else:
            finish_text(before_blank=False)
            lock, position = _read_lock(source, start)
            segments.append(lock)
    literal.append(source[position:])
    finish_text(before_blank=False)
    return Template(tuple(segments))


def _read_blank(source: str, start: int, *, leading_space: bool) -> tuple[Blank, int]:
    end = source.find("]]", start)
    if end < 0:
        raise _error(source, start, "is not closed", hint="]] to close it, or \\[[ for two brackets as text")
    inside = source[start + 2 : end].strip()
    if inside == "?":
        return unknown_blank(leading_space=leading_space), end + 2
    match = _BLANK.fullmatch(inside)
    if match is None:
        raise _error(
            source,
            start,
            "is neither a number, a range nor ?",
            hint="[[6]], [[3w]], [[2-8]], [[?]], or \\[[ for two brackets as text",
        )
    low, high, words = match.groups()
    if int(high or low) > LONGEST_BLANK:
        raise _error(source, start, f"must hold at most {LONGEST_BLANK}", hint="[[?]] is as long as it takes")
    try:
        blank = Blank(
            low=int(low),
            high=int(high or low),
            unit="words" if words else "tokens",
            leading_space=leading_space,
        )
    except UsageError as error:
        raise _error(source, start, error.why, hint=error.hint) from None
    return blank, end + 2


def _read_lock(source: str, start: int) -> tuple[Lock, int]:
    kept: list[str] = []
    position = start + 2
    while position < len(source):
        if source.startswith("}}", position):
            if not kept:
                raise _error(source, start, "is empty", hint="{{text to keep}}, or \\{{ for two braces as text")
            return Lock("".join(kept)), position + 2
        if source.startswith("{{", position):
            raise _error(
                source, start, "holds another lock", hint="one lock around both, or \\{{ for two braces as text"
            )
        if source[position] == "\\" and source[position + 1 : position + 2] in ("{", "}", "\\"):
            position += 1
        kept.append(source[position])
        position += 1
    raise _error(source, start, "is not closed", hint="}} to close it, or \\{{ for two braces as text")


def _error(source: str, start: int, why: str, *, hint: str) -> UsageError:
    """An error that shows the opening brackets, what follows, and the character's number from 1."""
    piece = source[start : start + 20] + ("..." if len(source) > start + 20 else "")
    return UsageError(f"the template's {piece!r} at character {start + 1}", why=why, hint=hint)


def render(template: Template) -> str:
    """The source of a template; `parse_template` gives the same template again."""
    parts: list[str] = []
    for segment, follower in zip_longest(template.segments, template.segments[1:]):
        match segment:
            case Text(text):
                parts.append(_escape(text, before=_opening_of(follower)))
            case Lock(text):
                parts.append("{{" + re.sub(r"([{}\\])", r"\\\1", text) + "}}")
            case Blank():
                parts.append((" " if segment.leading_space else "") + _blank_text(segment))
            case _:
                assert_never(segment)
    return "".join(parts)


def escape(text: str) -> str:
    """The source of a template that is this text and nothing else."""
    return _escape(text, before="")


def _opening_of(segment: Segment | None) -> str:
    """What the source of a segment begins with, as far as it matters to a backslash or bracket just before it."""
    match segment:
        case Lock():
            return "{{"
        case Blank(leading_space=False):
            return "[["
        case _:
            return ""


def _escape(text: str, *, before: str) -> str:
    """`text` as source when the source `before` follows it."""
    parts: list[str] = []
    for run in re.finditer(r"(\\*)(\[+|\{+|\Z)|[^\\\[{]+|\\+", text):
        backslashes, brackets = run[1], run[2]
        if brackets is None:
            parts.append(run[0])
            continue
        pairs, odd = divmod(len(brackets), 2)
        at_end = run.end() == len(text)
        opens = bool(before) and at_end and (not brackets or (odd == 1 and brackets[0] == before[0]))
        doubled = pairs > 0 or opens
        parts.append(backslashes * (2 if doubled else 1))
        parts.append(f"\\{brackets[:2]}" * pairs + brackets[:odd])
    return "".join(parts)


def _blank_text(blank: Blank) -> str:
    if blank.unknown:
        return "[[?]]"
    span = f"{blank.low}" if blank.low == blank.high else f"{blank.low}-{blank.high}"
    return f"[[{span}{'w' if blank.unit == 'words' else ''}]]"
