import torch
import torch.nn.functional as F

from sundae.config import NetworkConfig
from sundae.core.length import canvas_for, half_length, length_loss, likeliest_half_length, text_length
from sundae.core.network import Transformer


def test_a_text_ends_at_its_first_pad():
    text = torch.tensor([[3, 4, 0, 5], [0, 0, 0, 0], [1, 2, 3, 4]])
    assert text_length(text).tolist() == [2, 0, 4]


def test_half_length_rounds_up_and_is_never_zero():
    assert half_length(torch.tensor([0, 1, 2, 3, 4, 127, 128])).tolist() == [1, 1, 1, 2, 2, 64, 64]


def test_canvas_depends_on_the_half_length_alone_and_leaves_room():
    half = torch.arange(1, 65)
    for unit in (2, 8):
        canvas = canvas_for(half, NetworkConfig(canvas=1000, canvas_unit=unit))
        assert (canvas % unit == 0).all()
        assert (canvas >= 2 * half + unit // 2).all()
        assert (canvas < 2 * half + unit // 2 + unit).all()
    assert canvas_for(half, NetworkConfig(canvas=128)).max() == 128
    assert (canvas_for(half, NetworkConfig(canvas=37, length_prediction=False)) == 37).all()


def test_length_loss_gives_no_gradient_to_the_encoder(translator: Transformer):
    source, inside = torch.randint(11, (4, 7)), torch.ones(4, 7, dtype=torch.bool)
    logits = translator.length_predictor(translator.encode(source, inside=inside), inside=inside)
    translator.zero_grad()
    length_loss(logits, half=torch.tensor([1, 2, 3, 4])).backward()
    trained = {name.split(".")[0] for name, weight in translator.named_parameters() if weight.grad is not None}
    assert trained == {"length_predictor"}


def test_length_loss_is_the_cross_entropy_of_the_true_class():
    torch.manual_seed(0)
    logits = torch.randn(3, 6)
    loss = length_loss(logits, half=torch.tensor([1, 6, 99]))
    assert loss == F.cross_entropy(logits, torch.tensor([0, 5, 5]))


def test_likeliest_half_length_inverts_the_classes():
    logits = F.one_hot(torch.tensor([0, 5]), 6).float()
    assert likeliest_half_length(logits).tolist() == [1, 6]


def test_predictor_sees_the_source_length_but_nothing_beyond_the_source(translator: Transformer):
    encodings = torch.randn(1, 7, 16)
    inside = torch.arange(7)[None] < 4
    predict = translator.length_predictor
    changed = encodings.clone()
    changed[:, 4:] += 100
    assert torch.allclose(predict(encodings, inside=inside), predict(changed, inside=inside), atol=1e-5)
    assert not torch.allclose(predict(encodings, inside=inside), predict(encodings, inside=torch.arange(7)[None] < 5))


def test_predictor_sees_the_encodings_and_not_the_width(translator: Transformer):
    torch.manual_seed(0)
    encodings, inside = torch.randn(1, 5, 16), torch.ones(1, 5, dtype=torch.bool)
    predict = translator.length_predictor
    assert not torch.allclose(predict(encodings, inside=inside), predict(encodings + 1, inside=inside))
    wide = torch.cat([encodings, torch.zeros(1, 4, 16)], dim=1)
    mask = torch.arange(9)[None] < 5
    assert torch.allclose(predict(encodings, inside=inside), predict(wide, inside=mask), atol=1e-6)


def test_predictor_can_learn_a_length(translator: Transformer):
    # A fresh copy of the predictor learns l_d = ceil(l_source / 2) from the source length alone.
    from copy import deepcopy

    torch.manual_seed(0)
    predictor = deepcopy(translator.length_predictor).train()
    optimiser = torch.optim.Adam(predictor.parameters(), lr=1e-2)
    inside = torch.arange(9) < torch.arange(1, 10)[:, None]
    half = half_length(torch.arange(1, 10))
    for _ in range(60):
        optimiser.zero_grad()
        length_loss(predictor(torch.zeros(9, 9, 16), inside=inside), half=half).backward()
        optimiser.step()
    assert likeliest_half_length(predictor(torch.zeros(9, 9, 16), inside=inside)).tolist() == half.tolist()


def test_an_empty_source_is_legal(translator: Transformer):
    inside = torch.zeros(1, 3, dtype=torch.bool)
    encodings = translator.encode(torch.zeros(1, 3, dtype=torch.long), inside=inside)
    assert translator.length_predictor(encodings, inside=inside).isfinite().all()


def test_the_paper_has_six_blocks_and_64_classes():
    from sundae.core.length import ResidualBlock
    from sundae.presets import preset

    with torch.device("meta"):
        predictor = Transformer(preset("paper-wmt14-ende").network).length_predictor
    assert sum(isinstance(module, ResidualBlock) for module in predictor.modules()) == 6
    assert predictor.classify.out_features == 64
    assert predictor.project.out_features == 128
