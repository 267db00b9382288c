"""What a translation must keep as it is: tags, addresses, and the digits of numbers."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

_TAG = r"</?([A-Za-z][\w:-]*)(?:\s+[\w:-]+\s*=\s*(?:\"[^\"<>]*\"|'[^'<>]*'|[^\s\"'<>]+))*\s*/?>"
_ADDRESS = r"(?:https?://|www\.)[^\s<>]+|(?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)+"
_PLACEABLE = re.compile(f"(?P<tag>{_TAG})|{_ADDRESS}")
_NOT_LAST = ".,;:!?)]'\""
"""What ends a sentence or a bracket around an address, not the address."""
_INLINE = frozenset("a abbr b bdi code em font i kbd mark s small span strong tt u".split())  # noqa: SIM905
"""Tags that may stand inside a word."""
_PUNCTUATION = re.compile(r"[.,;:!?)\]\"']+")
_NUMBER = re.compile(r"(?<!\w)\d+(?:[.,]\d+)*(?!\w)")


@dataclass(frozen=True)
class Placeable:
    """A tag or an address, and after which share of the text's words it stands.

    `glued` says on which side, "left" or "right", it touches a word; `followed` is punctuation that touches it.
    """

    text: str
    share: float
    glued: str = ""
    followed: str = ""


@dataclass(frozen=True)
class _Found:
    begin: int
    end: int
    tag: str


def _find(line: str) -> list[_Found]:
    found: list[_Found] = []
    for each in _PLACEABLE.finditer(line):
        text = each[0] if each["tag"] else each[0].rstrip(_NOT_LAST)
        if each["tag"] or text.rstrip("/") not in ("http:", "https:", "www"):
            found.append(_Found(each.start(), each.start() + len(text), (each[2] or "").lower()))
    return found


def take_out(line: str) -> tuple[str, tuple[Placeable, ...]]:
    """The line without tags and addresses, and those; a sentence reads on over the gap that they leave."""
    found = _find(line)
    if not found:
        return line, ()
    ends = [0, *(each.end for each in found)]
    begins = [*(each.begin for each in found), len(line)]
    pieces = [line[end:begin] for end, begin in zip(ends, begins, strict=True)]
    text = pieces[0]
    where: list[tuple[str, int, str, str]] = []
    for each, right in zip(found, pieces[1:], strict=True):
        own, touching = line[each.begin : each.end], _PUNCTUATION.match(right)
        before = len(text.split())
        if each.tag:  # an opening tag belongs to the word after it, a closing one to the word before
            where.append((own, before, "left" if own.startswith("</") else "right", ""))
            if each.tag not in _INLINE and not touching:
                text += " "
        else:
            glued = "left" if text and not text[-1].isspace() else ""
            where.append((own, before, glued, touching[0] if touching else ""))
            text = text.rstrip() if touching else text + " "
        text += right
    total = max(1, len(text.split()))
    kept = tuple(Placeable(it, min(1.0, before / total), glued, after) for it, before, glued, after in where)
    return " ".join(text.split()), kept


def put_back(text: str, placeables: Sequence[Placeable]) -> str:
    """The text with every tag and address at the same share of its words, in their order."""
    if not placeables:
        return text
    words = text.split()
    stops: list[list[Placeable]] = [[] for _ in range(len(words) + 1)]
    last = 0
    for each in placeables:
        last = max(last, round(each.share * len(words)))
        stops[last].append(each)
    whole = ""
    for place, here in enumerate(stops):
        for each in here:
            after = each.followed if each.followed and whole.endswith(each.followed) else ""
            whole = whole.removesuffix(after)
            whole += each.text + after if each.glued == "left" or _opens(whole) else f" {each.text}{after}"
        if place < len(words):
            glued = bool(here) and here[-1].glued == "right"
            whole += words[place] if glued else f" {words[place]}"
    return whole.strip()


def _opens(text: str) -> bool:
    """Whether a text ends with an opening tag."""
    tags = _find(text[text.rfind("<") :]) if "<" in text else []
    return bool(tags) and text.endswith(">") and bool(tags[-1].tag) and not text[text.rfind("<") :].startswith("</")


def numbers_in(text: str) -> list[str]:
    """Numbers that stand alone, such as 3,000 and 12; one that is part of a word, such as 2nd, does not."""
    return _NUMBER.findall(text)


def missing_numbers(source: str, translation: str) -> tuple[str, ...]:
    """Numbers of the source whose digits the translation lacks; 3,000 may become 3.000, and 10:30 become 10.30."""
    there = {digits(number) for number in re.findall(r"\d+(?:[.,]\d+)*", translation)}
    there |= set(re.findall(r"\d+", translation))
    return tuple(dict.fromkeys(number for number in numbers_in(source) if digits(number) not in there))


def digits(number: str) -> str:
    """A number without what groups it."""
    return re.sub(r"\D", "", number)
