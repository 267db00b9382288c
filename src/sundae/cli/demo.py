"""`sundae demo`."""

import sys
import tempfile
from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path
from typing import Annotated

from tyro.conf import arg

from sundae.cli.fill import Command as Fill
from sundae.cli.generate import Command as Generate
from sundae.cli.prepare import Command as Prepare
from sundae.cli.train import Command as Train

TEMPLATE = "The captain [[3]] the whale"


@dataclass(frozen=True)
class Command:
    """Train a small model on some chapters of Moby-Dick for about a minute, then let it write."""

    threads: Annotated[int, arg(metavar="N")] = 0
    """CPU threads; 0 takes as many as there are cores."""

    def run(self) -> None:
        """Everything happens in a temporary folder."""
        with tempfile.TemporaryDirectory(prefix="sundae-demo-") as folder, as_file(files("sundae.data")) as data:
            self._run(Path(folder), Path(data) / "moby-dick.txt")

    def _run(self, folder: Path, text: Path) -> None:
        corpus, run = folder / "corpus", folder / "run"
        _say("1. Text to tokens")
        Prepare(kind="crops", inputs=(text,), out=corpus, vocabulary=1024, split="paragraph").run()
        _say("2. About a minute of training: mend corrupted text, and the model's own mending of it")
        Train(preset="tiny", data=corpus, out=run, threads=self.threads, samples=0).run()
        model = str(run / "model")
        _say("3. Texts from nothing: every one began as twelve random tokens")
        Generate(model=model, count=4, threads=self.threads).run()
        _say(f"4. A template, filled from both sides, with the chain shown: {TEMPLATE}")
        Fill(model=model, template=TEMPLATE, threads=self.threads, steps=10, watch=True).run()
        _say("This is a one-minute model: it knows some words and a little of how they follow one another, no more.")


def _say(line: str) -> None:
    sys.stdout.flush()
    sys.stderr.write(f"\n{line}\n")
    sys.stderr.flush()
