"""Speed of translation: SUNDAE at several numbers of steps against the autoregressive twin with cached keys, greedy.

    python benchmarks/mt_speed.py --model DIR --twin DIR --source FILE --out DIR [--sentences 64] [--alone 16]

The two should have the same size.  As the paper's table 2: T = 4, 8, 10 and 16, both rules, one candidate and sixteen,
one by one (--alone sentences) and in a batch of all --sentences.  Then T = 4 at batch 1 for sentences of different
length, because a left-to-right model pays for each token and SUNDAE for each step, and a profile of both: how many
operations a sentence takes, and which share of the time is arithmetic.  All sides take turns in one run; ratios are of
medians.  Every row is computed at every step, so that T is what it says; with --as-it-is rows stop early and what did
not change is spared, as when people translate.
"""

import argparse
import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import torch

from sundae.baselines.models import AutoregressiveTwin
from sundae.config import BaselineConfig, RuleName, SamplingConfig
from sundae.decoding.translation import TranslateSettings
from sundae.decoding.written import Written
from sundae.machine import keep_memory
from sundae.measure.report import Cell, Table, make_report
from sundae.measure.speed import Work, compare_speed
from sundae.model import Sundae, load_model

RULES: tuple[RuleName, ...] = ("low-temperature", "argmax-unrolled")
GREEDY = "twin, greedy"
LENGTHS = ((1, 10), (11, 15), (16, 20), (21, 30), (31, 63))
"""Tokens of the twin's translation, from and to."""
ARITHMETIC = {
    "matrix products": ("linear", "matmul", "mm", "addmm", "bmm"),
    "attention": ("scaled_dot_product",),
}
"""Operations of PyTorch, by what their names begin with; all others are `the rest`."""
Translate = Callable[[list[str]], list[list[Written]]]


def side(translate: Translate, groups: Sequence[list[str]], tokens: Callable[[str], list[int]]) -> Callable[[], Work]:
    """Something to time: all groups of sentences, one after the other."""

    def run() -> Work:
        best = [found[0] for group in groups for found in translate(group)]
        return Work(sum(len(tokens(each.text)) for each in best), sum(each.network_calls for each in best))

    return run


def denoise(model: Sundae, *, rule: RuleName, steps: int, candidates: int, as_it_is: bool) -> Translate:
    sampling = SamplingConfig(
        rule=rule, steps=steps, temperature=0.3, schedule="all", candidates=candidates, stop_early=as_it_is
    )
    # Of one candidate nobody asks for a score.
    settings = TranslateSettings(keep_numbers=False, scored=False, spare=as_it_is)
    return replace(model.translator(settings=settings), sampling=sampling).translate


def left_to_right(twin: AutoregressiveTwin, *, beam: int) -> Translate:
    return lambda sources: twin.translate_batch(sources, BaselineConfig(beam=beam))


def profile_of(name: str, translate: Translate, sources: Sequence[str]) -> dict[str, Cell]:
    """How many operations a sentence takes, one by one, and what they do in their time."""
    for source in sources:
        translate([source])  # the first ones pay for caches
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
        calls = sum(translate([source])[0][0].network_calls for source in sources)
    # What an operation of PyTorch calls in turn is its own affair.
    outer = [event for event in profiler.events() or [] if event.cpu_parent is None and event.name.startswith("aten::")]
    spent = dict.fromkeys((*ARITHMETIC, "the rest"), 0.0)
    for event in outer:
        operation = event.name.removeprefix("aten::")
        kind = next((kind for kind, names in ARITHMETIC.items() if operation.startswith(names)), "the rest")
        spent[kind] += event.cpu_time_total
    shares: dict[str, Cell] = {f"{kind}, share of time": time / sum(spent.values()) for kind, time in spent.items()}
    count = len(sources)
    counts: dict[str, Cell] = {"network calls": calls / count, "operations": len(outer) / count}
    return {"side": name, **counts, "operations a call": len(outer) / calls, **shares}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--twin", required=True)
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--sentences", type=int, default=64)
    parser.add_argument("--alone", type=int, default=16)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--as-it-is", action="store_true")
    arguments = parser.parse_args()
    keep_memory()
    torch.set_num_threads(arguments.threads)
    model, twin = Sundae.from_pretrained(arguments.model), load_model(arguments.twin)
    assert isinstance(twin, AutoregressiveTwin)
    every = arguments.source.read_text(encoding="utf-8").splitlines()
    sources = every[: arguments.sentences]
    ways = {GREEDY: left_to_right(twin, beam=1), "twin, beam 5": left_to_right(twin, beam=5)}
    for candidates, rule, steps in itertools.product((1, 16), RULES, (4, 8, 10, 16)):
        way = denoise(model, rule=rule, steps=steps, candidates=candidates, as_it_is=arguments.as_it_is)
        ways[f"{rule}, T={steps}, n={candidates}"] = way
    tokens, tables = model.tokenizer.encode, []
    alone = sources[: arguments.alone]
    for groups in ([[source] for source in alone], [sources]):
        sides = {name: side(way, groups, tokens) for name, way in ways.items()}
        compared = compare_speed(sides, baseline=GREEDY, repeats=arguments.repeats)
        note = f"{sum(map(len, groups))} sentences in a run"
        tables.append(compared.table(f"Batches of {len(groups[0])}", note=note))
        print(tables[-1].markdown(), flush=True)
    lengths = [len(tokens(found[0].text)) for found in ways[GREEDY](every)]
    rows: list[dict[str, Cell]] = []
    quick = f"{RULES[0]}, T=4, n=1"
    for low, high in LENGTHS:
        some = [[source] for source, length in zip(every, lengths, strict=True) if low <= length <= high][:32]
        if not some:
            continue
        sides = {name: side(ways[name], some, tokens) for name in (GREEDY, quick)}
        compared = compare_speed(sides, baseline=GREEDY, repeats=arguments.repeats)
        least, most = compared.spread(quick)
        row: dict[str, Cell] = {"tokens": f"{low} to {high}", "sentences": len(some)}
        row["the twin's calls a sentence"] = compared.side(GREEDY).works[0].network_calls / len(some)
        row["times as fast as the twin"] = compared.times_as_fast(quick)
        rows.append({**row, "in a round, least": least, "in a round, most": most})
    tables.append(Table(f"By length, batches of 1, {quick}", rows))
    profiles = [profile_of(name, ways[name], alone) for name in (GREEDY, quick)]
    tables.append(
        Table("Profile, batches of 1", profiles, "a sentence; PyTorch's profiler, which slows small operations")
    )
    config = {"model": model.config.to_dict(), "twin": twin.config.to_dict()}
    config |= {"sentences": len(sources), "alone": len(alone), "as it is": arguments.as_it_is}
    report = make_report("Speed of translation", tables=tables, seed=0, config=config, threads=arguments.threads)
    report.write(arguments.out, name="mt-speed")
    print(report.markdown())


if __name__ == "__main__":
    main()
