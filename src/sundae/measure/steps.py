"""How a translation grows: BLEU, model score and repetition after every step of the chain.

Paper: app. E (Translation analysis).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from sundae.config import SamplingConfig
from sundae.core.sampling import ChainState, model_score
from sundae.decoding.desk import batch_rows
from sundae.decoding.reading import Reading
from sundae.decoding.translation import TranslateSettings
from sundae.measure.bleu import corpus_bleu, tokenised_bleu
from sundae.measure.diversity import diversity
from sundae.model import Sundae

_BATCH = 32


@dataclass(frozen=True)
class Step:
    """All translations as they were after one step."""

    step: int
    bleu: float
    score: float
    """The model score of a sentence, on average."""
    repeated_tokens: float
    """Share of words that equal the word just before them: what is left of writing all at once."""


class _Keeper:
    """An onlooker that keeps all states of one run, and what the model thinks of them."""

    def __init__(self) -> None:
        self.reading: Reading | None = None
        self.states: list[Tensor] = []
        self.scores: list[Tensor] = []

    def begin(self, reading: Reading) -> None:
        self.reading = reading

    def __call__(self, state: ChainState) -> None:
        assert self.reading is not None
        assert self.reading.denoiser is not None
        self.states.append(state.tokens.clone())
        self.scores.append(model_score(self.reading.denoiser, state.tokens, inside=self.reading.inside).total)


def by_step(
    model: Sundae,
    sources: Sequence[str],
    references: Sequence[str],
    *,
    sampling: SamplingConfig,
    seed: int = 0,
    tokenised: bool = False,
) -> tuple[list[Step], str]:
    """One chain for each source, looked at after every step (0 is the noise); and BLEU's signature.

    Sources are taken as they are: one that is too long for the network is cropped.  All chains take all steps.
    """
    sampling = replace(sampling, candidates=1, length_candidates=1, stop_early=False)
    order = sorted(range(len(sources)), key=lambda number: len(sources[number]))
    texts: list[dict[int, str]] = [{} for _ in range(sampling.steps + 1)]
    scores = torch.zeros(sampling.steps + 1, dtype=torch.float64)
    batch = min(_BATCH, batch_rows(canvas=model.config.network.canvas, vocabulary_size=model.vocabulary_size))
    for begin in range(0, len(order), batch):
        some = order[begin : begin + batch]
        keeper = _Keeper()
        translator = model.translator(
            sampling=sampling, settings=TranslateSettings(seed=seed, keep_numbers=False), watch=keeper
        )
        translator.translate([sources[number] for number in some])
        for step in range(sampling.steps + 1):
            now = min(step, len(keeper.states) - 1)  # all rows may have settled before
            texts[step] |= {number: model.text(row) for number, row in zip(some, keeper.states[now], strict=True)}
            scores[step] += keeper.scores[now].double().sum()
    measure = tokenised_bleu if tokenised else corpus_bleu
    steps: list[Step] = []
    signature = ""
    for step, found in enumerate(texts):
        grown = [found[number] for number in range(len(sources))]
        bleu = measure(grown, references)
        signature = bleu.signature
        repeated = diversity(grown, orders=(1,)).repeated_tokens
        steps.append(Step(step, bleu.score, float(scores[step]) / len(sources), repeated))
    return steps, signature


def reference_score(model: Sundae, sources: Sequence[str], references: Sequence[str]) -> float:
    """The model score of a reference, on average, on the canvas of its own length."""
    translator = model.translator()
    return sum(translator.score(sources, references)) / len(sources)
