"""Where a text ends, and the target length predictor."""

import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from sundae.config import NetworkConfig

PAD = 0  # an ordinary token of the vocabulary: corrupted, predicted and scored like any other


def text_length(text: Int[Tensor, "batch width"]) -> Int[Tensor, " batch"]:
    """l: the number of tokens before the first pad.  Paper: sec. 3.1 (Target Length Prediction)."""
    return (text == PAD).cumsum(1).eq(0).sum(1)


def half_length(length: Int[Tensor, " batch"]) -> Int[Tensor, " batch"]:
    """l_d = ceil(l / 2), at least 1.  Paper: app. B."""
    return ((length + 1) // 2).clamp(min=1)


def canvas_for(half: Int[Tensor, "*any"], config: NetworkConfig) -> Int[Tensor, "*any"]:
    """N = u ceil((2 l_d + u/2) / u), which tells no more than l_d does.  Paper: sec. 3.1 (up to 128); our reading."""
    unit = config.canvas_unit if config.length_prediction else config.canvas
    return ((2 * half + unit // 2 + unit - 1) // unit * unit).clamp(max=config.canvas)


class ResidualBlock(nn.Module):
    """v + W_2 gelu(W_1 norm(v)).  Paper: app. B ("6 residual blocks"; their inside is our choice)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.first = nn.Linear(width, width)
        self.second = nn.Linear(width, width)

    def forward(self, v: Float[Tensor, "batch width"]) -> Float[Tensor, "batch width"]:
        return v + self.second(F.gelu(self.first(self.norm(v))))


class LengthPredictor(nn.Module):
    """Logits of l_d = 1 .. N_d from the source encodings, which its loss does not train.

    Paper: sec. 3.1 (Target Length Prediction); app. B.
    """

    def __init__(self, config: NetworkConfig, *, classes: int) -> None:
        super().__init__()
        hidden = config.length_hidden
        self.project = nn.Linear(config.width, hidden)
        self.source_length = nn.Embedding(config.source_positions + 1, hidden)
        self.blocks = nn.ModuleList(ResidualBlock(hidden) for _ in range(config.length_blocks))
        self.norm = nn.LayerNorm(hidden)
        self.classify = nn.Linear(hidden, classes)

    def forward(
        self, encodings: Float[Tensor, "sources length width"], *, inside: Bool[Tensor, "sources length"]
    ) -> Float[Tensor, "sources classes"]:
        length = inside.sum(1)
        projected = self.project(encodings.detach()) * inside[..., None]
        v = projected.sum(1) / length.clamp(min=1)[:, None]  # v_x: the mean over the source tokens
        v = v + self.source_length(length)  # v'_x = v_x + v_len
        for block in self.blocks:
            v = block(v)
        return self.classify(self.norm(v))


def length_loss(logits: Float[Tensor, "batch classes"], *, half: Int[Tensor, " batch"]) -> Float[Tensor, ""]:
    """Cross-entropy of the true l_d.  Paper: app. B."""
    return F.cross_entropy(logits, half.clamp(max=logits.shape[1]) - 1)


def likeliest_half_length(logits: Float[Tensor, "batch classes"]) -> Int[Tensor, " batch"]:
    """The predicted l_d, given to the decoder at sampling.  Paper: app. B (red arrow of the figure)."""
    return logits.argmax(1) + 1
