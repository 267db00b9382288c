"""Small corpora for tests, made on the fly."""

import random
from pathlib import Path

from sundae.text.corpus import Corpus
from sundae.text.prepare import prepare
from sundae.text.recipe import Recipe

WORDS = tuple("the cat dog bird sees hears likes a big small red old house tree river".split())  # noqa: SIM905


def sentences(count: int, *, seed: int = 0) -> list[str]:
    chooser = random.Random(seed)
    return [" ".join(chooser.choices(WORDS, k=chooser.randint(2, 8))) for _ in range(count)]


def sentence_corpus(folder: Path, *, count: int = 400, seed: int = 0) -> Corpus:
    text = folder / "text.txt"
    text.write_text("\n".join(sentences(count, seed=seed)) + "\n", encoding="utf-8")
    return prepare(
        Recipe(kind="sentences", inputs=(text,), out=folder / "corpus", vocabulary=300, canvas=12, validation="40")
    )


def crop_corpus(folder: Path) -> Corpus:
    text = folder / "text.txt"
    text.write_text(" ".join(sentences(400)), encoding="utf-8")
    return prepare(Recipe(kind="crops", inputs=(text,), out=folder / "corpus", vocabulary=290, validation="0"))


def parallel_corpus(folder: Path, *, count: int = 200) -> Corpus:
    table = folder / "pairs.tsv"
    lines = [f"{line}\t{' '.join(reversed(line.split()))}" for line in sentences(count)]
    table.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return prepare(
        Recipe(kind="parallel", inputs=(table,), out=folder / "corpus", vocabulary=300, canvas=24, validation="20")
    )
