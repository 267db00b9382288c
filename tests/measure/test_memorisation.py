import pytest

from sundae.errors import DataError, UsageError
from sundae.measure import memorisation as module
from sundae.measure.memorisation import memorisation

TRAINING = ["the cat sat on the mat .", "a dog ran far away"]


def test_a_copy_is_found_whole_and_in_all_its_ngrams():
    found = memorisation(["a  dog ran far away "], training=TRAINING)  # spaces do not count
    assert (found.verbatim, found.ngrams) == (1, 1)
    assert (found.samples, found.training_texts, found.order) == (1, 2, 4)


def test_shares_are_of_samples_and_of_the_occurrences_of_ngrams():
    # The first has four 4-grams: "the cat sat on" and "cat sat on the" are known, the two with "sofa" are not;
    # the second is too short for any, the third a copy with two, the last knows none of its one.
    samples = ["the cat sat on the sofa .", "a dog ran", "a dog ran far away", "u v w x"]
    found = memorisation(samples, training=TRAINING)
    assert found.verbatim == 1 / 4
    assert found.ngrams == pytest.approx((2 + 2 + 0) / (4 + 2 + 1))


def test_ngrams_that_only_samples_share_are_not_known():
    assert memorisation(["p q r s", "p q r s"], training=TRAINING).ngrams == 0


def test_an_ngram_across_two_training_texts_is_no_ngram():
    assert memorisation(["the mat . a dog"], training=TRAINING).ngrams == 0


def test_a_piece_of_a_training_text_is_no_copy():
    assert memorisation(["the cat sat on"], training=TRAINING).verbatim == 0


def test_a_stream_in_blocks_finds_the_same(monkeypatch: pytest.MonkeyPatch):
    samples = ["the cat sat on the sofa .", *TRAINING, "x y"]
    whole = memorisation(samples, training=TRAINING, order=2)
    monkeypatch.setattr(module, "_BLOCK", 1)
    assert memorisation(samples, training=iter(TRAINING), order=2) == whole
    assert whole.verbatim == 2 / 4
    assert whole.ngrams > 0


def test_samples_too_short_for_any_ngram_know_none():
    assert memorisation(["a dog"], training=TRAINING).ngrams == 0


def test_nothing_to_look_for_or_nowhere_to_look_is_refused():
    with pytest.raises(DataError, match="no samples"):
        memorisation([], training=TRAINING)
    with pytest.raises(DataError, match="no training texts"):
        memorisation(["a"], training=[])
    with pytest.raises(UsageError, match="order 0"):
        memorisation(["a"], training=TRAINING, order=0)
