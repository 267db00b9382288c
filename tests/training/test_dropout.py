import pytest
import torch
from torch import nn

from sundae.config import NetworkConfig
from sundae.core.network import Transformer
from sundae.training.dropout import BulkDropout, draw_in_bulk


@pytest.mark.parametrize("rate", [0.1, 0.3, 0.75])
def test_the_rate_is_kept_and_the_mean_too(rate: float):
    torch.manual_seed(0)
    count = 400_000
    y = BulkDropout(rate).train()(torch.ones(count))
    # Five standard deviations: a false alarm in two million.
    assert abs(float((y == 0).float().mean()) - rate) < 5 * (rate * (1 - rate) / count) ** 0.5
    assert y[y != 0].unique().tolist() == pytest.approx([1 / (1 - rate)], rel=1e-4)


def test_neighbours_are_dropped_independently():
    torch.manual_seed(1)
    dropped = (BulkDropout(0.5).train()(torch.ones(100_000, 4)) == 0).float()
    together = torch.corrcoef(dropped.T) - torch.eye(4)
    assert float(together.abs().max()) < 5 / 100_000**0.5


def test_the_gradient_has_the_same_holes():
    torch.manual_seed(2)
    x = torch.randn(7, 9, requires_grad=True)
    y = BulkDropout(0.4).train()(x)
    y.sum().backward()
    assert x.grad is not None
    assert torch.allclose(x.grad, (y / x).detach())


def test_nothing_happens_outside_training_or_at_rate_0():
    x = torch.randn(5, 3)
    assert BulkDropout(0.5).eval()(x) is x
    assert BulkDropout(0.0).train()(x) is x


def test_every_dropout_of_a_network_is_replaced_and_its_weights_are_the_same():
    network = Transformer(NetworkConfig(vocabulary_size=20, canvas=8, width=16, hidden=32, heads=2, dropout=0.2))
    names = list(network.state_dict())
    before = sum(isinstance(module, nn.Dropout) for module in network.modules())
    draw_in_bulk(network)
    bulk = [module for module in network.modules() if isinstance(module, BulkDropout)]
    assert len(bulk) == before > 1
    assert {module.rate for module in bulk} == {0.2}
    assert not any(isinstance(module, nn.Dropout) for module in network.modules())
    assert list(network.state_dict()) == names
