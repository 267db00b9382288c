import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sundae.text.numbers import missing_numbers, numbers_in
from sundae.text.placeables import keep_variables, places, put_back, take_out, without_kept


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("a <b>red</b> car", "a red car"),
        ("see https://example.org/a?b=1 for more", "see for more"),
        ("see https://example.org.", "see."),
        ("(www.example.org)", ""),
        ("write to a.b+c@mail.example.org!", "write to!"),
        ("<p>", ""),
        ("Hello<br>World", "Hello World"),
        ("un<b>like</b>ly", "unlikely"),
        ("<td>red</td><td>house</td>", "red house"),
        ("10<sup>2</sup> m", "10 2 m"),
        ('<a href="x y">two words</a>', "two words"),
        ("a <b and c> d", "a <b and c> d"),
        ('say "http://x.org/y" now', "say now"),
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


def test_a_side_without_what_was_kept():
    assert without_kept("a <b>dog</b> at www.x.org 🐱", "ein <b>Hund</b> 🐱 bei www.x.org 🐱 <i>") == (
        "a dog at",
        "ein Hund bei 🐱 <i>",
    )


def test_variables_of_both_sides_are_no_locks():
    draft = "Hallo {{ name }}, {{Tom}}, \\{{ name }} {{{ name }}}"
    assert keep_variables(draft, "Hello {{ name }}") == draft.replace("Hallo {{", "Hallo \\{{")
    assert keep_variables(draft, "Hello") == draft


def test_where_they_stand():
    line = "see <b>this</b> at www.example.org/x."
    assert [line[begin:end] for begin, end in places(line)] == ["<b>", "</b>", "www.example.org/x"]


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


@pytest.mark.parametrize(
    ("line", "taken"),
    [
        ("see https://de.wikipedia.org/wiki/Hund_(Tier).", ["https://de.wikipedia.org/wiki/Hund_(Tier)"]),
        ("(see https://x.org/Hund_(Tier))", ["https://x.org/Hund_(Tier)"]),
        ("(see https://x.org/a)", ["https://x.org/a"]),
        ("[dog](https://x.org/a_(b)) runs", ["(https://x.org/a_(b))"]),
        ("a (https://x.org),www.y.org", ["(https://x.org)", "www.y.org"]),
        ("http://[::1]/x works", ["http://[::1]/x"]),
        ("\u201esiehe www.foo.org\u201c", ["www.foo.org"]),
        ("www.foo.org\u2019s dog and www.bar.org\u2026", ["www.foo.org", "www.bar.org"]),
        ("\u00absee www.foo.org\u00bb", ["www.foo.org"]),
        ("\u201cwww.foo.org\u201d", ["\u201cwww.foo.org\u201d"]),
        ("\u201ewww.foo.org\u201c", ["\u201ewww.foo.org\u201c"]),
        ("('www.foo.org.') is it", ["('www.foo.org.')"]),
        ("mail <me@x.org> now", ["<me@x.org>"]),
        ('"http://x.org","http://y.org"', ['"http://x.org"', '"http://y.org"']),
        ("load ftp://x.org/y.zip, HTTPS://X.ORG", ["ftp://x.org/y.zip", "HTTPS://X.ORG"]),
        ("at example.com/x?y=1, example.com:80/ or 3sat.de/a", ["example.com/x?y=1", "example.com:80/", "3sat.de/a"]),
        ("and/or 100 km/h, 3.5km/h, e.g./i.e., 1.und/oder, Mr.Smith/Jones", []),
        ("http://() www.! ftp://", []),
    ],
)
def test_what_is_an_address(line: str, taken: list[str]):
    assert [each.text for each in take_out(line)[1]] == taken


@pytest.mark.parametrize(
    ("line", "translation", "back"),
    [
        (
            "the site (www.foo.org) shows a dog .",
            "die Seite zeigt einen Hund .",
            "die Seite (www.foo.org) zeigt einen Hund .",
        ),
        (
            "the site \u201cwww.foo.org\u201d shows a dog",
            "die Seite zeigt einen Hund",
            "die Seite \u201cwww.foo.org\u201d zeigt einen Hund",
        ),
        ("the site (www.foo.org shows)", "diese Seite zeigt es)", "diese Seite zeigt www.foo.org es)"),
        ("the site (www.foo.org, shows)", "die Seite (, zeigt)", "die Seite (www.foo.org, zeigt)"),
        ("site:www.foo.org shows", "Seite: zeigt", "Seite:www.foo.org zeigt"),
        ("site:www.foo.org shows", "Seite zeigt", "Seite www.foo.org zeigt"),
        ("see www.foo.org.", "siehe .", "siehe www.foo.org."),
        ("\u89c1https://x.org\u3002\u597d", "\u89c1\u3002\u597d", "\u89c1\u3002\u597d https://x.org"),
        ("see <a href='x'>www.foo.org</a> now", "siehe jetzt", "siehe <a href='x'>www.foo.org</a> jetzt"),
    ],
)
def test_an_address_is_a_word_of_its_own_unless_it_was_not(line: str, translation: str, back: str):
    assert put_back(translation, take_out(line)[1]) == back


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("<button disabled>Go</button>", "Go"),
        ('<input type="text" DISABLED/> here', "here"),
        ("<video controls data-x src=y>film</video>", "film"),
        ("one <!-- two > three --> four", "one four"),
        ("un<!-- x -->likely", "unlikely"),
        ("a <x-y/>b", "a b"),
        ("a <b and c>d</b> e", "a <b and c>d</b> e"),
        ("<b>a <b and c>d</b> e</b>", "a <b and c>d</b> e"),
        ("a</b> c", "a c"),
        ("<!-- <b x> --> a</b> c", "a c"),
        ("<b>a</b><i>b</i>", "a b"),
        ("<b>a</b><!-- x --><i>b</i>", "a b"),
        ("<b>a</b><i>.</i>", "a."),
        ("un<b>believ</b>able", "unbelievable"),
        ("un<b><i>believ</i></b>able", "unbelievable"),
    ],
)
def test_what_is_a_tag(line: str, text: str):
    assert take_out(line)[0] == text


@pytest.mark.parametrize(
    ("line", "translation", "back"),
    [
        ("<b>a</b><i>b</i>", "x y", "<b>x</b> <i>y</i>"),
        ("<b>a</b><i>b</i>", "x y z", "<b>x y</b> <i>z</i>"),
        ("<b>a</b><i>b</i> c d e f", "u v w x y z", "<b>u</b> <i>v</i> w x y z"),
        ("<i><b>a</b> b</i> c d e f g h", "x y z", "<i><b>x</b></i> y z"),
        ("a b c d e <i>f <b>g</b></i>", "x y z", "x y <i><b>z</b></i>"),
        ("a b c d <b>e</b>, <i>f</i> <u>g</u>", "x y z", "<b>x</b> <i>y</i> <u>z</u>"),
        ("<b>a</b> <i>b</i>", "x", "<b></b> <i>x</i>"),
        ("un<b>believ</b>able dog", "toller Hund", "<b>toller</b> Hund"),
        ("a <b></b> c", "x y", "x <b></b> y"),
        ("Hello<br>World", "Hallo Welt", "Hallo<br>Welt"),
        ("one <!-- x --> two", "eins zwei", "eins <!-- x --> zwei"),
        ("see un<!-- x -->likely", "sieh unwahrscheinlich", "sieh <!-- x -->unwahrscheinlich"),
        ("a <input disabled> b", "x y", "x <input disabled> y"),
        ("Where is <b>Tom</b>?", "Wo ist Tom?", "Wo ist <b>Tom</b>?"),
        ("Where is <i><b>Tom</b></i>?", "Wo ist Tom?", "Wo ist <i><b>Tom</b></i>?"),
        ("<b>Where is Tom?</b>", "Wo ist Tom?", "<b>Wo ist Tom?</b>"),
        ("<b>Yes</b>, he said.", "Ja, sagte er.", "<b>Ja</b>, sagte er."),
        ('He said "<b>Stop</b>!"', 'Er sagte: "Halt!"', 'Er sagte: <b>"Halt</b>!"'),
        ("<b>Tom</b>.", ".", "<b>.</b>"),
    ],
)
def test_tags_come_back_nested_and_around_something(line: str, translation: str, back: str):
    placeables = take_out(line)[1]
    assert put_back(translation, placeables) == back


@st.composite
def tagged(draw: st.DrawFn, depth: int = 3) -> str:
    """Words and elements in each other, side by side with and without spaces; no element is empty."""
    parts: list[str] = []
    for _ in range(draw(st.integers(1, 3))):
        if depth and draw(st.booleans()):
            name = draw(st.sampled_from(["b", "i", "p"]))
            parts.append(f"<{name}>{draw(tagged(depth - 1))}</{name}>")
        else:
            parts.append(draw(st.sampled_from(["a", "dog"])) if not parts else " and ")
    return "".join(parts)


@given(tagged(), st.integers(0, 9))
def test_elements_come_back_as_they_were_nested_and_none_is_empty(line: str, more: int):
    text, placeables = take_out(line)
    back = put_back(" ".join(["wort"] * (len(text.split()) + more)), placeables)
    inside_word = re.search(r"\w<[a-z]|</[a-z]>\w", line)
    assert inside_word or not re.search(r"<(\w)></\1>", back), back
    assert re.findall("<[^>]*>", back) == re.findall("<[^>]*>", line)


def test_long_runs_are_read_in_linear_time():
    began = time.process_time()
    for text in (
        *("a" * 200_000, "www." + "." * 200_000, "a." * 100_000 + "@", "<" * 200_000, "<a " * 60_000),
        *("{a,plural," * 20_000, "{a,plural,{b}" * 10_000, "{a,plural," + "{x}" * 5_000),
        *("<!--" * 50_000, "www.)" * 40_000, "www.(" * 40_000, "(" * 30_000 + "www.a" + ")" * 30_000),
        *("<b and>" * 9_000 + "</b>" * 9_000, "<a " + "disabled " * 20_000, "a b <b>c</b>, www.d.de, " * 2_000),
    ):
        put_back(*take_out(text))
    for text in ("1" * 200_000, "1," * 100_000, "1 234 " * 30_000, "-" * 200_000):
        numbers_in(text)
        missing_numbers("13", text)
    assert time.process_time() - began < 10  # quadratic time would be minutes


@pytest.mark.parametrize(
    "kept",
    [
        *("{{name}}", "{{ user.name }}", "{0}", "{name:.2f}", "{count:d}", "${name}", "{name-of}", "{value!r}"),
        *("{n, plural, one {# file} other {{n} files}}", "{when, date, short}", "{price,number}"),
        *("%s", "%5d", "%.2f", "%-10s", "%ld", "%u", "%1$s", "%(n)d"),
        *("\U0001f642", "\u2764\ufe0f", "\U0001f468\u200d\U0001f469\u200d\U0001f467", "\U0001f44d\U0001f3fd"),
    ],
)
def test_variables_and_emoji_come_back(kept: str):
    text, placeables = take_out(f"you have {kept} friends")
    assert text == "you have friends"
    assert put_back("du hast Freunde", placeables) == f"du hast {kept} Freunde"


@pytest.mark.parametrize("line", ["100 % sicher", "50% of all", "a {b c} d", "{red, green}", "tom &apos;s {}", "100%d"])
def test_what_only_looks_like_a_variable_is_text(line: str):
    assert take_out(line) == (line, ())


def test_an_address_goes_before_what_ends_the_sentence():
    text, placeables = take_out("Read this (see www.b.de).")
    assert put_back("Lies dies.", placeables) == "Lies dies www.b.de."
    assert text == "Read this (see)."
