from collections.abc import Callable

import pytest

from sundae.errors import UsageError
from sundae.measure.speed import Side, SpeedComparison, Work, compare_speed


class Clock:
    """A clock that moves only when somebody works."""

    def __init__(self) -> None:
        self.now = 0.0
        self.ran: list[str] = []

    def worker(self, name: str, seconds: list[float], work: Work) -> Callable[[], Work]:
        times = iter(seconds)

        def run() -> Work:
            self.ran.append(name)
            self.now += next(times)
            return work

        return run

    def read(self) -> float:
        return self.now


def test_medians_ratios_and_spread_are_those_of_the_runs_after_the_warm_up():
    clock = Clock()
    found = compare_speed(
        {
            "slow": clock.worker("slow", [99, 4, 4, 8, 4, 2], Work(tokens=80)),
            "quick": clock.worker("quick", [77, 1, 2, 1, 1, 4], Work(tokens=40, network_calls=3)),
        },
        baseline="slow",
        clock=clock.read,
    )
    assert found.side("slow").seconds == (4, 4, 8, 4, 2)
    assert found.side("quick").seconds == (1, 2, 1, 1, 4)
    assert found.side("quick").median == 1
    assert found.times_as_fast("quick") == 4
    assert found.times_as_fast("slow") == 1
    assert found.spread("quick") == (0.5, 8)  # rounds: 4/1, 4/2, 8/1, 4/1, 2/4
    assert found.side("slow").tokens_per_second == 20
    assert found.side("quick").tokens_per_second == 40


def test_sides_take_turns_and_every_round_starts_with_another():
    clock = Clock()
    sides = {name: clock.worker(name, [1.0] * 9, Work()) for name in "abc"}
    compare_speed(sides, baseline="a", repeats=6, warm_ups=2, clock=clock.read)
    rounds = ["".join(clock.ran[start : start + 3]) for start in range(0, len(clock.ran), 3)]
    assert rounds[2:] == ["abc", "bca", "cab", "abc", "bca", "cab"]
    assert len(rounds) == 8


def test_a_table_has_a_row_for_each_side_with_its_work():
    one = Side("one", (2.0,) * 5, (Work(10, 4),) * 5)
    two = Side("two", (1.0,) * 5, (Work(),) * 5)
    table = SpeedComparison((one, two), "one").table("Speed", note="n")
    assert table.rows == [
        {
            "side": "one",
            "seconds, median": 2.0,
            "fastest": 2.0,
            "slowest": 2.0,
            "runs": 5,
            "times as fast as one": 1.0,
            "in a round, least": 1.0,
            "in a round, most": 1.0,
            "tokens": 10,
            "tokens/s": 5.0,
            "network calls": 4,
        },
        {
            "side": "two",
            "seconds, median": 1.0,
            "fastest": 1.0,
            "slowest": 1.0,
            "runs": 5,
            "times as fast as one": 2.0,
            "in a round, least": 2.0,
            "in a round, most": 2.0,
        },
    ]
    assert (table.title, table.note) == ("Speed", "n")


def test_figures_that_would_be_luck_are_refused():
    sides = {"a": Work}
    with pytest.raises(UsageError, match="4 repeats"):
        compare_speed(sides, baseline="a", repeats=4)
    with pytest.raises(UsageError, match="0 warm-ups"):
        compare_speed(sides, baseline="a", warm_ups=0)
    with pytest.raises(UsageError, match="'b'"):
        compare_speed(sides, baseline="b")
    with pytest.raises(UsageError, match="took no time"):
        compare_speed(sides, baseline="a", clock=lambda: 1.0)
    with pytest.raises(UsageError, match="no side 'z'"):
        compare_speed(sides, baseline="a").side("z")
