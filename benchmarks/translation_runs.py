"""Models that the benchmarks of translation train, each once, and the corpora that they are trained on."""

import shutil
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from threading import Event

from sundae.files import write_whole
from sundae.folder import SHIPPED
from sundae.model import Model, load_model
from sundae.presets import preset


@dataclass(frozen=True)
class Run:
    """A model to train: a preset with changes, on a corpus, perhaps from the weights of an earlier run."""

    preset: str
    corpus: str = "ende"
    changes: Sequence[str] = ()
    after: str | None = None
    network: str | None = None
    watched: int = 0
    """Validation sentences that are translated, and measured by BLEU, at every validation."""
    wide: bool = True
    """Whether it is set against its twin with all rules, or with the paper's alone, which take a third of the time."""
    ships: str | None = None
    """A model of the package, which is not trained here but measured as it ships."""
    branch_of: str | None = None
    """A run whose first `shared` updates are the same, bit for bit: if they are at hand, they are not made again."""
    shared: int = 0


class Runs(ABC):
    """Where the work is, and which runs there are."""

    runs: Mapping[str, Run]

    def __init__(self, data: Path, *, work: Path, threads: int) -> None:
        self.data, self.work, self.threads = data, work, threads

    @abstractmethod
    def lines(self, corpus: str, split: str) -> tuple[list[str], list[str]]:
        """Sources and references of a split."""

    @abstractmethod
    def prepare(self, corpus: str, folder: Path) -> None:
        """Make a corpus."""

    def sundae(self, *arguments: object) -> None:
        """Run a command."""
        subprocess.run([sys.executable, "-m", "sundae", *map(str, arguments)], check=True)

    def corpus(self, name: str) -> Path:
        """The corpus, prepared if need be."""
        folder = self.work / "corpora" / name
        if not folder.exists():
            self.prepare(name, folder)
        return folder

    def distil(self, corpus: str, *, teacher: str, to: Path, beam: int = 5) -> None:
        """Make a corpus of a teacher's translations."""
        taught_by = ["--teacher", self.trained(teacher), "--beam", beam, "--out", to, "--threads", self.threads]
        self.sundae("distill", self.corpus(corpus), *taught_by)

    def pair_files(self, corpus: str, split: str) -> list[Path]:
        """A split as two files, for `sundae prepare`."""
        files = [self.work / "texts" / f"{corpus}.{split}.{side}" for side in ("source", "target")]
        for file, lines in zip(files, self.lines(corpus, split), strict=True):
            write_whole(file, "".join(f"{line}\n" for line in lines))
        return files

    def trained(self, name: str) -> Path:
        """The model of a run, trained if need be."""
        run, folder = self.runs[name], self.work / name
        if run.ships is not None:
            return SHIPPED / run.ships
        if not (folder / "model").exists():
            start = [] if run.after is None else ["--init", self.trained(run.after)]
            kind = [] if run.network is None else ["--network", run.network]
            common = ["--data", self.corpus(run.corpus), "--out", folder, "--threads", self.threads]
            common += ["--bleu", run.watched, "--samples", 0]
            if run.branch_of is not None and self._fork(run.branch_of).exists() and not folder.exists():
                shutil.copytree(self._fork(run.branch_of), folder)
            with ThreadPoolExecutor() as beside:
                done = Event()
                keeping = beside.submit(self._keep_fork, name, until=done)
                try:
                    self.sundae("train", run.preset, *common, *kind, *start, *run.changes)
                finally:
                    done.set()
                keeping.result()  # what went wrong there is said
        return folder / "model"

    def _fork(self, name: str) -> Path:
        """A run as it was when others branched off."""
        return self.work / "forks" / name

    def _keep_fork(self, name: str, *, until: Event) -> None:
        """Copy the checkpoint from which others go on: the run itself removes it after some more."""
        steps = {run.shared for run in self.runs.values() if run.branch_of == name}
        assert len(steps) <= 1, f"all runs that branch off {name} must do so at one update"
        finished = not steps
        while not (finished or self._fork(name).exists()):
            finished = until.wait(10)
            checkpoint = Path("checkpoints", f"step-{max(steps):09d}")
            if (self.work / name / checkpoint).exists():
                half = self.work / "forks" / f".{name}"
                shutil.rmtree(half, ignore_errors=True)
                shutil.copytree(self.work / name / checkpoint, half / checkpoint)
                shutil.copy(self.work / name / "metrics.jsonl", half)
                half.rename(self._fork(name))

    def model(self, name: str) -> Model:
        """The model itself."""
        return loaded(self.trained(name))

    def is_twin(self, name: str) -> bool:
        """Whether a run trains an autoregressive network."""
        return (self.runs[name].network or preset(self.runs[name].preset).network.kind) == "autoregressive"

    def has(self, name: str) -> bool:
        """Whether a run is finished and still there."""
        return self.runs[name].ships is not None or (self.work / name / "model").exists()


@cache
def loaded(folder: Path) -> Model:
    return load_model(folder)
