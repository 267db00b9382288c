"""Translation on Multi30k: SUNDAE against its autoregressive twin and CMLM, with the paper's ablations.

    python benchmarks/multi30k.py DATA --work DIR                   everything; hours of training for each run
    python benchmarks/multi30k.py DATA --work DIR --only l1-0 l12-0   these runs only, such as one list for each core

DATA holds multi30k/tok/ and multi30k/raw/ (hub: bentrevett/multi30k).  The work folder holds corpora, runs,
translations and reports; the same command goes on where it stopped.  Settings are chosen on validation, and the
test sets are translated once with what was chosen.  The report has what is there.
"""

import argparse
import gzip
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import torch

from sundae.config import BaselineConfig, SamplingConfig
from sundae.decoding.translation import TranslateSettings
from sundae.decoding.written import Written
from sundae.measure.atomic import write_bytes
from sundae.measure.bleu import bleu_interval, compare_bleu, corpus_chrf
from sundae.measure.diversity import diversity
from sundae.measure.evaluation import length_accuracy
from sundae.measure.report import Cell, Table, make_report
from sundae.model import AutoregressiveTwin, Model, Sundae, load_model

VOCABULARY = 6000
SMALL = 12_200
"""Updates of the small budget: 16 million target tokens."""
AGAIN = ["training.learning_rate=1.5e-3", "training.warmup_steps=200"]
"""A second phase starts from the first one's weights with a high rate again."""


Settings = SamplingConfig | BaselineConfig


@dataclass(frozen=True)
class Run:
    """A model to train: a preset with changes, on a corpus, perhaps from the weights of an earlier run."""

    preset: str
    corpus: str = "ende"
    changes: Sequence[str] = ()
    after: str | None = None
    network: str | None = None


def small(preset: str = "multi30k", corpus: str = "ende", *changes: str, network: str | None = None) -> Run:
    return Run(preset, corpus, [f"training.steps={SMALL}", *changes], network=network)


RUNS: dict[str, Run] = {
    "ar": Run("multi30k-ar"),
    "ar-2": Run("multi30k-ar", changes=[*AGAIN, "training.steps=9000"], after="ar"),
    "l12-0": small(),
    "sundae": Run("multi30k", changes=[*AGAIN, "training.steps=18000"], after="l12-0"),
    "l1-0": small("multi30k", "ende", "objective.unroll_steps=1"),
    "distilled": small("multi30k", "ende-distilled", "objective.label_smoothing=0.0"),
    "cmlm": small("multi30k", network="cmlm"),
    "l13": small("multi30k", "ende", "objective.unroll_steps=3"),
    # One canvas for all, and as many sentences in an update as the others have on average.
    "no-length": small("multi30k", "ende-40", "network.length_prediction=false", "training.batch_tokens=3480"),
    "deen": small("multi30k", "deen"),
    "enfr": small("multi30k", "enfr"),
    "deen-ar": small("multi30k-ar", "deen"),
    "enfr-ar": small("multi30k-ar", "enfr"),
    "l12-1": small("multi30k", "ende", "training.seed=1"),
    "l12-2": small("multi30k", "ende", "training.seed=2"),
    "l1-1": small("multi30k", "ende", "objective.unroll_steps=1", "training.seed=1"),
    "l1-2": small("multi30k", "ende", "objective.unroll_steps=1", "training.seed=2"),
    "raw": small("multi30k", "raw"),
    "raw-ar": small("multi30k-ar", "raw"),
}
LANGUAGES = {
    "ende": "en de",
    "ende-40": "en de",
    "ende-distilled": "en de",
    "deen": "de en",
    "enfr": "en fr",
    "raw": "en de",
}
TESTS = ("test_2016_flickr", "test_2017_flickr")
BEAMS = [BaselineConfig(beam=5, length_normalisation=n) for n in (0.6, 0.8, 1.0, 1.2, 1.4)]

# What is tried on validation to choose the setting that goes to the test set, and with how many candidates.
STOCHASTIC = [
    SamplingConfig(steps=10, temperature=t, schedule="all", candidates=4) for t in (0.1, 0.2, 0.3, 0.4, 0.5, 0.6)
]
DETERMINISTIC = [
    SamplingConfig(rule="argmax-unrolled", steps=10, schedule="all", uncertain_share=u, candidates=4)
    for u in (0.1, 0.3, 0.5)
]
FULL = 16
"""Candidates of the reported figures, as in the paper."""


@dataclass(frozen=True)
class Bench:
    """Where the data and the work are."""

    data: Path
    work: Path
    threads: int

    def lines(self, corpus: str, split: str) -> tuple[list[str], list[str]]:
        """Sources and references of a split."""
        return tuple(self._side(corpus, split, language) for language in LANGUAGES[corpus].split())  # type: ignore[return-value]

    def _side(self, corpus: str, split: str, language: str) -> list[str]:
        if corpus == "raw":
            packed = self.data / "multi30k" / "raw" / f"{split}.{language}.gz"
            return gzip.decompress(packed.read_bytes()).decode().splitlines()
        path = self.data / "multi30k" / "tok" / f"{split}.lc.norm.tok.{language}"
        return path.read_text(encoding="utf-8").splitlines()

    def sundae(self, *arguments: object) -> None:
        subprocess.run([sys.executable, "-m", "sundae", *map(str, arguments)], check=True)

    def corpus(self, name: str) -> Path:
        """The corpus, prepared if need be."""
        folder = self.work / name
        if folder.exists():
            return folder
        if name == "ende-distilled":
            teacher = self.trained("ar-2")
            self.sundae(
                "distill", self.corpus("ende"), "--teacher", teacher, "--out", folder, "--threads", self.threads
            )
            return folder
        texts = self.work / "texts"
        files: list[Path] = []
        for split in ("train", "val"):
            for language, lines in zip(LANGUAGES[name].split(), self.lines(name, split), strict=True):
                files.append(texts / f"{name}.{split}.{language}")
                write_bytes(files[-1], "".join(f"{line}\n" for line in lines).encode())
        canvas = 40 if name == "ende-40" else 64
        common = ["--vocabulary", VOCABULARY, "--canvas", canvas, "--validation-from", *files[2:]]
        self.sundae("prepare", "parallel", *files[:2], "--out", folder, *common)
        return folder

    def trained(self, name: str) -> Path:
        """The model of a run, trained if need be."""
        run, folder = RUNS[name], self.work / name
        if not (folder / "model").exists():
            start = [] if run.after is None else ["--init", self.trained(run.after)]
            kind = [] if run.network is None else ["--network", run.network]
            common = ["--data", self.corpus(run.corpus), "--out", folder, "--threads", self.threads]
            self.sundae("train", run.preset, *common, *kind, *start, *run.changes)
        return folder / "model"

    # ---- translating

    def translations(self, name: str, split: str, what: Settings, *, oracle: bool = False) -> list[Written]:
        """The translations of a split with some settings, kept in a file."""
        settings = {key: value for key, value in sorted(vars(what).items()) if value != getattr(type(what)(), key)}
        label = "-".join(f"{key}={value}" for key, value in settings.items()) + ("-oracle" if oracle else "")
        path = self.work / "translations" / name / f"{split}-{label or 'default'}.json"
        if not path.exists():
            model, sources = _loaded(self.trained(name)), self.lines(RUNS[name].corpus, split)[0]
            if isinstance(model, Sundae):
                assert isinstance(what, SamplingConfig)
                lengths = None
                if oracle:
                    references = self.lines(RUNS[name].corpus, split)[1]
                    lengths = [len(model.tokenizer.encode(reference)) for reference in references]
                many = model.translate_many(sources, sampling=what, settings=TranslateSettings(), lengths=lengths)
                found = [each[0] for each in many]
            else:
                assert isinstance(what, BaselineConfig)
                found = model.translate(sources, baseline=what)
            content = [[each.text, each.score, each.steps, each.network_calls] for each in found]
            write_bytes(path, json.dumps(content, ensure_ascii=False, indent=0).encode())
        return [Written(*each) for each in json.loads(path.read_text(encoding="utf-8"))]

    def row(self, name: str, split: str, what: Settings, *, oracle: bool = False, **labels: Cell) -> dict[str, Cell]:
        """One line of a table."""
        corpus = RUNS[name].corpus
        written, references = self.translations(name, split, what, oracle=oracle), self.lines(corpus, split)[1]
        texts = [each.text for each in written]
        bleu = bleu_interval(texts, references=references, tokenised=corpus != "raw")
        words = [sum(len(text.split()) for text in side) for side in (texts, references)]
        return {
            "model": name,
            **labels,
            "split": split,
            "BLEU": bleu.score,
            "chrF": corpus_chrf(texts, references).score,
            "length ratio": words[0] / words[1],
            "repeated tokens": diversity(texts, orders=(1,)).repeated_tokens,
            "network calls": sum(each.network_calls for each in written) / len(written),
            "signature": bleu.signature,
        }

    def best(self, name: str, tried: Sequence[Settings]) -> Settings:
        """What does best on validation."""
        return max(tried, key=lambda what: self.row(name, "val", what)["BLEU"].value)  # type: ignore[union-attr]


@cache
def _loaded(folder: Path) -> Model:
    return load_model(folder)


def shown(what: Settings) -> str:
    """Settings in a few words."""
    if isinstance(what, BaselineConfig):
        if what.beam == 1:
            return "greedy"
        return f"beam {what.beam}, length normalisation {what.length_normalisation:g}"
    if what.rule == "argmax-unrolled":
        return f"argmax-unrolled, T={what.steps}, share {what.uncertain_share:g}, n={what.candidates}"
    return f"temperature {what.temperature:g}, T={what.steps}, n={what.candidates}"


def tried_on(model: Model) -> list[Settings]:
    if isinstance(model, AutoregressiveTwin):
        return list(BEAMS)
    if isinstance(model, Sundae):
        return [*STOCHASTIC, *DETERMINISTIC]
    return [BaselineConfig(mask_predict_steps=10, length_candidates=n) for n in (1, 3, 5)]


def headline(bench: Bench, names: Sequence[str]) -> list[Table]:
    """Every run with the setting that did best on validation, on validation and on the test sets."""
    rows: list[dict[str, Cell]] = []
    for name in names:
        best = bench.best(name, tried_on(_loaded(bench.trained(name))))
        if isinstance(best, SamplingConfig):
            best = replace(best, candidates=FULL)
        for split in ("val", *TESTS):
            rows.append(bench.row(name, split, best, setting=shown(best)))
            print(rows[-1], flush=True)
        if isinstance(best, BaselineConfig) and best.beam > 1:
            greedy = replace(best, beam=1)
            rows += [bench.row(name, split, greedy, setting="greedy") for split in ("val", *TESTS)]
    lengths: list[dict[str, Cell]] = []
    for name in names:
        model = _loaded(bench.trained(name))
        if isinstance(model, Sundae) and model.config.network.length_prediction:
            lengths.append({"model": name, **length_accuracy(model, *bench.lines(RUNS[name].corpus, "val"))})
    return [Table("Models", rows), Table("Length prediction on validation", lengths)]


def curves(bench: Bench, name: str) -> Table:
    """What steps, temperature, candidates, the uncertain share and a known length do, on validation."""
    stochastic = replace(bench.best(name, STOCHASTIC), candidates=FULL)
    deterministic = replace(bench.best(name, DETERMINISTIC), candidates=FULL)
    assert isinstance(stochastic, SamplingConfig)
    assert isinstance(deterministic, SamplingConfig)
    tried: list[tuple[str, SamplingConfig, bool]] = []
    tried += [("steps, deterministic", replace(deterministic, steps=t), False) for t in (2, 3, 4, 8, 10)]
    tried += [("steps, stochastic", replace(stochastic, steps=t), False) for t in (4, 8, 10, 16, 32)]
    tried += [
        ("temperature", replace(stochastic, temperature=t), False)
        for t in (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0)
    ]
    tried += [("candidates", replace(stochastic, candidates=n), False) for n in (1, 4, 16)]
    tried += [
        ("uncertain share", replace(deterministic, uncertain_share=u), False) for u in (0.1, 0.2, 0.3, 0.4, 0.5, 0.6)
    ]
    tried += [("known length", each, True) for each in (stochastic, deterministic)]
    # Argmax-unrolled asks the network twice a step, so plain argmax gets twice the steps.
    for steps in (2, 4, 8):
        unrolled = replace(deterministic, steps=steps, candidates=1)
        plain = replace(stochastic, temperature=0.0, steps=2 * steps, candidates=1)
        tried += [("argmax-unrolled", unrolled, False), ("plain argmax", plain, False)]
    rows: list[dict[str, Cell]] = []
    for curve, what, oracle in tried:
        rows.append(bench.row(name, "val", what, oracle=oracle, curve=curve, setting=shown(what)))
        print(rows[-1], flush=True)
    return Table(f"Decoding with {name}", rows)


def claims(bench: Bench, names: Sequence[str]) -> Table:
    """Differences with 95% paired-bootstrap intervals, on the first test set."""
    wanted = [
        ("sundae", "ar-2"),
        ("l12-0", "l1-0"),
        ("l12-1", "l1-1"),
        ("l12-2", "l1-2"),
        ("l13", "l12-0"),
        ("no-length", "l12-0"),
        ("cmlm", "l12-0"),
        ("distilled", "l12-0"),
        ("deen", "deen-ar"),
        ("enfr", "enfr-ar"),
        ("raw", "raw-ar"),
    ]
    rows: list[dict[str, Cell]] = []
    for first, second in wanted:
        if first not in names or second not in names:
            continue
        texts: list[list[str]] = []
        for name in (first, second):
            best = bench.best(name, tried_on(_loaded(bench.trained(name))))
            if isinstance(best, SamplingConfig):
                best = replace(best, candidates=FULL)
            texts.append([each.text for each in bench.translations(name, TESTS[0], best)])
        corpus = RUNS[first].corpus
        references = bench.lines(corpus, TESTS[0])[1]
        found = compare_bleu(*texts, references=references, tokenised=corpus != "raw").scores
        share = found.first.value / found.second.value
        rows.append(
            {"first": first, "second": second, "BLEU": found.first, "BLEU of the second": found.second}
            | {"difference": found.difference, "first / second": share}
        )
    return Table("Claims", rows, f"{TESTS[0]}; intervals of paired bootstrap over sentences")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--only", nargs="+", choices=RUNS, default=list(RUNS))
    parser.add_argument("--curves", default="sundae", help="the run whose decoding is studied")
    parser.add_argument("--report", action="store_true", help="train nothing: report on the runs that are finished")
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    bench = Bench(arguments.data, arguments.work, arguments.threads)
    names = [name for name in arguments.only if not arguments.report or (bench.work / name / "model").exists()]
    for name in names:
        bench.trained(name)
    tables = headline(bench, names)
    if arguments.curves in names:
        tables.append(curves(bench, arguments.curves))
    tables.append(claims(bench, names))
    config: Mapping[str, Any] = {name: _loaded(bench.trained(name)).config.to_dict() for name in names}
    label = "multi30k" if names == list(RUNS) else "-".join(names)
    report = make_report("Multi30k", tables=tables, seed=0, config=config, threads=arguments.threads)
    report.write(bench.work / "reports", name=label)
    print(report.markdown())


if __name__ == "__main__":
    main()
