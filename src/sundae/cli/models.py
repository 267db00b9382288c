"""`sundae models`."""

import json
import sys
from dataclasses import dataclass

from sundae.config import read_config


@dataclass(frozen=True)
class Command:
    """The models that ship with the package; each name can be given as --model."""

    json: bool = False
    """Print JSON."""

    def run(self) -> None:
        """One line for each model."""
        from sundae.folder import shipped_models

        found: list[dict[str, object]] = []
        for name, folder in shipped_models().items():
            config = read_config(folder / "config.json")
            megabytes = round((folder / "model.safetensors").stat().st_size / 1e6, 1)
            about = {"kind": config.network.kind, "canvas": config.network.canvas, "data": config.data.description}
            if config.network.translates:
                about |= {"from": config.data.source_language, "to": config.data.target_language}
            found.append({"name": name, "megabytes": megabytes, **about})
        if not found:
            sys.stderr.write("no model ships with this version\n")
        if self.json:
            sys.stdout.write(json.dumps(found, indent=2, ensure_ascii=False) + "\n")
        for each in () if self.json else found:
            languages = "translates {from} to {to}, ".format(**each) if "from" in each else ""
            size = "{name:<16}{megabytes:>5} MB  {kind}, ".format(**each)
            sys.stdout.write(size + languages + "{canvas} tokens: {data}\n".format(**each))
