"""`sundae generate --model DIR`."""

from dataclasses import dataclass

from sundae.cli.writing import WritingFlags


@dataclass(frozen=True, kw_only=True)
class Command(WritingFlags):
    """Write texts from nothing: every canvas starts as noise and is improved step by step."""

    def run(self) -> None:
        """Print one text a line."""
        from sundae.baselines.models import AutoregressiveTwin, Draw

        model = self.load()
        if isinstance(model, AutoregressiveTwin):
            draw = self.draw(Draw(temperature=model.config.sampling.temperature))
            self.print(model.generate(self.count, draw=draw, seed=self.seed))
            return
        sampling = self.sampling(model.config.sampling)
        self.print(model.generate(self.count, sampling=sampling, seed=self.seed, watch=self.watcher(model)))
