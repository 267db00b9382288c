"""`--watch`: a chain at work in the terminal, the text redrawn in place at every step."""

import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from sundae.decoding.canvas import Canvas
from sundae.decoding.reading import Reading, Shown

if TYPE_CHECKING:
    from sundae.core.sampling import ChainState
    from sundae.text.tokenizer import Tokenizer

FRAME = 1 / 8
"""Seconds for which a step can be seen at first."""
PATIENCE = 6.0
"""Seconds that all steps together may wait: in a long chain they go by faster and faster."""

CHANGED, GIVEN, FACT = "bold underline cyan", "dim", "dim"


@contextmanager
def watching(tokenizer: "Tokenizer", *, steps: int, stream: TextIO | None = None) -> Iterator["Lines | Animation"]:
    """A Watch of the first row: an animation where the stream (standard error) is a terminal, lines elsewhere."""
    out: TextIO = sys.stderr if stream is None else stream
    console = Console(file=out, highlight=False, emoji=False, markup=False)
    if not out.isatty() or console.is_dumb_terminal:
        yield Lines(tokenizer, out)
        return
    with Live(console=console, auto_refresh=False, redirect_stdout=False, redirect_stderr=False) as live:
        yield Animation(tokenizer, live, steps=steps)


class _FirstRow(ABC):
    """What both ways to show a chain share: how its first row is read, until it is finished."""

    def __init__(self, tokenizer: "Tokenizer") -> None:
        self._tokenizer = tokenizer
        self._reading: Reading | None = None
        self._finished = False

    def begin(self, reading: Reading) -> None:
        """A chain begins: be told what is locked in it, and which text was given."""
        self._reading, self._finished = reading, False

    def __call__(self, state: "ChainState") -> None:
        """Show a step."""
        if self._finished:
            return
        self._finished = bool(state.finished[0])
        rows, width = state.tokens.shape
        reading = self._reading or Reading(self._tokenizer, canvas=Canvas.empty(width, rows=rows))
        self._show(state, reading.read(state.tokens[0], row=0), locked=reading.locked[0].tolist())

    @abstractmethod
    def _show(self, state: "ChainState", shown: Shown, *, locked: Sequence[bool]) -> None: ...


class Lines(_FirstRow):
    """One line a step."""

    def __init__(self, tokenizer: "Tokenizer", stream: TextIO) -> None:
        super().__init__(tokenizer)
        self._stream = stream

    def _show(self, state: "ChainState", shown: Shown, *, locked: Sequence[bool]) -> None:  # noqa: ARG002
        changed = int(state.changed[0].sum())
        self._stream.write(f"{state.step:>4} {changed:>3} changed  {shown.text!r}\n")


class Animation(_FirstRow):
    """The text in place, with what has changed marked and what was given dim."""

    def __init__(self, tokenizer: "Tokenizer", live: Live, *, steps: int) -> None:
        super().__init__(tokenizer)
        self._live, self._steps = live, steps
        self._patience, self._due = PATIENCE, 0.0

    def _show(self, state: "ChainState", shown: Shown, *, locked: Sequence[bool]) -> None:
        pause = max(0.0, self._due - time.monotonic())
        self._patience -= pause
        time.sleep(pause)
        changed: list[bool] = state.changed[0].tolist()
        text = Text(overflow="fold")
        for place, token in enumerate(shown.tokens[: shown.length]):
            body = token.lstrip(" ")
            text.append(token[: len(token) - len(body)])  # an underlined space would look like a token
            text.append(printable(body), CHANGED if changed[place] else GIVEN if locked[place] else "")
        step = f"{state.step:>{len(str(self._steps))}}/{self._steps}"
        facts = f"step {step}  {sum(changed)} changed{'  settled' if self._finished else ''}"
        self._live.update(Group(Text(facts, FACT), text), refresh=True)
        self._due = time.monotonic() + min(FRAME, self._patience / 16)


def printable(text: str) -> str:
    """The text as a terminal may show it: what would move its cursor or change its state becomes a picture."""
    return "".join(map(_printable, text))


def _printable(character: str) -> str:
    if character == "\n":
        return "↵\n"
    if character.isprintable() or character in "\N{ZERO WIDTH JOINER}\N{ZERO WIDTH NON-JOINER}":
        return character
    if character.isspace() and ord(character) > 0xA0:
        return " "
    return chr(0x2400 + ord(character)) if ord(character) < 32 else "\N{REPLACEMENT CHARACTER}"
