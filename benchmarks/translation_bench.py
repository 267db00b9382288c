"""What the benchmarks of translation share: runs that are trained once, translations that are kept, rows of figures."""

import argparse
import hashlib
import itertools
import json
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import torch

from sundae.config import BaselineConfig, SamplingConfig
from sundae.decoding.translation import TranslateSettings
from sundae.decoding.written import Written
from sundae.files import write_whole
from sundae.machine import keep_memory
from sundae.measure.bleu import bleu_interval, compare_bleu, corpus_chrf
from sundae.measure.diversity import diversity
from sundae.measure.evaluation import length_accuracy
from sundae.measure.report import Cell, Table, make_report
from sundae.model import AutoregressiveTwin, Model, Sundae, load_model
from sundae.presets import preset

Settings = SamplingConfig | BaselineConfig


@dataclass(frozen=True)
class Run:
    """A model to train: a preset with changes, on a corpus, perhaps from the weights of an earlier run."""

    preset: str
    corpus: str = "ende"
    changes: Sequence[str] = ()
    after: str | None = None
    network: str | None = None
    watched: int = 0
    """Validation sentences that are translated, and measured by BLEU, at every validation."""


BEAMS = [BaselineConfig(beam=5, length_normalisation=n) for n in (0.6, 0.8, 1.0, 1.2, 1.4, 1.6, 1.8, 2.0)]

# What is tried on validation to choose the setting that goes to the test set, and with how many candidates.  All take
# T steps, as the paper's do: a chain that stops when one draw changed nothing takes about four, whatever T is.
STOCHASTIC = [
    SamplingConfig(steps=10, temperature=t, schedule="all", candidates=4, stop_early=False)
    for t in (0.1, 0.3, 0.5)
]
DETERMINISTIC = [
    SamplingConfig(rule="argmax-unrolled", steps=10, schedule="all", uncertain_share=u, candidates=4)
    for u in (0.1, 0.3, 0.5)
]
# Rules that the paper does not translate with, and its largest number of steps: tried where a twin is to be reached.
WIDER = [
    *(
        SamplingConfig(steps=16, temperature=t, schedule="share", share=0.6, candidates=4, stop_early=False)
        for t in (0.2, 0.3, 0.4, 0.5)
    ),
    *(
        SamplingConfig(rule="predictor-corrector", steps=16, temperature=t, schedule="all", candidates=4)
        for t in (0.1, 0.2, 0.3, 0.4)
    ),
]
PLAIN = TranslateSettings(keep_numbers=False)
"""The twins have nobody who looks after their numbers, so nobody does here."""
FULL = 16
"""Candidates of the reported figures, as in the paper."""
DECODER = 1
"""To be counted up when a change to the package changes translations: those that are kept are then made again."""


class Bench(ABC):
    """Where the work is, and which runs there are; a benchmark adds its data."""

    def __init__(self, runs: Mapping[str, Run], *, work: Path, threads: int) -> None:
        self.runs, self.work, self.threads = runs, work, threads

    @abstractmethod
    def lines(self, corpus: str, split: str) -> tuple[list[str], list[str]]:
        """Sources and references of a split."""

    @abstractmethod
    def prepare(self, corpus: str, folder: Path) -> None:
        """Make a corpus."""

    @abstractmethod
    def tokenised(self, corpus: str) -> bool:
        """Whether its text is lower-cased and tokenised."""

    def sundae(self, *arguments: object) -> None:
        """Run a command."""
        subprocess.run([sys.executable, "-m", "sundae", *map(str, arguments)], check=True)

    def corpus(self, name: str) -> Path:
        """The corpus, prepared if need be."""
        folder = self.work / "corpora" / name
        if not folder.exists():
            self.prepare(name, folder)
        return folder

    def distil(self, corpus: str, *, teacher: str, to: Path) -> None:
        """Make a corpus of a teacher's translations."""
        taught_by = ["--teacher", self.trained(teacher), "--out", to, "--threads", self.threads]
        self.sundae("distill", self.corpus(corpus), *taught_by)

    def pair_files(self, corpus: str, split: str) -> list[Path]:
        """A split as two files, for `sundae prepare`."""
        files = [self.work / "texts" / f"{corpus}.{split}.{side}" for side in ("source", "target")]
        for file, lines in zip(files, self.lines(corpus, split), strict=True):
            write_whole(file, "".join(f"{line}\n" for line in lines))
        return files

    def trained(self, name: str) -> Path:
        """The model of a run, trained if need be."""
        run, folder = self.runs[name], self.work / name
        if not (folder / "model").exists():
            start = [] if run.after is None else ["--init", self.trained(run.after)]
            kind = [] if run.network is None else ["--network", run.network]
            common = ["--data", self.corpus(run.corpus), "--out", folder, "--threads", self.threads]
            common += ["--bleu", run.watched, "--samples", 0]
            self.sundae("train", run.preset, *common, *kind, *start, *run.changes)
        return folder / "model"

    def model(self, name: str) -> Model:
        """The model itself."""
        return _loaded(self.trained(name))

    # ---- translating

    def translations(
        self, name: str, split: str, what: Settings, *, oracle: bool = False, judge: str | None = None
    ) -> list[Written]:
        """The translations of a split with some settings, kept in a file; a twin may be the judge of candidates."""
        settings = {key: value for key, value in sorted(vars(what).items()) if value != getattr(type(what)(), key)}
        label = "-".join(f"{key}={value}" for key, value in settings.items()) + ("-oracle" if oracle else "")
        label += "" if judge is None else f"-judge={judge}"
        path = self.work / "translations" / name / f"{split}-{label or 'default'}.json"
        # Other weights, sources or lengths are another translation.
        sources, references = self.lines(self.runs[name].corpus, split)
        made_by = {"weights": _fingerprint(self.trained(name)), "settings": vars(what), "sources": _hash(sources)}
        made_by |= {"lengths": _hash(references)} if oracle else {}
        made_by |= {} if judge is None else {"judge": _fingerprint(self.trained(judge))}
        made_by |= {"decoder": DECODER}
        kept = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        if kept.get("made by") != made_by:
            model = self.model(name)
            if isinstance(model, Sundae):
                assert isinstance(what, SamplingConfig)
                if oracle:
                    lengths = [len(model.tokenizer.encode(reference)) for reference in references]
                    found = model.translate_to_length(sources, lengths, sampling=what, settings=PLAIN)
                else:
                    rate = None if judge is None else self.model(judge).rate  # type: ignore[union-attr]
                    many = model.translate_many(sources, sampling=what, settings=PLAIN, judge=rate)
                    found = [own[0] for own in many]
            else:
                assert isinstance(what, BaselineConfig)
                found = model.translate(sources, baseline=what)
            written = [[each.text, each.score, each.steps, each.network_calls] for each in found]
            kept = {"made by": made_by, "written": written}
            write_whole(path, json.dumps(kept, ensure_ascii=False, indent=0))
        return [Written(*each) for each in kept["written"]]

    def row(self, name: str, split: str, what: Settings, *, oracle: bool = False, **labels: Cell) -> dict[str, Cell]:
        """One line of a table."""
        corpus = self.runs[name].corpus
        written, references = self.translations(name, split, what, oracle=oracle), self.lines(corpus, split)[1]
        texts = [each.text for each in written]
        bleu = bleu_interval(texts, references=references, tokenised=self.tokenised(corpus))
        chrf = corpus_chrf(texts, references)
        words = [sum(len(text.split()) for text in side) for side in (texts, references)]
        return {
            "model": name,
            **labels,
            "split": split,
            "BLEU": bleu.score,
            "chrF": chrf.score,
            "length ratio": words[0] / words[1],
            "repeated tokens": diversity(texts, orders=(1,)).repeated_tokens,
            "calls of the best chain": sum(each.network_calls for each in written) / len(written),
            "signatures": f"{bleu.signature}; {chrf.signature}",
        }

    def best(self, name: str, tried: Sequence[Settings], *, split: str = "val") -> Settings:
        """What does best on validation."""
        scores = {number: self.row(name, split, what)["BLEU"] for number, what in enumerate(tried)}
        return tried[max(scores, key=lambda number: scores[number].value)]  # type: ignore[union-attr]

    def chosen(self, name: str, *, widely: bool = False) -> Settings:
        """The setting that goes to the test set: the paper's T = 10, or `widely` the best one with T of at most 16."""
        tried = tried_on(self.model(name))
        best = self.best(name, [*tried, *WIDER] if widely else tried)
        return replace(best, candidates=FULL) if isinstance(best, SamplingConfig) else best

    def is_twin(self, name: str) -> bool:
        """Whether a run trains an autoregressive network."""
        return (self.runs[name].network or preset(self.runs[name].preset).network.kind) == "autoregressive"

    # ---- tables

    def headline(self, names: Sequence[str], tests: Sequence[str], *, widely: Set[str]) -> list[Table]:
        """Every run with the setting that did best on validation, on validation and on the test sets.

        Those of `widely` have a second setting, of a wider choice.
        """
        rows: list[dict[str, Cell]] = []
        lengths: list[dict[str, Cell]] = []
        for name in names:
            settings = [self.chosen(name)] + ([self.chosen(name, widely=True)] if name in widely else [])
            for best, split in itertools.product(dict.fromkeys(settings), ("val", *tests)):
                rows.append(self.row(name, split, best, setting=shown(best)))
                print(rows[-1], flush=True)
            model = self.model(name)
            if isinstance(model, AutoregressiveTwin):
                greedy = BaselineConfig(beam=1)
                rows += [self.row(name, split, greedy, setting="greedy") for split in ("val", *tests)]
            if isinstance(model, Sundae) and model.config.network.length_prediction:
                lengths.append({"model": name, **length_accuracy(model, *self.lines(self.runs[name].corpus, "val"))})
        return [Table("Models", rows), Table("Length prediction on validation", lengths)]

    def claims(self, pairs: Sequence[tuple[str, str]], names: Sequence[str], test: str) -> Table:
        """Differences between runs with 95% paired-bootstrap intervals, on a test set."""
        rows: list[dict[str, Cell]] = []
        for first, second in pairs:
            if first not in names or second not in names:
                continue
            corpus = self.runs[first].corpus
            widely = self.is_twin(second)
            own, others = self.chosen(first, widely=widely), self.chosen(second)
            theirs = [each.text for each in self.translations(second, test, others)]
            references = self.lines(corpus, test)[1]
            # Against a twin also with the twin as the judge of SUNDAE's candidates, one more call for each.
            for judge in (None, second) if widely else (None,):
                ours = [each.text for each in self.translations(first, test, own, judge=judge)]
                found = compare_bleu(ours, theirs, references=references, tokenised=self.tokenised(corpus)).scores
                rows.append(
                    {
                        "first": first,
                        "second": second,
                        "settings": f"{shown(own)}; {shown(others)}",
                        "candidates ranked by": judge or "the model itself",
                        "BLEU": found.first,
                        "BLEU of the second": found.second,
                        "difference": found.difference,
                        "first / second": found.first.value / found.second.value,
                    }
                )
        return Table("Claims", rows, f"{test}; intervals of paired bootstrap over sentences")


@cache
def _fingerprint(folder: Path) -> str:
    return hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()


def _hash(lines: Sequence[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


@cache
def _loaded(folder: Path) -> Model:
    return load_model(folder)


def shown(what: Settings) -> str:
    """Settings in a few words."""
    if isinstance(what, BaselineConfig):
        if what.beam == 1:
            return "greedy"
        return f"beam {what.beam}, length normalisation {what.length_normalisation:g}"
    cost = f"T={what.steps}, n={what.candidates}"
    if what.rule == "argmax-unrolled":
        return f"argmax-unrolled, share {what.uncertain_share:g}, {cost}"
    if what.rule != "low-temperature":
        return f"{what.rule}, temperature {what.temperature:g}, {cost}"
    share = f", {what.share:.0%} a step" if what.schedule == "share" else ""
    return f"temperature {what.temperature:g}{share}, {cost}"


def tried_on(model: Model) -> list[Settings]:
    """What is tried on validation."""
    if isinstance(model, AutoregressiveTwin):
        return list(BEAMS)
    if isinstance(model, Sundae):
        return [*STOCHASTIC, *DETERMINISTIC]
    return [BaselineConfig(mask_predict_steps=10, length_candidates=n) for n in (1, 3, 5)]


def run(
    make: Callable[[argparse.Namespace], Bench],
    *,
    title: str,
    about: str | None,
    tests: Sequence[str],
    claims: Sequence[tuple[str, str]],
    more: Callable[[Bench, Sequence[str]], list[Table]] = lambda _bench, _names: [],
    runs: Mapping[str, Run],
) -> None:
    """What both benchmarks do: train what is asked for, then report on it; `more` adds tables."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--only", nargs="+", choices=runs, default=list(runs))
    parser.add_argument("--train", action="store_true", help="train only")
    parser.add_argument("--report", action="store_true", help="train nothing: report on the runs that are finished")
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    keep_memory()
    torch.set_num_threads(arguments.threads)
    bench = make(arguments)
    names = [name for name in arguments.only if not arguments.report or (bench.work / name / "model").exists()]
    for name in names:
        bench.trained(name)
    if arguments.train:
        return
    widely = {first for first, second in claims if bench.is_twin(second)}
    tables = [*bench.headline(names, tests, widely=widely), *more(bench, names)]
    tables += [bench.claims(claims, names, test) for test in tests]
    tables = [table for table in tables if table.rows]  # of the runs that were asked for, some have nothing to say
    config = {name: bench.model(name).config.to_dict() for name in names}
    report = make_report(title, tables=tables, seed=0, config=config, threads=arguments.threads)
    report.write(bench.work / "reports", name=title.lower() if names == list(runs) else "-".join(names))
    print(report.markdown())
