"""Templates: what they mean, that they can be written back, and that nothing but a UsageError comes out."""

import contextlib
import random
import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sundae.errors import UsageError
from sundae.text.template import (
    LONGEST_BLANK,
    Blank,
    Lock,
    Segment,
    Template,
    Text,
    escape,
    parse_template,
    render,
    unknown_blank,
)


def parsed(source: str) -> list[Segment]:
    return list(parse_template(source).segments)


@pytest.mark.parametrize(
    ("source", "segments"),
    [
        ("", []),
        ("plain text", [Text("plain text")]),
        ("[[6]]", [Blank(low=6, high=6)]),
        ("[[3w]]", [Blank(low=3, high=3, unit="words")]),
        ("[[2-8]]", [Blank(low=2, high=8)]),
        ("[[2-8w]]", [Blank(low=2, high=8, unit="words")]),
        ("[[ 6 ]]", [Blank(low=6, high=6)]),
        ("[[?]]", [unknown_blank()]),
        ("a [[6]]", [Text("a"), Blank(low=6, high=6, leading_space=True)]),
        ("a  [[6]]", [Text("a "), Blank(low=6, high=6, leading_space=True)]),
        ("a[[6]] b", [Text("a"), Blank(low=6, high=6), Text(" b")]),
        ("a\n[[6]]", [Text("a\n"), Blank(low=6, high=6)]),
        (" [[?]]", [unknown_blank(leading_space=True)]),
        ("[[1]] [[2]]", [Blank(low=1, high=1), Blank(low=2, high=2, leading_space=True)]),
        ("keep {{this}} please", [Text("keep "), Lock("this"), Text(" please")]),
        ("{{a}}{{b}}", [Lock("a"), Lock("b")]),
        ("{{ [[6]] }}", [Lock(" [[6]] ")]),
        ("{{a} b}}", [Lock("a} b")]),
        (r"{{a\}}b\\}}", [Lock("a}}b\\")]),
        (r"{{a\}\}b}}", [Lock("a}}b")]),
        (r"\[[6]]", [Text("[[6]]")]),
        (r"\\[[6]]", [Text("\\"), Blank(low=6, high=6)]),
        (r"\\\[[6]]", [Text("\\[[6]]")]),
        (r"\{{a}}", [Text("{{a}}")]),
        (r"C:\new\[x] \\server", [Text(r"C:\new\[x] \\server")]),
        ("]] }} [ { a[0] {x}", [Text("]] }} [ { a[0] {x}")]),
        ("[[[6]]", [Text("["), Blank(low=6, high=6)]),
        ("{{{a}}}", [Text("{"), Lock("a"), Text("}")]),
    ],
)
def test_what_a_template_means(source: str, segments: list[Segment]) -> None:
    assert parsed(source) == segments
    assert parse_template(render(parse_template(source))) == parse_template(source)


@pytest.mark.parametrize(
    ("source", "why", "place"),
    [
        ("a [[6", "not closed", 3),
        ("[[six]]", "neither a number", 1),
        ("ab[[]]", "neither a number", 3),
        ("[[-1]]", "neither", 1),
        ("[[6 w]]", "neither", 1),
        ("[[٣]]", "neither", 1),
        ("[[0]]", "at least 1", 1),
        (f"[[{LONGEST_BLANK + 1}]]", f"at most {LONGEST_BLANK}", 1),
        ("[[1-999999999]]", "at most", 1),
        ("[[" + "9" * 5000 + "]]", "neither", 1),
        ("x [[8-2]]", "ends below", 3),
        ("a {{never closed}", "not closed", 3),
        ("{{}}", "is empty", 1),
        (r"{{a\}}", "not closed", 1),
        ("see [[Wiki link]]", r"\\\[\[ for two brackets", 5),
    ],
)
def test_what_cannot_be_read_is_shown_with_its_place(source: str, why: str, place: int) -> None:
    with pytest.raises(UsageError, match=rf"character {place}\b.*{why}"):
        parse_template(source)


# Brackets, braces, backslashes and spaces in every mixture are what could go wrong.
tricky = st.text(st.sampled_from("[]{}\\ a6w?-\n猫"), min_size=1, max_size=12)
texts = st.one_of(tricky, st.text(min_size=1, max_size=20))
blanks = st.one_of(
    st.builds(unknown_blank, leading_space=st.booleans()),
    st.tuples(st.integers(1, LONGEST_BLANK), st.integers(1, LONGEST_BLANK)).flatmap(
        lambda ends: st.builds(
            Blank,
            low=st.just(min(ends)),
            high=st.just(max(ends)),
            unit=st.sampled_from(["tokens", "words"]),
            leading_space=st.booleans(),
        )
    ),
)


def canonical(segments: list[Segment]) -> Template:
    """Neighbouring texts are one, and the space before a blank is the blank's."""
    kept: list[Segment] = []
    for segment in segments:
        before = kept[-1] if kept else None
        if isinstance(segment, Text) and isinstance(before, Text):
            kept[-1] = Text(before.text + segment.text)
        elif isinstance(segment, Blank) and isinstance(before, Text) and not segment.leading_space:
            stripped = before.text.rstrip(" ")
            kept[-1:] = [Text(stripped)] if stripped else []
            kept.append(segment)
        else:
            kept.append(segment)
    return Template(tuple(kept))


templates = st.lists(st.one_of(st.builds(Text, texts), st.builds(Lock, texts), blanks), max_size=8).map(canonical)


@given(templates)
@example(Template((Text("[["), Blank(low=1, high=1))))
@example(Template((Text("\\["), Blank(low=1, high=1))))
@example(Template((Text("a\\"), Lock("\\"))))
@example(Template((Text("{"), Lock("{}"), Text("}"))))
def test_a_written_template_reads_as_itself(template: Template) -> None:
    assert parse_template(render(template)) == template


@given(texts)
def test_escaped_text_is_text(text: str) -> None:
    assert parsed(escape(text)) == [Text(text)]


def test_text_that_needs_no_escape_gets_none() -> None:
    for text in (r"C:\dir\[x]", "a[0] {x} ]] }}", "\\\\", "plain"):
        assert escape(text) == text


@given(st.one_of(tricky, st.text(), st.text(st.sampled_from("[]{}\\6-w? "), max_size=40)))
def test_any_text_is_a_template_or_a_usage_error(source: str) -> None:
    try:
        template = parse_template(source)
    except UsageError as error:
        said = str(error)
    else:
        said = "character"
        assert parse_template(render(template)) == template
    assert "character" in said


@pytest.mark.slow
def test_30000_random_texts_are_templates_or_usage_errors() -> None:
    draw = random.Random(0)
    for _ in range(30_000):
        alphabet = draw.choice(("[]{}\\ 6w?-", "ab [[]]{{}}\\", "".join(map(chr, range(32, 0x2000)))))
        source = "".join(draw.choices(alphabet, k=draw.randint(0, 40)))
        try:
            template = parse_template(source)
        except UsageError:
            continue
        assert parse_template(render(template)) == template


@pytest.mark.parametrize("unit", ["\\", "[", "{", "\\[", "[[", "{{", "]]", " ", "[[1]]", "{{a}}", "[[1]] "])
def test_long_templates_take_linear_time(unit: str) -> None:
    source = unit * (100_000 // len(unit))
    start = time.perf_counter()
    with contextlib.suppress(UsageError):
        assert parse_template(render(parse_template(source))) is not None
    escape(source)
    assert time.perf_counter() - start < 20  # quadratic time would be hours


def test_templates_that_no_source_means_cannot_be_made() -> None:
    for make in (
        lambda: Text(""),
        lambda: Lock(""),
        lambda: Blank(low=0, high=1),
        lambda: Blank(low=2, high=1),
        lambda: Blank(low=2, high=3, unknown=True),
        lambda: Template((Text("a"), Text("b"))),
        lambda: Template((Text("a "), Blank(low=1, high=1))),
    ):
        with pytest.raises(UsageError):
            make()


def test_the_blanks_of_a_template() -> None:
    template = parse_template("a [[2]] {{b}} [[?]]")
    assert template.blanks == (Blank(low=2, high=2, leading_space=True), unknown_blank(leading_space=True))
