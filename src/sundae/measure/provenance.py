"""Where a figure comes from: versions, machine, commit."""

import importlib.metadata
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import sundae

PACKAGES = ("torch", "numpy", "tokenizers", "sacrebleu")


@dataclass(frozen=True)
class Machine:
    """The processor, how many cores this process may use, and how many threads it used."""

    cpu: str
    cores: int
    threads: int
    system: str


@dataclass(frozen=True)
class Commit:
    """The commit that sundae's sources stand at, and whether they had been changed since."""

    name: str
    dirty: bool

    def __str__(self) -> str:
        return f"{self.name[:12]}{' with changes' if self.dirty else ''}"


def find_versions(packages: Iterable[str] = PACKAGES) -> dict[str, str]:
    """Versions of Python, sundae and those of the packages that are installed."""
    versions = {"python": platform.python_version(), "sundae": sundae.__version__}
    for package in packages:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return versions


def find_machine(*, threads: int | None = None, cpuinfo: Path = Path("/proc/cpuinfo")) -> Machine:
    """This machine; without `threads`, what torch uses if it is loaded, else OMP_NUM_THREADS, else all cores."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if threads is None:
        threads = _threads_in_use(cores)
    return Machine(_cpu(cpuinfo), cores, threads, platform.platform())


def find_commit(folder: Path | None = None) -> Commit | None:
    """The commit of the sources in a folder (sundae's own by default); None if they are not in a repository."""
    folder = Path(sundae.__file__).parent if folder is None else folder
    # Ask for a file of ours, or a package installed inside some other repository would claim that one's commit.
    if not _git(folder, "ls-files", "--", "."):
        return None
    name = _git(folder, "rev-parse", "HEAD")
    if not name:
        return None
    # Changes anywhere count, new files only beside the sources: reports may lie about in the repository.
    changed = _git(folder, "status", "--porcelain", "--untracked-files=no")
    added = _git(folder, "ls-files", "--others", "--exclude-standard", "--", ".")
    return Commit(name, dirty=changed != "" or added != "")


def _git(folder: Path, *arguments: str) -> str | None:
    """What git says, or None if there is no git or it refuses."""
    program = shutil.which("git")
    if program is None:
        return None
    # Inside a hook these point at the repository that runs the hook.
    environment: Mapping[str, str] = {
        key: value for key, value in os.environ.items() if key not in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE")
    }
    try:
        done = subprocess.run(  # noqa: S603 - git itself, with arguments of ours
            [program, "-C", str(folder), *arguments],
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
            env=environment,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def _threads_in_use(cores: int) -> int:
    if "torch" in sys.modules:
        return int(sys.modules["torch"].get_num_threads())
    asked = os.environ.get("OMP_NUM_THREADS", "")
    return int(asked) if asked.isdecimal() and int(asked) > 0 else cores


def _cpu(cpuinfo: Path) -> str:
    try:
        with cpuinfo.open(encoding="utf-8", errors="replace") as file:
            named = re.search(r"^model name\s*:\s*(.+)$", file.read(16384), re.MULTILINE)
    except OSError:
        named = None
    return named[1].strip() if named else platform.processor() or platform.machine() or "unknown"
