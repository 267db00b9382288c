"""What the README and the docs say is run here."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from sundae.folder import shipped_models
from training.corpora import sentences

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
COMMANDS = [shlex.split(line, comments=True) for line in README.splitlines() if line.startswith("sundae ")]


def is_of_the_journey(words: list[str]) -> bool:
    """Whether a command makes a model, or needs one that does not ship."""
    model = words[words.index("--model") + 1] if "--model" in words else "everyday"
    return words[1] in ("prepare", "train", "evaluate") or model not in shipped_models()


QUICK = [words for words in COMMANDS if not is_of_the_journey(words)]
JOURNEY = [words for words in COMMANDS if is_of_the_journey(words)]
# The journey as it stands, but with a network and a run that take seconds.
SMALL = [
    "network.width=16",
    "network.hidden=32",
    "network.heads=2",
    "network.decoder_layers=1",
    "training.steps=4",
    "sampling.steps=4",
]


@pytest.mark.parametrize("command", QUICK, ids=" ".join)
def test_command_of_the_readme_runs(command: list[str], tmp_path: Path):
    done = subprocess.run(
        [sys.executable, "-m", *command], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout


def test_the_readme_s_way_from_files_to_a_model(tmp_path: Path):
    (tmp_path / "my-sentences.txt").write_text("\n".join(sentences(600)) + "\n", encoding="utf-8")
    (tmp_path / "held-out.txt").write_text("\n".join(sentences(700)[600:]) + "\n", encoding="utf-8")
    for name in ("train.en", "train.de"):
        (tmp_path / name).write_text("\n".join(sentences(300)) + "\n", encoding="utf-8")
    verbs = ["prepare", "train", "generate", "evaluate", "prepare", "train", "train", "translate"]
    assert [words[1] for words in JOURNEY] == verbs
    for words in JOURNEY:
        more = [*SMALL, "--threads", "1"] if words[1] == "train" else []
        done = subprocess.run(
            [sys.executable, "-m", *words, *more],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
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
