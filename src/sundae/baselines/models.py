"""The baselines as models: text in, text out."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from sundae.baselines.autoregressive import BEGIN, MIDDLE, PREFIX, SUFFIX, Autoregressive, left_to_right
from sundae.baselines.cmlm import MaskedTransformer, MaskPredict
from sundae.baselines.search import Continuation, Likelihoods, beam_search, extend, log_likelihood
from sundae.config import BaselineConfig, RunConfig, SamplingConfig
from sundae.core.length import PAD
from sundae.core.network import Memory, as_denoiser
from sundae.core.noise import Noise
from sundae.core.sampling import ChainState, run_chain, unfold_chain
from sundae.decoding.lines import Kept, translate_lines
from sundae.decoding.truncation import keep_likeliest
from sundae.decoding.written import Written
from sundae.errors import CapabilityError, DataError, UsageError
from sundae.text.sources import pad_sources
from sundae.text.template import Blank, parse_template
from sundae.text.tokenizer import Tokenizer, continuation

BATCH = 64
"""Texts that are written together."""
TOO_LONG = -100.0
"""What each token of a text is rated at if there are more than the canvas holds."""
WORD_TOKENS = 12
"""The longest word, in tokens, that is looked for when a blank is given in words."""


@dataclass(frozen=True)
class Draw:
    """How the twin draws tokens; temperature 0 is greedy."""

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0

    def __post_init__(self) -> None:
        SamplingConfig(temperature=self.temperature, top_k=self.top_k, top_p=self.top_p)  # the same rules hold


class _LineTranslator(ABC):
    """A baseline that translates batches, and so lines, through the path that every model takes."""

    tokenizer: Tokenizer
    config: RunConfig

    def translate(self, sources: Sequence[str], *, baseline: BaselineConfig | None = None) -> list[Written]:
        """The best translation of each line."""
        return [found[0] for found in self.translate_many(sources, baseline=baseline)]

    def translate_many(
        self,
        sources: Sequence[str],
        *,
        baseline: BaselineConfig | None = None,
        count: int = 1,
        progress: Callable[[int], None] | None = None,
        say: Callable[[str], None] | None = None,
        kept: Kept | None = None,
    ) -> list[list[Written]]:
        """The best translations of each line."""
        if not self.config.network.translates:
            raise UsageError("this model does not translate", why="it has no encoder", hint="sundae generate")
        settings = baseline or self.config.baseline
        return translate_lines(
            sources,
            lambda some: self.translate_batch(some, settings, count),
            tokenizer=self.tokenizer,
            longest=self.config.network.longest_source,
            count=count,
            progress=progress,
            say=say,
            kept=kept,
        )

    @abstractmethod
    def translate_batch(self, sources: Sequence[str], settings: BaselineConfig, count: int = 1) -> list[list[Written]]:
        """Sources that fit the network, in one batch: for each its best translations."""


class AutoregressiveTwin(_LineTranslator):
    """The left-to-right model on the same blocks, tokenizer and data: baseline, teacher and judge."""

    def __init__(self, network: Autoregressive, tokenizer: Tokenizer, config: RunConfig) -> None:
        self.network, self.tokenizer, self.config = network.eval(), tokenizer, config

    @property
    def fills_the_middle(self) -> bool:
        """Whether it has learnt to write a middle given what stands on both sides."""
        return self.config.objective.middle_share > 0

    # ---- translating

    @torch.no_grad()
    def translate_batch(self, sources: Sequence[str], settings: BaselineConfig, count: int = 1) -> list[list[Written]]:
        """By beam search; a beam of 1 is greedy and gives one."""
        memory, begin = self._remember(sources), self.network.mark(BEGIN)
        limit = self.network.canvas
        if settings.beam == 1:
            found = extend(self.network, [[begin]] * len(sources), limits=[limit] * len(sources), memory=memory)
            means = [each.log_probability / each.predictions for each in found]
            return [
                [self._written(each.tokens, mean, each.network_calls)] for each, mean in zip(found, means, strict=True)
            ]
        beams = beam_search(
            self.network,
            torch.full((len(sources), 1), begin),
            limit=limit,
            beam=settings.beam,
            memory=memory,
            length_normalisation=settings.length_normalisation,
        )
        return [
            [self._written(each.tokens, each.score, beam.network_calls) for each in beam.hypotheses[:count]]
            for beam in beams
        ]

    def _remember(self, sources: Sequence[str]) -> Memory:
        source, inside = pad_sources(self.tokenizer, sources, longest=self.config.network.source_positions)
        return self.network.remember(self.network.encode(source, inside=inside), inside=inside)

    def _written(self, tokens: list[int], score: float, calls: int) -> Written:
        return Written(self.tokenizer.decode(tokens), score, len(tokens), calls)

    # ---- writing

    def generate(
        self, count: int = 1, *, prefix: str = "", draw: Draw | None = None, seed: int = 0, first: int = 0
    ) -> list[Written]:
        """Texts that begin with `prefix`; sample i of the seed is the same in any batch (`first` is its first i)."""
        self._require_no_source()
        draw = draw or Draw(temperature=self.config.sampling.temperature)
        given = self.tokenizer.encode(prefix)
        room = self._room(len(given))
        found: list[Continuation] = []
        for begin in range(first, first + count, BATCH):
            samples = range(begin, min(begin + BATCH, first + count))
            found += extend(
                self.network,
                [[self.network.mark(BEGIN), *given]] * len(samples),
                limits=[room] * len(samples),
                temperature=draw.temperature,
                adjust=lambda logits, _: keep_likeliest(logits, top_k=draw.top_k, top_p=draw.top_p),
                noise=Noise(seed),
                samples=samples,
            )
        return [
            Written(
                prefix + continuation(self.tokenizer, each.tokens, after=given),
                each.log_probability / each.predictions,
                len(each.tokens),
                each.network_calls,
            )
            for each in found
        ]

    def fill(self, template: str, *, count: int = 1, draw: Draw | None = None, seed: int = 0) -> list[Written]:
        """A template with one blank, filled; without fill-in-the-middle the twin sees only what stands before it."""
        self._require_no_source()
        before, blank, after = _one_blank(template)
        draw = draw or Draw()
        mark, prefix, suffix = self.network.mark, self.tokenizer.encode(before), self.tokenizer.encode(after)
        prompt = [mark(BEGIN), *prefix]
        if self.fills_the_middle:
            prompt = [mark(PREFIX), *prefix, mark(SUFFIX), *suffix, mark(MIDDLE)]
        room = self._room(len(prefix) + len(suffix))
        words = blank.unit == "words"
        least = 1 if words else blank.low
        wanted = WORD_TOKENS * blank.high if words else blank.high
        if least > room:
            raise UsageError(f"a blank of {least} tokens", why=f"the canvas has room for {room}")

        def adjust(logits: Tensor, written: Tensor) -> Tensor:
            barred = torch.zeros_like(logits, dtype=torch.bool)
            barred[:, PAD] = written < least
            if blank.leading_space:
                barred |= (written == 0)[:, None] & ~self._begins_with_space
            return keep_likeliest(logits.masked_fill(barred, -torch.inf), top_k=draw.top_k, top_p=draw.top_p)

        found = extend(
            self.network,
            [prompt] * count,
            limits=[min(wanted, room)] * count,
            temperature=draw.temperature,
            adjust=adjust,
            noise=Noise(seed),
        )
        texts = [continuation(self.tokenizer, each.tokens, after=prefix) for each in found]
        if blank.leading_space:
            texts = [text if text.startswith(" ") else f" {text}" for text in texts]
        if words:
            texts = [_first_words(text, blank.high) for text in texts]
        filled = [
            Written(
                before + text + after,
                each.log_probability / each.predictions,
                len(each.tokens),
                each.network_calls,
                ((len(before) + len(text) - len(text.lstrip()), len(before) + len(text)),),
            )
            for text, each in zip(texts, found, strict=True)
        ]
        return sorted(filled, key=lambda each: -each.score)

    @cached_property
    def _begins_with_space(self) -> Tensor:
        size = self.config.network.vocabulary_size
        if self.tokenizer.kind in ("word", "pretokenised"):  # every token begins a word
            return torch.ones(size, dtype=torch.bool)
        return torch.tensor([self.tokenizer.token_text(token).startswith(" ") for token in range(size)])

    def _require_no_source(self) -> None:
        if self.config.network.translates:
            raise UsageError("this model only translates", why="it has an encoder and needs a source")

    def _room(self, given: int) -> int:
        room = self.network.canvas - given
        if room < 1:
            raise UsageError(f"the text has {given} tokens", why=f"the model's canvas holds {self.network.canvas}")
        return room

    # ---- judging

    def rate(self, sources: Sequence[str], texts: Sequence[str]) -> list[float]:
        """How likely each text is as a translation of its source: its log-probability per token, its end included."""
        pairs = list(dict.fromkeys(zip(sources, texts, strict=True)))
        short = [pair for pair in pairs if len(self.tokenizer.encode(pair[1])) <= self.network.canvas]
        found = self.log_likelihood([text for _, text in short], sources=[source for source, _ in short])
        means = dict(zip(short, (found.log_probability / found.predictions).tolist(), strict=True))
        return [means.get(pair, TOO_LONG) for pair in zip(sources, texts, strict=True)]

    @torch.no_grad()
    def log_likelihood(self, texts: Sequence[str], *, sources: Sequence[str] | None = None) -> Likelihoods:
        """The exact log-probability of each text (given its source), its end included."""
        encoded = [self.tokenizer.encode(text) for text in texts]
        longest = self.network.canvas
        too_long = sum(len(ids) > longest for ids in encoded)
        if too_long:
            raise DataError(f"{too_long} of {len(texts)} texts are too long", why=f"the canvas holds {longest} tokens")
        parts: list[Likelihoods] = []
        for begin in range(0, len(encoded), 64):
            some = encoded[begin : begin + 64]
            # One more than the longest for its end, which a text that fills the canvas has not.
            rows = torch.full((len(some), min(longest, max(map(len, some)) + 1)), PAD)
            for row, ids in enumerate(some):
                rows[row, : len(ids)] = torch.tensor(ids, dtype=torch.long)
            reading = left_to_right(rows, begin=self.network.mark(BEGIN))
            memory = None
            if sources is not None:
                memory = self._remember(sources[begin : begin + 64])
            parts.append(
                log_likelihood(
                    self.network, reading.inputs, targets=reading.targets, counts=reading.counts, memory=memory
                )
            )
        if not parts:
            return Likelihoods(torch.zeros(0, dtype=torch.float64), torch.zeros(0, dtype=torch.long))
        return Likelihoods(
            torch.cat([part.log_probability for part in parts]), torch.cat([part.predictions for part in parts])
        )


def _one_blank(template: str) -> tuple[str, Blank, str]:
    segments = parse_template(template).segments
    blanks = [segment for segment in segments if isinstance(segment, Blank)]
    if len(blanks) != 1:
        raise CapabilityError(f"a template with {len(blanks)} blanks", why="a left-to-right model fills exactly one")
    where = segments.index(blanks[0])
    before, after = (
        "".join(part.text for part in side if not isinstance(part, Blank))
        for side in (segments[:where], segments[where + 1 :])
    )
    return before, blanks[0], after


def _first_words(text: str, count: int) -> str:
    lead = text[: len(text) - len(text.lstrip())]
    return lead + " ".join(text.split()[:count])


class MaskPredictTranslator(_LineTranslator):
    """A conditional masked language model that translates by mask-predict."""

    def __init__(self, network: MaskedTransformer, tokenizer: Tokenizer, config: RunConfig) -> None:
        self.network, self.tokenizer, self.config = network.eval(), tokenizer, config

    @torch.no_grad()
    def translate_batch(self, sources: Sequence[str], settings: BaselineConfig, count: int = 1) -> list[list[Written]]:
        """The likeliest lengths are tried, and the surest text per token wins."""
        network = self.network
        source, inside = pad_sources(self.tokenizer, sources, longest=self.config.network.source_positions)
        encodings = network.encode(source, inside=inside)
        memory = network.remember(encodings, inside=inside)
        tried = min(settings.length_candidates, network.config.canvas)
        lengths = network.length_predictor(encodings, inside=inside).topk(tried, dim=1).indices.flatten() + 1
        rows = torch.arange(len(sources)).repeat_interleave(tried)
        canvas = torch.arange(int(lengths.max())) < lengths[:, None]
        chain = unfold_chain(
            torch.full(canvas.shape, network.mask),
            rule=MaskPredict(network.mask),
            steps=settings.mask_predict_steps,
            noise=Noise(0),
            samples=rows,
            inside=canvas,
            editable=canvas,
        )
        *_, state = run_chain(as_denoiser(network, memory=memory, sources=rows), chain)
        surest = state.certainty.masked_fill(~canvas, 0.0).sum(1) / lengths
        best = surest.view(len(sources), tried).sort(dim=1, descending=True).indices[:, :count]
        best = best + torch.arange(len(sources))[:, None] * tried
        return [[self._written(state, row, int(lengths[row]), surest) for row in own.tolist()] for own in best]

    def _written(self, state: ChainState, row: int, length: int, surest: Tensor) -> Written:
        tokens = [token for token in state.tokens[row, :length].tolist() if token != PAD]
        return Written(self.tokenizer.decode(tokens), float(surest[row]), state.step, int(state.calls[row]))
