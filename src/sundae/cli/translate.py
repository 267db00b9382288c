"""`sundae translate TEXT|FILE|-`."""

import json
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from tyro.conf import Positional, arg

from sundae.cli.writing import (
    TRANSLATOR,
    ChainFlags,
    is_file,
    load_judge,
    read_file,
    read_text,
    require_others,
    say,
    split_lines,
    split_words,
)
from sundae.errors import DataError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager

    from sundae.decoding.lines import Kept
    from sundae.decoding.written import Written
    from sundae.model import AutoregressiveTwin, MaskPredictTranslator, Model, Sundae


@dataclass(frozen=True, kw_only=True)
class Command(ChainFlags):
    """Translate lines: each canvas starts as noise and is improved in a few parallel steps.

    One line in gives one line out; an empty line stays empty.  Tags, addresses and variables come back as they were,
    lines are translated sentence by sentence, and SUNDAE keeps numbers.  With -o the same command goes on after an
    interruption.
    """

    model: Annotated[str, arg(metavar="NAME|DIR|HUB-ID")] = TRANSLATOR
    """A model that ships (`sundae models`), a folder, or an id on a hub (extra `hub`)."""
    text: Annotated[Positional[str], arg(metavar="TEXT|FILE|-")]
    """A text, a file, or - for standard input; every line is translated."""
    count: Annotated[int, arg(name="n", aliases=["-n"], metavar="N")] = 1
    """How many translations of each line, best first; more than one are printed as with --tsv.  A twin's beam grows
    to that."""
    candidates: Annotated[int | None, arg(metavar="N")] = None
    """Chains for each length; their best is taken."""
    lengths: Annotated[int | None, arg(metavar="K")] = None
    """How many of the likeliest lengths are tried."""
    rank: Literal["score", "per-token", "mbr"] | None = None
    """How candidates are ranked: by score, if only one length is tried, else per token; mbr is agreement."""
    judge: Annotated[str | None, arg(metavar="DIR|HUB-ID")] = None
    """An autoregressive translator that ranks the candidates instead."""
    terms: Annotated[Path | None, arg(metavar="FILE")] = None
    """Terminology: lines of a source term, a tab and the words that a translation of it must hold."""
    free_numbers: bool = False
    """Do not insist on a line's numbers."""
    tsv: bool = False
    """Lines are read and written in columns: the first one is translated, and translation and score are added."""

    def run(self) -> None:
        """Print -n translations of each line."""
        from sundae.model import Sundae

        lines = split_lines(read_text(self.text))
        sources = [line.partition("\t")[0] for line in lines] if self.tsv else lines
        if len(sources) > 1 and (self.trace is not None or self.html is not None):
            raise UsageError("--trace and --html", why=f"show one line, and there are {len(sources)}")
        for flag, value in (("-n", self.count), ("--lengths", self.lengths), ("-T", self.steps)):
            if value is not None and value < 1:
                raise UsageError(f"{flag} {value}", why="must be at least 1")
        inputs = [Path(self.text)] if is_file(self.text) else []
        inputs += [] if self.terms is None else [self.terms]
        require_others((self.output, self.trace, self.html), inputs)
        terms = {} if self.terms is None else read_terms(self.terms)
        model = self.load_any()
        if isinstance(model, Sundae):
            self._denoise(model, lines, sources, terms)
        else:
            self._from_baseline(model, lines, sources, terms)

    def _denoise(self, model: "Sundae", lines: list[str], sources: list[str], terms: dict[str, str]) -> None:
        from sundae.decoding.lines import Kept
        from sundae.decoding.translation import TranslateSettings

        sampling = self.sampling(model.config.sampling)
        if self.candidates is not None:
            sampling = replace(sampling, candidates=self.candidates)
        if self.lengths is not None:
            sampling = replace(sampling, length_candidates=self.lengths)
        settings = TranslateSettings(
            count=self.count,
            by=self.rank,
            seed=self.seed,
            banned=split_words(*self.ban),
            terms=terms,
            keep_numbers=not self.free_numbers,
            scored=self.json or self.tsv or self.count > 1 or self.trace is not None or self.html is not None,
        )
        if self.judge is not None and self.rank is not None:
            raise UsageError("--judge with --rank", why="either of them ranks the candidates")
        if self.judge is not None and sampling.candidates * sampling.length_candidates == 1:
            raise UsageError("--judge", why="there is one candidate, and nothing to choose", hint="--candidates 16")
        twin = None if self.judge is None else load_judge(self.judge, model)
        rate = None if twin is None else twin.rate
        translate = partial(model.translate_many, sampling=sampling, settings=settings, rate=rate)
        watched = Kept()
        with self.onlookers(model, steps=sampling.steps) as looking:
            if looking:  # the first line, which gets what it would get among the others
                translate(sources[:1], watch=looking, kept=watched)
        with (
            self._partial([model] if twin is None else [model, twin], sampling, settings) as kept,
            self.progress("lines", len(sources)) as progress,
        ):
            kept.found |= watched.found
            found = translate(sources, progress=progress, kept=kept, say=say)
            self._print(lines, sources, found)
        origins = [origin for own in found[:1] for each in own for origin in each.origins]
        self.save_trace(looking, "translate", sampling, origins)

    def _partial(self, models: "Sequence[Model]", *settings: object) -> "AbstractContextManager[Kept]":
        """Where finished translations are kept until the file that they go to can be written."""
        from sundae.cli.partial import Partial, fingerprint
        from sundae.decoding.lines import Kept

        if self.output is None or str(self.output) == "-" or (self.output.exists() and not self.output.is_file()):
            return nullcontext(Kept())
        return Partial(self.output, made_of={"models": [*map(fingerprint, models)], "settings": repr(settings)})

    def _from_baseline(
        self,
        model: "AutoregressiveTwin | MaskPredictTranslator",
        lines: list[str],
        sources: list[str],
        terms: dict[str, str],
    ) -> None:
        only_chain = ("steps", "temperature", "rule", "schedule", "share", "top_k", "top_p", "trace", "html", "rank")
        given = [name for name in (*only_chain, "candidates", "lengths", "judge") if getattr(self, name) is not None]
        others = {"ban": self.ban, "watch": self.watch, "terms": terms, "free-numbers": self.free_numbers}
        given += [name for name, value in others.items() if value]
        if given:
            raise UsageError(f"--{given[0]}", why=f"{self.model} is not a SUNDAE model")
        from sundae.model import AutoregressiveTwin

        settings = model.config.baseline
        if self.count > settings.beam and isinstance(model, AutoregressiveTwin):
            settings = replace(settings, beam=self.count)
        with self._partial([model], settings, self.count) as kept, self.progress("lines", len(sources)) as progress:
            found = model.translate_many(
                sources, baseline=settings, count=self.count, progress=progress, say=say, kept=kept
            )
            self._print(lines, sources, found)

    def _print(self, lines: list[str], sources: list[str], found: "list[list[Written]]") -> None:
        self.write("".join(self._lines(*each) for each in zip(lines, sources, found, strict=True)))

    def _lines(self, line: str, source: str, found: "list[Written]") -> str:
        shown: list[str] = []
        if not self.tsv:
            line = line.replace("\t", " ")
        for each in found:
            text = " ".join(each.text.splitlines())
            if self.json:
                figures = {"score": round(each.score, 4), "steps": each.steps, "network_calls": each.network_calls}
                columns = {"columns": line.split("\t")[1:]} if self.tsv else {}
                shown.append(json.dumps({"source": source, **columns, "text": text, **figures}, ensure_ascii=False))
            elif self.tsv or self.count > 1:
                shown.append("\t".join([line, text.replace("\t", " "), f"{each.score:.4f}"]))
            else:
                shown.append(text)
        return "".join(f"{each}\n" for each in shown)


def read_terms(path: Path) -> dict[str, str]:
    """Source terms and what stands for them."""
    terms: dict[str, str] = {}
    seen: set[str] = set()
    for number, line in enumerate(read_file(path).splitlines(), start=1):
        term, tab, target = line.partition("\t")
        if not line.strip():
            continue
        if not tab or not term.strip() or not target.strip() or "\t" in target.strip():
            raise DataError(f"{path}, line {number}", why="must be a source term, a tab and its translation")
        plain = " ".join(term.casefold().split())  # terms are found in any case
        if plain in seen:
            raise DataError(f"{path}, line {number}", why=f"the term {term.strip()!r} stands there twice")
        seen.add(plain)
        terms[term.strip()] = target.strip()
    return terms
