"""One small format for every evaluation and benchmark: figures, and all that is needed to get them again."""

import json
import math
import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from sundae.errors import DataError, UsageError
from sundae.files import write_whole
from sundae.measure.bootstrap import Interval
from sundae.measure.provenance import PACKAGES, Commit, Machine, find_commit, find_machine, find_versions

FORMAT = 1

Cell = str | int | float | bool | None | Interval


@dataclass(frozen=True)
class Table:
    """Rows with named cells; a row may lack a cell.

    A number that is not finite is kept as its name, such as "inf": JSON has no other word for it.
    """

    title: str
    rows: Sequence[Mapping[str, Cell]]
    note: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "rows", [{name: _cell(value) for name, value in row.items()} for row in self.rows])

    @property
    def columns(self) -> list[str]:
        """Names of all cells, in the order in which they first appear."""
        return list(dict.fromkeys(name for row in self.rows for name in row))

    def markdown(self) -> str:
        """A heading, the rows, and the note."""
        columns = self.columns
        lines = [f"## {self.title}", ""]
        if columns:
            lines += [_line(columns), _line(["---"] * len(columns))]
            lines += [_line([_show(row.get(name)) for name in columns]) for row in self.rows]
            lines.append("")
        if self.note:
            lines += [self.note, ""]
        return "\n".join(lines)


@dataclass(frozen=True, kw_only=True)
class Report:
    """Tables of figures with their seed, settings, versions, machine, commit, command and date (UTC)."""

    title: str
    tables: Sequence[Table]
    seed: int | None
    config: Mapping[str, Any]
    versions: Mapping[str, str]
    machine: Machine
    commit: Commit | None
    command: str
    date: str
    format: int = field(default=FORMAT)

    def to_json(self) -> str:
        """The whole report; `from_json` gives an equal one back."""
        return json.dumps(asdict(self), indent=2, ensure_ascii=False, allow_nan=False) + "\n"

    @classmethod
    def from_json(cls, content: str) -> "Report":
        """Read what `to_json` wrote."""
        try:
            values = json.loads(content)
            if values["format"] != FORMAT:
                raise DataError(f"a report of format {values['format']}", why=f"this version reads format {FORMAT}")
            values["tables"] = [
                Table(t["title"], [_row(row) for row in t["rows"]], t["note"]) for t in values["tables"]
            ]
            values["machine"] = Machine(**values["machine"])
            values["commit"] = Commit(**values["commit"]) if values["commit"] else None
            return cls(**values)
        except (ValueError, TypeError, KeyError, AttributeError, UsageError) as problem:
            raise DataError("this is not a report", why=f"{type(problem).__name__}: {problem}") from None

    def markdown(self) -> str:
        """For people: the tables, then where they come from."""
        origin = {
            "command": f"`{self.command}`",
            "date": self.date,
            "commit": str(self.commit) if self.commit else "not in a repository",
            "machine": f"{self.machine.cpu}, {self.machine.cores} cores, {self.machine.system}",
            "threads": str(self.machine.threads),
            "versions": ", ".join(f"{name} {version}" for name, version in self.versions.items()),
            "seed": "none" if self.seed is None else str(self.seed),
            "config": f"`{json.dumps(self.config, ensure_ascii=False)}`" if self.config else "none",
        }
        parts = [f"# {self.title}", "", *(table.markdown() for table in self.tables)]
        return "\n".join([*parts, *(f"- {name}: {value}" for name, value in origin.items())]) + "\n"

    def write(self, folder: Path, *, name: str) -> tuple[Path, Path]:
        """Write `name`.json and `name`.md into a folder, each as a whole."""
        if not name or Path(name).name != name:
            raise UsageError(f"report name {name!r}", why="it is the name of a file, without a folder")
        return (
            write_whole(folder / f"{name}.json", self.to_json()),
            write_whole(folder / f"{name}.md", self.markdown()),
        )


def make_report(
    title: str,
    *,
    tables: Sequence[Table],
    seed: int | None,
    config: Mapping[str, Any] | None = None,
    threads: int | None = None,
    packages: Iterable[str] = PACKAGES,
    command: str | None = None,
) -> Report:
    """A report of figures that were just made here; `packages` names those whose version matters."""
    return Report(
        title=title,
        tables=list(tables),
        seed=seed,
        config=json.loads(json.dumps(dict(config or {}), allow_nan=False, default=str)),
        versions=find_versions(packages),
        machine=find_machine(threads=threads),
        commit=find_commit(),
        command=_command() if command is None else command,
        date=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def read_report(path: Path) -> Report:
    """Read a report's JSON file."""
    try:
        content = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        raise DataError(f"{path} cannot be read", why=str(problem)) from None
    return Report.from_json(content)


def _command() -> str:
    """How this process was started, without the folders that mean nothing on another machine."""
    program = Path(sys.argv[0])
    if program.name == "__main__.py":
        shown = ["python", "-m", program.parent.name]
    else:
        shown = ["python", str(_relative(program))] if program.suffix == ".py" else [program.name]
    return shlex.join([*shown, *sys.argv[1:]])


def _relative(path: Path) -> Path:
    try:
        return path.resolve().relative_to(Path.cwd())
    except ValueError:
        return Path(path.name)


def _cell(value: object) -> Cell:
    """A cell as plain Python, without numpy's numbers and without what JSON cannot say."""
    if isinstance(value, np.generic):
        value = value.item()
    numbers = (value.value, value.low, value.high) if isinstance(value, Interval) else (value,)
    if any(isinstance(number, float) and not math.isfinite(number) for number in numbers):
        return str(value)
    if value is None or isinstance(value, str | int | float | Interval):
        return value
    raise UsageError(f"a cell of type {type(value).__name__}", why="cells are text, numbers and intervals")


def _row(row: Mapping[str, Any]) -> dict[str, Cell]:
    return {name: Interval(**value) if isinstance(value, dict) else value for name, value in row.items()}


def _show(value: Cell) -> str:
    match value:
        case None:
            return ""
        case bool():
            return "yes" if value else "no"
        case int():
            return f"{value:,}"
        case float():
            # Four digits that count, but never 1.235e+04 for 12345.
            return f"{value:,.0f}" if abs(value) >= 9_999.5 else f"{value:.4g}"
        case _:
            return str(value)


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(" ".join(cell.split()).replace("|", r"\|") for cell in cells) + " |"
