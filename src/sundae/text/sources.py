"""Sources as a network reads them."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from sundae.core.length import PAD
from sundae.text.tokenizer import Tokenizer


def pad_sources(tokenizer: Tokenizer, sources: Sequence[str], *, longest: int) -> tuple[Tensor, Tensor]:
    """The tokens of each source, cropped to what the network can read, and where they are."""
    encoded = [torch.tensor(tokenizer.encode(text)[:longest], dtype=torch.long) for text in sources]
    padded = nn.utils.rnn.pad_sequence(encoded, batch_first=True, padding_value=PAD)
    lengths = torch.tensor([len(ids) for ids in encoded])
    if not padded.shape[1]:  # empty sources only: a network still needs a place to look at
        padded = torch.full((len(encoded), 1), PAD)
    return padded, torch.arange(padded.shape[1]) < lengths[:, None]
