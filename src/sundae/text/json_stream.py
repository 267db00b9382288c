"""A JSON array read item by item, so that the file may be larger than the memory."""

import json
from collections.abc import Iterable, Iterator

from sundae.errors import DataError

LONGEST_ITEM = 1 << 24  # in characters
_BLANKS = " \t\n\r"


def read_items(chunks: Iterable[str], *, where: str, longest: int = LONGEST_ITEM) -> Iterator[object]:
    """The items of a top-level array, whose text arrives in chunks."""
    window = _Window(iter(chunks), where=where, longest=longest)
    if window.next_mark() != "[":
        raise window.error(
            "the file is not a JSON list", hint='[{"text": "..."}, ...], or .jsonl with one item per line'
        )
    window.skip(1)
    if window.next_mark() == "]":
        window.skip(1)
    else:
        while True:
            yield window.item()
            mark = window.next_mark()
            if mark not in (",", "]"):
                raise window.error(f"{mark!r} stands where a comma or ] should" if mark else "the list is not closed")
            window.skip(1)
            if mark == "]":
                break
    if window.next_mark():
        raise window.error("something follows the list")


class _Window:
    """The part of the text that is being read; what was read is let go."""

    def __init__(self, chunks: Iterator[str], *, where: str, longest: int) -> None:
        self._chunks, self._where, self._longest = chunks, where, longest
        self._text = ""
        self._at = 0  # the next character within _text
        self._dropped = 0  # how many characters stood before _text
        self._decoder = json.JSONDecoder()

    def error(self, why: str, *, hint: str = "") -> DataError:
        return DataError(f"{self._where}, character {self._dropped + self._at}", why=why, hint=hint)

    def skip(self, count: int) -> None:
        self._at += count

    def next_mark(self) -> str:
        """The next character that is not blank, which stays; empty at the end of the text."""
        while True:
            while self._at < len(self._text) and self._text[self._at] in _BLANKS:
                self._at += 1
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._grow(1):
                return ""

    def item(self) -> object:
        """The value that begins at the next mark."""
        self.next_mark()
        failure = ""
        while True:
            ended = False
            try:
                value, end = self._decoder.raw_decode(self._text, self._at)
                # A number at the edge may go on in the next chunk.
                if end < len(self._text):
                    self._at = end
                    return value
                ended = True
            except json.JSONDecodeError as error:
                failure = f"not valid JSON: {error.msg}"
            except RecursionError:
                raise self.error("the item is nested too deeply") from None
            except ValueError as error:
                raise self.error(str(error)) from None
            size = len(self._text) - self._at
            if size > self._longest:
                raise self.error(f"the item is longer than {self._longest:,} characters, or not valid JSON")
            # Doubling keeps the time linear although each attempt begins anew.
            if not self._grow(size):
                if ended:
                    self._at = len(self._text)
                    raise self.error("the list is not closed")
                raise self.error(failure)

    def _grow(self, count: int) -> bool:
        """Read at least `count` characters more, as far as there are any."""
        parts = [self._text[self._at :]]
        size = 0
        while size < max(1, count):
            chunk = next(self._chunks, None)
            if chunk is None:
                break
            parts.append(chunk)
            size += len(chunk)
        self._dropped += self._at
        self._text, self._at = "".join(parts), 0
        return size > 0
