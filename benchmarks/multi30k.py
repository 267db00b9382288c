"""Multi30k English to German (lower-cased, tokenised): train, choose on validation, report on test once.

    python benchmarks/multi30k.py DATA --work DIR [--threads 1]

DATA holds multi30k/tok/ with train, val, test_2016_flickr and test_2017_flickr (hub: bentrevett/multi30k).  The work
folder holds the corpus, the runs and the reports; the same command goes on where it stopped.
"""

import argparse
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import torch

from sundae.config import BaselineConfig
from sundae.measure.bleu import bleu_interval
from sundae.measure.evaluation import translation_table
from sundae.measure.report import Table, make_report
from sundae.model import AutoregressiveTwin, load_model

VOCABULARY = 6000
# The second phase starts from the first one's weights with a high rate again.
TWIN_PHASES = {
    "ar": [],
    "ar-2": ["training.learning_rate=1.5e-3", "training.warmup_steps=200", "training.steps=9000"],
}
NORMALISATIONS = (0.6, 0.8, 1.0, 1.2, 1.4)


def lines(data: Path, split: str, language: str) -> list[str]:
    path = data / "multi30k" / "tok" / f"{split}.lc.norm.tok.{language}"
    return path.read_text(encoding="utf-8").splitlines()


def sundae(*arguments: object) -> None:
    subprocess.run([sys.executable, "-m", "sundae", *map(str, arguments)], check=True)


def prepare(data: Path, work: Path) -> Path:
    corpus, tok = work / "ende", data / "multi30k" / "tok"
    if not corpus.exists():
        train, validation = ([tok / f"{s}.lc.norm.tok.{x}" for x in ("en", "de")] for s in ("train", "val"))
        common = ["--vocabulary", VOCABULARY, "--canvas", 64, "--validation-from", *validation]
        sundae("prepare", "parallel", *train, "--out", corpus, *common)
    return corpus


def evaluate_twin(folder: Path, data: Path) -> list[Table]:
    """Greedy and beam search; how much length counts is chosen on validation."""
    model = load_model(folder)
    assert isinstance(model, AutoregressiveTwin)

    def score(split: str, settings: BaselineConfig) -> tuple[list, list[str]]:
        sources = lines(data, split, "en")
        written = model.translate(sources, baseline=settings)
        return written, lines(data, split, "de")

    rows, best, best_score, signature = [], BaselineConfig(beam=1), -1.0, ""
    for settings in (BaselineConfig(beam=1), *(BaselineConfig(beam=5, length_normalisation=n) for n in NORMALISATIONS)):
        written, references = score("val", settings)
        bleu = bleu_interval([each.text for each in written], references=references, tokenised=True)
        signature = bleu.signature
        rows.append(
            {
                "beam": settings.beam,
                "length normalisation": settings.length_normalisation if settings.beam > 1 else None,
                "validation BLEU (lc, tok)": bleu.score,
            }
        )
        if settings.beam > 1 and bleu.score.value > best_score:
            best, best_score = settings, bleu.score.value
    tables = [Table("Autoregressive twin on validation", rows, f"signature {signature}")]
    for split in ("test_2016_flickr", "test_2017_flickr"):
        for settings in (replace(best, beam=1), best):
            written, references = score(split, settings)
            table = translation_table(written, references=references, tokenised=True)
            how = "greedy" if settings.beam == 1 else f"beam 5, length normalisation {settings.length_normalisation}"
            tables.append(replace(table, title=f"{split}, {how}"))
    return tables


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    arguments.work.mkdir(parents=True, exist_ok=True)
    corpus = prepare(arguments.data, arguments.work)
    before = None
    for name, changes in TWIN_PHASES.items():
        run = arguments.work / name
        if not (run / "model").exists():
            start = [] if before is None else ["--init", before / "model"]
            common = ["--data", corpus, "--out", run, "--threads", arguments.threads]
            sundae("train", "multi30k-ar", *common, *start, *changes)
        before = run
        if not (arguments.work / "reports" / f"{name}.json").exists():
            tables, config = evaluate_twin(run / "model", arguments.data), load_model(run / "model").config
            title = f"Multi30k English-German, autoregressive twin, {name}"
            report = make_report(title, tables=tables, seed=config.training.seed, config=config.to_dict())
            report.write(arguments.work / "reports", name=name)
            print(report.markdown())


if __name__ == "__main__":
    main()
