"""Translating with the chain: lengths are predicted, candidates ranked, words locked where a translation needs them.

Paper: sec. 3.1 (Target Length Prediction, Decoding).
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from zlib import crc32

import torch
from torch import Tensor

from sundae.config import RankName, SamplingConfig
from sundae.core.length import PAD, canvas_for, half_length
from sundae.core.network import Denoiser, Memory, Transformer, as_denoiser
from sundae.core.sampling import model_score
from sundae.decoding.canvas import Watch
from sundae.decoding.constraints import Constraints
from sundae.decoding.desk import Order, Outcome, run_orders
from sundae.decoding.hanging import hanging_word
from sundae.decoding.layout import Desk, Layout, Piece
from sundae.decoding.places import Spliced, locked_layout, put_instead, splice
from sundae.decoding.rank import rank
from sundae.decoding.shapes import phrase_pattern
from sundae.decoding.written import Written
from sundae.errors import UsageError
from sundae.text.numbers import disorder, missing_numbers, numbers_in
from sundae.text.sources import pad_sources

SCORED = 64
"""Translations that are scored together."""
SUPERFLUOUS = 3.0
"""Nats that a word costs by which a text grows when a term comes in: most often there is another word for it."""
RUNS = 2
"""Chains for each way to place words that must appear."""

Rate = Callable[[Sequence[str], Sequence[str]], list[float]]
"""How likely another model finds each text as a translation of its source: its log-probability per token."""


@dataclass(frozen=True, kw_only=True)
class TranslateSettings:
    """How hard to try, and what a translation must hold.

    The best `count` different texts are given.  Candidates are ranked as `sampling.length_normalisation` says, unless
    `by` says otherwise or another model rates them.  `terms` has for words of a source those
    that its translation must hold; of terms that overlap in the source the longest counts.
    """

    count: int = 1
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
        if self.count < 1:
            raise UsageError(f"{self.count} translations", why="must be at least 1")
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
        absent = [word for word in asked if not re.search(_as_target(word), translation)]
        return absent + self._not_banned(missing_numbers(rest, translation))

    def invented(self, source: str, translation: str) -> list[str]:
        """Numbers of a translation that its source does not have, not in digits at least."""
        return missing_numbers(translation, source) if self.keep_numbers else []

    @cached_property
    def _patterns(self) -> dict[str, re.Pattern[str]]:
        """What finds each term in a source, the longest first; not as a part of a word with hyphens."""
        longest_first = sorted(self.terms, key=len, reverse=True)
        return {
            term: re.compile(rf"(?<!\w-)(?:{phrase_pattern(term)})(?!-\w)", re.IGNORECASE) for term in longest_first
        }

    def without(self, source: str, words: str) -> str:
        """The source less the term that these words translate."""
        taken = [span for span, asked in self._terms_in(source) if asked == words]
        return " ".join(_blanked(source, taken).split())

    def _asked(self, source: str) -> tuple[list[str], str]:
        """The words of the terms of a source, and what else stands there."""
        taken = self._terms_in(source)
        return list(dict.fromkeys(words for _, words in taken)), _blanked(source, [span for span, _ in taken])

    def _terms_in(self, source: str) -> list[tuple[tuple[int, int], str]]:
        """Where its terms stand, and the words for each."""
        taken: list[tuple[tuple[int, int], str]] = []
        for term, pattern in self._patterns.items():
            for found in pattern.finditer(source):
                if all(found.end() <= begin or end <= found.start() for (begin, end), _ in taken):
                    taken.append((found.span(), self.terms[term]))
        return taken

    def _not_banned(self, numbers: Sequence[str]) -> list[str]:
        banned = Constraints(banned=self.banned)
        return [each for each in numbers if self.keep_numbers and not banned.find_banned(each)]


def _blanked(text: str, spans: Sequence[tuple[int, int]]) -> str:
    for begin, end in spans:
        text = text[:begin] + " " * (end - begin) + text[end:]
    return text


@lru_cache(maxsize=4096)
def _as_target(words: str) -> re.Pattern[str]:
    """Words of a term as they are written, but for a capital letter at the beginning."""
    return re.compile(f"{phrase_pattern(words)}|{phrase_pattern(words[:1].upper() + words[1:])}")


@dataclass(frozen=True)
class Translator:
    """A network ready to translate batches of sources that fit it."""

    network: Transformer
    desk: Desk
    sampling: SamplingConfig
    settings: TranslateSettings
    watch: Watch | None = None
    rate: Rate | None = None
    """Who scores candidates instead of the model itself: noisy parallel decoding (Gu et al., 2018)."""

    @torch.no_grad()
    def translate(self, sources: Sequence[str], *, halves: Tensor | None = None) -> list[list[Written]]:
        """For each source its best translations; `halves` are their (halved) lengths, if they are known.

        Where a translation lacks words that it must hold, they are put into it where the model likes them best, the
        chain runs again with them locked there, and whatever then lacks least comes first.
        """
        encoded = self._encode(sources)
        halves = self._lengths(encoded) if halves is None else halves[:, None]
        empty = [[None] * self.sampling.candidates] * halves.shape[1]
        found = self._run(encoded, sources, halves, [empty] * len(sources), by=self.settings.by)
        again = [
            number
            for number, (source, own) in enumerate(zip(sources, found, strict=True))
            if any(self.settings.lacking(source, each.text) for each in own[: self.settings.count])
        ]
        if again:
            rows = torch.tensor(again)
            part, some = (encoded[0][rows], encoded[1][rows]), [sources[number] for number in again]
            for number, better in zip(again, self._mended(part, some, [found[each] for each in again]), strict=True):
                found[number] = better
        return [own[: self.settings.count] for own in found]

    def _mended(
        self, encoded: tuple[Tensor, Tensor], sources: Sequence[str], found: Sequence[list[Written]]
    ) -> list[list[Written]]:
        """Translations with what was lacking in them; a best one that lacked nothing stays the best."""
        each_encoded = [(encoded[0][row : row + 1], encoded[1][row : row + 1]) for row in range(len(sources))]
        layouts: list[dict[int, list[Layout]]] = []
        for of_source, source, own in zip(each_encoded, sources, found, strict=True):
            layouts.append({})
            lacking = [each for each in own[: self.settings.count] if self.settings.lacking(source, each.text)]
            # What comes first must not depend on how many are wanted.
            for draft in lacking[:1] if lacking and lacking[0] is own[0] else lacking:
                for way in self._spliced(of_source, source, draft.text):
                    half = half_length(torch.tensor([len(self.desk.tokenizer.encode(way.text))]))
                    width = int(canvas_for(half, self.network.config))
                    layouts[-1].setdefault(int(half), []).extend(self._locked(way, width=width))
        tried = max(1, *map(len, layouts))
        halves = torch.ones(len(sources), tried, dtype=torch.long)  # where there are fewer, nothing is laid out
        chains: list[list[list[Layout | None]]] = []
        for row, lengths in enumerate(layouts):
            halves[row, : len(lengths)] = torch.tensor(list(lengths), dtype=torch.long)
            chains.append([list[Layout | None](own) for own in lengths.values()] + [[]] * (tried - len(lengths)))
        locked = self._run(encoded, sources, halves, chains)
        return [self._merged(*each) for each in zip(each_encoded, sources, found, locked, strict=True)]

    def _spliced(self, encoded: tuple[Tensor, Tensor], source: str, draft: str) -> list[Spliced]:
        """The draft with the words that it lacks, as far as the vocabulary can write them."""
        spell, decode = self.desk.spell, self.desk.tokenizer.decode
        lacking = self.settings.lacking(source, draft)
        words = [word for word in lacking if decode(spell(word, after_space=True)).strip() == word]

        def liked(texts: Sequence[str]) -> list[float]:
            scores = zip(texts, self._scored(encoded, texts), strict=True)
            return [score - SUPERFLUOUS * self._superfluous(source, draft, text) for text, score in scores]

        def allowed(before: str, after: str) -> bool:
            fewer = len(self.settings.lacking(source, after)) < len(self.settings.lacking(source, before))
            fits = len(self.desk.tokenizer.encode(after)) <= self.network.config.canvas
            return fewer and fits and disorder(source, after) <= disorder(source, before)

        terms = [word for word in words if word in self.settings.required(source)[0]]
        begun = put_instead(draft, {word: self._hanging(source, word, draft) for word in terms}, allowed=allowed)
        placed = [word for _, word in begun.places]
        left = [word for word in words if word not in placed]
        return splice(begun, left, score=liked, allowed=allowed) if words else []

    def _hanging(self, source: str, words: str, draft: str) -> tuple[int, int] | None:
        """Where the word of the draft stands that these words of a term should stand for."""
        length = len(self.desk.tokenizer.encode(draft))
        sources = (source, self.settings.without(source, words))
        (given, width), (without, _) = (bound_to(self.network, each, self.desk, length=length) for each in sources)
        return hanging_word(draft, self.desk.tokenizer, given=given, without=without, width=width)

    def _superfluous(self, source: str, draft: str, text: str) -> int:
        """By how many words a text is longer than a draft, apart from what had to come; terms replace something.

        A number that nobody gave counts as two.
        """
        asked, still = self.settings.required(source)[0], self.settings.lacking(source, text)
        came = [word for word in self.settings.lacking(source, draft) if word not in still]
        room = sum(len(word.split()) - (word in asked) for word in came)
        return max(0, len(text.split()) - len(draft.split()) - room) + 2 * len(self.settings.invented(source, text))

    def _locked(self, way: Spliced, *, width: int) -> list[Layout]:
        """The text as it is, and canvases on which only the words have their places."""
        places: list[tuple[int, list[int]]] = []
        for begin, word in way.places:
            offset = len(self.desk.tokenizer.encode(way.text[:begin].rstrip()))
            places.append((offset, self.desk.spell(word, after_space=offset > 0)))
        whole = Layout((Piece(tuple(self.desk.tokenizer.encode(way.text)), way.text),))
        alone = locked_layout(width, places) if places else None
        return [whole, *([] if alone is None else [alone] * RUNS)]

    def _merged(
        self, encoded: tuple[Tensor, Tensor], source: str, free: list[Written], locked: list[Written]
    ) -> list[Written]:
        """What lacks least comes first, then what the model likes best."""
        spent = max(each.network_calls for each in free)
        dearer = [replace(each, network_calls=each.network_calls + spent) for each in locked]
        every = list({each.text: each for each in (*free, *dearer)}.values())
        texts = [each.text for each in every]
        lengths = [max(1, len(self.desk.tokenizer.encode(text))) for text in texts]
        if self.rate is None:
            scores = self._scored(encoded, texts)
        else:
            rated = self.rate([source] * len(texts), texts)
            scores = [mean * length for mean, length in zip(rated, lengths, strict=True)]

        def unwanted(index: int) -> tuple[int, float]:
            cost = SUPERFLUOUS * self._superfluous(source, free[0].text, texts[index])
            return len(self.settings.lacking(source, texts[index])), cost - scores[index]

        order = sorted(range(len(every)), key=unwanted)
        ranked = [replace(every[index], score=scores[index] / lengths[index]) for index in order]
        if self.settings.lacking(source, free[0].text):
            return ranked
        return [free[0], *(each for each in ranked if each.text != free[0].text)]

    @torch.no_grad()
    def score(self, sources: Sequence[str], texts: Sequence[str]) -> list[float]:
        """The model score of given translations, each on the canvas of its own length."""
        found: list[float] = []
        for begin in range(0, len(sources), SCORED):
            encoded = self._encode(sources[begin : begin + SCORED])
            found += self._scored(encoded, texts[begin : begin + SCORED])
        return found

    def _scored(self, encoded: tuple[Tensor, Tensor], texts: Sequence[str]) -> list[float]:
        """The same, of texts for as many sources, or all for one."""
        found: list[float] = []
        for begin in range(0, len(texts), SCORED):
            some = texts[begin : begin + SCORED]
            encodings, inside = (
                each.expand(len(some), *each.shape[1:]) if len(each) == 1 else each[begin : begin + SCORED]
                for each in encoded
            )
            half = half_length(torch.tensor([len(self.desk.tokenizer.encode(text)) for text in some]))
            memory = self.network.remember(encodings, inside=inside, half=half)
            tokens, canvas = self._canvases(some, canvas_for(half, self.network.config))
            found += model_score(as_denoiser(self.network, memory=memory), tokens, inside=canvas).total.tolist()
        return found

    def _canvases(self, texts: Sequence[str], widths: Tensor) -> tuple[Tensor, Tensor]:
        """Texts on canvases of these widths, cropped if need be, and what is inside."""
        tokens = torch.full((len(texts), int(widths.max())), PAD)
        for row, (text, width) in enumerate(zip(texts, widths.tolist(), strict=True)):
            ids = self.desk.tokenizer.encode(text)[:width]
            tokens[row, : len(ids)] = torch.tensor(ids, dtype=torch.long)
        return tokens, torch.arange(tokens.shape[1]) < widths[:, None]

    def _encode(self, sources: Sequence[str]) -> tuple[Tensor, Tensor]:
        source, inside = pad_sources(self.desk.tokenizer, sources, longest=self.network.config.source_positions)
        return self.network.encode(source, inside=inside), inside

    def _lengths(self, encoded: tuple[Tensor, Tensor]) -> Tensor:
        """The likeliest (halved) lengths of each source, best first."""
        encodings, inside = encoded
        config, tried = self.network.config, self.sampling.length_candidates
        if not config.length_prediction:
            if tried > 1:
                raise UsageError(f"sampling.length_candidates={tried}", why="this model does not predict lengths")
            return torch.full((len(encodings), 1), config.canvas)
        logits = self.network.length_predictor(encodings, inside=inside)
        return logits.topk(min(tried, logits.shape[1]), dim=1).indices + 1

    def _run(
        self,
        encoded: tuple[Tensor, Tensor],
        sources: Sequence[str],
        halves: Tensor,
        layouts: Sequence[Sequence[Sequence[Layout | None]]],
        *,
        by: RankName | None = None,
    ) -> list[list[Written]]:
        """All layouts of all lengths of all sources in common batches: keys are made once a length."""
        tried, memory = halves.shape[1], self._remember(encoded, halves)
        widths = canvas_for(halves, self.network.config)
        orders: list[Order] = []
        owners: list[int] = []
        counts: list[int] = []
        for number, source in enumerate(sources):
            first = crc32(source.encode()) << 20  # which noise a source gets does not depend on its company
            own = [
                (layout, length)
                for length in range(tried)
                if halves[number, length] not in halves[number, :length]
                for layout in layouts[number][length]
            ]
            orders += [Order(layout, first + n, int(widths[number, k])) for n, (layout, k) in enumerate(own)]
            owners += [number * tried + length for _, length in own]
            counts.append(len(own))
        outcomes: list[Outcome] = []
        scored = self.settings.scored or max(counts) > 1
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
                scored=scored and self.rate is None,
                spare=self.settings.spare,
            )
        if self.rate is not None and scored:
            owned = [sources[owner // tried] for owner in owners]
            rated = self.rate(owned, [self._text(outcome.tokens) for outcome in outcomes])
            # Per token of the judge's, so that a text is not better for being spelled in smaller pieces.
            outcomes = [replace(each, score=mean, length=1) for each, mean in zip(outcomes, rated, strict=True)]
        normalisation = self.sampling.length_normalisation
        way = by or (normalisation if normalisation >= 0 else float(tried > 1))
        found: list[list[Written]] = []
        begin = 0
        for source, count in zip(sources, counts, strict=True):
            found.append(self._ranked(source, outcomes[begin : begin + count], by=way))
            begin += count
        return found

    def _remember(self, encoded: tuple[Tensor, Tensor], halves: Tensor) -> Memory:
        """Every source as often as there are lengths for it."""
        encodings, inside = (each.repeat_interleave(halves.shape[1], dim=0) for each in encoded)
        half = halves.flatten() if self.network.config.length_prediction else None
        return self.network.remember(encodings, inside=inside, half=half)

    def _ranked(self, source: str, outcomes: Sequence[Outcome], *, by: RankName | float) -> list[Written]:
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
        text = self.desk.tokenizer.decode(tokens[: tokens.index(PAD)] if PAD in tokens else tokens)
        return re.sub(" {2,}", " ", text).strip()


def bound_to(network: Transformer, source: str, desk: Desk, *, length: int) -> tuple[Denoiser, int]:
    """f_theta given one source and a target's length in tokens, and the canvas that goes with that length."""
    tokens, inside = pad_sources(desk.tokenizer, [source], longest=network.config.source_positions)
    half = half_length(torch.tensor([length]))
    with torch.no_grad():
        memory = network.remember(network.encode(tokens, inside=inside), inside=inside, half=half)
    answer, width = as_denoiser(network, memory=memory), int(canvas_for(half, network.config))
    return lambda ask: answer(replace(ask, rows=torch.zeros_like(ask.rows))), width
