"""BLEU against a whole test set, and self-BLEU: the quality and the diversity of unconditional samples.

Both are the mean over samples of NLTK's `sentence_bleu` with the smoothing `method1`, uniform weights and whitespace
tokens, as in Texygen and the papers that compare with it.  Every sample has all references, so their number is part of
the measure: never compare figures that were made with different numbers of references.

NLTK needs time proportional to samples times references.  Here the references are read once: of each n-gram only the
largest count in any one reference matters.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sundae.errors import DataError, UsageError
from sundae.measure.ngrams import Integers, Occurrences, Tokens, count_by_text, number_ngrams, split_texts

ORDERS = (2, 3, 4, 5)
_INSTEAD_OF_ZERO = 0.1  # matches that method1 takes for none


@dataclass(frozen=True)
class SentenceBleu:
    """For each order the score of every sample, between 0 and 1; `references` is how many each was compared with."""

    scores: Mapping[int, NDArray[np.float64]]
    references: int

    def mean(self, order: int) -> float:
        """The figure that papers give: the mean over samples."""
        return float(self.scores[order].mean())


def bleu_against(samples: Sequence[str], *, references: Sequence[str], orders: Sequence[int] = ORDERS) -> SentenceBleu:
    """BLEU of every sample against all references together: higher is closer to the real texts."""
    if not samples or not references:
        raise DataError(f"{len(samples)} samples and {len(references)} references", why="BLEU needs both")
    tokens = split_texts([*samples, *references])
    sampled, real = tokens.lengths[: len(samples)], tokens.lengths[len(samples) :]

    def clip(found: Occurrences) -> Occurrences:
        of_sample = found.text < len(samples)
        largest = np.zeros(found.ngram.max(initial=-1) + 1, dtype=np.int64)
        np.maximum.at(largest, found.ngram[~of_sample], found.count[~of_sample])
        ngram = found.ngram[of_sample]
        return Occurrences(ngram, found.text[of_sample], np.minimum(found.count[of_sample], largest[ngram]))

    closest = _closest(sampled, np.unique(real))
    return SentenceBleu(_score(tokens, sampled, closest=closest, clip=clip, orders=orders), len(references))


def self_bleu(samples: Sequence[str], *, orders: Sequence[int] = ORDERS) -> SentenceBleu:
    """BLEU of every sample against all other samples: higher is less varied."""
    if len(samples) < 2:
        raise DataError(f"{len(samples)} samples", why="self-BLEU compares each with all others", hint="at least two")
    tokens = split_texts(samples)
    closest = _closest_other(tokens.lengths)
    scores = _score(tokens, tokens.lengths, closest=closest, clip=_clip_by_others, orders=orders)
    return SentenceBleu(scores, len(samples) - 1)


def _clip_by_others(found: Occurrences) -> Occurrences:
    """Cut every count to the largest count of the same n-gram in any *other* text.

    That is the second largest of all counts: a text that does not alone hold the largest has at most the second
    largest anyway, and for the text that does, the second largest is the largest of the others.
    """
    if not len(found.ngram):
        return found
    first = np.flatnonzero(np.diff(found.ngram, prepend=-1))  # where each n-gram begins
    group = np.cumsum(np.diff(found.ngram, prepend=-1) != 0) - 1
    largest = np.maximum.reduceat(found.count, first)
    is_largest = found.count == largest[group]
    shared = np.add.reduceat(is_largest.astype(np.int64), first) > 1
    next_largest = np.maximum.reduceat(np.where(is_largest, 0, found.count), first)
    second = np.where(shared, largest, next_largest)
    return Occurrences(found.ngram, found.text, np.minimum(found.count, second[group]))


def _score(
    tokens: Tokens,
    lengths: Integers,
    *,
    closest: Integers,
    clip: Callable[[Occurrences], Occurrences],
    orders: Sequence[int],
) -> dict[int, NDArray[np.float64]]:
    """Scores of the first `len(lengths)` texts, given the closest reference length and the way to clip counts."""
    if not orders or min(orders) < 1:
        raise UsageError(f"orders {tuple(orders)}", why="an n-gram has at least one token")
    samples, scores = len(lengths), {}
    log_precisions = np.zeros(samples)
    any_match = np.zeros(samples, dtype=bool)
    # An empty sample has no match and scores 0 whatever stands here.
    brevity = np.exp(np.minimum(0.0, 1 - closest / np.maximum(1, lengths)))
    for ngrams in number_ngrams(tokens, largest=max(orders)):
        clipped = clip(count_by_text(ngrams, texts=len(tokens.lengths)))
        matches = np.bincount(clipped.text, weights=clipped.count, minlength=samples)
        if ngrams.order == 1:
            any_match = matches > 0
        possible = np.maximum(1, lengths - ngrams.order + 1)
        log_precisions += np.log(np.where(matches > 0, matches, _INSTEAD_OF_ZERO) / possible)
        if ngrams.order in orders:
            scores[ngrams.order] = np.where(any_match, brevity * np.exp(log_precisions / ngrams.order), 0.0)
    return {order: scores[order] for order in orders}


def _closest(wanted: Integers, available: Integers) -> Integers:
    """For each length the nearest of the `available` ones (sorted); of two that are equally near, the shorter."""
    right = np.searchsorted(available, wanted)
    above = available[np.minimum(right, len(available) - 1)]
    below = available[np.maximum(right - 1, 0)]
    return np.where(np.abs(above - wanted) < np.abs(below - wanted), above, below)


def _closest_other(lengths: Integers) -> Integers:
    """For each length the nearest among all others; of two that are equally near, the shorter."""
    known, number, texts = np.unique(lengths, return_inverse=True, return_counts=True)
    nearest = known.copy()
    for alone in np.flatnonzero(texts == 1):  # as many as there are rare lengths, never as many as texts
        nearest[alone] = _closest(known[alone], np.delete(known, alone))
    return nearest[number]
