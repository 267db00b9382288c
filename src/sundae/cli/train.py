"""`sundae train PRESET --data DIR --out RUN`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from sundae.config import NetworkKind, RunConfig, parse_overrides, read_toml
from sundae.presets import preset


@dataclass(frozen=True)
class Command:
    """Train a model on a prepared corpus; the same command again goes on where it stopped."""

    preset: Annotated[Positional[str], arg(metavar="PRESET")]
    """Name of a preset (`sundae info` lists them)."""
    data: Annotated[Path, arg(metavar="DIR")]
    """A corpus that `sundae prepare` has made."""
    out: Annotated[Path, arg(metavar="RUN")]
    """The run's folder: configuration, log, checkpoints, and at the end the model."""
    overrides: Annotated[Positional[tuple[str, ...]], arg(metavar="[SECTION.KEY=VALUE ...]")] = ()
    """Changes to the preset, such as training.steps=2000."""
    network: NetworkKind | None = None
    """What to train on the same blocks and data: sundae, or a baseline (as the preset says)."""
    config: Annotated[Path | None, arg(metavar="FILE")] = None
    """A TOML file with changes to the preset."""
    init: Annotated[str | None, arg(metavar="MODEL")] = None
    """Start from a model's weights (of its autoregressive twin, those that fit); the corpus must use its tokenizer."""
    force: bool = False
    """Remove an earlier run in the same folder and start anew."""
    threads: Annotated[int, arg(metavar="N")] = 0
    """CPU threads; 0 is OMP_NUM_THREADS, or as many as there are cores."""
    samples: Annotated[int, arg(metavar="N")] = 4
    """Texts to write into the log at every validation."""
    bleu: Annotated[int, arg(metavar="N")] = 0
    """Translate so many validation sentences at every validation and log their BLEU (extra `measure`)."""
    tensorboard: bool = False
    """Log for TensorBoard too."""
    quiet: Annotated[bool, arg(aliases=["-q"])] = False
    """No progress."""

    def run(self) -> None:
        """Train to the last step and write RUN/model."""
        from sundae.cli.training_run import run_training

        run_training(self)

    def resolve(self, facts: dict[str, dict[str, object]]) -> RunConfig:
        """The run's configuration: defaults < preset < the corpus' facts < TOML < overrides."""
        layers = [facts]
        if self.config is not None:
            layers.append(read_toml(self.config))
        layers.append(parse_overrides(self.overrides))
        if self.network is not None:
            layers.append({"network": {"kind": self.network}})
        return preset(self.preset).updated(*layers)
