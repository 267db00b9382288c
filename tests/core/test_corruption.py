import itertools
import math

import numpy as np
import pytest
import torch

from core.chisquare import assert_frequencies, assert_uniform
from sundae.core.corruption import corrupt, corruption_divergence, corruption_rates, uniform_prior
from sundae.core.noise import Noise

SAMPLES = torch.arange(5000)


def test_prior_is_uniform():
    drawn = uniform_prior(SAMPLES, width=10, vocabulary_size=13, noise=Noise(0))
    assert drawn.shape == (5000, 10)
    assert_frequencies(torch.bincount(drawn.flatten(), minlength=13), np.full(13, 50_000 / 13))
    for position in (0, 9):
        assert_frequencies(torch.bincount(drawn[:, position], minlength=13), np.full(13, 5000 / 13))


@pytest.mark.parametrize("spread", ["independent", "even"])
def test_corruption_rate_is_uniform(spread):
    # `even` covers [0, 1] inside one batch and is uniform for a given row over many steps.
    rates = corruption_rates(SAMPLES, noise=Noise(1), spread=spread)
    assert rates.shape == (5000,)
    assert rates.min() >= 0
    assert rates.max() < 1
    assert_uniform(rates)
    assert_uniform(
        [float(corruption_rates(SAMPLES[:4], noise=Noise(1).fold(step), spread=spread)[2]) for step in range(1000)]
    )


def test_a_rate_belongs_to_its_sample():
    rates = corruption_rates(SAMPLES, noise=Noise(1))
    assert torch.equal(corruption_rates(SAMPLES[17:19], noise=Noise(1)), rates[17:19])


def test_even_rates_leave_no_gap():
    rates = corruption_rates(SAMPLES[:10], noise=Noise(2), spread="even").sort().values
    assert torch.allclose(rates.diff(), torch.full((9,), 0.1), atol=1e-6)


def test_share_of_corrupted_tokens_follows_the_rate():
    text = torch.zeros(3, 20_000, dtype=torch.long)
    rates = torch.tensor([0.0, 0.3, 1.0])
    noisy = corrupt(text, rates=rates, samples=torch.arange(3), vocabulary_size=10, noise=Noise(3))
    assert torch.equal(noisy[0], text[0])
    # A selected token keeps its value with probability 1/10.
    for row, rate in ((1, 0.3), (2, 1.0)):
        expected = np.full(10, 20_000 * rate / 10)
        expected[0] += 20_000 * (1 - rate)
        assert_frequencies(torch.bincount(noisy[row], minlength=10), expected)


def test_number_of_corrupted_tokens_is_uniform_when_the_rate_is():
    # Bernoulli(alpha) with alpha ~ U[0, 1]: every count 0 .. N is equally likely (Bayes' billiard table).
    text = torch.full((5000, 9), 10**6 - 1)
    rates = corruption_rates(SAMPLES, noise=Noise(4))
    noisy = corrupt(text, rates=rates, samples=SAMPLES, vocabulary_size=10**6 - 1, noise=Noise(4))
    assert_frequencies(torch.bincount((noisy != text).sum(1), minlength=10), np.full(10, 500))


def test_corruption_does_not_depend_on_the_batch():
    text = torch.arange(40).view(8, 5)
    samples, rates = torch.arange(100, 108), torch.full((8,), 0.5)
    together = corrupt(text, rates=rates, samples=samples, vocabulary_size=50, noise=Noise(5))
    for i in range(8):
        row = slice(i, i + 1)
        alone = corrupt(text[row], rates=rates[row], samples=samples[row], vocabulary_size=50, noise=Noise(5))
        assert torch.equal(together[row], alone)


@pytest.mark.parametrize(("length", "vocabulary_size"), [(1, 2), (2, 3), (3, 3), (5, 2)])
def test_divergence_equals_the_sum_over_all_texts(length: int, vocabulary_size: int):
    # q(y | x) by numerical integration over the rate, for every y of X = {0 .. v-1}^N.
    rate = (np.arange(20_000) + 0.5) / 20_000
    kl = 0.0
    for y in itertools.product(range(vocabulary_size), repeat=length):
        kept = sum(token == 0 for token in y)
        q = np.mean((1 - rate + rate / vocabulary_size) ** kept * (rate / vocabulary_size) ** (length - kept))
        kl += q * (math.log(q) + length * math.log(vocabulary_size))
    assert corruption_divergence(length, vocabulary_size=vocabulary_size) == pytest.approx(kl, abs=1e-7)


@pytest.mark.parametrize(("length", "vocabulary_size"), [(32, 32_000), (256, 32_000), (52, 5_695)])
def test_divergence_is_finite_and_below_that_of_a_copy(length: int, vocabulary_size: int):
    divergence = corruption_divergence(length, vocabulary_size=vocabulary_size)
    # About half of the tokens are kept on average, and a kept token is worth log v nats.
    assert 0.3 * length * math.log(vocabulary_size) < divergence < length * math.log(vocabulary_size)
