"""What a translation must keep as it is: tags, addresses, a program's variables and emoji."""

import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

_ALONE = (  # HTML's attributes without a value; any word would make a tag of "a <b and c> d"
    "allowfullscreen|async|autofocus|autoplay|checked|controls|default|defer|disabled|download|formnovalidate|hidden|"
    r"inert|ismap|itemscope|loop|multiple|muted|nomodule|novalidate|open|playsinline|readonly|required|reversed|"
    r"selected|data-[\w-]+"
)
_VALUE = r"(?:\"[^\"]*+\"|'[^']*+'|[^\s\"'<>]+)"
_ATTRIBUTE = rf"(?:[\w:-]+\s*=\s*{_VALUE}|(?i:{_ALONE})(?=[\s/>]))"
_TAG = rf"<!--(?:(?!<!--|-->).)*+-->|</?(?P<name>[A-Za-z][\w:-]*+|\d++)(?:\s++{_ATTRIBUTE})*+\s*+/?>"
_LIKE_AN_OPENING_TAG = re.compile(r"<([A-Za-z][\w:-]*+)[^<>]*+>")

_WIDE = r"\u3001\u3002\u300c-\u300f\uff01\uff08\uff09\uff0c\uff1f"
_INSIDE = rf"[^\s<>\"`()\[\]{{}}\u2018-\u201f\u2039\u203a\u00ab\u00bb\u2026{_WIDE}]"
"""What an address is made of: no quotes, and brackets only in pairs."""
_PATH = rf"(?:{_INSIDE}++|\({_INSIDE}*+\)|\[{_INSIDE}*+\])"
_URL = rf"(?P<scheme>(?i:https?://|ftp://|(?<![A-Za-z\d])www\.)){_PATH}++"
_MAIL = r"(?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)+"
# A domain without a scheme needs a path; its first label needs a letter, and its last is in small letters, so that
# "3.km/h" and "Mr.Smith/Jones" are none.
_DOMAIN = rf"(?<![\w.@/+-])(?=[\w-]*[^\W\d_])(?:\w[\w-]*+\.)+[a-z]{{2,}}(?::\d+)?/{_PATH}*+"
# {count, plural, one {# file} other {# files}}: a message of ICU, whose own braces may have variables in them.
_MESSAGE = (
    r"\{\s*\w+\s*,\s*(?:plural|selectordinal|select|number|date|time)\s*"
    r"(?:,(?:[^{}]++|\{(?:[^{}]++|\{[^{}]*+\})*+\})*+)?\}"
)
# {{ name }}, {0}, {name:.2f}, ${name}, %s, %1$d, %(name)s, %.2f: what a program will put something in place of.
_VARIABLE = (
    rf"{_MESSAGE}|"
    r"\{\{\s*[\w.-]+\s*\}\}|\$?\{[\w.-]+(?:![rsa])?(?::[^\s{}]*)?\}(?!\})"
    r"|(?<![\w%])%(?:\d+\$|\(\w+\))?[-+0#]*\d*(?:\.\d+)?(?:hh?|ll?|z)?[sdiufgexXc@](?!\w)"
)
_BRACED = re.compile(r"(?<![\\{])\{\{\s*[\w.-]+\s*\}\}(?!\})")
_PICTURE = r"[\u2600-\u27bf\u2b00-\u2bff\U0001f000-\U0001faff]"
_PICTURES = rf"{_PICTURE}(?:[\ufe0e\ufe0f\u200d\u20e3]|{_PICTURE})*"
_PLACEABLE = re.compile(f"(?P<tag>{_TAG})|(?P<alone>{_VARIABLE}|{_PICTURES})|{_URL}|{_MAIL}|{_DOMAIN}", re.DOTALL)
_NOT_LAST = ".,;:!?'"
"""What ends a sentence or a quotation around an address, not the address."""
_CLOSED_BY = {
    pair[0]: pair[1:]
    for pair in (
        *("()", "[]", "{}", "<>", '""', "''", "\uff08\uff09", "\u300c\u300d", "\u300e\u300f"),
        *("\u201c\u201d", "\u201d\u201d", "\u201e\u201c\u201d", "\u2018\u2019", "\u201a\u2018\u2019"),
        *("\u00ab\u00bb", "\u00bb\u00ab", "\u2039\u203a", "\u203a\u2039"),
    )
}
"""Brackets and quotes that may stand around an address, with what closes each."""
_PUNCTUATION = re.compile(
    rf"(?:[.,;:!?)\]}}\"\u2018\u201c\u201d\u2039\u203a\u00ab\u00bb\u2026{_WIDE}]|['\u2019](?!\w))+"
)
_INLINE = frozenset("!-- a abbr b bdi code em font i kbd mark s small span strong tt u wbr".split())  # noqa: SIM905
"""Tags that may stand inside a word, and comments."""


@dataclass(frozen=True)
class Placeable:
    """A tag or an address, and after which share of the text's words it stands.

    `joins_left` and `joins_right`: there is no space between it and its neighbour.  `touches` is the character that an
    address stands right behind, and `followed` the punctuation right behind an address or a closing tag.  `closes` is
    the number, among the placeables, of the opening tag that this one closes, if there are words between.
    """

    text: str
    share: float
    joins_left: bool = False
    joins_right: bool = False
    touches: str = ""
    followed: str = ""
    closes: int | None = None


@dataclass(frozen=True)
class _Found:
    """Where something is to be taken out; `tag` is empty for an address, `partner` the place of a tag's other half."""

    begin: int
    end: int
    tag: str = ""
    closing: bool = False
    partner: int | None = None


def take_out(line: str) -> tuple[str, tuple[Placeable, ...]]:
    """The line without tags and addresses, and those; a sentence reads on over the gap that they leave."""
    found = _find(line)
    if not found:
        return line, ()
    ends = [0, *(each.end for each in found)]
    begins = [*(each.begin for each in found), len(line)]
    pieces = [line[end:begin] for end, begin in zip(ends, begins, strict=True)]
    text = pieces[0]
    places: list[int] = []
    closed = False  # whether a closing tag is the last that came
    for each, right, following in zip(found, pieces[1:], _first_characters(pieces[1:]), strict=True):
        touching = _PUNCTUATION.match(right)
        if not each.tag:
            text = text.rstrip() if touching else text
        elif closed and not each.closing and text[-1:].isalnum() and following.isalnum():
            text += " "  # two elements side by side are two words
        places.append(len(text))
        if not touching and (not each.tag or each.tag not in _INLINE):
            text += " "
        text += right
        closed = (closed or each.closing) and not right
    counts = _word_counts(text, places, found)
    total = max(1, len(text.split()))
    kept: list[Placeable] = []
    for each, count, left, followed in zip(found, counts, pieces[:-1], _followed(found, pieces[1:]), strict=True):
        share = min(1.0, count / total)
        if each.tag:
            wraps = each.closing and each.partner is not None and counts[each.partner] < count
            tag = _kept_tag(line, each, share=share, closes=each.partner if wraps else None)
            kept.append(replace(tag, followed=followed if wraps else ""))
        else:
            own = line[each.begin : each.end]
            kept.append(Placeable(own, share, touches=left[-1:].strip(), followed=followed))
    return " ".join(text.split()), tuple(kept)


def put_back(text: str, placeables: Sequence[Placeable]) -> str:
    """The text with every tag and address at the same share of its words, in their order.

    A pair of tags around words comes back around one at least, if there are enough.
    """
    if not placeables:
        return text
    words = text.split()
    stops: list[list[Placeable]] = [[] for _ in range(len(words) + 1)]
    for each, stop in zip(placeables, _stops(placeables, len(words)), strict=True):
        stops[stop].append(each)
    written: list[str] = []
    tight = True
    for place, here in enumerate(stops):
        for each in here:
            endings = (each.followed[begin:] for begin in range(len(each.followed)) if written)
            alone = each.closes is None  # what a tag closes around is never punctuation alone
            fitting = (end for end in endings if written[-1].endswith(end) and (alone or written[-1].strip() != end))
            after = next(fitting, "")
            if after:
                written[-1] = written[-1].removesuffix(after).rstrip()
            touching = bool(each.touches and written) and written[-1].endswith(each.touches)
            written.append("" if tight or touching or each.joins_left else " ")
            written.append(each.text + after)
            tight = each.joins_right
        if place < len(words):
            written.append(words[place] if tight else f" {words[place]}")
            tight = False
    return "".join(written).strip()


def without_kept(source: str, translation: str) -> tuple[str, str]:
    """Both without the tags and addresses of the source, which were never translated."""
    text, placeables = take_out(source)
    for each in placeables:
        translation = translation.replace(each.text, " ", 1)
    return text, " ".join(translation.split())


def keep_variables(draft: str, source: str) -> str:
    """A draft as a template: {{ variables }} that its source has too, and not locks, get a backslash."""
    theirs = set(_BRACED.findall(source))
    return _BRACED.sub(lambda found: "\\" * (found[0] in theirs) + found[0], draft)


def places(line: str) -> list[tuple[int, int]]:
    """Where a line has tags and addresses: begin and end of each."""
    return [(each.begin, each.end) for each in _find(line)]


def _find(line: str) -> list[_Found]:
    """Tags and addresses, these with the brackets and quotes around them."""
    found: list[_Found] = []
    reached = 0
    for each in _PLACEABLE.finditer(line):
        if each["tag"]:
            found.append(_Found(*each.span(), (each["name"] or "!--").lower(), each[0].startswith("</")))
        elif each["alone"]:
            found.append(_Found(*each.span()))
        else:
            address = each[0].rstrip(_NOT_LAST)
            if not re.search(r"\w", address[len(each["scheme"] or "") :]):
                continue
            begin, end = _with_brackets(line, each.start(), each.start() + len(address), reached)
            found.append(_Found(begin, end))
        reached = found[-1].end
    return _in_pairs(line, found)


def _with_brackets(line: str, begin: int, end: int, reached: int) -> tuple[int, int]:
    """An address with the brackets and quotes directly around it; what is before `reached` is another's."""
    while begin > reached and line[begin - 1] in _CLOSED_BY:
        after = end
        while line[after : after + 1] and line[after] in ".,;:!?":
            after += 1
        if line[after : after + 1] not in tuple(_CLOSED_BY[line[begin - 1]]):
            break
        begin, end = begin - 1, after + 1
    return begin, end


def _in_pairs(line: str, found: Sequence[_Found]) -> list[_Found]:
    """Every tag with its other half; without the end of what looks like a tag but is none, such as <b and c>."""
    tags = {each.begin: each for each in found if each.tag}
    begins = [each.begin for each in found]
    events = [(each.begin, each.tag) for each in tags.values()]
    for other in _LIKE_AN_OPENING_TAG.finditer(line):
        before = bisect_right(begins, other.start())
        if not before or found[before - 1].end <= other.start():  # else it is a tag, or in a comment
            events.append((other.start(), other[1].lower()))
    opened: defaultdict[str, list[int]] = defaultdict(list)
    partner: dict[int, int] = {}
    refused: set[int] = set()
    for begin, name in sorted(events):
        tag = tags.get(begin)
        if tag is None or not tag.closing:
            if tag is None or not line.endswith("/>", begin, tag.end):
                opened[name].append(begin)
        elif opened[name]:
            opener = opened[name].pop()
            if opener in tags:
                partner[begin], partner[opener] = opener, begin
            else:
                refused.add(begin)
    kept = [each for each in found if each.begin not in refused]
    number = {each.begin: place for place, each in enumerate(kept)}
    return [replace(each, partner=number[partner[each.begin]]) if each.begin in partner else each for each in kept]


def _followed(found: Sequence[_Found], after: Sequence[str]) -> list[str]:
    """The punctuation right behind each; closing tags side by side have all what is behind the last of them."""
    endings: list[str] = []
    for number in reversed(range(len(found))):
        touching = _PUNCTUATION.match(after[number])
        closing = [each.closing for each in found[number : number + 2]] == [True, True]
        endings.append(touching[0] if touching else endings[-1] if closing and not after[number] else "")
    return endings[::-1]


def _first_characters(pieces: Sequence[str]) -> list[str]:
    """For each piece the first character of it and all that follow."""
    found: list[str] = []
    for piece in reversed(pieces):
        found.append(piece[:1] or (found[-1] if found else ""))
    return found[::-1]


def _word_counts(text: str, places: Sequence[int], found: Sequence[_Found]) -> list[int]:
    """How many words stand before each place; a tag inside a word has the whole word inside its element."""
    starts = [word.start() for word in re.finditer(r"\S+", text)]
    counts: list[int] = []
    for place, each in zip(places, found, strict=True):
        inside = 0 < place < len(text) and not text[place - 1].isspace() and not text[place].isspace()
        counts.append(bisect_left(starts, place) - (inside and bool(each.tag) and not each.closing))
    return counts


def _kept_tag(line: str, each: _Found, *, share: float, closes: int | None) -> Placeable:
    """An opening tag belongs to the word after it, a closing one to the word before; others stand as in the line."""
    left = each.begin > 0 and not line[each.begin - 1].isspace()
    right = each.end < len(line) and not line[each.end].isspace()
    if each.partner is not None or (left and right and each.tag in _INLINE):  # which must not join two words
        left, right = each.closing, not each.closing
    return Placeable(line[each.begin : each.end], share, joins_left=left, joins_right=right, closes=closes)


def _stops(placeables: Sequence[Placeable], words: int) -> list[int]:
    """After how many words each goes: near its share, in order, and if it can, with a word between a pair of tags."""
    latest = [words] * len(placeables)
    for number in reversed(range(len(placeables))):
        latest[number] = min(latest[number : number + 2])
        opener = placeables[number].closes
        if opener is not None:
            latest[opener] = min(latest[opener], latest[number] - 1)
    stops: list[int] = []
    for each, last in zip(placeables, latest, strict=True):
        stop = round(each.share * words)
        if each.closes is not None:
            stop = max(stop, stops[each.closes] + 1)
        stops.append(max(min(stop, last), stops[-1] if stops else 0))
    return stops
