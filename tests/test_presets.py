"""The presets, held against sections 3.1 and 3.2 of the paper, figure by figure."""

import math
import re
from pathlib import Path

import pytest

from sundae.cli.info import count_parameters
from sundae.config import RunConfig
from sundae.errors import UsageError
from sundae.presets import PRESETS, preset

# "Adam with beta_1 = 0.9, beta_2 = 0.999, eps = 10^-6 and weight decay of 0.1"; section 3.2 keeps "Adam".
OPTIMISER = {
    "training.beta1": 0.9,
    "training.beta2": 0.999,
    "training.epsilon": 1e-6,
    "training.weight_decay": 0.1,
    "training.initial_learning_rate": 1e-7,
    "training.final_learning_rate": 1e-5,
}

# Section 3.1, Experiment Settings; app. B for the length predictor; "for all tasks, except for AR-distilled".
TRANSLATION = OPTIMISER | {
    "network.encoder_layers": 6,
    "network.decoder_layers": 6,
    "network.heads": 8,
    "network.width": 512,
    "network.hidden": 2048,
    "network.canvas": 128,
    "network.source_positions": 128,
    "network.length_prediction": True,
    "network.length_blocks": 6,
    "network.length_hidden": 128,
    "network.length_classes": 64,
    "objective.unroll_steps": 2,
    "training.batch_size": 4096,
    "training.learning_rate": 1e-4,
    "training.warmup_steps": 5_000,
    "training.steps": 10**6,
    "training.precision": "bfloat16",
    "training.average_last": 10,
    "sampling.rule": "low-temperature",
    "sampling.candidates": 16,
    "sampling.stop_early": False,  # "for T iterations"
    "data.kind": "parallel",
}
RAW = TRANSLATION | {"network.dropout": 0.1, "objective.label_smoothing": 0.1}

# Section 3.2, Unconditional Text Generation (Qualitative).
LARGE_DECODER = OPTIMISER | {
    "network.encoder_layers": 0,
    "network.decoder_layers": 24,
    "network.width": 1024,
    "network.hidden": 4096,
    "network.heads": 16,
    "objective.unroll_steps": 2,
    "training.learning_rate": 2e-3,
    "training.warmup_steps": 10_000,
    "sampling.rule": "low-temperature",
    "sampling.steps": 1000,
}
C4 = LARGE_DECODER | {
    "network.vocabulary_size": 32_000,
    "training.batch_size": 4096,
    "sampling.temperature": 0.8,
    "data.kind": "crops",
    "data.tokenizer": "sentencepiece",
}

FIGURES: dict[str, dict[str, object]] = {
    "paper-wmt14-ende": RAW
    | {"data.training_pairs": 4_500_000, "data.source_language": "en", "data.target_language": "de"},
    "paper-wmt14-deen": RAW
    | {"data.training_pairs": 4_500_000, "data.source_language": "de", "data.target_language": "en"},
    "paper-wmt14-enfr": RAW
    | {"data.training_pairs": 36_000_000, "data.source_language": "en", "data.target_language": "fr"},
    "paper-wmt14-ende-distilled": TRANSLATION
    | {"network.dropout": 0.05, "objective.label_smoothing": 0.0, "data.training_pairs": 4_500_000},
    "paper-c4-32": C4
    | {
        "network.canvas": 32,
        "training.steps": 400_000,
        "sampling.schedule": "share",
        "sampling.share": 0.3,
        "sampling.stop_early": True,  # "stopping earlier if samples do not change anymore"
    },
    # Long-range: "identical ... except" these.
    "paper-c4-256": C4 | {"network.canvas": 256, "training.steps": 350_000, "sampling.schedule": "triangle"},
    # Quantitative; "we perform 1K steps and update all the tokens at each step".
    "paper-emnlp2017": LARGE_DECODER
    | {
        "network.canvas": 52,
        "training.batch_size": 1024,
        "training.steps": 8_000,
        "sampling.schedule": "all",
        "sampling.stop_early": False,
        "data.kind": "sentences",
        "data.tokenizer": "word",
        "frontier.lowest_temperature": 0.1,
        "frontier.highest_temperature": 2.0,
        "frontier.temperatures": 60,
        "frontier.quality_samples": 10_000,
        "frontier.diversity_samples": 10_000,
    },
    # In-painting: "remain the same, except we train twice longer ... we update all the tokens at each step".
    "paper-github-python": C4 | {"network.canvas": 32, "training.steps": 800_000, "sampling.schedule": "all"},
}


def look_up(config: RunConfig, key: str) -> object:
    section, name = key.split(".")
    return getattr(getattr(config, section), name)


def test_every_preset_of_the_paper_is_held_against_it() -> None:
    assert set(FIGURES) == {name for name in PRESETS if name.startswith("paper-")}


@pytest.mark.parametrize(("name", "key"), [(name, key) for name, figures in FIGURES.items() for key in figures])
def test_the_preset_has_the_papers_figure(name: str, key: str) -> None:
    assert look_up(preset(name), key) == FIGURES[name][key]


@pytest.mark.parametrize("name", [name for name in FIGURES if "wmt14" in name])
def test_translation_decodes_within_the_papers_ranges(name: str) -> None:
    sampling = preset(name).sampling
    assert sampling.steps <= 16
    assert 0.1 <= sampling.temperature <= 0.6
    assert 0.1 <= sampling.uncertain_share <= 0.6


def test_the_news_vocabulary_is_the_papers_to_its_two_digits() -> None:
    assert round(preset("paper-emnlp2017").network.vocabulary_size, -2) == 5_700


def test_the_code_corpus_names_every_licence_of_the_paper() -> None:
    licences = ["apache-2.0", "mit", "bsd-3-clause", "bsd-2-clause", "unlicense", "cc0-1.0", "isc", "artistic-2.0"]
    assert [licence for licence in licences if licence not in preset("paper-github-python").data.description] == []


@pytest.mark.parametrize(("name", "millions"), [("paper-wmt14-ende", 63), ("paper-c4-32", 335)])
def test_the_network_has_the_papers_number_of_parameters(name: str, millions: int) -> None:
    assert math.isclose(count_parameters(preset(name).network)["total"], millions * 1e6, rel_tol=0.025)


def test_the_parts_add_up_to_the_whole() -> None:
    for name in ("paper-wmt14-ende", "paper-c4-32"):
        parts = count_parameters(preset(name).network)
        assert parts.pop("total") == sum(parts.values())


def test_the_page_of_presets_has_all_of_them_with_their_size() -> None:
    page = (Path(__file__).parent.parent / "docs" / "presets.md").read_text(encoding="utf-8")
    sizes = {name: f"{count_parameters(preset(name).network)['total'] / 1e6:.1f}M" for name in PRESETS}
    assert dict(re.findall(r"^\| `([\w-]+)` \|[^|]*\| ([\d.]+M) \|", page, re.MULTILINE)) == sizes


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_says_in_one_line_what_it_is_for(name: str) -> None:
    assert PRESETS[name].summary
    assert len(PRESETS[name].summary.splitlines()) == 1
    assert PRESETS[name].config is preset(name)


@pytest.mark.parametrize("name", PRESETS)
def test_a_misspelt_preset_is_named_and_the_nearest_is_suggested(name: str) -> None:
    with pytest.raises(UsageError) as caught:
        preset(f"{name}x")
    assert caught.value.line() == f"unknown preset '{name}x': did you mean '{name}'?"
