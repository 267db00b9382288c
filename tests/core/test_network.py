from typing import cast

import pytest
import torch
from torch import nn

from networks import build
from sundae.core.network import Ask, Attention, Block, KeysValues, Memory, Transformer, as_denoiser, initialise


def close(a: torch.Tensor, b: torch.Tensor) -> bool:
    return torch.allclose(a, b, rtol=1e-5, atol=1e-5)


def random_tokens(*shape: int, vocabulary_size: int = 11, seed: int = 0) -> torch.Tensor:
    return torch.randint(vocabulary_size, shape, generator=torch.Generator().manual_seed(seed))


def remembered(translator: Transformer, source: torch.Tensor, inside: torch.Tensor, half: torch.Tensor) -> Memory:
    return translator.remember(translator.encode(source, inside=inside), inside=inside, half=half)


def test_every_position_sees_every_other(network: Transformer):
    # No causal mask: changing any one token changes the hidden state at every position, before it and after it.
    text = random_tokens(1, 8)
    before = network(text)
    for position in range(8):
        changed = text.clone()
        changed[0, position] = (text[0, position] + 1) % 11
        assert ((network(changed) - before).abs().amax(-1) > 1e-6).all()


def test_prediction_is_factorised_given_the_input(network: Transformer):
    # Eq. 2: one forward pass gives N independent distributions over v tokens.
    logits = network.logits(network(random_tokens(3, 8)))
    assert logits.shape == (3, 8, 11)


@pytest.mark.parametrize("extra", [1, 4])
def test_width_beyond_the_canvas_changes_nothing(network: Transformer, extra: int):
    text = random_tokens(2, 8)
    beyond = random_tokens(2, extra, seed=1)
    inside = torch.arange(8 + extra).expand(2, -1) < 8
    padded = network(torch.cat([text, beyond], 1), inside=inside)
    assert close(padded[:, :8], network(text))
    other = network(torch.cat([text, (beyond + 3) % 11], 1), inside=inside)
    assert close(padded[:, :8], other[:, :8])


def test_a_batch_equals_its_rows(translator: Transformer):
    source, text = random_tokens(3, 9), random_tokens(3, 10, seed=1)
    source_length, canvas = torch.tensor([9, 4, 1]), torch.tensor([3, 10, 6])
    source_inside = torch.arange(9) < source_length[:, None]
    inside = torch.arange(10) < canvas[:, None]
    half = torch.tensor([1, 5, 3])
    together = translator(text, inside=inside, memory=remembered(translator, source, source_inside, half))
    for i in range(3):
        n, m = int(canvas[i]), int(source_length[i])
        memory = remembered(translator, source[i : i + 1, :m], source_inside[i : i + 1, :m], half[i : i + 1])
        assert close(together[i, :n], translator(text[i : i + 1, :n], memory=memory)[0])


def test_memory_slot_zero_is_the_length(translator: Transformer):
    source, inside = random_tokens(2, 5), torch.ones(2, 5, dtype=torch.bool)
    short, long = (remembered(translator, source, inside, torch.tensor([n, n])) for n in (1, 6))
    for one, other in zip(short, long, strict=True):
        assert one.visible is not None
        assert one.visible.shape == (2, 6)
        assert one.visible[:, 0].all()
        assert not torch.allclose(one.keys[:, :, 0], other.keys[:, :, 0])
        assert torch.equal(one.keys[:, :, 1:], other.keys[:, :, 1:])


def test_the_decoder_depends_on_every_source_token_and_on_the_length(translator: Transformer):
    source, inside, text = random_tokens(1, 5), torch.ones(1, 5, dtype=torch.bool), random_tokens(1, 7, seed=1)
    usual = translator(text, memory=remembered(translator, source, inside, torch.tensor([3])))
    for position in range(5):
        other = source.clone()
        other[0, position] = (source[0, position] + 1) % 11
        changed = translator(text, memory=remembered(translator, other, inside, torch.tensor([3])))
        assert (changed - usual).abs().max() > 1e-6
    longer = translator(text, memory=remembered(translator, source, inside, torch.tensor([4])))
    assert (longer - usual).abs().max() > 1e-6


def test_pads_inside_the_canvas_are_seen(network: Transformer):
    text = random_tokens(1, 8)
    padded = text.clone()
    padded[0, 6:] = 0
    assert ((network(padded) - network(text))[0, :6].abs().amax(-1) > 1e-6).all()


def test_a_translating_network_needs_a_source_and_others_have_none(network: Transformer, translator: Transformer):
    source, inside = random_tokens(1, 5), torch.ones(1, 5, dtype=torch.bool)
    with pytest.raises(AssertionError, match="needs a source"):
        translator(source)
    with pytest.raises(AssertionError, match="others have none"):
        network(source, memory=remembered(translator, source, inside, torch.tensor([3])))


def test_without_length_prediction_memory_is_the_source_alone():
    plain = build(encoder_layers=1, length_prediction=False)
    source, inside = random_tokens(2, 5), torch.ones(2, 5, dtype=torch.bool)
    memory = plain.remember(plain.encode(source, inside=inside), inside=inside)
    assert memory[0].keys.shape[2] == 5


def test_a_length_beyond_the_last_class_takes_the_last_slot(translator: Transformer):
    source, inside = random_tokens(1, 5), torch.ones(1, 5, dtype=torch.bool)
    last, beyond = (remembered(translator, source, inside, torch.tensor([n])) for n in (6, 50))
    assert torch.equal(last[0].keys, beyond[0].keys)


def test_source_keys_are_computed_once_for_all_steps_and_candidates(translator: Transformer):
    calls = []
    projection = translator.get_submodule("decoder.0.cross_attention.key_value")
    hook = projection.register_forward_hook(lambda *_: calls.append(1))
    source, inside = random_tokens(2, 5), torch.ones(2, 5, dtype=torch.bool)
    memory = remembered(translator, source, inside, torch.tensor([3, 4]))
    denoiser = as_denoiser(translator, memory=memory, sources=torch.tensor([0, 0, 0, 1, 1, 1]))
    everywhere = torch.ones(6, 7, dtype=torch.bool)
    for step in range(4):
        denoiser(Ask(random_tokens(6, 7, seed=step), torch.arange(6), everywhere, everywhere))
    hook.remove()
    assert len(calls) == 1


def test_a_denoiser_gives_each_row_its_own_source(translator: Transformer):
    source, inside = random_tokens(2, 5), torch.ones(2, 5, dtype=torch.bool)
    half = torch.tensor([3, 4])
    memory = remembered(translator, source, inside, half)
    text, everywhere = random_tokens(3, 7), torch.ones(3, 7, dtype=torch.bool)
    rows = torch.tensor([3, 0, 2])  # three of four chains, of sources 1, 0 and 1
    answer = as_denoiser(translator, memory=memory, sources=torch.tensor([0, 0, 1, 1]))(
        Ask(text, rows, everywhere, everywhere)
    )
    for i, own in enumerate((1, 0, 1)):
        alone = translator(text[i : i + 1], memory=tuple(layer.select(torch.tensor([own])) for layer in memory))
        assert close(answer.hidden[i], alone[0])
    one_to_one = as_denoiser(translator, memory=memory)(Ask(text[:2], torch.tensor([1, 0]), *[everywhere[:2]] * 2))
    assert close(one_to_one.hidden[:1], answer.hidden[:1])


def test_logits_come_only_where_they_are_asked_for(network: Transformer):
    text = random_tokens(2, 8)
    inside = torch.ones(2, 8, dtype=torch.bool)
    inside[1, 6:] = False
    where = torch.zeros(2, 8, dtype=torch.bool)
    where[0, 3] = where[1, 0] = where[1, 5] = True
    answer = as_denoiser(network)(Ask(text, torch.arange(2), inside, where))
    full = network.logits(network(text, inside=inside))
    assert close(answer.logits, full[where])


def test_a_denoiser_refuses_a_network_in_training_mode():
    network = build().train()
    everywhere = torch.ones(1, 4, dtype=torch.bool)
    with pytest.raises(AssertionError, match="eval"):
        as_denoiser(network)(Ask(random_tokens(1, 4), torch.arange(1), everywhere, everywhere))


def test_one_embedding_serves_source_target_and_output(translator: Transformer):
    big = [name for name, weight in translator.named_parameters() if weight.shape[0] == 11]
    assert big == ["embedding.weight"]


def test_inputs_but_not_logits_are_scaled_by_the_root_of_the_width():
    text = random_tokens(2, 8)
    inside = torch.ones_like(text, dtype=torch.bool)

    def what_enters(translator: Transformer) -> list[torch.Tensor]:
        seen: list[torch.Tensor] = []
        for stack in (translator.encoder, translator.decoder):
            next(iter(stack.children())).register_forward_pre_hook(lambda _, x: seen.append(x[0]))
        translator(text, memory=remembered(translator, text, inside, torch.tensor([3, 3])))
        return seen

    scaled, plain = build(encoder_layers=1, scale_embedding=True), build(encoder_layers=1)
    for large, small in zip(what_enters(scaled), what_enters(plain), strict=True):
        assert close(large, 4 * small)
    assert torch.equal(scaled.logits(torch.ones(16)), plain.logits(torch.ones(16)))


def first_attention(network: Transformer) -> Attention:
    return cast(Block, network.decoder[0]).attention


def test_rotary_attention_knows_distances_and_not_places():
    # Without learned positions a text says the same wherever it begins, and something else if its words trade places.
    rotary, plain = build(rotary=True), build()
    attention = first_attention(rotary)
    x = torch.randn(1, 6, 16, generator=torch.Generator().manual_seed(0))

    def mixed(attention: Attention, x: torch.Tensor, *, begin: int = 0, keys_begin: int | None = None) -> torch.Tensor:
        keys_begin = begin if keys_begin is None else keys_begin
        return attention(x, seen=attention.look_at(x, visible=None, begin=keys_begin), begin=begin)

    assert close(mixed(attention, x), mixed(attention, x, begin=5))
    assert not close(mixed(attention, x), mixed(attention, x, begin=5, keys_begin=4))
    swapped = x[:, [1, 0, 2, 3, 4, 5]]
    assert not close(mixed(attention, x)[0, 5], mixed(attention, swapped)[0, 5])
    without = first_attention(plain)
    assert close(mixed(without, x)[0, 5], mixed(without, swapped)[0, 5])


def test_a_turn_keeps_lengths_and_the_first_position():
    network = build(rotary=True, canvas=40)
    turns = cast(torch.Tensor, first_attention(network).turns)[:, :40]
    assert torch.equal(turns[0, 0], torch.ones(8))
    assert torch.equal(turns[1, 0].abs(), torch.zeros(8))
    assert torch.allclose(turns.square().sum(0), torch.ones(40, 8))
    assert network.state_dict().keys() == build().state_dict().keys()


@pytest.mark.parametrize(("module", "root"), [(nn.Linear(64, 300), 8), (nn.Embedding(300, 64), 8)])
def test_weights_start_at_one_over_the_root_of_what_comes_in(module: nn.Module, root: int):
    torch.manual_seed(0)
    initialise(module)
    weight = cast(torch.Tensor, module.weight)
    assert abs(float(weight.detach().std()) * root - 1) < 0.03  # six standard errors of 19,200 numbers
    assert all(not bias.any() for name, bias in module.named_parameters() if name == "bias")


def test_dropout_differs_between_passes_and_is_off_in_evaluation():
    network = build(dropout=0.5)
    text = random_tokens(1, 8)
    assert torch.equal(network(text), network(text))
    network.train()
    assert not torch.equal(network(text), network(text))


def test_a_source_s_keys_are_selected_only_when_the_rows_change(translator: Transformer, monkeypatch):
    source = torch.tensor([[1, 2, 3], [4, 5, 0]])
    source_inside = source > 0
    with torch.no_grad():
        encodings = translator.encode(source, inside=source_inside)
        memory = translator.remember(encodings, inside=source_inside, half=torch.tensor([2, 3]))
    selected: list[list[int]] = []
    plain = KeysValues.select

    def counted(self: KeysValues, rows: torch.Tensor) -> KeysValues:
        selected.append(rows.tolist())
        return plain(self, rows)

    monkeypatch.setattr(KeysValues, "select", counted)
    denoiser = as_denoiser(translator, memory=memory, sources=torch.tensor([0, 0, 1]))
    tokens = torch.randint(0, 11, (3, 6), generator=torch.Generator().manual_seed(0))
    everywhere = torch.ones(3, 6, dtype=torch.bool)
    ask = Ask(tokens, torch.arange(3), everywhere, everywhere)
    first = denoiser(ask).logits
    assert torch.equal(denoiser(ask).logits, first)
    assert selected == [[0, 0, 1]] * len(memory)
    fewer = torch.tensor([2, 0])
    some = denoiser(Ask(tokens[fewer], fewer, everywhere[fewer], everywhere[fewer])).logits
    assert torch.allclose(some.view(2, 6, -1), first.view(3, 6, -1)[fewer], atol=1e-5)
    assert selected[len(memory) :] == [[1, 0]] * len(memory)
