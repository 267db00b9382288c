"""Cutting streams of text into pieces of bounded size, so that no file is too large."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

LONGEST_PIECE = 16_384  # in characters: small enough for a fair validation split, large enough to encode quickly

# Blanks at which a cut leaves the tokens as they were; other Unicode spaces are rarer, and not cutting there is safe.
_CUTTABLE = (" ", "\n", "\t")
_NOT_BLANK = "\x1c\x1d\x1e\x1f"  # blank to Python, not to the pre-tokeniser


class Piece(NamedTuple):
    """A part of a document; `last` when the document ends with it.  (A tuple, as there are millions of them.)"""

    text: str
    last: bool


Stretch = str | None  # a part of a document, of any size, or None after its last one


def safe_cut(text: str, start: int, end: int) -> int:
    """The last place up to `end` where a word ends and whitespace begins; `end` itself where there is none.

    No tokenizer here has tokens that reach from a word into the whitespace after it, so cutting there changes none.
    """
    cut = max(text.rfind(blank, start, end + 1) for blank in _CUTTABLE)
    while cut > start and text[cut - 1].isspace() and text[cut - 1] not in _NOT_BLANK:
        cut -= 1
    return cut if cut > start else end


def cut_stretches(stretches: Iterable[Stretch], *, longest: int = LONGEST_PIECE) -> Iterator[Piece]:
    """Documents as pieces; together the pieces are exactly the documents."""
    waiting: list[str] = []
    size = 0
    for stretch in stretches:
        if stretch is not None:
            waiting.append(stretch)
            size += len(stretch)
            if size <= longest:
                continue
        text = "".join(waiting)
        start = 0
        while len(text) - start > longest:
            cut = safe_cut(text, start, start + longest)
            yield Piece(text[start:cut], last=False)
            start = cut
        if stretch is None:
            yield Piece(text[start:], last=True)
            waiting, size = [], 0
        else:
            waiting, size = [text[start:]], len(text) - start


def split_lines(chunks: Iterable[str], *, longest: int = LONGEST_PIECE) -> Iterator[Piece]:
    """Lines as pieces, without their line breaks; only \\n and \\r\\n break lines, so that parallel files agree."""
    rest = ""
    begun = False  # whether a part of the current line was given already
    for chunk in chunks:
        *lines, rest = (rest + chunk).split("\n")
        for line in lines:
            yield from _cut_line(line.removesuffix("\r"), longest=longest)
        begun = begun and not lines
        while len(rest) > 2 * longest:
            cut = safe_cut(rest, 0, longest)
            yield Piece(rest[:cut], last=False)
            rest = rest[cut:]
            begun = True
    if rest or begun:
        yield from _cut_line(rest.removesuffix("\r"), longest=longest)


def _cut_line(line: str, *, longest: int) -> Iterator[Piece]:
    if len(line) <= longest:
        return iter((Piece(line, last=True),))
    return cut_stretches((line, None), longest=longest)


def split_paragraphs(lines: Iterable[Piece]) -> Iterator[Stretch]:
    """Documents that blank lines keep apart."""
    inside, fresh = False, True
    for piece in lines:
        if fresh and piece.last and not piece.text.strip():
            if inside:
                yield None
            inside = False
        else:
            yield ("\n" if inside and fresh else "") + piece.text
            inside = True
        fresh = piece.last
    if inside:
        yield None


class Record(NamedTuple):
    """One sentence of a corpus; not `whole` when it was so long that only its beginning was kept."""

    text: str
    whole: bool


def gather_records(pieces: Iterable[Piece]) -> Iterator[Record]:
    """Each document as one record, which keeps no more than its first piece."""
    first: str | None = None
    for piece in pieces:
        if first is None:
            if piece.last:
                yield Record(piece.text.strip(), whole=True)
                continue
            first = piece.text
        elif piece.last:
            yield Record(first.strip(), whole=False)
            first = None
