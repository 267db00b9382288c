"""What every verb gives back."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Written:
    """One finished text, what the model thinks of it, and what it cost."""

    text: str
    score: float
    steps: int
    network_calls: int
