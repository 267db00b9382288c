"""`sundae info PRESET|DIR`."""

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from sundae.config import NetworkConfig, RunConfig, parse_overrides, read_config, read_toml
from sundae.presets import PRESETS, preset


@dataclass(frozen=True)
class Command:
    """Show a preset, a model or a run: every setting and the number of parameters."""

    preset: Annotated[Positional[str], arg(metavar="[PRESET|MODEL|DIR]")] = ""
    """Name of a preset or of a model that ships, or a folder of a model or run; without it, all presets are listed."""
    overrides: Annotated[Positional[tuple[str, ...]], arg(metavar="[SECTION.KEY=VALUE ...]")] = ()
    """Changes to the preset, such as network.width=512."""
    config: Annotated[Path | None, arg(metavar="FILE")] = None
    """A TOML file with changes to the preset."""
    json: bool = False
    """Print JSON."""

    def run(self) -> None:
        """Print to standard output."""
        if not self.preset:
            self._list()
            return
        base, summary = self._named()
        from_file = {} if self.config is None else read_toml(self.config)
        config = base.updated(from_file, parse_overrides(self.overrides))
        parameters = count_parameters(config.network)
        if self.json:
            content = {"preset": self.preset, "parameters": parameters, "config": config.to_dict()}
            sys.stdout.write(json.dumps(content, indent=2) + "\n")
            return
        sys.stdout.write(f"{self.preset}: {summary}\n")
        sys.stdout.write(f"parameters: {parameters['total']:,}\n")
        for part, count in parameters.items():
            if part != "total":
                sys.stdout.write(f"  {part:<18}{count:>13,}\n")
        for section, keys in config.to_dict().items():
            sys.stdout.write(f"\n[{section}]\n")
            for key, value in keys.items():
                sys.stdout.write(f"{key} = {json.dumps(value)}\n")

    def _named(self) -> tuple[RunConfig, str]:
        from sundae.folder import shipped_models

        folder = shipped_models().get(self.preset, Path(self.preset))
        if self.preset in PRESETS or not folder.is_dir():
            return preset(self.preset), PRESETS[self.preset].summary
        config = read_config(folder / "config.json")
        return config, config.data.description or f"trained on {config.data.kind}"

    def _list(self) -> None:
        if self.json:
            sys.stdout.write(json.dumps({name: entry.summary for name, entry in PRESETS.items()}, indent=2) + "\n")
            return
        for name, entry in PRESETS.items():
            sys.stdout.write(f"{name:<28}{entry.summary}\n")


def count_parameters(network: NetworkConfig) -> dict[str, int]:
    """Parameters of each part of the network, counted on the real module without allocating it."""
    import torch

    from sundae.baselines.kinds import build_network

    with torch.device("meta"):
        model = build_network(network)
    parts = {name: sum(p.numel() for p in part.parameters()) for name, part in model.named_children()}
    own = sum(p.numel() for p in model.parameters(recurse=False))
    return {"total": sum(parts.values()) + own} | {name: count for name, count in parts.items() if count}
