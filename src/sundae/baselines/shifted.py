"""SUNDAE's network, wired as its autoregressive twin is: slot i sees the token before, and predicts token i.

In the paper's network slot i sees token i itself, and a twin's layers, which expect the token before, have to learn
anew.  Here its weights fit as they are: all that changes is that a slot may look to its right.  Gong et al. (2024,
arXiv 2410.17891) and Ye et al. (2025, arXiv 2508.15487) adapt large left-to-right models in this way.
"""

from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sundae.config import NetworkConfig
from sundae.core.network import Memory, Transformer


class ShiftedTransformer(Transformer):
    """f_theta with one more slot, where a text begins; the last token is seen by all but has nothing to predict."""

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__(replace(config, canvas=config.canvas + 2))  # positions: that slot, and the length's (below)
        self.config = config
        self.begin_row = nn.Parameter(torch.randn(config.width) * config.width**-0.5)

    def forward(self, tokens: Tensor, *, inside: Tensor | None = None, memory: Memory | None = None) -> Tensor:
        """The last hidden state at every position."""
        assert (memory is not None) == self.config.translates, "a translating network needs a source, others have none"
        words = torch.cat([self.begin_row.expand(len(tokens), 1, -1), self.embedding(tokens)], dim=1)
        inside = None if inside is None else F.pad(inside, (1, 0), value=True)
        x = self.enter(words, self.positions.weight[: words.shape[1]])
        # A twin has no slot for the length before its source: with it, the source begins one place later, and so do we.
        begin = int(self.config.translates and self.config.length_prediction)
        for block, source in zip(self.decoder, memory or [None] * len(self.decoder), strict=True):
            x = block(x, inside=inside, source=source, begin=begin)
        return self.norm(x[:, :-1])
