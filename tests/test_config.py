"""Sections, their checks, and the way in from TOML, JSON and `section.key=value`."""

import contextlib
import dataclasses
import json
import math
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sundae.config import (
    LOWEST_TEMPERATURE,
    CorpusKind,
    FrontierConfig,
    NetworkConfig,
    ObjectiveConfig,
    Precision,
    RateSpread,
    RuleName,
    RunConfig,
    SamplingConfig,
    ScheduleName,
    TokenizerKind,
    TrainingConfig,
    nearest,
    parse_overrides,
    read_toml,
)
from sundae.errors import DataError, UsageError
from sundae.presets import PRESETS, preset

unhurried = settings(deadline=None)  # a busy machine is no failure

Changes = dict[str, dict[str, Any]]
SECTIONS = [field.name for field in dataclasses.fields(RunConfig)]
KEYS = [(section, key) for section, keys in RunConfig().to_dict().items() for key in keys]


def change(section: str, key: str, value: object) -> RunConfig:
    return RunConfig().updated({section: {key: value}})


# What a legal change looks like.

positive = st.integers(1, 1 << 20)
share = st.floats(0, 1)
below_one = st.floats(0, 1, exclude_max=True)
temperature = st.just(0.0) | st.floats(LOWEST_TEMPERATURE, 1000)
text = st.text(st.characters(exclude_categories=["Cs"]))


@st.composite
def networks(draw: st.DrawFn) -> dict[str, Any]:
    heads, features = draw(st.integers(1, 32)), draw(st.integers(1, 256))
    return {
        "vocabulary_size": draw(st.integers(2, 1 << 20)),
        "canvas": draw(positive),
        "width": heads * features,
        "hidden": draw(positive),
        "heads": heads,
        "decoder_layers": draw(st.integers(1, 1 << 10)),
        "source_positions": draw(positive),
        "length_prediction": draw(st.booleans()),
        "length_hidden": draw(positive),
        "length_blocks": draw(st.integers(1, 1 << 10)),
        "dropout": draw(below_one),
        "rotary": features % 2 == 0 and draw(st.booleans()),
    }


@st.composite
def objectives(draw: st.DrawFn) -> dict[str, Any]:
    steps = draw(st.integers(1, 5))
    weights = st.lists(st.floats(1e-6, 1e6), min_size=steps, max_size=steps)
    return {
        "unroll_steps": steps,
        "step_weights": draw(st.just([]) | weights),
        "unroll_temperature": draw(temperature),
        "label_smoothing": draw(below_one),
        "corruption_rates": draw(st.sampled_from(get_args(RateSpread))),
        "length_weight": draw(st.floats(0, 1e6)),
        "plain_share": draw(st.floats(0, 1)),
    }


@st.composite
def trainings(draw: st.DrawFn) -> dict[str, Any]:
    rate = draw(st.floats(1e-12, 10))
    return {
        "steps": draw(positive),
        "batch_size": draw(positive),
        "learning_rate": rate,
        "initial_learning_rate": draw(st.floats(1e-12, rate)),
        "final_learning_rate": draw(st.floats(1e-12, rate)),
        "warmup_steps": draw(st.integers(0, 1 << 20)),
        "beta1": draw(below_one),
        "beta2": draw(below_one),
        "epsilon": draw(st.floats(1e-12, 1)),
        "weight_decay": draw(st.floats(0, 1e6)),
        "precision": draw(st.sampled_from(get_args(Precision))),
        "average_last": draw(positive),
        "seed": draw(st.integers(0, (1 << 63) - 1)),
    }


samplings = st.fixed_dictionaries(
    {
        "rule": st.sampled_from(get_args(RuleName)),
        "steps": st.integers(0, 1 << 20),
        "temperature": temperature,
        "schedule": st.sampled_from(get_args(ScheduleName)),
        "share": share,
        "uncertain_share": share,
        "candidates": positive,
        "length_candidates": positive,
        "length_normalisation": st.just(-1.0) | st.floats(0, 10),
        "stop_early": st.booleans(),
        "final_temperature": st.just(-1.0) | temperature,
        "top_k": st.integers(0, 1 << 20),
        "top_p": share,
        "entropy_bound": st.floats(0, 1e6),
        "stop_entropy": st.floats(0, 1e6),
        "choice_temperature": st.floats(0, 1e6),
        "renoise_share": share,
        "renoise_doubt": st.floats(0, 1e6),
    }
)


@st.composite
def changes(draw: st.DrawFn) -> Changes:
    kind = draw(st.sampled_from(get_args(CorpusKind)))
    encoder_layers = draw(st.integers(1, 1 << 10)) if kind == "parallel" else 0
    low, high = sorted(draw(st.tuples(temperature, temperature)))
    return {
        "network": {**draw(networks()), "encoder_layers": encoder_layers},
        "objective": draw(objectives()),
        "training": draw(trainings()),
        "sampling": draw(samplings),
        "data": {
            "kind": kind,
            "tokenizer": draw(st.sampled_from(get_args(TokenizerKind))),
            "description": draw(text),
            "source_language": draw(text),
            "target_language": draw(text),
            "training_pairs": draw(st.integers(0, 1 << 40)),
        },
        "frontier": {
            "lowest_temperature": low,
            "highest_temperature": high,
            "temperatures": draw(positive),
            "quality_samples": draw(positive),
            "diversity_samples": draw(positive),
        },
    }


# Names.


@pytest.mark.parametrize(("section", "key"), KEYS)
def test_an_unknown_key_is_named_and_the_nearest_is_suggested(section: str, key: str) -> None:
    with pytest.raises(UsageError) as caught:
        change(section, key + "x", 1)
    assert caught.value.what == f"unknown key {section}.{key}x"
    assert caught.value.why == f"did you mean {key!r}?"


@pytest.mark.parametrize("section", SECTIONS)
def test_an_unknown_section_is_named_and_the_nearest_is_suggested(section: str) -> None:
    with pytest.raises(UsageError) as caught:
        RunConfig().updated({section[:-1]: {}})
    assert caught.value.what == f"unknown section {section[:-1]!r}"
    assert caught.value.why == f"did you mean {section!r}?"


def test_a_name_like_no_other_gets_the_whole_list() -> None:
    assert nearest("zzz", ["width", "heads"]) == "known are heads, width"
    with pytest.raises(UsageError, match=r"known are baseline, data, frontier, network, objective, sampling, training"):
        RunConfig().updated({"qqqqqq": {}})


@pytest.mark.parametrize("section", SECTIONS)
@pytest.mark.parametrize("value", [3, "text", None, [], True])
def test_a_section_cannot_be_a_value(section: str, value: Any) -> None:
    with pytest.raises(UsageError, match=rf"^{section}=.*is a section, not a value \(try: {section}\.KEY=VALUE\)"):
        RunConfig().updated({section: value})


@pytest.mark.parametrize(("section", "key"), KEYS)
def test_a_value_cannot_be_a_section(section: str, key: str) -> None:
    with pytest.raises(UsageError, match=rf"^{section}\.{key}: is a value, not a section"):
        change(section, key, {"inner": 1})


# Types.

WRONG: dict[type, list[object]] = {
    int: [True, False, 1.0, 1.5, "1.5", "many", "", "true", None, [1]],
    float: [True, False, "half", "", "true", None, [0.5]],
    bool: [0, 1, 1.0, "yes", "True", "1", "", None],
    str: [True, 3, 0.5, None, ["text"]],
    tuple: [True, 3, 0.5, None, "a,b", "1,,2", ["a"], [True], [None], [[1.0]]],
}


def wrong_values() -> list[tuple[str, str, object]]:
    defaults = RunConfig().to_dict()
    return [(s, k, value) for s, k in KEYS for value in WRONG[type(defaults[s][k])]]


@pytest.mark.parametrize(("section", "key", "value"), wrong_values())
def test_a_value_of_the_wrong_type_is_refused_by_name(section: str, key: str, value: object) -> None:
    choices = {"rule", "schedule", "precision", "kind", "tokenizer", "corruption_rates"}
    with pytest.raises(UsageError, match=rf"^{section}\.{key}=") as caught:
        change(section, key, value)
    assert caught.value.why.startswith("must be one of" if key in choices else "must be")


@pytest.mark.parametrize("kind", [RuleName, ScheduleName, Precision, CorpusKind, TokenizerKind, RateSpread])
def test_a_choice_that_does_not_exist_lists_those_that_do(kind: Any) -> None:
    keys = {
        RuleName: "sampling.rule",
        ScheduleName: "sampling.schedule",
        Precision: "training.precision",
        CorpusKind: "data.kind",
        TokenizerKind: "data.tokenizer",
        RateSpread: "objective.corruption_rates",
    }
    section, key = keys[kind].split(".")
    with pytest.raises(UsageError) as caught:
        change(section, key, "none such")
    assert caught.value.line() == f"{section}.{key}=none such: must be one of {', '.join(get_args(kind))}"


FLOATS = [(s, k) for s, k in KEYS if type(RunConfig().to_dict()[s][k]) is float]
NOT_FINITE = [math.nan, math.inf, -math.inf, "nan", "inf", "-inf", "1e999"]


@pytest.mark.parametrize(("section", "key"), FLOATS)
@pytest.mark.parametrize("value", NOT_FINITE)
def test_nan_and_infinity_are_refused(section: str, key: str, value: object) -> None:
    with pytest.raises(UsageError, match=rf"^{section}\.{key}=-?(nan|inf): must be a finite number"):
        change(section, key, value)


@pytest.mark.parametrize(
    ("section", "key"),
    [
        (NetworkConfig, "dropout"),
        (ObjectiveConfig, "unroll_temperature"),
        (ObjectiveConfig, "label_smoothing"),
        (ObjectiveConfig, "length_weight"),
        (TrainingConfig, "learning_rate"),
        (TrainingConfig, "initial_learning_rate"),
        (TrainingConfig, "final_learning_rate"),
        (TrainingConfig, "beta1"),
        (TrainingConfig, "beta2"),
        (TrainingConfig, "epsilon"),
        (TrainingConfig, "weight_decay"),
        (SamplingConfig, "temperature"),
        (SamplingConfig, "share"),
        (SamplingConfig, "uncertain_share"),
        (SamplingConfig, "final_temperature"),
        (SamplingConfig, "top_p"),
        (SamplingConfig, "entropy_bound"),
        (SamplingConfig, "stop_entropy"),
        (SamplingConfig, "choice_temperature"),
        (SamplingConfig, "renoise_share"),
        (SamplingConfig, "renoise_doubt"),
        (FrontierConfig, "lowest_temperature"),
        (FrontierConfig, "highest_temperature"),
    ],
)
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_section_made_in_python_refuses_nan_and_infinity_too(section: Any, key: str, value: float) -> None:
    with pytest.raises(UsageError, match=rf"\.{key}="):
        section(**{key: value})


@pytest.mark.parametrize("weights", [(math.nan, 1.0), (1.0, math.nan), (1.0, math.inf), (math.inf, -math.inf)])
def test_weights_that_are_not_finite_are_refused(weights: tuple[float, ...]) -> None:
    with pytest.raises(UsageError, match=r"objective\.step_weights"):
        ObjectiveConfig(step_weights=weights)


@pytest.mark.parametrize(
    "value", [1 << 63, -(1 << 63), 10**400, -(10**400), 16**5000], ids=["64 bits", "minus", "float", "minus", "print"]
)
@pytest.mark.parametrize(("section", "key"), [("training", "seed"), ("training", "epsilon"), ("network", "width")])
def test_a_number_that_no_tensor_can_hold_is_refused(section: str, key: str, value: int) -> None:
    with pytest.raises(UsageError, match=rf"^{section}\.{key}: is too large a number"):
        change(section, key, value)


def test_text_that_cannot_be_saved_is_refused() -> None:
    with pytest.raises(UsageError, match=r"data\.description=.*is not Unicode text"):
        change("data", "description", "\udcff")


def test_a_whole_number_is_a_number_but_not_the_other_way_round() -> None:
    assert type(change("sampling", "temperature", 1).sampling.temperature) is float
    with pytest.raises(UsageError, match=r"sampling\.steps=10\.0: must be a whole number"):
        change("sampling", "steps", 10.0)


def test_text_is_parsed_as_a_flag_would_write_it() -> None:
    assert change("training", "steps", "1_000_000").training.steps == 1_000_000
    assert change("training", "learning_rate", "2e-3").training.learning_rate == 2e-3
    assert change("sampling", "stop_early", "false").sampling.stop_early is False
    assert change("sampling", "stop_early", "true").sampling.stop_early is True
    assert change("objective", "step_weights", "0.25, 0.75").objective.step_weights == (0.25, 0.75)
    assert change("objective", "step_weights", "[1,3]").objective.step_weights == (1.0, 3.0)
    assert change("objective", "step_weights", "[]").objective.step_weights == ()
    assert change("objective", "step_weights", "").objective.step_weights == ()


# Ranges.


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *((f"network.{key}", 0) for key in ("canvas", "width", "hidden", "heads", "decoder_layers")),
        *((f"network.{key}", -1) for key in ("source_positions", "length_hidden", "length_blocks", "encoder_layers")),
        *((f"network.{key}", (1 << 20) + 1) for key in ("vocabulary_size", "canvas", "width", "hidden")),
        *((f"network.{key}", (1 << 20) + 1) for key in ("source_positions", "length_hidden")),
        *((f"network.{key}", (1 << 10) + 1) for key in ("decoder_layers", "encoder_layers", "length_blocks")),
        ("network.vocabulary_size", 1),
        ("network.dropout", -0.1),
        ("network.dropout", 1.0),
        ("objective.unroll_steps", 0),
        ("objective.unroll_temperature", -1.0),
        ("objective.unroll_temperature", 1e-4),
        ("objective.label_smoothing", 1.0),
        ("objective.label_smoothing", -0.1),
        ("objective.length_weight", -1.0),
        ("objective.plain_share", 1.1),
        *((f"training.{key}", 0) for key in ("steps", "batch_size", "average_last")),
        *((f"training.{key}", 0.0) for key in ("learning_rate", "initial_learning_rate", "final_learning_rate")),
        ("training.epsilon", 0.0),
        ("training.warmup_steps", -1),
        ("training.initial_learning_rate", 1.0),
        ("training.final_learning_rate", 1.0),
        ("training.beta1", 1.0),
        ("training.beta2", -0.1),
        ("training.weight_decay", -0.1),
        ("training.seed", -1),
        ("sampling.steps", -1),
        ("sampling.temperature", -0.1),
        ("sampling.temperature", 5e-4),
        ("sampling.temperature", 1001.0),
        ("sampling.share", 1.01),
        ("sampling.uncertain_share", -0.01),
        ("sampling.candidates", 0),
        ("sampling.length_candidates", 0),
        ("sampling.length_normalisation", -0.5),
        ("sampling.length_normalisation", math.inf),
        *(("sampling.final_temperature", value) for value in (-2.0, -0.5, 5e-4, 1001.0)),
        ("sampling.top_k", -1),
        *((f"sampling.{key}", value) for key in ("top_p", "renoise_share") for value in (-0.01, 1.01)),
        *(
            (f"sampling.{key}", -0.1)
            for key in ("entropy_bound", "stop_entropy", "choice_temperature", "renoise_doubt")
        ),
        ("data.training_pairs", -1),
        ("frontier.lowest_temperature", 3.0),
        ("frontier.highest_temperature", 2000.0),
        ("frontier.temperatures", 0),
        ("frontier.quality_samples", 0),
        ("frontier.diversity_samples", 0),
    ],
)
def test_a_value_out_of_range_is_refused_by_name(key: str, value: object) -> None:
    section, name = key.split(".")
    with pytest.raises(UsageError) as caught:
        change(section, name, value)
    assert caught.value.what == f"{key}={value}"
    assert "must" in caught.value.why


def test_zero_means_zero() -> None:
    config = RunConfig().updated({"sampling": {"temperature": 0, "steps": 0, "share": 0}, "training": {"seed": 0}})
    assert (config.sampling.temperature, config.sampling.steps, config.sampling.share) == (0.0, 0, 0.0)
    assert config.training.seed == 0


def test_a_final_temperature_is_minus_1_for_none_and_otherwise_a_temperature() -> None:
    assert SamplingConfig().final_temperature == -1
    for value, text in ((-1.0, "-1"), (0.0, "0"), (LOWEST_TEMPERATURE, "1e-3"), (0.4, "0.4"), (1000.0, "1000")):
        assert change("sampling", "final_temperature", text).sampling.final_temperature == value
    with pytest.raises(
        UsageError, match=r"^sampling\.final_temperature=-2\.0: must be -1 \(as sampling\.temperature\)"
    ):
        change("sampling", "final_temperature", "-2")


def test_heads_must_divide_the_width_and_a_number_that_does_is_suggested() -> None:
    with pytest.raises(UsageError) as caught:
        NetworkConfig(width=512, heads=7)
    assert caught.value.line() == "network.heads=7: must divide network.width=512 (try: 8)"


def test_rotary_positions_need_pairs_of_features() -> None:
    assert NetworkConfig(width=12, heads=3, rotary=True).rotary
    with pytest.raises(UsageError) as caught:
        NetworkConfig(width=12, heads=4, rotary=True)
    assert caught.value.line() == "network.rotary=True: turns pairs of features, and 4 heads have 3 each"


def test_only_sundae_is_wired_as_its_twin() -> None:
    assert NetworkConfig(shifted=True).shifted
    with pytest.raises(UsageError) as caught:
        NetworkConfig(kind="autoregressive", shifted=True)
    assert caught.value.line() == "network.shifted=True: is not for autoregressive networks"


@unhurried
@given(width=st.integers(1, 4096), heads=st.integers(1, 4096))
def test_the_suggested_number_of_heads_is_always_legal(width: int, heads: int) -> None:
    try:
        NetworkConfig(width=width, heads=heads)
    except UsageError as error:
        NetworkConfig(width=width, heads=int(error.hint))


@pytest.mark.parametrize("weights", [(1.0,), (1.0, 1.0, 1.0)])
def test_there_is_one_weight_for_each_unrolled_step_or_none(weights: tuple[float, ...]) -> None:
    assert ObjectiveConfig(unroll_steps=len(weights), step_weights=weights).step_weights == weights
    assert ObjectiveConfig(unroll_steps=2).step_weights == ()
    with pytest.raises(UsageError, match=r"needs one weight for each of objective\.unroll_steps=2, or none"):
        ObjectiveConfig(unroll_steps=2, step_weights=weights)


@pytest.mark.parametrize("weights", [(-1.0, 2.0), (0.0, 0.0)])
def test_weights_must_not_be_negative_nor_all_zero(weights: tuple[float, ...]) -> None:
    with pytest.raises(UsageError, match=r"objective\.step_weights=.*no weight may be negative"):
        ObjectiveConfig(unroll_steps=2, step_weights=weights)


@pytest.mark.parametrize(
    "wrong", [{"data": {"kind": "parallel"}}, {"network": {"encoder_layers": 2}}], ids=["no encoder", "no source"]
)
def test_parallel_text_and_an_encoder_need_each_other(wrong: Changes) -> None:
    with pytest.raises(UsageError, match=r"network\.encoder_layers=\d: does not fit data\.kind="):
        RunConfig().updated(wrong)
    assert RunConfig().updated({"data": {"kind": "parallel"}, "network": {"encoder_layers": 2}}).network.translates


@pytest.mark.parametrize(("canvas", "classes"), [(128, 64), (1, 1), (7, 4), (32, 16)])
def test_length_classes_are_half_the_canvas_rounded_up(canvas: int, classes: int) -> None:
    assert NetworkConfig(canvas=canvas).length_classes == classes


@pytest.mark.parametrize("section", SECTIONS)
def test_sections_cannot_be_changed_in_place(section: str) -> None:
    part = getattr(RunConfig(), section)
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(part, dataclasses.fields(part)[0].name, 1)


# The order of what wins.

TOML = """
[network]
width = 128
heads = 2

[training]
steps = 77
"""


def test_defaults_yield_to_the_preset_to_the_file_to_the_override(tmp_path: Path) -> None:
    file = tmp_path / "run.toml"
    file.write_text(TOML, encoding="utf-8")
    default, base = RunConfig(), preset("paper-c4-32")
    config = base.updated(read_toml(file), parse_overrides(["network.heads=4"]))
    assert (default.network.heads, base.network.heads, config.network.heads) == (4, 16, 4)
    assert (default.training.steps, base.training.steps, config.training.steps) == (10_000, 400_000, 77)
    assert (default.network.decoder_layers, config.network.decoder_layers) == (6, 24)  # the preset's
    assert config.objective.length_weight == default.objective.length_weight  # nobody's but the default
    assert base.updated(read_toml(file)).network.heads == 2


@unhurried
@given(low=changes(), high=changes())
def test_later_layers_win_key_by_key(low: Changes, high: Changes) -> None:
    assert RunConfig().updated(low, high) == RunConfig().updated(high)
    assert RunConfig().updated(low, {"training": high["training"]}).sampling == RunConfig().updated(low).sampling


def test_a_later_layer_may_mend_what_an_earlier_one_left_unfitting() -> None:
    assert RunConfig().updated({"network": {"width": 100}}, {"network": {"heads": 10}}).network.heads == 10
    parallel = RunConfig().updated({"data": {"kind": "parallel"}}, {"network": {"encoder_layers": 3}})
    assert parallel.network.translates


def test_a_later_layer_does_not_hide_a_wrong_value_before_it() -> None:
    with pytest.raises(UsageError, match=r"network\.width=wide"):
        RunConfig().updated({"network": {"width": "wide"}}, {"network": {"width": 64}})


def test_no_change_is_no_change() -> None:
    config = preset("paper-wmt14-ende")
    assert config.updated() == config.updated({}) == config.updated({"network": {}}, {}) == config


# JSON.


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_survives_json(name: str) -> None:
    config = preset(name)
    assert RunConfig.from_dict(json.loads(config.to_json())) == config


@unhurried
@given(base=st.sampled_from(sorted(PRESETS)), changed=changes())
def test_every_changed_preset_survives_json(base: str, changed: Changes) -> None:
    config = preset(base).updated(changed)
    assert RunConfig.from_dict(json.loads(config.to_json())) == config


def test_json_is_strict_ends_with_a_newline_and_keeps_letters_readable() -> None:
    written = change("data", "description", "Mikołaj, Aäron").to_json()
    assert written.endswith("}\n")
    assert "Mikołaj, Aäron" in written
    assert list(json.loads(written)) == SECTIONS


def test_missing_keys_take_their_defaults() -> None:
    assert RunConfig.from_dict({}) == RunConfig()
    assert RunConfig.from_dict({"sampling": {"steps": 3}}).sampling == SamplingConfig(steps=3)


# Text.


@unhurried
@given(changed=changes())
def test_flags_and_files_agree(changed: Changes) -> None:
    def flag(value: object) -> str:
        return value if isinstance(value, str) else json.dumps(value)

    overrides = [f"{section}.{key}={flag(value)}" for section, keys in changed.items() for key, value in keys.items()]
    assert RunConfig().updated(parse_overrides(overrides)) == RunConfig().updated(changed)


def test_the_last_of_equal_overrides_wins_and_a_value_may_hold_anything() -> None:
    assert parse_overrides(["network.width=1", "network.heads=2", "network.width=3"]) == {
        "network": {"width": "3", "heads": "2"}
    }
    assert parse_overrides(["data.description=a=b.c", "data.source_language="]) == {
        "data": {"description": "a=b.c", "source_language": ""}
    }
    assert parse_overrides([]) == {}


@pytest.mark.parametrize("override", ["", "width", "width=3", "network.width", "network.=3", "=", ".", "network=3"])
def test_a_malformed_override_is_shown_with_the_right_form(override: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_overrides([override])
    assert caught.value.line() == (
        f"cannot read {override!r}: an override is SECTION.KEY=VALUE (try: network.width=512)"
    )


# Files.


def test_a_file_that_is_missing_is_named_with_the_reason(tmp_path: Path) -> None:
    with pytest.raises(DataError) as caught:
        read_toml(tmp_path / "none.toml")
    assert caught.value.line() == f"cannot read {tmp_path / 'none.toml'}: No such file or directory"


def test_a_directory_is_not_a_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"cannot read .*: Is a directory"):
        read_toml(tmp_path)


def test_a_file_that_may_not_be_read_is_named_with_the_reason(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refuse(*_: object, **__: object) -> str:  # a superuser may read everything, so permissions alone prove nothing
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "read_text", refuse)
    with pytest.raises(DataError, match=r"cannot read .*run\.toml: Permission denied"):
        read_toml(tmp_path / "run.toml")


@pytest.mark.parametrize(
    "content",
    [
        b"[network",
        b"network.width = ",
        b"[network]\nwidth = 1\nwidth = 2",
        b"\xff\xfe",
        b"a = " + b"1" * 5000,
        b"a = " + b"[" * 5000,
    ],
    ids=["syntax", "no value", "twice", "not UTF-8", "long number", "deep nesting"],
)
def test_a_file_that_is_not_toml_is_named_with_the_reason(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "run.toml"
    file.write_bytes(content)
    with pytest.raises(DataError, match=r"run\.toml is not valid TOML: ."):
        read_toml(file)


almost_toml = st.lists(
    st.sampled_from(
        ["[", "]", "{", "}", "network", "width", "dropout", ".", "=", ",", "3", "-", "e9", "nan", '"', "#", "\n"]
    )
).map("".join)


@unhurried
@given(content=st.binary() | st.one_of(st.text(), almost_toml).map(str.encode))
@example(content=b"[network" + b".width" * 2_000 + b"]")
@example(content=b"[network]\nwidth = 0x" + b"f" * 10_000)
@example(content=b"network = 1979-05-27")
@example(content=b"[[network]]\nwidth = 1")
def test_whatever_a_file_holds_only_our_errors_come_out(
    content: bytes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    file = tmp_path_factory.getbasetemp() / "fuzzed.toml"
    file.write_bytes(content)
    with contextlib.suppress(UsageError, DataError):
        RunConfig().updated(read_toml(file))


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


@unhurried
@given(place=st.sampled_from(KEYS), value=anything)
def test_whatever_a_key_holds_it_is_taken_or_refused_by_name(place: tuple[str, str], value: object) -> None:
    section, key = place
    try:
        config = change(section, key, value)
    except UsageError as error:
        refusal = error.line()
    else:
        assert RunConfig.from_dict(json.loads(config.to_json())) == config
        return
    assert f"{section}.{key}" in refusal
