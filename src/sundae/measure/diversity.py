"""How varied samples are: distinct n-grams, entropy, repetition and lengths, on whitespace tokens.

`distinct` and the entropies depend on how many samples there are: compare equal numbers of them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sundae.errors import DataError, UsageError
from sundae.measure.ngrams import Integers, count_by_text, number_ngrams, split_texts

ORDERS = (1, 2, 3, 4)
QUANTILES = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)


@dataclass(frozen=True)
class Lengths:
    """Lengths in tokens: mean, standard deviation, quantiles, and how many texts have each length from 0 up."""

    mean: float
    deviation: float
    quantiles: Mapping[float, float]
    histogram: tuple[int, ...]


@dataclass(frozen=True)
class Diversity:
    """Figures of all samples together; those that are mappings are by n-gram order.

    `distinct`: different n-grams / n-grams.  `entropy`: of the distribution of n-grams over all samples, in bits.
    `sample_entropy`: of the tokens within one sample, in bits, the mean over samples that are not empty.
    `repeated_tokens`: share of tokens that equal the token just before them.
    `repeated_ngrams`: share of n-grams that stood in the same sample before.
    A share of nothing is 0.
    """

    samples: int
    tokens: int
    distinct: Mapping[int, float]
    entropy: Mapping[int, float]
    sample_entropy: float
    repeated_tokens: float
    repeated_ngrams: Mapping[int, float]
    lengths: Lengths


def diversity(samples: Sequence[str], *, orders: Sequence[int] = ORDERS) -> Diversity:
    """Measure how varied samples are and how much each of them repeats itself."""
    if not samples:
        raise DataError("no samples", why="there is nothing to measure")
    if not orders or min(orders) < 1:
        raise UsageError(f"orders {tuple(orders)}", why="an n-gram has at least one token")
    tokens = split_texts(samples)
    distinct, entropy, repeated = {}, {}, {}
    sample_entropy = 0.0
    for ngrams in number_ngrams(tokens, largest=max(orders)):
        total, within = len(ngrams.ids), count_by_text(ngrams, texts=len(samples))
        if ngrams.order == 1:
            filled = tokens.lengths > 0
            shares = within.count / tokens.lengths[within.text]
            per_sample = np.bincount(within.text, weights=-shares * np.log2(shares), minlength=len(samples))
            sample_entropy = float(per_sample[filled].mean()) if filled.any() else 0.0
        distinct[ngrams.order] = ngrams.distinct / max(1, total)
        entropy[ngrams.order] = _entropy(np.bincount(ngrams.ids))
        repeated[ngrams.order] = (total - len(within.ngram)) / max(1, total)
    follows = (tokens.ids[1:] == tokens.ids[:-1]) & (tokens.text[1:] == tokens.text[:-1])
    return Diversity(
        samples=len(samples),
        tokens=len(tokens.ids),
        distinct={order: distinct[order] for order in orders},
        entropy={order: entropy[order] for order in orders},
        sample_entropy=sample_entropy,
        repeated_tokens=int(follows.sum()) / max(1, len(tokens.ids)),
        repeated_ngrams={order: repeated[order] for order in orders},
        lengths=_lengths(tokens.lengths),
    )


def length_distribution(texts: Sequence[str]) -> Lengths:
    """How many tokens texts have."""
    if not texts:
        raise DataError("no texts", why="there is nothing to measure")
    return _lengths(split_texts(texts).lengths)


def _lengths(lengths: Integers) -> Lengths:
    quantiles = dict(zip(QUANTILES, np.quantile(lengths, QUANTILES).tolist(), strict=True))
    return Lengths(float(lengths.mean()), float(lengths.std()), quantiles, tuple(np.bincount(lengths).tolist()))


def _entropy(counts: Integers) -> float:
    if not counts.sum():
        return 0.0
    shares = counts / counts.sum()
    # + 0.0: the entropy of one certain outcome is 0, not -0.
    return float(-(shares * np.log2(shares, where=shares > 0, out=np.zeros(len(shares)))).sum()) + 0.0
