import pytest
import torch
from torch import Tensor

import sundae.training.fused as fused
from sundae.core.noise import Noise
from sundae.core.objective import Judge, plain_judge
from sundae.training.fused import draw, fused_judge


def judged(judge: Judge, hidden: Tensor, weight: Tensor, clean: Tensor, uniform: Tensor):
    hidden.grad = weight.grad = None
    judgement = judge(hidden, clean, uniform)
    (3 * judgement.loss).backward()  # a factor, so that the chain rule is tested too
    assert hidden.grad is not None
    assert weight.grad is not None
    return judgement, hidden.grad.clone(), weight.grad.clone()


@pytest.fixture
def case() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    torch.manual_seed(0)
    hidden = torch.randn(300, 24).requires_grad_()
    weight = (torch.randn(777, 24) * 0.3).requires_grad_()
    return hidden, weight, torch.randint(777, (300,)), Noise(1).uniform(torch.arange(300))


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("temperature", [1.0, 0.5, 0.0])
@pytest.mark.parametrize("rows", [1, 7, 300, 5000])
def test_fused_equals_plain_in_value_gradient_and_sample(monkeypatch, case, smoothing, temperature, rows):
    weight = case[1]
    monkeypatch.setattr(fused, "SLICE_ELEMENTS", rows * len(weight))
    plain, *plain_gradients = judged(
        plain_judge(lambda h: h @ weight.t(), label_smoothing=smoothing, temperature=temperature), *case
    )
    ours, *our_gradients = judged(fused_judge(weight, label_smoothing=smoothing, temperature=temperature), *case)
    assert abs(float(plain.loss.detach()) - float(ours.loss.detach())) < 1e-5
    for expected, gradient in zip(plain_gradients, our_gradients, strict=True):
        assert (expected - gradient).abs().max() < 1e-5 * expected.abs().max()
    assert plain.sample is not None
    assert ours.sample is not None
    # One uniform number may fall between two roundings of the same border: at most one token in a thousand.
    assert (plain.sample != ours.sample).sum() <= 1
    assert plain.accuracy == pytest.approx(float(ours.accuracy), abs=1e-6)


def test_what_is_not_a_number_ends_in_the_loss(case):
    hidden, weight, clean, uniform = case
    with torch.no_grad():
        judgement = fused_judge(weight)(hidden * torch.nan, clean, uniform)
    assert judgement.loss.isnan()
    assert judgement.sample is not None
    assert (judgement.sample < len(weight)).all()


def test_no_sample_is_drawn_without_uniform_numbers(case):
    hidden, weight, clean, _ = case
    assert fused_judge(weight)(hidden, clean, None).sample is None


def test_nothing_is_kept_for_a_gradient_that_nobody_wants(case):
    hidden, weight, clean, uniform = case
    with torch.no_grad():
        judgement = fused_judge(weight)(hidden, clean, uniform)
    assert not judgement.loss.requires_grad


def test_a_weight_that_is_frozen_still_gives_the_hidden_gradient(case):
    hidden, weight, clean, _ = case
    frozen = weight.detach()
    fused_judge(frozen)(hidden, clean, None).loss.backward()
    plain = torch.autograd.grad(plain_judge(lambda h: h @ frozen.t())(hidden, clean, None).loss, hidden)[0]
    assert hidden.grad is not None
    assert torch.allclose(hidden.grad, plain, atol=1e-6)


@pytest.mark.parametrize("vocabulary_size", [1, 2, 97, 777, 1024])  # 97 is prime: every block is one token
def test_a_token_drawn_block_by_block_is_the_inverse_of_the_cumulative_distribution(vocabulary_size):
    generator = torch.Generator().manual_seed(0)
    odds = torch.rand(2000, vocabulary_size, generator=generator)
    odds *= torch.rand(odds.shape, generator=generator) < 0.3  # most tokens are impossible
    odds[:, vocabulary_size // 2] = 1.0
    uniform = torch.rand(2000, 1, generator=generator)
    uniform[0], uniform[1] = 0.0, 1 - 2**-24
    token, total = draw(odds, uniform)
    cumulative = odds.double().cumsum(1)
    assert torch.allclose(total.double(), cumulative[:, -1:])
    exact = torch.searchsorted(cumulative, uniform.double() * cumulative[:, -1:], right=True).squeeze(1)
    assert (token == exact).float().mean() > 0.999  # a number on the border of two tokens may be rounded
    assert (odds.gather(1, token[:, None]) > 0).all()
