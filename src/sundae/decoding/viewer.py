"""A trace as one page: no server, no network, nothing to install."""

import html
import re
from importlib.resources import files

from sundae.decoding.trace import Trace


def render_html(trace: Trace) -> str:
    """The whole page: open it from anywhere, offline."""
    template = files("sundae.decoding").joinpath("viewer.html").read_text(encoding="utf-8")
    # Outside strings JSON has none of these characters, and inside strings the escapes mean the same: whatever a
    # text says, it cannot end the element that holds it.
    data = trace.to_json().replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
    values = {"title": html.escape(f"{trace.rows[0].text.strip()[:60]} - {trace.verb}"), "trace": data.strip()}
    # In one pass, so that a text may hold what looks like a place in the template.
    return re.sub(r"\{\{(title|trace)\}\}", lambda place: values[place[1]], template)
