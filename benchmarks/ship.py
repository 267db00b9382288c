"""A trained model as one that ships: half precision, with its card.

    python benchmarks/ship.py RUN/model NAME --card CARD.md [sampling.temperature=0.8 ...]

The card holds what the script cannot know: data, attribution, commands, metrics and samples as they came.  Changes are
to how the model samples, which is chosen after training.
"""

import argparse
from pathlib import Path

import torch

from sundae.config import parse_overrides
from sundae.folder import SHIPPED
from sundae.model import as_model, load_model, save_model

MOST_BYTES = 20_000_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("name")
    parser.add_argument("--card", type=Path, required=True)
    parser.add_argument("--force", action="store_true")
    parser.add_argument("changes", nargs="*")
    arguments = parser.parse_intermixed_args()
    folder = SHIPPED / arguments.name
    card = arguments.card.read_text(encoding="utf-8")
    found = load_model(arguments.model)
    config = found.config.updated(parse_overrides(arguments.changes))
    model = as_model(found.network, found.tokenizer, config)
    save_model(model, folder, card=card, dtype=torch.float16, force=arguments.force)
    size = sum(path.stat().st_size for path in folder.iterdir())
    print(f"{folder}: {size:,} bytes")
    if size > MOST_BYTES:
        raise SystemExit(f"more than {MOST_BYTES:,} bytes")


if __name__ == "__main__":
    main()
