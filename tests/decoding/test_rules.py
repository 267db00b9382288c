"""What holds for every step rule that is later than the paper."""

from dataclasses import replace
from itertools import pairwise
from typing import Any, get_args

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from decoding.toys import MARK, V, barring, canvases, chaotic, flat, knowing_shifts, mark_noise, run, scripted, shifts
from sundae.config import RuleName, SamplingConfig, ScheduleName
from sundae.core.network import Ask, Prediction, Transformer, as_denoiser
from sundae.core.sampling import (
    ArgmaxUnrolled,
    LowTemperature,
    Rule,
    View,
    update_all,
    update_share,
    update_triangle,
)
from sundae.decoding.annealed import Annealed
from sundae.decoding.confidence import Confidence
from sundae.decoding.drawing import Drawing
from sundae.decoding.entropy_bounded import EntropyBounded
from sundae.decoding.predictor_corrector import PredictorCorrector
from sundae.decoding.rules import build_rule

RENOISING: list[Rule] = [
    EntropyBounded(Drawing(0.8, 0.4), bound=0.5),
    EntropyBounded(Drawing(0.0), bound=0.0, stop_entropy=0.0),
    Confidence(Drawing(1.0)),
    Confidence(Drawing(0.0), choice_temperature=2.0),
    PredictorCorrector(Drawing(0.7, top_k=4), renoise_share=0.5),
    PredictorCorrector(Drawing(0.0), renoise_share=1.0),
    PredictorCorrector(Drawing(0.7), renoise_share=0.5, doubt=3.0),
]
RULES: list[Rule] = [
    Annealed(Drawing(1.0, 0.0, top_p=0.9)),
    Annealed(Drawing(0.9, 0.3, top_k=3), update_share(0.3)),
    Annealed(Drawing(0.9, 0.3), update_triangle),
    *RENOISING,
]


@pytest.fixture
def marked(monkeypatch: pytest.MonkeyPatch) -> None:
    mark_noise(monkeypatch)


# ---- batches, locks, lengths of the chain


@pytest.mark.parametrize("rule", RULES)
def test_a_row_is_the_same_alone_and_in_a_batch_of_64(network: Transformer, rule: Rule):
    lengths = [1 + (7 * i) % 10 for i in range(64)]
    inside, samples = canvases(lengths), torch.arange(64) * 3 % 64
    together = run(as_denoiser(network), rule, inside=inside, steps=6, samples=samples)[-1]
    for i in range(0, 64, 5):
        n = lengths[i]
        alone = run(as_denoiser(network), rule, inside=inside[i : i + 1, :n], steps=6, samples=samples[i : i + 1])[-1]
        assert torch.equal(together.tokens[i, :n], alone.tokens[0])
        assert together.calls[i] == alone.calls[0] == alone.network_calls


@pytest.mark.parametrize("rule", RULES)
def test_locked_positions_never_change(network: Transformer, rule: Rule):
    inside = canvases([10, 7, 10])
    torch.manual_seed(0)
    template, editable = torch.randint(V, (3, 10)), torch.rand(3, 10) < 0.5
    locked = inside & ~editable
    for state in run(as_denoiser(network), rule, inside=inside, editable=editable, template=template, steps=7):
        assert torch.equal(state.tokens[locked], template[locked])
        assert not state.changed[~(editable & inside)].any()


@pytest.mark.parametrize("rule", RENOISING)
def test_a_locked_position_is_not_even_proposed_another_token(rule: Rule):
    # The chain would undo it, but the rule's own counts would be wrong.
    asked: list[Ask] = []
    inside = canvases([6])
    editable = torch.tensor([[True, False, True, True, False, True]])

    def denoiser(ask: Ask) -> Prediction:
        asked.append(ask)
        return flat()(ask)

    run(denoiser, rule, inside=inside, editable=editable, steps=4)
    assert all(torch.equal(ask.where, editable) for ask in asked)


@pytest.mark.parametrize("rule", RULES)
def test_no_step_returns_the_start(rule: Rule):
    states = run(flat(), rule, inside=canvases([6]), steps=0)
    assert [(state.step, state.network_calls) for state in states] == [(0, 0)]


@pytest.mark.parametrize("drawing", [Drawing(0.0), Drawing(0.8), Drawing(0.8, 0.2), Drawing(1.0, top_k=2)])
@pytest.mark.parametrize("make", [Annealed, EntropyBounded, Confidence, PredictorCorrector])
def test_one_step_draws_everything_at_the_first_temperature(make, drawing: Drawing):
    denoiser, inside = chaotic(3), canvases([8, 5])
    one = run(denoiser, make(drawing), inside=inside, steps=1)
    same = run(denoiser, Annealed(replace(drawing, final_temperature=None)), inside=inside, steps=1)
    assert torch.equal(one[1].tokens, same[1].tokens)
    assert one[1].network_calls == 1


@pytest.mark.parametrize("rule", RENOISING)
@pytest.mark.parametrize("steps", [1, 2, 7])
def test_every_step_asks_the_network_once(rule: Rule, steps: int):
    last = run(scripted(lambda tokens: (tokens + 1) % V), rule, inside=canvases([8, 3]), steps=steps)[-1]
    assert last.network_calls == steps
    assert last.calls.tolist() == [steps, steps]


@pytest.mark.parametrize("rule", RULES)
def test_the_same_seed_gives_the_same_text_and_another_seed_another(rule: Rule):
    one, same, other = (run(chaotic(1), rule, inside=canvases([8] * 4), steps=3, seed=seed) for seed in (0, 0, 1))
    assert all(torch.equal(a.tokens, b.tokens) for a, b in zip(one, same, strict=True))
    assert not torch.equal(one[-1].tokens, other[-1].tokens)


# ---- noise


@pytest.mark.parametrize("rule", RENOISING)
@pytest.mark.parametrize("steps", [1, 2, 3, 9])
def test_noise_is_never_the_last_word(marked: None, rule: Rule, steps: int):
    for seed in range(5):
        states = run(chaotic(seed), rule, inside=canvases([8, 5, 1, 2]), steps=steps)
        assert not (states[-1].tokens == MARK).any()
        assert steps < 3 or any((state.tokens == MARK).any() for state in states), "else there is nothing to see"


@pytest.mark.parametrize("rule", RENOISING)
def test_a_row_never_stops_on_noise(marked: None, rule: Rule):
    for seed in range(3):
        states = run(scripted(lambda t: t % 2), rule, inside=canvases([3] * 8), steps=12, vocabulary_size=2, seed=seed)
        for state in states:
            assert not (state.tokens[state.finished] == MARK).any()


@pytest.mark.parametrize("rule", RENOISING)
def test_noise_that_repeats_the_text_by_chance_stops_no_row(rule: Rule):
    # Nothing is known and there are but two words: unchanged texts are frequent, and mean nothing.
    states = run(flat(vocabulary_size=2), rule, inside=canvases([2] * 200), steps=6, vocabulary_size=2)
    assert any((~after.changed.any(1)).any() for after in states[1:-1])
    assert not any(state.finished.any() for state in states)


# ---- a chain whose answer is known


@pytest.mark.parametrize("rule", RULES)
def test_the_chain_ends_in_the_sentence_of_its_prompt(rule: Rule):
    # A language of 11 sentences and its exact denoiser; a third of each row is given, the rest starts as noise.
    rows, width = 22, 12
    sentences = shifts(width)[torch.arange(rows) % V]
    editable = torch.ones(rows, width, dtype=torch.bool)
    editable[:, [1, 4, 6, 11]] = False
    inside = torch.ones_like(editable)
    last = run(knowing_shifts(), rule, inside=inside, editable=editable, template=sentences, steps=24)[-1]
    assert torch.equal(last.tokens, sentences)


# A bound of 0 keeps one token at a time and gives up the one before: it goes nowhere without a prompt.
@pytest.mark.parametrize("rule", [rule for rule in RULES if getattr(rule, "bound", 1.0) > 0])
def test_without_a_prompt_the_chain_ends_in_some_sentence(rule: Rule):
    rows, width = 60, 16
    last = run(knowing_shifts(), rule, inside=torch.ones(rows, width, dtype=torch.bool), steps=40)[-1]
    found = (last.tokens[:, None] == shifts(width)).all(2)
    assert found.any(1).float().mean() > 0.9  # a draw can still differ in the last step
    assert found.any(0).sum() > 3, "and not always in the same one"


# ---- by name


def test_every_rule_has_a_name_and_its_settings_reach_it():
    warm = SamplingConfig(
        temperature=0.9,
        final_temperature=0.2,
        top_k=5,
        top_p=0.7,
        entropy_bound=0.25,
        stop_entropy=0.125,
        choice_temperature=1.5,
        renoise_share=0.6,
        renoise_doubt=1.5,
        uncertain_share=0.4,
    )
    drawing = Drawing(0.9, 0.2, top_k=5, top_p=0.7)
    expected: dict[str, Rule] = {
        "low-temperature": Annealed(drawing, update_all),
        "argmax-unrolled": ArgmaxUnrolled(0.4),
        "entropy-bounded": EntropyBounded(drawing, bound=0.25, stop_entropy=0.125),
        "confidence": Confidence(drawing, choice_temperature=1.5),
        "predictor-corrector": PredictorCorrector(drawing, renoise_share=0.6, doubt=1.5),
    }
    assert set(expected) == set(get_args(RuleName))
    for name, rule in expected.items():
        built = build_rule(replace(warm, rule=name))
        assert built == rule
        assert isinstance(built, Rule)


@pytest.mark.parametrize("final", [-1.0, 0.8])
def test_the_paper_s_rule_is_built_where_nothing_newer_is_asked_for(final: float):
    plain = SamplingConfig(temperature=0.8, final_temperature=final)
    assert build_rule(plain) == LowTemperature(0.8, update_all)
    assert build_rule(replace(plain, schedule="triangle")) == LowTemperature(0.8, update_triangle)
    assert isinstance(build_rule(replace(plain, schedule="share")), LowTemperature)
    for newer in ({"top_k": 3}, {"top_p": 0.9}, {"final_temperature": 0.0}, {"final_temperature": 0.4}):
        assert isinstance(build_rule(replace(plain, **newer)), Annealed)


def test_a_final_temperature_of_0_is_argmax_and_not_absent():
    built = build_rule(SamplingConfig(final_temperature=0.0))
    assert isinstance(built, Annealed)
    assert built.drawing.final_temperature == 0.0


# ---- anything goes


@st.composite
def requests(draw: st.DrawFn) -> dict[str, Any]:
    rows, width = draw(st.integers(1, 4)), draw(st.integers(1, 6))

    def mask(*shape: int) -> Tensor:
        size = torch.Size(shape).numel()
        return torch.tensor(draw(st.lists(st.booleans(), min_size=size, max_size=size))).view(shape)

    barred = mask(width, V)
    barred[torch.arange(width), torch.tensor([draw(st.integers(0, V - 1)) for _ in range(width)])] = False
    return {
        "inside": canvases([draw(st.integers(1, width)) for _ in range(rows - 1)] + [width]),
        "editable": mask(rows, width),
        "template": torch.tensor([draw(st.integers(0, V - 1)) for _ in range(rows * width)]).view(rows, width),
        "barred": barred,
        "seed": draw(st.integers(0, 99)),
    }


temperatures = st.sampled_from([0.0, 1e-3, 0.5, 1.0, 1000.0])
samplings = st.builds(
    SamplingConfig,
    rule=st.sampled_from(get_args(RuleName)),
    steps=st.integers(0, 5),
    temperature=temperatures,
    schedule=st.sampled_from(get_args(ScheduleName)),
    share=st.sampled_from([0.0, 0.3, 1.0]),
    stop_early=st.booleans(),
    final_temperature=st.just(-1.0) | temperatures,
    top_k=st.integers(0, 2 * V),
    top_p=st.sampled_from([0.0, 0.5, 0.9, 1.0]),
    entropy_bound=st.sampled_from([0.0, 0.1, 5.0, 1e6]),
    stop_entropy=st.sampled_from([0.0, 0.5, 1e6]),
    choice_temperature=st.sampled_from([0.0, 4.5]),
    renoise_share=st.sampled_from([0.0, 0.5, 1.0]),
    renoise_doubt=st.sampled_from([0.0, 1.0, 1e6]),
)


@given(requests(), samplings)
@settings(max_examples=300)
def test_any_request_is_answered_and_no_barred_token_is_in_the_answer(
    request: dict[str, Any], sampling: SamplingConfig
):
    barred, template = request.pop("barred"), request["template"]
    denoiser = barring(chaotic(request["seed"]), barred)
    states = run(denoiser, build_rule(sampling), steps=sampling.steps, stop=sampling.stop_early, **request)
    assert states[-1].step <= sampling.steps
    written = request["editable"] & request["inside"]
    rows, positions = written.nonzero(as_tuple=True)
    # Other schedules may never come to a position, which then keeps its start.
    everywhere = sampling.rule != "low-temperature" or sampling.schedule == "all"
    for before, after in pairwise(states):
        assert torch.equal(after.tokens[~request["editable"]], template[~request["editable"]])
        assert torch.equal(before.tokens[before.finished], after.tokens[before.finished])
        if everywhere:  # nor on the way: noise knows what is barred, too
            assert not barred[positions, after.tokens[rows, positions]].any()


def test_rules_see_what_the_protocol_promises():
    # A rule is asked with the rows that still run; this one looks.
    seen: list[View] = []

    class Watching(EntropyBounded):
        def step(self, view: View):
            seen.append(view)
            return (yield from super().step(view))

    run(scripted(lambda t: t), Watching(), inside=canvases([4, 4]), steps=9)
    assert [len(view.rows) for view in seen] == [2], "certain of what stands there: settled at once"
