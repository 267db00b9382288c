"""A trained model as one that ships: half precision, with its card.

    python benchmarks/ship.py RUN/model NAME --card CARD.md

The card holds what the script cannot know: data, attribution, commands, metrics and samples as they came.
"""

import argparse
from pathlib import Path

import torch

from sundae.folder import SHIPPED
from sundae.model import load_model, save_model

MOST_BYTES = 20_000_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("name")
    parser.add_argument("--card", type=Path, required=True)
    parser.add_argument("--force", action="store_true")
    arguments = parser.parse_args()
    folder = SHIPPED / arguments.name
    card = arguments.card.read_text(encoding="utf-8")
    save_model(load_model(arguments.model), folder, card=card, dtype=torch.float16, force=arguments.force)
    size = sum(path.stat().st_size for path in folder.iterdir())
    print(f"{folder}: {size:,} bytes")
    if size > MOST_BYTES:
        raise SystemExit(f"more than {MOST_BYTES:,} bytes")


if __name__ == "__main__":
    main()
