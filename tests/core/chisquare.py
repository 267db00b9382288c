"""Tests of randomness: every one has a fixed seed, so it fails always or never; the stated false-alarm rate is the
probability that a correct implementation would have been given an unlucky seed."""

import numpy as np
from scipy import stats

FALSE_ALARM = 1e-4


def assert_frequencies(observed, expected) -> None:
    """Chi-square of counts against expected counts; false-alarm rate 1e-4."""
    observed, expected = np.asarray(observed, dtype=float), np.asarray(expected, dtype=float)
    assert observed[expected == 0].sum() == 0, "something impossible was drawn"
    kept = expected > 0
    assert expected[kept].min() >= 5, "too few expected counts for the chi-square approximation"
    result = stats.chisquare(observed[kept], expected[kept] * observed.sum() / expected.sum())
    assert result.pvalue > FALSE_ALARM, f"p = {result.pvalue:.2g}"


def assert_uniform(values) -> None:
    """Kolmogorov-Smirnov against U[0, 1]; false-alarm rate 1e-4."""
    result = stats.kstest(np.asarray(values, dtype=float).ravel(), "uniform")
    assert result.pvalue > FALSE_ALARM, f"p = {result.pvalue:.2g}"
