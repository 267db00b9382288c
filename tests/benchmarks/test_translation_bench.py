"""The translation benchmarks: figures outlive the models that they are of, and are of these models only."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import translation_bench as bench_module
import translation_runs
from sundae.baselines.kinds import build_network
from sundae.config import BaselineConfig, SamplingConfig
from sundae.measure.report import Report
from sundae.model import as_model, save_model
from sundae.text.corpus import Corpus
from test_model import model_of
from training.corpora import parallel_corpus
from translation_bench import Bench
from translation_runs import Run, loaded

QUICK = SamplingConfig(steps=1, temperature=1.0, schedule="all", candidates=2)


class Small(Bench):
    title = "Small"
    runs = {"ar": Run("tiny", network="autoregressive"), "sundae": Run("tiny")}  # noqa: RUF012
    tests, probes = ("test",), ("far",)
    claimed = (("sundae", "ar"),)
    drawn = {"sundae": "SUNDAE"}  # noqa: RUF012

    def lines(self, corpus: str, split: str) -> tuple[list[str], list[str]]:
        return ["the cat sees", "a dog", "the red house"], ["sees cat the", "dog a", f"house red {split}"]

    def prepare(self, corpus: str, folder: Path) -> None:
        raise AssertionError("everything is trained")

    def tokenised(self, corpus: str) -> bool:
        return True


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return parallel_corpus(tmp_path_factory.mktemp("pairs"))


@pytest.fixture
def bench(pairs: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Small:
    monkeypatch.setattr(bench_module, "OUTPUTS", tmp_path / "outputs")
    monkeypatch.setattr(bench_module, "STOCHASTIC", [QUICK])
    monkeypatch.setattr(bench_module, "DETERMINISTIC", [])
    monkeypatch.setattr(bench_module, "WIDER", [replace(QUICK, steps=2)])
    monkeypatch.setattr(bench_module, "BEAMS", [BaselineConfig(beam=2)])
    monkeypatch.setattr(bench_module, "FULL", 2)
    for cached in (bench_module._fingerprint, loaded):
        cached.cache_clear()
    found = Small(tmp_path, work=tmp_path / "work", threads=1)
    for name in found.runs:
        train(found, name, pairs)
    return found


def train(bench: Small, name: str, pairs: Corpus, *, seed: int = 0) -> None:
    """As if: random weights."""
    usual = model_of(pairs).config
    kind = "autoregressive" if bench.is_twin(name) else "sundae"
    config = usual.updated({"network": {"kind": kind}})
    torch.manual_seed(seed)
    model = as_model(build_network(config.network), pairs.tokenizer, config)
    save_model(model, bench.work / name / "model", force=True)
    for cached in (bench_module._fingerprint, loaded):
        cached.cache_clear()


def measured(bench: Small) -> dict[str, Report]:
    return {name: bench.measured(name) for name in bench.runs}


def test_claims_are_the_same_when_the_models_are_gone(bench: Small, capsys: pytest.CaptureFixture[str]):
    reports = measured(bench)
    ways = {row["way"] for row in reports["sundae"].tables[0].rows}
    assert ways == {"tried", "own", "wide", "judged", "probe"}
    claims = bench.claims(reports, "test")
    assert [row["settings"] for row in claims.rows] == [
        "temperature 1, T=1, n=2; beam 2, length normalisation 1",
        "temperature 1, T=1, n=2, ranked by ar; beam 2, length normalisation 1",
    ]
    shutil.rmtree(bench.work / "ar")
    assert measured(bench) == reports  # the judge's absence takes nothing back
    shutil.rmtree(bench.work)
    assert bench.claims(measured(bench), "test") == claims
    bench_module.publish(bench)
    assert "## Claims" in capsys.readouterr().out


def test_other_weights_data_or_decoders_are_measured_again(
    bench: Small, pairs: Corpus, monkeypatch: pytest.MonkeyPatch
):
    first = measured(bench)
    assert measured(bench) == first
    train(bench, "sundae", pairs, seed=1)
    second = measured(bench)
    assert second["ar"] == first["ar"]
    assert second["sundae"] != first["sundae"]
    monkeypatch.setattr(bench_module, "DECODER", -1)
    assert measured(bench)["ar"] != first["ar"]
    monkeypatch.setattr(Small, "lines", lambda *_: (["a dog"], ["dog a"]))
    other = {"sundae": bench.measured("sundae"), "ar": first["ar"]}
    with pytest.raises(SystemExit, match="other data"):
        bench.claims(other, "test")


class Shipping(Small):
    runs = {**Small.runs, "kept": Run("tiny", ships="toy", wide=False)}  # noqa: RUF012
    claimed = (("sundae", "ar"), ("kept", "ar"), ("kept", "sundae"))


def test_a_model_that_ships_is_measured_as_it_is(
    bench: Small, pairs: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(translation_runs, "SHIPPED", tmp_path / "shipped")
    monkeypatch.setattr(bench_module, "SHIPPING", QUICK)
    train(bench, "sundae", pairs, seed=3)
    (tmp_path / "shipped").mkdir()
    (bench.work / "sundae" / "model").rename(tmp_path / "shipped" / "toy")
    train(bench, "sundae", pairs, seed=0)
    shipping = Shipping(tmp_path, work=bench.work, threads=1)
    reports = measured(shipping)
    written = [shipping._texts(name, "test", "own") for name in ("sundae", "kept")]
    assert written[0] != written[1]
    (with_two,) = (table for table in reports["kept"].tables if table.title == "Two lengths instead of one")
    sides = [(row["first"], row["second"]) for row in with_two.rows]
    assert sides == [("temperature 1, 2 lengths, T=1, n=2", "temperature 1, T=1, n=2")]
    shutil.rmtree(tmp_path / "shipped")
    compared = [(row["first"], row["second"]) for row in shipping.claims(reports, "test").rows]
    judged = [("sundae", "ar"), ("kept", "ar")]  # once with its own ranking, once with the twin's
    assert compared == [each for pair in judged for each in (pair, pair)] + [("kept", "sundae")]


class Forked(Small):
    short = ("training.steps=4", "training.checkpoint_every=2", "objective.plain_share=0.5", "network.encoder_layers=1")
    runs = {  # noqa: RUF012
        "sundae": Run("tiny", changes=short),
        "l1": Run("tiny", changes=[*short, "objective.unroll_steps=1"], branch_of="sundae", shared=2),
    }

    def corpus(self, name: str) -> Path:
        return self.data


def test_a_run_that_branches_off_is_the_run_that_starts_anew(pairs: Corpus, tmp_path: Path):
    sharing, alone = (Forked(pairs.folder, work=tmp_path / name, threads=1) for name in ("sharing", "alone"))
    sharing.trained("sundae")
    weights = [(each.trained("l1") / "model.safetensors").read_bytes() for each in (sharing, alone)]
    assert (sharing.work / "forks" / "sundae" / "checkpoints" / "step-000000002").exists()
    assert weights[0] == weights[1]
    assert weights[0] != (sharing.trained("sundae") / "model.safetensors").read_bytes()
    steps = [len((each.work / "l1" / "metrics.jsonl").read_text().splitlines()) for each in (sharing, alone)]
    assert steps[0] == steps[1]
