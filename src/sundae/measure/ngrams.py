"""N-grams of many texts as integers: the ground under BLEU, diversity and memorisation.

Equal numbers mean equal n-grams, always: numbers are given out by sorting, not by hashing, so nothing can collide.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Tokens:
    """Texts end to end: the number of every token, the text it stands in, and how many tokens each text has."""

    ids: Integers
    text: Integers
    lengths: Integers
    vocabulary_size: int


@dataclass(frozen=True)
class Ngrams:
    """All n-grams of one order: number, text and first token of each; numbers run from 0 to `distinct` - 1."""

    order: int
    ids: Integers
    text: Integers
    start: Integers
    distinct: int


@dataclass(frozen=True)
class Occurrences:
    """How often each n-gram occurs in each text that has it, sorted by n-gram and then by text."""

    ngram: Integers
    text: Integers
    count: Integers


def split_texts(texts: Iterable[str]) -> Tokens:
    """Number the whitespace-separated tokens of texts."""
    vocabulary: dict[str, int] = {}
    ids: list[int] = []
    lengths: list[int] = []
    for text in texts:
        tokens = text.split()
        ids += [vocabulary.setdefault(token, len(vocabulary)) for token in tokens]
        lengths.append(len(tokens))
    sizes = np.array(lengths, dtype=np.int64)
    return Tokens(np.array(ids, dtype=np.int64), np.repeat(np.arange(len(sizes)), sizes), sizes, len(vocabulary))


def number_ngrams(tokens: Tokens, *, largest: int) -> Iterator[Ngrams]:
    """All n-grams of the orders 1 to `largest`, an order at a time; none reaches over the end of its text."""
    ends = np.cumsum(tokens.lengths)
    room = ends[tokens.text] - np.arange(len(tokens.ids))  # tokens from here to the end of the text
    ids, start, distinct = tokens.ids, np.arange(len(tokens.ids)), tokens.vocabulary_size
    yield Ngrams(1, ids, tokens.text, start, distinct)
    for order in range(2, largest + 1):
        fits = room[start] >= order
        start = start[fits]
        # An n-gram is an (n-1)-gram and one more token; the product stays below (number of tokens) squared.
        pair = ids[fits] * tokens.vocabulary_size + tokens.ids[start + order - 1]
        known, ids = np.unique(pair, return_inverse=True)
        distinct = len(known)
        yield Ngrams(order, ids, tokens.text[start], start, distinct)


def count_by_text(ngrams: Ngrams, *, texts: int) -> Occurrences:
    """Count every n-gram within each of so many texts."""
    pair, count = np.unique(ngrams.ids * texts + ngrams.text, return_counts=True)
    ngram, text = np.divmod(pair, max(texts, 1))
    return Occurrences(ngram, text, count)
