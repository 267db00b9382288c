import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sundae.text.sentences import certain_sentences, split_sentences, split_to_fit


def words(count: int):
    return lambda text: len(text.split()) <= count


def test_sentences_go_alone_and_what_is_too_long_in_clauses_and_words():
    assert split_to_fit("One two. Three!", words(4)) == ["One two. Three!"]
    assert split_to_fit("One two. Three four five!", words(4)) == ["One two. ", "Three four five!"]
    assert split_to_fit("one two, three four, five six", words(4)) == ["one two, three four, ", "five six"]
    assert split_to_fit("one two three four five six", words(4)) == ["one two three four ", "five six"]


@given(st.text(alphabet="ab,.!? \n"), st.integers(1, 6))
def test_parts_join_to_the_text_and_fit(text: str, most: int):
    parts = split_to_fit(text, words(most))
    assert "".join(parts) == text
    assert all(words(most)(part) or len(part.split()) == 1 for part in parts)


def test_sentences_keep_their_white_space():
    assert split_sentences("Yes.  No? ") == ["Yes.  ", "No? "]


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        (
            "\u884c\u304f\u3002\u6765\u308b\uff01 \u898b\u308b",
            ["\u884c\u304f\u3002", "\u6765\u308b\uff01 ", "\u898b\u308b"],
        ),
        ("\u300c\u884c\u304f\u3002\u300d\u6765\u308b\u3002", ["\u300c\u884c\u304f\u3002\u300d", "\u6765\u308b\u3002"]),
        ("\u884c\u304f\uff01\uff1f\u300f\uff09\u6765\u308b", ["\u884c\u304f\uff01\uff1f\u300f\uff09", "\u6765\u308b"]),
        ("\u201c\u597d\u3002\u201d\u4ed6\u8bf4", ["\u201c\u597d\u3002\u201d", "\u4ed6\u8bf4"]),
        ("\u597d\uff01? \u4ed6", ["\u597d\uff01? ", "\u4ed6"]),
        ('\u597d\u3002" \u4ed6', ['\u597d\u3002" ', "\u4ed6"]),
    ],
)
def test_full_width_punctuation_ends_a_sentence_without_white_space(text: str, sentences: list[str]):
    assert split_sentences(text) == sentences


@given(st.text(alphabet='ab.!" \n\u3002\uff01\uff1f\u300d\uff09\u201d'))
def test_sentences_join_to_the_text(text: str):
    parts = split_sentences(text)
    assert "".join(parts) == text
    assert all(parts)


def test_a_word_that_is_too_long_is_split_by_characters():
    assert split_to_fit("incomprehensibilities", lambda text: len(text) < 5) == [
        "inco",
        "mpre",
        "hens",
        "ibil",
        "itie",
        "s",
    ]
    assert split_to_fit("a incompre b", lambda text: len(text) < 5) == ["a ", "inco", "mpre", " b"]
    assert split_to_fit("abc", lambda text: False) == ["a", "b", "c"]
    assert split_to_fit("axxb", lambda text: "x" not in text) == ["a", "x", "x", "b"]


@given(st.text(alphabet="ab,. \n\u3002"), st.integers(1, 9))
def test_parts_fit_whatever_is_counted(text: str, most: int):
    parts = split_to_fit(text, lambda part: len(part) <= most)
    assert "".join(parts) == text
    assert all(len(part) <= most for part in parts)


@pytest.mark.parametrize("most", [1, 50, 70_000])
def test_a_very_long_word_is_split_in_little_more_than_linear_time(most: int):
    seen = 0

    def fits(text: str) -> bool:
        nonlocal seen
        seen += len(text)
        return len(text) <= most

    began = time.perf_counter()
    assert "".join(split_to_fit("a" * 100_000, fits)) == "a" * 100_000
    assert seen < 5_000_000
    assert time.perf_counter() - began < 2


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("A dog runs. A man sits.", ["A dog runs. ", "A man sits."]),
        ("a dog runs . a man sits .", ["a dog runs . ", "a man sits ."]),
        ("Mr. Smith met Dr. Jones. They left!", ["Mr. Smith met Dr. Jones. ", "They left!"]),
        ("J. S. Bach lived here. So did I.", ["J. S. Bach lived here. ", "So did I."]),
        (
            "Am 3. Mai kam er, z. B. mit dem Zug. Sie kam nicht.",
            ["Am 3. Mai kam er, z. B. mit dem Zug. ", "Sie kam nicht."],
        ),
        ('"Stop!" he said. "Why?" She laughed.', ['"Stop!" he said. ', '"Why?" ', "She laughed."]),
        ("It costs 3.50 euros, e.g. here. Really?", ["It costs 3.50 euros, e.g. here. ", "Really?"]),
        ("\u00c4pfel? \u00d6l!", ["\u00c4pfel? ", "\u00d6l!"]),
        ("one line", ["one line"]),
        ("", []),
    ],
)
def test_sentences_that_surely_end(text: str, sentences: list[str]):
    assert certain_sentences(text) == sentences
