import pytest
import torch

from decoding.desks import desk_for, desk_of_bytes, desk_of_words, words_of
from sundae.core.length import PAD
from sundae.decoding.layout import (
    AFTER_WORD,
    AFTER_WORD_OR_END,
    APART,
    BEGIN,
    FREE,
    FREE_OR_END,
    WORD_BEGIN,
    WORD_INSIDE,
    WORD_START,
    Layout,
    Piece,
    lay_out,
    place_words,
)
from sundae.errors import UsageError
from sundae.text.template import parse_template
from sundae.text.tokenizer import train_tokenizer


def gaps(template: str, *, number: int = 0, **changes) -> list[tuple[int, ...]]:
    """The classes of one gap in every layout."""
    desk = changes.pop("desk", desk_of_bytes())
    found = lay_out(parse_template(template), desk, tries=1000, **changes)
    return [[piece for piece in layout.pieces if piece.text is None][number].classes for layout in found]


def test_a_fixed_blank_has_one_layout():
    assert gaps("the [[3]] sees") == [(BEGIN, FREE, FREE)]
    assert gaps("the[[3]] sees") == [(FREE, FREE, FREE)]


def test_a_range_is_tried_length_by_length():
    assert [len(each) for each in gaps("the [[2-4]] sees")] == [2, 3, 4]
    assert [len(each) for each in gaps("the [[?]] sees")] == list(range(1, 13))


def test_at_the_end_the_model_decides_where_to_end():
    (classes,) = gaps("the dog [[2-4]]")
    assert classes == (BEGIN, FREE, FREE_OR_END, FREE_OR_END)
    (classes,) = gaps("the dog [[?]]")
    assert classes[1:] == (FREE_OR_END,) * (len(classes) - 1)
    crops = desk_for(desk_of_bytes().tokenizer, canvas=10, ends=False)
    assert FREE_OR_END not in {kind for classes in gaps("the dog [[2-4]]", desk=crops) for kind in classes}


def test_words_may_be_of_several_tokens_each():
    assert gaps("the [[1w]] sees") == [(WORD_BEGIN, *[WORD_INSIDE] * more) for more in range(4)]
    # The first word of a text has no space before it.
    assert gaps("[[1w]] sees")[:2] == [(WORD_START,), (WORD_START, WORD_INSIDE)]
    two = gaps("the [[2w]] sees")
    assert (WORD_BEGIN, WORD_BEGIN) in two
    assert (WORD_BEGIN, WORD_INSIDE, WORD_BEGIN) in two
    assert all(classes.count(WORD_BEGIN) == 2 for classes in two)
    assert gaps("the [[2w]] sees", desk=desk_of_words()) == [(WORD_BEGIN, WORD_BEGIN)]


def test_too_many_combinations_are_sampled_and_fit():
    template = parse_template("[[?]] the [[?]] dog [[?]] sees [[?]] bird")
    desk = desk_of_bytes()
    found = lay_out(template, desk, tries=40)
    assert len(set(found)) == 40
    assert all(len(layout) <= desk.canvas for layout in found)
    assert min(map(len, found)) == len(lay_out(template, desk, tries=1)[0])
    assert found == lay_out(template, desk, tries=40)
    assert found != lay_out(template, desk, tries=40, seed=1)


def test_classes_bar_what_they_say():
    desk = desk_of_bytes()
    table, texts = desk.classes.table(), [desk.tokenizer.token_text(token) for token in range(300)]
    for token, text in enumerate(texts[1:], start=1):
        assert not table[FREE, token]
        assert bool(table[BEGIN, token]) == (not text.startswith(" "))
        if not table[WORD_BEGIN, token]:
            assert text == " " or words_of(text) == [text[1:]]
        if not table[WORD_INSIDE, token]:
            assert not text.startswith(" ")
        if not table[AFTER_WORD, token]:
            assert text.startswith(" ") or not text.isalnum()
        if not table[WORD_START, token]:
            assert text[0].isalnum()
            assert words_of(text) == [text.rstrip("-'\u2019")]
        assert bool(table[APART, token]) == text[0].isalnum()
    ending = {FREE_OR_END, AFTER_WORD_OR_END}
    assert [bool(barred) for barred in table[:, PAD]] == [kind not in ending for kind in range(len(table))]


def test_only_allowed_words_are_offered():
    desk, words = desk_of_bytes(), ("cat", "dog", "zebra", "old cat")
    spelt = {word: desk.spell(word, after_space=True) for word in words}
    single = {ids[0] for ids in spelt.values() if len(ids) == 1}
    assert 0 < len(single) < len(words) - 1
    found = [
        layout.pieces[1] for layout in lay_out(parse_template("the [[1w]] sees"), desk, tries=99, allowed={1: words})
    ]
    (shared,) = (piece for piece in found if PAD in piece.tokens)
    barred = desk.classes.table()[shared.classes[0]]
    assert {token for token in range(300) if not barred[token]} == single
    fixed = {piece.tokens for piece in found if piece != shared}
    assert fixed == {tuple(spelt[word]) for word in words[:3] if len(spelt[word]) > 1}
    with pytest.raises(
        UsageError, match="blank 1 cannot be filled: no allowed words add up to 1, or the canvas has no room"
    ):
        gaps("the [[1w]]" + " big" * 8, allowed={1: ["incomprehensibilities"]})


def test_a_blank_that_no_allowed_word_fits_is_named_by_its_number_in_the_whole_template():
    with pytest.raises(UsageError, match="blank 3 cannot be filled: no allowed word or phrase has 2 tokens"):
        gaps("the [[2]]", allowed={1: ["cat"]}, first_number=3)


@pytest.mark.parametrize(("template", "message"), [("[[30]]", "holds 24"), ("the [[9]] and [[20]]", "holds 24")])
def test_what_does_not_fit_says_why(template, message):
    with pytest.raises(UsageError, match=message):
        gaps(template)


def test_words_are_placed_where_there_is_room_and_nothing_ends_before_them():
    desk = desk_of_bytes()
    (layout,) = lay_out(parse_template("[[?]]"), desk, tries=10)
    seen = set()
    for seed in range(60):
        placed = place_words(layout, ["cat", "red"], desk, seed=seed)
        assert placed is not None
        (piece,) = placed.pieces
        text = desk.tokenizer.decode([token for token in piece.tokens if token != PAD])
        assert sorted(words_of(text)) == ["cat", "red"]
        last = max(place for place, token in enumerate(piece.tokens) if token != PAD)
        table = desk.classes.table()
        for place, kind in enumerate(piece.classes[:last]):
            assert piece.tokens[place] != PAD or bool(table[kind, PAD])
        seen.add(piece.tokens)
    assert len(seen) > 30
    tiny = Layout((Piece((PAD,), classes=(FREE,)),))
    assert place_words(tiny, ["cat", "red"], desk, seed=0) is None


def test_given_text_comes_back_and_the_gaps_are_found_again():
    desk = desk_of_bytes()
    (layout,) = lay_out(parse_template("the [[2]] é☃[[1]]!"), desk, tries=10)
    cat, dog = (desk.tokenizer.encode(word)[0] for word in (" the", " sees"))
    inner = [token for piece in layout.pieces for token in piece.tokens]
    gap = [place for place, token in enumerate(inner) if token == PAD]
    for place, token in zip(gap, (cat, dog, cat), strict=True):
        inner[place] = token
    text, spans = layout.text(inner, desk.tokenizer)
    show = desk.tokenizer.token_text
    assert text == f"the{show(cat)}{show(dog)} é☃{show(cat)}!"
    assert [text[begin:end] for begin, end in spans] == [(show(cat) + show(dog)).lstrip(), show(cat).lstrip()]


def test_a_word_vocabulary_gets_its_spaces_back():
    desk = desk_of_words()
    (layout,) = lay_out(parse_template("the [[2]] sees"), desk, tries=10)
    ids = [*desk.tokenizer.encode("the"), *desk.tokenizer.encode("big dog"), *desk.tokenizer.encode("sees")]
    assert layout.text(ids, desk.tokenizer)[0] == "the big dog sees"


def test_words_of_characters():
    desk = desk_for(train_tokenizer("character", ["the big cat sees a dog"], vocabulary_size=100))
    assert {len(classes) for classes in gaps("the [[1w]] sees", desk=desk)} == set(range(2, 9))
    assert bool(desk.shapes.begins.sum() == 1)
    assert torch.equal(desk.shapes.begins.nonzero().flatten(), torch.tensor(desk.tokenizer.encode(" ")))


def test_blanks_with_very_many_shapes_are_laid_out_at_once():
    desk = desk_for(desk_of_bytes().tokenizer, canvas=128)
    assert lay_out(parse_template("the [[1-40w]] sees"), desk, tries=48)
    words = ["a", "cat", "zebras", "incomprehensible", "river"]
    assert lay_out(parse_template("[[14w]] sees"), desk, tries=48, allowed={1: words})
    characters = desk_for(train_tokenizer("character", ["the big cat sees a dog"], vocabulary_size=100))
    with pytest.raises(UsageError, match="canvas holds"):
        lay_out(parse_template("c" * 13 + "[[1w]]" * 6), characters, tries=48)
