"""Translation on Multi30k: SUNDAE against its autoregressive twin and CMLM, with the paper's ablations.

    python benchmarks/multi30k.py DATA --work DIR                   everything; hours of training for each run
    python benchmarks/multi30k.py DATA --work DIR --only l1-0 l12-0   these runs only

Several processes may share the work if each has its own list and what they start from (ar-start, l12-0 ...) is there.
DATA holds multi30k/tok/ and multi30k/raw/ (hub: bentrevett/multi30k).  The work folder holds corpora, runs,
translations and reports; the same command goes on where it stopped.  Settings are chosen on validation, and the
test sets are translated once with what was chosen (by a twin, greedily too).  The report has what is there.
"""

import gzip
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from sundae.config import SamplingConfig
from sundae.measure.report import Cell, Table
from translation_bench import DETERMINISTIC, FULL, HALF_OF_VALIDATION, STOCHASTIC, Bench, run
from translation_runs import Run

VOCABULARY = 6000
FULL_BUDGET, SMALL_BUDGET = 16_000, 8_000
"""Updates of 1,000 target positions, pads included: about two hours of a core, which the twin has too, and one."""
PLAIN_SHARE = 0.4
"""Runs of the small budget begin with L^(1), which costs half as much; those of one seed have these updates in common,
whatever loss follows.  At the full budget it was more (docs/log.md)."""
START = 4_000
"""Updates of the twin from whose weights SUNDAE starts; with its own, three quarters of the full budget."""
LONG = 12_000
"""Updates of SUNDAE on close canvases from a twin of the small budget: about two hours of a core with the twin's."""
MORE = 10_000
"""Updates after which a raw run has had more than the full budget, its twin's not counted."""
AGAIN_OPEN = 6_000
"""The same for the run without length prediction, whose updates cost twice as much."""
SHIFTED = ["network.shifted=true", "training.learning_rate=2.5e-3"]
"""Wired as the twin is, whose weights then fit; a rate as high as the twin's would undo what it has learnt."""
CLOSE = ["network.canvas_unit=2", "training.batch_tokens=720"]
"""Canvases that fit their text, with nearly as many sentences in an update: 720 positions instead of 1,000.

Ablations share the wider canvases of the run that they are set against."""
OPEN = ["network.length_prediction=false", "training.batch_tokens=1740"]
"""One canvas for all, and as many sentences in an update as the others have on average."""
AGAIN = ["training.learning_rate=4e-3", "training.warmup_steps=200", "objective.plain_share=0"]
"""A model that has been trained, at a high rate once more."""
RECIPE = ["sampling.candidates=4", "network.dropout=0.1"]
WATCHED = 200
"""Validation sentences that are translated during training, with few candidates: the curves of the paper's appendix."""


def small(*changes: str, corpus: str = "ende", branch_of: str | None = None) -> Run:
    recipe = [*RECIPE, f"training.steps={SMALL_BUDGET}", f"objective.plain_share={PLAIN_SHARE}", *changes]
    shared = round(PLAIN_SHARE * SMALL_BUDGET) if branch_of else 0
    return Run("multi30k", corpus, recipe, watched=WATCHED, branch_of=branch_of, shared=shared)


def twin(corpus: str) -> Run:
    return Run("multi30k-ar", corpus, [f"training.steps={SMALL_BUDGET}"])


def from_twin(name: str, *changes: str, corpus: str = "ende", updates: int = SMALL_BUDGET, wide: bool = True) -> Run:
    """As many updates, but they go on from a twin's weights."""
    recipe = [*RECIPE, f"training.steps={updates}", "training.warmup_steps=200", "objective.plain_share=0.25"]
    return Run("multi30k", corpus, [*recipe, *changes], after=name, watched=WATCHED, wide=wide)


RUNS: dict[str, Run] = {
    "ar": Run("multi30k-ar"),
    "sundae": Run(
        "multi30k", changes=[*RECIPE, f"training.steps={FULL_BUDGET}", "objective.plain_share=0.6"], watched=WATCHED
    ),
    # A twin that is begun, and SUNDAE from there.
    "ar-start": Run("multi30k-ar", changes=[f"training.steps={START}", "network.dropout=0.1"]),
    "from-ar": from_twin("ar-start"),
    "shifted": from_twin("ar-start", *SHIFTED),
    # The full budget once more: a twin of the small one, and SUNDAE from there, on people's translations and its own.
    "ar-small": twin("ende"),
    "long": from_twin("ar-small", *CLOSE, updates=LONG),
    "distilled": from_twin("ar-small", *CLOSE, "objective.label_smoothing=0.0", corpus="ende-distilled", updates=LONG),
    # The same with a better teacher: the full twin once more, with another seed.
    "ar-1": Run("multi30k-ar", changes=["training.seed=1"]),
    "distilled-full": from_twin(
        "ar-1", *CLOSE, "objective.label_smoothing=0.0", corpus="ende-distilled-full", updates=LONG
    ),
    "l12-0": small(),
    "l1-0": small("objective.unroll_steps=1", branch_of="l12-0"),
    "l13": small("objective.unroll_steps=3", branch_of="l12-0"),
    "l12-1": small("training.seed=1"),
    "l1-1": small("training.seed=1", "objective.unroll_steps=1", branch_of="l12-1"),
    "l12-2": small("training.seed=2"),
    "l1-2": small("training.seed=2", "objective.unroll_steps=1", branch_of="l12-2"),
    "cmlm": Run("multi30k", changes=["network.dropout=0.1", f"training.steps={SMALL_BUDGET}"], network="cmlm"),
    "no-length": small(*OPEN, corpus="ende-40"),
    # The same recipe for each language.  The first pair's twin is `ar-small` once more, whose weights were gone.
    "ende": from_twin("ende-ar", *CLOSE),
    "ende-ar": twin("ende"),
    # And then more of the same, at a high rate once more: is it training that is missing?
    "ende-more": Run(
        "multi30k", changes=[*RECIPE, *CLOSE, *AGAIN, f"training.steps={MORE}"], after="ende", watched=WATCHED
    ),
    # `long` on one canvas for all, because the ablation was better without length prediction.
    "open": from_twin("ende-ar", *OPEN, corpus="ende-40", updates=LONG),
    "open-more": Run(
        "multi30k",
        "ende-40",
        [*RECIPE, *OPEN, *AGAIN, f"training.steps={AGAIN_OPEN}"],
        after="open",
        watched=WATCHED,
    ),
    "deen": from_twin("deen-ar", *CLOSE, corpus="deen", wide=False),
    "deen-ar": twin("deen"),
    "enfr": from_twin("enfr-ar", *CLOSE, corpus="enfr", wide=False),
    "enfr-ar": twin("enfr"),
    "raw": from_twin("raw-ar", *CLOSE, corpus="raw", wide=False),
    "raw-ar": twin("raw"),
}
LANGUAGES = {
    "ende": "en de",
    "ende-40": "en de",
    "ende-distilled": "en de",
    "ende-distilled-full": "en de",
    "deen": "de en",
    "enfr": "en fr",
    "raw": "en de",
}
TEACHERS = {"ende-distilled": "ar-small", "ende-distilled-full": "ar-1"}
"""Whose translations the distilled corpora hold."""
STUDIED = "ende"
"""The run whose decoding is studied."""
STEPS_STUDIED = (STUDIED, "distilled")
"""Runs that are decoded with few steps and with many, by either rule: the paper's table 1."""
ARGMAX_STEPS = (2, 4, 8)
"""Argmax-unrolled asks the network once in its first step and twice in the others; plain argmax gets as many calls."""
CLAIMS = [
    ("sundae", "ar"),
    ("from-ar", "ar"),
    ("from-ar", "sundae"),
    ("shifted", "ar"),
    ("shifted", "from-ar"),
    ("long", "ar-small"),
    ("long", "ar"),
    ("long", "from-ar"),
    ("l12-0", "l1-0"),
    ("l12-1", "l1-1"),
    ("l12-2", "l1-2"),
    ("l13", "l12-0"),
    ("no-length", "l12-0"),
    ("cmlm", "l12-0"),
    ("distilled", "ar-small"),
    ("distilled", "ar"),
    ("distilled", "long"),
    ("distilled-full", "ar-1"),
    ("distilled-full", "ar"),
    ("distilled-full", "distilled"),
    ("ende", "ende-ar"),
    ("ende", "ar"),
    ("ende-more", "ende-ar"),
    ("ende-more", "ar"),
    ("ende-more", "ende"),
    ("open", "ende-ar"),
    ("open", "ar"),
    ("open", "long"),
    ("open-more", "ende-ar"),
    ("open-more", "ar"),
    ("open-more", "open"),
    ("deen", "deen-ar"),
    ("enfr", "enfr-ar"),
    ("raw", "raw-ar"),
]


class Multi30k(Bench):
    """Captions, lower-cased and tokenised, and as they are."""

    title, runs, tests, claimed = "Multi30k", RUNS, ("test_2016_flickr", "test_2017_flickr"), CLAIMS
    drawn = {"no-length": "L(1:2), no length prediction", "l13": "L(1:3)", "l12-0": "L(1:2)", "l1-0": "L(1)"}  # noqa: RUF012

    def lines(self, corpus: str, split: str) -> tuple[list[str], list[str]]:
        source, target = LANGUAGES[corpus].split()
        return self._side(corpus, split, source), self._side(corpus, split, target)

    def _side(self, corpus: str, split: str, language: str) -> list[str]:
        if corpus == "raw":
            packed = self.data / "multi30k" / "raw" / f"{split}.{language}.gz"
            return gzip.decompress(packed.read_bytes()).decode().splitlines()
        return (
            (self.data / "multi30k" / "tok" / f"{split}.lc.norm.tok.{language}")
            .read_text(encoding="utf-8")
            .splitlines()
        )

    def tokenised(self, corpus: str) -> bool:
        return corpus != "raw"

    def prepare(self, corpus: str, folder: Path) -> None:
        if corpus in TEACHERS:
            self.distil("ende", teacher=TEACHERS[corpus], to=folder)
            return
        about = ["--description", f"Multi30k, {corpus}", "--languages", LANGUAGES[corpus].replace(" ", ",")]
        common = ["--vocabulary", VOCABULARY, "--canvas", 40 if corpus == "ende-40" else 64, *about]
        held_out = ["--validation-from", *self.pair_files(corpus, "val")]
        self.sundae("prepare", "parallel", *self.pair_files(corpus, "train"), "--out", folder, *common, *held_out)

    def more(self, name: str) -> list[Table]:
        tried = step_curves(self, name) if name in STEPS_STUDIED else []
        tried += other_curves(self, name) if name == STUDIED else []
        tables = [curves(self, name, tried)] if tried else []
        tables += [side_by_side(self, name)] if name == STUDIED else []
        return super().more(name) + tables


Tried = tuple[str, SamplingConfig, bool]
"""The curve, the setting, and whether the length is known."""


def step_curves(bench: Bench, name: str) -> list[Tried]:
    """What the number of steps does, with n = 4."""
    stochastic, deterministic = best_of_both(bench, name)
    tried = [("steps, deterministic", replace(deterministic, steps=t), False) for t in (2, 3, 4, 8, 10)]
    return tried + [("steps, stochastic", replace(stochastic, steps=t), False) for t in (4, 8, 10, 16, 32)]


def other_curves(bench: Bench, name: str) -> list[Tried]:
    """What temperature, candidates, the uncertain share, a known length and the unrolled argmax do."""
    stochastic, deterministic = best_of_both(bench, name)
    temperatures, shares = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0), (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.9)
    tried: list[Tried] = [("temperature", replace(stochastic, temperature=t), False) for t in temperatures]
    tried += [("candidates", replace(stochastic, candidates=n), False) for n in (1, 4, FULL)]
    tried += [("uncertain share", replace(deterministic, uncertain_share=u), False) for u in shares]
    tried += [("known length", each, True) for each in (stochastic, deterministic)]
    for steps in ARGMAX_STEPS:
        unrolled, plain = argmax_both(stochastic, deterministic, steps)
        tried += [("argmax-unrolled", unrolled, False), ("plain argmax", plain, False)]
    return tried


def argmax_both(
    stochastic: SamplingConfig, deterministic: SamplingConfig, steps: int
) -> tuple[SamplingConfig, SamplingConfig]:
    """Argmax-unrolled, and plain argmax with as many network calls."""
    return (
        replace(deterministic, steps=steps, candidates=1),
        replace(stochastic, temperature=0.0, steps=2 * steps - 1, candidates=1),
    )


def side_by_side(bench: Bench, name: str) -> Table:
    """What the paper says of decoding, as differences with intervals."""
    stochastic, deterministic = best_of_both(bench, name)
    few, many = replace(stochastic, steps=4), replace(stochastic, steps=16)
    rows = [
        bench.against(name, *argmax_both(stochastic, deterministic, steps), claim=f"{2 * steps - 1} calls, argmax")
        for steps in ARGMAX_STEPS
    ]
    rows += [
        bench.against(name, replace(deterministic, steps=4), few, claim="deterministic, T = 4"),
        bench.against(name, deterministic, stochastic, claim="deterministic, T = 10"),
        bench.against(name, many, few, claim="more steps"),
        bench.against(name, replace(deterministic, steps=10), replace(deterministic, steps=4), claim="more steps"),
        bench.against(name, replace(stochastic, candidates=FULL), replace(stochastic, candidates=1), claim="n = 16"),
        bench.against(name, stochastic, replace(stochastic, temperature=0.1), claim="medium temperature"),
        bench.against(name, stochastic, stochastic, oracle=True, claim="known length"),
    ]
    return Table(f"Side by side with {name}", rows, "validation; paired bootstrap over sentences")


def best_of_both(bench: Bench, name: str) -> tuple[SamplingConfig, SamplingConfig]:
    """The best setting of either of the paper's rules on validation."""
    stochastic, deterministic = bench.best(name, STOCHASTIC), bench.best(name, DETERMINISTIC)
    assert isinstance(stochastic, SamplingConfig)
    assert isinstance(deterministic, SamplingConfig)
    return stochastic, deterministic


def curves(bench: Bench, name: str, tried: Sequence[Tried]) -> Table:
    """Settings that differ in one thing, on validation."""
    rows: list[dict[str, Cell]] = []
    for curve, what, oracle in tried:
        setting = bench.shown(name, what)
        rows.append(bench.row(name, HALF_OF_VALIDATION, what, oracle=oracle, curve=curve, setting=setting))
        print(rows[-1], flush=True)
    return Table(f"Decoding with {name}", rows)


if __name__ == "__main__":
    run(Multi30k, about=__doc__)
