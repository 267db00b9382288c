"""Long texts in parts: sentences, clauses, words.  Joined, the parts are the text."""

import re
from collections.abc import Callable

# A sentence ends after its closing punctuation (and quotes or brackets), before white space; a line ends one too.
SENTENCE_END = re.compile(r"(?<=[.!?…])[\"'\u201d\u2019)\]]*\s+|\n+\s*")
_CLAUSE_END = re.compile(r"(?<=[,;:\u2013\u2014])\s+")
_WORD_END = re.compile(r"\s+")


def split_sentences(text: str) -> list[str]:
    """Sentences with the white space that follows them."""
    return _split(SENTENCE_END, text)


def split_to_fit(text: str, fits: Callable[[str], bool]) -> list[str]:
    """Parts that fit: sentences, each alone; one that is too long in clauses or words, as many together as fit.

    A word that does not fit stays whole, for the caller to crop.
    """
    if fits(text):
        return [text]
    sentences = split_sentences(text)
    if len(sentences) > 1:
        return [part for sentence in sentences for part in split_to_fit(sentence, fits)]
    parts = [word for clause in _split(_CLAUSE_END, text) for word in _clause(clause, fits)]
    return _joined(parts, fits)


def _clause(clause: str, fits: Callable[[str], bool]) -> list[str]:
    return [clause] if fits(clause) else _joined(_split(_WORD_END, clause), fits)


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
