import pytest

from sundae.core.length import PAD
from sundae.decoding.layout import AFTER_WORD, AFTER_WORD_OR_END, FREE, FREE_OR_END
from sundae.decoding.places import Spliced, locked_layout, put_instead, splice

WANTED = {"a puppy runs .", "a dog runs in 20 parks .", "a puppy runs in 20 parks .", "20 dogs and 30 cats"}


def liked(texts):
    return [float(text in WANTED) - len(text) / 100 for text in texts]


def always(_before: str, _after: str) -> bool:
    return True


def test_a_word_takes_the_place_that_is_liked_best():
    best = splice(Spliced("a dog runs ."), ["puppy"], score=liked, allowed=always)[0]
    assert best.text == "a puppy runs ."
    assert best.places == ((2, "puppy"),)


def test_every_place_is_tried_and_none_twice():
    tried: list[str] = []

    def score(texts):
        tried.extend(texts)
        return liked(texts)

    splice(Spliced("one two."), ["x"], score=score, allowed=always)
    assert sorted(tried) == sorted(
        ["x one two.", "x two.", "x.", "one x two.", "one x.", "one x", "one two x.", "one two x", "one two. x"]
    )


def test_words_come_one_after_the_other_and_do_not_overwrite_each_other():
    (best, *_) = splice(Spliced("a dog runs in parks ."), ["20", "puppy"], score=liked, allowed=always)
    assert best.text == "a puppy runs in 20 parks ."
    for begin, word in best.places:
        assert best.text[begin:].startswith(word)


def test_what_is_not_allowed_is_not_there_and_a_word_without_room_is_left_out():
    found = splice(Spliced("dogs and 30 cats"), ["20"], score=liked, allowed=lambda _, after: after.startswith("20"))
    assert found[0].text == "20 dogs and 30 cats"
    assert splice(Spliced("a dog"), ["x"], score=liked, allowed=lambda *_: False) == [Spliced("a dog")]


def test_an_empty_text_gets_the_word_alone():
    assert splice(Spliced(""), ["x"], score=liked, allowed=always)[0].text == "x"


def test_a_word_stands_where_another_stood_if_that_is_known():
    known = {"puppy": (2, 5), "park": (14, 19), "x": None, "cat": (2, 5)}
    way = put_instead("a dog runs in parks .", known, allowed=always)
    assert way.text == "a puppy runs in park ."
    assert way.places == ((2, "puppy"), (16, "park"))
    assert put_instead("a dog", {"x": (2, 5)}, allowed=lambda *_: False) == Spliced("a dog")


def test_locked_words_do_not_go_on_and_the_text_does_not_end_before_them():
    layout = locked_layout(7, [(4, [8]), (1, [5, 6])])
    assert layout is not None
    (piece,) = layout.pieces
    assert piece.tokens == (PAD, 5, 6, PAD, 8, PAD, PAD)
    assert piece.classes == (FREE, FREE, FREE, AFTER_WORD, FREE_OR_END, AFTER_WORD_OR_END, FREE_OR_END)


@pytest.mark.parametrize("places", [[(6, [5, 6])], [(1, [5, 6]), (2, [7])]])
def test_what_does_not_fit_has_no_layout(places):
    assert locked_layout(7, places) is None
