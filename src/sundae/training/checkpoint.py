"""Checkpoints that are either whole or absent, and a run directory that one trainer owns.

A checkpoint is a directory: the weights, the optimiser's state, a small JSON, and a manifest with the size and hash of
each file, written last.  It is made under a temporary name, flushed to disk and renamed; nothing is ever overwritten.
"""

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load, save_file
from torch import Tensor

from sundae.errors import DataError, UsageError
from sundae.files import flush, write_whole

_PREFIX, _TEMPORARY = "step-", ".writing-"
MANIFEST = "MANIFEST.json"


@dataclass(frozen=True)
class Checkpoint:
    """Everything that a run needs to go on as if it had never stopped."""

    step: int
    weights: dict[str, Tensor]
    optimiser: dict[str, Tensor]
    state: dict[str, Any]


@dataclass(frozen=True)
class Found:
    """A checkpoint that was read back, and what is wrong with newer ones that were passed over."""

    checkpoint: Checkpoint
    path: Path
    damaged: tuple[str, ...]


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_checkpoint(folder: Path, checkpoint: Checkpoint, *, keep: int, every: int = 1) -> Path:
    """Write one checkpoint, then remove all but the newest two and the newest `keep` whose step `every` divides.

    What an interruption saved in between is there to go on from, and leaves the mean of the last ones as it was.
    """
    final = folder / f"{_PREFIX}{checkpoint.step:09d}"
    temporary = folder / f"{_TEMPORARY}{checkpoint.step:09d}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir()
        save_file(checkpoint.weights, temporary / "model.safetensors")
        save_file(checkpoint.optimiser, temporary / "optim.safetensors")
        content = json.dumps({"step": checkpoint.step, **checkpoint.state}, indent=2)
        (temporary / "state.json").write_text(content, encoding="utf-8")
        files = sorted(temporary.iterdir())
        manifest = {file.name: {"size": file.stat().st_size, "sha256": _digest(file)} for file in files}
        for file in files:
            flush(file)
        write_whole(temporary / MANIFEST, json.dumps(manifest, indent=2))
        flush(temporary)
        if final.exists():  # a damaged one that a resumed run has come past again
            shutil.rmtree(final)
        temporary.rename(final)
        flush(folder)
    except (OSError, SafetensorError) as error:
        shutil.rmtree(temporary, ignore_errors=True)
        reason = os.strerror(errno.ENOSPC) if "No space left" in str(error) else str(error)
        raise DataError(
            f"cannot write checkpoint {final.name} to {folder}",
            why=reason,
            hint="free some space and give the same command again: earlier checkpoints are untouched",
        ) from None
    stay = {*checkpoints_in(folder)[-2:], *checkpoints_in(folder, every=every)[-keep:]}
    for old in checkpoints_in(folder):
        if old not in stay:
            shutil.rmtree(old, ignore_errors=True)
    return final


def read_checkpoint(path: Path) -> Checkpoint:
    """Read and verify one checkpoint; a wrong size, hash or form is a DataError that says which file."""
    try:
        manifest = json.loads((path / MANIFEST).read_text(encoding="utf-8"))
        blobs: dict[str, bytes] = {}
        for name in ("model.safetensors", "optim.safetensors", "state.json"):
            blobs[name] = (path / name).read_bytes()
            if len(blobs[name]) != manifest[name]["size"]:
                raise DataError(f"{path / name} is damaged", why="its size is not that of the manifest")
            if hashlib.sha256(blobs[name]).hexdigest() != manifest[name]["sha256"]:
                raise DataError(f"{path / name} is damaged", why="its content does not match the manifest")
        state = json.loads(blobs["state.json"])
        return Checkpoint(
            step=state.pop("step"),
            weights=load(blobs["model.safetensors"]),
            optimiser=load(blobs["optim.safetensors"]),
            state=state,
        )
    except OSError as error:
        raise DataError(f"{path} is incomplete", why=error.strerror or str(error)) from None
    except (ValueError, KeyError, TypeError, AttributeError, SafetensorError) as error:
        raise DataError(f"{path} is damaged", why=str(error)) from None


def checkpoints_in(folder: Path, *, every: int = 1) -> list[Path]:
    """All checkpoints, or those whose step `every` divides, oldest first."""
    return [path for path in sorted(folder.glob(f"{_PREFIX}*")) if int(path.name.removeprefix(_PREFIX)) % every == 0]


def newest_checkpoint(folder: Path) -> Found | None:
    """The newest checkpoint that is whole; None if there was never one, an error if all are damaged."""
    damaged: list[str] = []
    paths = checkpoints_in(folder)
    for path in reversed(paths):
        try:
            return Found(read_checkpoint(path), path, tuple(damaged))
        except DataError as error:
            damaged.append(error.line())
    if paths:
        raise DataError(f"no checkpoint in {folder} can be read", why="; ".join(damaged), hint="--force starts anew")
    return None


@contextlib.contextmanager
def locked(run: Path) -> Iterator[None]:
    """Own a run directory; a second trainer is refused at once.  The lock dies with the process that holds it."""
    run.mkdir(parents=True, exist_ok=True)
    with (run / "lock").open("a+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.seek(0)
            owner = file.read().strip() or "unknown"
            raise UsageError(
                f"{run} is being trained by another process", why=f"process {owner} holds its lock"
            ) from None
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield
