"""Everyday sentences, English-German and back: SUNDAE (raw and distilled) and its autoregressive twin on Tatoeba.

    python benchmarks/tatoeba.py DATA --work DIR [--only ende-ar ende ...]

DATA holds tatoeba_anki/deu-eng/deu.txt (manythings.org/anki), tatoeba_challenge/test.deu-eng.tsv and wmt_en_de/.  Pairs
are split by their English side, which often has several translations; a pair whose German side stands in a held-out
part, or either of whose sides stands in the Challenge's test set, is not trained on.  newstest2014 (the 2,737 pairs of
the filtered file, entities unescaped, detokenised) is a probe far from the training text.  The twins come first, and
SUNDAE starts from their weights, on the pairs (raw).  From SUNDAE's weights a second left-to-right model is trained,
the teacher, and on its translations SUNDAE goes on (distilled).
"""

import html
import re
from functools import cached_property
from pathlib import Path
from zlib import crc32

from translation_bench import Bench, run
from translation_runs import Run

VOCABULARY = 8000
ABOUT = "Tatoeba, short everyday sentences (tatoeba.org, manythings.org/anki; CC BY 2.0 FR)"
HELD_OUT = {"val": range(10), "test": range(10, 25)}
"""Of a thousand parts of the English sides."""
FROM_TWIN = ["training.steps=8000", "training.warmup_steps=200", "objective.plain_share=0.25"]
"""SUNDAE starts from the twin's weights: by itself it learns far more slowly to read its source (docs/log.md)."""
SHIFTED = ["network.shifted=true", "training.learning_rate=2.5e-3"]
"""Wired as its twin: a better start and about the same end.  The models that ship were trained as their runs say."""
CLOSE = ["network.canvas_unit=2", "training.batch_tokens=720"]
"""Canvases that fit their text, with about as many sentences in an update."""
GOING_ON = ["training.warmup_steps=200", "training.learning_rate=2.5e-3"]
"""From weights that know both languages well, at half of the twins' rate."""
TEACHER = ["training.steps=8000", *GOING_ON]
"""A left-to-right model, from SUNDAE's weights."""
DISTILLED = ["training.steps=16000", *GOING_ON, *CLOSE, "objective.plain_share=0.0", "objective.label_smoothing=0.0"]
"""On a teacher's translations: there is one for each sentence, and it is the likeliest."""
RUNS: dict[str, Run] = {
    "ende-ar": Run("tatoeba", "ende", network="autoregressive"),
    "deen-ar": Run("tatoeba", "deen", network="autoregressive"),
    "ende": Run("tatoeba", "ende", FROM_TWIN, after="ende-ar", watched=200),
    "deen": Run("tatoeba", "deen", [*FROM_TWIN, *SHIFTED], after="deen-ar", watched=200),
    "ende-teacher": Run("tatoeba", "ende", TEACHER, after="ende", network="autoregressive"),
    "deen-teacher": Run("tatoeba", "deen", TEACHER, after="deen", network="autoregressive"),
    "ende-distilled": Run("tatoeba", "ende-distilled", DISTILLED, after="ende", watched=200),
    "deen-distilled": Run("tatoeba", "deen-distilled", [*DISTILLED, "network.shifted=true"], after="deen", watched=200),
    # The distilled models as they ship, in half precision.
    "english-german": Run("tatoeba", "ende", ships="english-german", wide=False),
    "german-english": Run("tatoeba", "deen", ships="german-english", wide=False),
}
CLAIMS = [
    ("ende", "ende-ar"),
    ("deen", "deen-ar"),
    ("ende-distilled", "ende-teacher"),
    ("deen-distilled", "deen-teacher"),
    ("ende-distilled", "ende-ar"),
    ("deen-distilled", "deen-ar"),
    ("ende-distilled", "ende"),
    ("deen-distilled", "deen"),
    ("english-german", "ende-teacher"),
    ("german-english", "deen-teacher"),
    ("english-german", "ende-ar"),
    ("german-english", "deen-ar"),
    ("english-german", "ende-distilled"),
    ("german-english", "deen-distilled"),
]


class Tatoeba(Bench):
    """Pairs of short sentences."""

    title, runs, tests, claimed = "Tatoeba", RUNS, ("test",), CLAIMS
    probes = ("newstest2014",)
    drawn = {each: each for each in ("ende", "ende-distilled", "deen", "deen-distilled")}  # noqa: RUF012

    @cached_property
    def splits(self) -> dict[str, list[tuple[str, str]]]:
        """English and German."""
        table = (self.data / "tatoeba_anki" / "deu-eng" / "deu.txt").read_text(encoding="utf-8")
        pairs = [(english, german) for english, german in (line.split("\t")[:2] for line in table.splitlines())]
        found: dict[str, list[tuple[str, str]]] = {"train": [], "val": [], "test": []}
        for pair in pairs:
            part = crc32(pair[0].encode()) % 1000
            found[next((name for name, own in HELD_OUT.items() if part in own), "train")].append(pair)
        challenge = (self.data / "tatoeba_challenge" / "test.deu-eng.tsv").read_text(encoding="utf-8").splitlines()
        kept_out = {text.strip() for line in challenge for text in line.split("\t")[2:4]}
        kept_out |= {german for name in HELD_OUT for _, german in found[name]}
        found["train"] = [pair for pair in found["train"] if not kept_out & set(pair)]
        # One of several translations of the same English sentence is enough of a reference.
        for name in HELD_OUT:
            found[name] = list({english: (english, german) for english, german in found[name]}.values())
        return found

    def lines(self, corpus: str, split: str) -> tuple[list[str], list[str]]:
        if split == "newstest2014":
            english, german = (self._news(language) for language in ("en", "de"))
        else:
            english, german = ([pair[side] for pair in self.splits[split]] for side in (0, 1))
        return (english, german) if corpus.startswith("ende") else (german, english)

    def _news(self, language: str) -> list[str]:
        path = self.data / "wmt_en_de" / f"newstest2014.tok.{language}"
        return [detokenised(html.unescape(line)) for line in path.read_text(encoding="utf-8").splitlines()]

    def tokenised(self, corpus: str) -> bool:  # noqa: ARG002
        return False

    def prepare(self, corpus: str, folder: Path) -> None:
        if corpus.endswith("-distilled"):
            direct = corpus.removesuffix("-distilled")
            self.distil(direct, teacher=f"{direct}-teacher", to=folder, beam=1)  # five would take three times as long
            return
        held_out = ["--validation-from", *self.pair_files(corpus, "val")]
        about = ["--description", ABOUT, "--languages", "en,de" if corpus == "ende" else "de,en"]
        common = ["--vocabulary", VOCABULARY, "--canvas", 48, *about, *held_out]
        self.sundae("prepare", "parallel", *self.pair_files(corpus, "train"), "--out", folder, *common)


def detokenised(line: str) -> str:
    """Text as people write it, from tokens: marks of punctuation go back to their words."""
    quotes = iter(range(line.count('"')))
    line = re.sub(r'\s*"\s*', lambda _: ' "' if next(quotes) % 2 == 0 else '" ', line)
    line = re.sub(r"\s+([.,;:!?%)\]\u201d\u201c])", r"\1", line)
    line = re.sub(r"([(\[\u201e])\s+", r"\1", line)
    line = re.sub(r"\s+('(?:s|re|ve|ll|d|m|t)\b|n't\b)", r"\1", line)
    return " ".join(re.sub(r"\s*@-@\s*", "-", line).split())


if __name__ == "__main__":
    run(Tatoeba, about=__doc__)
