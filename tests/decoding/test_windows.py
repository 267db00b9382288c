from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decoding.desks import desk_of_words
from sundae.decoding.windows import first_group, fits, window_around
from sundae.text.sentences import split_sentences
from sundae.text.template import Blank, parse_template, render


@given(st.text(st.sampled_from(list("ab .!?\n\"')")), max_size=40))
def test_sentences_join_to_the_text(text):
    parts = split_sentences(text)
    assert "".join(parts) == text
    assert all(parts)


def test_sentences_end_at_punctuation_and_lines():
    assert split_sentences('He said "no." Then he\nleft! 3.5 km') == ['He said "no." ', "Then he\n", "left! ", "3.5 km"]


def around(left: str, blank: str, right: str, *, canvas: int, ends: bool) -> tuple[str, int, int, str]:
    desk = replace(desk_of_words(), canvas=canvas, ends=ends)
    core = [segment for segment in parse_template(f"{left}{blank}{right}").segments if isinstance(segment, Blank)]
    left = left.removesuffix(" ") if core[0].leading_space else left
    window = window_around(left, core, right, desk)
    return render(window.template), window.before, window.after, window.space


def test_a_model_of_sentences_sees_its_sentence_alone():
    found = around("the cat sees a dog. the ", "[[1]]", " hears a bird. a tree", canvas=12, ends=True)
    assert found == ("the [[1]] hears a bird.", 3, 14, "")


def test_a_sentence_that_begins_with_its_blank_shows_no_space():
    found = around("the cat sees a dog. ", "[[1]]", " hears a bird.", canvas=12, ends=True)
    assert found == ("[[1]] hears a bird.", 0, 14, " ")


def test_a_model_of_running_text_sees_both_sides():
    found = around("the cat sees a dog. the ", "[[1]]", " hears a bird. a tree", canvas=7, ends=False)
    assert found == (" a dog. the [[1]] hears a bird.", 11, 14, "")


def test_what_one_side_does_not_need_goes_to_the_other():
    assert around("the cat sees a ", "[[1]]", "", canvas=4, ends=False)[0] == " cat sees a [[1]]"
    assert around("a ", "[[1]]", " sees the big red bird", canvas=5, ends=False)[0] == "a [[1]] sees the big"


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("a [[1]] b [[2]] c", (1, 4)),
        ("a [[1]] b. c [[2]] d", (1, 2)),
        ("a [[1]] b. [[2]] d", (1, 2)),
        ("a [[1]] b c d e f g h i j k l m [[2]] d", (1, 2)),
        ("[[1]] [[1]]", (0, 2)),
    ],
)
def test_blanks_of_one_sentence_that_fit_are_seen_together(template, expected):
    desk = replace(desk_of_words(), canvas=10)
    assert first_group(parse_template(template).segments, desk) == expected


def test_what_fits():
    desk = replace(desk_of_words(), canvas=4)
    assert fits(parse_template("a [[2]] b"), desk)
    assert not fits(parse_template("a [[2-9]] b"), desk)  # it would be squeezed
    assert fits(parse_template("a [[2-9]] b"), desk, tightly=True)
    assert fits(parse_template("a [[2-9]] b"), replace(desk, canvas=7))
    assert not fits(parse_template("a b [[1w]] c"), desk)  # a word may have two tokens
    assert not fits(parse_template("a [[3]] b"), desk)
