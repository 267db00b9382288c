"""Temperature that changes, top-k and top-p: the draw, and the paper's rule with it."""

import pytest
import torch

from core.chisquare import assert_frequencies
from decoding.toys import V, answering, canvases, chaotic, run, scripted
from sundae.core.network import Transformer, as_denoiser
from sundae.core.sampling import LowTemperature, update_all, update_share, update_triangle
from sundae.decoding.annealed import Annealed
from sundae.decoding.drawing import Drawing


@pytest.mark.parametrize("schedule", [update_all, update_share(0.3), update_triangle])
@pytest.mark.parametrize("temperature", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("stated", [False, True])
@pytest.mark.parametrize("stop", [False, True])
def test_a_plain_drawing_is_the_paper_s_rule_bit_for_bit(
    network: Transformer, schedule, temperature: float, stated: bool, stop: bool
):
    drawing = Drawing(temperature, temperature if stated else None)
    assert drawing.plain
    for denoiser in (as_denoiser(network), chaotic(2)):
        ours, papers = (
            run(denoiser, rule, inside=canvases([9, 4, 7]), steps=9, stop=stop)
            for rule in (Annealed(drawing, schedule), LowTemperature(temperature, schedule))
        )
        assert len(ours) == len(papers)
        for a, b in zip(ours, papers, strict=True):
            for field in ("tokens", "changed", "finished", "certainty", "calls"):
                assert torch.equal(getattr(a, field), getattr(b, field))


def test_the_promises_to_the_chain_are_those_of_the_paper_s_rule():
    for schedule in (update_all, update_share(0.5), update_triangle):
        for temperature in (0.0, 0.7):
            ours, papers = Annealed(Drawing(temperature), schedule), LowTemperature(temperature, schedule)
            assert (ours.deterministic, ours.runs_to_end) == (papers.deterministic, papers.runs_to_end)
    assert Annealed(Drawing(0.0, 0.0)).deterministic
    assert not Annealed(Drawing(0.0, 0.5)).deterministic
    assert not Annealed(Drawing(0.5, 0.0)).deterministic


def test_a_cycle_of_argmax_is_detected():
    swap = scripted(lambda tokens: 9 - tokens.clamp(max=9))
    states = run(swap, Annealed(Drawing(0.0, top_k=5)), inside=canvases([6]), steps=100)
    assert states[-1].finished.all()
    assert states[-1].step < 10


def test_temperature_goes_in_a_straight_line_from_first_to_last():
    cooling = Drawing(0.8, 0.4)
    assert [cooling.temperature_at(t, 5) for t in range(1, 6)] == pytest.approx([0.8, 0.7, 0.6, 0.5, 0.4])
    warming = Drawing(0.0, 1.0)
    assert [warming.temperature_at(t, 3) for t in range(1, 4)] == [0.0, 0.5, 1.0]
    assert [Drawing(0.8, 0.0).temperature_at(t, 2) for t in (1, 2)] == [0.8, 0.0]
    assert Drawing(0.8, 0.4).temperature_at(1, 1) == 0.8
    assert {Drawing(0.7).temperature_at(t, 9) for t in range(1, 10)} == {0.7}
    assert {Drawing(0.7, 0.7).temperature_at(t, 9) for t in range(1, 10)} == {0.7}


def test_a_temperature_too_low_to_divide_by_is_argmax():
    temperatures = [Drawing(1.0, 0.0).temperature_at(t, 5000) for t in range(1, 5001)]
    assert all(t == 0 or t >= 1e-3 for t in temperatures)
    assert temperatures.count(0.0) == 5


@pytest.mark.parametrize(
    ("drawing", "exponents", "kept"),
    [
        (Drawing(0.5, 2.0), (2.0, 0.8, 0.5), [0, 1, 2, 3]),
        (Drawing(1.0, top_k=2), (1.0, 1.0, 1.0), [1, 3]),
        (Drawing(2.0, top_p=0.75), (0.5, 0.5, 0.5), [0, 1, 3]),  # 0.4 + 0.3 is not enough
    ],
)
def test_tokens_follow_the_tempered_and_truncated_distribution(drawing, exponents, kept: list[int]):
    probability = torch.tensor([0.2, 0.4, 0.1, 0.3])
    denoiser = answering(lambda tokens: probability.log().expand(*tokens.shape, 4))
    inside = torch.ones(400, 10, dtype=torch.bool)
    states = run(denoiser, Annealed(drawing), inside=inside, steps=3, vocabulary_size=4, stop=False)
    for state, exponent in zip(states[1:], exponents, strict=True):  # tau is 0.5, 1.25, 2.0
        weights = torch.zeros(4)
        weights[kept] = probability[kept] ** exponent
        assert_frequencies(torch.bincount(state.tokens.flatten(), minlength=4), 4000 * weights / weights.sum())


def test_top_1_is_argmax_at_any_temperature():
    inside = canvases([8, 8])
    narrow = run(chaotic(5), Annealed(Drawing(1.0, top_k=1)), inside=inside, steps=6, stop=False)
    argmax = run(chaotic(5), LowTemperature(0.0), inside=inside, steps=6, stop=False)
    assert torch.equal(narrow[-1].tokens, argmax[-1].tokens)
    least = run(chaotic(5), Annealed(Drawing(1.0, top_p=0.0)), inside=inside, steps=6, stop=False)
    assert torch.equal(least[-1].tokens, argmax[-1].tokens)
    assert V > 1
