"""Bootstrap intervals: how far a figure would move if the test set had been drawn again.

Items (sentences, samples, blanks) are drawn with replacement.  Whatever a score needs is summed over the drawn items
first, so a corpus score such as BLEU is resampled as exactly as a mean.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sundae.errors import DataError, UsageError

RESAMPLES = 1000
LEVEL = 0.95

# Turns rows of sums, one row for each resample, into one score for each row.
Scorer = Callable[[NDArray[np.float64]], NDArray[np.float64]]


@dataclass(frozen=True)
class Interval:
    """A figure with the percentile interval of its resamples."""

    value: float
    low: float
    high: float
    level: float = LEVEL
    resamples: int = RESAMPLES
    seed: int = 0

    def __str__(self) -> str:
        return f"{self.value:.4g} [{self.low:.4g}, {self.high:.4g}]"


@dataclass(frozen=True)
class Difference:
    """First minus second on the same items, and the share of resamples in which the first is larger (ties: half)."""

    first: Interval
    second: Interval
    difference: Interval
    first_wins: float

    @property
    def decided(self) -> bool:
        """Whether the interval of the difference leaves out zero."""
        return self.difference.low > 0 or self.difference.high < 0


def draw_resamples(items: int, *, resamples: int = RESAMPLES, seed: int = 0) -> Iterator[NDArray[np.int64]]:
    """For each resample the items in it, drawn with replacement; the same for the same seed."""
    draw = np.random.default_rng(seed)
    for _ in range(resamples):
        yield draw.integers(items, size=items)


def bootstrap(
    statistics: ArrayLike, *, score: Scorer, resamples: int = RESAMPLES, seed: int = 0, level: float = LEVEL
) -> Interval:
    """Interval of a score of summed statistics (items x numbers)."""
    table = _table(statistics)
    drawn = _resampled_sums(table, resamples=resamples, seed=seed)
    return _interval(_value(table, score), score(drawn), seed=seed, level=level)


def bootstrap_difference(
    first: ArrayLike,
    second: ArrayLike,
    *,
    score: Scorer,
    resamples: int = RESAMPLES,
    seed: int = 0,
    level: float = LEVEL,
) -> Difference:
    """Paired: both sides are scored on the same drawn items, so what makes an item hard for both cancels."""
    one, two = _table(first), _table(second)
    if one.shape != two.shape:
        raise DataError(
            f"statistics of {len(one)} and of {len(two)} items", why="a paired bootstrap needs the same items"
        )
    drawn = _resampled_sums(np.hstack([one, two]), resamples=resamples, seed=seed)
    width = one.shape[1]
    scores = score(drawn[:, :width]), score(drawn[:, width:])
    values = _value(one, score), _value(two, score)
    wins = np.mean(scores[0] > scores[1]) + np.mean(scores[0] == scores[1]) / 2
    return Difference(
        _interval(values[0], scores[0], seed=seed, level=level),
        _interval(values[1], scores[1], seed=seed, level=level),
        _interval(values[0] - values[1], scores[0] - scores[1], seed=seed, level=level),
        float(wins),
    )


def bootstrap_mean(values: ArrayLike, *, resamples: int = RESAMPLES, seed: int = 0, level: float = LEVEL) -> Interval:
    """Interval of the mean of one number for each item."""
    return bootstrap(_with_ones(values), score=_ratio, resamples=resamples, seed=seed, level=level)


def bootstrap_mean_difference(
    first: ArrayLike, second: ArrayLike, *, resamples: int = RESAMPLES, seed: int = 0, level: float = LEVEL
) -> Difference:
    """Paired difference of two means over the same items."""
    one, two = _with_ones(first), _with_ones(second)
    return bootstrap_difference(one, two, score=_ratio, resamples=resamples, seed=seed, level=level)


def _ratio(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    return sums[:, 0] / sums[:, 1]


def _with_ones(values: ArrayLike) -> NDArray[np.float64]:
    column = np.asarray(values, dtype=np.float64)
    if column.ndim != 1:
        raise UsageError(f"values of shape {column.shape}", why="a mean takes one number for each item")
    return np.stack([column, np.ones(len(column))], axis=1)


def _table(statistics: ArrayLike) -> NDArray[np.float64]:
    table = np.asarray(statistics, dtype=np.float64)
    if table.ndim != 2:
        raise UsageError(f"statistics of shape {table.shape}", why="they are items x numbers")
    if not len(table):
        raise DataError("no items", why="there is nothing to draw from")
    if not np.isfinite(table).all():
        raise DataError("a statistic is not finite", why="its sums would not be either")
    return table


def _resampled_sums(table: NDArray[np.float64], *, resamples: int, seed: int) -> NDArray[np.float64]:
    if resamples < 1:
        raise UsageError(f"{resamples} resamples", hint="1000")
    sums = np.empty((resamples, table.shape[1]))
    for row, drawn in enumerate(draw_resamples(len(table), resamples=resamples, seed=seed)):
        sums[row] = np.bincount(drawn, minlength=len(table)) @ table
    return sums


def _value(table: NDArray[np.float64], score: Scorer) -> float:
    return float(score(table.sum(axis=0, keepdims=True))[0])


def _interval(value: float, scores: NDArray[np.float64], *, seed: int, level: float) -> Interval:
    if not 0 < level < 1:
        raise UsageError(f"level {level}", why="an interval holds a share between 0 and 1", hint="0.95")
    # Scores that occurred, not a point between two: an infinite one then does no harm to its neighbours.
    ordered, last = np.sort(scores), len(scores) - 1
    low, high = ordered[math.floor(last * (1 - level) / 2)], ordered[math.ceil(last * (1 + level) / 2)]
    return Interval(value, float(low), float(high), level, len(scores), seed)
