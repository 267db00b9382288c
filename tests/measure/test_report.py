import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sundae import files
from sundae.errors import DataError, UsageError
from sundae.measure.bootstrap import Interval
from sundae.measure.provenance import Commit, Machine, find_commit, find_machine, find_versions
from sundae.measure.report import Cell, Report, Table, make_report, read_report

CELL = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
CELLS = CELL | st.builds(Interval, st.floats(), st.floats(), st.floats())


def report(*tables: Table) -> Report:
    return Report(
        title="Speed of light",
        tables=list(tables),
        seed=3,
        config={"steps": 10},
        versions={"python": "3.11.0"},
        machine=Machine("Some CPU", 4, 2, "Linux"),
        commit=Commit("0123456789abcdef0123", dirty=True),
        command="python benchmarks/light.py",
        date="2030-01-02T03:04:05+00:00",
    )


@given(st.lists(st.dictionaries(st.text(max_size=5), CELLS, max_size=4), max_size=4))
def test_json_gives_back_an_equal_report_and_is_strict_json(rows: list[dict[str, Cell]]):
    made = report(Table("t", rows, "a note"))
    content = made.to_json()
    json.loads(content, parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))
    assert Report.from_json(content) == made


def test_numbers_of_numpy_are_numbers_and_what_is_not_finite_is_named():
    row: Any = {"a": np.int64(3), "b": np.float32(0.5), "c": float("inf"), "d": Interval(1.0, 0.5, np.inf)}
    assert Table("t", [row]).rows == [{"a": 3, "b": 0.5, "c": "inf", "d": "1 [0.5, inf]"}]
    with pytest.raises(ValueError, match="not JSON compliant"):
        replace(report(), config={"rate": float("nan")}).to_json()
    with pytest.raises(UsageError, match="a cell of type list"):
        Table("t", [{"a": []}])  # pyright: ignore[reportArgumentType]


def test_markdown_has_the_tables_and_the_whole_origin():
    rows = [{"side": "a|b", "seconds": 0.123456, "tokens": 12345}, {"side": "c", "score": Interval(31.234, 30.0, 32.0)}]
    lines = report(Table("Runs", rows, "Lower is better.")).markdown().splitlines()
    assert lines[0] == "# Speed of light"
    assert "## Runs" in lines
    assert "| side | seconds | tokens | score |" in lines
    assert "| --- | --- | --- | --- |" in lines
    assert r"| a\|b | 0.1235 | 12,345 |  |" in lines
    assert "| c |  |  | 31.23 [30, 32] |" in lines
    assert "Lower is better." in lines
    assert "- command: `python benchmarks/light.py`" in lines
    assert "- commit: 0123456789ab with changes" in lines
    assert "- machine: Some CPU, 4 cores, Linux" in lines
    assert "- threads: 2" in lines
    assert "- seed: 3" in lines
    assert '- config: `{"steps": 10}`' in lines


def test_large_numbers_are_not_written_with_an_exponent():
    table = Table("t", [{"a": 123456.7, "b": True, "c": -5, "d": 9999.9}]).markdown()
    assert "| 123,457 | yes | -5 | 10,000 |" in table


def test_write_and_read(tmp_path: Path):
    made = report(Table("t", [{"a": 1}]))
    json_file, markdown_file = made.write(tmp_path / "new", name="light")
    assert (json_file.name, markdown_file.name) == ("light.json", "light.md")
    assert read_report(json_file) == made
    assert markdown_file.read_text(encoding="utf-8") == made.markdown()
    assert {path.name for path in (tmp_path / "new").iterdir()} == {
        "light.json",
        "light.md",
    }  # nothing temporary is left
    with pytest.raises(UsageError, match="report name"):
        made.write(tmp_path, name="../light")


def test_a_private_file_stays_private(tmp_path: Path):
    path = files.write_whole(tmp_path / "a.txt", "old")
    path.chmod(0o600)
    files.write_whole(path, "new")
    assert path.read_text() == "new"
    assert path.stat().st_mode & 0o777 == 0o600


def test_an_interrupted_write_leaves_the_old_file_and_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = files.write_whole(tmp_path / "a.txt", b"old")

    def fail(_descriptor: int) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(files.os, "fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        files.write_whole(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"format": 1}', "nonsense"])
def test_what_is_no_report_is_refused(content: str, tmp_path: Path):
    with pytest.raises(DataError, match="not a report"):
        Report.from_json(content)


def test_other_formats_and_missing_files_are_refused(tmp_path: Path):
    newer = json.loads(report().to_json()) | {"format": 99}
    with pytest.raises(DataError, match="format 99"):
        Report.from_json(json.dumps(newer))
    with pytest.raises(DataError, match="cannot be read"):
        read_report(tmp_path / "none.json")


def test_a_report_made_here_knows_where_it_comes_from(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "argv", ["/somewhere/else/bench.py", "--data", "a folder"])
    made = make_report("t", tables=[], seed=None, config={"path": Path("x")}, threads=7, packages=("numpy", "no-such"))
    assert made.command == "python bench.py --data 'a folder'"
    assert made.config == {"path": "x"}
    assert made.machine.threads == 7
    assert made.versions == find_versions(("numpy",))
    assert list(made.versions) == ["python", "sundae", "numpy"]
    assert made.date.endswith("+00:00")
    assert Report.from_json(made.to_json()) == made
    monkeypatch.setattr(sys, "argv", ["/lib/sundae/__main__.py", "info"])
    assert make_report("t", tables=[], seed=None).command == "python -m sundae info"
    monkeypatch.setattr(sys, "argv", ["/bin/sundae", "info"])
    assert make_report("t", tables=[], seed=None).command == "sundae info"


def test_the_machine_is_described(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text("processor\t: 0\nmodel name\t: Abacus 9000 @ 3 beads\n\nprocessor\t: 1\nmodel name\t: Other\n")
    assert find_machine(cpuinfo=cpuinfo).cpu == "Abacus 9000 @ 3 beads"
    assert find_machine(cpuinfo=tmp_path / "none").cpu
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    monkeypatch.setenv("OMP_NUM_THREADS", "5")
    assert find_machine().threads == 5
    monkeypatch.setenv("OMP_NUM_THREADS", "many")
    assert find_machine().threads == find_machine().cores


def git(folder: Path, *arguments: str) -> None:
    identity = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", "-C", str(folder), *identity, *arguments], check=True, capture_output=True)


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_the_commit_is_that_of_the_sources_and_says_if_they_changed(tmp_path: Path):
    sources = tmp_path / "src"
    sources.mkdir()
    assert find_commit(sources) is None  # no repository
    git(tmp_path, "init")
    (tmp_path / "README.md").write_text("somebody else's repository")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-m", "without the sources")
    (sources / "a.py").write_text("1")
    assert find_commit(sources) is None  # such as an environment inside another project
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-m", "with them")
    clean = find_commit(sources)
    assert clean is not None
    assert (len(clean.name), clean.dirty) == (40, False)
    (tmp_path / "results.md").write_text("a report beside the sources changes nothing")
    assert find_commit(sources) == clean
    (sources / "b.py").write_text("new code does")
    assert find_commit(sources) == Commit(clean.name, dirty=True)
    (sources / "b.py").unlink()
    (sources / "a.py").write_text("2")
    assert find_commit(sources) == Commit(clean.name, dirty=True)


def test_without_git_there_is_no_commit_and_no_error(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", "")
    assert find_commit() is None
    assert "- commit: not in a repository" in make_report("t", tables=[], seed=0).markdown()
