import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sundae.errors import DataError
from sundae.measure.blanks import edit_distance, edit_similarity, score_blanks


def plain_distance(first: str, second: str) -> int:
    """The textbook's table, a row at a time."""
    row = list(range(len(second) + 1))
    for i, a in enumerate(first, 1):
        diagonal, row[0] = row[0], i
        for j, b in enumerate(second, 1):
            diagonal, row[j] = row[j], min(diagonal + (a != b), row[j] + 1, row[j - 1] + 1)
    return row[-1]


@given(st.text("abü", max_size=12), st.text("abü", max_size=12))
@example("kitten", "sitting")
@example("", "abc")
@example("a" * 70, "a" * 35 + "b" + "a" * 34)  # longer than a machine word
def test_edit_distance_is_the_textbook_one(first: str, second: str):
    assert edit_distance(first, second) == plain_distance(first, second)


def test_edit_similarity_is_between_different_and_equal():
    assert edit_similarity("abcd", "abcd") == 1
    assert edit_similarity("", "") == 1
    assert edit_similarity("abcd", "wxyz") == 0
    assert edit_similarity("abcd", "ab") == pytest.approx(0.5)
    assert edit_similarity("kitten", "sitting") == pytest.approx(1 - 3 / 7)


def test_one_blank_is_right_or_wrong_and_more_or_less_alike():
    found = score_blanks([[["cat"]], [["dog"]]], answers=[["cat"], ["fog"]])
    assert found.exact.value == 0.5
    assert found.exact_blank.value == 0.5
    assert found.similarity.value == pytest.approx((1 + 2 / 3) / 2)
    assert (found.exact.low, found.exact.high) == (0, 1)  # two items say little
    assert found.items == 2


def test_several_blanks_must_all_be_right_to_be_exact():
    found = score_blanks([[["a", "x"]], [["a", "b"]]], answers=[["a", "b"], ["a", "b"]])
    assert found.exact.value == 0.5
    assert found.exact_blank.value == pytest.approx(0.75)
    assert found.similarity.value == pytest.approx(0.75)


def test_exact_at_k_looks_at_the_first_k_candidates():
    candidates = [[["no"], ["yes"], ["maybe"]], [["no"], ["no"], ["yes"]], [["no"], ["no"], ["no"]]]
    found = score_blanks(candidates, answers=[["yes"]] * 3, at=(1, 2, 3))
    assert [found.exact_at[k].value for k in (1, 2, 3)] == [0, pytest.approx(1 / 3), pytest.approx(2 / 3)]
    assert found.exact.value == 0


def test_right_blanks_of_different_candidates_do_not_add_up():
    found = score_blanks([[["a", "x"], ["x", "b"]]], answers=[["a", "b"]], at=(2,))
    assert found.exact_at[2].value == 0


def test_equal_candidates_may_have_been_merged():
    found = score_blanks([[["b"], ["a"]], [["a"]], [["b"]]], answers=[["a"], ["a"], ["a"]], at=(2,))
    assert found.exact_at[2].value == pytest.approx(2 / 3)


def test_white_space_does_not_count_but_case_does():
    assert score_blanks([[[" the  cat"]]], answers=[["the cat "]]).exact.value == 1
    assert score_blanks([[["The cat"]]], answers=[["the cat"]]).exact.value == 0


def test_what_does_not_fit_is_refused():
    with pytest.raises(DataError, match="candidates for 1 items and 2 answers"):
        score_blanks([[["a"]]], answers=[["a"], ["b"]])
    with pytest.raises(DataError, match="no items"):
        score_blanks([], answers=[])
    with pytest.raises(DataError, match="item 0 has 1 blanks"):
        score_blanks([[["a", "b"]]], answers=[["a"]])
    with pytest.raises(DataError, match="item 0 has no candidate"):
        score_blanks([[]], answers=[["a"]])
    with pytest.raises(DataError, match="item 0 has no blank"):
        score_blanks([[[]]], answers=[[]])
    with pytest.raises(DataError, match="item 0 is a text"):
        score_blanks([["cat"]], answers=["cat"])
