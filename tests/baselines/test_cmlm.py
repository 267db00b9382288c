import pytest
import torch

from baselines.small import masked
from core.chisquare import assert_frequencies
from sundae.baselines.cmlm import MaskedLoss, MaskPredict, choose_masked
from sundae.config import ObjectiveConfig
from sundae.core.network import Ask, Prediction
from sundae.core.noise import Noise
from sundae.core.sampling import run_chain, unfold_chain
from sundae.training.batches import Batch

MASK = 11


def some_batch(seed: int = 0) -> Batch:
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.tensor([3, 6, 1])
    inside = torch.arange(6) < lengths[:, None]
    clean = torch.randint(1, 11, (3, 6), generator=generator) * inside
    source = torch.randint(1, 11, (3, 5), generator=generator)
    return Batch(clean, inside, torch.arange(3), source, torch.ones_like(source, dtype=torch.bool))


def test_every_number_of_masks_is_equally_likely():
    """Chi-square over 1 .. 6 of 6 positions, 6,000 rows; false alarm 1e-4 for another seed, none for this one."""
    inside = torch.ones(6000, 6, dtype=torch.bool)
    chosen = choose_masked(inside, noise=Noise(2), samples=torch.arange(6000))
    counts = torch.bincount(chosen.sum(1), minlength=7)
    assert counts[0] == 0
    assert_frequencies(counts[1:], [1000] * 6)
    assert_frequencies(chosen.sum(0), [3500] * 6)


def test_masks_stay_inside_and_every_row_has_one():
    batch = some_batch()
    for seed in range(50):
        chosen = choose_masked(batch.inside, noise=Noise(seed), samples=batch.samples)
        assert not (chosen & ~batch.inside).any()
        assert chosen.any(1).all()


def test_only_masked_tokens_are_in_the_loss_and_only_they_are_hidden():
    network = masked()
    batch, noise = some_batch(), Noise(4)
    chosen = choose_masked(batch.inside, noise=noise, samples=batch.samples)
    loss = MaskedLoss(network, ObjectiveConfig(length_weight=0.0))
    with torch.no_grad():
        assert batch.source is not None
        assert batch.source_inside is not None
        encodings = network.encode(batch.source, inside=batch.source_inside)
        memory = network.remember(encodings, inside=batch.source_inside)
        shown = batch.clean.masked_fill(chosen, network.mask)
        logp = network.logits(network(shown, inside=batch.inside, memory=memory)).log_softmax(-1)
        expected = -logp.gather(2, batch.clean[..., None]).squeeze(2)[chosen].mean()
        assert float(loss(batch, noise).total) == pytest.approx(float(expected), rel=1e-5)


def test_the_length_predictor_starts_as_that_of_sundae_does():
    spread = float(masked().length_predictor.source_length.weight.detach().std())
    assert spread < 0.5  # nn.Embedding's own start is 1


def test_the_length_loss_does_not_train_the_encoder():
    network = masked()
    losses = MaskedLoss(network, ObjectiveConfig(length_weight=1.0))(some_batch(), Noise(1))
    losses.total.backward()
    with_length = network.embedding.weight.grad.clone()  # pyright: ignore[reportOptionalMemberAccess]
    network.zero_grad()
    MaskedLoss(network, ObjectiveConfig(length_weight=0.0))(some_batch(), Noise(1)).total.backward()
    assert torch.allclose(with_length, network.embedding.weight.grad)  # pyright: ignore[reportArgumentType]


def recording(asked: list[Ask]):
    """A denoiser whose certainty grows from left to right, and which answers with the position's number."""

    def answer(ask: Ask) -> Prediction:
        asked.append(ask)
        positions = ask.where.nonzero()[:, 1]
        logits = torch.zeros(len(positions), MASK)
        logits[torch.arange(len(positions)), positions % MASK] = 1.0 + positions
        return Prediction(torch.zeros(*ask.tokens.shape, 1), logits)

    return answer


@pytest.mark.parametrize(
    ("length", "steps", "counts"),
    [(8, 4, [8, 6, 4, 2]), (5, 10, [5, 4, 4, 3, 3, 2, 2, 1, 1]), (3, 1, [3]), (10, 3, [10, 6, 3])],
)
def test_mask_predict_masks_n_times_what_is_left_of_the_steps(length, steps, counts):
    """n (T - t) / T with t from 0, rounded down as in the published code; a step that masks nothing asks nothing."""
    asked: list[Ask] = []
    inside = torch.ones(1, length, dtype=torch.bool)
    chain = unfold_chain(
        torch.full((1, length), MASK),
        rule=MaskPredict(MASK),
        steps=steps,
        noise=Noise(0),
        samples=torch.tensor([0]),
        inside=inside,
        editable=inside,
    )
    *_, state = run_chain(recording(asked), chain)
    assert [int((ask.tokens == MASK).sum()) for ask in asked] == counts
    assert state.network_calls == len(counts)
    for ask, count in zip(asked, counts, strict=True):
        # The surest stand to the right, so the leftmost are masked again, and only they are asked for.
        assert (ask.tokens == MASK)[0].tolist() == [place < count for place in range(length)]
        assert torch.equal(ask.where, ask.tokens == MASK)
    assert state.tokens[0].tolist() == list(range(length))


def test_a_row_of_another_length_changes_nothing():
    network = masked(seed=2)
    source = torch.tensor([[1, 2, 3, 4, 5], [6, 7, 8, 0, 0]])
    inside = torch.arange(5) < torch.tensor([5, 3])[:, None]
    lengths = torch.tensor([7, 4])
    from sundae.core.network import as_denoiser

    with torch.no_grad():
        memory = network.remember(network.encode(source, inside=inside), inside=inside)

    def run(rows: list[int]) -> list[list[int]]:
        canvas = torch.arange(int(lengths[rows].max())) < lengths[rows][:, None]
        chain = unfold_chain(
            torch.full(canvas.shape, network.mask),
            rule=MaskPredict(network.mask),
            steps=4,
            noise=Noise(0),
            samples=torch.tensor(rows),
            inside=canvas,
            editable=canvas,
        )
        *_, state = run_chain(as_denoiser(network, memory=memory, sources=torch.tensor(rows)), chain)
        return [tokens[: lengths[row]].tolist() for row, tokens in zip(rows, state.tokens, strict=True)]

    assert run([0, 1]) == run([0]) + run([1])
