"""`sundae train` as a user meets it: child processes, signals, and files that are not what they should be."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from safetensors.torch import load_file

from sundae.baselines.shifted import ShiftedTransformer
from sundae.cli import main
from sundae.model import Sundae, load_model
from training.corpora import crop_corpus, parallel_corpus, sentence_corpus

SMALL = [
    "network.width=16",
    "network.hidden=32",
    "network.heads=2",
    "network.decoder_layers=1",
    "network.dropout=0.1",
    "training.batch_size=8",
    "training.warmup_steps=5",
    "training.log_every=2",
    "training.validate_every=25",
    "training.checkpoint_every=3",
]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return sentence_corpus(tmp_path_factory.mktemp("data")).folder


def command(data: Path, run: Path, *more: str, steps: int = 12) -> list[str]:
    arguments = ["train", "tiny", "--data", str(data), "--out", str(run), "--threads", "1", "--samples", "1"]
    return [*arguments, *SMALL, f"training.steps={steps}", *more]


def start(arguments: list[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "sundae", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def losses(run: Path) -> dict[tuple[str, int], float]:
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    return {(line["kind"], line["step"]): line["loss"] for line in lines if "loss" in line}


def _changed(path: Path) -> int:
    return path.stat().st_mtime_ns if path.exists() else 0


def wait_for(condition, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.02)


@pytest.mark.parametrize("kills", [2, pytest.param(20, marks=pytest.mark.slow)])
def test_killed_at_random_moments_and_started_again_it_ends_the_same(tmp_path: Path, data: Path, kills: int):
    steps = 60 * kills
    whole = start(command(data, tmp_path / "whole", steps=steps))
    assert whole.wait() == 0, whole.stderr and whole.stderr.read()
    chooser = random.Random(0)
    log, landed = tmp_path / "killed" / "metrics.jsonl", 0
    while landed < kills:
        before = _changed(log)
        child = start(command(data, tmp_path / "killed", steps=steps))
        while child.poll() is None and _changed(log) == before:
            time.sleep(0.02)
        time.sleep(chooser.uniform(0, 0.5))
        child.send_signal(signal.SIGKILL)
        child.communicate()
        if child.returncode == 0:
            break  # it was done before it could be killed: there is nothing left to interrupt
        landed += 1
    assert landed >= min(kills, 2)
    last = start(command(data, tmp_path / "killed", steps=steps))
    assert last.wait() == 0
    assert losses(tmp_path / "killed") == losses(tmp_path / "whole")
    one, other = (load_file(tmp_path / name / "model" / "model.safetensors") for name in ("whole", "killed"))
    assert all(one[name].equal(other[name]) for name in one)
    for process in (whole, last):
        process.communicate()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_polite_signal_saves_and_exits_with_its_code(tmp_path: Path, data: Path, number: int, code: int):
    child = start(command(data, tmp_path / "run", steps=100_000))
    wait_for((tmp_path / "run" / "metrics.jsonl").exists)
    child.send_signal(number)
    _, said = child.communicate(timeout=60)
    assert child.returncode == code
    assert "saved step" in said
    assert list((tmp_path / "run" / "checkpoints").glob("step-*"))


def test_a_trained_model_can_be_loaded_and_writes(tmp_path: Path, data: Path, capsys):
    assert main(command(data, tmp_path / "run")) == 0
    assert capsys.readouterr().out == f"{tmp_path / 'run' / 'model'}\n"
    model = Sundae.from_pretrained(tmp_path / "run" / "model")
    assert len(model.generate(2)) == 2
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    kinds = {line["kind"] for line in lines}
    assert kinds == {"train", "validation", "samples"}
    validation = next(line for line in lines if line["kind"] == "validation")
    assert {"loss_1", "loss_2", "accuracy_1", "accuracy_2"} <= set(validation)


@pytest.mark.parametrize("make", [crop_corpus, parallel_corpus])
def test_other_kinds_of_corpora_train(tmp_path: Path, make):
    corpus = make(tmp_path)
    more = ["network.encoder_layers=1"] if corpus.kind == "parallel" else []
    assert main(command(corpus.folder, tmp_path / "run", *more)) == 0


def test_bleu_of_decoded_validation_sentences_is_logged_with_its_signature(tmp_path: Path, data: Path, capsys):
    pytest.importorskip("sacrebleu")
    (tmp_path / "pairs").mkdir()
    pairs = parallel_corpus(tmp_path / "pairs").folder
    more = ["network.encoder_layers=1", "--bleu", "6", "training.validate_every=12"]
    assert main(command(pairs, tmp_path / "run", *more)) == 0
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    (bleu,) = (line for line in lines if line["kind"] == "bleu")
    assert 0 <= bleu["bleu"] <= 100
    assert "tok:13a" in bleu["signature"]
    assert bleu["sentences"] == 6
    assert main(command(data, tmp_path / "other", "--bleu", "6")) == 2
    assert "only translations have references" in capsys.readouterr().err


def test_sources_that_are_too_long_and_pairs_that_are_not_there_are_said_before_anything_is_written(
    tmp_path: Path, capsys
):
    (tmp_path / "pairs").mkdir()
    pairs = parallel_corpus(tmp_path / "pairs").folder
    usual, run = ["network.encoder_layers=1", "training.steps=2"], tmp_path / "run"
    assert main(command(pairs, run, *usual, "network.source_positions=3")) == 2
    assert "the corpus has sources of" in capsys.readouterr().err
    assert main(command(pairs, run, *usual, "--bleu", "-1")) == 2
    assert "must not be negative" in capsys.readouterr().err
    assert main(command(pairs, run, *usual, "--init", "nowhere")) != 0
    assert not run.exists()
    assert main(command(pairs, run, *usual)) == 0  # positions for all sources, whatever the preset has
    assert Sundae.from_pretrained(run / "model").config.network.source_positions == 24


def test_bfloat16_trains_where_the_machine_can(tmp_path: Path, data: Path):
    from sundae.machine import probe_bfloat16

    finding = probe_bfloat16()
    if not finding.fine:
        pytest.skip(finding.reason)
    assert main(command(data, tmp_path / "run", "training.precision=bfloat16")) == 0
    figures = losses(tmp_path / "run")
    assert figures["train", 12] < figures["train", 2]


@pytest.mark.slow
def test_a_compiled_run_trains(tmp_path: Path, data: Path):
    if shutil.which("g++") is None:
        pytest.skip("torch.compile needs a C++ compiler")
    child = start(command(data, tmp_path / "run", "training.compile=true", steps=4))
    _, said = child.communicate(timeout=400)
    assert child.returncode == 0, said


def test_a_finished_run_is_left_as_it_is(tmp_path: Path, data: Path):
    assert main(command(data, tmp_path / "run")) == 0
    before = losses(tmp_path / "run")
    assert main(command(data, tmp_path / "run")) == 0
    assert losses(tmp_path / "run") == before


def test_another_run_in_the_same_folder_is_refused_unless_forced(tmp_path: Path, data: Path, capsys):
    assert main(command(data, tmp_path / "run")) == 0
    assert main(command(data, tmp_path / "run", "training.learning_rate=0.002")) == 2
    said = capsys.readouterr().err
    assert "holds another run: training.learning_rate was 0.006 and is now 0.002" in said
    assert main(command(data, tmp_path / "run", "training.learning_rate=0.002", "--force")) == 0


def test_a_run_does_not_go_on_with_another_corpus(tmp_path: Path, data: Path, capsys):
    assert main(command(data, tmp_path / "run")) == 0
    moved = tmp_path / "moved"
    shutil.copytree(data, moved)
    assert main(command(moved, tmp_path / "run")) == 0  # the same, elsewhere
    (tmp_path / "other").mkdir()
    other = sentence_corpus(tmp_path / "other", seed=1).folder
    assert main(command(other, tmp_path / "run")) == 2
    assert "is not the corpus that it was trained on" in capsys.readouterr().err


def test_a_folder_with_other_things_in_it_is_refused(tmp_path: Path, data: Path, capsys):
    (tmp_path / "thesis.txt").write_text("precious")
    assert main(command(data, tmp_path)) == 2
    assert "thesis.txt" in capsys.readouterr().err
    assert (tmp_path / "thesis.txt").read_text() == "precious"


def test_force_never_empties_a_folder_that_is_not_a_run(tmp_path: Path, data: Path, capsys):
    (tmp_path / "thesis.txt").write_text("precious")
    assert main(command(data, tmp_path, "--force")) == 2
    assert (tmp_path / "thesis.txt").read_text() == "precious"


def test_a_second_trainer_is_refused_at_once(tmp_path: Path, data: Path, capsys):
    child = start(command(data, tmp_path / "run", steps=100_000))
    wait_for((tmp_path / "run" / "metrics.jsonl").exists)
    assert main(command(data, tmp_path / "run", steps=100_000)) == 2
    assert f"process {child.pid} holds its lock" in capsys.readouterr().err
    child.kill()
    child.communicate()


def test_a_damaged_checkpoint_is_passed_over_and_said_so(tmp_path: Path, data: Path, capsys):
    assert main(command(data, tmp_path / "run")) == 0
    newest = max((tmp_path / "run" / "checkpoints").glob("step-*"))
    content = bytearray((newest / "model.safetensors").read_bytes())
    content[-1] ^= 1
    (newest / "model.safetensors").write_bytes(bytes(content))
    capsys.readouterr()
    assert main(command(data, tmp_path / "run")) == 0
    said = " ".join(capsys.readouterr().err.split())
    assert "passed over" in said
    assert "does not match the manifest" in said
    assert "resumed from step-000000009" in said


@pytest.mark.parametrize(
    ("more", "code", "message"),
    [
        (["--data", "nowhere"], 3, "nowhere is not a corpus"),
        (["network.vocabulary_size=77"], 2, "network.vocabulary_size=77"),
        (["network.canvas=4"], 2, "network.canvas=4"),
        (["data.kind=crops"], 2, "data.kind=crops"),
        (["--init", "nowhere"], 3, "there is no model 'nowhere'"),
        (["--config", "nowhere.toml"], 3, "nowhere.toml"),
        (["training.stepz=3"], 2, "did you mean 'steps'"),
    ],
)
def test_what_cannot_be_is_one_line_and_an_exit_code(tmp_path: Path, data: Path, capsys, more, code, message):
    assert main(command(data, tmp_path / "run", *more)) == code
    said = capsys.readouterr().err
    assert message in said
    assert said.count("\n") == 1


def test_a_run_s_folder_may_not_be_a_file(tmp_path: Path, data: Path, capsys):
    (tmp_path / "run").write_text("x")
    assert main(command(data, tmp_path / "run")) == 2
    assert "is a file" in capsys.readouterr().err


def test_fine_tuning_starts_from_the_weights_of_a_model(tmp_path: Path, data: Path, capsys):
    assert main(command(data, tmp_path / "first", steps=30)) == 0
    model = str(tmp_path / "first" / "model")
    cold = ["training.learning_rate=1e-9", "training.initial_learning_rate=1e-9", "training.final_learning_rate=1e-9"]
    assert main(command(data, tmp_path / "second", *cold, "--init", model, steps=2)) == 0
    one, other = (
        load_file(tmp_path / name / "model" / "model.safetensors")["embedding.weight"] for name in ("first", "second")
    )
    assert (one - other).abs().max() < 1e-6
    assert main(command(data, tmp_path / "third", "network.width=32", "--init", model)) == 2
    assert "its network differs" in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["autoregressive", "cmlm"])
def test_a_translator_may_start_with_what_it_has_in_common_with_a_baseline(tmp_path: Path, data: Path, kind, capsys):
    (tmp_path / "pairs").mkdir()
    pairs = parallel_corpus(tmp_path / "pairs").folder
    shape = ["network.width=16", "network.hidden=32", "network.heads=2", "network.encoder_layers=1"]
    shape += ["network.source_positions=16", "network.length_hidden=8", "network.length_blocks=1"]
    cold = ["training.learning_rate=1e-9", "training.initial_learning_rate=1e-9", "training.final_learning_rate=1e-9"]
    assert main(command(pairs, tmp_path / "twin", *shape, "--network", kind)) == 0
    twin = str(tmp_path / "twin" / "model")
    assert main(command(pairs, tmp_path / "ours", *shape, *cold, "--init", twin, steps=2)) == 0
    theirs, ours = (load_file(tmp_path / name / "model" / "model.safetensors") for name in ("twin", "ours"))
    for key, value in ours.items():
        if not key.startswith("length_"):
            assert (theirs[key][: len(value)] - value).abs().max() < 1e-3, key
    longer = [*shape, *cold, "network.source_positions=24", "--init", twin]
    assert main(command(pairs, tmp_path / "longer", *longer, steps=2)) == 0
    positions = load_file(tmp_path / "longer" / "model" / "model.safetensors")["source_positions.weight"]
    assert positions.shape == (24, 16)
    assert (theirs["source_positions.weight"] - positions[:16]).abs().max() < 1e-3
    if kind == "autoregressive":
        shifted = [*shape, *cold, "network.shifted=true", "--init", twin]
        assert main(command(pairs, tmp_path / "shifted", *shifted, steps=2)) == 0
        ours = load_file(tmp_path / "shifted" / "model" / "model.safetensors")
        assert (ours["begin_row"] - theirs["marks.weight"][0]).abs().max() < 1e-3
        assert isinstance(load_model(tmp_path / "shifted" / "model").network, ShiftedTransformer)
    # And back: a baseline has more positions than a translator, or as many.
    back = [*cold, "--network", kind, "--init", str(tmp_path / "ours" / "model")]
    assert main(command(pairs, tmp_path / "back", *shape, *back, steps=2)) == 0
    assert main(command(pairs, tmp_path / "wide", *shape, "network.width=32", "--init", twin)) == 2
    assert "its network differs" in capsys.readouterr().err
    assert main(command(data, tmp_path / "text", "--init", twin)) == 2
    assert "another tokenizer" in capsys.readouterr().err


def test_fine_tuning_needs_the_model_s_tokenizer(tmp_path: Path, data: Path, capsys):
    assert main(command(data, tmp_path / "first")) == 0
    (tmp_path / "other").mkdir()
    other = crop_corpus(tmp_path / "other").folder
    assert main(command(other, tmp_path / "second", "--init", str(tmp_path / "first" / "model"))) == 2
    assert "another tokenizer" in capsys.readouterr().err


def test_tensorboard_is_written_when_asked_for(tmp_path: Path, data: Path):
    pytest.importorskip("tensorboard")
    assert main(command(data, tmp_path / "run", "--tensorboard")) == 0
    assert list((tmp_path / "run" / "tensorboard").glob("events*"))


def test_bfloat16_is_refused_with_the_reason_where_it_cannot_run(tmp_path: Path, data: Path, capsys, monkeypatch):
    from sundae.cli import training_run
    from sundae.machine import Finding

    monkeypatch.setattr(training_run, "probe_bfloat16", lambda: Finding(False, "it died with signal 4"))
    assert main(command(data, tmp_path / "run", "training.precision=bfloat16")) == 4
    assert "it died with signal 4" in capsys.readouterr().err


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a file system")
def test_a_full_disk_ends_the_run_with_a_clear_line_and_keeps_what_was_saved(tmp_path: Path, data: Path, capsys):
    small = tmp_path / "small"
    small.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=700k", "none", str(small)], check=False).returncode:
        pytest.skip("cannot mount a tmpfs here")
    try:
        assert main(command(data, small / "run", "training.average_last=50", steps=400)) == 3
        assert "No space left on device" in capsys.readouterr().err
        from sundae.training.checkpoint import newest_checkpoint

        assert newest_checkpoint(small / "run" / "checkpoints") is not None
    finally:
        subprocess.run(["umount", str(small)], check=True)
