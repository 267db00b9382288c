import sys
from pathlib import Path
from typing import Any

import pytest

from sundae.errors import CapabilityError, DataError, UsageError
from sundae.measure.plots import Series, plot

LABELS: Any = {"title": "Quality and diversity", "x_label": "negative BLEU-5", "y_label": "self-BLEU-5"}


def test_a_plot_is_written_in_both_formats_and_is_the_same_every_time(tmp_path: Path):
    pytest.importorskip("matplotlib")
    series = [
        Series("ours", [-0.3, -0.2], [0.5, 0.3], labels=["cold", "hot"]),
        Series("theirs", [-0.1], [0.4], joined=False),
    ]
    png, svg = plot(series, to=tmp_path / "new" / "v1.frontier", **LABELS)
    assert (png.name, svg.name) == ("v1.frontier.png", "v1.frontier.svg")
    assert png.read_bytes().startswith(b"\x89PNG")
    drawn = svg.read_text(encoding="utf-8")
    for text in ("Quality and diversity", "self-BLEU-5", "ours", "theirs", "cold", "hot"):
        assert f">{text}<" in drawn
    first = png.read_bytes(), svg.read_bytes()
    plot(series, to=tmp_path / "new" / "v1.frontier", **LABELS)
    assert (png.read_bytes(), svg.read_bytes()) == first


def test_axes_may_be_logarithmic_and_one_format_enough(tmp_path: Path):
    pytest.importorskip("matplotlib")
    series = [Series("a", [1, 10, 100], [1, 10, 100])]
    drawn = {
        plot(series, to=tmp_path / "a", **LABELS, formats=["svg"], log_x=x, log_y=y)[0].read_bytes()
        for x in (False, True)
        for y in (False, True)
    }
    assert len(drawn) == 4
    assert not (tmp_path / "a.png").exists()


def test_points_that_do_not_pair_are_refused(tmp_path: Path):
    with pytest.raises(DataError, match="2 x and 1 y"):
        Series("a", [1, 2], [1])
    with pytest.raises(DataError, match="0 x and 0 y"):
        Series("a", [], [])
    with pytest.raises(DataError, match="1 labels"):
        Series("a", [1, 2], [1, 2], labels=["x"])
    with pytest.raises(DataError, match="no series"):
        plot([], to=tmp_path / "a", **LABELS)
    with pytest.raises(UsageError, match="png or svg"):
        plot([Series("a", [1], [1])], to=tmp_path / "a", **LABELS, formats=["gif"])


def test_without_matplotlib_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(CapabilityError, match=r"sundae\[plots\]"):
        plot([Series("a", [1], [1])], to=tmp_path / "a", **LABELS)
