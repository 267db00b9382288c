"""Filling blanks from both sides: lengths are tried, candidates ranked, long texts seen through windows."""

import itertools
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from sundae.config import RankName, SamplingConfig
from sundae.core.network import Denoiser
from sundae.decoding.canvas import Watch
from sundae.decoding.constraints import Constraints
from sundae.decoding.desk import Order, Outcome, run_orders
from sundae.decoding.layout import Desk, Layout, lay_out, place_words
from sundae.decoding.leave_one_out import Seen, leave_one_out
from sundae.decoding.rank import rank
from sundae.decoding.reuse import Head
from sundae.decoding.windows import first_group, fits, window_around
from sundae.decoding.written import Written
from sundae.errors import UsageError
from sundae.text.template import Blank, Template, Text

MOST_LAYOUTS = 48
"""Combinations of lengths that are tried at most."""
WINDOW_SAMPLES = 1 << 20
"""So far apart are the numbers of the samples of two windows of one text."""


@dataclass(frozen=True, kw_only=True)
class FillSettings:
    """How hard to try: `candidates` chains at least, over all lengths; the best `count` different texts are given.

    The chains are samples of the seed, from number `first` on.  `by` left open: what the model thinks of tokens that it
    does not see, if the template says how many words or tokens there are; else the score per token.
    """

    count: int = 1
    candidates: int = 8
    by: RankName | None = None
    seed: int = 0
    first: int = 0
    constraints: Constraints = field(default_factory=Constraints)

    def __post_init__(self) -> None:
        for name, value in (("count", self.count), ("candidates", self.candidates)):
            if value < 1:
                raise UsageError(f"{name}={value}", why="must be at least 1")

    def ranked_by(self, template: Template) -> RankName:
        """How candidates for this template are ranked."""
        if self.by is not None:
            return self.by
        return "leave-one-out" if all(blank.low == blank.high for blank in template.blanks) else "per-token"


def fill_templates(
    templates: Sequence[Template],
    desk: Desk,
    *,
    denoiser: Denoiser,
    head: Head,
    sampling: SamplingConfig,
    settings: FillSettings,
    watch: Watch | None = None,
    progress: Callable[[int], None] | None = None,
) -> list[list[Written]]:
    """Each template filled, best first; what was given comes back as it was written.

    Templates are run together, but none depends on the others.
    """
    for template in templates:
        require_blanks(template, settings.constraints)
    tightly = bool(settings.constraints.must)  # those are placed in a text as a whole
    long = [number for number, template in enumerate(templates) if not fits(template, desk, tightly=tightly)]
    short = [number for number in range(len(templates)) if number not in set(long)]
    run = _Run(desk, denoiser, head, sampling, settings, watch)
    done = dict(zip(short, run.fill([templates[number] for number in short], progress), strict=True))
    for number in long:
        done[number] = run.fill_through_windows(templates[number])
        if progress is not None:
            progress(len(done))
    return [done[number] for number in range(len(templates))]


def require_blanks(template: Template, constraints: Constraints) -> None:
    """Refuse a template without blanks, and words that are allowed in a blank that it has not."""
    blanks = len(template.blanks)
    if not blanks:
        raise UsageError("the template has no blank", hint="a blank such as [[6]] stands for six tokens")
    for number in constraints.allowed:
        if not 1 <= number <= blanks:
            raise UsageError(
                f"words are allowed in blank {number}",
                why=f"there {'is 1 blank' if blanks == 1 else f'are {blanks} blanks'}",
            )


@dataclass(frozen=True)
class _Run:
    desk: Desk
    denoiser: Denoiser
    head: Head
    sampling: SamplingConfig
    settings: FillSettings
    watch: Watch | None
    blanks_before: int = 0
    """Blanks of the whole template that stand before this window."""

    def orders(self, template: Template) -> list[Order]:
        """All rows for one template: every layout several times, so that there are enough candidates.

        Most words are one token, so a layout gets half as many rows for every further token of a word.
        """
        settings = self.settings
        layouts = lay_out(
            template,
            self.desk,
            tries=MOST_LAYOUTS,
            seed=settings.seed,
            allowed=settings.constraints.allowed_and_not_banned(),
            first_number=self.blanks_before + 1,
        )
        wanted = max(settings.candidates, settings.count)
        given = "".join(" " if isinstance(segment, Blank) else segment.text for segment in template.segments)
        lacking = settings.constraints.missing(given)
        if lacking:
            layouts = self._with_words(layouts, lacking, wanted)
        further = [layout.further_tokens for layout in layouts]
        times = -(-wanted // further.count(min(further)))
        rows = (layout for layout, more in zip(layouts, further, strict=True) for _ in range(max(1, times >> more)))
        return [Order(layout, sample) for sample, layout in enumerate(rows, start=settings.first)]

    def _with_words(self, layouts: list[Layout], words: list[str], wanted: int) -> list[Layout]:
        """Other places for the words that must appear in every candidate; the score then decides."""
        settings, found = self.settings, []
        for word in words:
            spelt = self.desk.tokenizer.decode(self.desk.spell(word, after_space=True))
            if word in settings.constraints.missing(spelt):
                raise UsageError(f"{word!r} must appear", why="the model's vocabulary cannot write it")
        for number in range(4 * max(wanted, 16)):
            layout = layouts[number % len(layouts)]
            placed = place_words(layout, words, self.desk, seed=settings.seed * 7919 + number)
            if placed is not None and placed not in found:
                found.append(placed)
            if len(found) >= max(wanted, 16):
                break
        if not found:
            listed = ", ".join(map(repr, words))
            raise UsageError(f"{listed} must appear", why="the blanks have no room for that, or may not hold it")
        return found

    def fill(self, templates: Sequence[Template], progress: Callable[[int], None] | None = None) -> list[list[Written]]:
        """Templates that fit the canvas, all in the same batches."""
        per_template = [self.orders(template) for template in templates]
        orders = [order for some in per_template for order in some]
        if not orders:
            return []
        counts = list(itertools.accumulate(len(some) for some in per_template))

        def report(rows: int) -> None:
            if progress is not None:
                progress(sum(count <= rows for count in counts))

        ways: list[RankName] = [self.settings.ranked_by(template) for template in templates]
        outcomes = run_orders(
            orders,
            self.desk,
            denoiser=self.denoiser,
            head=self.head,
            sampling=self.sampling,
            seed=self.settings.seed,
            constraints=self.settings.constraints,
            watch=self.watch,
            progress=report,
            scored=any(way != "leave-one-out" for way in ways),  # that one has scores of its own
        )
        unseen = [way == "leave-one-out" for way, some in zip(ways, per_template, strict=True) for _ in some]
        judged = iter(self._left_out(list(itertools.compress(orders, unseen)), itertools.compress(outcomes, unseen)))
        every = (next(judged) if new else own for own, new in zip(outcomes, unseen, strict=True))
        return [
            self._ranked(template, some, list(itertools.islice(every, len(some))), by=way)
            for template, some, way in zip(templates, per_template, ways, strict=True)
        ]

    def _left_out(self, orders: Sequence[Order], outcomes: Iterable[Outcome]) -> list[Outcome]:
        """The same outcomes, each scored by how likely its new tokens are to a model that does not see them."""
        outcomes = list(outcomes)
        canvases: list[Seen] = []
        for order, outcome in zip(orders, outcomes, strict=True):
            assert order.layout is not None
            gaps = [piece.text is None for piece in order.layout.pieces for _ in piece.tokens]
            places = tuple(place for place, gap in enumerate(gaps) if gap and place < outcome.length)
            canvases.append(Seen(tuple(outcome.tokens), len(outcome.tokens), places))
        different = list(dict.fromkeys(canvases))  # many candidates are equal
        size = len(self.desk.shapes.begins)
        found = leave_one_out(different, denoiser=self.denoiser, vocabulary_size=size)
        known = dict(zip(different, found, strict=True))
        scores = [float(known[canvas].own.sum()) for canvas in canvases]
        return [replace(outcome, score=score) for outcome, score in zip(outcomes, scores, strict=True)]

    def _ranked(
        self, template: Template, orders: list[Order], outcomes: list[Outcome], *, by: RankName
    ) -> list[Written]:
        settings = self.settings
        texts: list[tuple[str, tuple[tuple[int, int], ...]]] = []
        kept: list[Outcome] = []
        for order, outcome in zip(orders, outcomes, strict=True):
            assert order.layout is not None
            text, spans = order.layout.text(outcome.tokens, self.desk.tokenizer)
            if self._keeps(template, text, spans):
                texts.append((text, spans))
                kept.append(outcome)
        if not kept:
            raise UsageError(
                "no candidate keeps all constraints", why=f"of {len(orders)} that were tried", hint="more --candidates"
            )
        order = rank(
            [text for text, _ in texts],
            scores=[outcome.score for outcome in kept],
            lengths=[outcome.length for outcome in kept],
            by=by,
        )
        return [
            Written(
                texts[index][0],
                ranking_score(kept[index], by),
                kept[index].steps,
                kept[index].network_calls,
                texts[index][1],
                kept[index].origins(score=ranking_score(kept[index], by)),
            )
            for index in order[: settings.count]
        ]

    def _keeps(self, template: Template, text: str, spans: tuple[tuple[int, int], ...]) -> bool:
        """What the classes of positions cannot promise: whole words, their number, and that each is an allowed one."""
        constraints = self.settings.constraints
        for number, (blank, (begin, end)) in enumerate(zip(template.blanks, spans, strict=True), start=1):
            filled = text[begin:end]
            if blank.unit == "words" and not blank.low <= len(filled.split()) <= blank.high:
                return False
            own = constraints.allowed.get(number)
            if own is not None and not re.fullmatch(_one_or_more(own), filled.strip(), re.IGNORECASE):
                return False
        return not constraints.find_banned(text) and not constraints.missing(text)

    def fill_through_windows(self, template: Template) -> list[Written]:
        """A template longer than the canvas, window by window from the left; version i takes the i-th best of each."""
        for segment in template.segments:
            if not isinstance(segment, Blank):
                self.settings.constraints.require_none_banned(segment.text)
        seen: dict[tuple[Template, int], list[Written]] = {}
        versions = [self._version(template, index, seen) for index in range(self.settings.count)]
        return list({written.text: written for written in reversed(versions)}.values())[::-1]

    def _version(self, template: Template, index: int, seen: dict[tuple[Template, int], list[Written]]) -> Written:
        constraints = self.settings.constraints
        if constraints.must:
            raise UsageError(
                f"{constraints.must[0]!r} must appear",
                why=f"that works only in a text that fits the canvas of {self.desk.canvas} tokens",
            )
        segments, fills, parts = list(template.segments), list[tuple[int, int]](), list[Written]()
        while any(isinstance(segment, Blank) for segment in segments):
            begin, end = first_group(segments, self.desk)
            left = "".join(segment.text for segment in segments[:begin] if not isinstance(segment, Blank))
            following = itertools.takewhile(lambda segment: not isinstance(segment, Blank), segments[end:])
            right = "".join(segment.text for segment in following if not isinstance(segment, Blank))
            window = window_around(left, segments[begin:end], right, self.desk)
            # The blanks of a window are numbered from 1 again.
            allowed = {number - len(fills): words for number, words in constraints.allowed.items()}
            blanks = len(window.template.blanks)
            own_words = {number: words for number, words in allowed.items() if 0 < number <= blanks}
            settings = replace(
                self.settings,
                constraints=replace(constraints, allowed=own_words),
                first=self.settings.first + WINDOW_SAMPLES * len(parts),  # windows that look the same get other noise
            )
            # Another version has perhaps come to the same window with the same text before it.
            known = (window.template, len(fills))
            if known not in seen:
                run = replace(self, settings=settings, blanks_before=len(fills))
                seen[known] = run.fill([window.template])[0]
            candidates = seen[known]
            best = candidates[min(index, len(candidates) - 1)]
            own = window.own(best.text)
            moved = len(left) + len(window.space) - window.before
            fills += [(first + moved, last + moved) for first, last in best.fills]
            segments[:end] = [Text(left + own)]
            parts.append(best)
        text = "".join(segment.text for segment in segments if not isinstance(segment, Blank))
        constraints.require_none_banned(text)
        return Written(
            text,
            sum(part.score for part in parts) / len(parts),
            max(part.steps for part in parts),
            sum(part.network_calls for part in parts),
            tuple(fills),
            tuple(origin for part in parts for origin in part.origins),
        )


def ranking_score(outcome: Outcome, by: RankName) -> float:
    """What a candidate was ranked by: a sum, or per token (`mbr`, which has no score of its own, shows that too)."""
    return outcome.score if by in ("score", "leave-one-out") else outcome.score_per_token


def _one_or_more(phrases: Sequence[str]) -> str:
    """A pattern of these phrases with white space between them."""
    either = "|".join(r"\s+".join(map(re.escape, phrase.split())) for phrase in phrases)
    return rf"(?:{either})(?:\s+(?:{either}))*"
