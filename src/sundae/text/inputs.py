"""The files that a corpus is made from: found, opened, decompressed and decoded."""

import codecs
import gzip
import io
import os
import shutil
import stat
import sys
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal, cast

from sundae.errors import DataError
from sundae.text.envelope import FILE_NAME as TOKENIZER_FILE

Format = Literal["txt", "tsv", "jsonl", "json"]
STANDARD_INPUT = "-"

_FORMATS: dict[str, Format] = {".txt": "txt", ".tsv": "tsv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "json"}
_CHUNK = 1 << 18


@dataclass(frozen=True)
class InputFile:
    """A file to read, what the user called it, and what is in it."""

    path: Path
    name: str
    format: Format
    size: int
    compressed: bool

    def chunks(self, watch: Callable[[bytes], object] | None = None) -> Iterator[str]:
        """The text, in chunks; `watch` sees the bytes of the file as they are read."""
        decoder = codecs.getincrementaldecoder("utf-8")()
        position = 0
        first = True
        try:
            with _open(self.path, compressed=self.compressed, watch=watch) as file:
                while True:
                    data = file.read(_CHUNK)
                    waiting = len(decoder.getstate()[0])
                    try:
                        text = decoder.decode(data, final=not data)
                    except UnicodeDecodeError as error:
                        raise DataError(
                            f"{self.name} is not UTF-8 text",
                            why=f"byte {position - waiting + error.start}"
                            f"{' of the decompressed text' if self.compressed else ''}: {error.reason}",
                            hint=f"iconv -f LATIN1 -t UTF-8 {self.name}, if that is what it is",
                        ) from None
                    position += len(data)
                    if first and text:
                        text = text.removeprefix("\ufeff")  # the byte order mark of some editors
                        first = False
                    if text:
                        yield text
                    if not data:
                        return
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise DataError(f"cannot decompress {self.name}", why=str(error)) from None
        except OSError as error:
            raise DataError(f"cannot read {self.name}", why=error.strerror or str(error)) from None


def find_inputs(paths: Sequence[Path], *, format: Format | None, spool: Path) -> list[InputFile]:  # noqa: A002
    """All files that are named or lie in named folders, in order; what can be read only once is copied to `spool`."""
    found: list[InputFile] = []
    for path in paths:
        try:
            found.extend(_find(path, format=format, spool=spool))
        except OSError as error:
            raise DataError(f"cannot read {path}", why=error.strerror or str(error)) from None
    return found


def _find(path: Path, *, format: Format | None, spool: Path) -> Iterator[InputFile]:  # noqa: A002
    if str(path) == STANDARD_INPUT:
        copy = _spooled(sys.stdin.buffer, spool)
        yield _described(copy, name="standard input", format=format, suffixes=[])
        return
    mode = path.stat().st_mode
    if stat.S_ISDIR(mode):
        yield from _find_in_folder(path, format=format)
    elif stat.S_ISREG(mode):
        yield _described(path, name=str(path), format=format, suffixes=path.suffixes)
    elif stat.S_ISFIFO(mode) or stat.S_ISCHR(mode):
        with path.open("rb") as stream:
            copy = _spooled(stream, spool)
        yield _described(copy, name=str(path), format=format, suffixes=[])
    else:
        raise DataError(f"cannot read {path}", why="it is neither a file nor a folder")


def _find_in_folder(folder: Path, *, format: Format | None) -> Iterator[InputFile]:  # noqa: A002
    def refuse(error: OSError) -> None:
        raise error

    found = False
    for here, folders, names in os.walk(folder, onerror=refuse):
        if TOKENIZER_FILE in names and "corpus.json" in names:
            folders.clear()  # a corpus that was prepared earlier
            continue
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            path = Path(here, name)
            if name.startswith(".") or _format(path.suffixes) is None or path.stat().st_size == 0:
                continue
            found = True
            yield _described(path, name=str(path), format=format, suffixes=path.suffixes)
    if not found:
        raise DataError(
            f"no text in the folder {folder}", why=f"no file ends in {', '.join(_FORMATS)}, or one of these and .gz"
        )


def _described(path: Path, *, name: str, format: Format | None, suffixes: list[str]) -> InputFile:  # noqa: A002
    size = path.stat().st_size
    if size == 0:
        raise DataError(f"{name} is empty")
    # A file that is named, not found, may end in anything: train.en is text.
    return InputFile(
        path=path,
        name=name,
        format=format or _format(suffixes) or "txt",
        size=size,
        compressed=suffixes[-1:] == [".gz"],
    )


def _format(suffixes: list[str]) -> Format | None:
    kept = suffixes[:-1] if suffixes[-1:] == [".gz"] else suffixes
    return _FORMATS.get(kept[-1].lower()) if kept else None


def _spooled(stream: BinaryIO, spool: Path) -> Path:
    spool.mkdir(exist_ok=True)
    copy = spool / f"{len(list(spool.iterdir()))}"
    try:
        with copy.open("wb") as file:
            shutil.copyfileobj(stream, file, _CHUNK)
    except OSError as error:
        raise DataError("cannot keep a copy of the standard input", why=error.strerror or str(error)) from None
    return copy


@contextmanager
def _open(path: Path, *, compressed: bool, watch: Callable[[bytes], object] | None) -> Iterator[BinaryIO]:
    with io.BufferedReader(_Watched(path, watch), _CHUNK) as raw:
        if compressed:
            with gzip.GzipFile(fileobj=raw) as text:
                yield cast(BinaryIO, text)
        else:
            yield raw


class _Watched(io.RawIOBase):
    """A file whose bytes are shown to someone as they pass."""

    def __init__(self, path: Path, watch: Callable[[bytes], object] | None) -> None:
        super().__init__()
        self._file = path.open("rb", buffering=0)
        self._watch = watch

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # pyright: ignore[reportIncompatibleMethodOverride]
        count = self._file.readinto(buffer)
        if self._watch is not None and count:
            self._watch(bytes(buffer[:count]))
        return count

    def close(self) -> None:
        self._file.close()
        super().close()
