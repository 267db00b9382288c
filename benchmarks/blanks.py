"""Blanks in held-out sentences: SUNDAE against its twins, which write left to right or fill in the middle.

    python benchmarks/blanks.py --model DIR --twin DIR --middle-twin DIR --corpus DIR --out DIR [--blanks 1000]

The same blanks for all: one word, or two, of the second half of the held-out sentences (benchmarks/samplers.py chose
settings on the first half).  A twin answers greedily, which suited exact match better than sampling and ranking.
Answers are kept in the folder of --out, so that the same command goes on where it stopped.
"""

import argparse
from pathlib import Path

import torch

from keeping import kept
from sundae.baselines.models import AutoregressiveTwin
from sundae.errors import UsageError
from sundae.machine import keep_memory
from sundae.measure.bootstrap import bootstrap_mean, bootstrap_mean_difference
from sundae.measure.evaluation import BlankItem, choose_blanks
from sundae.measure.report import Cell, Table, make_report
from sundae.model import Sundae, load_model
from sundae.text.corpus import Corpus


def answers(folder: str, items: list[BlankItem], words: int) -> list[str]:
    """What a model has to say for each blank; nothing where a text is too long for it."""
    model = load_model(folder)
    templates = [item.template(f"[[{words}w]]") for item in items]
    if isinstance(model, Sundae):
        return [
            item.filled_in(written[0].text).strip()
            for item, written in zip(items, model.fill_many(templates), strict=True)
        ]
    assert isinstance(model, AutoregressiveTwin)
    found: list[str] = []
    for item, template in zip(items, templates, strict=True):
        try:
            found.append(item.filled_in(model.fill(template)[0].text).strip())
        except UsageError:
            found.append("")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--twin", required=True)
    parser.add_argument("--middle-twin", required=True)
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--blanks", type=int, default=1000)
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    keep_memory()
    torch.set_num_threads(arguments.threads)
    corpus = Corpus.open(arguments.corpus)
    held_out = corpus.split("validation")
    texts = [corpus.tokenizer.decode(held_out.text(row).tolist()) for row in range(len(held_out))]
    folders = {
        "SUNDAE": arguments.model,
        "twin, left to right": arguments.twin,
        "twin, fill in the middle": arguments.middle_twin,
    }
    rows: list[dict[str, Cell]] = []
    for words in (1, 2):
        items = choose_blanks(texts[len(texts) // 2 :], words=words, count=arguments.blanks)
        given = {
            name: kept(
                arguments.out / f"{words}-{name.replace(', ', '-').replace(' ', '-')}.json",
                lambda folder=folder, items=items, words=words: answers(folder, items, words),
            )
            for name, folder in folders.items()
        }
        right = {
            name: [text == item.answer for text, item in zip(own, items, strict=True)] for name, own in given.items()
        }
        for name, own in right.items():
            ahead = bootstrap_mean_difference(right["SUNDAE"], own).difference
            rows.append(
                {
                    "model": name,
                    "words": words,
                    "blanks": len(items),
                    "exact match": bootstrap_mean(own),
                    "SUNDAE ahead by": "" if name == "SUNDAE" else ahead,
                }
            )
            print(rows[-1], flush=True)
    config = {"blanks": arguments.blanks, "models": {name: Path(folder).name for name, folder in folders.items()}}
    report = make_report("Blanks", tables=[Table("Blanks", rows)], seed=0, config=config, threads=arguments.threads)
    report.write(arguments.out, name="blanks")
    print(report.markdown())


if __name__ == "__main__":
    main()
