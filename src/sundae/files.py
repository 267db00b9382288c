"""Files that are never half written."""

import os
import shutil
from pathlib import Path


def write_whole(path: Path, content: bytes | str) -> Path:
    """Replace a file, making its folder if need be; it holds the old content or the new, whatever happens."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")  # two processes may write the same report
    try:
        with temporary.open("wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        if path.exists():
            shutil.copymode(path, temporary)  # what was private stays so
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    flush(path.parent)
    return path


def flush(path: Path) -> None:
    """Make sure that a file's content, or the names in a folder, are on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def take_place(temporary: Path, target: Path) -> None:
    """Give a finished folder its name; what had it before is removed only then."""
    if target.exists():
        aside = temporary.with_suffix(".old")
        target.rename(aside)
        try:
            temporary.rename(target)
        except BaseException:
            aside.rename(target)
            raise
        shutil.rmtree(aside)
    else:
        temporary.rename(target)
    flush(target.parent)
