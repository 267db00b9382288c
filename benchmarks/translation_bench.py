"""What the benchmarks of translation share: runs that are trained once, translations that are kept, rows of figures.

What a run was measured to be goes to `benchmarks/outputs/`: its report, and its translations of the test sets as they
were scored.  Claims about two runs are made from those, so they can be made again without training anything.
"""

import argparse
import hashlib
import json
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
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
from sundae.measure.plots import Series, plot
from sundae.measure.report import Cell, Report, Table, make_report, read_report
from sundae.model import AutoregressiveTwin, Model, Sundae, load_model
from sundae.presets import preset

Settings = SamplingConfig | BaselineConfig
OUTPUTS = Path(__file__).parent / "outputs"
# The ways in which a run is measured: with the paper's rules, with all rules, with a twin as judge; a twin greedily.
OWN, WIDE, JUDGED, GREEDY = "own", "wide", "judged", "greedy"
WHILE_TRAINING = "While training"


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
    SamplingConfig(steps=10, temperature=t, schedule="all", candidates=4, stop_early=False) for t in (0.1, 0.3, 0.5)
]
DETERMINISTIC = [
    SamplingConfig(rule="argmax-unrolled", steps=10, schedule="all", uncertain_share=u, candidates=4)
    for u in (0.1, 0.3, 0.5)
]
# Rules that the paper does not translate with, and its largest number of steps: tried where a twin is to be reached.
WIDER = [
    *(
        SamplingConfig(steps=16, temperature=t, schedule="share", share=0.6, candidates=4, stop_early=False)
        for t in (0.3, 0.5)
    ),
    *(
        SamplingConfig(rule="predictor-corrector", steps=16, temperature=t, schedule="all", candidates=4)
        for t in (0.2, 0.3, 0.4)
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

    title: str
    runs: Mapping[str, Run]
    tests: Sequence[str]
    probes: Sequence[str] = ()
    """Test sets far from the training text, which are translated in one way only, with few candidates."""
    claimed: Sequence[tuple[str, str]]
    """Pairs of runs that are compared."""

    def __init__(self, *, work: Path, threads: int) -> None:
        self.work, self.threads = work, threads

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

    def row(
        self,
        name: str,
        split: str,
        what: Settings,
        *,
        oracle: bool = False,
        judge: str | None = None,
        **labels: Cell,
    ) -> dict[str, Cell]:
        """One line of a table."""
        corpus = self.runs[name].corpus
        written = self.translations(name, split, what, oracle=oracle, judge=judge)
        references = self.lines(corpus, split)[1]
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

    def judge_of(self, name: str) -> str | None:
        """The twin that a run is set against."""
        return next((second for first, second in self.claimed if first == name and self.is_twin(second)), None)

    # ---- measuring

    @property
    def outputs(self) -> Path:
        """Where reports and translations of the test sets are kept, a folder for each run."""
        return OUTPUTS / self.title.lower()

    def measured(self, name: str) -> Report:
        """A run on validation and on the test sets, measured if that is not done yet."""
        stored, judge = self.outputs / name / "report.json", self.judge_of(name)
        if not self.has(name):
            return read_report(stored)
        made_by = {"weights": _fingerprint(self.trained(name))}
        if judge is not None and self.has(judge):
            made_by["judge"] = _fingerprint(self.trained(judge))
        if stored.exists() and read_report(stored).config["made by"] == made_by:
            return read_report(stored)
        tables = [Table("Models", self._rows(name, judge if "judge" in made_by else None)), *self.more(name)]
        config = {"made by": made_by, **self.model(name).config.to_dict()}
        report = make_report(f"{self.title}: {name}", tables=tables, seed=0, config=config, threads=self.threads)
        report.write(stored.parent, name="report")
        return report

    def has(self, name: str) -> bool:
        """Whether a run is finished and still there."""
        return (self.work / name / "model").exists()

    def _rows(self, name: str, judge: str | None) -> list[dict[str, Cell]]:
        ways: dict[str, tuple[Settings, str | None]] = {OWN: (self.chosen(name), None)}
        if self.is_twin(name):
            ways[GREEDY] = (BaselineConfig(beam=1), None)
        if self.judge_of(name) is not None:
            ways[WIDE] = (self.chosen(name, widely=True), None)
        if judge is not None:
            ways[JUDGED] = (self.chosen(name, widely=True), judge)
        rows: list[dict[str, Cell]] = []
        for way, (setting, by) in ways.items():
            label = shown(setting) + ("" if by is None else f", ranked by {by}")
            for split in ("val", *self.tests):
                rows.append(self.row(name, split, setting, judge=by, way=way, setting=label))
                print(rows[-1], flush=True)
                if split != "val":
                    texts = [" ".join(each.text.split()) for each in self.translations(name, split, setting, judge=by)]
                    write_whole(self._file(name, split, way), "".join(f"{text}\n" for text in texts))
        for split in self.probes:
            cheap = replace(ways[OWN][0], candidates=4) if isinstance(ways[OWN][0], SamplingConfig) else ways[OWN][0]
            rows.append(self.row(name, split, cheap, way="probe", setting=shown(cheap)))
        return rows

    def _file(self, name: str, split: str, way: str) -> Path:
        return self.outputs / name / f"{split}.{way}.txt"

    def more(self, name: str) -> list[Table]:
        """What a run's report has besides: its lengths, and validation BLEU while it was trained."""
        model, tables = self.model(name), list[Table]()
        if isinstance(model, Sundae) and model.config.network.length_prediction:
            found = length_accuracy(model, *self.lines(self.runs[name].corpus, "val"))
            tables.append(Table("Length prediction on validation", [{"model": name, **found}]))
        lines = (self.work / name / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
        # A run that was resumed may have logged a step twice.
        by_step = {each["step"]: each["bleu"] for each in map(json.loads, lines) if each["kind"] == "bleu"}
        if by_step:
            rows = [{"model": name, "updates": step, "BLEU": bleu} for step, bleu in by_step.items()]
            note = f"{self.runs[name].watched} validation sentences, n = 4, 13a tokenisation"
            tables.append(Table(WHILE_TRAINING, rows, note))
        return tables

    # ---- claims

    def claims(self, names: Sequence[str], test: str) -> Table:
        """Differences between runs with 95% paired-bootstrap intervals, on a test set."""
        rows: list[dict[str, Cell]] = []
        for first, second in self.claimed:
            if first not in names or second not in names:
                continue
            corpus, twin = self.runs[first].corpus, self.is_twin(second)
            theirs = self._texts(second, test, OWN)
            # Against a twin with all that may help, and with the twin as the judge of SUNDAE's candidates.
            for way in (WIDE, JUDGED) if twin else (OWN,):
                if not self._file(first, test, way).exists():
                    continue
                ours, references = self._texts(first, test, way), self.lines(corpus, test)[1]
                found = compare_bleu(ours, theirs, references=references, tokenised=self.tokenised(corpus)).scores
                rows.append(
                    {
                        "first": first,
                        "second": second,
                        "settings": f"{self._setting(first, way)}; {self._setting(second, OWN)}",
                        "BLEU": found.first,
                        "BLEU of the second": found.second,
                        "difference": found.difference,
                        "first / second": found.first.value / found.second.value,
                    }
                )
        return Table("Claims", rows, f"{test}; intervals of paired bootstrap over sentences")

    def draw(self, table: Table) -> None:
        """Validation BLEU during training: the curves of the paper's appendix on length prediction."""
        series: list[Series] = []
        for name in dict.fromkeys(row["model"] for row in table.rows):
            own = [row for row in table.rows if row["model"] == name]
            updates, scores = ([float(str(row[key])) for row in own] for key in ("updates", "BLEU"))
            series.append(Series(str(name), updates, scores))
        place = self.work / "reports" / "while-training"
        title = f"{self.title}: validation BLEU during training"
        plot(series, to=place, title=title, x_label="updates", y_label="BLEU, n = 4")

    def _texts(self, name: str, split: str, way: str) -> list[str]:
        return self._file(name, split, way).read_text(encoding="utf-8").split("\n")[:-1]

    def _setting(self, name: str, way: str) -> Cell:
        return next(row["setting"] for row in self.measured(name).tables[0].rows if row["way"] == way)


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


def run(make: Callable[[Path, Path, int], Bench], *, runs: Mapping[str, Run], about: str | None) -> None:
    """What both benchmarks do: train and measure what is asked for, then report on all of it."""
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
    bench = make(arguments.data, arguments.work, arguments.threads)
    names = arguments.only
    if arguments.report:
        names = [name for name in names if bench.has(name) or (bench.outputs / name / "report.json").exists()]
    else:
        for name in names:
            bench.trained(name)
    if arguments.train:
        return
    reports = {name: bench.measured(name) for name in names}
    tables: dict[str, Table] = {}
    for table in (table for report in reports.values() for table in report.tables):
        before = tables.get(table.title, replace(table, rows=[]))
        tables[table.title] = replace(table, rows=[*before.rows, *table.rows])
    claims = [bench.claims(names, test) for test in bench.tests]
    config = {name: report.config for name, report in reports.items()}
    every = [*tables.values(), *(table for table in claims if table.rows)]
    report = make_report(bench.title, tables=every, seed=0, config=config, threads=arguments.threads)
    report.write(bench.work / "reports", name=bench.title.lower())
    if WHILE_TRAINING in tables:
        bench.draw(tables[WHILE_TRAINING])
    print(report.markdown())
