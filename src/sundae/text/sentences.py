"""Long texts in parts: sentences, clauses, words, characters.  Joined, the parts are the text."""

import re
from collections.abc import Callable

_WIDE_END = r"\u3002\uff01\uff1f"
_WIDE_CLOSING = r"\u300d\u300f\u201d\uff09"
# A sentence ends after its closing punctuation (and quotes or brackets), before white space; a line ends one too.
# Full-width punctuation needs no white space after it.
SENTENCE_END = re.compile(
    r"(?<=[.!?…])[\"'\u201d\u2019)\]]*\s+|\n+\s*"
    rf"|(?<=[{_WIDE_END}])(?![{_WIDE_END}!?…])(?:[\"'\u2019)\]{_WIDE_CLOSING}]*\s+|[{_WIDE_CLOSING}]*)"
)
_CLAUSE_END = re.compile(r"(?<=[,;:\u2013\u2014])\s+")
_WORD_END = re.compile(r"\s+")


def split_sentences(text: str) -> list[str]:
    """Sentences with the white space that follows them."""
    return _split(SENTENCE_END, text)


_ABBREVIATED = re.compile(
    r"(?:^|[\s(\[\"'\u201c\u201e])(?:\w|\d+|\w\.\s?\w|[MD]rs?|Ms|Prof|St|Mt|Jr|Sr|No|Nr|Fig|Vol|vs|etc|cf|ca|approx|bzw|evtl|ggf|"
    r"usw|vgl|Str|Hr|Fr|geb|inkl|[Ss]og|Tel|Abs|Art|Bd|Jh|Mio|Mrd)\.$"
)


def certain_sentences(text: str) -> list[str]:
    """Sentences that surely end where they do, with the white space that follows them.

    "Mr. Smith", "J. Smith" and "the 3. Mai" go on, and so does what has a small letter next, unless the text is
    tokenised, with a space before the full stop.
    """
    found: list[str] = []
    for sentence in split_sentences(text):
        if found and not _surely_ends(found[-1].rstrip(), following=sentence):
            found[-1] += sentence
        else:
            found.append(sentence)
    return found


def _surely_ends(sentence: str, *, following: str) -> bool:
    if re.search(r"\s[.!?]+$", sentence):
        return True
    first = following.lstrip("\"'\u2018\u201c\u201e([\u00ab\u00bb")[:1]
    return not first.islower() and not _ABBREVIATED.search(sentence)


def split_to_fit(text: str, fits: Callable[[str], bool]) -> list[str]:
    """Parts that fit: sentences, each alone; one that is too long in clauses or words, as many together as fit.

    A word that does not fit is split by characters; only one that alone does not fit is left for the caller to crop.
    """
    if fits(text):
        return [text]
    sentences = split_sentences(text)
    if len(sentences) > 1:
        return [part for sentence in sentences for part in split_to_fit(sentence, fits)]
    parts = [word for clause in _split(_CLAUSE_END, text) for word in _clause(clause, fits)]
    return _joined(parts, fits)


def _clause(clause: str, fits: Callable[[str], bool]) -> list[str]:
    if fits(clause):
        return [clause]
    return _joined([part for word in _split(_WORD_END, clause) for part in _characters(word, fits)], fits)


def _characters(word: str, fits: Callable[[str], bool]) -> list[str]:
    """A word in parts of as many characters as fit, or of one."""
    if fits(word):
        return [word]
    parts: list[str] = []
    begin = 0
    while begin < len(word):
        # Doubling first, so that what is asked is never much longer than what fits.
        most, too_many = 1, 2
        while begin + most < len(word) and fits(word[begin : begin + too_many]):
            most, too_many = too_many, 2 * too_many
        while too_many - most > 1:
            middle = (most + too_many) // 2
            most, too_many = (middle, too_many) if fits(word[begin : begin + middle]) else (most, middle)
        parts.append(word[begin : begin + most])
        begin += most
    return parts


def _joined(parts: list[str], fits: Callable[[str], bool]) -> list[str]:
    found = parts[:1]
    for part in parts[1:]:
        if fits(found[-1] + part):
            found[-1] += part
        else:
            found.append(part)
    return found


def _split(after: re.Pattern[str], text: str) -> list[str]:
    ends = [found.end() for found in after.finditer(text)]
    return [text[begin:end] for begin, end in zip([0, *ends], [*ends, len(text)], strict=True) if begin < end]
