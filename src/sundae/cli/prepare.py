"""`sundae prepare crops|sentences|parallel INPUT... --out DIR`."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from tyro.conf import Positional, arg

from sundae.config import CorpusKind, TokenizerKind
from sundae.text.corpus import Corpus
from sundae.text.inputs import Format
from sundae.text.prepare import Report, prepare
from sundae.text.readers import DocumentSplit
from sundae.text.recipe import LongTexts, Recipe


@dataclass(frozen=True, kw_only=True)
class Command:
    """Turn text into a corpus to train on: a folder with a tokenizer, token files and an account of both.

    Text is .txt, .tsv, .jsonl or .json, any of them also as .gz; folders are searched for such files, and - is the
    standard input.  crops: documents, which training cuts at random.  sentences: one for each line or record.
    parallel: two text files line by line (source first), or tables with a source and a target in each line.
    """

    kind: Annotated[Positional[CorpusKind], arg(metavar="crops|sentences|parallel")]
    """What the text is."""
    inputs: Annotated[Positional[tuple[Path, ...]], arg(metavar="INPUT")]
    """Files, folders, or - for the standard input."""
    out: Annotated[Path, arg(metavar="DIR")]
    """The folder to write; it must not exist."""
    force: bool = False
    """Replace the folder if it is a corpus already."""
    tokenizer: TokenizerKind = "byte-bpe"
    """What tokens are."""
    vocabulary: Annotated[int, arg(metavar="N")] = 8000
    """How many different tokens there are at most."""
    tokenizer_from: Annotated[Path | None, arg(metavar="DIR|FILE")] = None
    """Use this tokenizer, trained before: a corpus or model folder, a .model of SentencePiece, or with --tokenizer word
    or pretokenised a list with one word on each line."""
    canvas: Annotated[int | None, arg(metavar="N")] = None
    """Most tokens of a sentence, or of each side of a pair (32; parallel: 128)."""
    long: LongTexts = "drop"
    """What to do with longer ones."""
    split: DocumentSplit = "file"
    """crops: what a document is in a .txt file."""
    field: Annotated[str, arg(metavar="NAME")] = ""
    """Key of JSON objects ("text" or "s"), or column of a .tsv (1), that holds the text; parallel: two, such as en,de
    or 2,1."""
    format: Format | None = None
    """What the files are, whatever their names end in."""
    unique: bool = False
    """Keep one of equal texts; takes about 100 MB of memory for each million of different ones."""
    validation: Annotated[str, arg(metavar="N|SHARE")] = ""
    """Texts to keep for validation, as a number or as a share below 1 (0.01 of them, at most 2000)."""
    validation_from: Annotated[tuple[Path, ...], arg(metavar="FILE")] = ()
    """Take the validation texts from these files instead."""
    exclude: Annotated[tuple[Path, ...], arg(metavar="FILE")] = ()
    """Do not train on sentences (parallel: sources) that stand in these files, such as a test set."""
    description: Annotated[str, arg(metavar="TEXT")] = ""
    """What the text is, for the cards of models that are trained on it (the names of its files)."""
    languages: Annotated[str, arg(metavar="SOURCE,TARGET")] = ""
    """parallel: such as en,de; known already if two files are called train.en and train.de, or the fields en and de."""
    seed: int = 0
    """Another seed chooses other validation texts."""
    json: bool = False
    """Print JSON."""
    quiet: Annotated[bool, arg(aliases=("-q",))] = False
    """No progress, no summary."""

    def run(self) -> None:
        """Prepare, then print what was made to standard output."""
        recipe = Recipe(
            kind=self.kind,
            inputs=self.inputs,
            out=self.out,
            force=self.force,
            tokenizer=self.tokenizer,
            vocabulary=self.vocabulary,
            tokenizer_from=self.tokenizer_from,
            canvas=self.canvas,
            long=self.long,
            split=self.split,
            field=self.field,
            format=self.format,
            unique=self.unique,
            validation=self.validation,
            validation_from=self.validation_from,
            exclude=self.exclude,
            description=self.description,
            languages=self.languages,
            seed=self.seed,
        )
        with _progress(shown=not self.quiet and sys.stderr.isatty()) as report:
            corpus = prepare(recipe, report=report)
        if self.json:
            sys.stdout.write(json.dumps({"out": str(self.out)} | corpus.facts, indent=2, ensure_ascii=False) + "\n")
        elif not self.quiet:
            sys.stdout.write("\n".join(summary(corpus)) + "\n")


def summary(corpus: Corpus) -> Iterator[str]:
    """What was made, in a few lines."""
    facts = corpus.facts
    yield f"{corpus.folder}: {corpus.kind}, {facts['tokenizer']} tokens, vocabulary {corpus.vocabulary_size:,}"
    if corpus.kind == "crops":
        yield f"documents   {facts['documents']:,}"
    for name, split in facts["splits"].items():
        yield f"{name:<12}{_counts(split, kind=corpus.kind)}"
        if split["lengths_before_canvas"]:
            yield f"{'':<12}{_fit(split['lengths_before_canvas'], canvas=corpus.canvas)}"
        left_out = [f"{count:,} {reason}" for reason, count in split["dropped"].items()]
        if left_out:
            yield f"{'':<12}dropped: {', '.join(left_out)}"
        if split["cropped"]:
            yield f"{'':<12}cropped: {split['cropped']:,}"
        if split["unknown_tokens"]:
            every = split["tokens"] + split.get("source_tokens", 0)
            yield f"{'':<12}unknown: {split['unknown_tokens']:,} tokens, {split['unknown_tokens'] / every:.2%}"


def _counts(split: dict[str, Any], *, kind: CorpusKind) -> str:
    match kind:
        case "crops":
            return f"{split['tokens']:,} tokens"
        case "sentences":
            return f"{split['texts']:,} sentences, {split['tokens']:,} tokens"
        case "parallel":
            return f"{split['texts']:,} pairs, {split['source_tokens']:,} -> {split['tokens']:,} tokens"


def _fit(quantiles: dict[str, int], *, canvas: int) -> str:
    return (
        f"tokens: half have up to {quantiles['0.5']}, 95% up to {quantiles['0.95']}, "
        f"99% up to {quantiles['0.99']}, all up to {quantiles['1']} (canvas {canvas})"
    )


@contextmanager
def _progress(*, shown: bool) -> Iterator[Report | None]:
    if not shown:
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        tasks: dict[str, Any] = {}

        def report(stage: str, done: int, total: int) -> None:
            if stage not in tasks:
                tasks[stage] = bar.add_task(stage, total=total)
            bar.update(tasks[stage], completed=done)

        yield report
