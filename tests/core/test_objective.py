import math

import pytest
import torch
import torch.nn.functional as F

from core.enumeration import SPACE, exact_chain, transition_matrix
from networks import build
from sundae.core.corruption import corrupt, corruption_rates
from sundae.core.network import Transformer
from sundae.core.noise import Noise
from sundae.core.objective import UnrolledLoss, likelihood_bound, plain_judge, unrolled_loss

SAMPLES = torch.arange(4)


@pytest.fixture
def batch() -> dict[str, torch.Tensor]:
    clean = torch.randint(11, (4, 9), generator=torch.Generator().manual_seed(0))
    noise = Noise(0)
    rates = corruption_rates(SAMPLES, noise=noise)
    corrupted = corrupt(clean, rates=rates, samples=SAMPLES, vocabulary_size=11, noise=noise)
    inside = torch.arange(9) < torch.tensor([9, 7, 8, 3])[:, None]
    return {"clean": clean, "corrupted": corrupted, "inside": inside}


def loss_of(network: Transformer, batch: dict[str, torch.Tensor], **changes) -> UnrolledLoss:
    settings = {"judge": plain_judge(network.logits), "noise": Noise(1), "samples": SAMPLES} | changes
    return unrolled_loss(lambda x: network(x, inside=batch["inside"]), **batch, **settings)


def test_one_step_is_plain_cross_entropy_on_all_canvas_positions(network: Transformer, batch):
    inside = batch["inside"]
    logits = network.logits(network(batch["corrupted"], inside=inside))
    expected = F.cross_entropy(logits[inside], batch["clean"][inside])
    loss = loss_of(network, batch, steps=1)
    assert loss.total.item() == pytest.approx(expected.item(), abs=1e-6)
    assert loss.per_step.shape == (1,)
    right = logits.argmax(-1)[inside] == batch["clean"][inside]
    assert loss.accuracy[0] == pytest.approx(float(right.float().mean()), abs=1e-6)


def test_label_smoothing_mixes_in_the_uniform_distribution(network: Transformer, batch):
    inside = batch["inside"]
    log_f = network.logits(network(batch["corrupted"], inside=inside))[inside].log_softmax(-1)
    true = log_f.gather(1, batch["clean"][inside][:, None]).mean()
    expected = -(0.9 * true + 0.1 * log_f.mean())
    loss = loss_of(network, batch, steps=1, judge=plain_judge(network.logits, label_smoothing=0.1))
    assert loss.total.item() == pytest.approx(expected.item(), abs=1e-6)


@pytest.mark.parametrize("steps", [1, 2, 3, 5])
def test_total_is_the_mean_of_the_steps(network: Transformer, batch, steps: int):
    passes = []
    hook = network.register_forward_hook(lambda *_: passes.append(1))
    loss = loss_of(network, batch, steps=steps)
    hook.remove()
    assert len(passes) == steps
    assert loss.per_step.shape == loss.accuracy.shape == (steps,)
    assert loss.total.item() == pytest.approx(float(loss.per_step.mean()), abs=1e-6)


def test_weights_of_the_steps(network: Transformer, batch):
    loss = loss_of(network, batch, steps=2, weights=[1.0, 3.0])
    assert loss.total.item() == pytest.approx(float((loss.per_step * torch.tensor([0.25, 0.75])).sum()), abs=1e-6)


def test_more_steps_repeat_the_first_ones(network: Transformer, batch):
    assert torch.equal(loss_of(network, batch, steps=4).per_step[:2], loss_of(network, batch, steps=2).per_step)


def test_second_step_sees_a_sample_of_the_first(network: Transformer, batch):
    inputs = []
    hook = network.register_forward_pre_hook(lambda _, args: inputs.append(args[0]))
    loss_of(network, batch, steps=2)
    loss_of(network, batch, steps=2, judge=plain_judge(network.logits, temperature=0.0))
    hook.remove()
    inside, outside = batch["inside"], ~batch["inside"]
    logits = network.logits(network(batch["corrupted"], inside=inside))
    assert torch.equal(inputs[0], batch["corrupted"])
    assert torch.equal(inputs[1][outside], batch["corrupted"][outside])
    assert not torch.equal(inputs[1][inside], logits.argmax(-1)[inside])
    assert torch.equal(inputs[3][inside], logits.argmax(-1)[inside])  # the argmax option


def test_no_gradient_flows_through_samples(network: Transformer, batch):
    # The gradient of L^(1:2) is that of two plain losses whose inputs are constants.
    inputs = []
    hook = network.register_forward_pre_hook(lambda _, args: inputs.append(args[0]))
    network.zero_grad()
    loss_of(network, batch, steps=2).total.backward()
    hook.remove()
    unrolled = {name: weight.grad.clone() for name, weight in network.named_parameters() if weight.grad is not None}
    network.zero_grad()
    inside = batch["inside"]
    for x in inputs:
        logits = network.logits(network(x.clone(), inside=inside))
        (F.cross_entropy(logits[inside], batch["clean"][inside]) / 2).backward()
    assert all(not x.requires_grad for x in inputs)
    for name, weight in network.named_parameters():
        assert weight.grad is not None
        assert torch.allclose(unrolled[name], weight.grad, atol=1e-6), name


def test_tokens_beyond_the_canvas_change_nothing(network: Transformer, batch):
    other = dict(batch)
    for key in ("clean", "corrupted"):
        other[key] = torch.where(batch["inside"], batch[key], (batch[key] + 5) % 11)
    assert torch.allclose(loss_of(network, batch).per_step, loss_of(network, other).per_step, atol=1e-6)


def test_pads_inside_the_canvas_are_in_the_loss(network: Transformer, batch):
    padded = dict(batch, clean=batch["clean"].clone())
    padded["clean"][:, 2:] = 0
    inside = batch["inside"]
    log_f = network.logits(network(batch["corrupted"], inside=inside)).log_softmax(-1)
    expected = -log_f.gather(2, padded["clean"][..., None]).squeeze(2)[inside].mean()
    assert loss_of(network, padded, steps=1).total.item() == pytest.approx(expected.item(), abs=1e-5)


def test_unroll_noise_belongs_to_its_sample_and_step(network: Transformer, batch):
    # A judge that records the uniform numbers it is given.
    given: list[torch.Tensor] = []

    def recording(hidden, clean, uniform):
        if uniform is not None:
            given.append(uniform)
        return plain_judge(network.logits)(hidden, clean, uniform)

    loss_of(network, batch, steps=3, judge=recording)
    assert not torch.equal(given[0], given[1])
    assert len(given[0].unique()) == len(given[0])
    one = {key: value[1:2] for key, value in batch.items()}
    before = given[0][batch["inside"][0].sum() :][: batch["inside"][1].sum()]
    given.clear()
    unrolled_loss(
        lambda x: network(x, inside=one["inside"]),
        **one,
        judge=recording,
        noise=Noise(1),
        samples=SAMPLES[1:2],
        steps=2,
    )
    assert torch.equal(given[0], before)


def test_weights_must_be_one_for_each_step(network: Transformer, batch):
    with pytest.raises(AssertionError, match="one weight for each step"):
        loss_of(network, batch, steps=2, weights=[3.0])


def test_each_pass_has_fresh_dropout(batch):
    network = build(dropout=0.3).train()
    hidden = []
    hook = network.register_forward_hook(lambda _, __, out: hidden.append(out))
    same = plain_judge(
        lambda h: 50 * F.one_hot(batch["corrupted"][batch["inside"]], 11).float() + 0 * network.logits(h)
    )
    loss_of(network, batch, steps=2, judge=same)  # the sample equals the input, so only dropout can differ
    hook.remove()
    assert not torch.equal(hidden[0], hidden[1])


def test_loss_is_an_upper_bound_on_the_chain_s_negative_log_likelihood():
    # App. A.1: L^(2) estimated by `unrolled_loss` from 4,000 samples for each text, -log p_2 exact from the transition
    # matrix.  4 standard errors: false-alarm rate under 3e-4 for the nine texts together.
    network = build(vocabulary_size=3, canvas=2, seed=3)
    transition = transition_matrix(network)
    two_steps = transition @ transition
    gaps = []
    for clean in range(len(SPACE)):
        estimate = 2 * float(estimated(network, clean=clean, corrupted=7).per_step[1])
        cost = -transition[:, clean].log()
        exact = float((transition[7] * cost).sum())
        error = math.sqrt(float((transition[7] * (cost - exact) ** 2).sum()) / 4000)
        bound = -float(two_steps[7, clean].log())
        assert estimate >= bound - 4 * error
        gaps.append(estimate - bound)
    assert max(gaps) > 0.01, "somewhere the inequality is strict"


def estimated(network: Transformer, *, clean: int, corrupted: int) -> UnrolledLoss:
    with torch.no_grad():
        return unrolled_loss(
            network,
            clean=SPACE[clean].expand(4000, 2),
            corrupted=SPACE[corrupted].expand(4000, 2),
            inside=torch.ones(4000, 2, dtype=torch.bool),
            judge=plain_judge(network.logits),
            noise=Noise(4),
            samples=torch.arange(4000),
        )


def test_unrolled_loss_estimates_its_expectation():
    # Eq. 3: the mean over many samples of L^(2) approaches the exact expectation under the transition matrix.
    network = build(vocabulary_size=3, canvas=2, seed=3)
    transition = transition_matrix(network)
    loss = estimated(network, clean=5, corrupted=7)
    cost = -transition[:, 5].log()
    exact = float((transition[7] * cost).sum())
    deviation = math.sqrt(float((transition[7] * (cost - exact) ** 2).sum()) / 4000)
    # 4 standard errors of a mean of 4,000: false-alarm rate 6e-5.
    assert 2 * float(loss.per_step[1]) == pytest.approx(exact, abs=4 * deviation)


def test_likelihood_bound_holds_for_the_exact_chain():
    # App. A.2: log p_T(x) >= -KL(q || p_0) - L^(T), with p_T, q and L^(T) summed over all texts.
    network = build(vocabulary_size=3, canvas=2, seed=3)
    transition = transition_matrix(network)
    marginal = exact_chain(network, steps=2)
    rate = (torch.arange(20_000, dtype=torch.float64) + 0.5) / 20_000
    for clean in range(len(SPACE)):
        kept = (SPACE[clean] == SPACE).sum(1)
        q = torch.stack([((1 - rate + rate / 3) ** k * (rate / 3) ** (2 - k)).mean() for k in kept.tolist()])
        unrolled = -(q @ transition * transition[:, clean].log()).sum()
        bound = likelihood_bound(float(unrolled) / 2, length=2, vocabulary_size=3)
        assert bound <= float(marginal[clean].log()) + 1e-6
        divergence = float((q * (q.log() + 2 * math.log(3))).sum())
        assert bound == pytest.approx(-divergence - float(unrolled), abs=1e-6)
