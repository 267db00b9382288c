"""Quality against network calls: every step rule on one model, judged by its autoregressive twin.

    python benchmarks/samplers.py --model DIR --judge TWIN --corpus DIR --out DIR [--samples 500] [--seeds 5]

For each setting: perplexity per word by the judge, distinct-2 and repetition of samples; exact match of blanks of one
word and of three in held-out sentences; network calls that a text took part in.  Settings are compared with the paper's
rule (low temperature, 30% of the tokens a step) by a paired bootstrap over seeds.
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from sundae.baselines.models import AutoregressiveTwin
from sundae.config import SamplingConfig
from sundae.decoding.fill import FillSettings
from sundae.measure.blanks import score_blanks
from sundae.measure.bootstrap import Interval, bootstrap_mean, bootstrap_mean_difference
from sundae.measure.diversity import diversity
from sundae.measure.evaluation import BlankItem, choose_blanks
from sundae.measure.judge import perplexity
from sundae.measure.plots import Series, plot
from sundae.measure.report import Table, make_report
from sundae.measure.twin_judge import judge_of
from sundae.model import Sundae, load_model
from sundae.text.corpus import Corpus

PAPER = "low-temperature, 30%, T=100, 0.8"


def settings() -> dict[str, SamplingConfig]:
    """The paper's rules and the later ones, at several budgets."""
    usual = SamplingConfig(temperature=0.8, schedule="share", share=0.3, steps=100)
    found = {PAPER: usual}
    for steps, temperature in ((100, 0.6), (100, 0.4), (50, 0.8), (50, 0.6), (25, 0.6)):
        name = f"low-temperature, 30%, T={steps}, {temperature}"
        found[name] = replace(usual, steps=steps, temperature=temperature)
    for steps, temperature in ((32, 0.6), (16, 0.8), (16, 0.6), (16, 0.4), (8, 0.6), (4, 0.6)):
        name = f"low-temperature, all, T={steps}, {temperature}"
        found[name] = replace(usual, schedule="all", steps=steps, temperature=temperature)
    found["annealed 0.8 to 0.4, all, T=16"] = replace(usual, schedule="all", steps=16, final_temperature=0.4)
    found["top-p 0.9, all, T=16, 0.8"] = replace(usual, schedule="all", steps=16, top_p=0.9)
    for steps in (2, 4, 8, 16):
        found[f"argmax-unrolled, T={steps}"] = replace(usual, rule="argmax-unrolled", steps=steps)
    for steps in (8, 16, 32):
        common = replace(usual, steps=steps, final_temperature=0.4)
        found[f"entropy-bounded 16, T={steps}"] = replace(common, rule="entropy-bounded", entropy_bound=16.0)
        found[f"confidence, T={steps}"] = replace(common, rule="confidence", temperature=0.8)
        found[f"predictor-corrector 0.3, T={steps}"] = replace(common, rule="predictor-corrector")
    return found


@dataclass(frozen=True)
class Measured:
    """One setting: figures for each seed, and what it cost."""

    nats_per_word: list[float]
    distinct: list[float]
    repeated: list[float]
    calls: float
    texts: list[str]


def sample(model: Sundae, judge: AutoregressiveTwin, sampling: SamplingConfig, *, seeds: int, count: int) -> Measured:
    nats, distinct, repeated, calls, first = [], [], [], [], []
    for seed in range(seeds):
        written = model.generate(count, sampling=sampling, seed=seed)
        texts = [each.text for each in written]
        calls += [each.network_calls for each in written]
        first = first or texts
        judged = [text for text in texts if text.split()]
        nats.append(float(np.log(perplexity(judged, judge=judge_of(judge), resamples=2).per_word.value)))
        spread = diversity(texts, orders=(2,))
        distinct.append(spread.distinct[2])
        repeated.append(spread.repeated_tokens)
    return Measured(nats, distinct, repeated, float(np.mean(calls)), first)


def exact_match(
    model: Sundae, items: Sequence[BlankItem], words: int, sampling: SamplingConfig
) -> tuple[Interval, float]:
    templates = [item.template(f"[[{words}w]]") for item in items]
    filled = model.fill_many(templates, sampling=sampling, settings=FillSettings())
    candidates = [
        [(item.filled_in(each.text).strip(),) for each in written] for item, written in zip(items, filled, strict=True)
    ]
    scores = score_blanks(candidates, answers=[(item.answer,) for item in items])
    return scores.exact, float(np.mean([written[0].network_calls for written in filled]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--judge", required=True)
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--samples", type=int, default=500)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--blanks", type=int, default=500)
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    model, judge = Sundae.from_pretrained(arguments.model), load_model(arguments.judge)
    assert isinstance(judge, AutoregressiveTwin)
    corpus = Corpus.open(arguments.corpus)
    held_out = corpus.split("validation")
    texts = [corpus.tokenizer.decode(held_out.text(row).tolist()) for row in range(len(held_out))]
    measured: dict[str, Measured] = {}
    rows, blank_rows = [], []
    for name, sampling in settings().items():
        own = sample(model, judge, sampling, seeds=arguments.seeds, count=arguments.samples)
        measured[name] = own
        paper = measured[PAPER]
        perplexing = bootstrap_mean_difference(own.nats_per_word, paper.nats_per_word).difference
        varied = bootstrap_mean_difference(own.distinct, paper.distinct).difference
        rows.append(
            {
                "setting": name,
                "network calls": own.calls,
                "judge's perplexity per word": float(np.exp(np.mean(own.nats_per_word))),
                "log perplexity against the paper's rule": perplexing,
                "distinct-2": bootstrap_mean(own.distinct),
                "distinct-2 against the paper's rule": varied,
                "repeated tokens": float(np.mean(own.repeated)),
            }
        )
        print(rows[-1], flush=True)
    for words in (1, 3):
        items = choose_blanks(texts, words=words, count=arguments.blanks)
        for name, sampling in settings().items():
            if "30%" in name:
                continue  # in-painting updates all blanks at every step
            exact, calls = exact_match(model, items, words, sampling)
            blank_rows.append({"setting": name, "words": words, "exact match": exact, "network calls": calls})
            print(blank_rows[-1], flush=True)
    real = perplexity(texts, judge=judge_of(judge))
    note = f"Held-out sentences themselves: perplexity per word {real.per_word}, distinct-2 "
    note += f"{diversity(texts[: arguments.samples], orders=(2,)).distinct[2]:.3f} ({arguments.samples} of them)."
    tables = [Table("Samples", rows, note), Table("Blanks in held-out sentences", blank_rows)]
    config = {"model": Path(arguments.model).name, "samples": arguments.samples, "seeds": arguments.seeds}
    report = make_report("Step rules", tables=tables, seed=0, config=config, threads=arguments.threads)
    report.write(arguments.out, name="samplers")
    families = sorted({name.split(",")[0].rstrip(" 0123456789.") for name in measured})
    series = [
        Series(family, *_points([own for name, own in measured.items() if name.startswith(family)]), joined=False)
        for family in families
    ]
    plot(
        series,
        to=arguments.out / "samplers",
        title="Perplexity by the judge against network calls",
        x_label="network calls a text",
        y_label="perplexity per word",
        log_x=True,
    )
    for name, own in measured.items():
        (arguments.out / f"{name.replace(' ', '_').replace(',', '')}.txt").write_text(
            "\n".join(own.texts[:20]) + "\n", encoding="utf-8"
        )
    print(report.markdown())


def _points(measured: Sequence[Measured]) -> tuple[list[float], list[float]]:
    return [own.calls for own in measured], [float(np.exp(np.mean(own.nats_per_word))) for own in measured]


if __name__ == "__main__":
    main()
