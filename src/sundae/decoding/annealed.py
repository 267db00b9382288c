"""The paper's low-temperature sampling with what other samplers have since added to the draw."""

from collections.abc import Generator
from dataclasses import dataclass, field

from sundae.core.network import Ask, Prediction
from sundae.core.sampling import Schedule, Update, View, lowest, update_all, update_triangle
from sundae.decoding.drawing import Drawing


@dataclass(frozen=True)
class Annealed:
    """Low-temperature sampling (core.sampling.LowTemperature) with top-k, top-p and a temperature that changes.

    With a plain drawing it is that rule, bit for bit.  One network call a step; none if the schedule updates nothing.
    """

    drawing: Drawing = field(default_factory=Drawing)
    schedule: Schedule = update_all

    @property
    def deterministic(self) -> bool:
        return self.drawing.always_argmax and self.schedule is update_all

    @property
    def runs_to_end(self) -> bool:
        return self.schedule is update_triangle

    def step(self, view: View) -> Generator[Ask, Prediction, Update]:
        count = self.schedule(view.step, view.steps, view.editable.sum(1))
        chosen = lowest(view.uniform("choice"), among=view.editable, count=count)
        if not chosen.any():
            return Update(view.tokens, chosen, view.certainty)
        logits = yield from view.logits(view.tokens, where=chosen)
        drawn = self.drawing.tokens(logits, view=view, where=chosen)
        return Update(view.tokens.masked_scatter(chosen, drawn), chosen, view.certainty)
