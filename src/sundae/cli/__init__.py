"""The command line: `sundae VERB ...`.  A verb's module, and torch, are imported only when that verb runs."""

import contextlib
import importlib
import io
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path

import sundae
from sundae.config import nearest
from sundae.errors import DataError, SundaeError, UsageError

# Each verb is the class Command of the module of that name: its fields are the arguments, `run` does the work.
VERBS = {
    "prepare": "text files to a corpus of tokens",
    "train": "a corpus to a model; the same command resumes",
    "distill": "a corpus whose targets are a teacher's translations",
    "generate": "a model's texts, from nothing or from a prompt",
    "fill": "a template with its blanks filled from both sides",
    "refine": "a draft, improved; or its least likely tokens",
    "translate": "lines of one language to lines of another",
    "evaluate": "a model's translations or fills, or any samples, measured",
    "demo": "what the models that ship can do",
    "push": "a model folder, to a hub",
    "doctor": "what this machine and installation can do",
    "models": "the models that ship with the package",
    "info": "a preset or a model: its settings and its number of parameters",
}

_HELP = f"""usage: sundae VERB [ARGUMENTS]

Train and run non-autoregressive text models (SUNDAE, ICLR 2022).

verbs:
{chr(10).join(f"  {verb:<10}{summary}" for verb, summary in VERBS.items())}

  sundae VERB --help   what a verb takes
  sundae --version     the version

exit codes: 0 ok, 1 bug, 2 usage, 3 data or checkpoint, 4 missing capability, 130 interrupted, 143 by SIGTERM
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit code is the result."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in arguments
    _open_what_is_closed()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8")  # whatever the locale can write
    try:
        _dispatch([argument for argument in arguments if argument != "--debug"])
        sys.stdout.flush()  # here, so that a broken pipe is met below and not while Python exits
    except SundaeError as error:
        if debug:
            raise
        print(f"sundae: {error.line()}", file=sys.stderr)  # noqa: T201
        return error.exit_code
    except KeyboardInterrupt:
        print("sundae: interrupted", file=sys.stderr)  # noqa: T201
        return 130
    except OSError as error:
        if debug:
            raise
        # What could not be written would fail again, and noisily, when Python flushes at exit.
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):  # the reader, such as `head`, has enough
            return 0
        if isinstance(error, io.UnsupportedOperation):
            error = OSError("standard output is closed")
        where = f"{error.filename}: " if error.filename else ""
        print(f"sundae: {where}{error.strerror or error}", file=sys.stderr)  # noqa: T201
        return DataError.exit_code
    return 0


def _open_what_is_closed() -> None:
    """Streams that the caller has closed are None: what is said is then lost, and what is written is an error."""
    if sys.stdin is None:  # pyright: ignore[reportUnnecessaryComparison]
        sys.stdin = Path(os.devnull).open(encoding="utf-8")  # noqa: SIM115
    if sys.stdout is None:  # pyright: ignore[reportUnnecessaryComparison]
        sys.stdout = Path(os.devnull).open(encoding="utf-8")  # noqa: SIM115 - which cannot be written to
    if sys.stderr is None:  # pyright: ignore[reportUnnecessaryComparison]
        sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115


def _dispatch(arguments: list[str]) -> None:
    match arguments:
        case [] | ["--help" | "-h" | "help"]:
            sys.stdout.write(_HELP)
        case ["--version" | "-V"]:
            sys.stdout.write(f"sundae {sundae.__version__}\n")
        case [verb, *rest] if verb in VERBS:
            _run_verb(verb, rest)
        case [word, *_]:
            raise UsageError(f"unknown verb {word!r}", why=nearest(word, VERBS), hint="sundae --help")


def _run_verb(verb: str, arguments: list[str]) -> None:
    import tyro

    if verb in ("info", "train", "evaluate"):
        # argparse's grammar, which tyro follows, takes a list of positionals in one place only: gather the overrides.
        arguments = sorted(arguments, key=lambda argument: bool(re.match(r"[a-z]+\.\w+=", argument)))
    command = importlib.import_module(f"sundae.cli.{verb}").Command
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            parsed = tyro.cli(command, args=arguments, prog=f"sundae {verb}", config=(tyro.conf.FlagCreatePairsOff,))
    except SystemExit as end:
        if not end.code:
            return
        raise UsageError(_one_line(said.getvalue()), hint=f"sundae {verb} --help") from None
    parsed.run()


def _one_line(boxed: str) -> str:
    """tyro draws its errors as boxes (without UTF-8, between rules) with a title and a footer; ours are one line."""
    plain = re.sub(r"\x1b\[[0-9;]*m", "", boxed)
    untitled = [line.strip("│ ") for line in plain.splitlines()[1:] if not line.startswith("╰")]
    body = [line for line in untitled if line.strip("─-")]
    return " ".join(" ".join(body).partition("For full helptext")[0].split()) or "cannot read the arguments"
