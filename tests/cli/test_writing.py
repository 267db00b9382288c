"""`generate`, `fill` and `push` as a user meets them."""

import io
import json
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from sundae.cli import main
from sundae.cli.refine import unified_diff
from sundae.cli.writing import read_text
from sundae.errors import DataError
from test_model import model_of
from training.corpora import sentence_corpus


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    corpus = sentence_corpus(tmp_path_factory.mktemp("corpus"))
    place = tmp_path_factory.mktemp("model") / "model"
    model_of(corpus).save_pretrained(place)
    return str(place)


def type_in(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """On standard input."""
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))


def test_generate_prints_one_text_a_line(folder: str, capsys):
    assert main(["generate", "--model", folder, "-n", "3", "--json", "--threads", "1"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert len(lines) == 3
    assert set(lines[0]) == {"text", "score", "steps", "network_calls"}


def test_flags_mean_what_they_say(folder: str, capsys):
    common = ["generate", "--model", folder, "--json", "--threads", "1"]
    assert main([*common, "-T", "0"]) == 0
    assert json.loads(capsys.readouterr().out)["network_calls"] == 0
    assert main([*common, "-t", "0", "--rule", "argmax-unrolled", "-T", "2"]) == 0
    assert json.loads(capsys.readouterr().out)["network_calls"] == 3
    assert main([*common, "--seed", "1"]) == 0
    one = capsys.readouterr().out
    assert main([*common, "--seed", "1"]) == 0
    assert capsys.readouterr().out == one


def test_fill_reads_templates_from_standard_input(folder: str, capsys, monkeypatch):
    type_in(monkeypatch, "the [[2]] sees\n\n[[1]] dog\n")
    assert main(["fill", "-", "--model", folder, "-n", "2", "--threads", "1"]) == 0
    assert len(capsys.readouterr().out.splitlines()) >= 4


def test_watch_goes_to_standard_error(folder: str, capsys):
    assert main(["fill", "the [[2]] sees", "--model", folder, "-T", "3", "--watch", "--threads", "1"]) == 0
    said = capsys.readouterr()
    assert len(said.out.splitlines()) == 1
    assert "changed" in said.err


def test_output_can_go_to_a_file(folder: str, tmp_path: Path, capsys):
    assert (
        main(["generate", "--model", folder, "-n", "2", "--json", "-o", str(tmp_path / "texts"), "--threads", "1"]) == 0
    )
    assert capsys.readouterr().out == ""
    assert len((tmp_path / "texts").read_text(encoding="utf-8").splitlines()) == 2


@pytest.mark.parametrize(
    ("more", "code"),
    [
        (["-n", "0"], 2),
        (["-t", "-1"], 2),
        (["-T", "-1"], 2),
        (["--rule", "magic"], 2),
        (["--share", "2"], 2),
        (["--model", "nowhere"], 3),
        (["-o", "/nowhere/file"], 3),
    ],
)
def test_what_cannot_be_is_one_line_and_an_exit_code(folder: str, capsys, more: list[str], code: int):
    assert main(["generate", "--model", folder, "--threads", "1", *more]) == code
    said = capsys.readouterr()
    assert said.err.count("\n") == 1
    assert said.out == ""


def test_info_shows_a_model_and_refuses_what_is_none(folder: str, tmp_path: Path, capsys):
    assert main(["info", folder, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["config"]["network"]["width"] == 16
    assert main(["info", "english-german"]) == 0
    assert "Tatoeba" in capsys.readouterr().out
    shutil.copytree(folder, tmp_path / "run" / "model")
    shutil.copy(Path(folder) / "config.json", tmp_path / "run")
    assert main(["generate", "--model", str(tmp_path / "run")]) == 3
    assert f"it has no model.safetensors (try: {tmp_path / 'run' / 'model'})" in capsys.readouterr().err
    assert main(["info", str(tmp_path)]) == 3
    assert "neither a model nor a run" in capsys.readouterr().err
    (tmp_path / "config.json").write_text("{")
    assert main(["info", str(tmp_path)]) == 3


def test_push_refuses_what_is_not_a_model(tmp_path: Path, capsys):
    pytest.importorskip("huggingface_hub")
    assert main(["push", str(tmp_path / "nowhere"), "some/name"]) == 3
    assert main(["push", str(tmp_path), "some/name"]) == 3
    assert "is neither a model nor a run" in capsys.readouterr().err


def test_push_uploads_the_four_files_and_says_where(folder: str, capsys, monkeypatch):
    hub = pytest.importorskip("huggingface_hub")
    asked = {}

    class Api:
        """The hub itself cannot be reached from a test; this records what it would be asked."""

        def create_repo(self, name: str, *, private: bool, exist_ok: bool) -> None:
            asked["create"] = (name, private, exist_ok)

        def upload_folder(self, *, repo_id: str, folder_path: Path, allow_patterns: list[str]) -> str:
            asked["upload"] = (repo_id, str(folder_path), allow_patterns)
            return "somewhere"

    monkeypatch.setattr(hub, "HfApi", Api)
    assert main(["push", folder, "some/name"]) == 0
    assert asked["create"] == ("some/name", True, True)
    assert asked["upload"][2] == ["config.json", "model.safetensors", "tokenizer.json", "README.md"]
    assert capsys.readouterr().out == "somewhere\n"


def test_push_that_fails_is_one_line(folder: str, capsys, monkeypatch):
    hub = pytest.importorskip("huggingface_hub")

    class Api:
        def create_repo(self, *_, **__) -> None:
            raise OSError("Name or service not known")

    monkeypatch.setattr(hub, "HfApi", Api)
    assert main(["push", folder, "some/name"]) == 3
    assert capsys.readouterr().err == "sundae: cannot push to 'some/name': Name or service not known\n"


# ---- prompts, constraints, traces


def out_of(capsys) -> list[str]:
    return capsys.readouterr().out.splitlines()


def test_prompts_are_continued(folder: str, capsys, monkeypatch):
    assert main(["generate", "the cat", "--model", folder, "-n", "3", "-T", "2", "--threads", "1"]) == 0
    assert all(line.startswith("the cat") for line in out_of(capsys) if line.startswith("the"))
    type_in(monkeypatch, "a dog\nthe bird\n")
    assert main(["generate", "-", "--model", folder, "-T", "2", "--json", "--threads", "1"]) == 0
    assert [json.loads(line)["prompt"] for line in out_of(capsys)] == ["a dog", "the bird"]


def test_filled_blanks_can_be_marked_and_are_listed_in_json(folder: str, capsys):
    common = ["fill", "the [[1w]] sees", "--model", folder, "-T", "2", "--threads", "1"]
    assert main([*common, "--json"]) == 0
    (line,) = out_of(capsys)
    (fill,) = json.loads(line)["fills"]
    assert json.loads(line)["text"] == f"the {fill} sees"
    assert main([*common, "--mark"]) == 0
    assert out_of(capsys) == [f"the [{fill}] sees"]
    assert main([*common, "--mark", "--ban", f"{fill},zzz"]) == 0
    assert out_of(capsys) != [f"the [{fill}] sees"]
    assert main([*common, "--mark", "--allow", "1=cat"]) == 0
    assert out_of(capsys) == ["the [cat] sees"]


def test_words_that_must_appear_do(folder: str, capsys):
    assert (
        main(["generate", "--model", folder, "-n", "3", "-T", "2", "--must", "river", "--json", "--threads", "1"]) == 0
    )
    assert all("river" in json.loads(line)["text"] for line in out_of(capsys))


def test_a_draft_from_a_file_is_refined_within_its_budget(folder: str, tmp_path: Path, capsys):
    draft = tmp_path / "draft.txt"
    draft.write_text("the old cat {{sees}} a dog.\nthe bird\n", encoding="utf-8")
    common = ["refine", str(draft), "--model", folder, "-T", "3", "--threads", "1"]
    assert main([*common, "--edits", "0"]) == 0
    assert capsys.readouterr().out == "the old cat sees a dog.\nthe bird\n"
    assert main([*common, "--edits", "2", "--json"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert sum(len(edit["before"].split()) for edit in content["edits"]) <= 2
    assert main([*common, "--diff", "--ban", "old"]) == 0
    diff = capsys.readouterr().out
    assert diff.startswith("--- draft\n+++ refined\n")
    assert "-the old cat sees a dog." in diff
    assert main([*common, "--suggest", "3"]) == 0
    lines = out_of(capsys)
    assert len(lines) == 3
    assert all("likelier:" in line for line in lines)
    assert main([*common, "--suggest", "3", "--json"]) == 0
    assert {"token", "probability", "alternatives"} <= set(json.loads(out_of(capsys)[0]))


@pytest.mark.parametrize(
    "verb", [["generate"], ["fill", "the [[1w]] sees"], ["refine", "the old cat sees", "--suspicion", "1"]]
)
def test_every_verb_can_be_traced(folder: str, tmp_path: Path, capsys, verb: list[str]):
    from sundae.decoding.trace import Trace

    files = ["--trace", str(tmp_path / "t.json"), "--html", str(tmp_path / "t.html")]
    assert main([*verb, "--model", folder, "-T", "3", "--json", "--threads", "1", *files]) == 0
    text = json.loads(capsys.readouterr().out)["text"]
    trace = Trace.from_json((tmp_path / "t.json").read_text(encoding="utf-8"))
    assert trace.verb == verb[0]
    if verb[0] != "refine":  # there the draft itself may win
        assert trace.rows[0].text == text
    assert trace.rows[0].states[0].step == 0
    page = (tmp_path / "t.html").read_text(encoding="utf-8")
    assert "<html" in page
    assert "://" not in page


def test_every_text_template_and_window_is_in_the_trace(folder: str, tmp_path: Path, capsys, monkeypatch):
    from sundae.decoding.trace import Trace

    def traced(*arguments: str) -> tuple[list[str], list[str]]:
        common = ["--model", folder, "-T", "3", "--threads", "1", "--json", "--trace", str(tmp_path / "t.json")]
        assert main([*arguments, *common]) == 0
        texts = [json.loads(line)["text"] for line in capsys.readouterr().out.split("\n")[:-1]]
        trace = Trace.from_json((tmp_path / "t.json").read_text(encoding="utf-8"))
        return texts, [row.text for row in trace.rows]

    texts, rows = traced("generate", "-n", "3")
    assert texts == rows
    type_in(monkeypatch, "the [[1w]] sees\na [[1w]] cat\n")
    texts, rows = traced("fill", "-")
    assert texts == rows
    (text,), rows = traced("fill", " ".join(["the [[1w]] sees a dog."] * 9))
    assert len(rows) > 1
    assert all(row in text for row in rows)
    (text,), rows = traced("refine", "the old cat sees. the dog dog dog.", "--ban", "old,dog")
    assert len(rows) == 2
    assert text == " ".join(rows)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["generate", "-o", "/tmp/one", "--html", "/tmp/one"], 2),
        (["refine", "the cat", "--source", "the dog"], 2),
        (["refine", "{{the {{old}} cat}}"], 2),
        (["generate", "--length", "5"], 2),
        (["generate", "--must", "incomprehensibilities incomprehensibilities"], 2),
        (["fill", "[[1]]", "--allow", "one=red"], 2),
        (["fill", "[[1]]", "--candidates", "0"], 2),
        (["refine", "the [[1]]"], 2),
        (["refine", "the cat", "--edits", "-1"], 2),
        (["refine", "the cat", "--suspicion", "0"], 2),
        (["refine", "the {{cat}}", "--ban", "cat"], 2),
        (["generate", "--html", "/nowhere/page.html"], 3),
        (["generate", "--trace", "/tmp"], 3),
        (["refine", "/tmp"], 3),
        (["refine", "./nofile"], 3),
        (["refine", "draft.en"], 3),
        (["refine", "the cat", "--suggest", "2", "--diff"], 2),
        (["refine", "the cat", "--json", "--diff"], 2),
        (["fill", "the [[1w]] cat", "--allow", "1="], 2),
        (["fill", "the [[1w]] cat", "--allow", "1=two words"], 2),
        (["fill", "the [[1w]] cat", "--must", "old,small"], 2),
        (["generate", "-o", "/nowhere/texts.txt"], 3),
    ],
)
def test_what_cannot_be_asked_for_is_one_line_and_an_exit_code(folder: str, capsys, arguments: list[str], code: int):
    assert main([*arguments, "--model", folder, "-T", "1", "--threads", "1"]) == code
    assert capsys.readouterr().err.count("\n") == 1


def test_a_pipe_and_a_link_are_written_to_not_replaced(folder: str, tmp_path: Path):
    import os
    import threading

    pipe, link = tmp_path / "pipe", tmp_path / "link"
    os.mkfifo(pipe)
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_text(encoding="utf-8")))
    reader.start()
    common = ["generate", "--model", folder, "-T", "1", "--json", "--threads", "1"]
    assert main([*common, "-o", str(pipe)]) == 0
    reader.join(timeout=20)
    assert read
    assert json.loads(read[0])["steps"] == 1
    link.symlink_to(tmp_path / "target")
    assert main([*common, "-o", str(link)]) == 0
    assert link.is_symlink()
    assert (tmp_path / "target").is_file()
    assert main([*common, "-o", str(tmp_path)]) == 3
    assert not list(tmp_path.parent.glob(".writing*"))


def test_words_are_allowed_blank_by_blank(folder: str, capsys):
    template = "the [[1w]] sees a [[1w]] and"
    flags = ["--allow", "1=cat", "--allow", "2=river,tree", "--json", "-T", "3", "--threads", "1"]
    assert main(["fill", *flags, template, "--model", folder]) == 0
    first, second = json.loads(capsys.readouterr().out)["fills"]
    assert first == "cat"
    assert second in ("river", "tree")


def test_ends_of_lines_stay_as_they_are(folder: str, tmp_path: Path, capfd):
    (tmp_path / "draft.txt").write_bytes(b"\xef\xbb\xbfthe cat sees.\r\nthe dog.\r\n")
    assert main(["refine", str(tmp_path / "draft.txt"), "--edits", "0", "--model", folder, "--threads", "1"]) == 0
    assert capfd.readouterr().out == "the cat sees.\r\nthe dog.\r\n"


def test_a_draft_without_suspects_has_no_score_and_no_trace(folder: str, tmp_path: Path, capsys):
    common = ["--edits", "0", "--model", folder, "--threads", "1", "--trace", str(tmp_path / "t.json")]
    assert main(["refine", "the cat sees.", "--json", *common]) == 0
    said = capsys.readouterr()
    assert json.loads(said.out) == {
        "text": "the cat sees.",
        "edits": [],
        "score": None,
        "draft_score": None,
        "network_calls": 0,
    }
    assert "there is no trace" in said.err
    assert not (tmp_path / "t.json").exists()
    assert main(["refine", "the cat sees.", "--diff", *common]) == 0
    assert "nothing was changed" in capsys.readouterr().err


def test_standard_output_may_be_named(folder: str, tmp_path: Path):
    script = "echo first; $0 -m sundae generate --model $1 -T 1 --threads 1 -o /dev/stdout; echo last"
    with (tmp_path / "out").open("wb") as out:
        subprocess.run(["/bin/sh", "-c", script, sys.executable, folder], stdout=out, check=True)
    written = (tmp_path / "out").read_bytes()
    assert written.startswith(b"first\n")
    assert written.endswith(b"last\n")
    assert len(written.split(b"\n")) > 3


def test_what_is_closed_is_an_error_only_if_it_is_needed(folder: str, tmp_path: Path):
    def run(more: str) -> subprocess.CompletedProcess[str]:
        script = f"$0 -m sundae generate --model $1 -T 1 --threads 1 {more}"
        return subprocess.run(["/bin/sh", "-c", script, sys.executable, folder], capture_output=True, text=True)

    lost = run(">&-")
    assert (lost.returncode, lost.stderr) == (3, "sundae: standard output is closed\n")
    assert run(f"-o {tmp_path / 'text'} >&-").returncode == 0
    assert (tmp_path / "text").exists()
    assert run("--watch 2>&-").returncode == 0


def test_a_temperature_and_a_share_that_are_given_hold_at_every_step():
    from sundae.cli.generate import Command
    from sundae.config import SamplingConfig

    usual = SamplingConfig(temperature=0.8, final_temperature=0.7, schedule="all", share=0.6)
    assert Command().sampling(usual) == usual
    found = Command(temperature=0.3, share=0.5).sampling(usual)
    assert (found.temperature, found.final_temperature, found.schedule, found.share) == (0.3, -1.0, "share", 0.5)


def test_a_ban_may_be_given_several_times(folder: str, capsys):
    common = ["fill", "the [[1w]] sees", "--allow", "1=cat,dog,bird", "--model", folder, "--threads", "1"]
    assert main([*common, "--ban", "cat", "--ban", "bird"]) == 0
    assert capsys.readouterr().out == "the dog sees\n"


def test_a_prompt_gets_the_same_texts_alone_and_among_others_and_may_be_long(folder: str, capsys, monkeypatch):
    prompts = ["the old cat", "a dog", "the cat sees a dog. " * 9 + "the"]
    common = ["--model", folder, "-n", "2", "-T", "2", "--threads", "1"]
    alone = []
    for prompt in prompts:
        assert main(["generate", prompt, *common]) == 0
        alone.append(capsys.readouterr().out)
        assert alone[-1].startswith(prompt)
    type_in(monkeypatch, "\n".join([prompts[0], "", *prompts[1:]]))
    assert main(["generate", "-", *common]) == 0
    said = capsys.readouterr()
    assert said.out == "".join(alone)
    assert "1 blank lines were passed over" in said.err


def test_a_trace_may_go_to_standard_output_or_a_pipe(folder: str, tmp_path: Path, capsys):
    common = ["generate", "--model", folder, "-T", "1", "--threads", "1", "-o", str(tmp_path / "texts")]
    assert main([*common, "--trace", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["verb"] == "generate"
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with subprocess.Popen(["cat", str(pipe)], stdout=subprocess.PIPE) as reader:
        assert main([*common, "--trace", str(pipe)]) == 0
        assert json.loads(reader.communicate(timeout=60)[0])["verb"] == "generate"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("the cat\r\nsees\r\n", "the dog\r\nsees\r\n"),
        ("the cat\nsees", "the cat\nlikes"),
        ("a\fb\u2028c\nd", "a\fx\u2028c\nd"),
    ],
)
def test_patch_applies_the_unified_difference(tmp_path: Path, before: str, after: str):
    (tmp_path / "draft").write_bytes(before.encode())
    difference = unified_diff(before, after).encode()
    subprocess.run(["patch", "--binary", str(tmp_path / "draft")], input=difference, check=True, capture_output=True)
    assert (tmp_path / "draft").read_bytes().decode() == after


def test_threads_are_torch_s_own_unless_they_are_given():
    code = "from sundae.cli.writing import use_threads; import torch; use_threads({}); print(torch.get_num_threads())"
    for given, expected in ((0, "1"), (2, "2")):
        child = subprocess.run(
            [sys.executable, "-c", code.format(given)],
            env=os.environ | {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            check=True,
        )
        assert child.stdout.strip() == expected


def test_a_text_may_come_through_a_pipe_with_a_name(tmp_path: Path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_text("the cat sees.\n", encoding="utf-8"))
    writer.start()
    assert read_text(str(pipe)) == "the cat sees.\n"
    writer.join()


@pytest.mark.parametrize("name", ["missing.TXT", "missing.srt", "there/missing", "my.xliff"])
def test_a_mistyped_name_of_a_file_is_not_a_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str):
    (tmp_path / "there").mkdir()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match="there is no file"):
        read_text(name)
    for text in ("and/or", "either/or.", "I read there/missing today", "Hello.World"):
        assert read_text(text) == text


def test_standard_input_is_read_as_a_file_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    content = "\ufeffone\rtwo\r\nthree\u2028\n"
    (tmp_path / "x.txt").write_bytes(content.encode())
    type_in(monkeypatch, content)
    assert read_text("-") == read_text(str(tmp_path / "x.txt")) == content[1:]
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"a\xff")))
    with pytest.raises(DataError, match="standard input is not valid UTF-8"):
        read_text("-")


def test_what_the_locale_cannot_write_is_written_all_the_same(folder: str):
    command = [sys.executable, "-m", "sundae", "generate", "ü", "--model", folder, "--threads", "1"]
    found = subprocess.run(command, env={**os.environ, "PYTHONIOENCODING": "ascii"}, capture_output=True)
    assert (found.returncode, found.stdout.decode()[:1]) == (0, "ü"), found.stderr
