import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from networks import build
from sundae.config import RunConfig
from sundae.core.network import Transformer
from sundae.errors import DataError, UsageError
from sundae.folder import FILES, model_card
from sundae.model import Sundae
from sundae.text.corpus import Corpus
from training.corpora import parallel_corpus, sentence_corpus, sentences


def model_of(corpus: Corpus, *, seed: int = 0, canvas: int = 24) -> Sundae:
    """An untrained model on a corpus' tokenizer: what it writes is nonsense, how it writes it is not."""
    changes = {
        "network": {
            "vocabulary_size": corpus.vocabulary_size,
            "canvas": canvas,
            "width": 16,
            "hidden": 32,
            "heads": 2,
            "decoder_layers": 1,
            "encoder_layers": int(corpus.kind == "parallel"),
        },
        "data": {"kind": corpus.kind},
        "sampling": {"steps": 6},
    }
    config = RunConfig().updated(changes)  # pyright: ignore[reportArgumentType]
    torch.manual_seed(seed)
    return Sundae(Transformer(config.network), corpus.tokenizer, config)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Sundae:
    return model_of(sentence_corpus(tmp_path_factory.mktemp("corpus")))


@pytest.fixture(scope="module")
def translator(tmp_path_factory: pytest.TempPathFactory) -> Sundae:
    return model_of(parallel_corpus(tmp_path_factory.mktemp("pairs")))


def test_a_saved_model_is_whole_and_writes_the_same(tmp_path: Path, model: Sundae):
    model.save_pretrained(tmp_path / "model")
    assert sorted(path.name for path in (tmp_path / "model").iterdir()) == sorted(FILES)
    back = Sundae.from_pretrained(tmp_path / "model")
    assert back.config == model.config
    assert back.generate(3, seed=5) == model.generate(3, seed=5)
    assert "SUNDAE" in (tmp_path / "model" / "README.md").read_text(encoding="utf-8")


def test_whoever_may_read_the_folder_may_read_its_files(tmp_path: Path, model: Sundae):
    model.save_pretrained(tmp_path / "model")
    assert len({path.stat().st_mode for path in (tmp_path / "model").iterdir()}) == 1


def test_the_card_says_how_each_kind_of_model_is_used(translator: Sundae, model: Sundae):
    assert "sundae translate" in model_card(translator.config)
    assert "sundae fill" in model_card(model.config)
    twin = replace(model.config, network=replace(model.config.network, kind="autoregressive"))
    assert "sundae" not in model_card(twin).split("Use:")[1].replace("`sundae.model`", "")


def test_half_precision_halves_the_file_and_loads_as_float32(tmp_path: Path, model: Sundae):
    model.save_pretrained(tmp_path / "full")
    model.save_pretrained(tmp_path / "half", dtype=torch.float16)
    sizes = [(tmp_path / name / "model.safetensors").stat().st_size for name in ("full", "half")]
    assert sizes[1] < 0.6 * sizes[0]
    assert Sundae.from_pretrained(tmp_path / "half").network.embedding.weight.dtype == torch.float32


def test_a_model_is_not_overwritten_by_accident(tmp_path: Path, model: Sundae):
    model.save_pretrained(tmp_path / "model")
    with pytest.raises(UsageError, match="exists"):
        model.save_pretrained(tmp_path / "model")
    model.save_pretrained(tmp_path / "model", force=True)
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


@pytest.mark.parametrize("name", [name for name in FILES if name != "README.md"])
@pytest.mark.parametrize("content", [None, b"", b"\x80\x04}q\x00.", b'{"a": [', b"null"])
def test_a_missing_or_hostile_file_is_a_clear_error(tmp_path: Path, model: Sundae, name: str, content: bytes | None):
    model.save_pretrained(tmp_path / "model")
    file = tmp_path / "model" / name
    file.unlink() if content is None else file.write_bytes(content)
    with pytest.raises((DataError, UsageError)):
        Sundae.from_pretrained(tmp_path / "model")


def test_weights_of_another_shape_are_refused(tmp_path: Path, model: Sundae):
    model.save_pretrained(tmp_path / "model")
    content = json.loads((tmp_path / "model" / "config.json").read_text())
    content["network"]["width"] = 32
    (tmp_path / "model" / "config.json").write_text(json.dumps(content))
    with pytest.raises(DataError, match="do not fit"):
        Sundae.from_pretrained(tmp_path / "model")


def test_a_tokenizer_of_another_size_is_refused(model: Sundae):
    other = model.config.updated({"network": {"vocabulary_size": 50}})
    with pytest.raises(DataError, match="the network was made for"):
        Sundae(build(vocabulary_size=50), model.tokenizer, other)


def test_a_model_that_is_nowhere_is_a_clear_error():
    with pytest.raises(DataError, match="there is no model"):
        Sundae.from_pretrained("nowhere")


def test_a_model_that_ships_is_found_by_its_name(tmp_path: Path, model: Sundae, monkeypatch, capsys):
    from sundae import folder
    from sundae.cli import main

    monkeypatch.setattr(folder, "SHIPPED", tmp_path)
    model.save_pretrained(tmp_path / "small", dtype=torch.float16)
    assert Sundae.from_pretrained("small").config == model.config
    assert main(["models"]) == 0
    assert capsys.readouterr().out.startswith("small ")
    assert main(["models", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["canvas"] == 24
    with pytest.raises(DataError, match="those that ship are small"):
        Sundae.from_pretrained("smal")


def test_a_hub_that_cannot_be_reached_is_a_clear_error(monkeypatch):
    hub = pytest.importorskip("huggingface_hub")

    def unreachable(*_, **__):
        raise OSError("Name or service not known")

    monkeypatch.setattr(hub, "snapshot_download", unreachable)
    with pytest.raises(
        DataError, match="no folder 'some/model': nor can it be got from the hub: Name or service not known"
    ):
        Sundae.from_pretrained("some/model")


# ---- generating


def test_a_text_depends_on_seed_and_number_not_on_the_batch(model: Sundae):
    together = model.generate(5, seed=3)
    assert [each.text for each in model.generate(2, seed=3)] == [each.text for each in together[:2]]
    assert together != model.generate(5, seed=4)


def test_costs_are_reported(model: Sundae):
    sampling = replace(model.config.sampling, steps=4, stop_early=False)
    written = model.generate(2, sampling=sampling)
    assert {(each.steps, each.network_calls) for each in written} == {(4, 4)}


def test_steps_and_calls_of_a_text_do_not_depend_on_its_company(model: Sundae):
    sampling = replace(model.config.sampling, rule="argmax-unrolled", steps=12)
    together = model.generate(12, sampling=sampling, seed=2)
    assert len({each.steps for each in together}) > 1
    for number, each in enumerate(together):
        (alone,) = model.generate(1, sampling=sampling, seed=2, first=number)
        assert (alone.text, alone.steps, alone.network_calls) == (each.text, each.steps, each.network_calls)


def test_watch_sees_every_step(model: Sundae):
    steps: list[int] = []
    sampling = replace(model.config.sampling, steps=4, stop_early=False)
    model.generate(1, sampling=sampling, watch=lambda state: steps.append(state.step))
    assert steps == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("prompt", ["the cat", "the cat ", "the cat\\", "[[2]] {{x}}", "é☃ \\[["])
def test_a_prompt_is_text_whatever_it_holds(model: Sundae, prompt: str):
    for written in model.generate(3, prompt=prompt, sampling=replace(model.config.sampling, steps=2)):
        assert written.text.startswith(prompt)


# ---- filling


@pytest.mark.parametrize(
    "template", ["the [[2]] sees", "[[3]] dog", "a big[[1]]", "[[1]]x[[1]]y é\u200d[[2]] ☃ \\[[6]]"]
)
def test_given_text_comes_back_byte_for_byte(model: Sundae, template: str):
    import re

    from sundae.text.template import Blank, parse_template

    for written in model.fill(template, count=3):
        pattern = "".join(
            "(.*)" if isinstance(segment, Blank) else re.escape(segment.text)
            for segment in parse_template(template).segments
        )
        assert re.fullmatch(pattern, written.text, re.DOTALL), written.text


def test_a_blank_after_a_space_begins_with_a_space(model: Sundae):
    for written in model.fill("the [[2]] sees", count=8):
        assert written.text.startswith("the ")


def test_a_blank_never_holds_a_pad(model: Sundae):
    assert all(model.tokenizer.token_text(0) not in written.text for written in model.fill("a[[8]]b", count=8))


def test_candidates_are_ranked_by_score(model: Sundae):
    scores = [written.score for written in model.fill("the [[3]] sees", count=6)]
    assert scores == sorted(scores, reverse=True)


@pytest.mark.parametrize(
    ("template", "error", "message"),
    [
        ("no blank", UsageError, "no blank"),
        ("[[30]]", UsageError, "canvas holds 24"),
        ("[[0]]", UsageError, "0"),
    ],
)
def test_a_template_that_cannot_be_filled_says_why(model: Sundae, template: str, error, message: str):
    with pytest.raises(error, match=message):
        model.fill(template)


# ---- translating


def test_a_batch_of_translations_equals_sentence_by_sentence(translator: Sundae):
    sampling = replace(translator.config.sampling, rule="argmax-unrolled", steps=4)
    sources = sentences(5)
    together = translator.translate(sources, sampling=sampling)
    assert len(together) == 5
    alone = [translator.translate([source], sampling=sampling)[0] for source in sources]
    assert [each.text for each in alone] == [each.text for each in together]
    assert [each.network_calls for each in alone] == [each.network_calls for each in together]


def test_more_candidates_never_score_worse(translator: Sundae):
    sources = sentences(6)
    one, many = (
        translator.translate(sources, sampling=replace(translator.config.sampling, temperature=1.0, candidates=n))
        for n in (1, 6)
    )
    assert sum(each.score for each in many) > sum(each.score for each in one)


def test_an_empty_source_and_no_source_are_legal(translator: Sundae):
    assert len(translator.translate(["", "the cat"])) == 2
    assert len(translator.translate([""])) == 1
    assert translator.translate([]) == []


def test_a_model_without_an_encoder_does_not_translate(model: Sundae):
    with pytest.raises(UsageError, match="does not translate"):
        model.translate(["the cat"])
