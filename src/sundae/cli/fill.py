"""`sundae fill TEMPLATE`."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from tyro.conf import Positional, UseAppendAction, arg

from sundae.cli.writing import WritingFlags, read_lines
from sundae.config import RankName
from sundae.errors import UsageError

if TYPE_CHECKING:
    from sundae.decoding.fill import FillSettings

CANDIDATES: int = 8


@dataclass(frozen=True, kw_only=True)
class Command(WritingFlags):
    """Fill the blanks of a template from both sides; best candidates first.

    [[6]] is six tokens, [[3w]] three words, [[2-8]] two to eight tokens, [[?]] as many as it takes, \\[[ is no blank.
    """

    template: Annotated[Positional[str], arg(metavar="TEMPLATE|-")]
    """A text with blanks, such as "Seeing [[6]] for any visitor"; - reads one a line from standard input."""
    candidates: Annotated[int, arg(metavar="N")] = CANDIDATES
    """Chains to run at least, over all lengths of the blanks."""
    rank: RankName | None = None
    """How candidates are ranked: leave-one-out, or per-token if lengths are tried (docs/writing.md)."""
    allow: Annotated[UseAppendAction[tuple[str, ...]], arg(metavar="BLANK=WORDS")] = ()
    """The only words that may stand in a blank, such as 1=red,green; once for each such blank."""
    mark: bool = False
    """Put what was filled in into [brackets]; on a terminal it is coloured."""

    def run(self) -> None:
        """Print -n filled texts for each template."""
        from sundae.baselines.models import AutoregressiveTwin, Draw
        from sundae.decoding.fill import FillSettings

        templates = read_lines(self.template)
        if self.candidates < 1:
            raise UsageError(f"--candidates {self.candidates}", why="must be at least 1")
        model = self.load()
        if isinstance(model, AutoregressiveTwin):
            if self.allow or self.must or self.candidates != CANDIDATES or self.rank:
                why = f"{self.model} writes from left to right"
                raise UsageError("--allow, --must, --candidates and --rank", why=why)
            made = [
                model.fill(template, count=self.count, draw=self.draw(Draw()), seed=self.seed) for template in templates
            ]
            self.write("".join(self.print(texts, mark=self.mark) for texts in made))
            return
        sampling = self.sampling(model.fill_sampling)
        settings = FillSettings(
            count=self.count,
            candidates=self.candidates,
            by=self.rank,
            seed=self.seed,
            constraints=self.constraints(self.allow),
        )
        _check(templates, settings)
        with (
            self.onlookers(model, steps=sampling.steps) as looking,
            self.progress("templates", len(templates)) as progress,
        ):
            filled = model.fill_many(
                templates, sampling=sampling, settings=settings, watch=looking or None, progress=progress
            )
        lines = (
            self.print(texts, mark=self.mark, context={"template": template})
            for template, texts in zip(templates, filled, strict=True)
        )
        self.write("".join(lines))
        origins = [origin for texts in filled for each in texts for origin in each.origins]
        self.save_trace(looking, "fill", sampling, origins)


def _check(templates: list[str], settings: "FillSettings") -> None:
    """Refuse a template that cannot be filled before any is, and say which of several it is."""
    from sundae.decoding.fill import require_blanks
    from sundae.text.template import parse_template

    for number, template in enumerate(templates, start=1):
        try:
            require_blanks(parse_template(template), settings.constraints)
        except UsageError as error:
            if len(templates) == 1:
                raise
            raise UsageError(f"template {number}: {error.what}", why=error.why, hint=error.hint) from None
