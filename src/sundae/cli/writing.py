"""What `generate` and `fill` share: flags, and how texts are printed."""

import json
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import arg

from sundae.config import RuleName, SamplingConfig, ScheduleName
from sundae.errors import DataError, UsageError

if TYPE_CHECKING:
    from sundae.baselines.models import AutoregressiveTwin, Draw
    from sundae.core.sampling import ChainState
    from sundae.decoding.written import Written
    from sundae.model import Sundae


@dataclass(frozen=True, kw_only=True)
class WritingFlags:
    """How to run the chain; what is not given comes from the model's own settings."""

    model: Annotated[str, arg(metavar="DIR|HUB-ID")]
    """The model: a folder, or the id of one on a hub (extra `hub`)."""
    count: Annotated[int, arg(name="n", aliases=["-n"], metavar="N")] = 1
    """How many texts."""
    steps: Annotated[int | None, arg(aliases=["-T"], metavar="T")] = None
    """Denoising steps."""
    temperature: Annotated[float | None, arg(aliases=["-t"], metavar="TAU")] = None
    """Sampling temperature; 0 takes the likeliest token."""
    rule: RuleName | None = None
    """Step rule."""
    schedule: ScheduleName | None = None
    """How many tokens each step updates."""
    share: Annotated[float | None, arg(metavar="SHARE")] = None
    """The share of tokens that the schedule `share` updates."""
    seed: Annotated[int, arg(metavar="SEED")] = 0
    """The same seed writes the same texts."""
    threads: Annotated[int, arg(metavar="N")] = 0
    """CPU threads; 0 takes as many as there are cores."""
    json: bool = False
    """One JSON object a line, with scores and costs."""
    output: Annotated[Path | None, arg(aliases=["-o"], metavar="FILE")] = None
    """Write to a file instead of standard output."""
    watch: bool = False
    """Show every step of the first text on standard error."""

    def load(self) -> "Sundae | AutoregressiveTwin":
        """The model, and torch with it."""
        import os

        import torch

        from sundae.model import MaskPredictTranslator, load_model

        if self.count < 1:
            raise UsageError(f"-n {self.count}", why="must be at least 1")
        torch.set_num_threads(self.threads or os.cpu_count() or 1)
        model = load_model(self.model)
        if isinstance(model, MaskPredictTranslator):
            raise UsageError(f"{self.model} only translates", why="a CMLM needs a source")
        return model

    def draw(self, usual: "Draw") -> "Draw":
        """How a left-to-right model draws; what only the chain has is refused."""
        for name in ("steps", "rule", "schedule", "share"):
            if getattr(self, name) is not None:
                raise UsageError(f"--{name}", why=f"{self.model} writes from left to right and has no denoising steps")
        if self.watch:
            raise UsageError("--watch", why=f"{self.model} writes from left to right and has no denoising steps")
        return usual if self.temperature is None else replace(usual, temperature=self.temperature)

    def sampling(self, usual: SamplingConfig) -> SamplingConfig:
        """The usual settings with what was given on the command line."""
        names = ("steps", "temperature", "rule", "schedule", "share")
        given: dict[str, Any] = {name: getattr(self, name) for name in names if getattr(self, name) is not None}
        return replace(usual, **given)

    def watcher(self, model: "Sundae") -> "Callable[[ChainState], None] | None":
        """Prints the first row of each state, one line a step."""
        if not self.watch:
            return None

        def show(state: "ChainState") -> None:
            changed = int(state.changed[0].sum())
            sys.stderr.write(f"{state.step:>4} {changed:>3} changed  {model.text(state.tokens[0])!r}\n")

        return show

    def print(self, texts: "Iterable[Written]") -> None:
        """Results as lines; a newline inside a text is shown as such only in JSON."""
        lines: list[str] = []
        for written in texts:
            figures = {"score": round(written.score, 4), "steps": written.steps, "network_calls": written.network_calls}
            lines.append(
                json.dumps({"text": written.text, **figures}, ensure_ascii=False) if self.json else written.text
            )
        content = "".join(f"{line}\n" for line in lines)
        if self.output is None:
            sys.stdout.write(content)
            return
        try:
            self.output.write_text(content, encoding="utf-8")
        except OSError as error:
            raise DataError(f"cannot write {self.output}", why=error.strerror or str(error)) from None


def read_lines(argument: str) -> list[str]:
    """The text itself, or with `-` one text for each line of standard input."""
    if argument != "-":
        return [argument]
    try:
        return [line.rstrip("\r\n") for line in sys.stdin if line.strip()]
    except UnicodeDecodeError as error:
        raise DataError("standard input is not valid UTF-8", why=f"byte {error.start}: {error.reason}") from None
