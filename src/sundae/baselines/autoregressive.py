"""The autoregressive twin: the same blocks, tokenizer and data, read from left to right.

A text is predicted token by token and ends at its first pad.  Symbols that only ever are input (where a text begins,
and the three marks of fill-in-the-middle) have rows of their own outside the vocabulary.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sundae.config import NetworkConfig, ObjectiveConfig
from sundae.core.length import PAD, text_length
from sundae.core.network import Block, KeysValues, Memory, Transformer
from sundae.core.noise import Noise
from sundae.training.batches import Batch
from sundae.training.fused import fused_judge
from sundae.training.losses import Losses

BEGIN, PREFIX, SUFFIX, MIDDLE = range(4)
"""Marks, as numbers after the last token of the vocabulary.

Fill-in-the-middle (Bavarian et al., 2022): PREFIX text SUFFIX text MIDDLE text.
"""
MARKS = 4


class Autoregressive(Transformer):
    """p(x_i | x_1 .. x_i-1): a Transformer with the causality that the paper removes."""

    def __init__(self, config: NetworkConfig) -> None:
        # A text that fills the canvas, its end, and up to three marks.
        super().__init__(replace(config, canvas=config.canvas + MARKS, length_prediction=False))
        self.canvas = config.canvas
        self.marks = nn.Embedding(MARKS, config.width)
        nn.init.normal_(self.marks.weight, std=config.width**-0.5)

    def mark(self, mark: int) -> int:
        """The number of a mark among the input symbols."""
        return self.config.vocabulary_size + mark

    def forward(
        self,
        tokens: Tensor,
        *,
        inside: Tensor | None = None,  # noqa: ARG002  what stands to the right of a position is never seen
        memory: Memory | None = None,
        cache: "Cache | None" = None,
    ) -> Tensor:
        """Hidden states from which the token after each position is predicted; with a cache, `tokens` go on from it."""
        assert (memory is not None) == self.config.translates, "a translating network needs a source, others have none"
        vocabulary_size, begin = self.config.vocabulary_size, 0 if cache is None else cache.length
        length = tokens.shape[1]
        marked = (tokens >= vocabulary_size)[..., None]
        words = self.embedding(tokens.clamp(max=vocabulary_size - 1))
        marks = self.marks((tokens - vocabulary_size).clamp(min=0))
        x = self.enter(torch.where(marked, marks, words), self.positions.weight[begin : begin + length])
        earlier = None
        if length > 1:
            slots = torch.arange(begin + length, device=tokens.device)
            earlier = (slots <= slots[begin:, None])[None]
        for layer, block in enumerate(cast(list[Block], self.decoder)):
            x = block(
                x,
                inside=None,
                source=None if memory is None else memory[layer],
                see=_causal(earlier) if cache is None else cache.at(layer, earlier),
                begin=begin,
            )
        if cache is not None:
            cache.length += length
        return self.norm(x)


def _causal(earlier: Tensor | None) -> Callable[[KeysValues], KeysValues]:
    return lambda own: replace(own, visible=earlier)


class Cache:
    """The keys and values of all positions so far, for every layer: each is computed once."""

    def __init__(self, network: Autoregressive, *, rows: int, slots: int) -> None:
        config = network.config
        shape = (config.decoder_layers, 2, rows, config.heads, slots, config.width // config.heads)
        self.slots = network.embedding.weight.new_empty(shape)
        self.length = 0

    def at(self, layer: int, earlier: Tensor | None) -> Callable[[KeysValues], KeysValues]:
        """What a block sees at this layer: its own keys and values, put beside those of the past."""

        def see(own: KeysValues) -> KeysValues:
            end = self.length + own.keys.shape[2]
            keys, values = self.slots[layer]
            keys[:, :, self.length : end] = own.keys
            values[:, :, self.length : end] = own.values
            return KeysValues(keys[:, :, :end], values[:, :, :end], earlier)

        return see

    def select(self, rows: Tensor) -> None:
        """Go on with these rows, in this order: some are done, or a beam has branched."""
        chosen = self.slots.new_empty((*self.slots.shape[:2], len(rows), *self.slots.shape[3:]))
        chosen[..., : self.length, :] = self.slots[:, :, rows, :, : self.length]
        self.slots = chosen


@dataclass(frozen=True)
class Reading:
    """Texts as the twin reads them: `inputs`, and at each position the token to be said next where it counts."""

    inputs: Tensor
    targets: Tensor
    counts: Tensor


def left_to_right(texts: Tensor, *, begin: int) -> Reading:
    """BEGIN x_1 .. x_n, each position predicting the next token, the last one the end."""
    width = texts.shape[1]
    inputs = F.pad(texts[:, :-1], (1, 0), value=begin)
    # A text that fills its canvas has no end to predict.
    return Reading(inputs, texts, torch.arange(width) <= text_length(texts)[:, None])


def middle_last(texts: Tensor, *, noise: Noise, samples: Tensor, share: float, marks: Callable[[int], int]) -> Reading:
    """A share of the texts as PREFIX .. SUFFIX .. MIDDLE .., cut at random; the others from left to right."""
    lengths = text_length(texts).tolist()
    moved = (noise.fold("middle").uniform(samples) < share).tolist()
    first = noise.fold("cut", 1).uniform(samples).tolist()
    second = noise.fold("cut", 2).uniform(samples).tolist()
    width = max(length + (MARKS if move else 1) for length, move in zip(lengths, moved, strict=True))
    inputs, targets = torch.full((2, len(texts), width), PAD)
    counts = torch.zeros(len(texts), width, dtype=torch.bool)
    for row, (text, length) in enumerate(zip(texts, lengths, strict=True)):
        parts = {BEGIN: text[:length]}
        if moved[row]:
            low, high = sorted(int(cut * (length + 1)) for cut in (first[row], second[row]))
            parts = {PREFIX: text[:low], SUFFIX: text[high:length], MIDDLE: text[low:high]}
        read = torch.cat([torch.cat([text.new_tensor([marks(mark)]), part]) for mark, part in parts.items()])
        said = torch.cat([read[1:], text.new_tensor([PAD])])
        inputs[row, : len(read)] = read
        counts[row, : len(read)] = said < marks(0)  # marks are never said
        targets[row, : len(read)] = said.where(said < marks(0), PAD)
    return Reading(inputs, targets, counts)


class AutoregressiveLoss(nn.Module):
    """The negative log-likelihood of each token given those before it."""

    def __init__(self, network: Autoregressive, objective: ObjectiveConfig) -> None:
        super().__init__()
        self.network, self.objective = network, objective

    def begin(self, done: float) -> None:
        """Always the same loss."""

    def forward(self, batch: Batch, noise: Noise) -> Losses:
        network, share = self.network, self.objective.middle_share
        if share:
            reading = middle_last(batch.clean, noise=noise, samples=batch.samples, share=share, marks=network.mark)
        else:
            reading = left_to_right(batch.clean, begin=network.mark(BEGIN))
        memory = None
        if batch.source is not None and batch.source_inside is not None:
            encodings = network.encode(batch.source, inside=batch.source_inside)
            memory = network.remember(encodings, inside=batch.source_inside)
        judge = fused_judge(network.embedding.weight, label_smoothing=self.objective.label_smoothing)
        hidden = network(reading.inputs, memory=memory)
        judgement = judge(hidden[reading.counts], reading.targets[reading.counts], None)
        return Losses(judgement.loss, {"accuracy": judgement.accuracy})
