"""The validation split: as large as wished, the same every time, and without leaks."""

import random

import pytest

from sundae.errors import UsageError
from sundae.text.holdout import Survey, Wish, parse_wish, text_key


def surveyed(wish: Wish, keys: list[int]) -> Survey:
    survey = Survey(wish)
    for key in keys:
        survey.add(key)
    return survey


def random_keys(count: int) -> list[int]:
    draw = random.Random(0)
    return [draw.getrandbits(64) for _ in range(count)]


def test_wishes() -> None:
    assert parse_wish("") == Wish(share=0.01, most=2000)
    assert parse_wish("0") == Wish() == parse_wish("0.0")
    assert parse_wish("1") == Wish(count=1)
    assert parse_wish("2000") == Wish(count=2000)
    assert parse_wish("0.25") == Wish(share=0.25)
    for bad in ("1.0", "-1", "many", "nan", "inf", "2e3", "99999999", "٣"):
        with pytest.raises(UsageError, match="--validation"):
            parse_wish(bad)


@pytest.mark.parametrize(("count", "expected"), [(0, 0), (1, 0), (2, 1), (149, 1), (1000, 10), (300_000, 2000)])
def test_the_usual_share_is_one_percent_and_at_most_2000(count: int, expected: int) -> None:
    keys = random_keys(count)
    threshold = surveyed(parse_wish(""), keys).threshold()
    assert sum(key < threshold for key in keys) == expected


def test_a_number_is_met_exactly_and_equal_texts_stay_together() -> None:
    keys = random_keys(500)
    threshold = surveyed(Wish(count=37), keys + keys[:100]).threshold()
    assert sum(key < threshold for key in keys) == 37
    for count in (500, 501):
        with pytest.raises(UsageError, match="left to train on"):
            surveyed(Wish(count=count), keys).threshold()
    with pytest.raises(UsageError):
        surveyed(Wish(count=2), keys[:1] * 10).threshold()


def test_a_share_is_met_nearly_and_never_with_nothing() -> None:
    keys = random_keys(10_000)
    threshold = surveyed(Wish(share=0.1), keys).threshold()
    assert 900 < sum(key < threshold for key in keys) < 1100
    threshold = surveyed(Wish(share=0.0001), keys[:5]).threshold()
    assert sum(key < threshold for key in keys[:5]) == 1


def test_the_choice_depends_on_text_and_seed_alone() -> None:
    assert text_key("a", seed=1) == text_key("a", seed=1)
    assert len({text_key("a"), text_key("b"), text_key("a", seed=1), text_key("a", seed=-1 % 2**64)}) == 4
    keys = random_keys(50)
    assert surveyed(Wish(count=5), keys).threshold() == surveyed(Wish(count=5), keys[::-1]).threshold()
