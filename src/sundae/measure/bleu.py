"""BLEU by sacreBLEU, never without its signature."""

from collections.abc import Sequence
from dataclasses import dataclass

from sundae.errors import CapabilityError, DataError


@dataclass(frozen=True)
class Bleu:
    """A corpus score and the signature that says how it was computed."""

    score: float
    signature: str


def corpus_bleu(hypotheses: Sequence[str], references: Sequence[str]) -> Bleu:
    """Cased BLEU with the 13a tokenisation, one reference for each hypothesis."""
    if len(hypotheses) != len(references):
        raise DataError(f"{len(hypotheses)} hypotheses and {len(references)} references", why="there must be as many")
    try:
        from sacrebleu.metrics.bleu import BLEU
    except ImportError:
        raise CapabilityError("sacreBLEU is not installed", hint="pip install 'sundae[measure]'") from None
    metric = BLEU()
    result = metric.corpus_score(list(hypotheses), [list(references)])
    return Bleu(float(result.score), str(metric.get_signature()))
