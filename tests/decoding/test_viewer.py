"""The page of a trace: whole in itself, and safe whatever the texts say."""

import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sundae.decoding.trace import Trace, TracedRow, TracedState
from sundae.decoding.viewer import render_html

HOSTILE = [
    "</script><img src=x onerror=alert(1)>",
    "<!--<script>",
    "]]> &lt;b&gt; &amp; \"quoted\" 'quoted'",
    "{{trace}} {{title}}",
    "\\u003c \\1 \\g<0> $& `${alert(1)}`",
    "\u2028\u2029\x00\x1b[31m\x7f",
]


def trace_of(text: str) -> Trace:
    state = TracedState(
        step=0, calls=0, length=1, tokens=(text, ""), labels={0: text}, changed=(), probability=(0.5, 1.0)
    )
    later = replace(state, step=1, calls=1, changed=(0,))
    row = TracedRow(states=(state, later), locked=(), score=-0.5, source=text)
    return Trace(verb=text, model=text, seed=0, sampling={text: text}, rows=(row,))


class Page(HTMLParser):
    """What a browser would make of the page: its elements, its scripts, and its title."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.scripts: list[str] = []
        self.title = ""
        self._inside = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self._inside = tag
        self.ids += [value or "" for name, value in attrs if name == "id"]
        self.links += [value or "" for name, value in attrs if name in ("src", "href", "action", "data")]
        self.links += [name for name, _ in attrs if name.startswith("on")]
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside == "script":
            self.scripts[-1] += data
        elif self._inside == "title":
            self.title += data


PLAIN = Page(render_html(trace_of("a calm text")))


def test_the_page_needs_nothing_from_elsewhere():
    page = render_html(trace_of("a calm text"))
    assert not re.search(r"https?:|//[\w-]+\.\w|url\(|@import|\bfetch\b|XMLHttpRequest|WebSocket|import\(", page)
    assert PLAIN.links == []
    assert "default-src 'none'" in page


def test_texts_enter_the_page_as_text_only():
    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|Function\(", PLAIN.scripts[1]
    )


@pytest.mark.parametrize("text", HOSTILE)
def test_a_hostile_text_stays_a_text(text: str):
    page = Page(render_html(trace_of(text)))
    assert page.tags == PLAIN.tags
    assert page.links == []
    assert page.scripts[1] == PLAIN.scripts[1]
    assert Trace.from_json(page.scripts[0]) == trace_of(text)
    assert page.title.startswith(text.strip()[:60])


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"]) | st.sampled_from("<>/&-!{}\"'"), max_size=40))
def test_any_text_comes_back_from_the_page(text: str):
    page = Page(render_html(trace_of(text)))
    assert page.tags == PLAIN.tags
    assert json.loads(page.scripts[0])["rows"][0]["text"] == text
    assert "<" not in page.scripts[0]


def test_the_page_finds_every_element_that_it_looks_for():
    wanted = set(re.findall(r'find\("([\w-]+)"\)', PLAIN.scripts[1]))
    assert len(wanted) > 10
    assert wanted <= set(PLAIN.ids)
    assert len(PLAIN.ids) == len(set(PLAIN.ids))


def test_every_field_that_the_page_reads_is_in_the_trace():
    content = json.loads(PLAIN.scripts[0])
    state, row = content["rows"][0]["states"][0], content["rows"][0]
    script = PLAIN.scripts[1]
    assert set(re.findall(r"\bstate\.(\w+)", script)) <= set(state)
    assert set(re.findall(r"\brow\.(\w+)", script)) <= set(row)
    assert set(re.findall(r"\btrace\.(\w+)", script)) <= set(content)


def test_every_control_has_a_name():
    page = render_html(trace_of("a calm text"))
    for control in re.findall(r"<(?:button|input)[^>]*>", page):
        assert "aria-label=" in control or 'id="numbers"' in control, control
    assert re.search(r'<label[^>]*><input type="checkbox" id="numbers"> in numbers</label>', page)
    assert '<label for="sample"' in page
