"""What every verb gives back."""

from dataclasses import dataclass, field

from sundae.decoding.reading import Origin


@dataclass(frozen=True)
class Written:
    """One finished text, what the model thinks of it (per token), what it cost, and where in it blanks were filled.

    `origins` are the rows that wrote it, for those who watched: one for each window or part.
    """

    text: str
    score: float
    steps: int
    network_calls: int
    fills: tuple[tuple[int, int], ...] = ()
    origins: tuple[Origin, ...] = field(default=(), compare=False, repr=False)
