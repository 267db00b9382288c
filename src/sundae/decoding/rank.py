"""Which candidate is best: by the model's score, the score per token, or what the others agree with most."""

from collections import Counter
from collections.abc import Sequence
from typing import get_args

from sundae.config import RankName, nearest
from sundae.errors import UsageError

_ORDERS = range(1, 7)
_BETA = 2.0


def rank(
    texts: Sequence[str], *, scores: Sequence[float], lengths: Sequence[int], by: RankName | float = "per-token"
) -> list[int]:
    """Numbers of the candidates, best first; of equal texts only the best stays.

    `scores` are model scores, summed over the canvas: they rank candidates on one canvas (paper, sec. 3.1).  Per token
    of the text they rank candidates of different lengths; a number is the power of the length that they are divided by,
    0 for the score and 1 for the score per token.  `mbr` is minimum Bayes risk (Kumar and Byrne, 2004): the
    mean chrF against all candidates, equal ones counted as often as they came; the score breaks ties.  For
    `leave-one-out` the scores are given: of each new token, its log-probability when the model does not see it.
    """
    per_token = [score / max(1, length) for score, length in zip(scores, lengths, strict=True)]
    keys: list[tuple[float, float]]
    match by:
        case int() | float():
            keys = [(score / max(1, length) ** by, 0.0) for score, length in zip(scores, lengths, strict=True)]
        case "score" | "leave-one-out":
            return rank(texts, scores=scores, lengths=lengths, by=0)
        case "per-token":
            return rank(texts, scores=scores, lengths=lengths, by=1)
        case "mbr":
            counted = Counter(texts)
            risk = {
                text: sum(chrf(text, other) * times for other, times in counted.items()) / len(texts)
                for text in counted
            }
            keys = [(risk[text], score) for text, score in zip(texts, per_token, strict=True)]
        case _:
            raise UsageError(f"rank {by!r}", why=nearest(by, get_args(RankName)))
    order = sorted(range(len(texts)), key=lambda index: keys[index], reverse=True)
    seen: set[str] = set()
    return [index for index in order if not (texts[index] in seen or seen.add(texts[index]))]


def chrf(hypothesis: str, reference: str) -> float:
    """Character n-gram F2 score of one text against another, from 0 to 100 (Popovic, 2015); white space is left out.

    Orders that either text is too short for are left out, as sacreBLEU's effective order does.
    """
    precision = recall = 0.0
    orders = 0
    first, second = "".join(hypothesis.split()), "".join(reference.split())
    for order in _ORDERS:
        ours, theirs = _ngrams(first, order), _ngrams(second, order)
        if not ours or not theirs:
            continue
        common = sum((ours & theirs).values())
        precision += common / ours.total()
        recall += common / theirs.total()
        orders += 1
    if not orders or precision + recall == 0:
        return 0.0
    precision, recall = precision / orders, recall / orders
    return 100 * (1 + _BETA**2) * precision * recall / (_BETA**2 * precision + recall)


def _ngrams(text: str, order: int) -> Counter[str]:
    return Counter(text[begin : begin + order] for begin in range(len(text) - order + 1))
