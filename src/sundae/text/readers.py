"""Documents, sentences and pairs out of .txt, .tsv, .jsonl and .json files."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, zip_longest
from typing import Literal, cast

from sundae.errors import DataError, UsageError
from sundae.text.inputs import Format, InputFile
from sundae.text.json_stream import LONGEST_ITEM, read_items
from sundae.text.pieces import (
    LONGEST_PIECE,
    Piece,
    Record,
    cut_stretches,
    gather_records,
    safe_cut,
    split_lines,
    split_paragraphs,
)

DocumentSplit = Literal["file", "paragraph", "line"]
Watch = Callable[[InputFile, bytes], object]

_USUAL_KEYS = ("text", "s")
_STRUCTURED: tuple[Format, ...] = ("tsv", "jsonl", "json")


def read_documents(
    file: InputFile, *, split: DocumentSplit, field: str = "", watch: Watch | None = None
) -> Iterator[Piece]:
    """The documents of one file, in pieces; a record of a structured file is a document."""
    if file.format in _STRUCTURED:
        for (text,) in _read_fields(file, (field,), watch=watch):
            yield from cut_stretches((text, None))
        return
    chunks = _chunks(file, watch)
    match split:
        case "file":
            yield from cut_stretches(chain(chunks, (None,)))
        case "paragraph":
            yield from cut_stretches(split_paragraphs(split_lines(chunks)))
        case "line":
            yield from split_lines(chunks)


def read_sentences(file: InputFile, *, field: str = "", watch: Watch | None = None) -> Iterator[Record]:
    """One record for each line of text or each record of a structured file."""
    yield from gather_records(read_documents(file, split="line", field=field, watch=watch))


def read_pairs(
    files: Sequence[InputFile], *, fields: tuple[str, str] = ("", ""), watch: Watch | None = None
) -> Iterator[tuple[Record, Record]]:
    """Pairs of source and target: the lines of two text files, or two fields of each record."""
    if all(file.format in _STRUCTURED for file in files):
        for file in files:
            for source, target in _read_fields(file, fields, watch=watch):
                yield _record(source), _record(target)
        return
    if len(files) != 2 or any(file.format in _STRUCTURED for file in files):
        raise UsageError(
            f"cannot pair {', '.join(file.name for file in files)}",
            why="parallel text is two text files, line by line, or tables with a source and a target in each line",
            hint="sundae prepare parallel train.en train.de, or sundae prepare parallel pairs.tsv",
        )
    yield from _read_two(files[0], files[1], watch=watch)


def _read_two(source: InputFile, target: InputFile, *, watch: Watch | None) -> Iterator[tuple[Record, Record]]:
    sides = (read_sentences(source, watch=watch), read_sentences(target, watch=watch))
    for count, (left, right) in enumerate(zip_longest(*sides)):
        if left is None or right is None:
            # The longer side has given one line more than the shorter; its remaining ones are counted for the message.
            longer = count + 1 + sum(1 for side in sides for _ in side)
            counts = (longer, count) if right is None else (count, longer)
            raise DataError(
                "the two sides are not parallel",
                why=f"{source.name} has {counts[0]:,} lines, {target.name} has {counts[1]:,}",
            )
        yield left, right


def _record(text: str) -> Record:
    whole = len(text) <= LONGEST_PIECE
    return Record((text if whole else text[: safe_cut(text, 0, LONGEST_PIECE)]).strip(), whole)


def _chunks(file: InputFile, watch: Watch | None) -> Iterator[str]:
    return file.chunks(None if watch is None else lambda data: watch(file, data))


def _read_fields(file: InputFile, fields: tuple[str, ...], *, watch: Watch | None) -> Iterator[tuple[str, ...]]:
    chunks = _chunks(file, watch)
    if file.format == "tsv":
        columns = _columns(fields, name=file.name)
        for number, line in _whole_lines(chunks, file.name):
            yield _pick_columns(line.split("\t"), columns, where=f"{file.name}, line {number}")
        return
    for where, item in _items(chunks, file):
        yield tuple(_checked_text(text, where) for text in _pick_keys(item, fields, where=where))


def _items(chunks: Iterable[str], file: InputFile) -> Iterator[tuple[str, object]]:
    if file.format == "json":
        for number, item in enumerate(read_items(chunks, where=file.name), start=1):
            yield f"{file.name}, item {number}", item
        return
    for number, line in _whole_lines(chunks, file.name):
        where = f"{file.name}, line {number}"
        if not line.strip():
            continue
        try:
            yield where, json.loads(line)
        except (ValueError, RecursionError) as error:
            raise DataError(where, why=f"not valid JSON: {error}") from None


def _whole_lines(chunks: Iterable[str], name: str) -> Iterator[tuple[int, str]]:
    for number, piece in enumerate(split_lines(chunks, longest=LONGEST_ITEM), start=1):
        if not piece.last:
            raise DataError(f"{name}, line {number}", why=f"is longer than {LONGEST_ITEM:,} characters")
        yield number, piece.text


def _columns(fields: tuple[str, ...], *, name: str) -> tuple[int, ...]:
    chosen: list[int] = []
    for default, field in enumerate(fields, start=1):
        if field and not (field.isascii() and field.isdigit() and 1 <= int(field[:9]) <= 1000):
            raise UsageError(f"--field {field}", why=f"{name} is a table: its fields are column numbers from 1")
        chosen.append(int(field or default))
    return tuple(chosen)


def _pick_columns(cells: list[str], columns: tuple[int, ...], *, where: str) -> tuple[str, ...]:
    if cells == [""]:
        return ("",) * len(columns)  # a blank line is dropped and counted with the other empty ones
    if len(cells) < max(columns):
        raise DataError(where, why=f"has {len(cells)} columns, column {max(columns)} is wanted")
    return tuple(cells[column - 1] for column in columns)


def _pick_keys(item: object, fields: tuple[str, ...], *, where: str) -> tuple[object, ...]:
    if isinstance(item, str) and fields == ("",):
        return (item,)
    if isinstance(item, list) and len(fields) == 2 == len(item) and not any(fields):
        return tuple(cast(list[object], item))
    if not isinstance(item, dict):
        raise DataError(where, why=f"is a {type(item).__name__}, not a text or an object with a text")
    record = cast(dict[str, object], item)
    if not any(fields):
        if len(fields) == 2:
            raise UsageError(
                f"{where} has the keys {_listed(record)}",
                why="it is not known which are source and target",
                hint="--field en,de",
            )
        fields = tuple(key for key in _USUAL_KEYS if key in record)[:1]
    missing = [field for field in fields if field not in record]
    if missing or not fields:
        raise DataError(
            where,
            why=f"has no {' or '.join(map(repr, missing or _USUAL_KEYS))} among its keys {_listed(record)}",
            hint="--field KEY",
        )
    return tuple(record[field] for field in fields)


def _listed(record: dict[str, object]) -> str:
    keys = [repr(key[:40]) for key in list(record)[:8]]
    return ", ".join(keys) or "(none)"


def _checked_text(text: object, where: str) -> str:
    if not isinstance(text, str):
        raise DataError(where, why=f"its text is a {type(text).__name__}")
    if not text.isascii():
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as error:
            raise DataError(where, why=f"its text has a lone surrogate at character {error.start}") from None
    return text
