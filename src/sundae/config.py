"""What a run is made of: frozen sections, checked when made, read from TOML, written as JSON.

A value comes from, in rising order: the defaults here, a preset, a TOML file, `section.key=value`.
"""

import dataclasses
import difflib
import json
import math
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, cast, get_args, get_origin, get_type_hints

from sundae.errors import DataError, UsageError

NetworkKind = Literal["sundae", "autoregressive", "cmlm"]
TokenizerKind = Literal["byte-bpe", "sentencepiece", "word", "character", "pretokenised"]
CorpusKind = Literal["crops", "sentences", "parallel"]
RuleName = Literal["low-temperature", "argmax-unrolled", "entropy-bounded", "confidence", "predictor-corrector"]
ScheduleName = Literal["all", "share", "triangle"]
RankName = Literal["per-token", "score", "mbr", "leave-one-out"]
RateSpread = Literal["independent", "even"]
Precision = Literal["float32", "bfloat16"]
OptimiserName = Literal["adamw", "muon"]

LOWEST_TEMPERATURE = 1e-3  # less is argmax with rounding errors; 0 itself is argmax
_MOST_FEATURES = 1 << 20  # for one dimension of a tensor: a slip of the keyboard must not overflow its size
_MOST_LAYERS = 1 << 10


def _require(holds: bool, key: str, value: object, why: str, hint: str = "") -> None:
    if not holds:
        raise UsageError(f"{key}={value}", why=why, hint=hint)


def _require_positive(section: str, **values: int) -> None:
    for key, value in values.items():
        _require(value >= 1, f"{section}.{key}", value, "must be at least 1")


def _require_at_most(section: str, most: int, **values: int) -> None:
    for key, value in values.items():
        _require(value <= most, f"{section}.{key}", value, f"must be at most {most}")


def _require_share(section: str, **values: float) -> None:
    for key, value in values.items():
        _require(0 <= value <= 1, f"{section}.{key}", value, "must lie between 0 and 1")


def require_temperature(key: str, value: float) -> None:
    """Refuse a temperature that float32 cannot divide by; 0 is legal and means argmax."""
    _require(
        value == 0 or LOWEST_TEMPERATURE <= value <= 1000,
        key,
        value,
        f"must be 0 (argmax) or between {LOWEST_TEMPERATURE} and 1000",
    )


@dataclass(frozen=True, kw_only=True)
class NetworkConfig:
    """The Transformer f_theta; without encoder layers it is decoder-only.  Other kinds are baselines on its blocks.

    Paper: sec. 3.1 (Experiment Settings), sec. 3.2, app. B.
    """

    kind: NetworkKind = "sundae"
    vocabulary_size: int = 8000
    canvas: int = 32
    width: int = 256
    hidden: int = 1024
    heads: int = 4
    decoder_layers: int = 6
    encoder_layers: int = 0
    source_positions: int = 128
    length_prediction: bool = True
    length_hidden: int = 128
    length_blocks: int = 6
    canvas_unit: int = 8
    """A translation's canvas is the multiple of this that has room for half a unit more than its predicted length."""
    dropout: float = 0.1
    scale_embedding: bool = False
    """Inputs times sqrt(width), as in Vaswani et al. (2017); models of the first versions did without."""
    rotary: bool = False
    """Attention that also knows how far apart two positions stand (Su et al., 2021), beside the learned positions."""
    shifted: bool = False
    """Slot i sees the token before it, as an autoregressive twin's does, so that a twin's weights fit as they are."""

    def __post_init__(self) -> None:
        _require(self.vocabulary_size >= 2, "network.vocabulary_size", self.vocabulary_size, "must be at least 2")
        _require_positive(
            "network",
            canvas=self.canvas,
            width=self.width,
            hidden=self.hidden,
            heads=self.heads,
            decoder_layers=self.decoder_layers,
            source_positions=self.source_positions,
            length_hidden=self.length_hidden,
            length_blocks=self.length_blocks,
            canvas_unit=self.canvas_unit,
        )
        _require(self.encoder_layers >= 0, "network.encoder_layers", self.encoder_layers, "must be at least 0")
        _require_at_most(
            "network",
            _MOST_FEATURES,
            vocabulary_size=self.vocabulary_size,
            canvas=self.canvas,
            width=self.width,
            hidden=self.hidden,
            source_positions=self.source_positions,
            length_hidden=self.length_hidden,
            canvas_unit=self.canvas_unit,
        )
        _require_at_most(
            "network",
            _MOST_LAYERS,
            decoder_layers=self.decoder_layers,
            encoder_layers=self.encoder_layers,
            length_blocks=self.length_blocks,
        )
        divisors = [n for n in range(1, 65) if self.width % n == 0]
        _require(
            self.width % self.heads == 0,
            "network.heads",
            self.heads,
            f"must divide network.width={self.width}",
            f"{min(divisors, key=lambda n: abs(n - self.heads))}",
        )
        _require(
            not self.rotary or self.width // self.heads % 2 == 0,
            "network.rotary",
            self.rotary,
            f"turns pairs of features, and {self.heads} heads have {self.width // self.heads} each",
        )
        _require(
            not self.shifted or self.kind == "sundae",
            "network.shifted",
            self.shifted,
            f"is not for {self.kind} networks",
        )
        _require(0 <= self.dropout < 1, "network.dropout", self.dropout, "must be at least 0 and below 1")
        _require(
            self.kind != "cmlm" or self.translates, "network.kind", self.kind, "translates only, and needs an encoder"
        )

    @property
    def translates(self) -> bool:
        """Whether there is an encoder, that is, a source text."""
        return self.encoder_layers > 0

    @property
    def longest_source(self) -> int:
        """Tokens of the longest source that is translated as a whole."""
        return min(self.source_positions, self.canvas)

    @property
    def length_classes(self) -> int:
        """N_d = N / 2 classes of the halved target length.  Paper: app. B."""
        return math.ceil(self.canvas / 2)


@dataclass(frozen=True, kw_only=True)
class ObjectiveConfig:
    """The unrolled loss.  Paper: sec. 2.1, eq. 3.

    `plain_share` of the updates, the first ones, train L^(1) alone, which costs about half; the paper has none of them.
    `middle_share` is for the autoregressive twin: how many texts it learns as prefix, suffix and then the middle.
    """

    unroll_steps: int = 2
    step_weights: tuple[float, ...] = ()
    unroll_temperature: float = 1.0
    label_smoothing: float = 0.0
    corruption_rates: RateSpread = "independent"
    length_weight: float = 1.0
    plain_share: float = 0.0
    middle_share: float = 0.0

    def __post_init__(self) -> None:
        _require_positive("objective", unroll_steps=self.unroll_steps)
        weights = self.step_weights
        key = "objective.step_weights"
        _require(
            len(weights) in (0, self.unroll_steps),
            key,
            list(weights),
            f"needs one weight for each of objective.unroll_steps={self.unroll_steps}, or none",
        )
        _require(
            not weights or (min(weights) >= 0 and 0 < sum(weights) < math.inf),
            key,
            list(weights),
            "no weight may be negative and their sum must be positive and finite",
        )
        require_temperature("objective.unroll_temperature", self.unroll_temperature)
        _require(
            0 <= self.label_smoothing < 1,
            "objective.label_smoothing",
            self.label_smoothing,
            "must be at least 0 and below 1",
        )
        _require(
            0 <= self.length_weight < math.inf,
            "objective.length_weight",
            self.length_weight,
            "must be finite and not negative",
        )
        _require_share("objective", plain_share=self.plain_share, middle_share=self.middle_share)


@dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    """Optimiser, schedule and budget.  Paper: sec. 3.1 (Experiment Settings), sec. 3.2."""

    steps: int = 10_000
    batch_size: int = 64
    optimiser: OptimiserName = "adamw"
    learning_rate: float = 1e-3
    initial_learning_rate: float = 1e-7
    final_learning_rate: float = 1e-5
    warmup_steps: int = 500
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-6
    weight_decay: float = 0.1
    clip: float = 0.0
    accumulate: int = 1
    batch_tokens: int = 0
    precision: Precision = "float32"
    compile: bool = False
    ema_decay: float = 0.0
    average_last: int = 1
    log_every: int = 10
    validate_every: int = 1000
    checkpoint_every: int = 1000
    seed: int = 0

    def __post_init__(self) -> None:
        _require_positive(
            "training",
            steps=self.steps,
            batch_size=self.batch_size,
            accumulate=self.accumulate,
            average_last=self.average_last,
            log_every=self.log_every,
            validate_every=self.validate_every,
            checkpoint_every=self.checkpoint_every,
        )
        _require(self.batch_tokens >= 0, "training.batch_tokens", self.batch_tokens, "must not be negative")
        # A run may end inside its warm-up: read literally, the paper's EMNLP2017 run does (8K of 10K steps).
        _require(self.warmup_steps >= 0, "training.warmup_steps", self.warmup_steps, "must not be negative")
        for key in ("learning_rate", "initial_learning_rate", "final_learning_rate", "epsilon"):
            value = cast(float, getattr(self, key))
            _require(0 < value < math.inf, f"training.{key}", value, "must be positive and finite")
        for key in ("initial_learning_rate", "final_learning_rate"):
            value = cast(float, getattr(self, key))
            _require(
                value <= self.learning_rate,
                f"training.{key}",
                value,
                f"must not exceed training.learning_rate={self.learning_rate}",
            )
        for key in ("beta1", "beta2", "ema_decay"):
            value = cast(float, getattr(self, key))
            _require(0 <= value < 1, f"training.{key}", value, "must be at least 0 and below 1")
        for key in ("weight_decay", "clip"):
            value = cast(float, getattr(self, key))
            _require(0 <= value < math.inf, f"training.{key}", value, "must be finite and not negative")
        _require(self.seed >= 0, "training.seed", self.seed, "must not be negative")


@dataclass(frozen=True, kw_only=True)
class SamplingConfig:
    """How the chain is run.  Paper: sec. 2.2, sec. 3.1 (Decoding), sec. 3.2; later keys: docs/decoding.md.

    `final_temperature` is that of the last step, reached in a straight line from `temperature`; -1: it does not change.
    A translator runs `candidates` chains for each of the `length_candidates` likeliest lengths, and ranks them by their
    score divided by their tokens to the power `length_normalisation`; -1: 0, but 1 if several lengths are tried.
    """

    rule: RuleName = "low-temperature"
    steps: int = 16
    temperature: float = 0.8
    schedule: ScheduleName = "all"
    share: float = 0.3
    uncertain_share: float = 0.3
    candidates: int = 1
    length_candidates: int = 1
    length_normalisation: float = -1.0
    stop_early: bool = True

    final_temperature: float = -1.0
    top_k: int = 0
    top_p: float = 1.0
    entropy_bound: float = 16.0
    stop_entropy: float = 0.5
    choice_temperature: float = 0.0
    renoise_share: float = 0.3
    renoise_doubt: float = 0.0

    def __post_init__(self) -> None:
        _require(self.steps >= 0, "sampling.steps", self.steps, "must not be negative")
        require_temperature("sampling.temperature", self.temperature)
        _require_share("sampling", share=self.share, uncertain_share=self.uncertain_share)
        _require_positive("sampling", candidates=self.candidates, length_candidates=self.length_candidates)
        _require(
            self.final_temperature in (-1, 0) or LOWEST_TEMPERATURE <= self.final_temperature <= 1000,
            "sampling.final_temperature",
            self.final_temperature,
            f"must be -1 (as sampling.temperature), 0 (argmax) or between {LOWEST_TEMPERATURE} and 1000",
        )
        _require(
            self.length_normalisation == -1 or 0 <= self.length_normalisation <= 10,
            "sampling.length_normalisation",
            self.length_normalisation,
            "must be -1 (0, but 1 if several lengths are tried) or between 0 and 10",
        )
        _require(self.top_k >= 0, "sampling.top_k", self.top_k, "must not be negative; 0 keeps all tokens")
        _require_share("sampling", top_p=self.top_p, renoise_share=self.renoise_share)
        for key in ("entropy_bound", "stop_entropy", "choice_temperature", "renoise_doubt"):
            value = cast(float, getattr(self, key))
            _require(0 <= value < math.inf, f"sampling.{key}", value, "must be finite and not negative")


@dataclass(frozen=True, kw_only=True)
class BaselineConfig:
    """How a baseline decodes: beam search or sampling for the autoregressive twin, mask-predict for the CMLM."""

    beam: int = 5
    length_normalisation: float = 1.0
    mask_predict_steps: int = 10
    length_candidates: int = 5

    def __post_init__(self) -> None:
        _require_positive(
            "baseline",
            beam=self.beam,
            mask_predict_steps=self.mask_predict_steps,
            length_candidates=self.length_candidates,
        )
        _require(
            0 <= self.length_normalisation < math.inf,
            "baseline.length_normalisation",
            self.length_normalisation,
            "must be finite and not negative",
        )


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    """Which text, cut how, in which tokens.  Paper: sec. 3.1 (Experiment Settings), sec. 3.2."""

    kind: CorpusKind = "sentences"
    tokenizer: TokenizerKind = "byte-bpe"
    description: str = ""
    source_language: str = ""
    target_language: str = ""
    training_pairs: int = 0

    def __post_init__(self) -> None:
        _require(self.training_pairs >= 0, "data.training_pairs", self.training_pairs, "must not be negative")


@dataclass(frozen=True, kw_only=True)
class FrontierConfig:
    """The sweep behind a quality/variation curve.  Paper: sec. 3.2 (Quantitative), BLEU/self-BLEU figure."""

    lowest_temperature: float = 0.1
    highest_temperature: float = 2.0
    temperatures: int = 60
    quality_samples: int = 10_000
    diversity_samples: int = 10_000

    def __post_init__(self) -> None:
        require_temperature("frontier.lowest_temperature", self.lowest_temperature)
        require_temperature("frontier.highest_temperature", self.highest_temperature)
        _require(
            self.lowest_temperature <= self.highest_temperature,
            "frontier.lowest_temperature",
            self.lowest_temperature,
            f"must not exceed frontier.highest_temperature={self.highest_temperature}",
        )
        _require_positive(
            "frontier",
            temperatures=self.temperatures,
            quality_samples=self.quality_samples,
            diversity_samples=self.diversity_samples,
        )


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """Everything that defines a run; it is written beside the weights and travels with them."""

    network: NetworkConfig = field(default_factory=NetworkConfig)
    objective: ObjectiveConfig = field(default_factory=ObjectiveConfig)
    training: TrainingConfig = field(default_factory=TrainingConfig)
    sampling: SamplingConfig = field(default_factory=SamplingConfig)
    baseline: BaselineConfig = field(default_factory=BaselineConfig)
    data: DataConfig = field(default_factory=DataConfig)
    frontier: FrontierConfig = field(default_factory=FrontierConfig)

    def __post_init__(self) -> None:
        _require(
            (self.data.kind == "parallel") == self.network.translates,
            "network.encoder_layers",
            self.network.encoder_layers,
            f"does not fit data.kind={self.data.kind}: parallel text needs an encoder, other text has no source",
        )

    def updated(self, *layers: Mapping[str, Mapping[str, object]]) -> "RunConfig":
        """This configuration with some keys of some sections replaced; later layers win.

        Each value is checked where it stands, but whether they fit together only at the end: a flag may mend a file.
        """
        known: dict[str, Any] = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        merged: dict[str, dict[str, object]] = {}
        for name, keys in (entry for layer in layers for entry in layer.items()):
            if name not in known:
                raise UsageError(f"unknown section {name!r}", why=nearest(name, known))
            if not isinstance(cast(object, keys), Mapping):
                raise UsageError(f"{name}={keys!r}", why="is a section, not a value", hint=f"{name}.KEY=VALUE")
            merged.setdefault(name, {}).update(_checked_section(name, known[name], keys))
        sections: dict[str, Any] = {name: dataclasses.replace(known[name], **keys) for name, keys in merged.items()}
        return dataclasses.replace(self, **sections)

    def to_dict(self) -> dict[str, dict[str, object]]:
        """Plain data, ready for JSON."""
        return dataclasses.asdict(self)

    def to_json(self) -> str:
        """The whole configuration as indented JSON."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False) + "\n"

    @classmethod
    def from_dict(cls, content: Mapping[str, Mapping[str, object]]) -> "RunConfig":
        """The inverse of `to_dict`; missing keys take their defaults, unknown ones are an error."""
        if not isinstance(cast(object, content), Mapping):
            raise UsageError("the configuration is not an object with sections", hint='{"network": {"width": 512}}')
        return cls().updated(content)


def _checked_section(name: str, section: Any, keys: Mapping[str, object]) -> dict[str, object]:
    types = get_type_hints(section.__class__)
    for key in keys:
        if key not in types:
            raise UsageError(f"unknown key {name}.{key}", why=nearest(key, types))
    return {key: _checked(f"{name}.{key}", value, types[key]) for key, value in keys.items()}


def nearest(word: str, known: Iterable[str]) -> str:
    """A hint for a name that does not exist."""
    known = sorted(known)
    close = difflib.get_close_matches(word, known, n=1, cutoff=0.5)
    return f"did you mean {close[0]!r}?" if close else f"known are {', '.join(known)}"


def _checked(key: str, value: object, wanted: Any) -> object:
    """`value` as `wanted`, or an error that names the key; text is parsed, so flags and TOML agree."""
    if isinstance(value, Mapping):
        raise UsageError(key, why="is a value, not a section", hint=f"{key}=VALUE")
    if get_origin(wanted) is Literal:
        choices = get_args(wanted)
        if value not in choices:
            raise UsageError(f"{key}={value}", why=f"must be one of {', '.join(choices)}")
        return value
    if get_origin(wanted) is tuple:
        bare = value.strip("[] ") if isinstance(value, str) else None
        listed = value if bare is None else bare.split(",") if bare else []
        if not isinstance(listed, list | tuple):
            raise UsageError(f"{key}={value}", why="must be a list of numbers, such as 0.25,0.75")
        items = cast(list[object], listed)
        return tuple(_checked(key, item, float) for item in items)
    if wanted is bool and value in ("true", "false"):
        return value == "true"
    if isinstance(value, str) and wanted in (int, float):
        try:
            value = float(value) if wanted is float else int(value.replace("_", ""))
        except ValueError:
            raise UsageError(f"{key}={value}", why=f"must be {_NAMES[wanted]}") from None
    if isinstance(value, int) and not -_TOO_LARGE < value < _TOO_LARGE:
        raise UsageError(key, why="is too large a number")  # unnamed: Python may refuse to print it
    if wanted is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if not isinstance(value, wanted) or (isinstance(value, bool) and wanted is not bool):
        raise UsageError(f"{key}={value}", why=f"must be {_NAMES[wanted]}")
    if isinstance(value, float) and not math.isfinite(value):
        raise UsageError(f"{key}={value}", why="must be a finite number")
    if isinstance(value, str) and any("\ud800" <= character <= "\udfff" for character in value):
        raise UsageError(f"{key}={value!a}", why="is not Unicode text, so it could not be saved")
    return value


_TOO_LARGE = 1 << 63  # what a tensor and a seed can hold
_NAMES: dict[Any, str] = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}


def read_config(path: Path) -> RunConfig:
    """The configuration that lies beside a model's weights, or in a run's folder."""
    try:
        return RunConfig.from_dict(json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        raise DataError(f"{path.parent} is neither a model nor a run", why=f"it has no {path.name}") from None
    except OSError as error:
        raise DataError(f"cannot read {path}", why=error.strerror or str(error)) from None
    except (ValueError, RecursionError, UsageError) as error:
        raise DataError(f"{path} is damaged", why=str(error)) from None


def read_toml(path: Path) -> dict[str, dict[str, object]]:
    """The changes that a TOML file asks for."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise DataError(f"cannot read {path}", why=error.strerror or str(error)) from None
    except (ValueError, RecursionError) as error:  # bad syntax, bad UTF-8, absurdly long numbers or deep nesting
        raise DataError(f"{path} is not valid TOML", why=str(error)) from None


def parse_overrides(overrides: Iterable[str]) -> dict[str, dict[str, object]]:
    """`["network.width=512", ...]` as nested changes."""
    changes: dict[str, dict[str, object]] = {}
    for override in overrides:
        path, equals, value = override.partition("=")
        section, dot, key = path.partition(".")
        if not (equals and dot and key):
            raise UsageError(
                f"cannot read {override!r}", why="an override is SECTION.KEY=VALUE", hint="network.width=512"
            )
        changes.setdefault(section, {})[key] = value
    return changes
