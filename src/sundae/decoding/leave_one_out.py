"""What a model thinks of a token that it does not see: the token is replaced by noise and the network is asked for it.

A denoiser that sees a token mostly believes it, so f_theta(y_i | y) says little about whether y_i fits.
"""

from collections.abc import Hashable, Sequence
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

    The noise at a place is the same whatever the batch.  A token's mean leaves out the draws that showed it as noise:
    that it was seen is no evidence for it.  Canvases that differ in one token ask one question about it.
    """
    asked = [(canvas, place) for canvas in canvases for place in canvas.places]
    questions: dict[Hashable, list[int]] = {}
    for request, (canvas, place) in enumerate(asked):
        around = (tuple(canvas.tokens[:place]), tuple(canvas.tokens[place + 1 :]), canvas.width)
        questions.setdefault(around, []).append(request)
    kept = min(LIKELIEST, vocabulary_size)
    own, best = torch.zeros(len(asked)), torch.zeros(len(asked), kept)
    likeliest = torch.zeros(len(asked), kept, dtype=torch.long)
    groups, size = list(questions.values()), _ROWS // DRAWS
    for some in (groups[begin : begin + size] for begin in range(0, len(groups), size)):
        mean = _mean_log_probability([asked[same[0]] for same in some], denoiser, vocabulary_size)
        top = mean.topk(kept, dim=1)
        for row, same in enumerate(some):
            standing = torch.tensor([asked[request][0].tokens[asked[request][1]] for request in same])
            own[same] = mean[row, standing]
            best[same], likeliest[same] = top.values[row], top.indices[row]
    counts = [len(canvas.places) for canvas in canvases]
    parts = (some.split(counts) for some in (own, likeliest, best))
    return [Judged(*each) for each in zip(*parts, strict=True)]


def _mean_log_probability(asked: Sequence[tuple[Seen, int]], denoiser: Denoiser, vocabulary_size: int) -> Tensor:
    """For each canvas, of every token at its place."""
    width = max(canvas.width for canvas, _ in asked)
    tokens = torch.full((len(asked), width), PAD)
    for row, (canvas, _) in enumerate(asked):
        tokens[row, : len(canvas.tokens)] = torch.tensor(canvas.tokens)
    inside = torch.arange(width) < torch.tensor([canvas.width for canvas, _ in asked])[:, None]
    tokens, inside = tokens.repeat_interleave(DRAWS, dim=0), inside.repeat_interleave(DRAWS, dim=0)
    rows, draw = torch.arange(len(tokens)), torch.arange(DRAWS).repeat(len(asked))
    place = torch.tensor([place for _, place in asked]).repeat_interleave(DRAWS)
    noise = Noise(0).fold("leave one out").integer(vocabulary_size, draw, place)
    tokens[rows, place] = noise
    logits = denoiser(Ask(tokens, rows, inside, torch.arange(width) == place[:, None])).logits.float()
    logits[:, PAD] = -torch.inf
    logits.scatter_(1, noise[:, None], -torch.inf)
    total = torch.softmax(logits, dim=-1).view(len(asked), DRAWS, -1).sum(1)
    shown = torch.zeros_like(total).scatter_add_(1, noise.view(-1, DRAWS), torch.ones(len(asked), DRAWS))
    return (total / (DRAWS - shown).clamp(min=1)).log()
