import pytest
from hypothesis import given
from hypothesis import strategies as st

from sundae.text.placeables import missing_numbers, put_back, take_out


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("a <b>red</b> car", "a red car"),
        ("see https://example.org/a?b=1 for more", "see for more"),
        ("see https://example.org.", "see."),
        ("(www.example.org)", "()"),
        ("write to a.b+c@mail.example.org!", "write to!"),
        ("<p>", ""),
        ("3 < 4 and 5 > 2", "3 < 4 and 5 > 2"),
        ("  two  spaces ", "  two  spaces "),
    ],
)
def test_tags_and_addresses_are_taken_out(line: str, text: str):
    assert take_out(line)[0] == text


@pytest.mark.parametrize(
    "line",
    [
        "a <b>red</b> car",
        "<p>a car</p>",
        "see https://example.org/a?b=1 for more",
        "see https://example.org.",
        "look: https://example.org, www.example.com and me@example.org",
        "a<br/> b",
        "<i><b>both</b></i> words",
        "https://example.org",
    ],
)
def test_what_was_taken_out_goes_back_to_its_place(line: str):
    text, placeables = take_out(line)
    assert put_back(text, placeables).replace(" ", "") == line.replace(" ", "")


def test_a_longer_translation_takes_it_at_the_same_share():
    _, placeables = take_out("one <b>two</b> three four")
    assert put_back("eins zwei und drei vier fünf sechs sieben", placeables) == (
        "eins zwei <b>und drei</b> vier fünf sechs sieben"
    )


@given(
    st.lists(st.sampled_from(["word", "<b>", "</b>", "https://a.b/c", "x@y.org", "...", "<br/>"])),
    st.lists(st.sampled_from(["wort", "und", "Ende."])),
)
def test_everything_comes_back_once_and_in_order(parts: list[str], translation: list[str]):
    text, placeables = take_out(" ".join(parts))
    given_ = [part for part in parts if part not in ("word", "...")]
    assert [each.text for each in placeables] == given_
    assert not take_out(text)[1]
    back = put_back(" ".join(translation), placeables)
    assert [each.text for each in take_out(back)[1]] == given_
    assert [word for word in take_out(back)[0].replace(".", " .").split() if word != "."] == [
        word.removesuffix(".") for word in translation
    ]


def test_numbers_are_missed_by_their_digits():
    assert missing_numbers("3,000 dogs and 12 cats at 10:30", "3.000 Hunde um 10.30") == ("12",)
    assert missing_numbers("2 and 2", "2") == ("2",)
    assert missing_numbers("two", "zwei") == ()
