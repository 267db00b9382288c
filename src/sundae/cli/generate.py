"""`sundae generate [PROMPT]`."""

from dataclasses import dataclass
from typing import Annotated

from tyro.conf import Positional, arg

from sundae.cli.writing import WritingFlags, read_lines
from sundae.errors import UsageError


@dataclass(frozen=True, kw_only=True)
class Command(WritingFlags):
    """Write texts: every canvas starts as noise, after the prompt if there is one, and is improved step by step."""

    prompt: Annotated[Positional[str], arg(metavar="[PROMPT|-]")] = ""
    """How the texts begin; - reads one prompt a line from standard input.  Without it they are written from nothing."""
    length: Annotated[int | None, arg(metavar="N")] = None
    """Tokens to write, for a model of running text (its canvas)."""

    def run(self) -> None:
        """Print -n texts for each prompt."""
        from sundae.baselines.models import AutoregressiveTwin, Draw

        prompts = read_lines(self.prompt) if self.prompt else [""]
        model = self.load()
        if isinstance(model, AutoregressiveTwin):
            if self.length is not None or self.must:
                raise UsageError("--length and --must", why=f"{self.model} writes from left to right")
            draw = self.draw(Draw(temperature=model.config.sampling.temperature))
            made = [model.generate(self.count, prefix=prompt, draw=draw, seed=self.seed) for prompt in prompts]
            self.write("".join(map(self.print, made)))
            return
        sampling = self.sampling(model.generate_sampling(self.length))
        what, total = ("prompts", len(prompts)) if self.prompt or self.must else ("texts", self.count)
        with (
            self.onlookers(model, steps=sampling.steps) as looking,
            self.progress(what, total) as progress,
        ):
            made = model.generate_many(
                prompts,
                self.count,
                length=self.length,
                sampling=sampling,
                constraints=self.constraints(),
                seed=self.seed,
                watch=looking or None,
                progress=progress,
            )
        contexts = [{"prompt": prompt} if prompt else {} for prompt in prompts]
        self.write("".join(self.print(own, context=context) for own, context in zip(made, contexts, strict=True)))
        origins = [origin for own in made for each in own for origin in each.origins]
        self.save_trace(looking, "generate", sampling, origins)
