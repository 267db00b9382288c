"""Models on disk: a folder that holds all that a model needs, written whole or not at all."""

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from sundae.config import RunConfig, read_config
from sundae.errors import CapabilityError, DataError, UsageError
from sundae.files import take_place, write_whole
from sundae.text.tokenizer import Tokenizer, load_tokenizer

SHIPPED = Path(__file__).parent / "models"
"""Small trained models that come with the package, one folder each."""
_KINDS = {
    "sundae": "A SUNDAE model",
    "autoregressive": "An autoregressive twin of a SUNDAE model",
    "cmlm": "A conditional masked language model, beside SUNDAE",
}
FILES = ("config.json", "model.safetensors", "tokenizer.json", "README.md")


@dataclass(frozen=True)
class ModelFolder:
    """What a model folder holds."""

    config: RunConfig
    weights: dict[str, Tensor]
    tokenizer: Tokenizer


def read_model(name: str | Path) -> ModelFolder:
    """A model folder, the name of one that ships, or with the `hub` extra the id of a repository of such files."""
    folder = Path(name)
    if not folder.is_dir():
        folder = shipped_models().get(str(name)) or _download(str(name))
    try:
        config = read_config(folder / "config.json")
        # Read, not mapped: a mapped file that somebody cuts short would kill the process.
        weights = load((folder / "model.safetensors").read_bytes())
    except FileNotFoundError as error:
        inside = folder / "model"
        hint = str(inside) if (inside / "model.safetensors").is_file() else ""
        raise DataError(
            f"{folder} is not a model folder", why=f"it has no {Path(error.filename).name}", hint=hint
        ) from None
    except (OSError, ValueError, SafetensorError) as error:
        raise DataError(f"cannot load the model in {folder}", why=str(error)) from None
    tokenizer = load_tokenizer(folder / "tokenizer.json")
    require_fit(tokenizer, config)
    return ModelFolder(config, {key: value.float() for key, value in weights.items()}, tokenizer)


def shipped_models() -> dict[str, Path]:
    """The models that come with the package, by name."""
    return {path.parent.name: path.parent for path in sorted(SHIPPED.glob("*/config.json"))}


def require_fit(tokenizer: Tokenizer, config: RunConfig) -> None:
    """Refuse a tokenizer that the network was not made for."""
    if tokenizer.vocabulary_size != config.network.vocabulary_size:
        raise DataError(
            f"the tokenizer has {tokenizer.vocabulary_size} tokens",
            why=f"the network was made for network.vocabulary_size={config.network.vocabulary_size}",
        )


def write_model(
    folder: Path, model: ModelFolder, *, card: str = "", dtype: torch.dtype = torch.float32, force: bool = False
) -> None:
    """Write a self-contained model folder."""
    if folder.exists() and not force:
        raise UsageError(f"{folder} exists", why="a model is never overwritten by accident", hint="--force")
    temporary = folder.with_name(f".writing-{folder.name}-{os.getpid()}")
    shutil.rmtree(temporary, ignore_errors=True)
    try:
        temporary.mkdir(parents=True)
        (temporary / "config.json").write_text(model.config.to_json(), encoding="utf-8")
        weights = {name: weight.to(dtype).contiguous() for name, weight in model.weights.items()}
        # Not by `save_file`, whose files only their owner may read.
        write_whole(temporary / "model.safetensors", save(weights, metadata={"format": "pt"}))
        model.tokenizer.save(temporary / "tokenizer.json")
        (temporary / "README.md").write_text(card or model_card(model.config), encoding="utf-8")
        take_place(temporary, folder)
    except (OSError, SafetensorError) as error:
        shutil.rmtree(temporary, ignore_errors=True)
        raise DataError(f"cannot write the model to {folder}", why=str(error)) from None


def model_card(config: RunConfig, *, notes: str = "") -> str:
    """A short README for a model folder."""
    network = config.network
    layers = f"{network.encoder_layers}+{network.decoder_layers}" if network.translates else str(network.decoder_layers)
    uses = ["`load_model(DIR)` of `sundae.model` in Python"]
    if network.translates:
        uses.insert(0, '`sundae translate "..." --model DIR`')
    elif network.kind == "sundae":
        uses[:0] = ["`sundae generate --model DIR`", '`sundae fill "..." --model DIR`']
    languages = config.data.source_language, config.data.target_language
    way = " ({} to {})".format(*languages) if network.translates and all(languages) else ""
    return f"""# {_KINDS[network.kind]}

Written by Sundae, the implementation of *Step-unrolled Denoising Autoencoders for Text Generation* (ICLR 2022).

| | |
|---|---|
| layers, width, hidden, heads | {layers}, {network.width}, {network.hidden}, {network.heads} |
| vocabulary, canvas | {network.vocabulary_size} ({config.data.tokenizer}), {network.canvas} |
| unrolled steps | {config.objective.unroll_steps} |
| updates, batch size | {config.training.steps}, {config.training.batch_tokens or config.training.batch_size} |
| data | {config.data.description or "not described"}{way} |

{notes}
Use: {", or ".join(uses)}.
"""


def _download(name: str) -> Path:
    if name.count("/") != 1 or name.startswith((".", "/", "~")):
        names = ", ".join(shipped_models())
        raise DataError(
            f"there is no model {name!r}",
            why="it is no folder" + (f", and those that ship are {names}" if names else ""),
            hint="the path of a model folder",
        )
    try:
        from huggingface_hub import snapshot_download
    except ImportError:
        raise CapabilityError(
            f"there is no folder {name!r}",
            why="and to look it up on a hub needs an extra",
            hint="pip install 'sundae[hub]'",
        ) from None
    try:
        return Path(snapshot_download(name, allow_patterns=list(FILES)))
    except Exception as error:  # the hub's client raises many kinds, network errors among them
        why = f"nor can it be got from the hub: {str(error).splitlines()[0]}"
        raise DataError(f"there is no folder {name!r}", why=why, hint="the path of a model folder") from None
