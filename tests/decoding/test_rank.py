import pytest
from hypothesis import given
from hypothesis import strategies as st

from sundae.decoding.rank import chrf, rank
from sundae.errors import UsageError

TEXTS = st.text(st.characters(codec="utf-8", categories=("L", "P", "Zs")), max_size=25)


@given(TEXTS, TEXTS)
def test_chrf_is_that_of_sacrebleu(first, second):
    sacrebleu = pytest.importorskip("sacrebleu")
    expected = sacrebleu.sentence_chrf(first, [second]).score
    assert chrf(first, second) == pytest.approx(expected, abs=1e-6)


def test_scores_rank_and_equal_texts_are_merged():
    texts, scores, lengths = ["a", "b", "a", "c"], [-4.0, -6.0, -3.0, -9.0], [2, 6, 2, 6]
    assert rank(texts, scores=scores, lengths=lengths, by="score") == [2, 1, 3]
    assert rank(texts, scores=scores, lengths=lengths, by="per-token") == [1, 2, 3]
    assert rank([], scores=[], lengths=[]) == []


@pytest.mark.parametrize(("power", "best"), [(0.0, "short"), (0.4, "short"), (0.7, "a long one"), (1.0, "a long one")])
def test_the_length_counts_as_much_as_is_said(power: float, best: str):
    texts = ["short", "a long one"]
    order = rank(texts, scores=[-4.0, -7.0], lengths=[1, 3], by=power)
    assert texts[order[0]] == best


def test_an_unknown_way_to_rank_is_refused_by_name():
    with pytest.raises(UsageError, match="did you mean 'score'"):
        rank(["a"], scores=[0.0], lengths=[1], by="scores")  # pyright: ignore[reportArgumentType]


def test_minimum_bayes_risk_prefers_what_the_others_agree_with():
    texts = ["the cat sat", "the cat sat down", "the cat sits", "a spaceship"]
    best, *_, worst = rank(texts, scores=[-9.0, -9.0, -9.0, 0.0], lengths=[1] * 4, by="mbr")
    assert texts[best] == "the cat sat down"  # recall counts more than precision
    assert texts[worst] == "a spaceship"
    # What came twice counts twice.
    twice = rank(["xx yy", "aa bb", "xx yy"], scores=[-1.0, 0.0, -1.0], lengths=[1] * 3, by="mbr")
    assert twice == [0, 1]
