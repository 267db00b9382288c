from dataclasses import replace

import pytest
import torch
from torch import nn

from networks import build
from sundae.config import TrainingConfig
from sundae.presets import preset
from sundae.training.optimiser import MovingAverage, Muon, average, build_optimiser, learning_rate, orthogonal


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


@pytest.mark.parametrize("shape", [(3, 16, 16), (2, 32, 16), (2, 16, 48)])
def test_orthogonal_keeps_the_singular_vectors_and_levels_the_values(shape: tuple[int, ...]):
    matrices = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    left, values, right = torch.linalg.svd(matrices, full_matrices=False)
    turned = orthogonal(matrices * 1e3)  # whatever their size
    inner = left.mT @ turned @ right.mT
    levelled = torch.diagonal(inner, dim1=-2, dim2=-1)
    # Values down to a hundredth of the largest are lifted to the band that Jordan et al. give.
    assert ((levelled > 0.6) & (levelled < 1.3))[values > values.amax() / 100].all()
    off_diagonal = inner - torch.diag_embed(levelled)
    assert off_diagonal.abs().max() < 1e-3


def _one_update(network: nn.Module, config: TrainingConfig) -> dict[str, torch.Tensor]:
    before = {name: weight.detach().clone() for name, weight in network.named_parameters()}
    generator = torch.Generator().manual_seed(1)
    for weight in network.parameters():
        weight.grad = torch.randn(weight.shape, generator=generator)
    optimiser = build_optimiser(network, config)
    optimiser.step()
    assert isinstance(optimiser, Muon) == (config.optimiser == "muon")
    return {name: weight.detach() - before[name] for name, weight in network.named_parameters()}


def test_muon_moves_matrices_inside_blocks_by_turned_gradients_and_all_else_as_adamw_does():
    config = TrainingConfig(learning_rate=1e-2, weight_decay=0.0)
    adam = _one_update(build(), config)
    muon = _one_update(build(), replace(config, optimiser="muon"))
    generator = torch.Generator().manual_seed(1)
    for name, weight in build().named_parameters():
        gradient = torch.randn(weight.shape, generator=generator)
        if name.startswith("decoder.") and weight.dim() == 2:
            expected = -1e-2 * 0.2 * max(weight.shape) ** 0.5 * orthogonal(gradient[None])[0]
            assert torch.allclose(muon[name], expected, atol=1e-6), name
            # As large as AdamW's usual updates: 0.2 of the rate for each number, on average.
            assert muon[name].square().mean().sqrt() == pytest.approx(0.2e-2, rel=0.35), name
        else:
            assert torch.equal(muon[name], adam[name]), name


def test_muon_decays_the_matrices_that_it_turns():
    network = build()
    kept = {name: weight.detach().clone() for name, weight in network.named_parameters()}
    optimiser = build_optimiser(network, TrainingConfig(optimiser="muon", learning_rate=0.1, weight_decay=0.5))
    for weight in network.parameters():
        weight.grad = torch.zeros_like(weight)
    optimiser.step()
    for name, weight in network.named_parameters():
        expected = kept[name] * (0.95 if weight.dim() >= 2 else 1.0)
        assert torch.allclose(weight.detach(), expected, atol=1e-6), name


def test_muon_remembers_what_it_did():
    """Nesterov's momentum: the second of two updates is not that of a fresh optimiser."""
    network, config = build(), TrainingConfig(optimiser="muon")
    optimiser = build_optimiser(network, config)
    weight = dict(network.named_parameters())["decoder.0.widen.weight"]
    generator = torch.Generator().manual_seed(2)
    before = ahead = momentum = torch.zeros_like(weight)
    for _ in range(2):
        weight.grad = torch.randn(weight.shape, generator=generator)
        momentum = momentum + 0.05 * (weight.grad - momentum)
        ahead, before = 0.05 * weight.grad + 0.95 * momentum, weight.detach().clone()
        optimiser.step()
    moved = (weight.detach() - before * (1 - config.learning_rate * config.weight_decay)) / config.learning_rate
    assert torch.allclose(moved, -0.2 * max(weight.shape) ** 0.5 * orthogonal(ahead[None])[0], atol=1e-3)
