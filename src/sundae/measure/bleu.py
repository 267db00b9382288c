"""BLEU and chrF by sacreBLEU, never without their signature, and how sure a difference in BLEU is."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sundae.errors import CapabilityError, DataError
from sundae.measure.bootstrap import RESAMPLES, Difference, Interval, bootstrap, bootstrap_difference

if TYPE_CHECKING:
    from sacrebleu.metrics.bleu import BLEU

_HINT = "pip install 'sundae[measure]'"


@dataclass(frozen=True)
class Bleu:
    """A corpus score and the signature that says how it was computed."""

    score: float
    signature: str


@dataclass(frozen=True)
class Chrf:
    """A corpus score and the signature that says how it was computed."""

    score: float
    signature: str


@dataclass(frozen=True)
class BleuInterval:
    """A corpus score with its bootstrap interval and the signature of BLEU."""

    score: Interval
    signature: str


@dataclass(frozen=True)
class BleuComparison:
    """Two systems on the same references: their scores, their difference, and the signature of BLEU."""

    scores: Difference
    signature: str


def corpus_bleu(hypotheses: Sequence[str], references: Sequence[str], *, quiet: bool = False) -> Bleu:
    """Cased BLEU with the 13a tokenisation, one reference for each hypothesis.

    sacreBLEU warns of text that looks tokenised already, unless it is to be `quiet`.
    """
    return _corpus_bleu(hypotheses, references, tokenised=False, quiet=quiet)


def tokenised_bleu(hypotheses: Sequence[str], references: Sequence[str]) -> Bleu:
    """Lower-cased BLEU of text that is tokenised already: only for comparison with figures made that way."""
    return _corpus_bleu(hypotheses, references, tokenised=True)


def corpus_chrf(hypotheses: Sequence[str], references: Sequence[str]) -> Chrf:
    """Cased chrF (character n-grams up to 6, no words), one reference for each hypothesis."""
    _check(hypotheses, references)
    try:
        from sacrebleu.metrics.chrf import CHRF
    except ImportError:
        raise CapabilityError("sacreBLEU is not installed", hint=_HINT) from None
    metric = CHRF()
    result = metric.corpus_score(list(hypotheses), [list(references)])
    return Chrf(float(result.score), str(metric.get_signature()))


def bleu_interval(
    hypotheses: Sequence[str],
    *,
    references: Sequence[str],
    tokenised: bool = False,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> BleuInterval:
    """BLEU of one system with its 95% bootstrap interval over sentences."""
    signature = _corpus_bleu(hypotheses, references, tokenised=tokenised).signature
    counts = sentence_counts(hypotheses, references, tokenised=tokenised)
    return BleuInterval(bootstrap(counts, score=score_of_counts, resamples=resamples, seed=seed), signature)


def compare_bleu(
    first: Sequence[str],
    second: Sequence[str],
    *,
    references: Sequence[str],
    tokenised: bool = False,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> BleuComparison:
    """Paired bootstrap (Koehn 2004): the 95% interval of the difference of two systems on the same references."""
    signature = _corpus_bleu(first, references, tokenised=tokenised).signature
    one, two = (sentence_counts(system, references, tokenised=tokenised) for system in (first, second))
    scores = bootstrap_difference(one, two, score=score_of_counts, resamples=resamples, seed=seed)
    return BleuComparison(scores, signature)


def sentence_counts(
    hypotheses: Sequence[str], references: Sequence[str], *, tokenised: bool = False
) -> NDArray[np.int64]:
    """What BLEU sums over sentences: both lengths, then matches and n-grams of the orders 1 to 4."""
    _check(hypotheses, references)
    metric = _metric(tokenised=tokenised, effective_order=True)  # or sacreBLEU warns; the counts are the same
    rows: list[list[int]] = []
    for hypothesis, reference in zip(hypotheses, references, strict=True):
        found = metric.sentence_score(hypothesis, [reference])
        rows.append([found.sys_len, found.ref_len, *found.counts, *found.totals])
    return np.array(rows, dtype=np.int64)


def score_of_counts(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    """BLEU of each row of summed `sentence_counts`, by sacreBLEU's own formula and default smoothing."""
    metric, order = _metric(tokenised=False), 4
    scores: list[float] = []
    for row in sums.astype(np.int64).tolist():
        result = metric.compute_bleu(row[2 : 2 + order], row[2 + order :], row[0], row[1], metric.smooth_method)
        scores.append(result.score)
    return np.array(scores)


def _corpus_bleu(hypotheses: Sequence[str], references: Sequence[str], *, tokenised: bool, quiet: bool = False) -> Bleu:
    _check(hypotheses, references)
    metric = _metric(tokenised=tokenised, quiet=quiet)
    result = metric.corpus_score(list(hypotheses), [list(references)])
    return Bleu(float(result.score), str(metric.get_signature()))


def _metric(*, tokenised: bool, effective_order: bool = False, quiet: bool = False) -> "BLEU":
    try:
        from sacrebleu.metrics.bleu import BLEU
    except ImportError:
        raise CapabilityError("sacreBLEU is not installed", hint=_HINT) from None
    if tokenised:
        # force: sacreBLEU would warn of text that looks tokenised, and here it is.
        return BLEU(tokenize="none", lowercase=True, force=True, effective_order=effective_order)
    return BLEU(effective_order=effective_order, force=quiet)


def _check(hypotheses: Sequence[str], references: Sequence[str]) -> None:
    if len(hypotheses) != len(references):
        raise DataError(f"{len(hypotheses)} hypotheses and {len(references)} references", why="there must be as many")
    if not hypotheses:
        raise DataError("no hypotheses", why="an empty corpus has no score")
