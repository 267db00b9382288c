"""A row that did not change has the same hidden states: only its logits, at other positions perhaps, are new."""

from collections.abc import Callable

import torch
from torch import Tensor

from sundae.core.network import Ask, Denoiser, Prediction

Head = Callable[[Tensor], Tensor]
"""Hidden states to logits."""


class Reusing:
    """A denoiser that asks another one only about rows that differ from when they were last asked about.

    With `spare` False it asks about all rows every time, and only counts.
    `calls` counts for each row of the chain how often it was computed, `network_calls` how many calls there were.
    One object serves one run of a chain.
    """

    def __init__(self, denoiser: Denoiser, *, head: Head, rows: int, spare: bool = True) -> None:
        self._denoiser, self._head, self._spare = denoiser, head, spare
        self._tokens: Tensor | None = None
        self._hidden: Tensor | None = None
        self._known = torch.zeros(rows, dtype=torch.bool)
        self.calls = torch.zeros(rows, dtype=torch.long)
        self.network_calls = 0

    def __call__(self, ask: Ask) -> Prediction:
        """Logits as the other denoiser would give them."""
        if (
            not self._spare
            or self._tokens is None
            or self._hidden is None
            or self._tokens.shape[1] != ask.tokens.shape[1]
        ):
            fresh = torch.ones(len(ask.rows), dtype=torch.bool)
        else:
            fresh = ~(self._known[ask.rows] & (self._tokens[ask.rows] == ask.tokens).all(1))
        if bool(fresh.all()):
            prediction = self._denoiser(ask)
            self._keep(ask, prediction.hidden)
            return prediction
        assert self._hidden is not None
        if bool(fresh.any()):
            some = Ask(ask.tokens[fresh], ask.rows[fresh], ask.inside[fresh], torch.zeros_like(ask.where[fresh]))
            self._keep(some, self._denoiser(some).hidden)
        hidden = self._hidden[ask.rows]
        return Prediction(hidden, self._head(hidden[ask.where]))

    def _keep(self, ask: Ask, hidden: Tensor) -> None:
        if self._tokens is None or self._hidden is None or self._hidden.shape[1:] != hidden.shape[1:]:
            self._tokens = ask.tokens.new_zeros(len(self.calls), ask.tokens.shape[1])
            self._hidden = hidden.new_zeros(len(self.calls), *hidden.shape[1:])
            self._known = torch.zeros_like(self._known)
        self._tokens[ask.rows], self._hidden[ask.rows] = ask.tokens, hidden
        self._known[ask.rows] = True
        self.calls = self.calls.index_add(0, ask.rows, torch.ones_like(ask.rows))
        self.network_calls += 1
