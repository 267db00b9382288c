from dataclasses import replace

import pytest
import torch

from baselines.small import settings
from sundae.baselines.autoregressive import BEGIN, Autoregressive
from sundae.baselines.shifted import ShiftedTransformer
from sundae.core.network import KeysValues, Memory

TOKENS = torch.randint(9, (3, 8), generator=torch.Generator().manual_seed(1))


def shifted(**changes: object) -> ShiftedTransformer:
    torch.manual_seed(0)
    given = {"encoder_layers": 1, "rotary": True, "shifted": True, **changes}
    return ShiftedTransformer(settings(**given)).eval()


def read(network: ShiftedTransformer | Autoregressive) -> Memory | None:
    if not network.config.translates:
        return None
    source = torch.arange(15).view(3, 5) % network.config.vocabulary_size
    inside = torch.arange(5) < torch.tensor([[2], [4], [5]])
    half = torch.tensor([4, 4, 4]) if network.config.length_prediction else None
    return network.remember(network.encode(source, inside=inside), inside=inside, half=half)


def without_slot(seen: KeysValues) -> KeysValues:
    assert seen.visible is not None
    visible = seen.visible.clone()
    visible[:, 0] = False
    return replace(seen, visible=visible)


@torch.no_grad()
@pytest.mark.parametrize("length_prediction", [False, True])
def test_a_twins_weights_fit_as_they_are(length_prediction):
    """One layer, the last token hidden: the slot that predicts it knows what the twin's does, and says the same."""
    ours = shifted(decoder_layers=1, length_prediction=length_prediction)
    twin = Autoregressive(settings(encoder_layers=1, rotary=True, decoder_layers=1)).eval()
    weights = {key: value for key, value in ours.state_dict().items() if key in twin.state_dict()}
    weights["positions.weight"] = torch.cat([weights["positions.weight"], torch.zeros(2, ours.config.width)])
    weights["marks.weight"] = ours.begin_row.expand(4, -1)
    twin.load_state_dict(weights)
    memory = read(ours)
    assert memory is not None
    if length_prediction:
        memory = tuple(without_slot(seen) for seen in memory)
    hidden_last = torch.arange(8).expand(3, 8) < 7
    begun = torch.cat([torch.full((3, 1), twin.mark(BEGIN)), TOKENS[:, :-1]], dim=1)
    expected = twin(begun, memory=read(twin))[:, -1]
    assert torch.allclose(ours(TOKENS, inside=hidden_last, memory=memory)[:, -1], expected, atol=1e-5)


@torch.no_grad()
@pytest.mark.parametrize("encoder_layers", [0, 1])
def test_every_slot_sees_every_token(encoder_layers):
    network = shifted(encoder_layers=encoder_layers)
    memory = read(network)
    before = network(TOKENS, memory=memory)
    assert before.shape == (3, 8, network.config.width)
    for place in range(8):
        changed = TOKENS.clone()
        changed[:, place] = (changed[:, place] + 1) % network.config.vocabulary_size
        assert ((before - network(changed, memory=memory)).abs().amax(-1) > 1e-5).all()


@torch.no_grad()
def test_what_is_beyond_the_canvas_is_not_seen():
    network = shifted()
    memory, inside = read(network), torch.arange(8).expand(3, 8) < 6
    changed = torch.where(inside, TOKENS, (TOKENS + 1) % network.config.vocabulary_size)
    before, after = (network(tokens, inside=inside, memory=memory)[:, :6] for tokens in (TOKENS, changed))
    assert torch.equal(before, after)


@torch.no_grad()
def test_a_text_may_fill_the_whole_canvas():
    network = shifted(canvas=8, source_positions=5)
    assert network(TOKENS, memory=read(network)).shape[:2] == (3, 8)
