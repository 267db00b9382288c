"""Filled blanks against what stood there: exact match, exact match among k candidates, edit similarity."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sundae.errors import DataError
from sundae.measure.bootstrap import RESAMPLES, Interval, bootstrap_mean

Fill = Sequence[str]  # one text for each blank of an item, in order


@dataclass(frozen=True)
class BlankScores:
    """Means over items, with 95% bootstrap intervals.

    `exact`: all blanks of the item are right.  `exact_blank`: share of its blanks that are right.  `similarity`: mean
    over its blanks of 1 - edit distance / longer length, in characters.  These three judge the first candidate;
    `exact_at[k]` asks whether any of the first k (or of as many as there are: equal ones may have been merged) has all
    blanks right.
    """

    exact: Interval
    exact_blank: Interval
    similarity: Interval
    exact_at: Mapping[int, Interval]
    items: int


def score_blanks(
    candidates: Sequence[Sequence[Fill]],
    *,
    answers: Sequence[Fill],
    at: Sequence[int] = (),
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> BlankScores:
    """Score for each item its candidates, best first; white space at the ends and its amount within do not count."""
    if len(candidates) != len(answers):
        raise DataError(
            f"candidates for {len(candidates)} items and {len(answers)} answers", why="there must be as many"
        )
    if not answers:
        raise DataError("no items", why="there is nothing to score")
    deepest = max(at, default=1)
    rights: list[list[bool]] = []  # per item and candidate, whether all its blanks are right
    blanks: list[float] = []
    similarities: list[float] = []
    for number, (offered, answer) in enumerate(zip(candidates, answers, strict=True)):
        _check(number, offered, answer)
        wanted = [_plain(text) for text in answer]
        fills = [[_plain(text) for text in fill] for fill in offered[:deepest]]
        rights.append([fill == wanted for fill in fills])
        pairs = list(zip(fills[0], wanted, strict=True))
        blanks.append(sum(fill == want for fill, want in pairs) / len(pairs))
        similarities.append(sum(edit_similarity(fill, want) for fill, want in pairs) / len(pairs))

    def interval(values: Sequence[float]) -> Interval:
        return bootstrap_mean(values, resamples=resamples, seed=seed)

    return BlankScores(
        exact=interval([right[0] for right in rights]),
        exact_blank=interval(blanks),
        similarity=interval(similarities),
        exact_at={k: interval([any(right[:k]) for right in rights]) for k in at},
        items=len(answers),
    )


def edit_similarity(first: str, second: str) -> float:
    """1 - edit distance / longer length, in characters; two empty texts are equal."""
    longer = max(len(first), len(second))
    return 1 - edit_distance(first, second) / longer if longer else 1.0


def edit_distance(first: str, second: str) -> int:
    """Levenshtein distance: insertions, deletions and substitutions of one character, by Myers' bit vectors.

    A column of the table of distances is held as two integers, one bit a row: where it goes up by one towards the
    next row and where it goes down.  Python's integers are as long as the text, so a column costs a few operations.
    """
    if not first:
        return len(second)
    rows: dict[str, int] = {}
    for row, character in enumerate(first):
        rows[character] = rows.get(character, 0) | 1 << row
    everything, last = (1 << len(first)) - 1, 1 << len(first) - 1
    up, down, distance = everything, 0, len(first)
    for character in second:
        same = rows.get(character, 0)
        diagonal = (((same & up) + up) ^ up) | same | down  # rows that cost no more than their diagonal neighbour
        right_up = down | ~(diagonal | up)
        right_down = up & diagonal
        distance += bool(right_up & last) - bool(right_down & last)
        right_up = right_up << 1 | 1
        up = (right_down << 1 | ~(diagonal | right_up)) & everything
        down = right_up & diagonal & everything
    return distance


def _plain(text: str) -> str:
    return " ".join(text.split())


def _check(number: int, offered: Sequence[Fill], answer: Fill) -> None:
    if isinstance(answer, str) or any(isinstance(fill, str) for fill in offered):
        raise DataError(f"item {number} is a text", why="a fill is a list with one text for each blank")
    if not answer:
        raise DataError(f"item {number} has no blank", why="there is nothing to score")
    if not offered:
        raise DataError(f"item {number} has no candidate", why="there is nothing to score")
    if any(len(fill) != len(answer) for fill in offered):
        raise DataError(f"item {number} has {len(answer)} blanks", why="a candidate fills another number of them")
