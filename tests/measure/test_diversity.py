import math

import pytest

from sundae.errors import DataError, UsageError
from sundae.measure.diversity import diversity, length_distribution


def test_distinct_counts_different_ngrams_over_all_samples():
    found = diversity(["a b a b", "a b c"], orders=(1, 2, 5))
    assert found.distinct[1] == pytest.approx(3 / 7)
    assert found.distinct[2] == pytest.approx(3 / 5)  # ab, ba, bc; none reaches from one sample into the next
    assert found.distinct[5] == 0  # nobody has five tokens
    assert (found.samples, found.tokens) == (2, 7)


def test_entropy_of_equal_shares_is_their_logarithm_in_bits():
    found = diversity(["a b c d", "a b c d"], orders=(1, 2))
    assert found.entropy[1] == pytest.approx(2)
    assert found.entropy[2] == pytest.approx(math.log2(3))
    assert diversity(["a a a"]).entropy[1] == 0


def test_entropy_of_unequal_shares():
    assert diversity(["a a a b"]).entropy[1] == pytest.approx(-0.75 * math.log2(0.75) - 0.25 * math.log2(0.25))


def test_sample_entropy_looks_within_each_sample():
    # Two samples that each say one word are varied together, but not by themselves; an empty one has no say.
    found = diversity(["a a", "b b", ""], orders=(1,))
    assert found.entropy[1] == pytest.approx(1)
    assert found.sample_entropy == 0
    assert diversity(["a b", "c c", ""], orders=(1,)).sample_entropy == pytest.approx(0.5)


def test_repeated_tokens_are_those_that_equal_their_predecessor():
    # "the" twice, then "a" twice in a row; the "cat" at the end of one text and the start of the next does not count.
    found = diversity(["the the a a a cat", "cat the"])
    assert found.repeated_tokens == pytest.approx(3 / 8)
    assert diversity(["a b a b a b"]).repeated_tokens == 0


def test_repeated_ngrams_stood_in_the_same_sample_before():
    found = diversity(["a b a b a b", "a b"], orders=(1, 2, 3))
    assert found.repeated_ngrams[1] == pytest.approx(4 / 8)
    assert found.repeated_ngrams[2] == pytest.approx(3 / 6)  # ab ba ab ba ab: three of five; and one fresh ab
    assert found.repeated_ngrams[3] == pytest.approx(2 / 4)
    assert diversity(["a b c", "a b c"], orders=(1,)).repeated_ngrams[1] == 0


def test_lengths_have_mean_deviation_quantiles_and_histogram():
    lengths = length_distribution(["", "a", "a b", "a b c", "a b c d"])
    assert lengths.mean == 2
    assert lengths.deviation == pytest.approx(math.sqrt(2))
    assert (lengths.quantiles[0.0], lengths.quantiles[0.25], lengths.quantiles[0.5], lengths.quantiles[1.0]) == (
        0,
        1,
        2,
        4,
    )
    assert lengths.histogram == (1, 1, 1, 1, 1)
    assert diversity(["a b c", "a b c", "a"]).lengths.histogram == (0, 1, 0, 2)


def test_empty_samples_have_no_diversity_but_no_error_either():
    found = diversity(["", ""])
    assert found.distinct[1] == found.entropy[1] == found.repeated_tokens == found.sample_entropy == 0


def test_what_cannot_be_measured_is_refused():
    with pytest.raises(DataError, match="no samples"):
        diversity([])
    with pytest.raises(DataError, match="no texts"):
        length_distribution([])
    with pytest.raises(UsageError, match="orders"):
        diversity(["a"], orders=(0,))
