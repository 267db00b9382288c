"""Quality against network calls: every step rule on one model, judged by its autoregressive twin.

    python benchmarks/samplers.py --model DIR --judge TWIN --corpus DIR --out DIR [--samples 200] [--seeds 5]

For each setting: perplexity per word by the judge, distinct-2 and repetition of samples; exact match of blanks of one
word and of two in held-out sentences; the steps that were allowed, which is how many calls of the network the paper's
own loop would make, and the calls that a text took part in: rows that did not change are not computed again.  Settings
are compared with the paper's rule (low temperature, 30% of the tokens a step) by a paired bootstrap over seeds.
Defaults are chosen here, so blanks are made in the first half of the held-out sentences only; benchmarks/blanks.py
reports on the other half.  specimens.md has the first samples and fillings of a setting of each rule, unpicked.

What was sampled is kept in the folder of --out: the same command goes on where it stopped, and without --judge it
samples only.
"""

import argparse
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from keeping import kept
from sundae.baselines.models import AutoregressiveTwin
from sundae.config import RankName, SamplingConfig
from sundae.decoding.fill import FillSettings
from sundae.files import write_whole
from sundae.machine import keep_memory
from sundae.measure.bootstrap import bootstrap_mean, bootstrap_mean_difference
from sundae.measure.diversity import diversity
from sundae.measure.evaluation import BlankItem, choose_blanks
from sundae.measure.judge import perplexity
from sundae.measure.plots import Series, plot
from sundae.measure.report import Cell, Table, make_report
from sundae.measure.twin_judge import judge_of
from sundae.model import Sundae, load_model
from sundae.text.corpus import Corpus

PAPER = "low-temperature, 30%, T=100, 0.8"
RANKS: tuple[RankName, ...] = ("leave-one-out", "per-token", "score", "mbr")
RANKED = "low-temperature, all, T=16, 0.6"
CHOSEN = "low-temperature, 60%, T=50, 0.8 to 0.7"
"""What was chosen on the first seeds, and is compared with the paper's rule on fresh ones."""
SHOWN = (
    PAPER,
    CHOSEN,
    RANKED,
    "annealed 0.8 to 0.4, all, T=16",
    "top-p 0.9, all, T=16, 0.8",
    "argmax-unrolled, T=16",
    "entropy-bounded 16, T=16",
    "confidence, T=16",
    "predictor-corrector 0.3, T=16",
)
SPECIMENS = 20
ABOUT_SPECIMENS = """\
Unpicked: for each rule the first 20 samples of seed 0, and where it fills blanks its answers to the first 20 one-word
blanks of `benchmarks/samplers.py`, in brackets, with the word that stood there if it was another one. Fillings are
ranked by `leave-one-out`, so the rules mostly agree on them: what differs is which candidates they find.
"""
WORST_SHOWN = 1000
"""What the judge finds worse than this is in the table, not in the plot."""


def settings() -> dict[str, SamplingConfig]:
    """The paper's rules and the later ones, at several budgets."""
    usual = SamplingConfig(temperature=0.8, schedule="share", share=0.3, steps=100)
    found = {PAPER: usual}
    for steps, temperature in ((100, 0.6), (50, 0.8), (50, 0.6), (25, 0.6)):
        name = f"low-temperature, 30%, T={steps}, {temperature}"
        found[name] = replace(usual, steps=steps, temperature=temperature)
    for share, final in ((0.5, 0.6), (0.6, 0.7), (0.7, 0.6)):
        name = f"low-temperature, {share:.0%}, T=50, 0.8 to {final}"
        found[name] = replace(usual, steps=50, share=share, final_temperature=final)
    for steps, temperature in ((32, 0.6), (16, 0.8), (16, 0.6), (16, 0.4), (8, 0.6), (4, 0.6)):
        name = f"low-temperature, all, T={steps}, {temperature}"
        found[name] = replace(usual, schedule="all", steps=steps, temperature=temperature)
    found["annealed 0.8 to 0.4, all, T=16"] = replace(usual, schedule="all", steps=16, final_temperature=0.4)
    found["top-p 0.9, all, T=16, 0.8"] = replace(usual, schedule="all", steps=16, top_p=0.9)
    for steps in (4, 8, 16):
        found[f"argmax-unrolled, T={steps}"] = replace(usual, rule="argmax-unrolled", steps=steps)
    for steps in (8, 16, 32):
        common = replace(usual, steps=steps, final_temperature=0.4)
        found[f"entropy-bounded 16, T={steps}"] = replace(common, rule="entropy-bounded", entropy_bound=16.0)
        found[f"confidence, T={steps}"] = replace(common, rule="confidence", temperature=0.8)
        found[f"predictor-corrector 0.3, T={steps}"] = replace(common, rule="predictor-corrector")
    found["predictor-corrector 0.3, T=32, 0.8 to 0.6"] = replace(
        usual, rule="predictor-corrector", steps=32, final_temperature=0.6
    )
    return found


@dataclass(frozen=True)
class Measured:
    """One setting: figures for each seed, and what it cost."""

    nats_per_word: list[float]
    distinct: list[float]
    repeated: list[float]
    calls: float


def sample(model: Sundae, sampling: SamplingConfig, *, seeds: range, count: int) -> list[list[tuple[str, int]]]:
    """For each seed, texts and the calls that each took."""
    written = [model.generate(count, sampling=sampling, seed=seed) for seed in seeds]
    return [[(each.text, each.network_calls) for each in some] for some in written]


def judged(samples: list[list[tuple[str, int]]], judge: AutoregressiveTwin) -> Measured:
    nats, distinct, repeated, calls = [], [], [], []
    for some in samples:
        texts = [text for text, _ in some]
        calls += [made for _, made in some]
        words = [text for text in texts if text.split()]
        nats.append(float(np.log(perplexity(words, judge=judge_of(judge), resamples=2).per_word.value)))
        spread = diversity(texts, orders=(2,))
        distinct.append(spread.distinct[2])
        repeated.append(spread.repeated_tokens)
    return Measured(nats, distinct, repeated, float(np.mean(calls)))


def rows_of(measured: dict[str, Measured]) -> list[dict[str, Cell]]:
    """Each setting beside the paper's rule."""
    paper = measured[PAPER]
    return [
        {
            "setting": name,
            "steps": settings()[name].steps,
            "network calls": own.calls,
            "judge's perplexity per word": float(np.exp(np.mean(own.nats_per_word))),
            "log perplexity against the paper's rule": bootstrap_mean_difference(
                own.nats_per_word, paper.nats_per_word
            ).difference,
            "distinct-2": bootstrap_mean(own.distinct),
            "distinct-2 against the paper's rule": bootstrap_mean_difference(own.distinct, paper.distinct).difference,
            "repeated tokens": float(np.mean(own.repeated)),
        }
        for name, own in measured.items()
    ]


def fill(
    model: Sundae, items: Sequence[BlankItem], words: int, sampling: SamplingConfig, by: RankName
) -> list[tuple[str, int]]:
    """The best filling of each blank and the calls that it took."""
    templates = [item.template(f"[[{words}w]]") for item in items]
    filled = model.fill_many(templates, sampling=sampling, settings=FillSettings(by=by))
    best = [written[0] for written in filled]
    return [(item.filled_in(each.text).strip(), each.network_calls) for item, each in zip(items, best, strict=True)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--judge")
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--samples", type=int, default=200)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--blanks", type=int, default=300)
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    keep_memory()
    torch.set_num_threads(arguments.threads)
    model = Sundae.from_pretrained(arguments.model)
    corpus = Corpus.open(arguments.corpus)
    held_out = corpus.split("validation")
    texts = [corpus.tokenizer.decode(held_out.text(row).tolist()) for row in range(len(held_out))]
    blank_rows: list[dict[str, Cell]] = []
    fillings: dict[str, list[str]] = {}
    samples = {
        name: kept(
            arguments.out / "samples" / f"{plain(name)}.json",
            lambda sampling=sampling: sample(model, sampling, seeds=range(arguments.seeds), count=arguments.samples),
        )
        for name, sampling in settings().items()
    }
    fresh_seeds = range(arguments.seeds, 3 * arguments.seeds)
    fresh = {
        name: kept(
            arguments.out / "fresh" / f"{plain(name)}.json",
            lambda name=name: sample(model, settings()[name], seeds=fresh_seeds, count=arguments.samples),
        )
        for name in (PAPER, CHOSEN)
    }
    for words, (name, sampling), by in itertools.product((1, 2), settings().items(), RANKS):
        if "%" in name or "T=32" in name or (by != RANKS[0] and name != RANKED) or (words > 1 and "T=16" not in name):
            continue  # in-painting updates all blanks at every step; ways to rank are compared with one rule
        items = choose_blanks(texts[: len(texts) // 2], words=words, count=arguments.blanks // words)
        found = kept(
            arguments.out / "blanks" / f"{words}-{by}-{plain(name)}.json",
            lambda items=items, words=words, sampling=sampling, by=by: fill(model, items, words, sampling, by),
        )
        exact = bootstrap_mean([text == item.answer for (text, _), item in zip(found, items, strict=True)])
        calls = float(np.mean([made for _, made in found]))
        row = {"setting": name, "ranked by": by, "words": words, "exact match": exact, "network calls": calls}
        blank_rows.append(row)
        print(row, flush=True)
        if words == 1 and by == RANKS[0] and name in SHOWN:
            fillings[name] = [
                f"{item.before}[{text}]{item.after}" + ("" if text == item.answer else f" ({item.answer})")
                for (text, _), item in zip(found[:SPECIMENS], items, strict=False)
            ]
    write_whole(arguments.out / "specimens.md", specimens(samples, fillings))
    if arguments.judge is None:
        return
    judge = load_model(arguments.judge)
    assert isinstance(judge, AutoregressiveTwin)
    measured = {name: judged(some, judge) for name, some in samples.items()}
    confirmed = {name: judged(some, judge) for name, some in fresh.items()}
    real = perplexity(texts, judge=judge_of(judge))
    note = f"Held-out sentences themselves: perplexity per word {real.per_word}, distinct-2 "
    note += f"{diversity(texts[: arguments.samples], orders=(2,)).distinct[2]:.3f} ({arguments.samples} of them)."
    again = f"Seeds {fresh_seeds[0]} to {fresh_seeds[-1]}, which played no part in the choice."
    tables = [
        Table("Samples", rows_of(measured), note),
        Table("The chosen rule against the paper's, with fresh seeds", rows_of(confirmed), again),
        Table("Blanks in held-out sentences", blank_rows),
    ]
    config = {"model": Path(arguments.model).name, "samples": arguments.samples, "seeds": arguments.seeds}
    report = make_report("Step rules", tables=tables, seed=0, config=config, threads=arguments.threads)
    report.write(arguments.out, name="samplers")
    readable = {name: own for name, own in measured.items() if np.exp(np.mean(own.nats_per_word)) < WORST_SHOWN}
    families = sorted({family_of(name) for name in readable})
    series = [
        Series(family, *_points([own for name, own in readable.items() if family_of(name) == family]), joined=False)
        for family in families
    ]
    plot(
        series,
        to=arguments.out / "samplers",
        title=f"Quality against cost: settings with a perplexity below {WORST_SHOWN:,}",
        x_label="network calls a text",
        y_label="perplexity per word, by the judge",
        log_x=True,
        log_y=True,
    )
    print(report.markdown())


def specimens(samples: dict[str, list[list[tuple[str, int]]]], fillings: dict[str, list[str]]) -> str:
    """What each rule wrote first, as Markdown."""
    parts = ["# What each rule writes\n", ABOUT_SPECIMENS]
    for name in SHOWN:
        parts += [f"## {name}\n", "Samples:\n", *(f"- {text}" for text, _ in samples[name][0][:SPECIMENS]), ""]
        if name in fillings:
            parts += ["Fillings:\n", *(f"- {text}" for text in fillings[name]), ""]
    return "\n".join(parts)


def family_of(name: str) -> str:
    """The rule that a setting belongs to."""
    rule = name.split(",")[0].rstrip(" 0123456789.")
    if rule not in ("low-temperature", "annealed 0.8 to", "top-p"):
        return rule
    if "30%" in name:
        return "low-temperature, 30% (the paper's)"
    return "low-temperature, 50 to 70%" if "%" in name else "low-temperature, all"


def plain(name: str) -> str:
    """A setting's name as that of a file."""
    return name.replace(",", "").replace(" ", "_").replace("%", "pc")


def _points(measured: Sequence[Measured]) -> tuple[list[float], list[float]]:
    return [own.calls for own in measured], [float(np.exp(np.mean(own.nats_per_word))) for own in measured]


if __name__ == "__main__":
    main()
