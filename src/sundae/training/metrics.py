"""The log of a run: one JSON object a line, always; TensorBoard beside it if it is asked for."""

import json
from pathlib import Path
from typing import Any, Protocol

from sundae.errors import CapabilityError
from sundae.files import write_whole


class Log(Protocol):
    """Takes figures as they come."""

    def record(self, kind: str, step: int, figures: dict[str, Any]) -> None: ...


class JsonLog:
    """`metrics.jsonl`; on resuming, lines of steps that will be done again are removed first."""

    def __init__(self, path: Path, *, resumed_at: int) -> None:
        if path.exists():
            kept: list[str] = []
            for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
                try:
                    if json.loads(line)["step"] <= resumed_at:
                        kept.append(line + "\n")
                except (ValueError, KeyError, TypeError):
                    continue  # the line that a kill cut short
            write_whole(path, "".join(kept))
        self._path = path

    def record(self, kind: str, step: int, figures: dict[str, Any]) -> None:
        """Append one line and hand it to the system at once."""
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"kind": kind, "step": step, **figures}, ensure_ascii=False) + "\n")


class TensorBoardLog:
    """Scalars and samples for TensorBoard, which is an extra."""

    def __init__(self, folder: Path, *, resumed_at: int) -> None:
        try:
            from torch.utils.tensorboard.writer import SummaryWriter
        except ImportError:
            raise CapabilityError(
                "TensorBoard is not installed", hint="pip install 'sundae[tensorboard]', or leave out --tensorboard"
            ) from None
        self._writer = SummaryWriter(str(folder), purge_step=resumed_at + 1)

    def record(self, kind: str, step: int, figures: dict[str, Any]) -> None:
        """Numbers become scalars, texts become text."""
        for name, value in figures.items():
            if isinstance(value, int | float):
                self._writer.add_scalar(f"{kind}/{name}", value, step)
            elif isinstance(value, list):
                self._writer.add_text(f"{kind}/{name}", "\n\n".join(str(item) for item in value), step)
        self._writer.flush()
