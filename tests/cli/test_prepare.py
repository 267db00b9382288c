"""`sundae prepare` as a user meets it."""

import gzip
import io
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from sundae.cli import main
from sundae.text.corpus import Corpus

Capture = pytest.CaptureFixture[str]
LINES = [f"the {colour} {animal} sat" for colour in ("red", "blue", "old") for animal in ("cat", "dog", "bird", "猫")]


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "a.txt"
    path.write_text("\n".join([*LINES, "", "long " * 50]) + "\n", encoding="utf-8")
    return path


def test_the_summary_is_a_few_lines_on_stdout(text: Path, tmp_path: Path, capsys: Capture) -> None:
    arguments = ["sentences", str(text), "--out", str(tmp_path / "c"), "--vocabulary", "280", "--validation", "2"]
    assert main(["prepare", *arguments]) == 0
    said = capsys.readouterr()
    assert said.err == ""
    lines = said.out.splitlines()
    assert lines[0].endswith("c: sentences, byte-bpe tokens, vocabulary 280")
    assert lines[1].startswith("train       10 sentences, ")
    assert "(canvas 32)" in lines[2]
    assert lines[3].strip() == "dropped: 1 empty, 1 too long"
    assert lines[4].startswith("validation  2 sentences, ")
    assert Corpus.open(tmp_path / "c", verify=True).kind == "sentences"


def test_json_is_what_corpus_json_says(text: Path, tmp_path: Path, capsys: Capture) -> None:
    assert main(["prepare", "crops", str(text), "--out", str(tmp_path / "c"), "--vocabulary", "300", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said.pop("out") == str(tmp_path / "c")
    assert said == json.loads((tmp_path / "c" / "corpus.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("flag", ["-q", "--quiet"])
def test_quiet_says_nothing(flag: str, text: Path, tmp_path: Path, capsys: Capture) -> None:
    assert main(["prepare", "crops", str(text), "--out", str(tmp_path / "c"), "--vocabulary", "300", flag]) == 0
    assert capsys.readouterr() == ("", "")


def test_every_flag_has_its_effect(text: Path, tmp_path: Path, capsys: Capture) -> None:
    table = tmp_path / "pairs.txt"
    table.write_text("".join(f"x\t{line}\t{line.upper()}\n" for line in [*LINES, LINES[0]]), encoding="utf-8")
    held_out = tmp_path / "held_out.txt"
    held_out.write_text("x\tone\tONE\n")
    test_set = tmp_path / "test.txt"
    test_set.write_text(f"x\t{LINES[1]}\n", encoding="utf-8")
    arguments = f"parallel {table} --out {tmp_path / 'c'} --format tsv --field 3,2 --tokenizer word --vocabulary 12"
    arguments += f" --canvas 3 --long crop --unique --validation-from {held_out} --seed 4 --json"
    assert main(["prepare", *arguments.split()]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["kind"], said["canvas"], said["vocabulary_size"]) == ("parallel", 3, 12)
    assert said["splits"]["train"]["dropped"] == {"duplicate": 1}
    assert (said["splits"]["train"]["cropped"], said["splits"]["validation"]["texts"]) == (12, 1)
    arguments = f"parallel {table} --out {tmp_path / 'c'} --format tsv --field 2,3 --force --exclude {test_set}"
    arguments += f" --tokenizer-from {tmp_path / 'c'} --json"
    assert main(["prepare", *arguments.split()]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["vocabulary_size"] == 12
    assert main(["prepare", "crops", str(text), "--split", "line", "--out", str(tmp_path / "d"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["documents"] == 13


@pytest.mark.parametrize(
    ("names", "more", "told"),
    [
        ("train.en train.de", "", ("train.en, train.de", "en", "de")),
        ("a.de.gz b.en", "", ("a.de.gz, b.en", "de", "en")),
        ("train.en train.de", "--languages fr,nl --description news", ("news", "fr", "nl")),
        ("a.txt b.txt", "", ("a.txt, b.txt", "", "")),
        ("train.en other.en", "", ("train.en, other.en", "", "")),
        ("a.jsonl", "--field de,en", ("a.jsonl", "de", "en")),
        ("a.tsv", "--field 2,1", ("a.tsv", "", "")),
    ],
)
def test_a_corpus_knows_its_languages(tmp_path: Path, capsys: Capture, names: str, more: str, told: tuple[str, ...]):
    for name in names.split():
        content = {".jsonl": '{"en": "the dog", "de": "der Hund"}\n', ".tsv": "the dog\tder Hund\n"}
        text = content.get(Path(name).suffix, "the dog\n") * 20
        (tmp_path / name).write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    files = [str(tmp_path / name) for name in names.split()]
    arguments = ["--out", str(tmp_path / "corpus"), "--vocabulary", "300", "--format", "txt", *more.split()]
    if len(files) == 1:
        arguments.remove("--format")
        arguments.remove("txt")
    assert main(["prepare", "parallel", *files, *arguments, "--json"]) == 0
    about = json.loads(capsys.readouterr().out)["about"]
    assert (about["description"], about["source_language"], about["target_language"]) == told
    assert Corpus.open(tmp_path / "corpus").about == about


def test_text_can_come_from_a_pipe_without_torch(tmp_path: Path) -> None:
    program = f"""
import sys
from sundae.cli import main
code = main(["prepare", "sentences", "-", "--out", {str(tmp_path / "c")!r}, "--vocabulary", "300"])
assert "torch" not in sys.modules
sys.exit(code)
"""
    child = subprocess.run(
        [sys.executable, "-c", program], input="\n".join(LINES), capture_output=True, text=True, check=False, timeout=60
    )
    assert (child.returncode, child.stderr) == (0, "")
    assert "sentences" in child.stdout


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ("poems {text} --out {out}", 2, "poems"),
        ("crops {text}", 2, "--out"),
        ("crops --out {out}", 2, "nothing to prepare"),
        ("crops {text} --out {text}", 2, "exists"),
        ("sentences {text} --out {out} --tokenizer letters", 2, "letters"),
        ("sentences {text} --out {out} --vocabulary 5", 2, "257"),
        ("crops missing.txt --out {out}", 3, "cannot read missing.txt: No such file"),
        ("parallel {text} {short} --out {out}", 3, "has 14 lines, .* has 1"),
        ("parallel {text} {text} --out {out} --languages en", 2, "must be two"),
        ("parallel {text} {text} --out {out} --languages en,", 2, "must be two"),
        ("parallel {text} {text} --out {out} --languages en,de,", 2, "must be two"),
        ("sentences {text} --out {out} --languages en,de", 2, "of parallel text"),
        ("crops {text} --out {out} --tokenizer-from missing.json", 3, "missing.json"),
        ("crops {binary} --out {out}", 3, "not UTF-8 text: byte 2"),
    ],
)
def test_what_goes_wrong_is_one_line_and_an_exit_code(
    arguments: str, code: int, message: str, text: Path, tmp_path: Path, capsys: Capture
) -> None:
    (tmp_path / "short.txt").write_text("one line\n")
    (tmp_path / "binary.txt").write_bytes(b"ab\xff")
    names = {"text": text, "out": tmp_path / "c", "short": tmp_path / "short.txt", "binary": tmp_path / "binary.txt"}
    assert main(["prepare", *arguments.format(**names).split()]) == code
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1
    assert re.search(message, said.err)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.txt", "binary.txt", "short.txt"]


def test_without_sentencepiece_the_exit_code_is_4(
    text: Path, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "sentencepiece", None)
    arguments = ["crops", str(text), "--out", str(tmp_path / "c"), "--tokenizer", "sentencepiece"]
    assert main(["prepare", *arguments]) == 4
    assert "sundae[sentencepiece]" in capsys.readouterr().err


def test_progress_is_shown_only_on_a_terminal(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    assert main(["prepare", "crops", str(text), "--out", str(tmp_path / "c"), "--vocabulary", "300"]) == 0
    assert "encoding" in terminal.getvalue()
    assert "encoding" not in capsys.readouterr().out
