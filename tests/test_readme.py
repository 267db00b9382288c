"""What the README and the docs say is run here."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
COMMANDS = [line.partition("#")[0].split() for line in README.splitlines() if line.startswith("sundae ")]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_command_of_the_readme_runs(command: list[str]):
    done = subprocess.run([sys.executable, "-m", *command], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout


def test_python_of_the_readme_runs(capsys: pytest.CaptureFixture[str]):
    for block in re.findall(r"```python\n(.*?)```", README, re.DOTALL):
        exec(compile(block, "README.md", "exec"), {})
    assert len(capsys.readouterr().out.splitlines()) == 11  # x_0 and ten steps


def test_make_targets_of_the_readme_exist():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^make ([\w-]+)", README, re.MULTILINE))
    assert targets >= {"demo", "test"}
    for target in targets:
        assert re.search(rf"^{target}\s*:", makefile, re.MULTILINE)


@pytest.mark.parametrize("page", ["README.md", *(f"docs/{path.name}" for path in sorted((ROOT / "docs").glob("*.md")))])
def test_links_lead_somewhere(page: str):
    content = (ROOT / page).read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#]+)", content):
        if not target.startswith("https://"):
            assert ((ROOT / page).parent / target).exists(), target
