"""Drafts with one wrong word, and drafts with none: what `refine` mends, and what it should have left alone.

    python benchmarks/drafts.py --model DIR --corpus DIR --out DIR [--drafts 300]

A word of a held-out sentence (not its first) is replaced by a word drawn from all held-out words.  For each suspicion,
edit budget and way to rank candidates: how often the sentence comes back exactly, how often the wrong word at least is
changed, and how often a clean sentence is.  The first half of the held-out sentences; network calls per sentence.
"""

import argparse
import random
from pathlib import Path

import torch

from sundae.config import RankName
from sundae.decoding.refine import RefineSettings
from sundae.machine import keep_memory
from sundae.measure.bootstrap import bootstrap_mean
from sundae.measure.evaluation import choose_blanks
from sundae.measure.report import Cell, Table, make_report
from sundae.model import Sundae
from sundae.text.corpus import Corpus
from sundae.text.template import escape

SUSPICIONS = (20, 50, 100, 200, 500)
RANKS: tuple[RankName, ...] = ("per-token", "leave-one-out")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--drafts", type=int, default=300)
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    keep_memory()
    torch.set_num_threads(arguments.threads)
    model, corpus = Sundae.from_pretrained(arguments.model), Corpus.open(arguments.corpus)
    held_out = corpus.split("validation")
    texts = [corpus.tokenizer.decode(held_out.text(row).tolist()) for row in range(len(held_out) // 2)]
    items = choose_blanks(texts, count=arguments.drafts)
    chooser = random.Random(0)
    words = [item.answer for item in items]
    rows: list[dict[str, Cell]] = []
    tried = [RefineSettings(suspicion=suspicion) for suspicion in SUSPICIONS]
    tried += [RefineSettings(by=by, edits=1) for by in RANKS]
    for settings in tried:
        chooser.seed(0)
        restored, touched, changed, calls = [], [], [], 0
        for item in items:
            clean = item.before + item.answer + item.after
            wrong = chooser.choice([word for word in words if word != item.answer])
            refined = model.refine(escape(item.before + wrong + item.after), settings=settings)
            restored.append(refined.text == clean)
            kept = refined.text.startswith(item.before + wrong) and refined.text.endswith(wrong + item.after)
            touched.append(not kept)
            changed.append(model.refine(escape(clean), settings=settings).text != clean)
            calls += refined.network_calls
        rows.append(
            {
                "suspicion": settings.suspicion,
                "edits": "any" if settings.edits is None else settings.edits,
                "ranked by": settings.by,
                "comes back exactly": bootstrap_mean(restored),
                "wrong word changed": bootstrap_mean(touched),
                "clean sentence changed": bootstrap_mean(changed),
                "network calls of the chain": calls / len(items),
            }
        )
        print(rows[-1], flush=True)
    config = {"model": Path(arguments.model).name, "drafts": arguments.drafts}
    report = make_report("Drafts", tables=[Table("Drafts", rows)], seed=0, config=config, threads=arguments.threads)
    report.write(arguments.out, name="drafts")
    print(report.markdown())


if __name__ == "__main__":
    main()
