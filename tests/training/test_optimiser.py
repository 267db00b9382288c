import pytest
import torch

from networks import build
from sundae.config import TrainingConfig
from sundae.presets import preset
from sundae.training.optimiser import MovingAverage, average, build_optimiser, learning_rate


def test_the_paper_s_schedule():
    config = preset("paper-wmt14-ende").training
    assert learning_rate(0, config) == pytest.approx(1e-7)
    assert learning_rate(2500, config) == pytest.approx(5e-5, rel=1e-2)
    assert learning_rate(5000, config) == pytest.approx(1e-4)
    assert learning_rate(502_500, config) == pytest.approx(5.5e-5, rel=1e-6)
    assert learning_rate(1_000_000, config) == pytest.approx(1e-5)


def test_the_rate_rises_and_then_falls():
    config = TrainingConfig(steps=300, warmup_steps=50)
    rates = [learning_rate(step, config) for step in range(301)]
    assert rates[:51] == sorted(rates[:51])
    assert rates[50:] == sorted(rates[50:], reverse=True)
    assert max(rates) == config.learning_rate


def test_no_warm_up_begins_at_the_top():
    assert learning_rate(1, TrainingConfig(steps=100, warmup_steps=0)) == pytest.approx(1e-3, rel=1e-2)


def test_weight_decay_is_on_matrices_only():
    network = build()
    decayed, free = build_optimiser(network, TrainingConfig(weight_decay=0.1)).param_groups
    assert decayed["weight_decay"] == 0.1
    assert free["weight_decay"] == 0.0
    assert all(weight.dim() >= 2 for weight in decayed["params"])
    assert all(weight.dim() == 1 for weight in free["params"])
    assert len(decayed["params"]) + len(free["params"]) == len(list(network.parameters()))


def test_moving_average_follows_its_formula():
    network = build()
    mean = MovingAverage(network, 0.9)
    expected = {name: weight.detach().clone() for name, weight in network.named_parameters()}
    for step in range(1, 30):
        decay = min(0.9, (1 + step) / (10 + step))
        with torch.no_grad():
            for name, weight in network.named_parameters():
                weight.add_(0.1)
                expected[name] = decay * expected[name] + (1 - decay) * weight
        mean.update(network, step)
    for name, weight in mean.weights.items():
        assert torch.allclose(weight, expected[name], atol=1e-5)


def test_average_of_checkpoints_is_their_mean():
    states = [{"w": torch.full((2,), float(value))} for value in (1, 2, 6)]
    assert average(states)["w"].tolist() == [3.0, 3.0]
