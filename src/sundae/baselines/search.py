"""Decoding from left to right: greedy, sampling and beam search, all with cached keys and values."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from sundae.baselines.autoregressive import Autoregressive, Cache
from sundae.core.length import PAD
from sundae.core.network import Memory
from sundae.core.noise import Noise, sample_categorical


@dataclass(frozen=True)
class Continuation:
    """Tokens after a prompt, without the end; `log_probability` (at temperature 1) counts the end too, if it came.

    `predictions` is how many there were: the tokens, and the end.
    """

    tokens: list[int]
    log_probability: float
    network_calls: int
    predictions: int


def _rows_of(memory: Memory | None, rows: Tensor) -> Memory | None:
    return None if memory is None else tuple(layer.select(rows) for layer in memory)


Adjust = Callable[[Tensor, Tensor], Tensor]
"""Of logits and each row's number of tokens so far: the logits to draw from (truncated, or with tokens barred)."""


@torch.no_grad()
def extend(
    network: Autoregressive,
    prompts: Sequence[Sequence[int]],
    *,
    limits: Sequence[int],
    memory: Memory | None = None,
    temperature: float = 0.0,
    adjust: Adjust | None = None,
    noise: Noise | None = None,
    samples: Sequence[int] | None = None,
) -> list[Continuation]:
    """Go on from each prompt (its first symbol is a mark) until a pad or `limits[i]` tokens; temperature 0 is greedy.

    Row i is sample `samples[i]` of the noise, whatever the batch; rows that have ended leave it.
    """
    noise = (noise or Noise(0)).fold("left to right")
    numbers = torch.arange(len(prompts)) if samples is None else torch.tensor(samples)
    lengths, room = torch.tensor([len(prompt) for prompt in prompts]), torch.tensor(limits)
    forced = torch.full((len(prompts), int(lengths.max())), PAD)
    for row, prompt in enumerate(prompts):
        forced[row, : len(prompt)] = torch.tensor(prompt)
    written: list[list[int]] = [[] for _ in prompts]
    scores, calls, ends = torch.zeros(len(prompts), dtype=torch.float64), [0] * len(prompts), [0] * len(prompts)
    rows = (room > 0).nonzero().squeeze(1)
    if not len(rows):
        return [Continuation([], 0.0, 0, 1) for _ in prompts]
    cache = Cache(network, rows=len(rows), slots=int((lengths + room).max()))
    memory = _rows_of(memory, rows)
    # The prompts' common length is read in one call; longer ones are then followed token by token.
    inputs, position = forced[rows, : int(lengths[rows].min())], int(lengths[rows].min())
    while True:
        hidden = network(inputs, memory=memory, cache=cache)
        for row in rows.tolist():
            calls[row] += 1
        free = lengths[rows] <= position
        count = position - lengths[rows]  # tokens written so far
        logits = network.logits(hidden[:, -1]).float()
        shown = logits if adjust is None else adjust(logits, count)
        if temperature:
            uniform = noise.uniform(numbers[rows], count.clamp(min=0))
            token = sample_categorical(shown, uniform=uniform, temperature=temperature)
        else:
            token = shown.argmax(-1)
        if not bool(free.all()):
            token = token.where(free, forced[rows, min(position, forced.shape[1] - 1)])
        said = torch.log_softmax(logits, dim=-1).gather(1, token[:, None]).squeeze(1)
        scores[rows] += said.double().where(free, 0.0)
        ended = free & (token == PAD)
        for row in rows[ended].tolist():
            ends[row] = 1
        for row, each, writes in zip(rows.tolist(), token.tolist(), (free & ~ended).tolist(), strict=True):
            if writes:
                written[row].append(each)
        going = ~(ended | (free & (count + 1 >= room[rows])))
        if not bool(going.all()):
            kept = going.nonzero().squeeze(1)
            if not len(kept):
                break
            rows, token = rows[kept], token[kept]
            memory = _rows_of(memory, kept)
            cache.select(kept)
        inputs, position = token[:, None], position + 1
    return [
        Continuation(tokens, score, made, max(1, len(tokens) + end))
        for tokens, score, made, end in zip(written, scores.tolist(), calls, ends, strict=True)
    ]


@dataclass(frozen=True)
class Hypothesis:
    """One finished text of a beam; `score` is its log-probability over its length to a power."""

    tokens: list[int]
    score: float
    log_probability: float


@dataclass(frozen=True)
class Beam:
    """All finished hypotheses of one source, best first, and the calls that they took."""

    hypotheses: list[Hypothesis]
    network_calls: int


@torch.no_grad()
def beam_search(
    network: Autoregressive,
    prompts: Tensor,
    *,
    limit: int,
    beam: int,
    memory: Memory | None = None,
    length_normalisation: float = 1.0,
) -> list[Beam]:
    """The likeliest continuations of prompts of one length, by log-probability / length^`length_normalisation`.

    The length counts the end.  A source is done when `beam` hypotheses have ended and none that still runs is better
    than the best of them by now; what still runs at `limit` tokens ends there.
    """
    finished: list[list[Hypothesis]] = [[] for _ in prompts]
    calls = [0] * len(prompts)
    sources = torch.arange(len(prompts))  # which are not done
    tokens = torch.empty(len(prompts), 1, 0, dtype=torch.long)  # sources, beams, length
    scores = torch.zeros(len(prompts), 1, dtype=torch.float64)
    cache = Cache(network, rows=len(prompts), slots=prompts.shape[1] + limit)
    inputs = prompts

    def finish(source: int, text: Tensor, score: Tensor, length: int) -> None:
        total = float(score)
        hypothesis = Hypothesis(text.tolist(), total / length**length_normalisation, total)
        finished[source].append(hypothesis)

    for length in range(1, limit + 1):
        hidden = network(inputs, memory=memory, cache=cache)
        for source in sources.tolist():
            calls[source] += 1
        beams = tokens.shape[1]
        logits = network.logits(hidden[:, -1]).float()
        vocabulary_size = logits.shape[-1]
        total = scores[:, :, None] + torch.log_softmax(logits, dim=-1).view(len(sources), beams, -1).double()
        best, index = total.flatten(1).topk(min(2 * beam, beams * vocabulary_size), dim=1)
        parent, token = index // vocabulary_size, index % vocabulary_size
        ends = token == PAD
        for row, rank in ends[:, :beam].nonzero().tolist():
            finish(int(sources[row]), tokens[row, int(parent[row, rank])], best[row, rank], length)
        # Each parent ends at most once, so at least `beam` of the candidates go on (or all there are).
        going = ends.long().argsort(dim=1, stable=True)[:, : min(beam, beams * (vocabulary_size - 1))]
        scores, parent, token = (each.gather(1, going) for each in (best, parent, token))
        chosen = parent[:, :, None].expand(-1, -1, tokens.shape[2])
        tokens = torch.cat([tokens.gather(1, chosen), token[:, :, None]], dim=2)
        ahead = (scores[:, 0] / length**length_normalisation).tolist()
        undone = [
            len(finished[source]) < beam or max(each.score for each in finished[source]) < score
            for source, score in zip(sources.tolist(), ahead, strict=True)
        ]
        kept = torch.tensor(undone).nonzero().squeeze(1)
        if not len(kept):
            break
        from_rows = (kept[:, None] * beams + parent[kept]).flatten()
        sources, tokens, scores = sources[kept], tokens[kept], scores[kept]
        memory = _rows_of(memory, from_rows)
        cache.select(from_rows)
        inputs = token[kept].view(-1, 1)
    else:
        for row, source in enumerate(sources.tolist()):
            for text, score in zip(tokens[row], scores[row], strict=True):
                finish(source, text, score, limit)
    ordered = [sorted(each, key=lambda hypothesis: -hypothesis.score) for each in finished]
    return [Beam(*each) for each in zip(ordered, calls, strict=True)]


@dataclass(frozen=True)
class Likelihoods:
    """log p of each text, its end included, and of how many predictions it is the sum."""

    log_probability: Tensor
    predictions: Tensor


@torch.no_grad()
def log_likelihood(
    network: Autoregressive, inputs: Tensor, *, targets: Tensor, counts: Tensor, memory: Memory | None = None
) -> Likelihoods:
    """The exact log-probability of texts, in one pass."""
    logits = network.logits(network(inputs, memory=memory)[counts]).float()
    said = logits.gather(1, targets[counts][:, None]).squeeze(1) - logits.logsumexp(1)
    total = torch.zeros(targets.shape, dtype=torch.float64).masked_scatter(counts, said.double()).sum(1)
    return Likelihoods(total, counts.sum(1))
