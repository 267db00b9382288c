"""What `generate`, `fill` and `refine` share: flags, and how texts are read and printed."""

import json
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import UseAppendAction, arg

from sundae.config import RuleName, SamplingConfig, ScheduleName
from sundae.errors import DataError, UsageError
from sundae.files import write_whole
from sundae.text.placeables import places

if TYPE_CHECKING:
    from sundae.baselines.models import AutoregressiveTwin, Draw
    from sundae.core.sampling import ChainState
    from sundae.decoding.constraints import Constraints
    from sundae.decoding.reading import Onlooker, Origin, Reading
    from sundae.decoding.trace import Recorder, TracedRow
    from sundae.decoding.written import Written
    from sundae.model import Model, Sundae


WRITER, TRANSLATOR = "everyday", "english-german"
"""The models that ship and are taken if none is named."""


@dataclass(frozen=True, kw_only=True)
class ModelFlags:
    """Which model, and where its words go."""

    model: Annotated[str, arg(metavar="NAME|DIR|HUB-ID")] = WRITER
    """A model that ships (`sundae models`), a folder, or an id on a hub (extra `hub`)."""
    seed: Annotated[int, arg(metavar="SEED")] = 0
    """The same seed writes the same texts."""
    threads: Annotated[int, arg(metavar="N")] = 0
    """CPU threads; 0 is OMP_NUM_THREADS, or as many as there are cores."""
    json: bool = False
    """One JSON object a line, with scores and costs."""
    output: Annotated[Path | None, arg(aliases=["-o"], metavar="FILE")] = None
    """Write to a file instead of standard output."""
    quiet: Annotated[bool, arg(aliases=["-q"])] = False
    """No progress."""

    def load_any(self) -> "Model":
        """The model, and torch with it."""
        from sundae.machine import keep_memory
        from sundae.model import load_model

        keep_memory()
        use_threads(self.threads)
        require_folder(self.output)
        return load_model(self.model)

    def load(self) -> "Sundae | AutoregressiveTwin":
        """The model, if it can write without a source."""
        from sundae.model import MaskPredictTranslator

        model = self.load_any()
        if isinstance(model, MaskPredictTranslator):
            raise UsageError(f"{self.model} only translates", why="a CMLM needs a source")
        return model

    def write(self, content: str) -> None:
        """Results to standard output, or as a whole to a file."""
        write_file(self.output or Path("-"), content)

    @contextmanager
    def progress(self, what: str, total: int) -> "Iterator[Callable[[int], None] | None]":
        """A bar on a terminal, if there is something to wait for."""
        if self.quiet or total < 2 or not sys.stderr.isatty():
            yield None
            return
        from rich.console import Console
        from rich.progress import Progress

        with Progress(console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task(what, total=total)
            yield lambda done: bar.update(task, completed=done)


def load_judge(name: str, model: "Model") -> "AutoregressiveTwin":
    """Who ranks a model's candidates instead of itself."""
    from sundae.model import AutoregressiveTwin, load_model

    judge = load_model(name)
    if not isinstance(judge, AutoregressiveTwin) or not judge.config.network.translates:
        why = "only an autoregressive translator knows how likely a translation is"
        raise UsageError(f"--judge {name}", why=why, hint="sundae train --network autoregressive")
    ways = [(each.config.data.source_language, each.config.data.target_language) for each in (judge, model)]
    if all(all(way) for way in ways) and ways[0] != ways[1]:
        why = "it translates {} to {}, and the model {} to {}".format(*ways[0], *ways[1])
        raise UsageError(f"--judge {name}", why=why)
    return judge


def require_folder(*files: Path | None) -> None:
    """Refuse, before any work is done, files that could not be written: without a folder, or one themselves."""
    for path in files:
        if path is None or str(path) == "-":
            continue
        if not path.resolve().parent.is_dir():
            parent = path.resolve().parent if path.is_symlink() else path.parent
            raise DataError(f"cannot write {path}", why=f"there is no folder {parent}")
        if path.is_dir():
            raise DataError(f"cannot write {path}", why="it is a folder")
        if not path.exists() or path.is_file():
            require_writable(path)


def require_others(outputs: Iterable[Path | None], inputs: Iterable[Path]) -> None:
    """Refuse to write over what is read."""
    for output, path in product(outputs, inputs):
        if output is not None and output.exists() and path.exists() and output.samefile(path):
            raise UsageError(f"cannot write {output}", why="that is one of the files to be read", hint="another file")


def require_writable(path: Path) -> None:
    """Refuse a place, or one yet to be made, in whose folder nothing can be written."""
    folder = path.resolve()
    while not folder.is_dir():
        folder = folder.parent
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise DataError(f"cannot write {path}", why=error.strerror or str(error)) from None


def write_file(path: Path, content: str) -> None:
    """A file is either written as a whole or left as it was; - is standard output, and a pipe is written to."""
    if str(path) in ("-", "/dev/stdout"):
        sys.stdout.write(content)
        return
    try:
        if path.exists() and not path.is_file():
            path.write_text(content, encoding="utf-8")
        else:
            write_whole(path.resolve(), content)
    except OSError as error:
        raise DataError(f"cannot write {path}", why=error.strerror or str(error)) from None


def say(line: str) -> None:
    """A remark, on standard error."""
    sys.stderr.write(f"sundae: {line}\n")


class Onlookers:
    """The animation and the recorders, one for each run of a chain, as one watch."""

    def __init__(self, shown: "Onlooker | None", *, traced: bool) -> None:
        self._shown, self._traced = shown, traced
        self._recorders: dict[Reading, Recorder] = {}
        self._recording: Recorder | None = None
        self._runs = 0

    def __bool__(self) -> bool:
        return self._shown is not None or self._traced

    def begin(self, reading: "Reading") -> None:
        """Be told how the canvas is read."""
        from sundae.decoding.trace import Recorder

        self._runs += 1
        if self._shown is not None and self._runs == 1:
            self._shown.begin(reading)
        if self._traced:
            assert reading.denoiser is not None, "a verb tells whoever records who can be asked"
            self._recording = self._recorders[reading] = Recorder(reading.denoiser, reading=reading)

    def __call__(self, state: "ChainState") -> None:
        """Show and keep a state."""
        if self._shown is not None and self._runs == 1:  # what is shown is the first text, not each batch's first
            self._shown(state)
        if self._recording is not None:
            self._recording(state)

    def row(self, origin: "Origin") -> "TracedRow":
        """What happened to one row of a run."""
        return self._recorders[origin.reading].row(origin.row, score=origin.score, source=origin.source)


@dataclass(frozen=True, kw_only=True)
class ChainFlags(ModelFlags):
    """How to run the chain; what is not given comes from the model's own settings."""

    steps: Annotated[int | None, arg(aliases=["-T"], metavar="T")] = None
    """Denoising steps; this and what follows as the model's settings say (fill: temperature at most 0.6; refine: 20
    steps, temperature 0.3)."""
    temperature: Annotated[float | None, arg(aliases=["-t"], metavar="TAU")] = None
    """Sampling temperature; 0 takes the likeliest token."""
    rule: RuleName | None = None
    """Step rule (docs/decoding.md)."""
    schedule: ScheduleName | None = None
    """How many tokens each step updates."""
    share: Annotated[float | None, arg(metavar="SHARE")] = None
    """The share of tokens that is updated at each step (schedule `share`)."""
    top_k: Annotated[int | None, arg(metavar="K")] = None
    """Draw only among the K likeliest tokens; 0 is all."""
    top_p: Annotated[float | None, arg(metavar="P")] = None
    """Draw only among the likeliest tokens that together have probability P."""
    ban: Annotated[UseAppendAction[tuple[str, ...]], arg(metavar="WORDS")] = ()
    """Words and phrases that may appear at no step, separated by commas; may be given several times."""
    watch: bool = False
    """Show every step on standard error; of several texts or candidates, the first one's."""
    trace: Annotated[Path | None, arg(metavar="FILE")] = None
    """Write every step of each text, with probabilities, as JSON."""
    html: Annotated[Path | None, arg(metavar="FILE")] = None
    """The same as a page to look at, which needs nothing else."""

    def load_any(self) -> "Model":
        """The model, if what it is to write has a place."""
        places = [path.resolve() for path in (self.output, self.trace, self.html) if path is not None]
        if len(set(places)) < len(places):
            raise UsageError("-o, --trace and --html", why="two of them name the same file")
        require_folder(self.trace, self.html)
        return super().load_any()

    def sampling(self, usual: SamplingConfig) -> SamplingConfig:
        """The usual settings with what was given on the command line."""
        names = ("steps", "temperature", "rule", "schedule", "share", "top_k", "top_p")
        given: dict[str, Any] = {name: getattr(self, name) for name in names if getattr(self, name) is not None}
        if self.share is not None:
            given.setdefault("schedule", "share")
        if self.temperature is not None:
            given["final_temperature"] = -1.0  # what was asked for, from the first step to the last
        return replace(usual, **given)

    @contextmanager
    def progress(self, what: str, total: int) -> "Iterator[Callable[[int], None] | None]":
        """A bar, but not where the chain itself is shown."""
        if self.watch:
            yield None
            return
        with super().progress(what, total) as bar:
            yield bar

    @contextmanager
    def onlookers(self, model: "Sundae", *, steps: int) -> "Iterator[Onlookers]":
        """Whoever watches the chain."""
        from sundae.cli.watching import watching

        with ExitStack() as stack:
            shown = stack.enter_context(watching(model.tokenizer, steps=steps)) if self.watch else None
            yield Onlookers(shown, traced=bool(self.trace or self.html))

    def save_trace(
        self, looking: "Onlookers", verb: str, sampling: SamplingConfig, origins: "Sequence[Origin]"
    ) -> None:
        """Write what the onlookers saw of these rows."""
        if self.trace is None and self.html is None:
            return
        if not origins:
            say("there is no trace: nothing was open, so no chain ran")
            return
        from sundae.decoding.trace import Trace
        from sundae.decoding.viewer import render_html

        trace = Trace(
            verb=verb,
            model=Path(self.model).name,
            seed=self.seed,
            sampling=asdict(sampling),
            rows=tuple(map(looking.row, origins)),
        )
        if self.trace is not None:
            write_file(self.trace, trace.to_json())
        if self.html is not None:
            write_file(self.html, render_html(trace))

    def draw(self, usual: "Draw") -> "Draw":
        """How a left-to-right model draws; what only the chain has is refused."""
        flags = {"steps", "rule", "schedule", "share", "ban", "watch", "trace", "html"}
        for name in sorted(flags):
            if getattr(self, name) not in (None, False, ()):
                raise UsageError(f"--{name}", why=f"{self.model} writes from left to right and has no denoising steps")
        names = ("temperature", "top_k", "top_p")
        given: dict[str, Any] = {name: getattr(self, name) for name in names if getattr(self, name) is not None}
        return replace(usual, **given)


@dataclass(frozen=True, kw_only=True)
class WritingFlags(ChainFlags):
    """Flags of the verbs that write new text."""

    count: Annotated[int, arg(name="n", aliases=["-n"], metavar="N")] = 1
    """How many texts; equal ones are merged when they are ranked, so there may be fewer."""
    must: Annotated[UseAppendAction[tuple[str, ...]], arg(metavar="WORDS")] = ()
    """Words that must appear, separated by commas, placed where the score is best; may be given several times."""

    def load(self) -> "Sundae | AutoregressiveTwin":
        """The model, if there is anything to write."""
        if self.count < 1:
            raise UsageError(f"-n {self.count}", why="must be at least 1")
        return super().load()

    def constraints(self, allow: Sequence[str] = ()) -> "Constraints":
        """What may not, must, or alone may appear."""
        from sundae.decoding.constraints import Constraints

        allowed: dict[int, tuple[str, ...]] = {}
        for number, words in map(_allowed, allow):
            allowed[number] = (*allowed.get(number, ()), *words)
        return Constraints(split_words(*self.ban), split_words(*self.must), allowed)

    def print(
        self, texts: "Sequence[Written]", *, mark: bool = False, context: Mapping[str, object] | None = None
    ) -> str:
        """One line for each text; a newline inside a text stays as it is, but for JSON."""
        lines: list[str] = []
        for written in texts:
            if self.json:
                figures = {
                    "score": round(written.score, 4),
                    "steps": written.steps,
                    "network_calls": written.network_calls,
                }
                fills = {"fills": [written.text[begin:end] for begin, end in written.fills]} if written.fills else {}
                content = {**(context or {}), "text": written.text, **fills, **figures}
                lines.append(json.dumps(content, ensure_ascii=False))
            else:
                lines.append(self._shown(written, mark))
        return "".join(f"{line}\n" for line in lines)

    def _shown(self, written: "Written", mark: bool) -> str:
        coloured = self.output is None and sys.stdout.isatty() and not os.environ.get("NO_COLOR")
        if not (mark or coloured):
            return written.text
        before, after = ("[", "]") if mark else ("\x1b[1;36m", "\x1b[0m")
        text = written.text
        for begin, end in reversed(written.fills):
            text = text[:begin] + before + text[begin:end] + after + text[end:]
        return text


def use_threads(count: int) -> None:
    """Run torch on `count` threads; 0 leaves it its own number, which is OMP_NUM_THREADS or else one for each core."""
    if count < 0:
        raise UsageError(f"--threads {count}", why="must not be negative")
    if count:
        import torch

        torch.set_num_threads(count)


def split_words(*lists: str) -> tuple[str, ...]:
    """Words and phrases between commas."""
    return tuple(word.strip() for listed in lists if listed for word in listed.split(","))


def _allowed(rule: str) -> tuple[int, tuple[str, ...]]:
    number, equals, words = rule.partition("=")
    if not equals or not number.strip().isdecimal():
        raise UsageError(
            f"--allow {rule}", why="must be the number of a blank and its words", hint="--allow 1=red,green"
        )
    return int(number), split_words(words)


def split_lines(text: str) -> list[str]:
    """Lines without what ends them, the last one's end being optional; an empty text has none."""
    return [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")] if text else []


def read_lines(argument: str) -> list[str]:
    """The text itself, or with `-` one text for each line of standard input."""
    if argument != "-":
        return [argument]
    lines = split_lines(read_all())
    found = [line for line in lines if line.strip()]
    if len(found) < len(lines) or not lines:
        say(f"{len(lines) - len(found)} blank lines were passed over" if lines else "standard input was empty")
    return found


def read_all() -> str:
    """All of standard input."""
    return _decoded(sys.stdin.buffer.read(), "standard input")


_LIKE_A_FILE = re.compile(
    r"(\.{0,2}|~)/\S*"
    r"|\S+\.((?i:txt|md|tsv|csv|jsonl?|docx?|odt|rtf|pdf|html?|xml|xliff?|xlf|po|srt|vtt|ya?ml|gz|src|tgt|ref|hyp)"
    r"|[a-z]{2})"  # a language: train.en
)


def read_text(argument: str) -> str:
    """The text itself, the content of the file of that name, or with `-` standard input."""
    if argument == "-":
        return read_all()
    if not argument:
        return "\n"  # one line, with nothing in it
    try:
        if Path(argument).is_dir():
            raise DataError(f"{argument} is a folder", why="a file or a text is wanted")
        if not Path(argument).exists():
            in_a_folder = "/" in argument and not re.search(r"\s", argument) and Path(argument).parent.is_dir()
            if (_LIKE_A_FILE.fullmatch(argument) or in_a_folder) and not places(argument):
                raise DataError(f"there is no file {argument}", hint="- and standard input, if it is a text")
            return argument
    except OSError:  # longer than any file name
        return argument
    return read_file(Path(argument))


def is_file(text: str) -> bool:
    """Whether a text is the name of a file."""
    try:
        return bool(text) and Path(text).is_file()
    except OSError:  # longer than any file name
        return False


def read_file(path: Path) -> str:
    """The content of a file, with its ends of lines as they are."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DataError(f"cannot read {path}", why=error.strerror or str(error)) from None
    return _decoded(content, str(path))


def _decoded(content: bytes, name: str) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        why, hint = f"byte {error.start}: {error.reason}", "iconv -f LATIN1 -t UTF-8, if that is what it is"
        raise DataError(f"{name} is not valid UTF-8", why=why, hint=hint) from None
