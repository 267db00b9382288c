"""What a translation must keep as it is: tags, addresses, and the digits of numbers."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

_TAG = r"</?[A-Za-z][\w:-]*(?:\s[^<>]*)?/?>"
_URL = r"(?:https?://|www\.)[^\s<>]*[^\s<>.,;:!?)\]'\"]"
_MAIL = r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+"
_PLACEABLE = re.compile(f"(?P<tag>{_TAG})|{_URL}|{_MAIL}")
_PUNCTUATION = re.compile(r"[.,;:!?)\]]+")
_NUMBER = re.compile(r"\d+(?:[.,:/]\d+)*")


@dataclass(frozen=True)
class Placeable:
    """A tag or an address, and after which share of the text's words it stands.

    `glued` says on which side, "left" or "right", it touches a word; `followed` is punctuation that touches it.
    """

    text: str
    share: float
    glued: str = ""
    followed: str = ""


def take_out(line: str) -> tuple[str, tuple[Placeable, ...]]:
    """The line without tags and addresses, and those; a sentence reads on over the gap that they leave."""
    found = list(_PLACEABLE.finditer(line))
    if not found:
        return line, ()
    ends = [0, *(each.end() for each in found)]
    begins = [*(each.start() for each in found), len(line)]
    pieces = [line[end:begin] for end, begin in zip(ends, begins, strict=True)]
    text = pieces[0]
    where: list[tuple[str, int, str, str]] = []
    for each, right in zip(found, pieces[1:], strict=True):
        tag, touching = each["tag"], _PUNCTUATION.match(right)
        before = len(text.split())
        if tag:  # an opening tag belongs to the word after it, a closing one to the word before
            where.append((tag, before, "left" if tag.startswith("</") else "right", ""))
        else:
            glued = "left" if text and not text[-1].isspace() else ""
            where.append((each[0], before, glued, touching[0] if touching else ""))
        text = (text.rstrip() if touching else text) + right
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
    tags = list(_PLACEABLE.finditer(text))
    return bool(tags) and tags[-1].end() == len(text) and bool(tags[-1]["tag"]) and not tags[-1][0].startswith("</")


def missing_numbers(source: str, translation: str) -> tuple[str, ...]:
    """Numbers of the source whose digits the translation lacks; 3,000 may become 3.000."""
    there = [_digits(number) for number in _NUMBER.findall(translation)]
    missing: list[str] = []
    for number in _NUMBER.findall(source):
        if _digits(number) in there:
            there.remove(_digits(number))
        else:
            missing.append(number)
    return tuple(missing)


def _digits(number: str) -> str:
    return re.sub(r"\D", "", number)
