"""The conditional masked language model and mask-predict, the paper's closest non-autoregressive baseline.

Ghazvininejad et al. (2019): some target tokens are masked, the others are seen, and only the masked are predicted; the
length is predicted first and is final.  Here it stands on the same blocks and has the same length predictor as SUNDAE,
but for exact lengths.
"""

from collections.abc import Generator
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor, nn

from sundae.config import NetworkConfig, ObjectiveConfig
from sundae.core.length import LengthPredictor, length_loss, likeliest_half_length, text_length
from sundae.core.network import Ask, Memory, Prediction, Transformer, initialise
from sundae.core.noise import Noise
from sundae.core.sampling import Update, View, lowest
from sundae.training.batches import Batch
from sundae.training.fused import fused_judge
from sundae.training.losses import Losses


class MaskedTransformer(Transformer):
    """A Transformer with one more input symbol, the mask, which is never predicted; a canvas is exactly its text."""

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__(replace(config, length_prediction=False))
        self.mask_row = nn.Parameter(torch.randn(config.width) * config.width**-0.5)
        self.length_predictor = LengthPredictor(config, classes=config.canvas)
        self.length_predictor.apply(initialise)

    @property
    def mask(self) -> int:
        """The mask's number among the input symbols, after the last token of the vocabulary."""
        return self.config.vocabulary_size

    def forward(self, tokens: Tensor, *, inside: Tensor | None = None, memory: Memory | None = None) -> Tensor:
        """The last hidden state at every position."""
        assert memory is not None, "this network translates: it needs a source"
        words = self.embedding(tokens.clamp(max=self.mask - 1))
        masked = (tokens == self.mask)[..., None]
        x = self.enter(torch.where(masked, self.mask_row, words), self.positions.weight[: tokens.shape[1]])
        for block, source in zip(self.decoder, memory, strict=True):
            x = block(x, inside=inside, source=source)
        return self.norm(x)


def choose_masked(inside: Tensor, *, noise: Noise, samples: Tensor) -> Tensor:
    """1 to n of each row's n positions, every number equally likely, every choice of that many too."""
    length = inside.sum(1)
    count = 1 + (noise.fold("count").uniform(samples) * length).long().clamp(max=length - 1)
    positions = torch.arange(inside.shape[1])
    return lowest(noise.fold("masked").uniform(samples[:, None], positions), among=inside, count=count)


class MaskedLoss(nn.Module):
    """Cross-entropy of the masked tokens, and beside it that of the target's length."""

    def __init__(self, network: MaskedTransformer, objective: ObjectiveConfig) -> None:
        super().__init__()
        self.network, self.objective = network, objective

    def begin(self, done: float) -> None:
        """Always the same loss."""

    def forward(self, batch: Batch, noise: Noise) -> Losses:
        assert batch.source is not None
        assert batch.source_inside is not None
        network = self.network
        encodings = network.encode(batch.source, inside=batch.source_inside)
        memory = network.remember(encodings, inside=batch.source_inside)
        masked = choose_masked(batch.inside, noise=noise, samples=batch.samples)
        hidden = network(batch.clean.masked_fill(masked, network.mask), inside=batch.inside, memory=memory)
        judge = fused_judge(network.embedding.weight, label_smoothing=self.objective.label_smoothing)
        judgement = judge(hidden[masked], batch.clean[masked], None)
        length = text_length(batch.clean).clamp(min=1)
        logits = network.length_predictor(encodings, inside=batch.source_inside)
        extra = length_loss(logits, half=length)
        right = (likeliest_half_length(logits) == length).float().mean()
        parts = {
            "masked_loss": judgement.loss.detach(),
            "accuracy": judgement.accuracy,
            "length_loss": extra.detach(),
            "length_accuracy": right,
        }
        return Losses(judgement.loss + self.objective.length_weight * extra, parts)


@dataclass(frozen=True)
class MaskPredict:
    """Predict all tokens, then again and again mask the n (T - t + 1) / T least certain ones and predict those anew."""

    mask: int
    deterministic: bool = field(default=False, init=False)
    runs_to_end: bool = field(default=True, init=False)

    def step(self, view: View) -> Generator[Ask, Prediction, Update]:
        left = view.steps - view.step + 1
        count = view.editable.sum(1) * left // view.steps
        masked = lowest(view.certainty, among=view.editable, count=count)
        if not masked.any():
            return Update(view.tokens, masked, view.certainty)
        logits = yield from view.logits(view.tokens.masked_fill(masked, self.mask), where=masked)
        best, token = torch.log_softmax(logits.float(), dim=-1).max(-1)
        return Update(view.tokens.masked_scatter(masked, token), masked, view.certainty.masked_scatter(masked, best))
