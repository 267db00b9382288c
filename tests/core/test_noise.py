import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from core.chisquare import assert_frequencies, assert_uniform
from sundae.core.noise import Noise, sample_categorical

ROWS, COLUMNS = torch.arange(400)[:, None], torch.arange(300)


def test_noise_is_uniform():
    assert_uniform(Noise(1).uniform(ROWS, COLUMNS))


@pytest.mark.parametrize("below", [2, 7, 11, 1000])
def test_integers_are_uniform(below: int):
    drawn = Noise(2).integer(below, ROWS, COLUMNS).flatten()
    assert_frequencies(torch.bincount(drawn, minlength=below), np.full(below, len(drawn) / below))


def test_noise_has_no_state():
    noise = Noise(3)
    first = noise.uniform(ROWS, COLUMNS)
    noise.uniform(5)
    assert torch.equal(first, noise.uniform(ROWS, COLUMNS))
    assert torch.equal(first, Noise(3).uniform(ROWS, COLUMNS))


def test_a_number_depends_on_its_coordinates_alone():
    everything = Noise(4).uniform(ROWS, COLUMNS)
    assert torch.equal(everything[17:19, 5:9], Noise(4).uniform(torch.tensor([[17], [18]]), torch.arange(5, 9)))


@pytest.mark.parametrize(
    "other",
    [Noise(6), Noise(5).fold("a"), Noise(5).fold("b"), Noise(5).fold(0), Noise(5).fold(1), Noise(5).fold("a", 1)],
)
def test_seeds_and_folds_give_independent_fields(other: Noise):
    ours, theirs = Noise(5).uniform(ROWS, COLUMNS).flatten(), other.uniform(ROWS, COLUMNS).flatten()
    # Pearson correlation of 120,000 pairs; false-alarm rate 1e-4.
    correlation = float(torch.corrcoef(torch.stack([ours, theirs]))[0, 1])
    assert 2 * stats.norm.sf(abs(correlation) * len(ours) ** 0.5) > 1e-4


def test_neighbouring_coordinates_are_independent():
    drawn = Noise(7).integer(8, ROWS, COLUMNS)
    for pairs in ((drawn[:, :-1], drawn[:, 1:]), (drawn[:-1], drawn[1:])):
        joint = torch.bincount((pairs[0] * 8 + pairs[1]).flatten(), minlength=64)
        assert_frequencies(joint, np.full(64, int(joint.sum()) / 64))


def test_uniform_is_a_multiple_of_two_to_the_minus_24_below_one():
    drawn = Noise(8).uniform(ROWS, COLUMNS) * 2**24
    assert torch.equal(drawn, drawn.round())
    assert drawn.max() < 2**24


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16, torch.int32])
def test_narrow_coordinates_give_the_same_numbers(dtype: torch.dtype):
    rows = torch.arange(100)
    assert torch.equal(Noise(8).uniform(rows), Noise(8).uniform(rows.to(dtype)))


def test_logits_that_are_not_numbers_give_a_token_all_the_same():
    # The loss is then not finite either, and that is what stops a run: an index error would hide why.
    logits = torch.full((2, 5), float("nan"))
    assert (sample_categorical(logits, uniform=torch.tensor([0.1, 0.9])) < 5).all()


def test_half_precision_logits_are_sampled_in_float32():
    logits = torch.zeros(30_000, 500, dtype=torch.bfloat16)
    drawn = sample_categorical(logits, uniform=Noise(11).uniform(torch.arange(30_000)))
    assert_frequencies(torch.bincount(drawn, minlength=500), np.full(500, 60))


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_sampled_frequencies_match_softmax_of_logits_over_temperature(temperature: float):
    torch.manual_seed(0)
    logits = torch.randn(9)
    uniform = Noise(9).uniform(torch.arange(60_000))
    drawn = sample_categorical(logits.expand(60_000, 9), uniform=uniform, temperature=temperature)
    expected = torch.softmax(logits.double() / temperature, -1) * 60_000
    assert_frequencies(torch.bincount(drawn, minlength=9), expected)


def test_temperature_zero_is_argmax():
    torch.manual_seed(0)
    logits = torch.randn(50, 9)
    assert torch.equal(sample_categorical(logits, uniform=torch.rand(50), temperature=0.0), logits.argmax(-1))


@given(
    st.lists(st.floats(-30, 30, width=32) | st.just(-float("inf")), min_size=1, max_size=40),
    st.floats(1e-3, 10),
    st.sampled_from([0.0, 2.0**-24, 0.5, 1 - 2.0**-24]),
)
@settings(deadline=None)
def test_an_impossible_token_is_never_drawn(logits: list[float], temperature: float, uniform: float):
    row = torch.tensor(logits, dtype=torch.float32)
    if bool(row.isinf().all()):
        return
    drawn = sample_categorical(row[None], uniform=torch.tensor([uniform]), temperature=temperature)
    assert 0 <= int(drawn) < len(logits)
    assert not row[int(drawn)].isinf()


def test_the_tail_of_a_large_vocabulary_is_drawn_as_often_as_it_should_be():
    # One likely token and 9,999 that share one part in ten: a fp32 sum that loses the tail would draw too few.
    logits = torch.full((10_000,), -float(np.log(9_999 * 9)))
    logits[0] = 0.0
    uniform = Noise(10).uniform(torch.arange(20_000))
    drawn = torch.cat([sample_categorical(logits.expand(len(u), -1), uniform=u) for u in uniform.split(1000)])
    in_tail = int((drawn > 0).sum())
    assert_frequencies([20_000 - in_tail, in_tail], [18_000, 2_000])
    tail_bins = torch.bincount((drawn[drawn > 0] - 1) * 20 // 9_999, minlength=20)
    assert_frequencies(tail_bins, np.full(20, in_tail / 20))
