"""Writing a corpus: token files that grow as text arrives, in a folder that appears whole or not at all."""

import hashlib
import os
import secrets
import shutil
from array import array
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from sundae.errors import DataError, UsageError
from sundae.files import flush, take_place
from sundae.text.envelope import FILE_NAME as TOKENIZER_FILE

CORPUS_FILE = "corpus.json"
SPLITS = ("train", "validation")

_LONGEST_COUNTED = 1 << 16
_QUANTILES = (0.5, 0.9, 0.95, 0.99)
_OFFSETS_AT_ONCE = 1 << 16


class Lengths:
    """How long texts are, counted in bounded memory."""

    def __init__(self) -> None:
        self._counts = np.zeros(_LONGEST_COUNTED + 1, dtype=np.int64)
        self._longest = 0

    def add(self, length: int) -> None:
        """Count one text."""
        self._counts[min(length, _LONGEST_COUNTED)] += 1
        self._longest = max(self._longest, length)

    def summary(self) -> dict[str, dict[str, int]]:
        """Quantiles, exact up to 65,536 tokens, and how many texts lie between powers of two."""
        total = int(self._counts.sum())
        if not total:
            return {"quantiles": {}, "histogram": {}}
        reached = np.cumsum(self._counts)
        quantiles = {f"{q:g}": int(np.searchsorted(reached, np.ceil(q * total))) for q in _QUANTILES}
        lows = [1 << power for power in range(_LONGEST_COUNTED.bit_length() - 1)]
        histogram = {f"{low}-{2 * low - 1}": int(self._counts[low : 2 * low].sum()) for low in lows}
        histogram[f"{_LONGEST_COUNTED}-"] = int(self._counts[_LONGEST_COUNTED])
        return {
            "quantiles": quantiles | {"1": self._longest},
            "histogram": {span: count for span, count in histogram.items() if count},
        }


class TokenWriter:
    """A file of tokens and a file of the places where texts begin and end."""

    def __init__(self, folder: Path, *, prefix: str, token_type: str) -> None:
        self._type = np.dtype(token_type)
        self._tokens_file = (folder / f"{prefix}tokens.bin").open("wb")
        self._offsets_file = (folder / f"{prefix}offsets.bin").open("wb")
        self._offsets = array("q", [0])
        self._length = 0
        self.texts = 0
        self.tokens = 0
        self.lengths = Lengths()

    @property
    def inside(self) -> bool:
        """Whether a text was begun and not ended."""
        return self._length > 0

    def extend(self, ids: Sequence[int]) -> None:
        """Add tokens to the current text."""
        self._tokens_file.write(np.asarray(ids, dtype=self._type).tobytes())
        self.tokens += len(ids)
        self._length += len(ids)

    def end(self) -> None:
        """End the current text."""
        self.texts += 1
        self.lengths.add(self._length)
        self._length = 0
        self._offsets.append(self.tokens)
        if len(self._offsets) >= _OFFSETS_AT_ONCE:
            self._write_offsets()

    def finish(self) -> None:
        """Write what is left."""
        self._write_offsets()
        self.close()

    def close(self) -> None:
        """Let go of the files, whatever state they are in."""
        try:
            self._tokens_file.close()
        finally:
            self._offsets_file.close()

    def _write_offsets(self) -> None:
        self._offsets_file.write(np.asarray(self._offsets, dtype="<i8").tobytes())
        self._offsets = array("q")


def file_facts(path: Path) -> dict[str, object]:
    """Size and sha256 of a file."""
    with path.open("rb") as file:
        return {"bytes": path.stat().st_size, "sha256": hashlib.file_digest(file, "sha256").hexdigest()}


@contextmanager
def new_folder(target: Path, *, force: bool) -> Iterator[Path]:
    """A temporary folder beside `target` that takes its place at the end, and is removed when something goes wrong."""
    target = target.resolve()
    require_free(target, force=force)
    temporary = target.parent / f".{target.name}.{secrets.token_hex(4)}.partial"
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary.mkdir()
        try:
            yield temporary
            _sync_tree(temporary)
            take_place(temporary, target)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
    except OSError as error:
        raise DataError(f"cannot write {target}", why=error.strerror or str(error)) from error


def require_free(target: Path, *, force: bool) -> None:
    """Refuse a place that is taken; with `force` one that a corpus does not take."""
    if not target.exists():
        return
    if not force:
        raise UsageError(f"{target} exists", hint="another --out, or --force to replace it")
    ours = {TOKENIZER_FILE, CORPUS_FILE, *SPLITS}
    if not target.is_dir():
        raise UsageError(f"--force will not replace {target}", why="it is not a corpus but a file")
    foreign = sorted(entry.name for entry in target.iterdir() if entry.name not in ours)
    if foreign:
        raise UsageError(f"--force will not replace {target}", why=f"it is not a corpus: it holds {foreign[0]}")


def _sync_tree(folder: Path) -> None:
    """Make sure that the content is on the disk before the name is."""
    for here, _, names in os.walk(folder):
        for path in (*(Path(here, name) for name in names), Path(here)):
            flush(path)
