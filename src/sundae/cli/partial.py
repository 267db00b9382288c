"""Finished translations beside the file that they will become, so that a long job that is cut short can go on."""

import json
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any
from zlib import crc32

from sundae.cli.writing import say
from sundae.decoding.lines import Kept
from sundae.decoding.written import Written
from sundae.errors import DataError
from sundae.model import Model


def fingerprint(model: Model) -> int:
    """A model's weights in a number: the same name may stand for one that was trained further."""
    found = 0
    for weight in model.network.state_dict().values():
        found = crc32(weight.detach().cpu().contiguous().numpy().tobytes(), found)
    return found


def _read(own: list[list[Any]]) -> list[Written]:
    """The translations of a line of the file; what cannot be them is a ValueError."""
    kinds = [tuple(map(type, each)) for each in own]
    if not own or any(each not in ((str, float, int, int), (str, int, int, int)) for each in kinds):
        raise ValueError(own)
    return [Written(*each) for each in own]


class Partial(Kept):
    """What was translated so far, in `OUTPUT.partial`; gone when the output is there.

    `made_of` says with what model and settings; what was made otherwise is neither taken nor lost.
    """

    def __init__(self, output: Path, *, made_of: Mapping[str, object]) -> None:
        super().__init__()
        self._path = output.resolve().with_name(f"{output.name}.partial")
        self._head = json.dumps(dict(made_of), sort_keys=True)
        self._begun = False

    def __enter__(self) -> "Partial":
        try:
            content = self._path.read_text(encoding="utf-8", errors="replace") if self._path.exists() else ""
        except OSError as error:
            raise DataError(f"cannot read {self._path}", why=error.strerror or str(error)) from None
        head, *lines = content.split("\n")[:-1] or [""]  # a torn last line goes
        if head != self._head and not self._head.startswith(content):
            why = "it is of another model, of other settings, or somebody else's"
            raise DataError(f"{self._path} is in the way", why=why, hint="remove it, or another -o")
        if head == self._head:
            for line in lines:
                try:
                    part, own = json.loads(line)
                    self.found[part] = _read(own)
                except (ValueError, TypeError):
                    break
            say(f"{len(self.found)} translations of an earlier try are taken from {self._path.name}")
        return self

    def add(self, found: Mapping[str, list[Written]]) -> None:
        """Keep what came now too."""
        known = {} if self._begun else dict(self.found)  # what is whole of an earlier file is written again
        lines = [] if self._begun else [self._head]
        for part, own in (known | dict(found)).items():
            written = [[each.text, each.score, each.steps, each.network_calls] for each in own]
            lines.append(json.dumps([part, written], ensure_ascii=False))
        try:
            with self._path.open("a" if self._begun else "w", encoding="utf-8") as file:
                file.write("".join(f"{line}\n" for line in lines))
        except OSError as error:
            raise DataError(f"cannot write {self._path}", why=error.strerror or str(error)) from None
        self._begun = True
        super().add(found)

    def __exit__(self, kind: type[BaseException] | None, _value: object, _trace: TracebackType | None) -> None:
        if kind is None:
            self._path.unlink(missing_ok=True)
        elif self._begun:
            say(f"{len(self.found)} translations are kept in {self._path}; the same command goes on from there")
