"""Speed of several ways to do the same thing, measured side by side so that a noisy machine is fair to all."""

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from sundae.errors import UsageError
from sundae.measure.report import Table

FEWEST_REPEATS = 5


@dataclass(frozen=True)
class Work:
    """What one run did."""

    tokens: int = 0
    network_calls: int = 0


@dataclass(frozen=True)
class Side:
    """The timed runs of one side, in the order in which they ran, and the work of each."""

    name: str
    seconds: tuple[float, ...]
    works: tuple[Work, ...]

    @property
    def median(self) -> float:
        """Median seconds of a run."""
        return statistics.median(self.seconds)

    @property
    def tokens_per_second(self) -> float:
        """Median over runs."""
        return statistics.median(work.tokens / seconds for work, seconds in zip(self.works, self.seconds, strict=True))


@dataclass(frozen=True)
class SpeedComparison:
    """Sides that were timed together; ratios are against the side named `baseline`."""

    sides: tuple[Side, ...]
    baseline: str

    def side(self, name: str) -> Side:
        """The side of that name."""
        for side in self.sides:
            if side.name == name:
                return side
        raise UsageError(f"no side {name!r}", hint=", ".join(side.name for side in self.sides))

    def times_as_fast(self, name: str) -> float:
        """Median seconds of the baseline / median seconds of this side: above 1 is faster than the baseline."""
        return self.side(self.baseline).median / self.side(name).median

    def spread(self, name: str) -> tuple[float, float]:
        """Smallest and largest ratio within one round, where both sides met the same machine."""
        rounds = zip(self.side(self.baseline).seconds, self.side(name).seconds, strict=True)
        ratios = [baseline / mine for baseline, mine in rounds]
        return min(ratios), max(ratios)

    def table(self, title: str, *, note: str = "") -> Table:
        """One row for each side, for a report."""
        rows: list[dict[str, str | int | float]] = []
        for side in self.sides:
            low, high = self.spread(side.name)
            row: dict[str, str | int | float] = {
                "side": side.name,
                "seconds, median": side.median,
                "fastest": min(side.seconds),
                "slowest": max(side.seconds),
                "runs": len(side.seconds),
                f"times as fast as {self.baseline}": self.times_as_fast(side.name),
                "in a round, least": low,
                "in a round, most": high,
            }
            if any(work.tokens for work in side.works):
                row["tokens"] = statistics.median(work.tokens for work in side.works)
                row["tokens/s"] = side.tokens_per_second
            if any(work.network_calls for work in side.works):
                row["network calls"] = statistics.median(work.network_calls for work in side.works)
            rows.append(row)
        return Table(title, rows, note)


def compare_speed(
    sides: Mapping[str, Callable[[], Work]],
    *,
    baseline: str,
    repeats: int = FEWEST_REPEATS,
    warm_ups: int = 1,
    clock: Callable[[], float] = time.perf_counter,
) -> SpeedComparison:
    """Run the sides in turn, `repeats` rounds after `warm_ups` that do not count; each round starts with another."""
    if repeats < FEWEST_REPEATS:
        raise UsageError(
            f"{repeats} repeats", why="a median of fewer is mostly luck", hint=f"at least {FEWEST_REPEATS}"
        )
    if warm_ups < 1:
        raise UsageError(f"{warm_ups} warm-ups", why="the first run pays for caches and allocations", hint="1")
    if baseline not in sides:
        raise UsageError(f"no side {baseline!r} to be the baseline", hint=", ".join(sides))
    names = list(sides)
    seconds: dict[str, list[float]] = {name: [] for name in names}
    works: dict[str, list[Work]] = {name: [] for name in names}
    for number in range(-warm_ups, repeats):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            began = clock()
            work = sides[name]()
            took = clock() - began
            if number < 0:
                continue
            if took <= 0:
                raise UsageError(
                    f"a run of {name!r} took no time", why="the clock cannot see it", hint="do more in a run"
                )
            seconds[name].append(took)
            works[name].append(work)
    return SpeedComparison(tuple(Side(name, tuple(seconds[name]), tuple(works[name])) for name in names), baseline)
