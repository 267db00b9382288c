import pytest
import torch

from networks import build
from sundae.core.network import Ask, Prediction, as_denoiser
from sundae.decoding.leave_one_out import DRAWS, Seen, leave_one_out


def test_the_token_itself_is_not_seen_and_everything_else_is():
    asked: list[Ask] = []

    def flat(ask: Ask) -> Prediction:
        asked.append(ask)
        return Prediction(torch.zeros(*ask.tokens.shape, 1), torch.zeros(int(ask.where.sum()), 11))

    (found,) = leave_one_out([Seen([3, 4, 5, 0], 4, [0, 2])], denoiser=flat, vocabulary_size=11)
    (ask,) = asked
    assert ask.where.nonzero().tolist() == [[row, 0] for row in range(4)] + [[row, 2] for row in range(4, 8)]
    assert ask.tokens[:4, 1:].tolist() == [[4, 5, 0]] * 4
    assert ask.tokens[4:, [0, 1, 3]].tolist() == [[3, 4, 0]] * 4
    assert len(set(ask.tokens[:4, 0].tolist())) > 1
    # Neither the noise that was shown nor the end is offered, so each of 4 draws leaves 9 of 11 tokens; a draw that
    # showed a token says nothing about it.
    assert torch.allclose(found.own.exp(), torch.full((2,), 1 / 9))
    assert torch.allclose(found.log_probability.exp(), torch.full((2, 5), 1 / 9))
    assert 0 not in found.likeliest


def test_tokens_that_may_stand_at_one_place_ask_one_question():
    asked: list[Ask] = []
    denoiser = as_denoiser(build(seed=2))

    def counted(ask: Ask) -> Prediction:
        asked.append(ask)
        return denoiser(ask)

    canvases = [Seen([3, token, 5], 3, [1]) for token in range(1, 11)]
    found = leave_one_out(canvases, denoiser=counted, vocabulary_size=11)
    assert sum(len(ask.tokens) for ask in asked) == DRAWS
    # Each token's mean is over the draws that did not show it.
    (ask,) = asked
    probability = denoiser(ask).logits.float()
    probability[:, 0] = -torch.inf
    noise = ask.tokens[:, 1]
    probability.scatter_(1, noise[:, None], -torch.inf)
    probability = probability.softmax(-1)
    for token, judged in zip(range(1, 11), found, strict=True):
        assert float(judged.own.exp()) == pytest.approx(float(probability[noise != token, token].mean()), rel=1e-4)


def test_the_batch_changes_nothing_and_canvases_may_differ_in_width():
    denoiser = as_denoiser(build(seed=2))
    canvases = [Seen([1, 2, 3], 12, [0, 1, 2]), Seen([4, 5, 6, 7, 8], 5, [1, 4]), Seen([9], 1, [])] * 40
    together = leave_one_out(canvases, denoiser=denoiser, vocabulary_size=11)
    assert [len(each.own) for each in together] == [3, 2, 0] * 40
    for canvas, company in zip(canvases[:3], together[:3], strict=True):
        (alone,) = leave_one_out([canvas], denoiser=denoiser, vocabulary_size=11)
        assert torch.allclose(alone.own, company.own, atol=1e-5)
        assert torch.allclose(alone.log_probability, company.log_probability, atol=1e-5)
        assert torch.equal(alone.likeliest, company.likeliest)
        assert bool((alone.log_probability[:, :1] >= alone.own[:, None]).all())
