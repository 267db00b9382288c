"""How fast BLEU against a test set and self-BLEU are, and whether they give the published figures.

    python benchmarks/self_bleu.py                      # made-up sentences
    python benchmarks/self_bleu.py --data FOLDER        # Image COCO, and the figures that were published for six models

FOLDER holds `coco_captions` (gfs.valid.txt, texygen_samples/) and `metric_golden` (golden_bleu5.tsv).  All sides score
the same sentences, orders 2 to 5, in one thread, and must agree.  NLTK's time grows with samples times references, so
it is compared on a few sentences; `fast-bleu` (C++) joins where it is installed.  The promise is 10 s for 10,000
sentences.
"""

import argparse
import csv
import os
import sys
from collections.abc import Callable
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = "1"  # before any library reads it

import numpy as np

from sundae.measure.ngram_bleu import ORDERS, bleu_against, self_bleu
from sundae.measure.report import Table, make_report
from sundae.measure.speed import SpeedComparison, Work, compare_speed

PROMISE = 10.0
WEIGHTS = {order: (1 / order,) * order for order in ORDERS}
FILES = {"seqgan": "seq", "rankgan": "rank"}  # the others are called like their model
AGREEMENT = {"sundae": 0.0, "nltk": 1e-9, "fast-bleu": 1e-6}  # the last has weights in single precision
# Scores by order, first against the references, then among the samples.
Scores = tuple[dict[int, list[float]], dict[int, list[float]]]
Measure = Callable[[list[str], list[str]], Scores]


def ours(samples: list[str], references: list[str]) -> Scores:
    found = bleu_against(samples, references=references), self_bleu(samples)
    quality, sameness = ({order: scores.scores[order].tolist() for order in ORDERS} for scores in found)
    return quality, sameness


def nltk(samples: list[str], references: list[str]) -> Scores:
    from nltk.translate.bleu_score import SmoothingFunction, sentence_bleu

    smooth = SmoothingFunction().method1
    tokens, real = [text.split() for text in samples], [text.split() for text in references]

    def all_orders(against: list[list[str]], hypothesis: list[str]) -> list[float]:
        scores = sentence_bleu(against, hypothesis, list(WEIGHTS.values()), smooth)  # one pass for all orders
        return list(scores)  # pyright: ignore[reportArgumentType]

    quality = [all_orders(real, hypothesis) for hypothesis in tokens]
    sameness = [all_orders(tokens[:i] + tokens[i + 1 :], hypothesis) for i, hypothesis in enumerate(tokens)]
    return tuple(
        {order: [row[column] for row in rows] for column, order in enumerate(ORDERS)} for rows in (quality, sameness)
    )  # pyright: ignore[reportReturnType]


def fast_bleu(samples: list[str], references: list[str]) -> Scores:
    from fast_bleu import BLEU, SelfBLEU  # pyright: ignore[reportMissingImports]

    tokens, real = [text.split() for text in samples], [text.split() for text in references]
    return BLEU(real, WEIGHTS).get_score(tokens), SelfBLEU(tokens, WEIGHTS).get_score()


def missing(package: str) -> str:
    """Why a side cannot take part, or nothing."""
    try:
        __import__(package)
    except (ImportError, OSError) as problem:
        return f"{package} is left out: {problem}."
    return ""


def make_sentences(count: int, *, seed: int) -> list[str]:
    """Captions without sense: as long as COCO's, with words as unevenly used."""
    draw = np.random.default_rng(seed)
    lengths = np.clip(draw.normal(11.3, 2.5, count).round().astype(int), 5, 40)
    words = [f"w{rank}" for rank in draw.zipf(1.35, int(lengths.sum())) % 4700]
    ends = np.cumsum(lengths)
    return [" ".join(words[end - length : end]) for end, length in zip(ends, lengths, strict=True)]


def read_lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


def race(measures: dict[str, Measure], samples: list[str], references: list[str], *, repeats: int) -> SpeedComparison:
    """Time all measures on the same sentences, against the last of them; all must agree on every sentence."""
    tokens = sum(len(text.split()) for text in samples)
    results: dict[str, Scores] = {}

    def side(name: str) -> Callable[[], Work]:
        def run() -> Work:
            results[name] = measures[name](samples, references)
            return Work(tokens=tokens)

        return run

    found = compare_speed({name: side(name) for name in measures}, baseline=list(measures)[-1], repeats=repeats)
    for name, scores in results.items():
        for mine, theirs in zip(results["sundae"], scores, strict=True):
            for order in ORDERS:
                apart = np.abs(np.array(mine[order]) - np.array(theirs[order])).max()
                if apart > AGREEMENT[name]:
                    sys.exit(f"{name} and sundae differ by {apart:.2g} in BLEU-{order}")
    return found


def golden_table(folder: Path) -> Table:
    lines = [line for line in read_lines(folder / "metric_golden" / "golden_bleu5.tsv") if not line.startswith("#")]
    references = read_lines(folder / "coco_captions" / "gfs.valid.txt")
    rows: list[dict[str, str | int | float]] = []
    for known in csv.DictReader(lines, delimiter="\t"):
        name = known["model"]
        samples = read_lines(folder / "coco_captions" / "texygen_samples" / f"{FILES.get(name, name)}.txt")
        quality, sameness = bleu_against(samples, references=references).mean(5), self_bleu(samples).mean(5)
        published = float(known["published_bleu5"]), float(known["published_selfbleu5"])
        rows.append(
            {
                "model": name,
                "samples": len(samples),
                "BLEU-5": f"{quality:.4f}",
                "published BLEU-5": f"{published[0]:.3f}",
                "self-BLEU-5": f"{sameness:.4f}",
                "published self-BLEU-5": f"{published[1]:.3f}",
                "largest difference": f"{max(abs(quality - published[0]), abs(sameness - published[1])):.4f}",
            }
        )
    return Table("Published samples, Image COCO", rows, f"References: all {len(references):,} test captions.")


def main() -> None:
    """Print a report; the exit code says whether the promise holds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="the folder of corpora; without it sentences are made up")
    parser.add_argument("--sentences", type=int, default=10_000)
    parser.add_argument("--few", type=int, default=100, help="sentences of the comparison with NLTK")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0, help="of the made-up sentences")
    parser.add_argument("--out", type=Path, help="also write the report into this folder")
    options = parser.parse_args()

    if options.data:
        samples = read_lines(options.data / "coco_captions" / "texygen_samples" / "mle.txt")[: options.sentences]
        references = read_lines(options.data / "coco_captions" / "gfs.valid.txt")[: options.sentences]
    else:
        samples = make_sentences(options.sentences, seed=options.seed)
        references = make_sentences(options.sentences, seed=options.seed + 1)
    without = missing("fast_bleu")
    measures: dict[str, Measure] = {"sundae": ours} if without else {"sundae": ours, "fast-bleu": fast_bleu}
    few = race({**measures, "nltk": nltk}, samples[: options.few], references[: options.few], repeats=options.repeats)
    many = race(measures, samples, references, repeats=options.repeats)
    others = without or f"With fast-bleu they agree to {AGREEMENT['fast-bleu']:g}."
    note = f"Both measures together.  All scores agree with NLTK's to {AGREEMENT['nltk']:g}.  {others}"
    tables = [
        few.table(f"{options.few} samples against {options.few} references", note=note),
        many.table(f"{len(samples):,} samples against {len(references):,} references", note=others),
    ]
    if options.data:
        tables.append(golden_table(options.data))
    report = make_report(
        "BLEU and self-BLEU, orders 2 to 5",
        tables=tables,
        seed=None if options.data else options.seed,
        config={"sentences": options.sentences, "few": options.few, "repeats": options.repeats},
        threads=1,
        packages=("numpy", "nltk", "fast-bleu"),
    )
    if options.out:
        report.write(options.out, name="self_bleu")
    print(report.markdown(), end="")
    sys.exit(many.side("sundae").median > PROMISE)


if __name__ == "__main__":
    main()
