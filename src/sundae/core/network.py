"""f_theta: a Transformer that sees the whole canvas, and how anything asks it for predictions.

Our choices where the paper is silent: pre-norm, learned positions (and rotary ones, if wanted), GELU, biases, dropout
on the embeddings and on what each sub-layer adds.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from sundae.config import NetworkConfig
from sundae.core.length import LengthPredictor


@dataclass(frozen=True)
class Ask:
    """What a step rule wants to know: f_theta(. | tokens), but only at some positions.

    `rows` names the chain that each row belongs to, `inside` is False beyond a row's canvas, and `where` marks the
    positions whose logits are wanted: vocabulary-sized work dominates small models.
    """

    tokens: Int[Tensor, "rows width"]
    rows: Int[Tensor, " rows"]
    inside: Bool[Tensor, "rows width"]
    where: Bool[Tensor, "rows width"]


@dataclass(frozen=True)
class Prediction:
    """The answer to an Ask; `logits` has one line for each True of `where`, row by row."""

    hidden: Float[Tensor, "rows width features"]
    logits: Float[Tensor, "wanted vocabulary"]


Denoiser = Callable[[Ask], Prediction]
"""Anything that turns an Ask into a Prediction: the network, an exported session, a lambda in a test."""


@dataclass(frozen=True)
class KeysValues:
    """What attention looks at: a key and a value for each slot; `visible` to all queries or each, None: all are."""

    keys: Float[Tensor, "batch heads slots features"]
    values: Float[Tensor, "batch heads slots features"]
    visible: Bool[Tensor, "batch slots"] | Bool[Tensor, "#batch queries slots"] | None

    def select(self, rows: Int[Tensor, " rows"]) -> "KeysValues":
        visible = None if self.visible is None else self.visible[rows]
        return KeysValues(self.keys[rows], self.values[rows], visible)


Memory = tuple[KeysValues, ...]
"""A batch of sources as the decoder sees them, layer by layer: computed once for all steps and candidates."""


def _rotations(positions: int, features: int) -> Float[Tensor, "2 positions features"]:
    """By what queries and keys are turned, so that their product knows how far apart they stand (Su et al., 2021)."""
    # From one radian a position down to nearly a thousandth.
    angles = torch.outer(torch.arange(positions), 1000.0 ** -torch.linspace(0, 1, features // 2 + 1)[:-1])
    return torch.stack([angles.cos().repeat(1, 2), torch.cat([-angles.sin(), angles.sin()], dim=1)])


class Attention(nn.Module):
    """Multi-head attention whose keys and values may be computed apart from its queries.

    Paper: sec. 3.1 (the Transformer of Vaswani et al., 2017).
    """

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__()
        width, self.heads = config.width, config.heads
        self.query = nn.Linear(width, width)
        self.key_value = nn.Linear(width, 2 * width)
        self.out = nn.Linear(width, width)
        self.rotary = config.rotary
        if config.rotary:
            positions = max(config.canvas, config.source_positions + 1)  # a source has the length's slot before it
            self.register_buffer("turns", _rotations(positions, width // config.heads), persistent=False)

    def _split(self, x: Tensor) -> Tensor:
        return x.view(*x.shape[:2], self.heads, -1).transpose(1, 2)

    def _turn(self, x: Float[Tensor, "batch heads length features"], begin: int) -> Tensor:
        if not self.rotary:
            return x
        along, across = cast(Tensor, self.turns)[:, begin : begin + x.shape[2]]
        return torch.addcmul(x * along, x.roll(x.shape[-1] // 2, dims=-1), across)

    def look_at(
        self, x: Float[Tensor, "batch slots width"], *, visible: Bool[Tensor, "batch slots"] | None, begin: int = 0
    ) -> KeysValues:
        keys, values = self.key_value(x).chunk(2, dim=-1)
        return KeysValues(self._turn(self._split(keys), begin), self._split(values), visible)

    def forward(
        self, x: Float[Tensor, "batch length width"], *, seen: KeysValues, begin: int = 0
    ) -> Float[Tensor, "batch length width"]:
        mask = None if seen.visible is None else seen.visible.view(len(seen.visible), 1, -1, seen.keys.shape[2])
        queries = self._turn(self._split(self.query(x)), begin)
        mixed = F.scaled_dot_product_attention(queries, seen.keys, seen.values, attn_mask=mask)
        return self.out(mixed.transpose(1, 2).flatten(2))


class Block(nn.Module):
    """One layer of the encoder or, with cross-attention, of a decoder that has a source.

    Paper: sec. 3.1 ("but remove the causality masking in the decoder").
    """

    def __init__(self, config: NetworkConfig, *, cross: bool) -> None:
        super().__init__()
        width = config.width
        self.attention_norm = nn.LayerNorm(width)
        self.attention = Attention(config)
        if cross:
            self.cross_norm = nn.LayerNorm(width)
            self.cross_attention = Attention(config)
        self.feed_norm = nn.LayerNorm(width)
        self.widen = nn.Linear(width, config.hidden)
        self.narrow = nn.Linear(config.hidden, width)
        self.dropout = nn.Dropout(config.dropout)

    def forward(
        self,
        x: Float[Tensor, "batch length width"],
        *,
        inside: Bool[Tensor, "batch length"] | None,
        source: KeysValues | None = None,
        see: Callable[[KeysValues], KeysValues] = lambda own: own,
        begin: int = 0,
    ) -> Float[Tensor, "batch length width"]:
        normed = self.attention_norm(x)
        seen = see(self.attention.look_at(normed, visible=inside, begin=begin))  # a causal baseline sees its past too
        x = x + self.dropout(self.attention(normed, seen=seen, begin=begin))
        if source is not None:
            x = x + self.dropout(self.cross_attention(self.cross_norm(x), seen=source, begin=begin))
        return x + self.dropout(self.narrow(F.gelu(self.widen(self.feed_norm(x)))))


class Transformer(nn.Module):
    """f_theta of eq. 2: given a whole text x', independent logits for the token at each position.

    With encoder layers it also reads a source: `encode`, then `remember` once, then call it for every step.

    Paper: eq. 2; sec. 3.1 (Experiment Settings); sec. 3.2; listing, Transformer(use_causal_mask=False).
    """

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__()
        self.config = config
        width = config.width
        self.input_scale = width**0.5 if config.scale_embedding else 1.0
        self.embedding = nn.Embedding(config.vocabulary_size, width)  # tied: source, target and output
        self.positions = nn.Embedding(config.canvas, width)
        self.decoder = nn.ModuleList(Block(config, cross=config.translates) for _ in range(config.decoder_layers))
        self.norm = nn.LayerNorm(width)
        self.dropout = nn.Dropout(config.dropout)
        if config.translates:
            self.source_positions = nn.Embedding(config.source_positions, width)
            self.encoder = nn.ModuleList(Block(config, cross=False) for _ in range(config.encoder_layers))
            self.source_norm = nn.LayerNorm(width)
        if config.translates and config.length_prediction:
            self.length_slot = nn.Embedding(config.length_classes, width)
            self.length_predictor = LengthPredictor(config, classes=config.length_classes)
        self.apply(initialise)
        for name, weight in self.named_parameters():
            # What each sub-layer adds starts small, so that depth does not blow up the sum (Radford et al., 2019).
            if name.endswith(("out.weight", "narrow.weight")):
                weight.data.mul_((2 * config.decoder_layers) ** -0.5)

    def enter(self, words: Float[Tensor, "batch length width"], positions: Float[Tensor, "length width"]) -> Tensor:
        """What the first layer sees: inputs as large as what the layers will add to them."""
        return self.dropout((words + positions) * self.input_scale)

    def encode(
        self, source: Int[Tensor, "sources length"], *, inside: Bool[Tensor, "sources length"]
    ) -> Float[Tensor, "sources length width"]:
        """h_x = encoder(x).

        Paper: sec. 3.1; app. B.
        """
        x = self.enter(self.embedding(source), self.source_positions.weight[: source.shape[1]])
        for block in self.encoder:
            x = block(x, inside=inside)
        return self.source_norm(x)

    def remember(
        self,
        encodings: Float[Tensor, "sources length width"],
        *,
        inside: Bool[Tensor, "sources length"],
        half: Int[Tensor, " sources"] | None = None,
    ) -> Memory:
        """Keys and values of [h_len; h_x] for every decoder layer; h_len, the length's embedding, is slot 0.

        Paper: sec. 3.1 (Target Length Prediction); app. B.
        """
        if self.config.length_prediction:
            assert half is not None, "a network with length prediction needs the (halved) target length"
            slot = self.length_slot(half.clamp(max=self.config.length_classes) - 1) * self.input_scale
            encodings = torch.cat([slot[:, None], encodings], dim=1)
            inside = F.pad(inside, (1, 0), value=True)
        blocks = [cast(Block, block) for block in self.decoder]
        return tuple(block.cross_attention.look_at(encodings, visible=inside) for block in blocks)

    def forward(
        self,
        tokens: Int[Tensor, "batch length"],
        *,
        inside: Bool[Tensor, "batch length"] | None = None,
        memory: Memory | None = None,
    ) -> Float[Tensor, "batch length width"]:
        """The last hidden state; `inside` is False beyond a row's canvas, None where every canvas fills the width."""
        assert (memory is not None) == self.config.translates, "a translating network needs a source, others have none"
        x = self.enter(self.embedding(tokens), self.positions.weight[: tokens.shape[1]])
        for block, source in zip(self.decoder, memory or [None] * len(self.decoder), strict=True):
            x = block(x, inside=inside, source=source)
        return self.norm(x)

    def logits(self, hidden: Float[Tensor, "*any width"]) -> Float[Tensor, "*any vocabulary"]:
        """log f_theta up to its normaliser, through the transposed input embedding."""
        return F.linear(hidden, self.embedding.weight)


def initialise(module: nn.Module) -> None:
    """Normal, with one over the root of what comes in.  Paper: sec. 3.1 says nothing of it; our choice."""
    if isinstance(module, nn.Embedding):
        nn.init.normal_(module.weight, std=module.embedding_dim**-0.5)
    elif isinstance(module, nn.Linear):
        nn.init.normal_(module.weight, std=module.in_features**-0.5)
        nn.init.zeros_(module.bias)


def as_denoiser(
    network: Transformer, *, memory: Memory | None = None, sources: Int[Tensor, " chains"] | None = None
) -> Denoiser:
    """f_theta as the chain asks it; chain i translates source `sources[i]` of `memory`.

    Paper: eq. 2.
    """
    bound, bound_rows = memory, torch.arange(0 if memory is None else len(memory[0].keys))  # rows seldom change

    @torch.no_grad()
    def answer(ask: Ask) -> Prediction:
        nonlocal bound, bound_rows
        assert not network.training, "sampling needs network.eval(): dropout would change f_theta"
        rows = ask.rows if sources is None else sources[ask.rows]
        if memory is not None and not torch.equal(rows, bound_rows):
            bound, bound_rows = tuple(layer.select(rows) for layer in memory), rows
        inside = None if bool(ask.inside.all()) else ask.inside
        hidden = network(ask.tokens, inside=inside, memory=bound)
        return Prediction(hidden, network.logits(hidden[ask.where]))

    return answer
