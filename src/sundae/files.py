"""Files that are never half written."""

import os
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
