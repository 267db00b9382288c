import torch

from networks import build
from sundae.config import SamplingConfig
from sundae.core.network import Ask, as_denoiser
from sundae.decoding.canvas import Canvas, last_of, run_canvas
from sundae.decoding.reuse import Reusing


def counting(denoiser, asked: list[Ask]):
    def answer(ask: Ask):
        asked.append(ask)
        return denoiser(ask)

    return answer


def states_with(reuse: bool, sampling: SamplingConfig, *, rows: int = 12):
    network = build(seed=3)
    asked: list[Ask] = []
    denoiser = counting(as_denoiser(network), asked)
    if reuse:
        denoiser = Reusing(denoiser, head=network.logits, rows=rows)
    canvas = Canvas.empty(12, rows=rows)
    state = last_of(run_canvas(denoiser, canvas, sampling=sampling, vocabulary_size=11, seed=1))
    return state, sum(len(ask.rows) for ask in asked), denoiser


def test_unchanged_rows_are_not_computed_again_and_nothing_else_differs():
    sampling = SamplingConfig(steps=60, temperature=0.2, schedule="share", share=0.2, stop_early=False)
    plain, all_rows, _ = states_with(False, sampling)
    reused, some_rows, denoiser = states_with(True, sampling)
    assert torch.equal(plain.tokens, reused.tokens)
    assert some_rows < 0.7 * all_rows
    assert isinstance(denoiser, Reusing)
    assert int(denoiser.calls.sum()) == some_rows
    assert denoiser.network_calls <= plain.network_calls


def test_a_changed_row_is_computed_again():
    sampling = SamplingConfig(steps=20, temperature=3.0, stop_early=False)  # everything changes at every step
    plain, all_rows, _ = states_with(False, sampling)
    reused, some_rows, _ = states_with(True, sampling)
    assert torch.equal(plain.tokens, reused.tokens)
    assert some_rows == all_rows


def test_rows_of_an_ask_may_be_missing_and_come_back():
    network = build(seed=3)
    plain = as_denoiser(network)
    reusing = Reusing(plain, head=network.logits, rows=4)
    tokens = torch.arange(48).view(4, 12) % 11
    inside = torch.ones(4, 12, dtype=torch.bool)
    for rows in ([0, 1, 2, 3], [1, 3], [0, 2], [3, 0, 1]):
        where = torch.rand(len(rows), 12, generator=torch.Generator().manual_seed(sum(rows))) < 0.4
        if rows == [0, 2]:
            tokens = tokens.clone()
            tokens[2] = (tokens[2] + 1) % 11
        ask = Ask(tokens[rows], torch.tensor(rows), inside[rows], where)
        assert torch.allclose(reusing(ask).logits, plain(ask).logits, atol=1e-5)
    assert reusing.calls.tolist() == [1, 1, 2, 1]
