"""What every verb gives back."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Written:
    """One finished text, what the model thinks of it (per token), what it cost, and where in it blanks were filled.

    `row` is which row of the chain it was, for those who watched.
    """

    text: str
    score: float
    steps: int
    network_calls: int
    fills: tuple[tuple[int, int], ...] = ()
    row: int = field(default=0, compare=False)
