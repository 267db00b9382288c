"""How much of the samples stands in the training data: a copy is no invention."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from sundae.errors import DataError, UsageError
from sundae.measure.ngrams import number_ngrams, split_texts

_BLOCK = 50_000  # training texts that are held at a time


@dataclass(frozen=True)
class Memorisation:
    """Share of samples that are training texts word for word, and share of their n-grams that stand in any.

    The second counts every n-gram as often as it occurs.  Both mean little alone: measure held-out text the same way.
    """

    verbatim: float
    ngrams: float
    order: int
    samples: int
    training_texts: int


def memorisation(samples: Sequence[str], *, training: Iterable[str], order: int = 4) -> Memorisation:
    """Look for whole samples and for their n-grams in training texts, which may be a stream; spaces do not count."""
    if not samples:
        raise DataError("no samples", why="there is nothing to look for")
    if order < 1:
        raise UsageError(f"order {order}", why="an n-gram has at least one token")
    wanted = [" ".join(sample.split()) for sample in samples]
    copied = np.zeros(len(wanted), dtype=bool)
    known = np.zeros(int(np.maximum(split_texts(wanted).lengths - order + 1, 0).sum()), dtype=bool)
    seen, stream = 0, iter(training)
    while block := [" ".join(text.split()) for text in islice(stream, _BLOCK)]:
        seen += len(block)
        texts = set(block)
        copied |= np.array([sample in texts for sample in wanted])
        *_, ngrams = number_ngrams(split_texts([*wanted, *block]), largest=order)
        # The samples' n-grams come first, in the same order for every block.
        in_training = np.zeros(ngrams.distinct, dtype=bool)
        in_training[ngrams.ids[len(known) :]] = True
        known |= in_training[ngrams.ids[: len(known)]]
    if not seen:
        raise DataError("no training texts", why="there is nowhere to look")
    return Memorisation(float(copied.mean()), float(known.mean()) if len(known) else 0.0, order, len(wanted), seen)
