"""`sundae fill TEMPLATE --model DIR`."""

from dataclasses import dataclass
from typing import Annotated

from tyro.conf import Positional, arg

from sundae.cli.writing import WritingFlags, read_lines


@dataclass(frozen=True, kw_only=True)
class Command(WritingFlags):
    """Fill the blanks of a template from both sides; best candidates first."""

    template: Annotated[Positional[str], arg(metavar="TEMPLATE|-")]
    """A text with blanks, such as "Seeing [[6]] for any visitor"; - reads one a line from standard input."""

    def run(self) -> None:
        """Print -n filled texts for each template."""
        templates = read_lines(self.template)
        from sundae.baselines.models import AutoregressiveTwin, Draw

        model = self.load()
        if isinstance(model, AutoregressiveTwin):
            for template in templates:
                self.print(model.fill(template, count=self.count, draw=self.draw(Draw()), seed=self.seed))
            return
        sampling = self.sampling(model.fill_sampling)
        for template in templates:
            self.print(
                model.fill(template, count=self.count, sampling=sampling, seed=self.seed, watch=self.watcher(model))
            )
