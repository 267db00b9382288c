"""Denoisers whose answers are known, and chains on small canvases, for the tests of the step rules."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from sundae.core.network import Ask, Denoiser, Prediction
from sundae.core.noise import Noise
from sundae.core.sampling import ChainState, Rule, draw_start, run_chain, unfold_chain

V = 11
MARK = V  # stands for noise where a test has to see it: no denoiser proposes it


def canvases(lengths: list[int]) -> Tensor:
    return torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]


def run(
    denoiser: Denoiser,
    rule: Rule,
    *,
    inside: Tensor,
    steps: int,
    editable: Tensor | None = None,
    template: Tensor | None = None,
    samples: Tensor | None = None,
    vocabulary_size: int = V,
    seed: int = 0,
    stop: bool = True,
) -> list[ChainState]:
    samples = torch.arange(len(inside)) if samples is None else samples
    editable = inside if editable is None else editable
    template = torch.zeros_like(inside, dtype=torch.long) if template is None else template
    noise = Noise(seed)
    start = draw_start(template, editable=editable, samples=samples, vocabulary_size=vocabulary_size, noise=noise)
    chain = unfold_chain(
        start, rule=rule, steps=steps, noise=noise, samples=samples, inside=inside, editable=editable, stop=stop
    )
    return list(run_chain(denoiser, chain))


def answering(logits: Callable[[Tensor], Tensor]) -> Denoiser:
    """A denoiser with these logits for its tokens, at every position."""
    return lambda ask: Prediction(torch.zeros(*ask.tokens.shape, 1), logits(ask.tokens)[ask.where])


def scripted(next_token: Callable[[Tensor], Tensor], *, vocabulary_size: int = V) -> Denoiser:
    """A denoiser that is certain of what `next_token` says of the tokens it is given."""
    return answering(
        lambda tokens: torch.full((*tokens.shape, vocabulary_size), -30.0).scatter(
            2, next_token(tokens)[..., None], 30.0
        )
    )


def flat(*, vocabulary_size: int = V) -> Denoiser:
    """A denoiser that knows nothing."""
    return answering(lambda tokens: torch.zeros(*tokens.shape, vocabulary_size))


def chaotic(seed: int, *, scale: float = 4.0) -> Denoiser:
    """Logits that are a hash of the row's own text, of position and token; positions beyond a canvas do not matter."""

    def answer(ask: Ask) -> Prediction:
        width = ask.tokens.shape[1]
        key = (torch.where(ask.inside, ask.tokens + 1, 0) * 13 ** torch.arange(width)).sum(1)
        table = scale * Noise(seed).uniform(key[:, None, None], torch.arange(width)[:, None], torch.arange(V))
        return Prediction(torch.zeros(*ask.tokens.shape, 1), table[ask.where])

    return answer


def shifts(width: int) -> Tensor:
    """A language of V sentences: sentence c counts up from c."""
    return (torch.arange(V)[:, None] + torch.arange(width)) % V


def knowing_shifts(*, rate: float = 0.6) -> Denoiser:
    """The exact posterior f(x_i | x^c) for that language and uniform corruption with this rate, by Bayes' rule."""

    def logits(tokens: Tensor) -> Tensor:
        sentences = shifts(tokens.shape[1])
        same = (tokens[:, None] == sentences).double()
        right, wrong = torch.tensor([1 - rate + rate / V, rate / V], dtype=torch.float64).log()
        of_sentence = (same * right + (1 - same) * wrong).sum(2).softmax(1)  # rows, sentences
        table = torch.zeros(*tokens.shape, V, dtype=torch.float64)
        for c, sentence in enumerate(sentences):
            table[:, torch.arange(tokens.shape[1]), sentence] += of_sentence[:, c, None]
        return table.clamp(min=1e-30).log().float()

    return answering(logits)


def barring(denoiser: Denoiser, barred: Tensor) -> Denoiser:
    """The same denoiser without the tokens that are barred at a position (positions by tokens)."""

    def answer(ask: Ask) -> Prediction:
        prediction = denoiser(ask)
        positions = ask.where.nonzero()[:, 1]
        return replace(prediction, logits=prediction.logits.masked_fill(barred[positions], -torch.inf))

    return answer


def mark_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """From here on every noised position holds MARK."""

    def mark(_logits: Tensor, *, lines: Tensor, uniform: Tensor, again: Tensor) -> Tensor:
        assert uniform.shape == again.shape == lines.shape
        return torch.full(lines.shape, MARK)

    monkeypatch.setattr("sundae.decoding.renoise.uniform_token", mark)
