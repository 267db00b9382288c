import time

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
        ("Hello<br>World", "Hello World"),
        ("un<b>like</b>ly", "unlikely"),
        ("<td>red</td><td>house</td>", "red house"),
        ("10<sup>2</sup> m", "10 2 m"),
        ('<a href="x y">two words</a>', "two words"),
        ("a <b and c> d", "a <b and c> d"),
        ('say "http://x.org/y" now', 'say "" now'),
        ("http:// and www. are none", "http:// and www. are none"),
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
        "<td>red</td><td>house</td>",
        '"http://x.org/y"',
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
    assert missing_numbers("2 and 2", "3") == ("2",)
    assert missing_numbers("two", "zwei") == ()
    assert missing_numbers("the 2nd street at 5pm", "die zweite Straße um 17 Uhr") == ()
    assert missing_numbers("12/25", "25.12.") == ()


def test_long_runs_are_read_in_linear_time():
    began = time.perf_counter()
    for text in ("a" * 200_000, "www." + "." * 200_000, "a." * 100_000 + "@", "<" * 200_000, "<a " * 60_000):
        take_out(text)
    assert time.perf_counter() - began < 5
