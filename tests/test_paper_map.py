"""Every line of docs/paper-map.md is true, and every name of the heart that cites the paper is on it."""

import ast
import importlib
import inspect
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in (ROOT / "docs" / "paper-map.md").read_text(encoding="utf-8").splitlines()
    if re.match(r"\| .*`(core|config|training|model)\.", line)
]
HEART = sorted((ROOT / "src" / "sundae" / "core").glob("*.py"))


def resolve(path: str) -> object:
    module, attributes = f"sundae.{path}", []
    while True:
        try:
            found = importlib.import_module(module)
            break
        except ModuleNotFoundError:
            module, _, attribute = module.rpartition(".")
            attributes.insert(0, attribute)
    for attribute in attributes:
        found = getattr(found, attribute)
    return found


def public_names() -> list[tuple[str, ast.AST]]:
    """Functions and classes of the heart, and methods that cite the paper."""
    names: list[tuple[str, ast.AST]] = []
    for path in HEART:
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if not isinstance(node, ast.FunctionDef | ast.ClassDef) or node.name.startswith("_"):
                continue
            names.append((f"core.{path.stem}.{node.name}", node))
            methods = [inner for inner in node.body if isinstance(inner, ast.FunctionDef)]
            names.extend(
                (f"core.{path.stem}.{node.name}.{inner.name}", inner)
                for inner in methods
                if "Paper:" in (ast.get_docstring(inner) or "")
            )
    return names


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row[0]}-{row[2]}")
def test_name_exists_cites_the_paper_and_its_test_exists(row: list[str]):
    _, _, name, _, test = (cell.strip("`") for cell in row)
    docstring = inspect.getdoc(resolve(name)) or ""
    assert "Paper:" in docstring, f"{name} does not say which part of the paper it is"
    file, _, function = test.partition("::")
    content = (ROOT / "tests" / file).read_text(encoding="utf-8")
    assert not function or f"def {function}(" in content, f"{test} does not exist"


def test_everything_that_cites_the_paper_is_on_the_map():
    mapped = {row[2].strip("`") for row in ROWS}
    citing = {name for name, node in public_names() if "Paper:" in (ast.get_docstring(node) or "")}  # pyright: ignore[reportArgumentType]
    assert citing <= mapped, f"missing from docs/paper-map.md: {sorted(citing - mapped)}"


def test_every_function_and_module_of_the_heart_cites_the_paper():
    # Exempt: what the house adds around the paper, not taken from it.
    plumbing = {"core.sampling.lowest"}
    uncited = {
        name
        for name, node in public_names()
        if "Paper:" not in (ast.get_docstring(node) or "")  # pyright: ignore[reportArgumentType]
        and (
            isinstance(node, ast.FunctionDef)
            or any("Module" in ast.unparse(base) for base in getattr(node, "bases", []))
        )
    }
    assert uncited == plumbing


def test_every_numbered_part_of_the_paper_is_named():
    cited = {part.strip() for row in ROWS for part in re.split(r"[,;]|\band\b", row[0])}
    for part in ["eq. 1", "eq. 2", "eq. 3", "eq. 4", "sec. 2", "sec. 2.1", "sec. 2.2", "sec. 3.1", "sec. 3.2"]:
        assert part in cited
    for part in ["app. A", "app. A.1", "app. A.2", "app. A.3", "app. B", "app. D", "app. E", "listing"]:
        assert part in cited


def test_the_heart_keeps_to_its_budget():
    lines = {path.name: len(path.read_text(encoding="utf-8").splitlines()) for path in HEART}
    assert sum(lines.values()) <= 900
    assert max(lines.values()) <= 300
