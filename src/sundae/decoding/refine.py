"""Improving a draft: the chain starts from the user's own text.

First each token of the draft is judged given all the others (leave_one_out).  Those that another would fit far better
are suspects: a proof-reader's suggestions.  The chain starts from the draft with the suspects as noise, and they alone
may change; under an edit budget, the worst of them.
"""

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate, pairwise
from unicodedata import combining

import torch
from torch import Tensor

from sundae.config import RankName, SamplingConfig
from sundae.core.length import PAD
from sundae.core.network import Denoiser
from sundae.core.noise import Noise
from sundae.core.sampling import draw_start, model_score
from sundae.decoding.canvas import Canvas, Watch, constrained, last_of, run_canvas, without_barred
from sundae.decoding.constraints import Constraints, Guard, Guarded
from sundae.decoding.desk import batch_rows
from sundae.decoding.layout import APART, FREE, Desk
from sundae.decoding.leave_one_out import Judged, Seen, leave_one_out
from sundae.decoding.rank import rank
from sundae.decoding.reading import UNFINISHED, Origin, Reading, together, token_texts
from sundae.decoding.rules import build_rule
from sundae.errors import UsageError
from sundae.text.numbers import number_places
from sundae.text.placeables import places
from sundae.text.sentences import split_sentences
from sundae.text.template import Blank, Lock, parse_template
from sundae.text.tokenizer import continuation

_WITHOUT_LETTERS = re.compile(r"^(?!.*[^\W\d_]).*\S.*$", re.MULTILINE)
_LIST_MARK = re.compile(r"^[ \t]*(?:[-*+>\u2022]|#+|\d+[.)])(?=\s)", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class RefineSettings:
    """A token is suspect if another is `suspicion` times likelier there; `edits` or `share` bound how many change."""

    suspicion: float = 50.0
    edits: int | None = None
    share: float | None = None
    candidates: int = 4
    by: RankName = "per-token"
    seed: int = 0
    constraints: Constraints = field(default_factory=Constraints)

    def __post_init__(self) -> None:
        if not self.suspicion >= 1:
            raise UsageError(f"--suspicion {self.suspicion}", why="must be at least 1")
        if self.edits is not None and self.edits < 0:
            raise UsageError(f"--edits {self.edits}", why="must not be negative")
        if self.share is not None and not 0 <= self.share <= 1:
            raise UsageError(f"--edit-share {self.share}", why="must lie between 0 and 1")
        if self.constraints.must or self.constraints.allowed:
            raise UsageError("words that must appear, or alone may", why="a draft has no blanks for them")


@dataclass(frozen=True)
class Suggestion:
    """A token of the draft, how likely it is where it stands, and what would be likelier."""

    begin: int
    end: int
    token: str
    probability: float
    alternatives: tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class Refined:
    """The improved text, where it was changed (before and after, by position in the draft), and what it cost.

    Scores are per token, of the sentences that had a suspect; None if there was none.
    """

    text: str
    edits: tuple[tuple[int, int, str], ...]
    score: float | None
    draft_score: float | None
    network_calls: int
    origins: tuple[Origin, ...] = field(default=(), compare=False, repr=False)


@dataclass(frozen=True)
class _Stretch:
    """A part of the draft that is seen at once: `ids[i]` writes `text[ends[i-1]:ends[i]]`, from `begin` on."""

    begin: int
    text: str
    ids: tuple[int, ...]
    ends: tuple[int, ...]
    locked: tuple[bool, ...]
    context: tuple[int, int]  # tokens at either end that belong to the neighbours

    def editable(self) -> list[bool]:
        low, high = self.context[0], len(self.ids) - self.context[1]
        return [low <= place < high and not locked for place, locked in enumerate(self.locked)]


class Refinery:
    """A draft in stretches that fit the canvas, ready to be judged and improved.

    Tags, addresses, numbers and lines without letters are locked; of a `closed` draft everything is, however long it
    is.  The translation of a `source` is not cut into sentences.
    """

    def __init__(
        self, draft: str, desk: Desk, *, denoiser: Denoiser, source: str | None = None, closed: bool = False
    ) -> None:
        self.desk, self.denoiser, self.source = desk, denoiser, source
        parts: list[tuple[str, bool]] = []
        for segment in parse_template(draft).segments:
            if isinstance(segment, Blank):
                raise UsageError("the draft has a blank", hint="sundae fill, or \\[[ for two brackets as text")
            parts.append((segment.text, isinstance(segment, Lock)))
        self.text = "".join(text for text, _ in parts)
        bounds = list(accumulate((len(text) for text, _ in parts), initial=0))
        locked = [span for span, (_, kept) in zip(pairwise(bounds), parts, strict=True) if kept]
        # What no model of words should touch, and a translator must keep: tags, addresses, numbers, marks of a list,
        # rules and asterisks between paragraphs.
        locked += places(self.text) + number_places(self.text)
        locked += [found.span() for marks in (_LIST_MARK, _WITHOUT_LETTERS) for found in marks.finditer(self.text)]
        # One space before a lock belongs to it, as before a blank: the tokens of a word begin with their space.
        self.locks = [(begin - self.text[:begin].endswith(" "), end) for begin, end in locked]
        self.stretches = [] if closed else self._cut()

    def _cut(self) -> list[_Stretch]:
        """Sentences; one that does not fit in pieces; and for a model of running text, what stands around them."""
        found: list[_Stretch] = []
        position = 0
        for sentence in [self.text] if self.source is not None else split_sentences(self.text):
            body = sentence.strip() if self.desk.ends else sentence
            begin = position + (len(sentence) - len(sentence.lstrip()) if self.desk.ends else 0)
            position += len(sentence)
            if not body.strip():
                continue
            pieces = self._pieces(self._encoded(begin, body))
            # A model of single sentences sees no further than the sentence, but all of it that there is room for.
            found += _with_context(pieces, self.desk.canvas) if self.desk.ends else pieces
        return found if self.desk.ends else _with_context(found, self.desk.canvas)

    def _encoded(self, begin: int, body: str) -> _Stretch:
        """Locks, and the text between them, each encoded apart; a token that is not just its text is locked too."""
        end = begin + len(body)
        cuts = {begin, end, *(cut for lock in self.locks for cut in lock if begin < cut < end)}
        ids: list[int] = []
        ends: list[int] = []
        locked: list[bool] = []
        for low, high in pairwise(sorted(cuts)):
            part = self.text[low:high]
            own = self.desk.tokenizer.encode(part)
            kept = any(a <= low and high <= b for a, b in self.locks)
            texts = self._texts(own, part)
            ids += own
            ends += [low - begin + reached for reached in accumulate(len(each) for each in texts)]
            locked += [
                # Tokens that share a character, or an unknown word, can only stay as they are; white space should.
                kept
                or not text.strip()
                or self.desk.tokenizer.decode([token]).strip() != text.strip()
                or combining(self.text[low + reached : low + reached + 1] or " ") > 0
                for token, text, reached in zip(own, texts, accumulate(map(len, texts)), strict=True)
            ]
        return _Stretch(begin, body, tuple(ids), tuple(ends), tuple(locked), (0, 0))

    def _texts(self, ids: list[int], part: str) -> list[str]:
        """A part of the draft cut at its tokens."""
        words = re.findall(r"\s*\S+", part)
        if words and not self.desk.shapes.spaced and len(words) == len(ids):
            return [*words[:-1], words[-1] + part[len("".join(words)) :]]
        return token_texts(self.desk.tokenizer, ids, text=part)

    def _pieces(self, stretch: _Stretch) -> list[_Stretch]:
        whole = self.desk.ends and len(stretch.ids) <= self.desk.canvas
        room = self.desk.canvas if whole else max(1, self.desk.canvas // 2)
        pieces: list[_Stretch] = []
        for low in range(0, len(stretch.ids), room):
            high = min(low + room, len(stretch.ids))
            first = stretch.ends[low - 1] if low else 0
            ends = tuple(end - first for end in stretch.ends[low:high])
            text = stretch.text[first : first + ends[-1]]
            pieces.append(
                _Stretch(stretch.begin + first, text, stretch.ids[low:high], ends, stretch.locked[low:high], (0, 0))
            )
        return pieces

    def _canvas(self, stretches: Sequence[_Stretch], editable: Sequence[list[bool]], samples: Sequence[int]) -> Canvas:
        width = self.desk.canvas if self.desk.ends else max(len(stretch.ids) for stretch in stretches)
        shape = (len(stretches), width)
        template, mask = torch.full(shape, PAD), torch.zeros(shape, dtype=torch.bool)
        for row, (stretch, may) in enumerate(zip(stretches, editable, strict=True)):
            template[row, : len(stretch.ids)] = torch.tensor(stretch.ids)
            mask[row, : len(stretch.ids)] = torch.tensor(may)
        lengths = torch.tensor([width if self.desk.ends else len(stretch.ids) for stretch in stretches])
        inside = torch.arange(width) < lengths[:, None]
        # Where a word begins no other may grow together with the one before it.
        apart = self.desk.shapes.begins[template] & self.desk.shapes.spaced
        classes = torch.where(apart, APART, FREE)
        return Canvas(template, mask, inside, torch.tensor(samples), self.desk.classes.table(), classes)

    # ---- judging

    @cached_property
    def judged(self) -> list[Judged]:
        """Each stretch at its editable positions: what stands there, and what would be likelier, given the others."""
        canvases = [
            Seen(
                stretch.ids,
                self.desk.canvas if self.desk.ends else len(stretch.ids),
                [place for place, may in enumerate(stretch.editable()) if may],
            )
            for stretch in self.stretches
        ]
        return leave_one_out(canvases, denoiser=self.denoiser, vocabulary_size=len(self.desk.shapes.begins))

    def _gains(self) -> list[tuple[float, int, int]]:
        """Of every editable token: how much likelier (in nats) its best rival is, its stretch, its place."""
        gains: list[tuple[float, int, int]] = []
        for number, (stretch, judged) in enumerate(zip(self.stretches, self.judged, strict=True)):
            places = [place for place, may in enumerate(stretch.editable()) if may]
            gain = (judged.log_probability[:, 0] - judged.own).tolist()
            gains += [(gain[line], number, place) for line, place in enumerate(places)]
        return gains

    def suggestions(self, count: int) -> list[Suggestion]:
        """The `count` least likely tokens of the draft, each with what would be likelier, in reading order."""
        found: list[Suggestion] = []
        for stretch, judged in zip(self.stretches, self.judged, strict=True):
            places = [place for place, may in enumerate(stretch.editable()) if may]
            for line, place in enumerate(places):
                own = float(judged.own[line])
                rivals = zip(judged.likeliest[line].tolist(), judged.log_probability[line].tolist(), strict=True)
                better = [
                    (self.desk.tokenizer.token_text(other), math.exp(value))
                    for other, value in rivals
                    if value > own and UNFINISHED not in self.desk.tokenizer.decode([other])
                ]
                begin = stretch.begin + (stretch.ends[place - 1] if place else 0)
                end = stretch.begin + stretch.ends[place]
                found.append(Suggestion(begin, end, self.text[begin:end], math.exp(own), tuple(better)))
        least = sorted((each for each in found if each.alternatives), key=lambda each: each.probability)[:count]
        return sorted(least, key=lambda each: each.begin)

    def _open(self, settings: RefineSettings) -> list[list[bool]]:
        """Which positions may change: the suspects, or as many of the worst of them as the budget allows."""
        editable = [stretch.editable() for stretch in self.stretches]
        total = sum(map(sum, editable))
        budgets = [settings.edits, None if settings.share is None else int(settings.share * total + 1e-9)]
        bounds = [budget for budget in budgets if budget is not None]
        banned = settings.constraints.find_banned(self.text)
        gains = {(number, place): gain for gain, number, place in self._gains()}
        for number, place in gains:  # what is banned goes first, however likely it is
            stretch = self.stretches[number]
            begin, end = stretch.begin + (stretch.ends[place - 1] if place else 0), stretch.begin + stretch.ends[place]
            if any(begin < high and low < end for low, high in banned):
                gains[number, place] = math.inf
        least = math.log(settings.suspicion)
        suspects = sorted(((gain, *where) for where, gain in gains.items() if gain > least), reverse=True)
        noised = [[False] * len(may) for may in editable]
        for _, number, place in suspects[: min(bounds)] if bounds else suspects:
            noised[number][place] = True
        kept = [where for where, gain in gains.items() if gain == math.inf and not noised[where[0]][where[1]]]
        if kept and not any(gain == math.inf and noised[number][place] for gain, number, place in suspects):
            begin, end = banned[0]
            raise UsageError(
                f"{self.text[begin:end]!r} is banned",
                why="the edit budget leaves no room to change it",
                hint="more edits",
            )
        return noised

    # ---- improving

    def refine(
        self,
        settings: RefineSettings,
        *,
        sampling: SamplingConfig,
        watch: Watch | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> Refined:
        """The draft after the chain; of several candidates, and the draft itself, the one that scores best."""
        allowed = self._open(settings)
        open_ = [number for number, may in enumerate(allowed) if any(may)]
        size = len(self.desk.shapes.begins)
        group = max(1, batch_rows(canvas=self.desk.canvas, vocabulary_size=size) // settings.candidates)
        edits: list[tuple[int, int, str]] = []
        score = draft_score = 0.0
        origins: list[Origin] = []
        calls = done = 0
        for begin in range(0, len(open_), group):
            numbers = open_[begin : begin + group]
            rows = [number for number in numbers for _ in range(settings.candidates)]
            canvas = self._canvas(
                [self.stretches[number] for number in rows],
                [allowed[number] for number in rows],
                [sample for _ in numbers for sample in range(settings.candidates)],
            )
            noise = Noise(settings.seed)
            start = draw_start(
                canvas.template, editable=canvas.editable, samples=canvas.samples, vocabulary_size=size, noise=noise
            )
            start = without_barred(start, canvas, noise=noise)
            rule, asked = build_rule(sampling), self.denoiser
            if settings.constraints.banned:
                guard = Guard(settings.constraints, self.desk.tokenizer)
                start = guard.clean(start, canvas, noise=noise, vocabulary_size=size)
                rule, asked = Guarded(rule, guard), guard.offer(constrained(self.denoiser, canvas))
            states = run_canvas(
                asked, canvas, sampling=sampling, vocabulary_size=size, seed=settings.seed, rule=rule, start=start
            )
            reading = Reading(self.desk.tokenizer, canvas=canvas, denoiser=self.denoiser)
            state = last_of(states, None if watch is None else together(reading, watch))
            calls += int(state.network_calls)
            after = self._scores(state.tokens, canvas, by=settings.by)
            drafts = self._scores(canvas.template, canvas, by=settings.by)
            for index, number in enumerate(numbers):
                low, high = index * settings.candidates, (index + 1) * settings.candidates
                stretch = self.stretches[number]
                candidates = state.tokens[low:high, : len(stretch.ids)].tolist()
                scores, own = after[low:high], drafts[low]
                if not settings.constraints.find_banned(stretch.text):
                    candidates.append(list(stretch.ids))
                    scores.append(own)
                texts = [self.desk.tokenizer.decode(each) for each in candidates]
                lengths = [len(stretch.ids)] * len(candidates)
                order = rank(texts, scores=scores, lengths=lengths, by=settings.by)
                best = order[0]
                if watch is not None:  # where the draft itself is kept, the best of the chains
                    chain = next((each for each in order if each < settings.candidates), 0)
                    origins.append(Origin(reading, low + chain, scores[chain] / len(stretch.ids), self.source))
                score, draft_score = score + scores[best], draft_score + own
                edits += _edits(stretch, candidates[best], self.desk)
            done += len(numbers)
            if progress is not None:
                progress(len(self.stretches) * done // len(open_))
        tokens = sum(len(self.stretches[number].ids) for number in open_)
        text = _applied(self.text, edits)
        settings.constraints.require_none_banned(text)
        scores = (score / tokens, draft_score / tokens) if tokens else (None, None)
        return Refined(text, tuple(edits), *scores, calls, tuple(origins))

    def _scores(self, tokens: Tensor, canvas: Canvas, *, by: RankName) -> list[float]:
        """The model score of each row, or how likely its open tokens are to a model that does not see them."""
        if by != "leave-one-out":
            return model_score(self.denoiser, tokens, inside=canvas.inside).total.tolist()
        seen = [
            Seen(tuple(row[own].tolist()), int(own.sum()), tuple(may.nonzero().squeeze(1).tolist()))
            for row, own, may in zip(tokens, canvas.inside, canvas.editable, strict=True)
        ]
        different = list(dict.fromkeys(seen))
        size = len(self.desk.shapes.begins)
        judged = leave_one_out(different, denoiser=self.denoiser, vocabulary_size=size)
        known = {each: float(found.own.sum()) for each, found in zip(different, judged, strict=True)}
        return [known[each] for each in seen]


def _with_context(pieces: Sequence[_Stretch], canvas: int) -> list[_Stretch]:
    """Each piece with as much of its neighbours as the canvas holds: half for each side, or more where one has less."""
    every = [token for piece in pieces for token in piece.ids]
    found: list[_Stretch] = []
    begin = 0
    for own in pieces:
        end = begin + len(own.ids)
        room = max(0, canvas - len(own.ids))
        left = min(begin, max(room // 2, room - (len(every) - end)))
        right = min(len(every) - end, room - left)
        found.append(
            _Stretch(
                own.begin,
                own.text,
                tuple(every[begin - left : end + right]),
                (*[0] * left, *own.ends, *[own.ends[-1]] * right),
                (*[True] * left, *own.locked, *[True] * right),
                (left, right),
            )
        )
        begin = end
    return found


def _edits(stretch: _Stretch, tokens: list[int], desk: Desk) -> list[tuple[int, int, str]]:
    """Runs of changed tokens, by their characters in the draft."""
    edits: list[tuple[int, int, str]] = []
    place = 0
    while place < len(tokens):
        if tokens[place] == stretch.ids[place]:
            place += 1
            continue
        first = place
        while place < len(tokens) and tokens[place] != stretch.ids[place]:
            place += 1
        begin = stretch.ends[first - 1] if first else 0
        end = stretch.ends[place - 1]
        text = continuation(desk.tokenizer, tokens[first:place], after=tokens[:first])
        if not desk.shapes.spaced:  # words carry no space: that of the draft stays
            span = stretch.text[begin:end]
            lead, trail = span[: len(span) - len(span.lstrip())], span[len(span.rstrip()) :]
            text = lead + text.strip() + trail
        edits.append((stretch.begin + begin, stretch.begin + end, text))
    return edits


def _applied(text: str, edits: Sequence[tuple[int, int, str]]) -> str:
    for begin, end, new in sorted(edits, reverse=True):
        text = text[:begin] + new + text[end:]
    return text
