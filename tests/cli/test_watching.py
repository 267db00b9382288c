"""`--watch` in a terminal and outside of one."""

import io
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

import pytest
import torch

from sundae.cli import watching as module
from sundae.cli.watching import Animation, Lines, printable, watching
from sundae.core.length import PAD
from sundae.core.sampling import ChainState
from sundae.decoding.canvas import Canvas
from sundae.decoding.reading import Onlooker, Reading, Stretch
from sundae.text.byte_bpe import train_byte_bpe

TOKENIZER = train_byte_bpe(["the cat naps and the dog sees the cat"] * 20, vocabulary_size=290)
ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


class Clock:
    """Time that passes only while somebody sleeps, or by itself for each look at it."""

    def __init__(self, tick: float = 0.0) -> None:
        self.now, self.tick, self.slept = 0.0, tick, list[float]()

    def monotonic(self) -> float:
        self.now += self.tick
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "COLORTERM", "LINES"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "60")
    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    return clock


def states(*texts: str, finished: int | None = None) -> list[ChainState]:
    """A chain of one row that says these texts, each on a canvas of 40 positions."""
    rows = [[*TOKENIZER.encode(text), *[PAD] * 40][:40] for text in texts]
    found: list[ChainState] = []
    for step, row in enumerate(rows):
        tokens = torch.tensor([row])
        changed = tokens != torch.tensor([rows[max(0, step - 1)]])
        done = torch.tensor([finished is not None and step >= finished])
        found.append(ChainState(step, tokens, changed, done, torch.zeros(tokens.shape), torch.tensor([step]), step))
    return found


def played(stream: io.StringIO, chain: Iterable[ChainState], reading: Reading | None = None) -> str:
    with watching(TOKENIZER, steps=20, stream=stream) as watch:
        if reading is not None:
            watch.begin(reading)
        for state in chain:
            watch(state)
    return stream.getvalue()


CHAIN = states("the cat sees", "the dog sees", "the dog naps")


def test_without_a_terminal_there_is_one_plain_line_for_each_step(clock: Clock):
    said = played(io.StringIO(), CHAIN)
    assert (
        said == "   0   0 changed  'the cat sees'\n   1   1 changed  'the dog sees'\n   2   1 changed  'the dog naps'\n"
    )
    assert clock.slept == []


def test_a_dumb_terminal_gets_lines(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TERM", "dumb")
    assert played(Terminal(), CHAIN) == played(io.StringIO(), CHAIN)


def test_colour_that_is_forced_does_not_make_a_file_a_terminal(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b" not in played(io.StringIO(), CHAIN)


def test_standard_error_is_where_it_goes(capsys: pytest.CaptureFixture[str]):
    with watching(TOKENIZER, steps=3) as watch:
        watch(CHAIN[0])
    said = capsys.readouterr()
    assert said.out == ""
    assert "'the cat sees'" in said.err


def test_the_text_is_redrawn_in_place_with_what_changed_marked():
    said = played(Terminal(), CHAIN)
    assert re.search(r"the \x1b\[1;4;36mdog\x1b\[0m sees", said)
    assert re.search(r"the dog \x1b\[1;4;36mnaps\x1b\[0m", said)
    assert "step  2/20  1 changed" in said
    assert said.count("\x1b[1A") >= 2  # the cursor goes up again
    assert said.index("\x1b[?25l") < said.rindex("\x1b[?25h")  # the cursor is hidden, and comes back


def test_the_cursor_comes_back_after_an_interrupt():
    def interrupted() -> Iterator[ChainState]:
        yield CHAIN[0]
        raise KeyboardInterrupt

    stream = Terminal()
    with pytest.raises(KeyboardInterrupt):
        played(stream, interrupted())
    assert stream.getvalue().endswith("\x1b[?25h")


def test_no_color_leaves_bold_and_underline(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("NO_COLOR", "1")
    said = played(Terminal(), CHAIN)
    codes = {code for run in re.findall(r"\x1b\[([0-9;]*)m", said) for code in run.split(";")}
    assert codes <= {"0", "1", "2", "4", ""}
    assert "\x1b[1;4mdog\x1b[0m" in said


def test_what_was_given_is_dim_and_shown_as_it_was_written():
    canvas = Canvas.empty(40, rows=1)
    editable = canvas.editable.clone()
    given = len(TOKENIZER.encode("the"))
    editable[0, :given] = False
    reading = Reading(
        TOKENIZER,
        canvas=replace(canvas, editable=editable),
        stretches=[[Stretch(given, "THE"), Stretch(40 - given, leading_space=True)]],
    )
    assert "\x1b[2mTHE\x1b[0m \x1b[1;4;36mdog\x1b[0m sees" in played(Terminal(), CHAIN, reading)
    assert "'THE dog sees'" in played(io.StringIO(), CHAIN, reading)


def test_a_finished_row_is_shown_no_longer():
    chain = states("the cat", "the dog", "the dog", "the dog", finished=2)
    assert len(played(io.StringIO(), chain).splitlines()) == 3
    said = played(Terminal(), chain)
    assert "settled" in said
    assert " 3/20" not in said


def test_the_next_chain_is_shown_again():
    stream, reading = io.StringIO(), Reading(TOKENIZER, canvas=Canvas.empty(40, rows=1))
    with watching(TOKENIZER, steps=20, stream=stream) as watch:
        for _ in range(2):
            watch.begin(reading)
            for state in states("the cat", "the dog", "the dog", finished=1):
                watch(state)
    assert [line.split()[0] for line in stream.getvalue().splitlines()] == ["0", "1", "0", "1"]


def test_long_texts_wrap(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "24")
    said = played(Terminal(), states("the cat naps and the dog sees the cat and the cat"))
    lines = [line for line in ESCAPE.sub("", said).replace("\r", "\n").splitlines() if line.strip()]
    assert max(map(len, lines)) <= 24
    assert " ".join(" ".join(lines).split()).endswith("the cat naps and the dog sees the cat and the cat")


def test_a_text_cannot_command_the_terminal():
    said = played(Terminal(), states("the \x1b[2J\x1b]0;x\x07 cat \r\x9b"))
    assert "\x1b[2J" not in said
    assert "\x1b]0" not in said
    assert "\x07" not in said
    assert "\x9b" not in said
    assert "␛[2J␛]0;x␇" in said


def test_pictures_stand_for_what_cannot_be_printed():
    assert printable("a\tb\nc\x00é猫\u202e\u00a0\u2003\x7f") == "a␉b↵\nc␀é猫\ufffd\ufffd \ufffd"
    assert printable("👩\u200d🚀") == "👩\u200d🚀"


def test_steps_can_be_seen_but_a_long_chain_does_not_wait_for_ever(clock: Clock):
    played(Terminal(), CHAIN)
    assert clock.slept == [0.0, module.FRAME, module.FRAME]
    clock.slept.clear()
    with watching(TOKENIZER, steps=1000, stream=Terminal()) as watch:
        for _ in range(1000):
            watch(CHAIN[1])
    assert module.PATIENCE * 0.9 < sum(clock.slept) <= module.PATIENCE


def test_a_slow_chain_waits_for_nothing(clock: Clock):
    clock.tick = 1.0
    played(Terminal(), CHAIN)
    assert sum(clock.slept) == 0.0


def test_both_want_to_know_what_they_look_at():
    assert isinstance(Lines(TOKENIZER, io.StringIO()), Onlooker)
    assert issubclass(Animation, Onlooker)
