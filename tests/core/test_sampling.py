from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from core.chisquare import assert_frequencies
from core.enumeration import SPACE, exact_chain
from networks import build
from sundae.core.network import Ask, Denoiser, Prediction, Transformer, as_denoiser
from sundae.core.noise import Noise
from sundae.core.sampling import (
    ArgmaxUnrolled,
    ChainState,
    LowTemperature,
    draw_start,
    lowest,
    model_score,
    run_chain,
    unfold_chain,
    update_all,
    update_share,
    update_triangle,
)

V = 11
RULES = [
    LowTemperature(1.0),
    LowTemperature(0.5, update_share(0.3)),
    LowTemperature(0.8, update_triangle),
    LowTemperature(0.0),
    ArgmaxUnrolled(0.0),
    ArgmaxUnrolled(0.4),
]


def canvases(lengths: list[int]) -> torch.Tensor:
    return torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]


def run(denoiser: Denoiser, rule, *, inside, steps, editable=None, template=None, samples=None, seed=0, stop=True):
    samples = torch.arange(len(inside)) if samples is None else samples
    editable = inside if editable is None else editable
    template = torch.zeros_like(inside, dtype=torch.long) if template is None else template
    noise = Noise(seed)
    start = draw_start(template, editable=editable, samples=samples, vocabulary_size=V, noise=noise)
    chain = unfold_chain(
        start,
        rule=rule,
        steps=steps,
        noise=noise,
        samples=samples,
        inside=inside,
        editable=editable,
        stop=stop,
    )
    return list(run_chain(denoiser, chain))


def scripted(next_token: Callable[[torch.Tensor], torch.Tensor]) -> Denoiser:
    """A denoiser that is certain of what `next_token` says of the tokens it is given."""

    def answer(ask: Ask) -> Prediction:
        wanted = next_token(ask.tokens)[ask.where]
        logits = torch.full((len(wanted), V), -30.0).scatter(1, wanted[:, None], 30.0)
        return Prediction(torch.zeros(*ask.tokens.shape, 1), logits)

    return answer


def chaotic(seed: int, *, live: int = 3) -> Denoiser:
    """Logits that are a hash of (whole text, position, token), over few live tokens: chains wander, and some cycle."""

    def answer(ask: Ask) -> Prediction:
        width = ask.tokens.shape[1]
        key = (torch.where(ask.inside, ask.tokens + 1, 0) * 13 ** torch.arange(width)).sum(1)
        table = 4 * Noise(seed).uniform(key[:, None, None], torch.arange(width)[:, None], torch.arange(V))
        table[..., live:] = -50.0
        return Prediction(torch.zeros(*ask.tokens.shape, 1), table[ask.where])

    return answer


# ---- the chain is the paper's


def test_chain_samples_the_exact_distribution_of_eq_1():
    network = build(vocabulary_size=3, canvas=2, seed=3)
    rows = 20_000
    everywhere = torch.ones(rows, 2, dtype=torch.bool)
    noise, samples = Noise(5), torch.arange(rows)
    start = draw_start(
        torch.zeros(rows, 2, dtype=torch.long), editable=everywhere, samples=samples, vocabulary_size=3, noise=noise
    )
    chain = unfold_chain(
        start,
        rule=LowTemperature(1.0),
        steps=3,
        noise=noise,
        samples=samples,
        inside=everywhere,
        editable=everywhere,
        stop=False,
    )
    counts = [
        torch.bincount(state.tokens @ torch.tensor([3, 1]), minlength=9)
        for state in run_chain(as_denoiser(network), chain)
    ]
    assert torch.equal(SPACE @ torch.tensor([3, 1]), torch.arange(9))
    for steps, observed in enumerate(counts):
        assert_frequencies(observed, exact_chain(network, steps=steps) * rows)


def test_partial_updates_sample_their_own_exact_distribution():
    # Half of two positions, drawn at random: x_t mixes the two single-site kernels.  Choice and token are independent.
    network = build(vocabulary_size=3, canvas=2, seed=3)
    with torch.no_grad():
        f = network.logits(network(SPACE)).double().softmax(-1)  # f(x^(i) | x')
    kernel = torch.zeros(9, 9, dtype=torch.float64)
    for x, text in enumerate(SPACE.tolist()):
        for token in range(3):
            kernel[x, token * 3 + text[1]] += f[x, 0, token] / 2
            kernel[x, text[0] * 3 + token] += f[x, 1, token] / 2
    rows = 20_000
    everywhere, samples, noise = torch.ones(rows, 2, dtype=torch.bool), torch.arange(rows), Noise(6)
    blank = torch.zeros(rows, 2, dtype=torch.long)
    start = draw_start(blank, editable=everywhere, samples=samples, vocabulary_size=3, noise=noise)
    chain = unfold_chain(
        start,
        rule=LowTemperature(1.0, update_share(0.5)),
        steps=3,
        noise=noise,
        samples=samples,
        inside=everywhere,
        editable=everywhere,
        stop=False,
    )
    *_, last = run_chain(as_denoiser(network), chain)
    expected = torch.full((9,), 1 / 9, dtype=torch.float64) @ torch.linalg.matrix_power(kernel, 3)
    assert_frequencies(torch.bincount(last.tokens @ torch.tensor([3, 1]), minlength=9), expected * rows)


def test_start_is_the_prior_where_editable_and_the_template_elsewhere():
    template = torch.full((2000, 6), 7)
    editable = torch.zeros(2000, 6, dtype=torch.bool)
    editable[:, 2:4] = True
    start = draw_start(template, editable=editable, samples=torch.arange(2000), vocabulary_size=V, noise=Noise(0))
    assert (start[~editable] == 7).all()
    assert_frequencies(torch.bincount(start[editable], minlength=V), [4000 / V] * V)


def test_zero_steps_returns_the_start(network: Transformer):
    states = run(as_denoiser(network), LowTemperature(1.0), inside=canvases([6]), steps=0)
    assert [state.step for state in states] == [0]
    assert states[0].network_calls == 0


# ---- rules


def test_temperature_zero_equals_plain_argmax(network: Transformer):
    denoiser, inside = as_denoiser(network), canvases([8, 8, 5])
    zero = run(denoiser, LowTemperature(0.0), inside=inside, steps=5, stop=False)
    plain = run(denoiser, ArgmaxUnrolled(0.0), inside=inside, steps=5, stop=False)
    x = zero[0].tokens
    for a, b in zip(zero[1:], plain[1:], strict=True):
        with torch.no_grad():
            x = torch.where(inside, network.logits(network(x, inside=inside)).argmax(-1), x)
        assert torch.equal(a.tokens, x)
        assert torch.equal(b.tokens, x)


@pytest.mark.parametrize(("share", "uncertain_count"), [(0.1, 1), (0.5, 3), (0.9, 5), (1.0, 5)])
def test_argmax_unrolled_follows_the_recipe(share: float, uncertain_count: int):
    # Section 3.1 written out for one row of five, without the chain's machinery, on a denoiser that never settles soon.
    for seed in range(8):
        denoiser = chaotic(seed)
        states = run(denoiser, ArgmaxUnrolled(share), inside=canvases([5]), steps=6, stop=False)
        everywhere = canvases([5])

        def log_f(x: torch.Tensor, denoiser: Denoiser = denoiser, mask: torch.Tensor = everywhere) -> torch.Tensor:
            return denoiser(Ask(x, torch.arange(1), mask, mask)).logits.log_softmax(-1)

        before = log_f(states[0].tokens)  # lambda_1
        y = before.argmax(-1)[None]
        assert torch.equal(states[1].tokens, y)
        for state in states[2:]:
            now = log_f(y)  # lambda_t
            predicted = now.argmax(-1)[None]
            unrolled = log_f(predicted).argmax(-1)
            uncertain = before.amax(-1).argsort()[:uncertain_count]
            y = predicted.clone()
            y[0, uncertain] = unrolled[uncertain]
            assert torch.equal(state.tokens, y)
            assert torch.allclose(state.certainty[0], now.amax(-1), atol=1e-5)
            before = now


@pytest.mark.parametrize(
    ("rule", "steps", "expected"),
    [
        (LowTemperature(1.0), 7, 7),
        (LowTemperature(1.0, update_share(0.3)), 7, 7),
        (LowTemperature(1.0, update_triangle), 8, 7),  # the count at t = T is 0: no call
        (LowTemperature(1.0, update_triangle), 64, 57),  # floor(16 min(t, 64 - t) / 64) is 0 for t < 4 and t > 60
        (ArgmaxUnrolled(0.5), 7, 13),  # 1 + 2 (T - 1)
        (ArgmaxUnrolled(0.0), 7, 7),
    ],
)
def test_network_calls_are_counted_right(rule, steps: int, expected: int):
    asked = []
    flip = scripted(lambda tokens: (tokens + 1) % V)

    def denoiser(ask: Ask) -> Prediction:
        asked.append(ask)
        return flip(ask)

    last = run(denoiser, rule, inside=canvases([8, 8]), steps=steps, stop=False)[-1]
    assert last.network_calls == len(asked) == expected
    assert last.calls.tolist() == [expected, expected]


# ---- schedules


@pytest.mark.parametrize(
    ("schedule", "steps", "counts"),
    [
        (update_all, 3, [10, 10, 10]),
        (update_share(0.3), 3, [3, 3, 3]),
        (update_share(0.31), 2, [4, 4]),
        (update_triangle, 4, [5, 10, 5, 0]),
        (update_triangle, 10, [2, 4, 6, 8, 10, 8, 6, 4, 2, 0]),
        (update_triangle, 7, [2, 5, 8, 8, 5, 2, 0]),
    ],
)
def test_exact_update_counts(schedule, steps: int, counts: list[int]):
    # Every update writes a new token, so the number of changes is the number of updates.
    inside = canvases([12])
    editable = inside.clone()
    editable[0, 3] = editable[0, 8] = False
    states = run(
        scripted(lambda tokens: (tokens + 1) % V),
        LowTemperature(1.0, schedule),
        inside=inside,
        editable=editable,
        steps=steps,
        stop=False,
    )
    assert [int(state.changed.sum()) for state in states[1:]] == counts


def test_shares_are_not_disturbed_by_binary_fractions():
    for n in range(1, 300):
        count = update_share(0.1)(1, 1, torch.tensor([10 * n]))
        assert int(count) == n


def test_updated_positions_are_drawn_uniformly_without_replacement():
    rows = 3000
    inside = torch.ones(rows, 6, dtype=torch.bool)
    states = run(
        scripted(lambda tokens: (tokens + 1) % V), LowTemperature(1.0, update_share(0.5)), inside=inside, steps=1
    )
    subsets = states[1].changed.long() @ (2 ** torch.arange(6))
    counts = torch.bincount(subsets, minlength=64)
    drawn = [int(counts[s]) for s in range(64) if s.bit_count() == 3]
    assert sum(drawn) == rows
    assert_frequencies(drawn, [rows / 20] * 20)


@given(st.data())
@settings(deadline=None, max_examples=50)
def test_lowest_takes_exactly_the_count_that_is_asked_for(data):
    rows, width = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 9))
    among = torch.tensor(data.draw(st.lists(st.booleans(), min_size=rows * width, max_size=rows * width)))
    among = among.view(rows, width)
    order = torch.tensor(data.draw(st.lists(st.integers(0, 3), min_size=rows * width, max_size=rows * width)))
    order = order.view(rows, width).float()
    count = torch.tensor([data.draw(st.integers(0, int(n))) for n in among.sum(1)])
    chosen = lowest(order, among=among, count=count)
    assert torch.equal(chosen.sum(1), count)
    assert not (chosen & ~among).any()
    for row in range(rows):
        inner, outer = order[row][chosen[row]], order[row][among[row] & ~chosen[row]]
        assert not len(inner) or not len(outer) or inner.max() <= outer.min()


# ---- locks, canvases, batches


@pytest.mark.parametrize("rule", RULES)
def test_locked_positions_never_change(network: Transformer, rule):
    inside = canvases([10, 7, 10])
    torch.manual_seed(0)
    template, editable = torch.randint(V, (3, 10)), torch.rand(3, 10) < 0.5
    for state in run(as_denoiser(network), rule, inside=inside, editable=editable, template=template, steps=12):
        locked = ~(editable & inside)
        assert torch.equal(state.tokens[locked & inside], template[locked & inside])
        assert not state.changed[locked].any()


def test_a_careless_rule_cannot_change_a_locked_position():
    class Careless(LowTemperature):
        def step(self, view):
            update = yield from super().step(view)
            return replace(update, tokens=torch.zeros_like(update.tokens))

    inside = canvases([6])
    editable = torch.tensor([[True, False, True, False, True, False]])
    last = run(
        scripted(lambda t: t), Careless(1.0), inside=inside, editable=editable, template=torch.full((1, 6), 4), steps=3
    )[-1]
    assert last.tokens.tolist() == [[0, 4, 0, 4, 0, 4]]


@pytest.mark.parametrize("rule", RULES)
def test_a_batch_equals_its_rows(network: Transformer, rule):
    lengths = [10, 4, 7, 1, 10]
    inside = canvases(lengths)
    samples = torch.tensor([3, 8, 0, 5, 1])
    together = run(as_denoiser(network), rule, inside=inside, steps=12, samples=samples)[-1]
    for i, n in enumerate(lengths):
        alone = run(as_denoiser(network), rule, inside=inside[i : i + 1, :n], steps=12, samples=samples[i : i + 1])[-1]
        assert torch.equal(together.tokens[i, :n], alone.tokens[0])
        assert together.calls[i] == alone.calls[0] == alone.network_calls


def test_different_samples_and_seeds_differ(network: Transformer):
    inside = canvases([8, 8])
    one = run(as_denoiser(network), LowTemperature(1.0), inside=inside, steps=3)[-1].tokens
    other = run(as_denoiser(network), LowTemperature(1.0), inside=inside, steps=3, seed=1)[-1].tokens
    assert not torch.equal(one[0], one[1])
    assert not torch.equal(one, other)


def test_rows_with_nothing_to_edit_are_finished_at_once():
    inside = canvases([4, 4])
    editable = torch.tensor([[False] * 4, [True] * 4])
    states = run(scripted(lambda t: (t + 1) % V), LowTemperature(1.0), inside=inside, editable=editable, steps=3)
    assert states[0].finished.tolist() == [True, False]
    assert states[-1].calls.tolist() == [0, 3]


# ---- stopping


@pytest.mark.parametrize("rule", [rule for rule in RULES if not rule.runs_to_end])
def test_finished_rows_never_change(network: Transformer, rule):
    states = run(as_denoiser(network), rule, inside=canvases([10] * 8), steps=40)
    assert states[-1].finished.any(), "else there is nothing to see"
    for before, after in pairwise(states):
        assert (after.finished | ~before.finished).all()
        assert torch.equal(before.tokens[before.finished], after.tokens[before.finished])
        assert torch.equal(before.calls[before.finished], after.calls[before.finished])


@pytest.mark.parametrize("rule", [ArgmaxUnrolled(0.4), ArgmaxUnrolled(0.0), LowTemperature(0.0)])
def test_deterministic_rows_stop_only_where_going_on_would_repeat(rule):
    inside, cycling, resting = canvases([3] * 20), 0, 0
    for seed in range(10):
        stopped = run(chaotic(seed), rule, inside=inside, steps=60)
        endless = run(chaotic(seed), rule, inside=inside, steps=90, stop=False)
        assert stopped[-1].finished.all()
        future = torch.stack([state.tokens for state in endless])
        for row in range(len(inside)):
            end = next(state.step for state in stopped if state.finished[row])
            assert torch.equal(stopped[-1].tokens[row], future[end, row])
            # Whatever comes after the stop was there before it: a fixed point, or a turn of a cycle.
            seen = {tuple(tokens.tolist()) for tokens in future[: end + 1, row]}
            assert all(tuple(tokens.tolist()) in seen for tokens in future[end + 1 :, row])
            moves = not torch.equal(future[-1, row], future[-2, row])
            cycling, resting = cycling + moves, resting + (not moves)
    assert cycling > 5
    assert resting > 5


def test_a_cycle_is_detected():
    # Every token alternates between two values for ever: argmax has no fixed point.
    swap = scripted(lambda tokens: 9 - tokens.clamp(max=9))
    for rule in (LowTemperature(0.0), ArgmaxUnrolled(0.0), ArgmaxUnrolled(0.5)):
        states = run(swap, rule, inside=canvases([6]), steps=100)
        assert states[-1].finished.all()
        assert states[-1].step < 10


def test_a_fixed_point_stops_deterministic_rules_after_one_quiet_step():
    constant = scripted(lambda tokens: torch.full_like(tokens, 3))
    for rule in (LowTemperature(0.0), ArgmaxUnrolled(0.5)):
        states = run(constant, rule, inside=canvases([6]), steps=100)
        assert states[-1].step == 2


def test_quiet_partial_updates_are_not_convergence():
    # Only position 5 would still change, and a step looks at one position of six: most steps change nothing.
    def next_token(tokens: torch.Tensor) -> torch.Tensor:
        wanted = torch.full_like(tokens, 3)
        wanted[:, 5] = 4
        return wanted

    for seed in range(20):
        start = torch.full((1, 6), 3)
        inside = canvases([6])
        chain = unfold_chain(
            start,
            rule=LowTemperature(1.0, update_share(1 / 6)),
            steps=500,
            noise=Noise(seed),
            samples=torch.arange(1),
            inside=inside,
            editable=inside,
        )
        *_, last = run_chain(scripted(next_token), chain)
        assert last.finished.all()
        assert last.tokens.tolist() == [[3, 3, 3, 3, 3, 4]]
        assert last.step >= 7  # six positions looked at after the last change


def test_looking_starts_anew_after_a_change():
    # Position 0 copies its right neighbour: looked at before the neighbour changed, it must be looked at again.
    def next_token(tokens: torch.Tensor) -> torch.Tensor:
        return torch.cat([tokens[:, 1:], torch.full_like(tokens[:, :1], 4)], dim=1)

    for seed in range(20):
        inside = canvases([4])
        chain = unfold_chain(
            torch.full((1, 4), 3),
            rule=LowTemperature(1.0, update_share(0.25)),
            steps=900,
            noise=Noise(seed),
            samples=torch.arange(1),
            inside=inside,
            editable=inside,
        )
        *_, last = run_chain(scripted(next_token), chain)
        assert last.tokens.tolist() == [[4, 4, 4, 4]]


def test_triangle_runs_to_its_end():
    constant = scripted(lambda tokens: torch.full_like(tokens, 3))
    states = run(constant, LowTemperature(1.0, update_triangle), inside=canvases([6]), steps=30)
    assert states[-1].step == 30
    assert not states[-1].finished.any()


def test_a_step_that_updates_nothing_makes_no_call():
    # T = 100 on a canvas of 3: floor(6 min(t/T, 1 - t/T)) is 0 for t < 17 and t > 83.
    states = run(
        scripted(lambda t: (t + 1) % V), LowTemperature(1.0, update_triangle), inside=canvases([3, 12]), steps=100
    )
    assert states[-1].calls[0] == sum(6 * min(t, 100 - t) // 100 > 0 for t in range(1, 101))
    assert states[-1].calls[1] == sum(24 * min(t, 100 - t) // 100 > 0 for t in range(1, 101))
    assert states[-1].calls[0] < states[-1].calls[1] == states[-1].network_calls


def test_without_stopping_every_step_is_made():
    constant = scripted(lambda tokens: torch.full_like(tokens, 3))
    states = run(constant, LowTemperature(0.5), inside=canvases([6]), steps=9, stop=False)
    assert states[-1].step == states[-1].network_calls == 9


# ---- driving


def test_two_chains_can_be_answered_by_one_network_call(network: Transformer):
    # What a server does: gather the pending Asks of chains with different rules and widths into one call.
    def conversation(length: int, rule, seed: int):
        inside = canvases([length])
        noise, samples = Noise(seed), torch.arange(1)
        blank = torch.zeros(1, length, dtype=torch.long)
        start = draw_start(blank, editable=inside, samples=samples, vocabulary_size=V, noise=noise)
        return unfold_chain(
            start, rule=rule, steps=6, noise=noise, samples=samples, inside=inside, editable=inside, stop=False
        )

    requests = [(9, LowTemperature(0.7, update_share(0.5)), 1), (5, ArgmaxUnrolled(0.5), 2)]
    denoiser = as_denoiser(network)
    expected = [list(run_chain(denoiser, conversation(*request)))[-1].tokens for request in requests]
    chains = [conversation(*request) for request in requests]
    pending: dict[int, Ask | ChainState] = {i: next(chain) for i, chain in enumerate(chains)}
    finals: dict[int, torch.Tensor] = {}
    while pending:
        asks = {i: event for i, event in pending.items() if isinstance(event, Ask)}
        answers: dict[int, torch.Tensor] = {}
        if asks:
            wide = {
                key: torch.cat(
                    [torch.nn.functional.pad(getattr(ask, key), (0, 9 - ask.tokens.shape[1])) for ask in asks.values()]
                )
                for key in ("tokens", "inside", "where")
            }
            joint = denoiser(Ask(rows=torch.arange(len(wide["tokens"])), **wide))
            sizes = [int(ask.where.sum()) for ask in asks.values()]
            answers = dict(zip(asks, joint.logits.split(sizes), strict=True))
        following: dict[int, Ask | ChainState] = {}
        for i, event in pending.items():
            try:
                if isinstance(event, Ask):
                    following[i] = chains[i].send(Prediction(torch.zeros(*event.tokens.shape, 1), answers[i]))
                else:
                    finals[i] = event.tokens
                    following[i] = next(chains[i])
            except StopIteration:
                continue
        pending = following
    assert all(torch.equal(finals[i], tokens) for i, tokens in enumerate(expected))


# ---- model score


def test_score_is_the_sum_over_the_canvas_given_the_text_itself(network: Transformer):
    inside = canvases([8, 5])
    torch.manual_seed(0)
    tokens = torch.randint(1, V, (2, 8))
    tokens[0, 6:] = 0
    score = model_score(as_denoiser(network), tokens, inside=inside)
    with torch.no_grad():
        log_f = network.logits(network(tokens, inside=inside)).log_softmax(-1)
    own = log_f.gather(2, tokens[..., None]).squeeze(2)
    assert score.total[0] == pytest.approx(float(own[0].sum()), abs=1e-4)
    assert score.total[1] == pytest.approx(float(own[1, :5].sum()), abs=1e-4)
    assert score.per_token[0] == pytest.approx(float(own[0].sum()) / 6, abs=1e-4)
    assert score.per_token[1] == pytest.approx(float(own[1, :5].sum()) / 5, abs=1e-4)
    alone = model_score(as_denoiser(network), tokens[1:, :5], inside=inside[1:, :5])
    assert alone.per_token[0] == pytest.approx(float(score.per_token[1]), abs=1e-4)


def test_score_of_an_empty_text_is_finite(network: Transformer):
    score = model_score(as_denoiser(network), torch.zeros(1, 4, dtype=torch.long), inside=canvases([4]))
    assert score.per_token == score.total
