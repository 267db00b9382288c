"""Which texts make up which batch: a pure function of the seed and the epoch, so that resuming needs only a cursor."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from sundae.config import NetworkConfig, RunConfig
from sundae.core.length import canvas_for, half_length, text_length
from sundae.errors import DataError
from sundae.text.corpus import Split


@dataclass(frozen=True)
class Batch:
    """Clean texts on their canvases; `samples` numbers the rows of a whole update, over all its micro-batches."""

    clean: Tensor
    inside: Tensor
    samples: Tensor
    source: Tensor | None = None
    source_inside: Tensor | None = None

    @property
    def tokens(self) -> int:
        """Canvas positions, which is what a step costs and what the loss is a mean of."""
        return int(self.inside.sum())


@dataclass(frozen=True)
class Cursor:
    """The next batch to train on."""

    epoch: int = 0
    index: int = 0


class Plan(Protocol):
    """Batches of row numbers for each epoch, and how rows become a Batch."""

    def epoch(self, number: int) -> list[np.ndarray]: ...

    def load(self, rows: np.ndarray) -> Batch: ...


def _shuffled(seed: int, epoch: int, count: int) -> np.ndarray:
    return np.random.default_rng([seed, epoch]).permutation(count)


@dataclass(frozen=True)
class SentencePlan:
    """One sentence on each canvas, padded; what is left over at the end of an epoch waits for the next one."""

    split: Split
    canvas: int
    batch_size: int
    seed: int

    def epoch(self, number: int) -> list[np.ndarray]:
        order = _shuffled(self.seed, number, len(self.split))
        size = min(self.batch_size, len(order))
        return [order[i : i + size] for i in range(0, len(order) - size + 1, size)]

    def load(self, rows: np.ndarray) -> Batch:
        clean = torch.from_numpy(self.split.canvas_rows(rows, self.canvas))
        return Batch(clean, torch.ones_like(clean, dtype=torch.bool), torch.arange(len(rows)))


@dataclass(frozen=True)
class CropPlan:
    """Windows of the running text, cut at random places; an epoch is as many as would cover the text once."""

    split: Split
    canvas: int
    batch_size: int
    seed: int

    def epoch(self, number: int) -> list[np.ndarray]:
        places = self.split.tokens - self.canvas + 1
        batches = max(1, self.split.tokens // (self.canvas * self.batch_size))
        starts = np.random.default_rng([self.seed, number]).integers(places, size=(batches, self.batch_size))
        return list(starts)

    def load(self, rows: np.ndarray) -> Batch:
        clean = torch.from_numpy(self.split.crop_rows(rows, self.canvas))
        return Batch(clean, torch.ones_like(clean, dtype=torch.bool), torch.arange(len(rows)))


POOL = 16
"""Batches whose pairs are sorted by the length of their sources before they are cut."""


class ParallelPlan:
    """Pairs whose targets share one canvas, so that no batch is padded beyond it, and whose sources are about as long.

    Paper: sec. 3.1 pads every target to 128; a canvas made from l_d tells the model no more than the length slot does.
    """

    def __init__(self, split: Split, network: NetworkConfig, *, batch_size: int, batch_tokens: int, seed: int) -> None:
        self.split, self.seed = split, seed
        self.batch_size, self.batch_tokens = batch_size, batch_tokens
        self.canvases = canvas_for(half_length(torch.from_numpy(split.lengths())), network).numpy()
        self.source_lengths = split.lengths("source")

    def epoch(self, number: int) -> list[np.ndarray]:
        order = _shuffled(self.seed, number, len(self.split))
        batches: list[np.ndarray] = []
        for canvas in np.unique(self.canvases):
            rows = order[self.canvases[order] == canvas]
            size = max(1, self.batch_tokens // int(canvas)) if self.batch_tokens else self.batch_size
            for begin in range(0, len(rows), POOL * size):
                pool = rows[begin : begin + POOL * size]
                pool = pool[np.argsort(self.source_lengths[pool], kind="stable")]
                batches += [pool[i : i + size] for i in range(0, len(pool), size)]
        return [batches[i] for i in _shuffled(self.seed + 1, number, len(batches))]

    def load(self, rows: np.ndarray) -> Batch:
        canvas = int(self.canvases[rows].max())
        clean = torch.from_numpy(self.split.canvas_rows(rows, canvas))
        inside = torch.arange(canvas) < torch.from_numpy(self.canvases[rows])[:, None]
        lengths = self.source_lengths[rows]
        longest = max(1, int(lengths.max()))
        source = torch.from_numpy(self.split.canvas_rows(rows, longest, side="source"))
        source_inside = torch.arange(longest) < torch.from_numpy(lengths)[:, None]
        return Batch(clean, inside, torch.arange(len(rows)), source, source_inside)


@dataclass(frozen=True)
class TextPlan:
    """The same batches, but only a text, or a text and its end, is inside: a baseline does not predict what follows."""

    plan: Plan
    with_end: bool

    def epoch(self, number: int) -> list[np.ndarray]:
        return self.plan.epoch(number)

    def load(self, rows: np.ndarray) -> Batch:
        batch = self.plan.load(rows)
        until = text_length(batch.clean) + self.with_end
        width = min(batch.clean.shape[1], max(1, int(until.max())))
        return replace(batch, clean=batch.clean[:, :width], inside=torch.arange(width) < until[:, None])


def plan_for(config: RunConfig, split: Split) -> Plan:
    """How this run cuts this corpus into batches."""
    plan = _canvas_plan(config, split)
    return plan if config.network.kind == "sundae" else TextPlan(plan, with_end=config.network.kind == "autoregressive")


def _canvas_plan(config: RunConfig, split: Split) -> Plan:
    training, canvas = config.training, config.network.canvas
    if config.data.kind == "parallel":
        return ParallelPlan(
            split,
            config.network,
            batch_size=training.batch_size,
            batch_tokens=training.batch_tokens,
            seed=training.seed,
        )
    size = max(1, training.batch_tokens // canvas) if training.batch_tokens else training.batch_size
    if config.data.kind == "sentences":
        if not len(split):
            raise DataError("the corpus has no sentence to train on")
        return SentencePlan(split, canvas, size, training.seed)
    if split.tokens < canvas:
        raise DataError(f"the corpus has {split.tokens} tokens", why=f"fewer than one canvas of {canvas}")
    return CropPlan(split, canvas, size, training.seed)


def batches_from(plan: Plan, cursor: Cursor) -> Iterator[tuple[Batch, Cursor]]:
    """Endless batches from a cursor on, each with the cursor of the batch that follows it."""
    while True:
        rows_of = plan.epoch(cursor.epoch)
        for index in range(cursor.index, len(rows_of)):
            following = replace(cursor, index=index + 1)
            yield plan.load(rows_of[index]), following
        cursor = Cursor(cursor.epoch + 1, 0)
