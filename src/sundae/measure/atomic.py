"""Files that are never half written."""

import os
from pathlib import Path


def write_bytes(path: Path, content: bytes) -> Path:
    """Replace a file as a whole, making its folder if need be; readers see the old content or the new."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")  # two processes may write the same report
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    return path
