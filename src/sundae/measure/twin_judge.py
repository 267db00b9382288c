"""The autoregressive twin as a judge of texts that it did not write."""

from collections.abc import Sequence

from sundae.baselines.models import AutoregressiveTwin
from sundae.measure.judge import Judge


def judge_of(model: AutoregressiveTwin) -> Judge:
    """Exact negative log-likelihoods, each text's end included."""

    def judge(texts: Sequence[str]) -> list[tuple[float, int]]:
        found = model.log_likelihood(texts)
        return list(zip((-found.log_probability).tolist(), found.predictions.tolist(), strict=True))

    return judge
