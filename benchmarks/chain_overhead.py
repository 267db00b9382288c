"""How much of the time of a chain is spent outside the network: rules, schedules, random numbers, bookkeeping.

    python benchmarks/chain_overhead.py [--threads 1] [--repeats 5]

Random weights at the sizes of the small presets; the network's share is timed around each of its calls.
"""

import argparse
import statistics
import time

import torch

from sundae.baselines.kinds import build_network
from sundae.config import SamplingConfig
from sundae.core.network import Ask, Prediction, as_denoiser
from sundae.decoding.canvas import Canvas, last_of, run_canvas
from sundae.machine import keep_memory
from sundae.measure.report import Table, make_report
from sundae.presets import preset

STEPS = 20
RULES = {
    "low-temperature, 30%": SamplingConfig(steps=STEPS, temperature=0.8, schedule="share", stop_early=False),
    "low-temperature, all": SamplingConfig(steps=STEPS, temperature=0.8, schedule="all", stop_early=False),
    "argmax-unrolled": SamplingConfig(steps=STEPS, rule="argmax-unrolled", stop_early=False),
    "entropy-bounded": SamplingConfig(steps=STEPS, rule="entropy-bounded", stop_early=False, stop_entropy=0.0),
    "confidence": SamplingConfig(steps=STEPS, rule="confidence", stop_early=False),
    "predictor-corrector": SamplingConfig(steps=STEPS, rule="predictor-corrector", stop_early=False),
}


def outside_share(name: str, *, rows: int, sampling: SamplingConfig, repeats: int) -> tuple[float, float]:
    """The share of time outside the network, and seconds a step, as medians over runs."""
    config = preset(name).network
    torch.manual_seed(0)
    network = build_network(config).eval()
    answer, inside = as_denoiser(network), 0.0

    def timed(ask: Ask) -> Prediction:
        nonlocal inside
        begin = time.perf_counter()
        prediction = answer(ask)
        inside += time.perf_counter() - begin
        return prediction

    shares, seconds = [], []
    for run in range(repeats + 1):
        inside, begin = 0.0, time.perf_counter()
        canvas = Canvas.empty(config.canvas, rows=rows)
        last_of(run_canvas(timed, canvas, sampling=sampling, vocabulary_size=config.vocabulary_size, seed=run))
        total = time.perf_counter() - begin
        if run:  # the first one warms up
            shares.append(1 - inside / total)
            seconds.append(total / STEPS)
    return statistics.median(shares), statistics.median(seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    keep_memory()
    torch.set_num_threads(arguments.threads)
    rows = []
    for name in ("tiny", "everyday"):
        for batch in (1, 64):
            for rule, sampling in RULES.items():
                share, seconds = outside_share(name, rows=batch, sampling=sampling, repeats=arguments.repeats)
                rows.append(
                    {
                        "preset": name,
                        "rows": batch,
                        "rule": rule,
                        "outside the network": f"{share:.1%}",
                        "milliseconds a step": 1000 * seconds,
                    }
                )
    note = "Drawing a token from logits counts as outside: softmax over the vocabulary is the largest part of it."
    report = make_report("Overhead of the chain", tables=[Table("Outside the network", rows, note)], seed=0)
    print(report.markdown())


if __name__ == "__main__":
    main()
