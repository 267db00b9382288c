"""What a model thinks of a token that it does not see: the token is replaced by noise and the network is asked for it.

A denoiser that sees a token mostly believes it, so f_theta(y_i | y) says little about whether y_i fits.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from sundae.core.length import PAD
from sundae.core.network import Ask, Denoiser
from sundae.core.noise import Noise

_ROWS = 256


@dataclass(frozen=True)
class Seen:
    """A canvas of which some positions are judged."""

    tokens: Sequence[int]
    width: int
    places: Sequence[int]


def leave_one_out(canvases: Sequence[Seen], *, denoiser: Denoiser, vocabulary_size: int) -> list[Tensor]:
    """For each canvas, log-probabilities of all tokens at each of its places, given everything else (places by tokens).

    The noise at a place is the same whatever the batch, and is itself barred: that it was seen is no evidence for it.
    """
    asked = [(canvas, place) for canvas in canvases for place in canvas.places]
    found = [torch.zeros(0, vocabulary_size)]
    for begin in range(0, len(asked), _ROWS):
        some = asked[begin : begin + _ROWS]
        width = max(canvas.width for canvas, _ in some)
        tokens = torch.full((len(some), width), PAD)
        for row, (canvas, _) in enumerate(some):
            tokens[row, : len(canvas.tokens)] = torch.tensor(canvas.tokens)
        places = torch.tensor([place for _, place in some])
        rows = torch.arange(len(some))
        noise = Noise(0).fold("leave one out").integer(vocabulary_size, places)
        noise = torch.where(noise == tokens[rows, places], (noise + 1) % vocabulary_size, noise)
        tokens[rows, places] = noise
        inside = torch.arange(width) < torch.tensor([canvas.width for canvas, _ in some])[:, None]
        where = torch.arange(width) == places[:, None]
        logits = denoiser(Ask(tokens, rows, inside, where)).logits.float()
        logits[:, PAD] = -torch.inf
        logits.scatter_(1, noise[:, None], -torch.inf)
        found.append(torch.log_softmax(logits, dim=-1))
    return list(torch.cat(found).split([len(canvas.places) for canvas in canvases]))
