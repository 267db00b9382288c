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

DRAWS = 4
"""Noise that takes a token's place, one after the other: some of it happens to fit, and is believed."""
LIKELIEST = 5
_ROWS = 256


@dataclass(frozen=True)
class Seen:
    """A canvas of which some positions are judged."""

    tokens: Sequence[int]
    width: int
    places: Sequence[int]


@dataclass(frozen=True)
class Judged:
    """At each place, given everything else: the log-probability of what stands there, and the likeliest tokens."""

    own: Tensor
    likeliest: Tensor
    log_probability: Tensor
    """Of the likeliest ones, best first."""


def leave_one_out(canvases: Sequence[Seen], *, denoiser: Denoiser, vocabulary_size: int) -> list[Judged]:
    """Judge each canvas at its places: the mean probability over several draws of noise there.

    The noise at a place is the same whatever the batch, and is itself barred: that it was seen is no evidence for it.
    """
    asked = [(canvas, place) for canvas in canvases for place in canvas.places]
    kept = min(LIKELIEST, vocabulary_size)
    own, likeliest, best = [torch.zeros(0)], [torch.zeros(0, kept, dtype=torch.long)], [torch.zeros(0, kept)]
    for begin in range(0, len(asked), _ROWS // DRAWS):
        some = asked[begin : begin + _ROWS // DRAWS]
        width = max(canvas.width for canvas, _ in some)
        tokens = torch.full((len(some), width), PAD)
        for row, (canvas, _) in enumerate(some):
            tokens[row, : len(canvas.tokens)] = torch.tensor(canvas.tokens)
        places = torch.tensor([place for _, place in some])
        inside = torch.arange(width) < torch.tensor([canvas.width for canvas, _ in some])[:, None]
        standing = tokens[torch.arange(len(some)), places]
        rows = torch.arange(len(some) * DRAWS)
        draw, place = torch.arange(DRAWS).repeat(len(some)), places.repeat_interleave(DRAWS)
        noise = Noise(0).fold("leave one out").integer(vocabulary_size, draw, place)
        noise = torch.where(noise == standing.repeat_interleave(DRAWS), (noise + 1) % vocabulary_size, noise)
        tokens, inside = tokens.repeat_interleave(DRAWS, dim=0), inside.repeat_interleave(DRAWS, dim=0)
        tokens[rows, place] = noise
        logits = denoiser(Ask(tokens, rows, inside, torch.arange(width) == place[:, None])).logits.float()
        logits[:, PAD] = -torch.inf
        logits.scatter_(1, noise[:, None], -torch.inf)
        mean = torch.softmax(logits, dim=-1).view(len(some), DRAWS, -1).mean(1).log()
        own.append(mean.gather(1, standing[:, None]).squeeze(1))
        top = mean.topk(kept, dim=1)
        best.append(top.values)
        likeliest.append(top.indices)
    counts = [len(canvas.places) for canvas in canvases]
    parts = (torch.cat(some).split(counts) for some in (own, likeliest, best))
    return [Judged(*each) for each in zip(*parts, strict=True)]
