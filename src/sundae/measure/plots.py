"""Line and scatter plots (extra `plots`), drawn to be read in print and by the colour-blind."""

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sundae.errors import CapabilityError, DataError, UsageError
from sundae.files import write_whole

# Okabe and Ito's palette without its yellow, which is too pale on white; markers repeat the distinction without colour.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X")
_STYLE: Any = {  # matplotlib has a type of its own for these names
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "legend.frameon": False,
    "lines.linewidth": 1.6,
    "lines.markersize": 5,
    "savefig.dpi": 150,
    "svg.hashsalt": "sundae",  # the same plot is the same file
    "svg.fonttype": "none",  # text stays text
}
_FORMATS = ("png", "svg")


@dataclass(frozen=True)
class Series:
    """Named points; `joined` draws a line through them; `labels` (one for each point) are written beside them."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    joined: bool = True
    labels: Sequence[str] = ()

    def __post_init__(self) -> None:
        if len(self.x) != len(self.y) or not len(self.x):
            raise DataError(f"series {self.name!r} has {len(self.x)} x and {len(self.y)} y", why="as many, and some")
        if len(self.labels) not in (0, len(self.x)):
            raise DataError(f"series {self.name!r} has {len(self.labels)} labels", why=f"for {len(self.x)} points")


def require_matplotlib() -> None:
    """Say so if there is nothing to draw with."""
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError:
        raise CapabilityError("matplotlib is not installed", hint="pip install 'sundae[plots]'") from None


def plot(
    series: Sequence[Series],
    *,
    to: Path,
    title: str,
    x_label: str,
    y_label: str,
    log_x: bool = False,
    log_y: bool = False,
    formats: Sequence[str] = _FORMATS,
) -> list[Path]:
    """Draw series into one picture and write it as `to`.png and `to`.svg."""
    if not series:
        raise DataError("no series", why="there is nothing to draw")
    if not formats or set(formats) - set(_FORMATS):
        raise UsageError(f"formats {tuple(formats)}", hint=" or ".join(_FORMATS))
    require_matplotlib()
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(6.4, 4.2), layout="constrained")  # no pyplot: no global state, no display
        axes = figure.add_subplot()
        for number, each in enumerate(series):
            axes.plot(
                each.x,
                each.y,
                label=each.name,
                color=_COLOURS[number % len(_COLOURS)],
                marker=_MARKERS[number % len(_MARKERS)],
                linestyle="-" if each.joined else "none",
            )
            for x, y, label in zip(each.x, each.y, each.labels, strict=False):
                axes.annotate(label, (x, y), textcoords="offset points", xytext=(4, 4), fontsize=8)
        axes.set(title=title, xlabel=x_label, ylabel=y_label)
        if log_x:
            axes.set_xscale("log")
            _plain_numbers(axes.xaxis)
        if log_y:
            axes.set_yscale("log")
            _plain_numbers(axes.yaxis)
        if len(series) > 1:
            axes.legend()
        return [_write(figure, to.with_name(f"{to.name}.{format_}"), format_) for format_ in formats]


def _plain_numbers(axis: Any) -> None:
    """Ticks at a few round numbers of each power of ten, as people write them."""
    from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

    axis.set_major_locator(LogLocator(subs=(1, 2, 3, 5, 7)))
    axis.set_major_formatter(StrMethodFormatter("{x:,g}"))
    axis.set_minor_formatter(NullFormatter())


def _write(figure: Any, path: Path, format_: str) -> Path:
    content = io.BytesIO()
    figure.savefig(content, format=format_, metadata={"Date": None} if format_ == "svg" else {"Software": None})
    return write_whole(path, content.getvalue())
