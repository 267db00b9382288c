"""Numbers that a translation must keep, in the notation of either language."""

import operator
import re
from functools import lru_cache
from itertools import combinations

SPELT_OUT = 12
"""Whole numbers up to this need not be kept: translators write them as words at least as often as in digits."""
_SPELT_OUT = frozenset(map(str, range(SPELT_OUT + 1)))
_DASHES = r"\-\u2010\u2011\u2013"
_GROUPING = "'\u2019\u00a0\u2009\u202f"
"""What groups digits in threes and nothing else, so that it cannot stand between two numbers."""
_SIGN = r"(?:(?<![\w)\]}.,%+\-\u2212\u2010-\u2015])[-+\u2212])?"
_NUMBER = re.compile(rf"{_SIGN}\d+(?:(?:[.,:/{_DASHES}]|(?<!\d{{4}})[{_GROUPING}](?=\d{{3}}(?!\d)))\d+)*")
_SPACED = re.compile(rf"{_SIGN}(?<![\d.,:/])\d{{1,3}}(?: \d{{3}})+(?!\d)(?:[.,]\d+)?")
_GROUPED = re.compile(
    rf"(?P<whole>(?!0)\d{{1,3}}(?P<mark>[ .,{_GROUPING}])\d{{3}}(?:(?P=mark)\d{{3}})*)"
    r"(?:(?!(?P=mark))[.,](?P<part>\d+))?"
)
_DECIMAL = re.compile(r"(\d+)[.,](\d+)")
_TIME = re.compile(r"(?:[01]?\d|2[0-4])(?:\.[0-5]\d)+")
_ONE_MINUS = str.maketrans(dict.fromkeys("\u2212\u2010\u2011\u2013", "-"))


def numbers_in(text: str) -> list[str]:
    """The numbers that a translation must keep, as written: 1,234.5, 12:30, -20; not 4, and not 33 of 33rd."""
    return [text[begin:end] for begin, end in number_places(text)]


def number_places(text: str) -> list[tuple[int, int]]:
    """Where they stand: begin and end of each."""
    return [
        found.span()
        for found in _NUMBER.finditer(text)
        if found[0] not in _SPELT_OUT
        and not _is_word(text[found.start() - 1 : found.start()])
        and not _is_word(text[found.end() : found.end() + 1])
    ]


def missing_numbers(source: str, translation: str) -> list[str]:
    """Numbers of the source that the translation lacks, with repeats; 3,000 may become 3.000, and 10:30 may 10.30."""
    missing = numbers_in(source)
    free = _forms(translation)
    for alike in (operator.eq, _same):  # what is written the same goes first, for 1,234 could be 1234 and 1.234
        wanted, missing = missing, list[str]()
        for number in wanted:
            taken = next((form for form in free if alike(number, form[0])), None)
            if taken is None:
                missing.append(number)
            else:
                free = [form for form in free if form.end() <= taken.start() or taken.end() <= form.start()]
    return missing


def disorder(source: str, translation: str) -> int:
    """How many pairs of the source's numbers stand the other way round in the translation."""
    forms = _forms(translation)
    places = [next((form.start() for form in forms if _same(number, form[0])), None) for number in numbers_in(source)]
    known = [place for place in places if place is not None]
    return sum(second < first for first, second in combinations(known, 2))


def _is_word(character: str) -> bool:
    return character.isalnum() or character == "_"


def _forms(text: str) -> list[re.Match[str]]:
    """All that may be a number of a translation; 1 234 may be one or two, and is last taken for one.

    A word may follow, as in 80er, but not go before: no number is kept in nummer80.
    """
    every = [*_NUMBER.finditer(text), *_SPACED.finditer(text)]
    return [found for found in every if not _is_word(text[found.start() - 1 : found.start()])]


def _same(number: str, other: str) -> bool:
    return not _readings(number).isdisjoint(_readings(other))


@lru_cache(maxsize=1024)
def _readings(number: str) -> frozenset[str]:
    """What a number may mean, in one notation for all languages: 1,234 is 1234 or 1.234, and 12.30 may be 12:30."""
    plain = number.translate(_ONE_MINUS)
    sign = "-" if plain.startswith("-") else ""
    amount = plain.lstrip("+-")
    found = {plain}
    if amount.isdecimal():
        found.add(sign + amount)
    if grouped := _GROUPED.fullmatch(amount):
        found.add(sign + re.sub(r"\D", "", grouped["whole"]) + (f".{grouped['part']}" if grouped["part"] else ""))
    if decimal := _DECIMAL.fullmatch(amount):
        found.add(f"{sign}{decimal[1]}.{decimal[2]}")
    if _TIME.fullmatch(amount):
        found.add(sign + amount.replace(".", ":"))
    return frozenset(found)
