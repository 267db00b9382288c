"""Which word of a translation stands for some words of its source: the one that is least likely without them."""

import re

from sundae.core.network import Denoiser
from sundae.decoding.leave_one_out import Seen, leave_one_out
from sundae.text.tokenizer import Tokenizer

LEAST = 2.0
"""Nats by which a word must become less likely: e^2 times."""
_WORD = re.compile(r"\w+(?:['\u2019-]\w+)*")


def hanging_word(
    draft: str, tokenizer: Tokenizer, *, given: Denoiser, without: Denoiser, width: int
) -> tuple[int, int] | None:
    """Where that word of the draft begins and ends; the denoisers are bound to the source with and without the words.

    A denoiser believes what it sees, so each token is asked for with noise in its place.
    """
    tokens = tokenizer.encode(draft)
    seen, size = Seen(tokens, width, range(len(tokens))), tokenizer.vocabulary_size
    with_it, without_it = (
        leave_one_out([seen], denoiser=each, vocabulary_size=size)[0].own for each in (given, without)
    )
    lost = with_it - without_it
    drops: dict[tuple[int, int], float] = {}
    for found in _WORD.finditer(draft):
        first, last = (len(tokenizer.encode(draft[:end].rstrip())) for end in found.span())
        drops[found.span()] = float(lost[first:last].sum())
    best = max(drops, key=lambda span: drops[span], default=None)
    return best if best is not None and drops[best] >= LEAST else None
