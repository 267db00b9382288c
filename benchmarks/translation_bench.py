"""What the benchmarks of translation share: translations that are kept, rows of figures, claims about two runs.

What a run was measured to be goes to `benchmarks/outputs/`: its report, and its translations of the test sets as they
were scored.  Claims about two runs are made from those, so they can be made again without training anything.
"""

import argparse
import hashlib
import json
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

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
from sundae.model import AutoregressiveTwin, Model, Sundae
from translation_runs import Runs

Settings = SamplingConfig | BaselineConfig
OUTPUTS = Path(__file__).parent / "outputs"
# The ways in which a run is measured: with the paper's rules, with all rules, with a twin as judge; a twin greedily.
OWN, WIDE, JUDGED, GREEDY = "own", "wide", "judged", "greedy"
WHILE_TRAINING = "While training"
HALF_OF_VALIDATION = "val, every second sentence"


BEAMS = [BaselineConfig(beam=5, length_normalisation=n) for n in (0.6, 0.8, 1.0, 1.2, 1.4, 1.6, 1.8, 2.0)]

# What is tried on validation to choose the setting that goes to the test set, and with how many candidates.  All take
# T steps, as the paper's do: a chain that stops when one draw changed nothing takes about four, whatever T is.
STOCHASTIC = [
    SamplingConfig(steps=10, temperature=t, schedule="all", candidates=4, stop_early=False) for t in (0.3, 0.5, 0.6)
]
DETERMINISTIC = [
    SamplingConfig(rule="argmax-unrolled", steps=10, schedule="all", uncertain_share=u, candidates=4)
    for u in (0.1, 0.3, 0.5)
]
# A rule that the paper does not have, with its largest number of steps: tried where a twin is to be reached.  Others
# were always behind it, and so was noise in random places (docs/log.md).
CORRECTING = [
    SamplingConfig(rule="predictor-corrector", steps=16, temperature=t, schedule="all", candidates=4, renoise_doubt=3.0)
    for t in (0.3, 0.5)
]


def on_two_lengths(what: SamplingConfig) -> SamplingConfig:
    """As many chains on two canvases: on close ones the likeliest length is often too short or too long."""
    return replace(what, length_candidates=2, candidates=what.candidates // 2)


DIVIDED = [*STOCHASTIC[1:], *CORRECTING]
"""Settings that are tried with two lengths, too."""
COUNTED = [replace(CORRECTING[-1], length_normalisation=n) for n in (0.5, 1.0)]
"""A chain that finds its own length is the likelier the shorter it ends."""
WIDER = [*CORRECTING, *map(on_two_lengths, DIVIDED)]
SHIPPING = STOCHASTIC[-1]
"""How the models that ship translate, on one length or on two: all else was chosen before they were rounded."""
PLAIN = TranslateSettings(keep_numbers=False)
"""The twins have nobody who looks after their numbers, so nobody does here."""
FULL = 16
"""Candidates of the reported figures, over all lengths, as in the paper."""
DECODER = 1
"""To be counted up when a change to the package changes translations: those that are kept are then made again."""


class Bench(Runs):
    """Which figures there are; a benchmark adds its data."""

    title: str
    tests: Sequence[str]
    probes: Sequence[str] = ()
    """Test sets far from the training text, which are translated in one way only, with few candidates."""
    claimed: Sequence[tuple[str, str]]
    """Pairs of runs that are compared."""
    drawn: Mapping[str, str]
    """Runs whose validation BLEU during training is drawn, and what they are called there."""

    @abstractmethod
    def tokenised(self, corpus: str) -> bool:
        """Whether its text is lower-cased and tokenised."""

    # ---- translating

    def split(self, corpus: str, name: str) -> tuple[list[str], list[str]]:
        """Sources and references of a split, or of every second pair of validation."""
        sources, references = self.lines(corpus, "val" if name == HALF_OF_VALIDATION else name)
        return (sources[::2], references[::2]) if name == HALF_OF_VALIDATION else (sources, references)

    def translations(
        self, name: str, split: str, what: Settings, *, oracle: bool = False, judge: str | None = None
    ) -> list[Written]:
        """The translations of a split with some settings, kept in a file; a twin may choose among the candidates."""
        settings = _changed(what)
        label = "-".join(f"{key}={value}" for key, value in settings.items()) + ("-oracle" if oracle else "")
        path = self.work / "translations" / name / f"{split}-{label or 'default'}.json"
        # Other weights, sources or lengths are another translation.
        sources, references = self.split(self.runs[name].corpus, split)
        made_by = {"weights": _fingerprint(self.trained(name)), "settings": settings, "sources": _hash(sources)}
        made_by |= {"lengths": _hash(references)} if oracle else {}
        made_by |= {"decoder": DECODER}
        lengths = references if oracle else None
        many = _kept(path, made_by, lambda: self._translate(self.model(name), sources, what, lengths))
        if judge is not None:
            made_by |= {"judge": _fingerprint(self.trained(judge))}
            path = path.with_name(f"{path.stem}-judge={judge}.json")
            many = _kept(path, made_by, lambda: self._choose(self.model(judge), sources, many))
        return [own[0] for own in many]

    def _translate(
        self, model: Model, sources: list[str], what: Settings, like: list[str] | None
    ) -> list[list[Written]]:
        """All candidates for each source, best first; if there are texts to be `like`, of their lengths."""
        if not isinstance(model, Sundae):
            assert isinstance(what, BaselineConfig)
            return [[each] for each in model.translate(sources, baseline=what)]
        assert isinstance(what, SamplingConfig)
        if like is not None:
            lengths = [len(model.tokenizer.encode(text)) for text in like]
            return [[each] for each in model.translate_to_length(sources, lengths, sampling=what, settings=PLAIN)]
        every = what.candidates * what.length_candidates
        return model.translate_many(sources, sampling=what, settings=replace(PLAIN, count=every))

    def _choose(self, judge: Model, sources: list[str], many: list[list[Written]]) -> list[list[Written]]:
        """Of each source's candidates the one that another model finds likeliest."""
        assert isinstance(judge, AutoregressiveTwin)
        owned = [(source, each) for source, own in zip(sources, many, strict=True) for each in own]
        rated = iter(judge.rate([source for source, _ in owned], [each.text for _, each in owned]))
        return [[max(own, key=lambda _: next(rated))] for own in many]

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
        references = self.split(corpus, split)[1]
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

    def tried(self, name: str) -> list[Settings]:
        """What is tried on validation."""
        model = self.model(name)
        if isinstance(model, AutoregressiveTwin):
            return list(BEAMS)
        if self.runs[name].ships:
            return [SHIPPING, on_two_lengths(SHIPPING)]
        if isinstance(model, Sundae):
            return [*STOCHASTIC, *DETERMINISTIC]
        return [BaselineConfig(mask_predict_steps=10, length_candidates=n) for n in (1, 3, 5)]

    def wider(self, name: str) -> list[SamplingConfig]:
        """What else is tried where a twin is to be reached; if no length is predicted, how much a length counts."""
        network = self.model(name).config.network
        return WIDER if network.length_prediction else [*CORRECTING, *COUNTED]

    def chosen(self, name: str, *, widely: bool = False) -> Settings:
        """The setting that goes to the test set: the paper's T = 10, or `widely` the best one with T of at most 16."""
        best = self.best(name, [*self.tried(name), *(self.wider(name) if widely else [])])
        return with_candidates(best, FULL)

    def _best_way(self, name: str, against: str | None) -> str:
        """How a run is set against another: against its twin with all that may help."""
        return WIDE if self.runs[name].wide and against is not None and self.is_twin(against) else OWN

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
        place, judge = self.outputs / name, self.judge_of(name)
        stored = read_report(place / "report.json") if (place / "report.json").exists() else None
        if not self.has(name):
            assert stored is not None, f"{name} is neither trained nor measured"
            return stored
        made_by = self._made_by(name, judge if judge is not None and self.has(judge) else None)
        # A twin that is gone has been the judge while it was there.
        known = {} if stored is None else {key: stored.config["made by"].get(key) for key in made_by}
        if stored is not None and known == made_by:
            return stored
        rows, texts = self._rows(name, judge if "judge" in made_by else None)
        config = {"made by": made_by, **self.model(name).config.to_dict()}
        tables = [Table("Models", rows), *self.more(name)]
        report = make_report(f"{self.title}: {name}", tables=tables, seed=0, config=config, threads=self.threads)
        for (split, way), lines in texts.items():
            write_whole(self._file(name, split, way), "".join(f"{line}\n" for line in lines))
        report.write(place, name="report")
        return report

    def _made_by(self, name: str, judge: str | None) -> dict[str, str | int]:
        """What else must be equal for a run's figures to be the same."""
        pairs = [self.lines(self.runs[name].corpus, split) for split in ("val", *self.tests, *self.probes)]
        tried = [_changed(each) for each in (*self.tried(name), *self.wider(name))]
        found = {"weights": _fingerprint(self.trained(name)), "decoder": DECODER, "tried": _hash([str(tried)])}
        found["data"] = _hash([line for pair in pairs for side in pair for line in side])
        return found if judge is None else found | {"judge": _fingerprint(self.trained(judge))}

    def _rows(self, name: str, judge: str | None) -> tuple[list[dict[str, Cell]], dict[tuple[str, str], list[str]]]:
        """Figures, and the translations of the test sets that they are of."""
        ways: dict[str, tuple[Settings, str | None]] = {OWN: (self.chosen(name), None)}
        if self.is_twin(name):
            ways[GREEDY] = (BaselineConfig(beam=1), None)
        if self._best_way(name, self.judge_of(name)) == WIDE:
            ways[WIDE] = (self.chosen(name, widely=True), None)
        if judge is not None:
            ways[JUDGED] = (ways[self._best_way(name, judge)][0], judge)
        tried = [*self.tried(name), *(self.wider(name) if WIDE in ways else [])]
        rows = [self.row(name, "val", each, way="tried", setting=self.shown(name, each)) for each in tried]
        texts: dict[tuple[str, str], list[str]] = {}
        for way, (setting, by) in ways.items():
            label = self.shown(name, setting) + ("" if by is None else f", ranked by {by}")
            for test in self.tests:
                rows.append(self.row(name, test, setting, judge=by, way=way, setting=label))
                print(rows[-1], flush=True)
                written = self.translations(name, test, setting, judge=by)
                texts[test, way] = [" ".join(each.text.split()) for each in written]
        cheap = with_candidates(ways[OWN][0], 4)
        rows += [self.row(name, split, cheap, way="probe", setting=self.shown(name, cheap)) for split in self.probes]
        return rows, texts

    def shown(self, name: str, what: Settings) -> str:
        """Settings in a few words."""
        if isinstance(what, BaselineConfig):
            if not self.is_twin(name):
                return f"mask-predict, T={what.mask_predict_steps}, {what.length_candidates} lengths"
            beam = f"beam {what.beam}, length normalisation {what.length_normalisation:g}"
            return "greedy" if what.beam == 1 else beam
        lengths = f"{what.length_candidates} lengths, " if what.length_candidates > 1 else ""
        cost = f"{lengths}T={what.steps}, n={what.candidates * what.length_candidates}"
        if what.length_normalisation >= 0:
            cost += f", length normalisation {what.length_normalisation:g}"
        if what.rule == "argmax-unrolled":
            return f"argmax-unrolled, share {what.uncertain_share:g}, {cost}"
        if what.rule != "low-temperature":
            doubt = f", doubt {what.renoise_doubt:g}" if what.renoise_doubt else ""
            return f"{what.rule}, temperature {what.temperature:g}{doubt}, {cost}"
        share = f", {what.share:.0%} a step" if what.schedule == "share" else ""
        return f"temperature {what.temperature:g}{share}, {cost}"

    def _file(self, name: str, split: str, way: str) -> Path:
        return self.outputs / name / f"{split}.{way}.txt"

    def more(self, name: str) -> list[Table]:
        """What a run's report has besides: its lengths, and validation BLEU while it was trained."""
        model, tables = self.model(name), list[Table]()
        if isinstance(model, Sundae) and model.config.network.length_prediction:
            found = length_accuracy(model, *self.lines(self.runs[name].corpus, "val"))
            tables.append(Table("Length prediction on validation", [{"model": name, **found}]))
            wide = self._best_way(name, self.judge_of(name)) == WIDE
            divided = [SHIPPING] if self.runs[name].ships else DIVIDED if wide else []
            rows = [self.against(name, on_two_lengths(each), each) for each in divided]
            tables += [Table("Two lengths instead of one", rows)] if rows else []
        log = self.work / name / "metrics.jsonl"
        lines = log.read_text(encoding="utf-8").splitlines() if log.exists() else []
        # A run that was resumed may have logged a step twice.
        by_step = {each["step"]: each["bleu"] for each in map(json.loads, lines) if each["kind"] == "bleu"}
        if by_step:
            rows = [{"model": name, "updates": step, "BLEU": bleu} for step, bleu in by_step.items()]
            note = f"{self.runs[name].watched} validation sentences, n = 4, 13a tokenisation"
            tables.append(Table(WHILE_TRAINING, rows, note))
        return tables

    def against(
        self, name: str, first: Settings, second: Settings, *, oracle: bool = False, **labels: Cell
    ) -> dict[str, Cell]:
        """One way to decode against another, paired on validation; an oracle tells the first its lengths."""
        known = (oracle, False)
        ours, theirs = (
            [each.text for each in self.translations(name, "val", what, oracle=told)]
            for what, told in zip((first, second), known, strict=True)
        )
        corpus = self.runs[name].corpus
        references = self.split(corpus, "val")[1]
        found = compare_bleu(ours, theirs, references=references, tokenised=self.tokenised(corpus)).scores
        return {
            "model": name,
            **labels,
            "first": self.shown(name, first) + (", lengths known" if oracle else ""),
            "second": self.shown(name, second),
            "split": "val",
            "BLEU": found.first,
            "BLEU of the second": found.second,
            "difference": found.difference,
        }

    # ---- claims

    def claims(self, reports: Mapping[str, Report], test: str) -> Table:
        """Differences between runs with 95% paired-bootstrap intervals, on a test set."""
        rows: list[dict[str, Cell]] = []
        for first, second in self.claimed:
            if first not in reports or second not in reports:
                continue
            made_by = [reports[name].config["made by"] for name in (first, second)]
            if made_by[0]["data"] != made_by[1]["data"]:
                raise SystemExit(f"{first} and {second} were measured on other data; run them again")
            corpus = self.runs[first].corpus
            ways = [(self._best_way(first, second), OWN)]
            ways += [(JUDGED, OWN)] if made_by[0].get("judge") == made_by[1]["weights"] else []
            ways += [(WIDE, WIDE)] if all(self._file(name, test, WIDE).exists() for name in (first, second)) else []
            for way, other in ways:
                ours, theirs = self._texts(first, test, way), self._texts(second, test, other)
                references = self.lines(corpus, test)[1]
                found = compare_bleu(ours, theirs, references=references, tokenised=self.tokenised(corpus)).scores
                labels = [_setting(reports[first], way), _setting(reports[second], other)]
                rows.append(
                    {
                        "first": first,
                        "second": second,
                        "settings": "; ".join(labels),
                        "BLEU": found.first,
                        "BLEU of the second": found.second,
                        "difference": found.difference,
                        "first / second": found.first.value / max(found.second.value, 1e-9),
                    }
                )
        note = (
            f"{test}; intervals of paired bootstrap over sentences.  Settings were chosen with the model's own ranking."
        )
        return Table("Claims", rows, note)

    def draw(self, table: Table) -> None:
        """Validation BLEU during training: the curves of the paper's appendix on length prediction."""
        series: list[Series] = []
        for name, called in self.drawn.items():
            own = [row for row in table.rows if row["model"] == name]
            updates, scores = ([float(str(row[key])) for row in own] for key in ("updates", "BLEU"))
            series += [Series(called, updates, scores)] if own else []
        place = self.work / "reports" / "while-training"
        title = f"{self.title}: validation BLEU during training"
        if series:
            plot(series, to=place, title=title, x_label="updates", y_label="BLEU, n = 4")

    def _texts(self, name: str, split: str, way: str) -> list[str]:
        return self._file(name, split, way).read_text(encoding="utf-8").split("\n")[:-1]


def _setting(report: Report, way: str) -> str:
    return next(str(row["setting"]) for row in report.tables[0].rows if row["way"] == way)


@cache
def _fingerprint(folder: Path) -> str:
    return hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()


def _kept(path: Path, made_by: dict[str, Any], make: Callable[[], list[list[Written]]]) -> list[list[Written]]:
    """Candidates from a file, made anew if it is not there or was made by other means."""
    kept = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    if kept.get("made by") != made_by:
        written = [[[each.text, each.score, each.steps, each.network_calls] for each in own] for own in make()]
        kept = {"made by": made_by, "written": written}
        write_whole(path, json.dumps(kept, ensure_ascii=False, indent=0))
    return [[Written(*each) for each in own] for own in kept["written"]]


def _changed(what: Settings) -> dict[str, Any]:
    """The settings that are not the defaults: a new key changes nothing that was measured before."""
    return {key: value for key, value in sorted(vars(what).items()) if value != getattr(type(what)(), key)}


def with_candidates(what: Settings, count: int) -> Settings:
    """With as many chains in all, if it has chains."""
    return replace(what, candidates=count // what.length_candidates) if isinstance(what, SamplingConfig) else what


def _hash(lines: Sequence[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def run(bench_of: type[Bench], *, about: str | None) -> None:
    """What both benchmarks do: train and measure what is asked for, then report on all that was ever measured."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--only", nargs="+", choices=bench_of.runs, default=list(bench_of.runs))
    parser.add_argument("--train", action="store_true", help="train only")
    parser.add_argument("--report", action="store_true", help="train nothing: report on the runs that are finished")
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    keep_memory()
    torch.set_num_threads(arguments.threads)
    bench = bench_of(arguments.data, work=arguments.work, threads=arguments.threads)
    for name in arguments.only:
        if not arguments.report:
            bench.trained(name)
        if not arguments.train and bench.has(name):
            bench.measured(name)
    if not arguments.train:
        publish(bench)


def publish(bench: Bench) -> None:
    """The report on all runs whose figures are kept."""
    kept = [name for name in bench.runs if (bench.outputs / name / "report.json").exists()]
    reports = {name: read_report(bench.outputs / name / "report.json") for name in kept}
    if not reports:
        raise SystemExit(f"nothing is measured yet: {bench.outputs} is empty")
    tables: dict[str, Table] = {}
    for table in (table for report in reports.values() for table in report.tables):
        before = tables.get(table.title, replace(table, rows=[]))
        tables[table.title] = replace(table, rows=[*before.rows, *table.rows])
    claims = [bench.claims(reports, test) for test in bench.tests]
    every = [*tables.values(), *(table for table in claims if table.rows)]
    config = {name: report.config for name, report in reports.items()}
    report = make_report(bench.title, tables=every, seed=0, config=config, threads=bench.threads)
    report.write(bench.work / "reports", name=bench.title.lower())
    if WHILE_TRAINING in tables:
        bench.draw(tables[WHILE_TRAINING])
    print(report.markdown())
