"""`sundae refine DRAFT`."""

import difflib
import json
import os
import re
import sys
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro.conf import Positional, arg

from sundae.cli.writing import (
    TRANSLATOR,
    WRITER,
    ChainFlags,
    is_file,
    read_text,
    require_others,
    say,
    split_lines,
    split_words,
)
from sundae.config import RankName
from sundae.errors import DataError, UsageError
from sundae.text.placeables import keep_variables, take_out

if TYPE_CHECKING:
    from sundae.decoding.refine import Refined, Refinery, Suggestion
    from sundae.model import Sundae

BY_SOURCE = f"(default: {WRITER}, with --source {TRANSLATOR})"


@dataclass(frozen=True, kw_only=True)
class Command(ChainFlags):
    """Improve a draft: the chain starts from it, and changes what fits least.  {{text}} stays as it is."""

    draft: Annotated[Positional[str], arg(metavar="FILE|TEXT|-")]
    """A file, a text, or - for standard input."""
    source: Annotated[str | None, arg(metavar="FILE|TEXT")] = None
    """The draft is a translation of this, line by line, and the model a translator."""
    model: Annotated[str, arg(metavar="NAME|DIR|HUB-ID", help_behavior_hint=BY_SOURCE)] = ""
    """A model that ships (`sundae models`), a folder, or an id on a hub (extra `hub`)."""
    suspicion: Annotated[float, arg(metavar="N")] = 50.0
    """A token may change if another is N times likelier there; less finds more mistakes, and more that are none."""
    edits: Annotated[int | None, arg(metavar="N")] = None
    """Change at most N tokens, with --source of each line."""
    edit_share: Annotated[float | None, arg(metavar="SHARE")] = None
    """Change at most this share of the tokens, with --source of each line."""
    candidates: Annotated[int, arg(metavar="N")] = 4
    """Chains to run for each sentence; the best result, or the draft itself, is kept."""
    rank: RankName = "per-token"
    """How candidates, and the draft, are ranked (docs/writing.md)."""
    suggest: Annotated[int, arg(metavar="N")] = 0
    """Change nothing: list the N least likely tokens with likelier ones."""
    diff: bool = False
    """Print what was changed, word by word on a terminal and as a unified diff elsewhere, instead of the text."""

    def run(self) -> None:
        """Print the refined text, the difference, or suggestions."""
        from sundae.baselines.models import AutoregressiveTwin
        from sundae.decoding.constraints import Constraints
        from sundae.decoding.refine import RefineSettings

        if not self.model:
            replace(self, model=WRITER if self.source is None else TRANSLATOR).run()
            return
        if self.candidates < 1:
            raise UsageError(f"--candidates {self.candidates}", why="must be at least 1")
        if self.steps is not None and self.steps < 1:
            raise UsageError(f"-T {self.steps}", why="must be at least 1")
        if self.suggest < 0:
            raise UsageError(f"--suggest {self.suggest}", why="must not be negative")
        if self.suggest and (self.diff or self.watch or self.trace is not None or self.html is not None):
            raise UsageError("--suggest with --diff, --watch, --trace or --html", why="suggestions change nothing")
        if self.diff and self.json:
            raise UsageError("--diff with --json", why="the edits are in the JSON")
        if self.draft == self.source == "-":
            raise UsageError("- twice", why="standard input is either the draft or the source")
        sources = [Path(self.source)] if self.source is not None and is_file(self.source) else []
        require_others((self.output, self.trace, self.html), sources)
        if is_file(self.draft):  # which may be refined in its place
            require_others((self.trace, self.html), [Path(self.draft)])
        draft = read_text(self.draft)
        settings = RefineSettings(
            suspicion=self.suspicion,
            edits=self.edits,
            share=self.edit_share,
            candidates=self.candidates,
            by=self.rank,
            seed=self.seed,
            constraints=Constraints(split_words(*self.ban)),
        )
        model = self.load()
        if isinstance(model, AutoregressiveTwin):
            raise UsageError(f"{self.model} cannot refine", why="it writes from left to right")
        readers = self._readers(model, draft)
        lines = self.source is not None and bool(draft)
        if self.suggest:
            self._suggest(readers)
            return
        sampling = self.sampling(model.refine_sampling)
        parts: list[tuple[str, Refined]] = []
        with (
            self.onlookers(model, steps=sampling.steps) as looking,
            self.progress("sentences", sum(len(reader.stretches) for reader in readers)) as progress,
        ):
            done = 0
            for reader in readers:
                told = None if progress is None else lambda own, before=done: progress(before + own)
                watched = reader.refine(settings, sampling=sampling, watch=looking or None, progress=told)
                parts.append((reader.text, watched))
                done += len(reader.stretches)
        # A text has only one part; lines keep what stands at their ends.
        ends = (
            ["\r" * line.endswith("\r") for line in draft.removesuffix("\n").split("\n")]
            if lines
            else [""] * len(parts)
        )
        before, refined = _joined(parts, ends)
        if self.diff and not refined.edits:
            say("nothing was changed")
        if lines:  # each has its end, the last one too
            refined = replace(refined, text=refined.text + "\n")
            before += "\n" * (draft.endswith("\n") or not refined.edits)
        if lines and self.json:
            self.write("".join(self._result(*part) for part in parts))
        else:
            self.write(self._result(before, refined))
        self.save_trace(looking, "refine", sampling, refined.origins)

    def _readers(self, model: "Sundae", draft: str) -> "list[Refinery]":
        """One for the draft, or with a source one for each of its lines."""
        if self.source is None:
            return [model.proof_reader(draft)]
        if not model.config.network.translates:
            raise UsageError("--source", why=f"{self.model} does not translate", hint="--model of a translator")
        drafts, sources = split_lines(draft), split_lines(read_text(self.source))
        if len(drafts) != len(sources):
            raise DataError(f"{len(drafts)} lines of draft and {len(sources)} of source", why="there must be as many")
        readers: list[Refinery] = []
        too_long: list[int] = []
        bare: list[int] = []
        drafts = [keep_variables(*each) for each in zip(drafts, sources, strict=True)]
        for number, (line, source) in enumerate(zip(drafts, sources, strict=True), start=1):
            try:
                fits = model.draft_length(line) <= model.config.network.canvas
                readers.append(model.proof_reader(line, source=source, closed=not fits))
            except UsageError as error:
                raise DataError(f"line {number}: {error.what}", why=error.why, hint=error.hint) from None
            too_long += [] if fits else [number]
            bare += [number] if line.strip() and not source.strip() else []
        if too_long:
            room = f"more than the {model.config.network.canvas} tokens of the model's canvas"
            stay = f"{len(too_long)} of {len(drafts)} drafts stay as they are"
            say(f"{stay}: with {room}, tags and addresses counted (the first is line {too_long[0]})")
        if bare:
            stay = f"{len(bare)} of {len(drafts)} drafts stay as they are"
            say(f"{stay}: their source is empty (the first is line {bare[0]})")
        longest = model.config.network.longest_source
        cropped = sum(len(model.tokenizer.encode(take_out(source)[0])) > longest for source in sources)
        if cropped:
            say(f"{cropped} of {len(sources)} sources have more than {longest} tokens and were cropped")
        return readers

    def _suggest(self, readers: "list[Refinery]") -> None:
        found: list[Suggestion] = []
        begin = 0
        for reader in readers:
            some = reader.suggestions(self.suggest)
            found += [replace(each, begin=begin + each.begin, end=begin + each.end) for each in some]
            begin += len(reader.text) + 1
        least = sorted(found, key=lambda each: each.probability)[: self.suggest]
        text = "\n".join(reader.text for reader in readers)
        self.write(self._suggestions(sorted(least, key=lambda each: each.begin), text))

    def _result(self, before: str, refined: "Refined") -> str:
        """As text, JSON or a difference."""
        if self.json:
            edits = [{"begin": b, "end": e, "before": before[b:e], "after": new} for b, e, new in refined.edits]
            figures = {
                "score": _rounded(refined.score),
                "draft_score": _rounded(refined.draft_score),
                "network_calls": refined.network_calls,
            }
            return json.dumps({"text": refined.text, "edits": edits, **figures}, ensure_ascii=False) + "\n"
        if not self.diff:
            return refined.text + ("\n" if refined.text and not refined.text.endswith("\n") else "")
        if self.output is None and sys.stdout.isatty() and not os.environ.get("NO_COLOR"):
            return coloured_diff(before, refined.text) + "\n"
        return unified_diff(before, refined.text)

    def _suggestions(self, found: "list[Suggestion]", draft: str) -> str:
        if self.json:
            return "".join(json.dumps(asdict(each), ensure_ascii=False) + "\n" for each in found)
        lines: list[str] = []
        for each in found:
            line = draft.count("\n", 0, each.begin) + 1
            better = ", ".join(f"{text.strip()!r} {probability:.2g}" for text, probability in each.alternatives)
            lines.append(f"line {line}: {each.token.strip()!r} {each.probability:.2g}  likelier: {better}\n")
        return "".join(lines)


def _joined(parts: "list[tuple[str, Refined]]", ends: list[str]) -> "tuple[str, Refined]":
    """Lines that were refined apart, as one text; `ends` is what stands before each newline."""
    from sundae.decoding.refine import Refined

    edits: list[tuple[int, int, str]] = []
    offset = 0
    for (before, refined), tail in zip(parts, ends, strict=True):
        edits += [(offset + begin, offset + end, new) for begin, end, new in refined.edits]
        offset += len(before) + len(tail) + 1
    together = Refined(
        "\n".join(refined.text + tail for (_, refined), tail in zip(parts, ends, strict=True)),
        tuple(edits),
        _mean([refined.score for _, refined in parts]),
        _mean([refined.draft_score for _, refined in parts]),
        sum(refined.network_calls for _, refined in parts),
        tuple(origin for _, refined in parts for origin in refined.origins),
    )
    return "\n".join(before + tail for (before, _), tail in zip(parts, ends, strict=True)), together


def _mean(scores: list[float | None]) -> float | None:
    """Of those that are known."""
    known = [score for score in scores if score is not None]
    return sum(known) / len(known) if known else None


def _rounded(score: float | None) -> float | None:
    return None if score is None else round(score, 4)


def unified_diff(before: str, after: str) -> str:
    """What `patch` takes: lines end with a newline alone, and keep whatever else stands at their ends."""
    old, new = (re.findall(r"[^\n]*\n|[^\n]+", text) for text in (before, after))
    lines = difflib.unified_diff(old, new, "draft", "refined", n=1)
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def coloured_diff(before: str, after: str) -> str:
    """The text with removed words struck out in red and new ones in green."""
    old, new = (re.findall(r"\s+|[^\s]+", text) for text in (before, after))
    parts: list[str] = []
    for kind, a, b, c, d in difflib.SequenceMatcher(a=old, b=new, autojunk=False).get_opcodes():
        if kind == "equal":
            parts += old[a:b]
            continue
        if a < b:
            parts.append("\x1b[31;9m" + "".join(old[a:b]) + "\x1b[0m")
        if c < d:
            parts.append("\x1b[32m" + "".join(new[c:d]) + "\x1b[0m")
    return "".join(parts)
