"""What `sundae prepare` is asked to make, checked before any work is done."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

from sundae.config import CorpusKind, TokenizerKind
from sundae.errors import UsageError
from sundae.text.holdout import Wish, parse_wish
from sundae.text.inputs import Format, InputFile
from sundae.text.readers import DocumentSplit, Watch, read_documents, read_pairs, read_sentences

LongTexts = Literal["drop", "crop"]

_LANGUAGE = re.compile("[a-z]{2}")
# The paper pads translations to 128 tokens; crops are cut when they are trained on.
_USUAL_CANVAS: dict[CorpusKind, int] = {"crops": 0, "sentences": 32, "parallel": 128}


class Entry(NamedTuple):
    """A sentence, a pair with its source first, or a piece of a document that ends with the `last` one."""

    texts: tuple[str, ...]
    whole: bool = True
    last: bool = True

    @property
    def empty(self) -> bool:
        """Whether a side has nothing to say."""
        return not all(text and not text.isspace() for text in self.texts)


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Inputs, output and choices."""

    kind: CorpusKind
    inputs: tuple[Path, ...]
    out: Path
    tokenizer: TokenizerKind = "byte-bpe"
    vocabulary: int = 8000
    tokenizer_from: Path | None = None
    canvas: int | None = None
    long: LongTexts = "drop"
    split: DocumentSplit = "file"
    field: str = ""
    format: Format | None = None
    unique: bool = False
    validation: str = ""
    validation_from: tuple[Path, ...] = ()
    origin: Mapping[str, object] | None = None
    """Of inputs that a program made for this alone: what from.  Where they lay is then of no interest."""
    description: str = ""
    languages: str = ""
    exclude: tuple[Path, ...] = ()
    seed: int = 0
    force: bool = False

    def __post_init__(self) -> None:
        if not self.inputs:
            raise UsageError("nothing to prepare", hint=f"sundae prepare {self.kind} FILE --out DIR, or - for stdin")
        if self.canvas is not None and self.kind == "crops":
            raise UsageError(f"--canvas {self.canvas}", why="is for sentences and parallel; crops are cut in training")
        if self.canvas is not None and self.canvas < 1:
            raise UsageError(f"--canvas {self.canvas}", why="must be at least 1")
        if self.seed < 0:
            raise UsageError(f"--seed {self.seed}", why="must not be negative")
        if self.validation and self.validation_from:
            raise UsageError("--validation and --validation-from", why="exclude each other")
        if self.kind != "crops" and self.split != "file":
            raise UsageError(f"--split {self.split}", why=f"is for crops; {self.kind} are one to a line")
        if self.kind == "crops" and self.exclude:
            raise UsageError("--exclude", why="is for sentences and parallel, which are compared one by one")
        named = self.languages.split(",")
        if self.languages and (self.kind != "parallel" or len(named) != 2 or not all(named) or named[0] == named[1]):
            why = "must be two, of the sources and of the targets of parallel text"
            raise UsageError(f"--languages {self.languages}", why=why, hint="--languages en,de")
        # Whether they can be read is asked here, before any file is.
        _ = self.fields, self.wish

    @property
    def longest(self) -> int:
        """The canvas: how many tokens a text may have; 0 for crops, which may have any number."""
        return _USUAL_CANVAS[self.kind] if self.canvas is None else self.canvas

    @property
    def fields(self) -> tuple[str, ...]:
        """Which keys or columns hold the text: two for parallel text, else one; empty for the usual ones."""
        wanted = 2 if self.kind == "parallel" else 1
        named = tuple(self.field.split(",")) if self.field else ("",) * wanted
        if len(named) != wanted or (self.field and not all(named)):
            example = "--field en,de or --field 1,2" if wanted == 2 else "--field text"
            raise UsageError(f"--field {self.field}", why=f"{self.kind} need {wanted}", hint=example)
        return named

    @property
    def direction(self) -> tuple[str, str]:
        """Both languages, if they are known: as files (train.en) or fields are called by their two letters."""
        if self.languages:
            source, target = self.languages.split(",")
            return source, target
        endings = [Path(path.name.removesuffix(".gz")).suffix[1:] for path in self.inputs]
        for names in (endings, self.field.split(",")):
            if len(names) == 2 and len(set(names)) == 2 and all(map(_LANGUAGE.fullmatch, names)):
                return names[0], names[1]
        return "", ""

    @property
    def wish(self) -> Wish:
        """How much is kept for validation out of the inputs themselves."""
        return Wish() if self.validation_from else parse_wish(self.validation)

    def entries(self, files: Sequence[InputFile], *, watch: Watch | None = None) -> Iterator[Entry]:
        """Everything in the files, in order."""
        if self.kind == "parallel":
            source, target = self.fields
            for left, right in read_pairs(files, fields=(source, target), watch=watch) if files else ():
                yield Entry((left.text, right.text), whole=left.whole and right.whole)
            return
        (field,) = self.fields
        for file in files:
            if self.kind == "sentences":
                for record in read_sentences(file, field=field, watch=watch):
                    yield Entry((record.text,), whole=record.whole)
            else:
                for text, last in read_documents(file, split=self.split, field=field, watch=watch):
                    # Documents stand in one row: a line break keeps the end of one from the beginning of the next.
                    ended = text + "\n" if last and not text.endswith("\n") else text
                    yield Entry((ended,), last=last)
