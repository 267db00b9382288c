"""Perplexity of texts by a judge: another language model that did not write them."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sundae.errors import DataError
from sundae.measure.bootstrap import RESAMPLES, Interval, bootstrap

# For every text, in order: its negative log-likelihood in nats, and over how many tokens that is a sum.
Judge = Callable[[Sequence[str]], Iterable[tuple[float, int]]]


@dataclass(frozen=True)
class Perplexity:
    """exp(nats / units) over all texts together, with 95% bootstrap intervals over texts.

    Judges with different tokenizers compare by words (whitespace-separated) or by characters, never by tokens.
    """

    per_token: Interval
    per_word: Interval
    per_character: Interval
    texts: int
    tokens: int


def perplexity(texts: Sequence[str], *, judge: Judge, resamples: int = RESAMPLES, seed: int = 0) -> Perplexity:
    """Let a judge read texts; low is fluent, but a dull text is fluent too: give it with a measure of diversity."""
    if not texts:
        raise DataError("no texts", why="there is nothing to judge")
    judged = list(judge(texts))
    if len(judged) != len(texts):
        raise DataError(f"{len(judged)} judgements of {len(texts)} texts", why="there must be as many")
    nats, tokens = np.array(judged, dtype=np.float64).T
    units = {
        "tokens": tokens,
        "words": np.array([len(text.split()) for text in texts], dtype=np.float64),
        "characters": np.array([len(text) for text in texts], dtype=np.float64),
    }
    intervals: dict[str, Interval] = {}
    for name, count in units.items():
        if not count.sum() > 0:
            raise DataError(f"{len(texts)} texts have no {name}", why="perplexity is per token, word or character")
        table = np.stack([nats, count], axis=1)
        intervals[name] = bootstrap(table, score=_perplexity, resamples=resamples, seed=seed)
    return Perplexity(intervals["tokens"], intervals["words"], intervals["characters"], len(texts), int(tokens.sum()))


def _perplexity(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    # A resample of empty texts alone, or a hopeless text, is infinitely perplexing: no reason to warn.
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return np.exp(np.where(sums[:, 1] > 0, sums[:, 0] / sums[:, 1], np.inf))
