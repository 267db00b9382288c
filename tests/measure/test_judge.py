import math
from collections.abc import Sequence

import numpy as np
import pytest

from sundae.errors import DataError
from sundae.measure.bootstrap import draw_resamples
from sundae.measure.judge import perplexity


def letters(texts: Sequence[str]) -> list[tuple[float, int]]:
    """A judge whose tokens are letters, each of probability 1/26."""
    return [(math.log(26) * len(text.replace(" ", "")), len(text.replace(" ", ""))) for text in texts]


def test_a_uniform_judge_is_as_perplexed_as_it_has_tokens():
    found = perplexity(["ab cd", "efg"], judge=letters)
    assert found.per_token.value == pytest.approx(26)
    assert (found.per_token.low, found.per_token.high) == (pytest.approx(26), pytest.approx(26))
    assert (found.texts, found.tokens) == (2, 7)


def test_per_word_and_per_character_do_not_depend_on_the_judges_tokens():
    texts = ["ab cd", "efg"]
    nats = 7 * math.log(26)
    whole = perplexity(texts, judge=lambda given: [(nats / 2, 1) for _ in given])
    pieces = perplexity(texts, judge=lambda given: [(nats / 2, 9) for _ in given])
    assert whole.per_token.value > pieces.per_token.value
    assert whole.per_word == pieces.per_word
    assert whole.per_character == pieces.per_character
    assert whole.per_word.value == pytest.approx(math.exp(nats / 3))
    assert whole.per_character.value == pytest.approx(math.exp(nats / 8))  # the space is a character


def test_long_texts_weigh_more_and_the_interval_is_over_texts():
    texts = ["a", "b b b", "c c"]
    judged = [(1.0, 1), (9.0, 3), (4.0, 2)]
    found = perplexity(texts, judge=lambda _: judged, resamples=200, seed=3)
    assert found.per_token.value == pytest.approx(math.exp(14 / 6))
    scores = [
        math.exp(sum(judged[i][0] for i in drawn) / sum(judged[i][1] for i in drawn))
        for drawn in draw_resamples(3, resamples=200, seed=3)
    ]
    assert found.per_token.low == pytest.approx(np.quantile(scores, 0.025, method="lower"))
    assert found.per_token.high == pytest.approx(np.quantile(scores, 0.975, method="higher"))


def test_an_empty_text_among_others_is_no_accident():
    found = perplexity(["", "a b"], judge=lambda _: [(0.5, 1), (2.0, 2)], resamples=50)
    assert found.per_word.value == pytest.approx(math.exp(1.25))
    assert found.per_word.high == math.inf  # some resamples have no word at all
    silent = perplexity(["", "a b"], judge=lambda _: [(0.0, 0), (2.0, 2)], resamples=50)
    assert silent.per_token.value == pytest.approx(math.e)
    assert silent.per_token.high == math.inf


def test_what_cannot_be_judged_is_refused():
    with pytest.raises(DataError, match="no texts"):
        perplexity([], judge=letters)
    with pytest.raises(DataError, match="1 judgements of 2 texts"):
        perplexity(["a", "b"], judge=lambda _: [(1.0, 1)])
    with pytest.raises(DataError, match="no words"):
        perplexity(["", ""], judge=lambda given: [(1.0, 1) for _ in given])
    with pytest.raises(DataError, match="not finite"):
        perplexity(["a"], judge=lambda _: [(math.nan, 1)])
