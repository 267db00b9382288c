"""How many positions each re-noising rule keeps and which, what the noise is, and when a row is settled."""

import math
from dataclasses import replace
from itertools import pairwise

import pytest
import torch
from torch import Tensor

from core.chisquare import assert_frequencies
from decoding.toys import MARK, V, answering, barring, canvases, chaotic, flat, mark_noise, run, scripted
from sundae.core.network import Ask, Denoiser, Prediction
from sundae.core.noise import Noise
from sundae.core.sampling import LowTemperature
from sundae.decoding.confidence import Confidence, cosine_count
from sundae.decoding.drawing import Drawing
from sundae.decoding.entropy_bounded import EntropyBounded, count_within
from sundae.decoding.predictor_corrector import PredictorCorrector
from sundae.decoding.renoise import uniform_token


@pytest.fixture
def marked(monkeypatch: pytest.MonkeyPatch) -> None:
    mark_noise(monkeypatch)


def noisy_counts(states) -> list[int]:
    return [int((state.tokens == MARK).sum()) for state in states[1:]]


# ---- noise


def noise_for(logits: Tensor, *, seed: int) -> Tensor:
    lines = torch.arange(len(logits))
    first, second = (Noise(seed).fold(purpose).uniform(lines) for purpose in ("first", "second"))
    return uniform_token(logits, lines=lines, uniform=first, again=second)


def test_noise_is_uniform_over_the_vocabulary():
    drawn = noise_for(torch.randn(22_000, V), seed=3)
    assert_frequencies(torch.bincount(drawn, minlength=V), [2000] * V)


def test_noise_is_uniform_over_what_is_not_barred():
    logits = torch.randn(10_000, V)
    logits[:, [0, 4, 5, 10]] = -torch.inf
    drawn = noise_for(logits, seed=4)
    expected = [0 if token in (0, 4, 5, 10) else 10_000 / 7 for token in range(V)]
    assert_frequencies(torch.bincount(drawn, minlength=V), expected)


def test_noise_reaches_the_first_and_the_last_token_and_stays_within_a_large_vocabulary():
    ends, lines = torch.tensor([0.0, 1 - 2.0**-24]), torch.arange(2)
    drawn = uniform_token(torch.zeros(2, 70_000), lines=lines, uniform=ends, again=ends)
    assert drawn.tolist() == [0, 69_999]
    only = torch.full((2, 5), -torch.inf).index_fill(1, torch.tensor([3]), 0.0)
    assert uniform_token(only, lines=lines, uniform=ends, again=ends).tolist() == [3, 3]


def test_noise_is_for_the_lines_that_are_named():
    logits = torch.full((3, 4), -torch.inf)
    logits[torch.arange(3), torch.tensor([1, 2, 3])] = 0.0
    numbers = torch.tensor([0.1, 0.9])
    assert uniform_token(logits, lines=torch.tensor([2, 0]), uniform=numbers, again=numbers).tolist() == [3, 1]


@pytest.mark.parametrize("barred", [[], [1, 7]])
def test_the_noise_that_a_chain_writes_is_uniform_and_not_barred(barred: list[int]):
    # Certain of token 3 everywhere, half of the positions noised: what is not 3 is noise, and so is the missing rest.
    rows, width = 1000, 8
    mask = torch.isin(torch.arange(V), torch.tensor(barred, dtype=torch.long)).expand(width, V)
    denoiser = barring(scripted(lambda tokens: torch.full_like(tokens, 3)), mask)
    states = run(
        denoiser, PredictorCorrector(renoise_share=1.0), inside=torch.ones(rows, width, dtype=torch.bool), steps=2
    )
    counts = torch.bincount(states[1].tokens.flatten(), minlength=V)
    counts[3] -= rows * width // 2
    allowed = V - len(barred)
    assert_frequencies(counts, [0 if t in barred else rows * width / 2 / allowed for t in range(V)])
    assert (states[2].tokens == 3).all()


def test_noise_differs_from_step_to_step_and_from_row_to_row():
    inside = torch.ones(2, 40, dtype=torch.bool)
    rule = EntropyBounded(Drawing(0.0), bound=0.0)
    states = run(flat(), rule, inside=inside, steps=4)
    assert not torch.equal(states[1].tokens[0], states[1].tokens[1])
    assert (states[1].tokens == states[2].tokens).float().mean() < 0.3  # 1 / 11 by chance


# ---- entropy-bounded


def bound_by_hand(entropies: list[float], bound: float) -> int:
    """The k lowest, grown one by one: sum minus largest."""
    best = 0
    for k in range(1, len(entropies) + 1):
        lowest_k = sorted(entropies)[:k]
        if sum(lowest_k) - max(lowest_k) <= bound:
            best = k
    return best


def uneven(denoiser: Denoiser, sharpness: torch.Tensor) -> Denoiser:
    """The same denoiser, but surer at some positions than at others."""

    def answer(ask: Ask) -> Prediction:
        prediction = denoiser(ask)
        return replace(prediction, logits=prediction.logits * sharpness[ask.where.nonzero()[:, 1]][:, None])

    return answer


@pytest.mark.parametrize("bound", [0.0, 0.5, 1.0, 2.5, 100.0])
def test_as_many_are_kept_as_the_bound_allows_and_the_surest(marked: None, bound: float):
    # One row of five written out, on a denoiser with entropies of all sizes; two more positions are locked.
    inside, editable = canvases([7]), torch.tensor([[True, True, False, True, True, False, True]])
    kept_counts = set()
    for seed in range(10):
        spread = uneven(chaotic(seed), torch.tensor([9.0, 3.0, 1.0, 6.0, 0.1, 9.0, 4.0]))
        states = run(
            spread,
            EntropyBounded(Drawing(0.0), bound=bound, stop_entropy=0.0),
            inside=inside,
            editable=editable,
            steps=5,
        )
        for t in range(1, 5):
            before = states[t - 1].tokens
            logits = spread(Ask(before, torch.zeros(1, dtype=torch.long), inside, editable)).logits
            entropy = torch.distributions.Categorical(logits=logits).entropy()
            count = bound_by_hand(entropy.tolist(), bound)
            kept = states[t].tokens[editable] != MARK
            assert int(kept.sum()) == count >= 1
            assert set(kept.nonzero().flatten().tolist()) == set(entropy.argsort()[:count].tolist())
            assert torch.equal(states[t].tokens[editable][kept], logits.argmax(-1)[kept])
            kept_counts.add(count)
        assert not (states[5].tokens == MARK).any()
    assert kept_counts == {1} if bound == 0 else len(kept_counts) >= (1 if bound == 100 else 2)


def test_the_bound_leaves_out_the_largest_entropy_and_holds_with_equality():
    entropy = torch.tensor([[0.5, 0.25, 9.0, 0.25], [3.0, 3.0, 3.0, 3.0]])
    everywhere = torch.ones(2, 4, dtype=torch.bool)
    for bound, counts in [(0.0, [1, 1]), (0.25, [2, 1]), (0.5, [3, 1]), (1.0, [4, 1]), (3.0, [4, 2]), (9.0, [4, 4])]:
        assert count_within(bound, entropy, among=everywhere).tolist() == counts
    among = torch.tensor([[True, False, False, False], [False, True, True, False]])
    assert count_within(1e9, entropy, among=among).tolist() == [1, 2]


def test_a_barred_token_adds_nothing_to_the_entropy(marked: None):
    sure = scripted(lambda tokens: torch.full_like(tokens, 3))
    barred = (torch.arange(V) > 6).expand(9, V)
    states = run(barring(sure, barred), EntropyBounded(bound=0.1), inside=canvases([9]), steps=3)
    assert (states[1].tokens == 3).all()


def test_entropies_are_the_model_s_own_whatever_the_temperature(marked: None):
    counts = []
    for temperature in (0.0, 0.2, 5.0):
        rule = EntropyBounded(Drawing(temperature), bound=1.0)
        counts.append(noisy_counts(run(chaotic(1), rule, inside=canvases([9]), steps=3))[0])
    assert len(set(counts)) == 1


def test_without_a_bound_it_is_low_temperature_sampling():
    inside = canvases([8, 5])
    ours = run(chaotic(4), EntropyBounded(Drawing(0.7), bound=1e9, stop_entropy=0.0), inside=inside, steps=6)
    papers = run(chaotic(4), LowTemperature(0.7), inside=inside, steps=6, stop=False)
    assert torch.equal(ours[-1].tokens, papers[-1].tokens)


def test_a_token_that_was_kept_may_be_given_up_again(marked: None):
    lost = 0
    for seed in range(10):
        states = run(chaotic(seed), EntropyBounded(Drawing(0.0), bound=3.0), inside=canvases([8]), steps=8)
        for before, after in pairwise(states):
            lost += int(((before.tokens != MARK) & (after.tokens == MARK)).sum())
    assert lost > 10


def test_a_settled_row_stops_and_stopping_changes_no_text():
    # Argmax wanders for a while and then rests; at temperature 1 a chain that is not settled would go on drawing.
    rests = answering(
        lambda tokens: 9.0 * torch.nn.functional.one_hot(torch.where(tokens < 6, tokens + 1, 6).clamp(max=6), V).float()
    )
    for seed in range(5):
        rule = EntropyBounded(Drawing(1.0), bound=0.2, stop_entropy=0.02)
        stopped = run(rests, rule, inside=canvases([6] * 8), steps=60, seed=seed)
        endless = run(rests, rule, inside=canvases([6] * 8), steps=60, seed=seed, stop=False)
        assert stopped[-1].finished.all()
        assert stopped[-1].step < 40
        assert torch.equal(stopped[-1].tokens, endless[-1].tokens)
        assert (stopped[-1].tokens == 6).all()


def test_a_row_settles_only_where_it_is_both_stable_and_confident():
    inside = canvases([4])
    stable = {
        sharp: answering(lambda t, sharp=sharp: sharp * torch.nn.functional.one_hot(t, V).float())
        for sharp in (4.0, 20.0)
    }
    rule = EntropyBounded(Drawing(0.0), bound=1e9, stop_entropy=0.01)
    assert run(stable[20.0], rule, inside=inside, steps=9)[-1].step == 1
    assert run(stable[4.0], rule, inside=inside, steps=9)[-1].step == 9  # stable, but not confident
    restless = scripted(lambda t: (t + 1) % V)
    assert run(restless, rule, inside=inside, steps=9)[-1].step == 9  # confident, but not stable
    patient = EntropyBounded(Drawing(0.0), bound=1e9, stop_entropy=0.0)
    assert run(stable[20.0], patient, inside=inside, steps=9)[-1].step == 9


def test_confidence_of_a_row_is_the_mean_over_its_editable_positions():
    # Entropy 0 at eight positions and about 0.4 at one: the mean is below 0.1, but not if the row is that one position.
    def logits(tokens: torch.Tensor) -> torch.Tensor:
        sharp = torch.full((tokens.shape[1],), 40.0)
        sharp[0] = 4.5
        return sharp[:, None] * torch.nn.functional.one_hot(tokens, V).float()

    rule = EntropyBounded(Drawing(0.0), bound=1e9, stop_entropy=0.1)
    inside = canvases([9, 9, 9])
    editable = inside.clone()
    editable[1, 1:] = False
    editable[2, 2:] = False
    states = run(answering(logits), rule, inside=inside, editable=editable, steps=2)
    assert states[1].finished.tolist() == [True, False, False]


# ---- confidence


@pytest.mark.parametrize(("steps", "counts"), [(1, [10]), (2, [3, 10]), (3, [2, 5, 10]), (6, [1, 2, 3, 5, 8, 10])])
def test_counts_follow_the_cosine(marked: None, steps: int, counts: list[int]):
    inside = canvases([12])
    editable = inside.clone()
    editable[0, [3, 8]] = False
    states = run(chaotic(0), Confidence(), inside=inside, editable=editable, steps=steps)
    assert noisy_counts(states) == [10 - count for count in counts]


def test_the_cosine_rises_from_at_least_one_to_all():
    for n in (1, 2, 3, 10, 32, 257):
        for steps in (1, 2, 3, 7, 100, 1000):
            counts = [int(cosine_count(t, steps, torch.tensor(n))) for t in range(1, steps + 1)]
            assert counts == sorted(counts)
            assert counts[0] >= 1
            assert counts[-1] == n
            exact = [n - math.floor(n * math.cos(math.pi * t / (2 * steps)) + 1e-9) for t in range(1, steps + 1)]
            assert counts == exact
    for third in range(1, 50):  # cos(pi / 3) is 1 / 2, whatever the last bit says: it is too small for 26 of 39
        assert int(cosine_count(2 * third, 3 * third, torch.tensor(8))) == 4


@pytest.mark.parametrize("temperature", [0.0, 1.5])
def test_the_most_confident_tokens_are_kept(marked: None, temperature: float):
    everywhere = canvases([9])
    for seed in range(10):
        denoiser = chaotic(seed)
        drawn = run(denoiser, LowTemperature(temperature), inside=everywhere, steps=1, seed=seed)[1].tokens[0]
        states = run(denoiser, Confidence(Drawing(temperature)), inside=everywhere, steps=4, seed=seed)
        ask = Ask(states[0].tokens, torch.zeros(1, dtype=torch.long), everywhere, everywhere)
        probability = denoiser(ask).logits.softmax(-1)
        of_drawn = probability.gather(1, drawn[:, None]).squeeze(1)
        kept = states[1].tokens[0] != MARK
        assert int(kept.sum()) == 9 - math.floor(9 * math.cos(math.pi / 8))
        assert of_drawn[kept].min() >= of_drawn[~kept].max()
        assert torch.equal(states[1].tokens[0][kept], drawn[kept])


def test_choice_noise_is_gumbel_so_the_first_choice_is_drawn_by_probability(marked: None):
    # Of three positions one is kept at t = 1 of 2 (3 - floor(3 cos 45 degrees) = 1).  Gumbel noise of scale c (1 - 1/2)
    # makes the choice proportional to p^(2/c): with c = 2 to the probabilities themselves.
    p = torch.tensor([0.9, 0.6, 0.3])
    table = torch.stack([p, *[(1 - p) / (V - 1)] * (V - 1)], dim=1).log()
    denoiser = answering(lambda tokens: table.expand(*tokens.shape, V))
    rows = 6000
    inside = torch.ones(rows, 3, dtype=torch.bool)
    rule = Confidence(Drawing(0.0), choice_temperature=2.0)
    states = run(denoiser, rule, inside=inside, steps=2)
    kept = states[1].tokens != MARK
    assert (kept.sum(1) == 1).all()
    assert_frequencies(kept.sum(0), rows * p / p.sum())


# ---- predictor-corrector


@pytest.mark.parametrize(
    ("share", "steps", "counts"),
    [
        (1.0, 5, [8, 6, 4, 2, 0]),
        (0.5, 5, [4, 3, 2, 1, 0]),
        (0.3, 4, [3, 2, 1, 0]),  # ceil of 2.25, 1.5, 0.75
        (0.0, 3, [0, 0, 0]),
        (1.0, 1, [0]),
    ],
)
def test_the_share_of_noise_falls_in_a_straight_line_to_none(
    marked: None,
    share: float,
    steps: int,
    counts: list[int],
):
    inside = canvases([12])
    editable = inside.clone()
    editable[0, [3, 8]] = False
    rule = PredictorCorrector(renoise_share=share)
    assert noisy_counts(run(chaotic(0), rule, inside=inside, editable=editable, steps=steps)) == counts


def test_doubt_chooses_tokens_in_proportion_to_a_power_of_their_probability(marked: None):
    """One of two positions is noised, with weights p^-w; chi-square, false alarm 1e-4 for another seed, none here."""
    rows, odds = 4000, (0.9, 0.3)

    def denoiser(ask: Ask) -> Prediction:
        share = torch.tensor([[[p, *[(1 - p) / (V - 1)] * (V - 1)] for p in odds]] * len(ask.tokens))
        return Prediction(torch.zeros(*ask.tokens.shape, 1), share.log()[ask.where])

    inside = torch.ones(rows, 2, dtype=torch.bool)
    rule = PredictorCorrector(Drawing(0.0), renoise_share=1.0, doubt=1.0)
    noisy = run(denoiser, rule, inside=inside, steps=2)[1].tokens == MARK
    assert bool((noisy.sum(1) == 1).all())
    assert_frequencies([int(n) for n in noisy.sum(0)], [rows * 0.25, rows * 0.75])


def test_positions_are_noised_without_preference(marked: None):
    rows = 3000
    inside = torch.ones(rows, 6, dtype=torch.bool)
    states = run(scripted(lambda t: t % V), PredictorCorrector(renoise_share=1.0), inside=inside, steps=2)
    subsets = (states[1].tokens == MARK).long() @ (2 ** torch.arange(6))
    counts = torch.bincount(subsets, minlength=64)
    drawn = [int(counts[s]) for s in range(64) if s.bit_count() == 3]
    assert sum(drawn) == rows
    assert_frequencies(drawn, [rows / 20] * 20)


def test_without_noise_it_is_low_temperature_sampling():
    inside = canvases([8, 5])
    ours = run(chaotic(4), PredictorCorrector(Drawing(0.7), renoise_share=0.0), inside=inside, steps=6)
    papers = run(chaotic(4), LowTemperature(0.7), inside=inside, steps=6, stop=False)
    assert torch.equal(ours[-1].tokens, papers[-1].tokens)


def test_where_to_noise_and_what_are_independent_of_the_tokens():
    # The same chain with and without noise: half of the positions are noised, and of those 1 in V agrees by chance.
    inside = torch.ones(500, 8, dtype=torch.bool)
    noisy, clean = (run(flat(), PredictorCorrector(renoise_share=r), inside=inside, steps=2)[1] for r in (1.0, 0.0))
    same = int((noisy.tokens == clean.tokens).sum()) - 2000
    assert_frequencies([same, 2000 - same], [2000 / V, 2000 - 2000 / V])
    for tokens in (noisy.tokens, clean.tokens):
        assert_frequencies(torch.bincount(tokens.flatten(), minlength=V), [4000 / V] * V)
