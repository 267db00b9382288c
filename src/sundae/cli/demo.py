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
from sundae.cli.refine import Command as Refine
from sundae.cli.train import Command as Train
from sundae.cli.translate import Command as Translate

TEMPLATES = (
    "She can [[1w]] the piano.",
    "She can [[1w]] French.",
    "I [[1w]] to Boston last week.",
    "I [[1w]] to Boston every week.",
)
DRAFT = "I have never saw such a big dog."
SENTENCE = "Can you tell me how to get to the station?"


@dataclass(frozen=True)
class Command:
    """What the models that ship can do: write, fill blanks from both sides, refine a draft, translate."""

    seed: Annotated[int, arg(metavar="SEED")] = 0
    """Another seed writes other texts."""
    threads: Annotated[int, arg(metavar="N")] = 0
    """CPU threads; 0 is OMP_NUM_THREADS, or as many as there are cores."""
    train: bool = False
    """Instead, train a model on some chapters of Moby-Dick for about a minute, and see what it has learned."""

    def run(self) -> None:
        """Show one of the two."""
        if self.train:
            with tempfile.TemporaryDirectory(prefix="sundae-demo-") as folder, as_file(files("sundae.data")) as data:
                self._train(Path(folder), Path(data) / "moby-dick.txt")
        else:
            self._write()

    def _write(self) -> None:
        _say("1. A text from nothing: it begins as random tokens, and all of them improve together")
        Generate(seed=self.seed, threads=self.threads, watch=True).run()
        _say("2. A blank filled from both sides: change a word on its right, and the blank changes")
        for template in TEMPLATES:
            _say(f"   {template}")
            Fill(template=template, seed=self.seed, threads=self.threads).run()
        _say(f"3. A draft, refined: {DRAFT}")
        Refine(draft=DRAFT, seed=self.seed, threads=self.threads).run()
        _say(f"4. All words of a translation at once, in a few steps: {SENTENCE}")
        Translate(text=SENTENCE, seed=self.seed, threads=self.threads, watch=True).run()
        _say("sundae generate, fill, refine and translate take texts of your own; sundae models says what ships.")

    def _train(self, folder: Path, text: Path) -> None:
        corpus, run = folder / "corpus", folder / "run"
        _say("1. Text to tokens")
        Prepare(kind="crops", inputs=(text,), out=corpus, vocabulary=1024, split="paragraph").run()
        _say("2. About a minute of training: mend corrupted text, and the model's own mending of it")
        Train(preset="tiny", data=corpus, out=run, threads=self.threads, samples=0).run()
        _say("3. Texts from nothing: every one began as twelve random tokens")
        Generate(model=str(run / "model"), count=4, threads=self.threads, seed=self.seed).run()
        _say("This is a one-minute model: it knows some words and a little of how they follow one another, no more.")


def _say(line: str) -> None:
    sys.stdout.flush()
    sys.stderr.write(f"\n{line}\n")
    sys.stderr.flush()
