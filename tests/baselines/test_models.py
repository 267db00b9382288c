"""The baselines as a user meets them: trained by the same command, loaded, and put to work."""

import json
import random
from pathlib import Path

import pytest

from sundae.baselines.models import AutoregressiveTwin, Draw, MaskPredictTranslator
from sundae.cli import main
from sundae.config import BaselineConfig
from sundae.errors import CapabilityError, DataError, UsageError
from sundae.model import Sundae, load_model
from sundae.text.corpus import Corpus
from sundae.text.prepare import prepare
from sundae.text.recipe import Recipe
from training.corpora import parallel_corpus

SMALL = [
    *("network.width=48", "network.hidden=96", "network.heads=2", "network.decoder_layers=2", "network.dropout=0.0"),
    *("training.warmup_steps=20", "training.learning_rate=6e-3", "training.ema_decay=0.0", "training.clip=1.0"),
    *("training.batch_size=64", "training.validate_every=1000", "training.checkpoint_every=1000"),
]


def trained(corpus: Corpus, out: Path, *more: str) -> str:
    arguments = ["train", "tiny", "--data", str(corpus.folder), "--out", str(out), "--threads", "1", "-q"]
    assert main([*arguments, *SMALL, *more]) == 0
    return str(out / "model")


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return parallel_corpus(tmp_path_factory.mktemp("pairs"), count=64 + 20)


def translating(pairs: Corpus, out: Path, kind: str, *, steps: int = 400) -> str:
    encoder = ["network.encoder_layers=2", "network.length_hidden=32", "objective.label_smoothing=0.1"]
    return trained(pairs, out, *encoder, f"training.steps={steps}", "--network", kind)


def texts_of(corpus: Corpus, side: str) -> list[str]:
    split = corpus.split("train")
    get = split.source if side == "source" else split.text
    return [corpus.tokenizer.decode(get(row).tolist()) for row in range(len(split))]


@pytest.fixture(scope="module")
def twin_folder(pairs: Corpus, tmp_path_factory: pytest.TempPathFactory) -> str:
    return translating(pairs, tmp_path_factory.mktemp("runs") / "ar", "autoregressive")


def share_right(model: AutoregressiveTwin | MaskPredictTranslator, pairs: Corpus, settings: BaselineConfig) -> float:
    sources, references = texts_of(pairs, "source"), texts_of(pairs, "text")
    written = model.translate(sources, baseline=settings)
    return sum(each.text == text for each, text in zip(written, references, strict=True)) / len(references)


def test_the_twin_learns_pairs_by_heart(twin_folder: str, pairs: Corpus):
    model = load_model(twin_folder)
    assert isinstance(model, AutoregressiveTwin)
    assert share_right(model, pairs, BaselineConfig(beam=1)) > 0.95
    assert share_right(model, pairs, BaselineConfig(beam=4)) > 0.95


def test_batched_translations_equal_single_ones_and_calls_are_counted(twin_folder: str, pairs: Corpus):
    model = load_model(twin_folder)
    assert isinstance(model, AutoregressiveTwin)
    sources = texts_of(pairs, "source")[:9]
    for beam in (1, 3):
        settings = BaselineConfig(beam=beam)
        together = model.translate(sources, baseline=settings)
        alone = [model.translate([source], baseline=settings)[0] for source in sources]
        assert [each.text for each in together] == [each.text for each in alone]
        assert [each.network_calls for each in together] == [each.network_calls for each in alone]
    greedy = model.translate(sources, baseline=BaselineConfig(beam=1))
    assert all(each.network_calls == each.steps + 1 for each in greedy)  # one for each token and one for the end


def test_the_twin_as_a_judge_prefers_the_reference(twin_folder: str, pairs: Corpus):
    model = load_model(twin_folder)
    assert isinstance(model, AutoregressiveTwin)
    sources, references = texts_of(pairs, "source"), texts_of(pairs, "text")
    right = model.log_likelihood(references, sources=sources)
    wrong = model.log_likelihood(references[1:] + references[:1], sources=sources)
    assert (right.log_probability > wrong.log_probability).float().mean() > 0.95
    assert model.log_likelihood([], sources=[]).predictions.shape == (0,)


def test_a_model_that_translates_does_not_write(twin_folder: str):
    model = load_model(twin_folder)
    assert isinstance(model, AutoregressiveTwin)
    with pytest.raises(UsageError, match="only translates"):
        model.generate(1)
    with pytest.raises(UsageError, match="not a SUNDAE model"):
        Sundae.from_pretrained(twin_folder)


def test_the_cmlm_learns_pairs_by_heart(pairs: Corpus, tmp_path: Path):
    folder = translating(pairs, tmp_path / "cmlm", "cmlm", steps=800)
    model = load_model(folder)
    assert isinstance(model, MaskPredictTranslator)
    assert share_right(model, pairs, BaselineConfig(mask_predict_steps=4, length_candidates=3)) > 0.7
    written = model.translate(texts_of(pairs, "source")[:5], baseline=BaselineConfig(mask_predict_steps=4))
    assert all(each.network_calls <= 4 for each in written)
    assert model.translate([]) == []


def test_a_cmlm_needs_a_source(tmp_path: Path, capsys):
    corpus = echo_corpus(tmp_path)
    code = main(["train", "tiny", "--data", str(corpus.folder), "--out", str(tmp_path / "run"), "--network", "cmlm"])
    assert code == 2
    assert "translates only" in capsys.readouterr().err


NAMES = ("ann", "bob", "cid", "dot", "eve", "fay", "gus", "hal")


def echo_corpus(folder: Path) -> Corpus:
    """The middle word equals the last one: it can be known from the right side only."""
    chooser = random.Random(1)
    lines = []
    for _ in range(1500):
        first, last = chooser.choice(NAMES), chooser.choice(NAMES)
        lines.append(f"{first} met {last} and {last} smiled")
    (folder / "echo.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return prepare(
        Recipe(
            kind="sentences",
            inputs=(folder / "echo.txt",),
            out=folder / "echo",
            vocabulary=300,
            canvas=10,
            validation="20",
        )
    )


@pytest.fixture(scope="module")
def echoes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    place = tmp_path_factory.mktemp("echo")
    corpus = echo_corpus(place)
    steps = ["training.steps=250", "--network", "autoregressive"]
    return {
        "left to right": trained(corpus, place / "plain", *steps),
        "middle last": trained(corpus, place / "middle", *steps, "objective.middle_share=0.7"),
    }


def middles_right(folder: str) -> float:
    model = load_model(folder)
    assert isinstance(model, AutoregressiveTwin)
    right = 0
    for first in NAMES[:4]:
        for last in NAMES:
            filled = model.fill(f"{first} met [[1w]] and {last} smiled")[0].text
            assert filled.startswith(f"{first} met ")
            assert filled.endswith(f" and {last} smiled")
            right += filled == f"{first} met {last} and {last} smiled"
    return right / 32


def test_only_fill_in_the_middle_sees_the_right_side(echoes: dict[str, str]):
    assert middles_right(echoes["middle last"]) > 0.9
    assert middles_right(echoes["left to right"]) < 0.5  # 1 in 8 by chance


@pytest.mark.parametrize("way", ["left to right", "middle last"])
def test_prefixes_are_kept_and_continued(echoes: dict[str, str], way: str):
    model = load_model(echoes[way])
    assert isinstance(model, AutoregressiveTwin)
    written = model.generate(8, prefix="gus met", draw=Draw(temperature=0.7, top_p=0.9), seed=3)
    assert all(each.text.startswith("gus met ") for each in written)
    good = [each.text.split() for each in written]
    assert sum(len(words) == 6 and words[2] == words[4] for words in good) >= 6
    alone = model.generate(1, prefix="gus met", draw=Draw(temperature=0.7, top_p=0.9), seed=3, first=5)
    assert alone[0].text == written[5].text


def test_blanks_of_tokens_and_of_unknown_length(echoes: dict[str, str]):
    model = load_model(echoes["middle last"])
    assert isinstance(model, AutoregressiveTwin)
    assert model.fill("ann met [[?]] and hal smiled")[0].text == "ann met hal and hal smiled"
    exact = model.fill("ann met [[2]] and hal smiled", count=3)
    assert all(each.steps == 2 for each in exact)
    assert {each.steps for each in model.fill("ann met [[3-4]] and hal smiled", count=9, draw=Draw(1.0))} <= {3, 4}
    with pytest.raises(CapabilityError, match="2 blanks"):
        model.fill("[[1w]] met [[1w]]")
    with pytest.raises(UsageError, match="blank of 40 tokens"):
        model.fill("ann [[40]]")
    with pytest.raises(UsageError, match="the text has"):
        model.generate(1, prefix="ann met bob and bob smiled " * 4)
    with pytest.raises(DataError, match="1 of 2 texts are too long"):
        model.log_likelihood(["ann met bob", "ann met bob and bob smiled " * 4])


def test_the_verbs_take_a_twin(echoes: dict[str, str], capsys):
    folder = echoes["middle last"]
    assert main(["generate", "--model", folder, "-n", "3", "--json", "--threads", "1"]) == 0
    assert len([json.loads(line) for line in capsys.readouterr().out.splitlines()]) == 3
    assert main(["fill", "ann met [[1w]] and hal smiled", "--model", folder, "--threads", "1"]) == 0
    assert capsys.readouterr().out == "ann met hal and hal smiled\n"
    for flags in (["-T", "3"], ["--rule", "argmax-unrolled"], ["--watch"]):
        assert main(["generate", "--model", folder, *flags]) == 2
        assert "left to right" in capsys.readouterr().err
