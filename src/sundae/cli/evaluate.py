"""`sundae evaluate translation|steps|samples|blanks`."""

import itertools
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from tyro.conf import Positional, arg, subcommand

from sundae.cli.writing import (
    load_judge,
    read_file,
    require_folder,
    require_others,
    require_writable,
    say,
    split_lines,
    use_threads,
    write_file,
)
from sundae.config import RunConfig, parse_overrides
from sundae.errors import DataError, UsageError

if TYPE_CHECKING:
    from sundae.decoding.translation import TranslateSettings
    from sundae.decoding.written import Written
    from sundae.measure.report import Table
    from sundae.model import Model


def read_texts(path: Path) -> list[str]:
    """One text a line."""
    return split_lines(read_file(path))


def read_pairs(source: Path, reference: Path) -> tuple[list[str], list[str]]:
    """Lines that belong together."""
    sources, references = read_texts(source), read_texts(reference)
    if len(sources) != len(references):
        raise DataError(f"{len(sources)} sources and {len(references)} references", why="there must be as many")
    if not any(map(str.strip, sources)):
        raise DataError(f"{source} has only blank lines" if sources else f"{source} is empty")
    return sources, references


@dataclass(frozen=True, kw_only=True)
class _Reporting:
    out: Annotated[Path | None, arg(metavar="DIR")] = None
    """Write report.json and report.md there too."""
    json: bool = False
    """Print the report as JSON instead of Markdown."""
    seed: Annotated[int, arg(metavar="SEED")] = 0
    """The same seed gives the same figures."""
    threads: Annotated[int, arg(metavar="N")] = 0
    """CPU threads; 0 is OMP_NUM_THREADS, or as many as there are cores."""

    def prepare(self) -> None:
        """Set the threads, and refuse early what could not be written late."""
        from sundae.machine import keep_memory

        keep_memory()
        use_threads(self.threads)
        if self.out is not None and (self.out / "report.json").exists():
            raise UsageError(f"{self.out} holds a report", why="it is never overwritten", hint="another --out")
        if self.out is not None and self.out.exists() and not self.out.is_dir():
            raise UsageError(f"--out {self.out}", why="it is a file; a folder is wanted")
        if self.out is not None:
            require_writable(self.out)

    def publish(self, title: str, *, tables: "Sequence[Table]", config: Mapping[str, Any]) -> None:
        """Print the report, and write it if it has a place."""
        from sundae.measure.report import make_report

        report = make_report(title, tables=tables, seed=self.seed, config=config)
        if self.out is not None:
            report.write(self.out, name="report")
        sys.stdout.write(report.to_json() if self.json else report.markdown())


def _told(what: str) -> Callable[[int, int], None] | None:
    if not sys.stderr.isatty():
        return None
    return lambda done, of: print(f"\r{what} {done}/{of}", end="\n" if done == of else "", file=sys.stderr)  # noqa: T201


def _configured(model: "Model", overrides: Sequence[str]) -> RunConfig:
    parsed = parse_overrides(overrides)
    other = sorted(set(parsed) - {"sampling", "baseline"})
    if other:
        raise UsageError(
            f"{other[0]}.*", why="a trained model's other settings are fixed", hint="sampling.* or baseline.*"
        )
    return model.config.updated(parsed)


@dataclass(frozen=True, kw_only=True)
class Translation(_Reporting):
    """Translate a test set and score it: BLEU with signature and interval, chrF, lengths, repetition, network calls."""

    model: Annotated[str, arg(metavar="NAME|DIR|HUB-ID")]
    """The model: SUNDAE, an autoregressive twin or a CMLM."""
    source: Annotated[Path, arg(metavar="FILE")]
    """One source a line."""
    reference: Annotated[Path, arg(metavar="FILE")]
    """One reference a line."""
    overrides: Annotated[Positional[tuple[str, ...]], arg(metavar="[SECTION.KEY=VALUE ...]")] = ()
    """Other settings than the model's own, such as baseline.beam=1; sampling.steps=4,8 tries both."""
    tokenised: bool = False
    """The text is lower-cased and tokenised already: BLEU without further tokenisation."""
    hypotheses: Annotated[Path | None, arg(metavar="FILE")] = None
    """Write the translations there, one a line."""
    rank: Literal["score", "per-token", "mbr"] | None = None
    """How SUNDAE's candidates are ranked: by score, if only one length is tried, else per token."""
    judge: Annotated[str | None, arg(metavar="DIR|HUB-ID")] = None
    """An autoregressive translator that ranks SUNDAE's candidates instead."""
    free_numbers: bool = False
    """Do not insist on a line's numbers."""

    def run(self) -> None:
        """Translate, score, report."""
        from sundae.measure.bleu import corpus_bleu
        from sundae.measure.evaluation import length_accuracy, sweep_table, translation_table
        from sundae.model import Sundae, load_model

        sources, references = read_pairs(self.source, self.reference)
        self.prepare()
        corpus_bleu(references, references)  # is it installed?  Better asked now than after an hour
        require_folder(self.hypotheses)
        require_others([self.hypotheses], [self.source, self.reference])
        model = load_model(self.model)
        grid = _combinations(self.overrides)
        if isinstance(model, Sundae):
            given = [each for each in self.overrides if each.startswith("baseline.")]
            if given:
                raise UsageError(given[0], why=f"{self.model} is a SUNDAE model", hint="sampling.*")
        else:
            given = [each for each in self.overrides if each.startswith("sampling.")]
            given += [f"--{flag}" for flag in ("rank", "judge") if getattr(self, flag) is not None]
            given += ["--free-numbers"] if self.free_numbers else []
            if given:
                raise UsageError(given[0], why=f"{self.model} is not a SUNDAE model")
        if len(grid) > 1 and self.hypotheses is not None:
            raise UsageError("--hypotheses", why=f"there are {len(grid)} translations of each source")

        if self.judge is not None and self.rank is not None:
            raise UsageError("--judge with --rank", why="either of them ranks the candidates")
        twin = None if self.judge is None else load_judge(self.judge, model)
        rate = None if twin is None else twin.rate
        configured = {each: _configured(model, each) for each in grid}  # what is wrong is said before any work
        if any(config.sampling.steps < 1 for config in configured.values()):
            raise UsageError("sampling.steps=0", why="must be at least 1")

        def translate(overrides: tuple[str, ...]) -> "list[Written]":
            config, told = configured[overrides], _told("translated")
            progress = None if told is None else lambda done: told(done, len(sources))
            if isinstance(model, Sundae):
                settings = self.settings()
                many = model.translate_many(
                    sources, sampling=config.sampling, settings=settings, progress=progress, say=say, rate=rate
                )
            else:
                many = model.translate_many(sources, baseline=config.baseline, progress=progress, say=say)
            return [found[0] for found in many]

        config: dict[str, Any] = configured[grid[0]].to_dict()
        config["translation"] = {"rank": self.rank, "free_numbers": self.free_numbers}
        config["translation"] |= {} if twin is None else {"judge": self.judge, "judged by": twin.config.to_dict()}
        if len(grid) > 1:
            config["sweep"] = list(self.overrides)
            written = {" ".join(each): translate(each) for each in grid}
            table = sweep_table(written, references=references, tokenised=self.tokenised)
            self.publish(f"Translation by {self.model}", tables=[table], config=config)
            return
        best = translate(grid[0])
        if self.hypotheses is not None:
            content = "".join(" ".join(each.text.splitlines()) + "\n" for each in best)
            write_file(self.hypotheses, content)
        table = translation_table(best, references=references, tokenised=self.tokenised)
        if isinstance(model, Sundae) and model.config.network.length_prediction:
            table = replace(table, rows=[*table.rows, length_accuracy(model, sources, references)])
        self.publish(f"Translation by {self.model}", tables=[table], config=config)

    def settings(self) -> "TranslateSettings":
        """As `sundae translate` takes them."""
        from sundae.decoding.translation import TranslateSettings

        return TranslateSettings(seed=self.seed, by=self.rank, keep_numbers=not self.free_numbers)


def _combinations(overrides: Sequence[str]) -> list[tuple[str, ...]]:
    """All ways to take one value of each setting."""
    keys_values = [each.partition("=") for each in overrides]
    keys = [key for key, _, _ in keys_values]
    for key in keys:
        if keys.count(key) > 1:
            raise UsageError(f"{key} is given {keys.count(key)} times", hint=f"{key}=A,B tries both")
    return list(itertools.product(*([f"{key}={one}" for one in values.split(",")] for key, _, values in keys_values)))


@dataclass(frozen=True, kw_only=True)
class Steps(_Reporting):
    """How translations grow: BLEU, model score and repetition after every step, at several temperatures.

    With --out, plots.
    """

    model: Annotated[str, arg(metavar="NAME|DIR|HUB-ID")]
    """A SUNDAE model that translates."""
    source: Annotated[Path, arg(metavar="FILE")]
    """One source a line."""
    reference: Annotated[Path, arg(metavar="FILE")]
    """One reference a line."""
    temperatures: Annotated[tuple[float, ...], arg(metavar="TAU ...")] = (0.1, 0.3, 0.6, 1.0)
    """Temperatures of the chain."""
    steps: Annotated[int, arg(aliases=["-T"], metavar="T")] = 16
    """Steps to look at."""
    tokenised: bool = False
    """The text is lower-cased and tokenised already: BLEU without further tokenisation."""

    def run(self) -> None:
        """Translate, look, report."""
        from sundae.measure.bleu import corpus_bleu
        from sundae.measure.plots import Series, plot, require_matplotlib
        from sundae.measure.report import Cell, Table
        from sundae.measure.steps import by_step, reference_score
        from sundae.model import Sundae

        if self.steps < 1:
            raise UsageError(f"-T {self.steps}", why="must be at least 1")
        if not self.temperatures:
            raise UsageError("--temperatures", why="there must be at least one")
        every = zip(*read_pairs(self.source, self.reference), strict=True)
        pairs = [(source, reference) for source, reference in every if source.strip()]
        sources, references = [source for source, _ in pairs], [reference for _, reference in pairs]
        self.prepare()
        corpus_bleu(references, references)  # are they installed?  Better asked now than after an hour
        if self.out is not None:
            require_matplotlib()
        model = Sundae.from_pretrained(self.model)
        if not model.config.network.translates:
            raise UsageError(f"--model {self.model}", why="it does not translate")
        samplings = [
            replace(model.config.sampling, steps=self.steps, temperature=temperature, final_temperature=-1.0)
            for temperature in self.temperatures
        ]
        longest = model.config.network.longest_source
        cropped = sum(len(model.tokenizer.encode(source)) > longest for source in sources)
        if cropped:
            say(f"{cropped} of {len(sources)} sources have more than {longest} tokens and are cropped here")
        rows: list[dict[str, Cell]] = []
        curves: dict[str, list[Series]] = {"BLEU": [], "model score": [], "repeated tokens": []}
        signature = ""
        for temperature, sampling in zip(self.temperatures, samplings, strict=True):
            grown, signature = by_step(
                model, sources, references, sampling=sampling, seed=self.seed, tokenised=self.tokenised
            )
            figures = [
                {"BLEU": each.bleu, "model score": each.score, "repeated tokens": each.repeated_tokens}
                for each in grown
            ]
            rows += [
                {"temperature": temperature, "step": each.step, **own} for each, own in zip(grown, figures, strict=True)
            ]
            name, at = f"temperature {temperature:g}", [float(each.step) for each in grown[1:]]
            for what, series in curves.items():
                series.append(Series(name, at, [own[what] for own in figures[1:]]))
        line = reference_score(model, sources, references)
        curves["model score"].append(Series("references", [1.0, float(self.steps)], [line, line]))
        note = f"signature {signature}; the references' model score is {line:.4g}"
        config = {"temperatures": list(self.temperatures), "steps": self.steps, "sentences": len(sources)}
        if self.out is not None:
            for what, series in curves.items():
                place = self.out / what.replace(" ", "-").lower()
                plot(series, to=place, title=f"{what} by step", x_label="step", y_label=what)
        self.publish(f"Translations by {self.model}, step by step", tables=[Table("Steps", rows, note)], config=config)


@dataclass(frozen=True, kw_only=True)
class Samples(_Reporting):
    """Measure texts: BLEU-n, self-BLEU-n, distinct n-grams, entropy, repetition, lengths, memorisation, perplexity."""

    texts: Annotated[Positional[Path], arg(metavar="FILE")]
    """One sample a line."""
    references: Annotated[Path | None, arg(metavar="FILE")] = None
    """Real texts, one a line, for BLEU-n."""
    training: Annotated[Path | None, arg(metavar="FILE")] = None
    """The texts that the model was trained on, one a line, to look for memorised ones."""
    judge: Annotated[str | None, arg(metavar="DIR|HUB-ID")] = None
    """An autoregressive model that gives the samples' perplexity."""

    def run(self) -> None:
        """Read, measure, report."""
        from sundae.baselines.models import AutoregressiveTwin
        from sundae.measure.evaluation import samples_tables
        from sundae.measure.twin_judge import judge_of
        from sundae.model import load_model

        samples = read_texts(self.texts)
        references, training = (read_texts(path) if path else [] for path in (self.references, self.training))
        self.prepare()
        judge = None
        if self.judge is not None:
            model = load_model(self.judge)
            if not isinstance(model, AutoregressiveTwin):
                raise UsageError(f"--judge {self.judge}", why="only an autoregressive model gives exact likelihoods")
            if model.config.network.translates:
                raise UsageError(f"--judge {self.judge}", why="it translates, and samples have no source")
            judge = judge_of(model)
        tables = samples_tables(samples, references=references, training=training, judge=judge, seed=self.seed)
        config = {"references": len(references), "training texts": len(training), "judge": self.judge or "none"}
        self.publish(f"Samples in {self.texts.name}", tables=tables, config=config)


@dataclass(frozen=True, kw_only=True)
class Blanks(_Reporting):
    """Take words out of held-out texts and let a model fill them in: exact match and edit similarity."""

    texts: Annotated[Positional[Path], arg(metavar="FILE")]
    """Held-out texts, one a line."""
    model: Annotated[str, arg(metavar="NAME|DIR|HUB-ID")]
    """The model: SUNDAE or an autoregressive twin."""
    overrides: Annotated[Positional[tuple[str, ...]], arg(metavar="[SECTION.KEY=VALUE ...]")] = ()
    """Other settings than the model's own, such as sampling.steps=4."""
    words: Annotated[int, arg(metavar="N")] = 1
    """Neighbouring words to take out of each text."""
    count: Annotated[int, arg(name="n", aliases=["-n"], metavar="N")] = 500
    """How many texts; 0 takes all."""
    candidates: Annotated[int, arg(metavar="N")] = 1
    """Results for each blank, best first; SUNDAE tries at least 8 chains, a twin samples if it is more than one."""
    fills: Annotated[Path | None, arg(metavar="FILE")] = None
    """Write what was filled in there: template, answer and best candidate, separated by tabs."""

    def run(self) -> None:
        """Make blanks, fill them, score, report."""
        from sundae.baselines.models import Draw
        from sundae.decoding.fill import FillSettings
        from sundae.decoding.written import Written
        from sundae.measure.evaluation import blanks_table, choose_blanks
        from sundae.model import MaskPredictTranslator, Sundae, load_model

        if self.count < 0 or self.candidates < 1:
            raise UsageError(f"-n {self.count} --candidates {self.candidates}", why="must be at least 0 and 1")
        texts = read_texts(self.texts)
        self.prepare()
        require_folder(self.fills)
        require_others([self.fills], [self.texts])
        model = load_model(self.model)
        if isinstance(model, MaskPredictTranslator):
            raise UsageError(f"{self.model} only translates")
        config = _configured(model, self.overrides)
        if any(each.startswith("sampling.schedule=") for each in self.overrides):
            raise UsageError("sampling.schedule", why="blanks are always updated together (all)")
        items = choose_blanks(texts, words=self.words, count=self.count, seed=self.seed)
        templates = [item.template(f"[[{self.words}w]]") for item in items]
        if isinstance(model, Sundae):
            settings = FillSettings(count=self.candidates, candidates=max(8, self.candidates), seed=self.seed)
            sampling = replace(config.sampling, schedule="all")
            told = _told("filled")
            done = model.fill_many(
                templates,
                sampling=sampling,
                settings=settings,
                progress=None if told is None else lambda number: told(number, len(items)),
            )
        else:
            draw = Draw(temperature=0.0 if self.candidates == 1 else 0.7)
            done: list[list[Written]] = []
            for template in templates:
                try:
                    done.append(model.fill(template, count=self.candidates, draw=draw, seed=self.seed))
                except UsageError:  # too long for it: a miss
                    done.append([])
        filled = [
            [each.text for each in written] or [item.before + item.after]
            for item, written in zip(items, done, strict=True)
        ]
        if self.fills is not None:
            lines = [
                "\t".join([item.template("[[]]"), item.answer, item.filled_in(best[0]).strip()])
                for item, best in zip(items, filled, strict=True)
            ]
            write_file(self.fills, "\n".join(lines) + "\n")
        at = [k for k in (3, 5, 10) if k <= self.candidates]
        table = blanks_table(filled, items=items, at=at)
        self.publish(f"Blanks of {self.words} words filled by {self.model}", tables=[table], config=config.to_dict())


# Which of them it is tyro reads from the first argument.
Command = (
    Annotated[Translation, subcommand("translation")]
    | Annotated[Steps, subcommand("steps")]
    | Annotated[Samples, subcommand("samples")]
    | Annotated[Blanks, subcommand("blanks")]
)
