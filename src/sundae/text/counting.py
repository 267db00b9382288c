"""Counting what a text is made of, in bounded memory."""

from collections import Counter
from collections.abc import Iterable

MOST_DISTINCT = 300_000  # some 40 MB of strings and counts


def count_bounded(batches: Iterable[Iterable[str]], *, most_distinct: int = MOST_DISTINCT) -> Counter[str]:
    """How often each string occurs; the rarest are forgotten whenever there are too many different ones.

    Natural text stays far below the bound and is counted exactly.  Beyond it (lossy counting), what is kept may be
    counted too low, but never so low that a frequent string is lost.
    """
    counts: Counter[str] = Counter()
    for batch in batches:
        counts.update(batch)
        rare = 1
        while len(counts) > most_distinct:
            counts = Counter({string: count for string, count in counts.items() if count > rare})
            rare += 1
    return counts


def by_frequency(counts: Counter[str]) -> list[str]:
    """The most frequent first; ties in the order of the text, so that equal counts give equal vocabularies."""
    return sorted(counts, key=lambda string: (-counts[string], string))
