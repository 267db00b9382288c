from hypothesis import given
from hypothesis import strategies as st

from sundae.text.sentences import split_sentences, split_to_fit


def words(count: int):
    return lambda text: len(text.split()) <= count


def test_sentences_go_alone_and_what_is_too_long_in_clauses_and_words():
    assert split_to_fit("One two. Three!", words(4)) == ["One two. Three!"]
    assert split_to_fit("One two. Three four five!", words(4)) == ["One two. ", "Three four five!"]
    assert split_to_fit("one two, three four, five six", words(4)) == ["one two, three four, ", "five six"]
    assert split_to_fit("one two three four five six", words(4)) == ["one two three four ", "five six"]
    assert split_to_fit("incomprehensibilities", lambda text: len(text) < 5) == ["incomprehensibilities"]


@given(st.text(alphabet="ab,.!? \n"), st.integers(1, 6))
def test_parts_join_to_the_text_and_fit(text: str, most: int):
    parts = split_to_fit(text, words(most))
    assert "".join(parts) == text
    assert all(words(most)(part) or len(part.split()) == 1 for part in parts)


def test_sentences_keep_their_white_space():
    assert split_sentences("Yes.  No? ") == ["Yes.  ", "No? "]
