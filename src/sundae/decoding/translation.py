"""Translating with the chain: lengths are predicted, candidates ranked, words locked where a translation needs them.

Paper: sec. 3.1 (Target Length Prediction, Decoding).
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from zlib import crc32

import torch
from torch import Tensor

from sundae.config import RankName, SamplingConfig
from sundae.core.length import PAD, canvas_for, half_length
from sundae.core.network import Denoiser, Transformer, as_denoiser
from sundae.core.sampling import model_score
from sundae.decoding.canvas import Watch
from sundae.decoding.constraints import Constraints
from sundae.decoding.desk import Order, Outcome, run_orders
from sundae.decoding.layout import FREE_OR_END, Desk, Layout, Piece, place_words
from sundae.decoding.rank import rank
from sundae.decoding.shapes import phrase_pattern
from sundae.decoding.written import Written
from sundae.errors import UsageError
from sundae.text.numbers import as_written, missing_numbers, numbers_in
from sundae.text.sources import pad_sources

SCORED = 64
"""Translations that are scored together."""
PLACES = 64
"""Places that are tried at most for words that must appear."""


@dataclass(frozen=True, kw_only=True)
class TranslateSettings:
    """How hard to try, and what a translation must hold.

    `lengths` of the likeliest target lengths are tried, with `sampling.candidates` chains each; the best `count`
    different texts are given.  Candidates on one canvas are ranked by their score, else per token, unless `by` says
    otherwise.  `terms` has for words of a source those that its translation must hold; of terms that overlap in the
    source the longest counts.
    """

    count: int = 1
    lengths: int = 1
    by: RankName | None = None
    seed: int = 0
    banned: tuple[str, ...] = ()
    terms: Mapping[str, str] = field(default_factory=dict[str, str])
    keep_numbers: bool = True
    scored: bool = True
    """Whether a single candidate is scored too, which costs one more network call."""
    spare: bool = True
    """Whether rows that did not change are left out of a step; False is for measuring what T whole steps cost."""

    def __post_init__(self) -> None:
        if self.count < 1 or self.lengths < 1:
            raise UsageError(f"{self.count} translations, {self.lengths} lengths", why="must be at least 1")
        if self.by == "leave-one-out":
            raise UsageError("--rank leave-one-out", why="it ranks fillings; translations go by their score, or mbr")
        for source, target in self.terms.items():
            if not source.strip() or not target.strip():
                raise UsageError(f"the term {source!r} = {target!r}", why="has an empty side")
        Constraints(banned=self.banned, must=tuple(self.terms.values()))  # refuses what contradicts itself

    def required(self, source: str) -> tuple[list[str], list[str]]:
        """All that a translation of this source must hold: words of terms, each once, and numbers."""
        asked, rest = self._asked(source)
        return asked, self._not_banned(numbers_in(rest))

    def lacking(self, source: str, translation: str) -> list[str]:
        """What of it a translation lacks."""
        asked, rest = self._asked(source)
        absent = [word for word in asked if not re.search(phrase_pattern(word), translation, re.IGNORECASE)]
        return absent + self._not_banned(missing_numbers(rest, translation))

    def _asked(self, source: str) -> tuple[list[str], str]:
        """The words of the terms of a source, and what else stands there."""
        taken: list[tuple[int, int]] = []
        asked: list[str] = []
        for term in sorted(self.terms, key=len, reverse=True):
            for found in re.finditer(phrase_pattern(term), source, re.IGNORECASE):
                if all(found.end() <= begin or end <= found.start() for begin, end in taken):
                    taken.append(found.span())
                    asked.append(self.terms[term])
        for begin, end in taken:
            source = source[:begin] + " " * (end - begin) + source[end:]
        return list(dict.fromkeys(asked)), source

    def _not_banned(self, numbers: Sequence[str]) -> list[str]:
        banned = Constraints(banned=self.banned)
        return [each for each in numbers if self.keep_numbers and not banned.find_banned(each)]


@dataclass(frozen=True)
class Translator:
    """A network ready to translate batches of sources that fit it."""

    network: Transformer
    desk: Desk
    sampling: SamplingConfig
    settings: TranslateSettings
    watch: Watch | None = None

    @torch.no_grad()
    def translate(self, sources: Sequence[str], *, halves: Tensor | None = None) -> list[list[Written]]:
        """For each source its best translations; `halves` are their (halved) lengths, if they are known.

        Where the translations lack words that they must hold, the chain runs again with those words locked at many
        places, and whatever then lacks least comes first.
        """
        encoded = self._encode(sources)
        halves = self._lengths(encoded) if halves is None else halves[:, None]
        found = self._run(encoded, sources, halves, [()] * len(sources))
        again = [
            number
            for number, (source, own) in enumerate(zip(sources, found, strict=True))
            if any(self.settings.lacking(source, each.text) for each in own[: self.settings.count])
        ]
        if again:
            rows = torch.tensor(again)
            some = [sources[number] for number in again]
            words = [self._words(sources[number], found[number][0].text) for number in again]
            locked = self._run((encoded[0][rows], encoded[1][rows]), some, self._grown(halves[rows], words), words)
            for number, own in zip(again, locked, strict=True):
                found[number] = self._merged(sources[number], found[number], own)
        return [own[: self.settings.count] for own in found]

    def _words(self, source: str, translation: str) -> tuple[str, ...]:
        """What is to be locked: what the vocabulary can write, a number in the form that the translation gave it."""
        asked, numbers = self.settings.required(source)
        words = [*asked, *(as_written(number, translation) or number for number in numbers)]
        spell, decode = self.desk.spell, self.desk.tokenizer.decode
        return tuple(word for word in words if decode(spell(word, after_space=True)).strip() == word)

    def _grown(self, halves: Tensor, words: Sequence[tuple[str, ...]]) -> Tensor:
        """The (halved) lengths, and beside each a longer one for words of many tokens, which nobody had foreseen."""
        if not self.network.config.length_prediction:
            return halves
        spelt = [[len(self.desk.spell(word, after_space=True)) for word in own] for own in words]
        more = torch.tensor([(sum(own) - len(own)) // 2 for own in spelt])[:, None]
        return torch.cat([halves, (halves + more).clamp(max=(self.network.config.canvas + 1) // 2)], dim=1)

    def _merged(self, source: str, free: list[Written], locked: list[Written]) -> list[Written]:
        """What lacks least comes first, by score; a best translation that lacks nothing stays the best."""
        spent = max(each.network_calls for each in free)
        dearer = [replace(each, network_calls=each.network_calls + spent) for each in locked]
        every = list({each.text: each for each in (*free, *dearer)}.values())
        ranked = sorted(every, key=lambda each: (len(self.settings.lacking(source, each.text)), -each.score))
        if self.settings.lacking(source, free[0].text):
            return ranked
        return [free[0], *(each for each in ranked if each.text != free[0].text)]

    @torch.no_grad()
    def score(self, sources: Sequence[str], texts: Sequence[str]) -> list[float]:
        """The model score of given translations, each on the canvas of its own length."""
        found: list[float] = []
        largest = self.network.config.canvas
        for begin in range(0, len(sources), SCORED):
            encodings, inside = self._encode(sources[begin : begin + SCORED])
            encoded = [self.desk.tokenizer.encode(text)[:largest] for text in texts[begin : begin + SCORED]]
            half = half_length(torch.tensor([len(ids) for ids in encoded]))
            memory = self.network.remember(encodings, inside=inside, half=half)
            widths = canvas_for(half, largest=largest)
            if not self.network.config.length_prediction:
                widths = torch.full_like(widths, largest)
            tokens = torch.full((len(encoded), int(widths.max())), PAD)
            for row, ids in enumerate(encoded):
                tokens[row, : len(ids)] = torch.tensor(ids, dtype=torch.long)
            canvas = torch.arange(tokens.shape[1]) < widths[:, None]
            found += model_score(as_denoiser(self.network, memory=memory), tokens, inside=canvas).total.tolist()
        return found

    def _encode(self, sources: Sequence[str]) -> tuple[Tensor, Tensor]:
        source, inside = pad_sources(self.desk.tokenizer, sources, longest=self.network.config.source_positions)
        return self.network.encode(source, inside=inside), inside

    def _lengths(self, encoded: tuple[Tensor, Tensor]) -> Tensor:
        """The likeliest (halved) lengths of each source, best first."""
        encodings, inside = encoded
        config = self.network.config
        if not config.length_prediction:
            if self.settings.lengths > 1:
                raise UsageError(f"{self.settings.lengths} lengths", why="this model does not predict lengths")
            return torch.full((len(encodings), 1), config.canvas)
        logits = self.network.length_predictor(encodings, inside=inside)
        return logits.topk(min(self.settings.lengths, logits.shape[1]), dim=1).indices + 1

    def _run(
        self,
        encoded: tuple[Tensor, Tensor],
        sources: Sequence[str],
        halves: Tensor,
        needed: Sequence[tuple[str, ...]],
    ) -> list[list[Written]]:
        """All candidates of all sources in common batches: the encoder runs once, keys are made once a length."""
        encodings, inside = encoded
        tried = halves.shape[1]
        predicts = self.network.config.length_prediction
        memory = self.network.remember(
            encodings.repeat_interleave(tried, dim=0),
            inside=inside.repeat_interleave(tried, dim=0),
            half=halves.flatten() if predicts else None,
        )
        largest = self.network.config.canvas
        widths = (
            canvas_for(halves.flatten(), largest=largest).view_as(halves)
            if predicts
            else torch.full_like(halves, largest)
        )
        orders: list[Order] = []
        owners: list[int] = []
        counts: list[int] = []
        for number, (source, words) in enumerate(zip(sources, needed, strict=True)):
            first = crc32(source.encode()) << 20  # which noise a source gets does not depend on its company
            own = [
                (layout, length)
                for length in range(tried)
                if halves[number, length] not in halves[number, :length]
                for layout in self._layouts(int(widths[number, length]), words)
            ]
            orders += [Order(layout, first + n, int(widths[number, k])) for n, (layout, k) in enumerate(own)]
            owners += [number * tried + length for _, length in own]
            counts.append(len(own))
        outcomes: list[Outcome] = []
        if orders:
            outcomes = run_orders(
                orders,
                self.desk,
                denoiser=as_denoiser(self.network, memory=memory, sources=torch.tensor(owners)),
                head=self.network.logits,
                sampling=self.sampling,
                seed=self.settings.seed,
                constraints=Constraints(banned=self.settings.banned),
                watch=self.watch,
                scored=self.settings.scored or max(counts) > 1,
                spare=self.settings.spare,
            )
        by: RankName = "score" if tried == 1 else "per-token"
        if not any(needed):  # of places for words most would agree on the end, where they disturb least
            by = self.settings.by or by
        found: list[list[Written]] = []
        begin = 0
        for source, count in zip(sources, counts, strict=True):
            found.append(self._ranked(source, outcomes[begin : begin + count], by=by))
            begin += count
        return found

    def _layouts(self, width: int, words: tuple[str, ...]) -> Sequence[Layout | None]:
        """Empty canvases, or one for each place of the words that must appear."""
        if not words:
            return [None] * self.sampling.candidates
        empty = Layout((Piece((PAD,) * width, classes=(FREE_OR_END,) * width),))
        placed = (place_words(empty, words, self.desk, seed=seed) for seed in range(4 * PLACES))
        different = dict.fromkeys(layout for layout in placed if layout is not None)
        # Where there is no room for all, there may be for fewer.
        return list(different)[:PLACES] or (self._layouts(width, words[:-1]) if len(words) > 1 else [])

    def _ranked(self, source: str, outcomes: Sequence[Outcome], *, by: RankName) -> list[Written]:
        texts = [self._text(outcome.tokens) for outcome in outcomes]
        order = rank(
            texts,
            scores=[outcome.score for outcome in outcomes],
            lengths=[outcome.length for outcome in outcomes],
            by=by,
        )
        return [
            Written(
                texts[index],
                outcomes[index].score_per_token,
                outcomes[index].steps,
                outcomes[index].network_calls,
                origins=outcomes[index].origins(source=source),
            )
            for index in order
        ]

    def _text(self, tokens: list[int]) -> str:
        return self.desk.tokenizer.decode(tokens[: tokens.index(PAD)] if PAD in tokens else tokens)


def bound_to(network: Transformer, source: str, desk: Desk, *, length: int) -> tuple[Denoiser, int]:
    """f_theta given one source and a target's length in tokens, and the canvas that goes with that length."""
    tokens, inside = pad_sources(desk.tokenizer, [source], longest=network.config.source_positions)
    half, largest = half_length(torch.tensor([length])), network.config.canvas
    with torch.no_grad():
        memory = network.remember(network.encode(tokens, inside=inside), inside=inside, half=half)
    width = int(canvas_for(half, largest=largest)) if network.config.length_prediction else largest
    answer = as_denoiser(network, memory=memory)
    return lambda ask: answer(replace(ask, rows=torch.zeros_like(ask.rows))), width
