"""A prepared corpus, read through memory maps."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, cast, get_args

import numpy as np
from numpy.typing import NDArray

from sundae.config import CorpusKind
from sundae.errors import DataError, UsageError
from sundae.text.envelope import FILE_NAME as TOKENIZER_FILE
from sundae.text.envelope import PAD_ID
from sundae.text.tokenizer import Tokenizer, load_tokenizer
from sundae.text.writer import CORPUS_FILE

FORMAT = "sundae-corpus"
VERSION = 1

SplitName = Literal["train", "validation"]
Side = Literal["text", "source"]
Rows = NDArray[np.int64]

_VERIFIED_AT_ONCE = 1 << 22


def token_type(vocabulary_size: int) -> str:
    """The numpy type of the tokens on disk."""
    return "<u2" if vocabulary_size <= 1 << 16 else "<u4"


@dataclass(frozen=True)
class _Stream:
    """Tokens of all texts in a row, and where each begins and ends."""

    tokens: NDArray[Any]
    offsets: NDArray[np.int64]
    name: str

    def bounds(self, indices: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """First and one-past-last position of each text."""
        count = len(self.offsets) - 1
        if indices.size and not (indices.min() >= 0 and indices.max() < count):
            raise IndexError(f"text {indices.min()}..{indices.max()} of {count}")
        starts, ends = self.offsets[indices], self.offsets[indices + 1]
        if (starts < 0).any() or (ends < starts).any() or (ends > len(self.tokens)).any():
            raise DataError(f"{self.name} is damaged", why="its offsets do not fit its tokens")
        return starts, ends


class Split:
    """The texts for training or for validation."""

    def __init__(self, text: _Stream, source: _Stream | None) -> None:
        self._streams = {"text": text, "source": source}

    def __len__(self) -> int:
        return len(self._stream("text").offsets) - 1

    @property
    def tokens(self) -> int:
        """How many tokens the texts have in all, sources not counted."""
        return len(self._stream("text").tokens)

    def text(self, index: int) -> Rows:
        """The tokens of one text, without padding; for parallel data, of the target."""
        return self._one(index, "text")

    def source(self, index: int) -> Rows:
        """The tokens of one source."""
        return self._one(index, "source")

    def lengths(self, side: Side = "text") -> Rows:
        """The number of tokens of each text."""
        return np.diff(self._stream(side).offsets).astype(np.int64)

    def canvas_rows(self, indices: Sequence[int] | Rows, canvas: int, *, side: Side = "text") -> Rows:
        """Texts as rows of `canvas` tokens, padded; a text of exactly that length has no pad."""
        stream = self._stream(side)
        starts, ends = stream.bounds(np.asarray(indices, dtype=np.int64))
        longest = int((ends - starts).max(initial=0))
        if longest > canvas:
            raise UsageError(
                f"a canvas of {canvas} is too small", why=f"{stream.name} holds a text of {longest} tokens"
            )
        places = starts[:, None] + np.arange(canvas)
        inside = places < ends[:, None]
        rows = np.full(places.shape, PAD_ID, dtype=np.int64)
        rows[inside] = stream.tokens[places[inside]]
        return rows

    def crop_rows(self, starts: Sequence[int] | Rows, canvas: int) -> Rows:
        """Stretches of `canvas` tokens of the concatenated texts, one from each start."""
        stream = self._stream("text")
        first = np.asarray(starts, dtype=np.int64)
        last = len(stream.tokens) - canvas
        if first.size and not (first.min() >= 0 and first.max() <= last):
            raise UsageError(
                f"cannot crop {canvas} tokens from {stream.name}",
                why=f"it holds {len(stream.tokens):,}, so crops begin at 0 to {last:,}",
            )
        return stream.tokens[first[:, None] + np.arange(canvas)].astype(np.int64)

    def _one(self, index: int, side: Side) -> Rows:
        stream = self._stream(side)
        starts, ends = stream.bounds(np.asarray([index], dtype=np.int64))
        return stream.tokens[starts[0] : ends[0]].astype(np.int64)

    def _stream(self, side: Side) -> _Stream:
        stream = self._streams[side]
        if stream is None:
            raise UsageError("this corpus has no sources", why="only parallel text has them")
        return stream


@dataclass(frozen=True)
class Corpus:
    """A folder that `sundae prepare` wrote; `facts` is what its corpus.json says."""

    folder: Path
    kind: CorpusKind
    canvas: int
    vocabulary_size: int
    facts: dict[str, Any]

    @classmethod
    def open(cls, folder: Path, *, verify: bool = False) -> "Corpus":
        """Open a corpus whose files have their sizes; with `verify`, also their hashes and only tokens that exist."""
        folder = Path(folder)
        facts = _read_facts(folder / CORPUS_FILE)
        corpus = cls(folder, facts["kind"], facts["canvas"], facts["vocabulary_size"], facts)
        for name, file in cast(dict[str, dict[str, Any]], facts["files"]).items():
            _check_file(folder / name, file, verify=verify)
        if verify:
            for split in get_args(SplitName):
                corpus._verify_tokens(split)
        return corpus

    @property
    def about(self) -> dict[str, Any]:
        """What is known of the text, as settings of `data`; of an older corpus, nothing."""
        return {key: kind() for key, kind in _ABOUT.items()} | self.facts.get("about", {})

    @property
    def fingerprint(self) -> str:
        """The same for the same texts with the same tokenizer, wherever they are."""
        hashes = sorted((name, file["sha256"]) for name, file in self.facts["files"].items())
        return hashlib.sha256(json.dumps(hashes).encode()).hexdigest()

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer that wrote the tokens."""
        tokenizer = load_tokenizer(self.folder)
        if tokenizer.vocabulary_size != self.vocabulary_size:
            raise DataError(
                f"{self.folder / TOKENIZER_FILE} is not the tokenizer of this corpus",
                why=f"it has {tokenizer.vocabulary_size} tokens, not {self.vocabulary_size}",
            )
        return tokenizer

    def split(self, name: SplitName) -> Split:
        """The texts for training or for validation, mapped into memory."""
        text = self._map(name, "")
        return Split(text, self._map(name, "source_") if self.kind == "parallel" else None)

    def _map(self, split: SplitName, prefix: str) -> _Stream:
        folder = self.folder / split
        name = f"{folder}/{prefix}tokens.bin"
        tokens = _mapped(folder / f"{prefix}tokens.bin", token_type(self.vocabulary_size))
        offsets = _mapped(folder / f"{prefix}offsets.bin", "<i8")
        if not len(offsets) or offsets[0] != 0 or offsets[-1] != len(tokens):
            raise DataError(f"{name} is damaged", why="its offsets do not fit its tokens")
        return _Stream(tokens, offsets, name)

    def _verify_tokens(self, name: SplitName) -> None:
        for prefix in ("", "source_") if self.kind == "parallel" else ("",):
            stream = self._map(name, prefix)
            for start in range(0, len(stream.tokens), _VERIFIED_AT_ONCE):
                if stream.tokens[start : start + _VERIFIED_AT_ONCE].max() >= self.vocabulary_size:
                    raise DataError(f"{stream.name} is damaged", why="it holds tokens outside the vocabulary")
            for start in range(0, len(stream.offsets), _VERIFIED_AT_ONCE):
                if (np.diff(stream.offsets[start : start + _VERIFIED_AT_ONCE + 1]) < 0).any():
                    raise DataError(f"{stream.name} is damaged", why="its offsets are not in order")


def _mapped(path: Path, kind: str) -> NDArray[Any]:
    try:
        size = path.stat().st_size
        if size % np.dtype(kind).itemsize:
            raise DataError(f"{path} is damaged", why=f"{size} bytes is no whole number of entries")
        if size == 0:
            return np.zeros(0, dtype=kind)  # an empty file cannot be mapped
        return np.memmap(path, dtype=kind, mode="r")
    except OSError as error:
        raise DataError(f"cannot read {path}", why=error.strerror or str(error)) from None


def _check_file(path: Path, facts: dict[str, Any], *, verify: bool) -> None:
    try:
        size = path.stat().st_size
        if size != facts["bytes"]:
            raise DataError(f"{path} is damaged", why=f"it has {size:,} bytes, not {facts['bytes']:,}")
        if verify:
            with path.open("rb") as file:
                if hashlib.file_digest(file, "sha256").hexdigest() != facts["sha256"]:
                    raise DataError(f"{path} is damaged", why="it does not have its sha256")
    except OSError as error:
        raise DataError(f"cannot read {path}", why=error.strerror or str(error)) from None


def _read_facts(path: Path) -> dict[str, Any]:
    try:
        facts: Any = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise DataError(
            f"{path.parent} is not a corpus", why=error.strerror or str(error), hint="sundae prepare"
        ) from None
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} is damaged", why=f"not valid JSON: {error}") from None
    if not isinstance(facts, dict) or facts.get("format") != FORMAT:
        raise DataError(f"{path} does not describe a corpus", why=f'it lacks "format": "{FORMAT}"')
    if facts.get("version") != VERSION:
        raise DataError(f"cannot read {path}", why=f"version {facts.get('version')!r} is not {VERSION}")
    if not _is_sound(facts):
        raise DataError(f"{path} is damaged", why="an entry is missing or not what it should be")
    return facts


_ABOUT = {"description": str, "source_language": str, "target_language": str, "training_pairs": int}


def _is_sound(facts: dict[str, Any]) -> bool:
    files = facts.get("files")
    if not isinstance(files, dict) or facts.get("kind") not in get_args(CorpusKind):
        return False
    parts = ["tokens.bin", "offsets.bin"]
    if facts["kind"] == "parallel":
        parts += ["source_tokens.bin", "source_offsets.bin"]
    wanted = {f"{split}/{part}" for split in get_args(SplitName) for part in parts}
    return (
        type(facts.get("canvas")) is int
        and type(facts.get("vocabulary_size")) is int
        and facts["vocabulary_size"] >= 2
        and isinstance(about := facts.get("about", {}), dict)
        and all(key in _ABOUT and type(value) is _ABOUT[key] for key, value in about.items())
        # Exactly these names: a name never leads out of the folder.
        and set(files) == wanted | {TOKENIZER_FILE}
        and all(
            isinstance(file, dict) and type(file.get("bytes")) is int and isinstance(file.get("sha256"), str)
            for file in files.values()
        )
    )
