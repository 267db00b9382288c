"""What a benchmark made is kept in a file, so that the same command goes on where it stopped."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sundae.files import write_whole


def kept(path: Path, make: Callable[[], Any]) -> Any:
    """What is in the file, or what is made now and kept there."""
    if not path.exists():
        write_whole(path, json.dumps(make(), ensure_ascii=False, indent=0))
    return json.loads(path.read_text(encoding="utf-8"))
