"""`sundae generate --model DIR`."""

from dataclasses import dataclass

from sundae.cli.writing import WritingFlags


@dataclass(frozen=True, kw_only=True)
class Command(WritingFlags):
    """Write texts from nothing: every canvas starts as noise and is improved step by step."""

    def run(self) -> None:
        """Print one text a line."""
        model = self.load()
        sampling = self.sampling(model.config.sampling)
        self.print(model.generate(self.count, sampling=sampling, seed=self.seed, watch=self.watcher(model)))
