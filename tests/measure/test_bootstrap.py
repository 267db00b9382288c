import numpy as np
import pytest

from sundae.errors import DataError, UsageError
from sundae.measure.bootstrap import (
    Interval,
    bootstrap,
    bootstrap_difference,
    bootstrap_mean,
    bootstrap_mean_difference,
    draw_resamples,
)


def test_an_interval_is_the_quantiles_of_the_scores_of_the_drawn_items():
    table = np.random.default_rng(1).random((40, 2))
    found = bootstrap(table, score=lambda sums: sums[:, 0] / sums[:, 1], resamples=300, seed=5, level=0.8)
    scores = [table[drawn, 0].sum() / table[drawn, 1].sum() for drawn in draw_resamples(40, resamples=300, seed=5)]
    low, high = np.quantile(scores, 0.1, method="lower"), np.quantile(scores, 0.9, method="higher")
    assert found.value == pytest.approx(table[:, 0].sum() / table[:, 1].sum())
    assert (found.low, found.high) == (pytest.approx(low), pytest.approx(high))
    assert (found.level, found.resamples, found.seed) == (0.8, 300, 5)


def test_the_same_seed_gives_the_same_interval_and_another_seed_another():
    values = np.random.default_rng(0).random(50)
    assert bootstrap_mean(values, seed=3) == bootstrap_mean(values, seed=3)
    assert bootstrap_mean(values, seed=3).low != bootstrap_mean(values, seed=4).low


def test_95_percent_intervals_hold_the_truth_about_that_often():
    # 400 samples of 60 normal numbers.  Percentile intervals of 60 hold the mean in about 94% of cases, a little under
    # the nominal 95%.  If that is so, 357 to 396 of 400 do; false alarm below 1e-4.
    draw = np.random.default_rng(7)
    held = 0
    for trial in range(400):
        interval = bootstrap_mean(draw.normal(2.0, 1.0, 60), resamples=200, seed=trial)
        held += interval.low <= 2.0 <= interval.high
    assert 357 <= held <= 396


def test_pairing_cancels_what_is_hard_for_both():
    draw = np.random.default_rng(0)
    hardness = draw.normal(0, 10, 200)
    first, second = hardness + draw.normal(0.5, 0.5, 200), hardness + draw.normal(0, 0.5, 200)
    found = bootstrap_mean_difference(first, second)
    assert found.difference.value == pytest.approx(first.mean() - second.mean())
    assert found.decided
    assert found.first_wins == 1.0
    assert found.first.low < found.second.value < found.first.high  # apart, they could not be told from each other
    swapped = bootstrap_mean_difference(second, first)
    assert swapped.decided
    assert swapped.difference.low == pytest.approx(-found.difference.high)
    assert swapped.first_wins == 0.0


def test_equal_sides_are_not_decided():
    values = np.arange(20.0)
    found = bootstrap_mean_difference(values, values)
    assert found.difference == Interval(0.0, 0.0, 0.0)
    assert not found.decided
    assert found.first_wins == 0.5


def test_what_cannot_be_drawn_is_refused():
    with pytest.raises(DataError, match="no items"):
        bootstrap_mean([])
    with pytest.raises(DataError, match="not finite"):
        bootstrap_mean([1.0, float("nan")])
    with pytest.raises(DataError, match="2 and of 3 items"):
        bootstrap_mean_difference([1, 2], [1, 2, 3])
    with pytest.raises(UsageError, match="0 resamples"):
        bootstrap_mean([1.0], resamples=0)
    with pytest.raises(UsageError, match=r"level 1\.5"):
        bootstrap_mean([1.0], level=1.5)
    with pytest.raises(UsageError, match="shape"):
        bootstrap_mean([[1.0]])
    with pytest.raises(UsageError, match="shape"):
        bootstrap_difference([1.0], [1.0], score=lambda sums: sums[:, 0])


def test_an_interval_reads_as_value_and_brackets():
    assert str(Interval(12.3456, 11.0, 13.5)) == "12.35 [11, 13.5]"
