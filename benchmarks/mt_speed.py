"""Speed of translation: SUNDAE at several numbers of steps against the autoregressive twin with cached keys, greedy.

    python benchmarks/mt_speed.py --model DIR --twin DIR --source FILE [--sentences 64] [--repeats 5] [--threads 1]

As the paper's table 2: T = 4, 8, 10 and 16, both rules, one candidate and sixteen, batches of 1 and of all sentences.
All sides take turns in one run; ratios are of medians.  Rows do not stop early unless --stop-early is given, so that
T is what it says.
"""

import argparse
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch

from sundae.baselines.models import AutoregressiveTwin
from sundae.config import BaselineConfig, RuleName, SamplingConfig
from sundae.decoding.translation import TranslateSettings
from sundae.machine import keep_memory
from sundae.measure.report import Table, make_report
from sundae.measure.speed import Work, compare_speed
from sundae.model import Sundae, load_model

RULES: tuple[RuleName, ...] = ("low-temperature", "argmax-unrolled")


def work_of(found: list[list], tokens: Callable[[str], list[int]]) -> Work:
    written = [each[0] for each in found]
    return Work(sum(len(tokens(each.text)) for each in written), sum(each.network_calls for each in written))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--twin", required=True)
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--sentences", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--stop-early", action="store_true")
    arguments = parser.parse_args()
    keep_memory()
    torch.set_num_threads(arguments.threads)
    model, twin = Sundae.from_pretrained(arguments.model), load_model(arguments.twin)
    assert isinstance(twin, AutoregressiveTwin)
    sources = arguments.source.read_text(encoding="utf-8").splitlines()[: arguments.sentences]
    settings = TranslateSettings(keep_numbers=False, scored=False)  # of one candidate nobody asks for a score
    tables: list[Table] = []
    for batch in (1, len(sources)):
        groups = [sources[begin : begin + batch] for begin in range(0, len(sources), batch)]

        def greedy(groups: list[list[str]] = groups) -> Work:
            found = [each for some in groups for each in twin.translate_batch(some, BaselineConfig(beam=1))]
            return work_of(found, twin.tokenizer.encode)

        def beam(groups: list[list[str]] = groups) -> Work:
            found = [each for some in groups for each in twin.translate_batch(some, BaselineConfig(beam=5))]
            return work_of(found, twin.tokenizer.encode)

        sides: dict[str, Callable[[], Work]] = {"twin, greedy": greedy, "twin, beam 5": beam}
        for candidates in (1, 16):
            for rule in RULES:
                for steps in (4, 8, 10, 16):
                    sampling = SamplingConfig(
                        rule=rule,
                        steps=steps,
                        temperature=0.3,
                        schedule="all",
                        candidates=candidates,
                        stop_early=arguments.stop_early,
                    )
                    translator = replace(model.translator(settings=settings), sampling=sampling)

                    def denoise(translator=translator, groups: list[list[str]] = groups) -> Work:
                        found = [each for some in groups for each in translator.translate(some)]
                        return work_of(found, model.tokenizer.encode)

                    sides[f"{rule}, T={steps}, n={candidates}"] = denoise
        compared = compare_speed(sides, baseline="twin, greedy", repeats=arguments.repeats)
        tables.append(compared.table(f"Batches of {batch}", note=f"{len(sources)} sentences in a run"))
        print(tables[-1].markdown(), flush=True)
    config = {"model": model.config.to_dict(), "sentences": len(sources), "stop early": arguments.stop_early}
    report = make_report("Speed of translation", tables=tables, seed=0, config=config, threads=arguments.threads)
    report.write(arguments.out, name="mt-speed")


if __name__ == "__main__":
    main()
