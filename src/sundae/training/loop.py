"""The training loop: a pure function of configuration and data, interrupted at any moment and resumed bit for bit.

Every random number comes from the seed and the step.  What a checkpoint holds (weights, optimiser, average, cursor, the
sums of the log's current window) is all the state there is.
"""

import math
import os
import platform
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch import Tensor

from sundae.config import TrainingConfig
from sundae.core.noise import Noise
from sundae.errors import DataError
from sundae.training.batches import Batch, Cursor, Plan, batches_from
from sundae.training.checkpoint import (
    Checkpoint,
    Found,
    checkpoints_in,
    newest_checkpoint,
    read_checkpoint,
    write_checkpoint,
)
from sundae.training.dropout import draw_in_bulk
from sundae.training.losses import LossModule
from sundae.training.metrics import Log
from sundae.training.optimiser import MovingAverage, average, build_optimiser, learning_rate


class Interruption:
    """Remembers SIGINT and SIGTERM, so that a step is finished and saved before the run ends."""

    def __init__(self) -> None:
        self.signal: signal.Signals | None = None

    def __enter__(self) -> "Interruption":
        self._before = {number: signal.signal(number, self._note) for number in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, number: int, _frame: FrameType | None) -> None:
        if self.signal is not None:  # asked twice: do not wait
            raise KeyboardInterrupt
        self.signal = signal.Signals(number)


@dataclass(frozen=True)
class Outcome:
    """How a call of `train` ended: `interrupted` names the signal, or is None when the run is complete."""

    step: int
    interrupted: signal.Signals | None


Validation = Callable[[], dict[str, Any]]
"""Called every so often with the averaged weights in place; its figures go to the log under its name."""


def machine_fingerprint() -> dict[str, str | int]:
    """What else must be equal for a resumed run to be equal bit for bit."""
    return {
        "torch": torch.__version__,
        "cpu": torch.backends.cpu.get_cpu_capability(),
        "machine": platform.machine(),
        "threads": torch.get_num_threads(),
        "isa_cap": os.environ.get("ONEDNN_MAX_CPU_ISA", ""),
    }


class Trainer:
    """A network in training, with everything that a checkpoint must hold."""

    def __init__(self, module: LossModule, config: TrainingConfig) -> None:
        self.module, self.config = module, config
        self.network = module.network
        draw_in_bulk(self.network)
        self.optimiser = build_optimiser(self.network, config)
        self.average = MovingAverage(self.network, config.ema_decay) if config.ema_decay else None
        self.step, self.cursor = 0, Cursor()
        self.window: dict[str, float] = {}
        self.noise = Noise(config.seed).fold("training")

    def update(self, batches: Sequence[Batch]) -> dict[str, float]:
        """One step of the optimiser on several micro-batches; nothing is changed if a number is not finite."""
        self.module.begin(self.step / self.config.steps)
        self.step += 1
        self.network.train()
        tokens = sum(batch.tokens for batch in batches)
        figures: dict[str, float] = {}
        for micro, batch in enumerate(batches):
            noise = self.noise.fold(self.step, micro)
            torch.manual_seed(noise.seed % (1 << 63))  # dropout, the one thing that torch's generator decides
            with torch.autocast("cpu", torch.bfloat16, enabled=self.config.precision == "bfloat16"):
                losses = self.module(batch, noise)
            share = batch.tokens / tokens
            (losses.total * share).backward()
            for name, value in {"loss": losses.total.detach(), **losses.parts}.items():
                figures[name] = figures.get(name, 0.0) + float(value) * share
        weights = list(self.network.parameters())
        norm = torch.nn.utils.clip_grad_norm_(weights, self.config.clip or math.inf, foreach=True)
        figures["gradient_norm"] = float(norm)
        if not all(math.isfinite(value) for value in figures.values()):
            raise DataError(
                f"training diverged at step {self.step}",
                why=f"loss {figures['loss']}, gradient norm {figures['gradient_norm']}",
                hint="a lower training.learning_rate, or training.clip=1.0",
            )
        for group in self.optimiser.param_groups:
            group["lr"] = learning_rate(self.step, self.config)
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)
        if self.average is not None:
            self.average.update(self.network, self.step)
        return figures

    def checkpoint(self) -> Checkpoint:
        """All state, as tensors and plain data."""
        optimiser: dict[str, Tensor] = {}
        for name, weight in self.network.named_parameters():
            optimiser |= {f"{key}.{name}": value for key, value in self.optimiser.state[weight].items()}
        if self.average is not None:
            optimiser |= {f"average.{name}": value for name, value in self.average.weights.items()}
        state = {"cursor": asdict(self.cursor), "window": self.window, "fingerprint": machine_fingerprint()}
        return Checkpoint(self.step, dict(self.network.state_dict()), optimiser, state)

    def restore(self, checkpoint: Checkpoint) -> None:
        """The inverse of `checkpoint`."""
        try:
            self.network.load_state_dict(checkpoint.weights)
            weights = dict(self.network.named_parameters())
            for stored, value in checkpoint.optimiser.items():
                key, _, name = stored.partition(".")
                if key != "average":
                    self.optimiser.state[weights[name]][key] = value
            for name, weight in weights.items():
                if not self.optimiser.state[weight]:
                    raise KeyError(f"nothing of the optimiser's for {name}")
            if self.average is not None:
                self.average.weights = {name: checkpoint.optimiser[f"average.{name}"] for name in self.average.weights}
            self.step, self.cursor = checkpoint.step, Cursor(**checkpoint.state["cursor"])
            self.window = dict(checkpoint.state["window"])
        except (KeyError, TypeError, RuntimeError) as error:
            raise DataError("the checkpoint does not fit this configuration", why=str(error)) from None


def fingerprint_warning(found: Found) -> str:
    """Empty if this machine repeats the checkpoint's machine exactly, else what differs."""
    before, now = found.checkpoint.state.get("fingerprint", {}), machine_fingerprint()
    changed = [f"{key} {before.get(key)} -> {value}" for key, value in now.items() if before.get(key) != value]
    return f"results may differ in the last digits: {', '.join(changed)}" if changed else ""


def train(
    trainer: Trainer,
    plan: Plan,
    *,
    folder: Path,
    log: Log,
    validations: Mapping[str, Validation],
    say: Callable[[str], None],
) -> Outcome:
    """Train from the trainer's step to the last one, saving as it goes; SIGINT and SIGTERM save and end it."""
    config = trainer.config
    saved = trainer.step
    tokens, seconds, began = 0, 0.0, time.monotonic()
    with Interruption() as interruption:
        batches = batches_from(plan, trainer.cursor)
        while trainer.step < config.steps and interruption.signal is None:
            micro = list(islice(batches, config.accumulate))
            try:
                figures = trainer.update([batch for batch, _ in micro])
            except DataError as error:
                raise DataError(
                    error.what, why=f"{error.why}; last good checkpoint: step {saved}", hint=error.hint
                ) from None
            trainer.cursor = micro[-1][1]
            tokens += sum(batch.tokens for batch, _ in micro)
            for name, value in figures.items():
                trainer.window[name] = trainer.window.get(name, 0.0) + value / config.log_every
            if trainer.step % config.log_every == 0:
                seconds = time.monotonic() - began
                speed = {"tokens_per_second": tokens / seconds, "learning_rate": learning_rate(trainer.step, config)}
                log.record("train", trainer.step, trainer.window | speed)
                trainer.window, tokens, began = {}, 0, time.monotonic()
            last = trainer.step == config.steps
            if trainer.step % config.validate_every == 0 or last:
                run_validations(trainer, validations, log)
                began, tokens = time.monotonic(), 0
            if trainer.step % config.checkpoint_every == 0 or last or interruption.signal is not None:
                saved = trainer.step
                keep, every = max(2, config.average_last), config.checkpoint_every
                write_checkpoint(folder, trainer.checkpoint(), keep=keep, every=every)
    if interruption.signal is not None:
        say(f"{interruption.signal.name}: saved step {saved}; the same command goes on from here")
    return Outcome(trainer.step, interruption.signal)


def run_validations(trainer: Trainer, validations: Mapping[str, Validation], log: Log) -> None:
    """Each validation with the moving average in place of the weights, if there is one."""
    network = trainer.network
    own = {name: weight.detach().clone() for name, weight in network.named_parameters()}
    if trainer.average is not None:
        network.load_state_dict(trainer.average.weights)
    network.eval()
    for name, validation in validations.items():
        log.record(name, trainer.step, validation())
    network.load_state_dict(own)


def final_weights(trainer: Trainer, folder: Path) -> tuple[dict[str, Tensor], str]:
    """The weights to keep, and how they were made: moving average, mean of checkpoints, or the last."""
    if trainer.average is not None:
        return dict(trainer.average.weights), f"moving average, decay {trainer.config.ema_decay}"
    # What an interruption saved between two regular checkpoints does not count: it would make a difference.
    regular = checkpoints_in(folder, every=trainer.config.checkpoint_every)
    paths = sorted({*regular, *checkpoints_in(folder)[-1:]})[-trainer.config.average_last :]
    if trainer.config.average_last > 1 and len(paths) > 1:
        return average([read_checkpoint(path).weights for path in paths]), f"mean of the last {len(paths)} checkpoints"
    return dict(trainer.network.state_dict()), "last step"


def resume(trainer: Trainer, folder: Path, *, say: Callable[[str], None]) -> None:
    """Go on from the newest whole checkpoint, if there is one, and say which."""
    found = newest_checkpoint(folder)
    if found is None:
        return
    for line in found.damaged:
        say(f"passed over: {line}")
    trainer.restore(found.checkpoint)
    say(f"resumed from {found.path.name}")
    warning = fingerprint_warning(found)
    if warning:
        say(warning)
