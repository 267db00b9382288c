"""The facade: text in, text out, and models on disk."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path

import torch
from torch import Tensor

from sundae.baselines.autoregressive import Autoregressive
from sundae.baselines.cmlm import MaskedTransformer
from sundae.baselines.kinds import build_network
from sundae.baselines.models import AutoregressiveTwin, MaskPredictTranslator
from sundae.config import RankName, RunConfig, SamplingConfig
from sundae.core.length import half_length, likeliest_half_length, text_length
from sundae.core.network import Denoiser, Transformer, as_denoiser
from sundae.decoding.canvas import Watch
from sundae.decoding.constraints import Constraints
from sundae.decoding.desk import Order, run_orders
from sundae.decoding.fill import FillSettings, fill_templates
from sundae.decoding.layout import Classes, Desk
from sundae.decoding.lines import Kept, translate_lines
from sundae.decoding.refine import Refined, Refinery, RefineSettings
from sundae.decoding.shapes import TokenShapes
from sundae.decoding.translation import Rate, TranslateSettings, Translator, bound_to
from sundae.decoding.written import Written
from sundae.errors import DataError, UsageError
from sundae.folder import ModelFolder, read_model, require_fit, write_model
from sundae.text.placeables import keep_variables, take_out, without_kept
from sundae.text.sources import pad_sources
from sundae.text.template import Blank, Template, Text, parse_template, unknown_blank
from sundae.text.tokenizer import Tokenizer

LONG = 128
"""Tokens from which on the triangular schedule is the usual one."""
FILLING = 0.6
"""The highest temperature at which blanks are filled, unless another is asked for."""


class Sundae:
    """A trained model with its tokenizer and settings."""

    def __init__(self, network: Transformer, tokenizer: Tokenizer, config: RunConfig) -> None:
        require_fit(tokenizer, config)
        self.network, self.tokenizer, self.config = network.eval(), tokenizer, config

    @classmethod
    def from_pretrained(cls, name: str | Path) -> "Sundae":
        """A model folder, or with the `hub` extra the id of a repository of such files."""
        model = load_model(name)
        if not isinstance(model, cls):
            kind = model.config.network.kind
            raise UsageError(f"{name} is not a SUNDAE model", why=f"its network.kind is {kind}")
        return model

    def save_pretrained(
        self, folder: Path, *, card: str = "", dtype: torch.dtype = torch.float32, force: bool = False
    ) -> None:
        """Write a self-contained model folder, whole or not at all."""
        save_model(self, folder, card=card, dtype=dtype, force=force)

    # ---- translating

    def translate(
        self,
        sources: Sequence[str],
        *,
        sampling: SamplingConfig | None = None,
        settings: TranslateSettings | None = None,
    ) -> list[Written]:
        """The best translation of each line."""
        return [found[0] for found in self.translate_many(sources, sampling=sampling, settings=settings)]

    def translate_many(
        self,
        sources: Sequence[str],
        *,
        sampling: SamplingConfig | None = None,
        settings: TranslateSettings | None = None,
        watch: Watch | None = None,
        progress: Callable[[int], None] | None = None,
        say: Callable[[str], None] | None = None,
        kept: Kept | None = None,
        rate: Rate | None = None,
    ) -> list[list[Written]]:
        """The best translations of each line, in common batches; each line gets what it would get alone.

        `say` is told how many lines were cropped, lack what they must hold or have a number of their own; `kept` has
        what is known already, and is given the rest; `rate` (a twin's) scores the candidates instead of the model.

        Paper: sec. 3.1 (Decoding).
        """
        translator = self.translator(sampling=sampling, settings=settings, watch=watch, rate=rate)
        found = translate_lines(
            sources,
            translator.translate,
            tokenizer=self.tokenizer,
            longest=self.config.network.longest_source,
            count=translator.settings.count,
            progress=progress,
            say=say,
            kept=kept,
        )
        if say is not None:
            pairs = [
                (number, without_kept(source, own[0].text))
                for number, (source, own) in enumerate(zip(sources, found, strict=True), start=1)
            ]
            for fault, what in (
                (translator.settings.lacking, "lack a term or a number that they should hold"),
                (translator.settings.invented, "hold a number that their source does not have in digits"),
            ):
                faulty = [str(number) for number, pair in pairs if fault(*pair)]
                where = ", ".join(faulty[:5]) + (", ..." if len(faulty) > 5 else "")
                if faulty:
                    lines = "line" if len(faulty) == 1 else "lines"
                    say(f"{len(faulty)} of {len(sources)} translations {what} ({lines} {where})")
        return found

    def translate_to_length(
        self,
        sources: Sequence[str],
        lengths: Sequence[int],
        *,
        sampling: SamplingConfig | None = None,
        settings: TranslateSettings | None = None,
    ) -> list[Written]:
        """Translations whose lengths in tokens are known beforehand, as those of references are (the oracle)."""
        translator = self.translator(sampling=sampling, settings=settings)
        order = sorted(range(len(sources)), key=lambda number: lengths[number])
        done: dict[int, Written] = {}
        for begin in range(0, len(order), 32):
            some = order[begin : begin + 32]
            halves = half_length(torch.tensor([lengths[number] for number in some]))
            found = translator.translate([sources[number] for number in some], halves=halves)
            done |= {number: own[0] for number, own in zip(some, found, strict=True)}
        return [done[number] for number in range(len(sources))]

    @torch.no_grad()
    def predicted_halves(self, sources: Sequence[str]) -> list[int]:
        """The likeliest (halved) length of each source's translation.  Paper: app. B."""
        found: list[int] = []
        for begin in range(0, len(sources), 64):
            some = sources[begin : begin + 64]
            source, inside = pad_sources(self.tokenizer, some, longest=self.config.network.source_positions)
            logits = self.network.length_predictor(self.network.encode(source, inside=inside), inside=inside)
            found += likeliest_half_length(logits).tolist()
        return found

    def translator(
        self,
        *,
        sampling: SamplingConfig | None = None,
        settings: TranslateSettings | None = None,
        watch: Watch | None = None,
        rate: Rate | None = None,
    ) -> Translator:
        """What translates batches of sources that fit."""
        if not self.config.network.translates:
            raise UsageError("this model does not translate", why="it has no encoder", hint="sundae generate or fill")
        settings = settings or TranslateSettings()
        return Translator(self.network, self.desk, sampling or self.config.sampling, settings, watch, rate)

    # ---- writing

    def generate(
        self,
        count: int = 1,
        *,
        prompt: str = "",
        length: int | None = None,
        sampling: SamplingConfig | None = None,
        constraints: Constraints | None = None,
        seed: int = 0,
        first: int = 0,
        watch: Watch | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> list[Written]:
        """Texts from nothing, or from how they begin: sample i of the seed, from `first` on, whatever the batch."""
        return self.generate_many(
            [prompt],
            count,
            length=length,
            sampling=sampling,
            constraints=constraints,
            seed=seed,
            first=first,
            watch=watch,
            progress=progress,
        )[0]

    def generate_many(
        self,
        prompts: Sequence[str],
        count: int = 1,
        *,
        length: int | None = None,
        sampling: SamplingConfig | None = None,
        constraints: Constraints | None = None,
        seed: int = 0,
        first: int = 0,
        watch: Watch | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> list[list[Written]]:
        """`count` texts for each way to begin, in common batches; each gets what it would get alone.

        From nothing they come in order, and progress counts texts; else the best come first, and it counts prompts.
        """
        self._require_no_source()
        sampling = sampling or self.generate_sampling(length)
        constraints = constraints or Constraints()
        desk = self._desk_of(length)
        if any(prompts) or constraints.must:
            return fill_templates(
                [self._to_continue(prompt, desk) for prompt in prompts],
                desk,
                denoiser=self.denoiser,
                head=self.network.logits,
                sampling=sampling,
                settings=FillSettings(count=count, candidates=count, seed=seed, first=first, constraints=constraints),
                watch=watch,
                progress=progress,
            )
        orders = [Order(None, number) for number in range(first, first + count)]
        outcomes = run_orders(
            orders,
            desk,
            denoiser=self.denoiser,
            head=self.network.logits,
            sampling=sampling,
            seed=seed,
            constraints=constraints,
            watch=watch,
            progress=progress,
        )
        written = [
            Written(
                self.text(torch.tensor(each.tokens)),
                each.score_per_token,
                each.steps,
                each.network_calls,
                origins=each.origins(),
            )
            for each in outcomes
        ]
        return [written] * len(prompts)

    def _to_continue(self, prompt: str, desk: Desk) -> Template:
        """A prompt is a template whose blank is all the rest; that of a model of whole texts is as long as it takes."""
        spaced = prompt.endswith(" ")
        given = prompt.removesuffix(" ")
        if desk.ends:
            blank = unknown_blank(leading_space=spaced)
        else:
            rest = desk.canvas - len(self.tokenizer.encode(prompt))
            if rest < 1:
                why = f"the canvas holds {desk.canvas}"
                raise UsageError(f"the prompt has {desk.canvas - rest} tokens", why=why, hint="the end of it alone")
            blank = Blank(low=rest, high=rest, leading_space=spaced)
        return Template((Text(given), blank) if given else (blank,))

    def _desk_of(self, length: int | None) -> Desk:
        if length is None:
            return self.desk
        canvas = self.config.network.canvas
        if self.desk.ends:
            raise UsageError(
                f"--length {length}", why="this model writes whole texts and decides itself where they end"
            )
        if not 1 <= length <= canvas:
            raise UsageError(f"--length {length}", why=f"the model writes 1 to {canvas} tokens")
        return replace(self.desk, canvas=length)

    def generate_sampling(self, length: int | None = None) -> SamplingConfig:
        """The model's sampling settings; long texts take the triangle.

        Paper: sec. 3.2 (Long-range unconditional generation).
        """
        if (length or self.config.network.canvas) >= LONG:
            return replace(self.config.sampling, schedule="triangle", stop_early=False)
        return self.config.sampling

    def fill(
        self,
        template: str,
        *,
        count: int = 1,
        candidates: int = 8,
        sampling: SamplingConfig | None = None,
        constraints: Constraints | None = None,
        by: RankName | None = None,
        seed: int = 0,
        watch: Watch | None = None,
    ) -> list[Written]:
        """The best `count` different ways to fill a template; what was given comes back as it was."""
        settings = FillSettings(
            count=count, candidates=candidates, by=by, seed=seed, constraints=constraints or Constraints()
        )
        return self.fill_many([template], sampling=sampling, settings=settings, watch=watch)[0]

    def fill_many(
        self,
        templates: Sequence[str],
        *,
        sampling: SamplingConfig | None = None,
        settings: FillSettings | None = None,
        watch: Watch | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> list[list[Written]]:
        """Many templates in common batches; each gets what it would get alone."""
        self._require_no_source()
        return fill_templates(
            [parse_template(template) for template in templates],
            self.desk,
            denoiser=self.denoiser,
            head=self.network.logits,
            sampling=sampling or self.fill_sampling,
            settings=settings or FillSettings(),
            watch=watch,
            progress=progress,
        )

    @property
    def fill_sampling(self) -> SamplingConfig:
        """The model's sampling settings, with all blanks updated at every step, and cool enough to settle.

        Paper: sec. 3.2 (Text In-painting).
        """
        temperature = min(FILLING, self.config.sampling.temperature)
        return replace(self.config.sampling, schedule="all", temperature=temperature, final_temperature=-1.0)

    def refine(
        self,
        draft: str,
        *,
        source: str | None = None,
        settings: RefineSettings | None = None,
        sampling: SamplingConfig | None = None,
        watch: Watch | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> Refined:
        """A draft (or a draft translation of `source`) improved: the chain starts from it; {{locks}} are kept."""
        refinery = self.proof_reader(draft, source=source)
        usual = sampling or self.refine_sampling
        return refinery.refine(settings or RefineSettings(), sampling=usual, watch=watch, progress=progress)

    def proof_reader(self, draft: str, *, source: str | None = None, closed: bool = False) -> Refinery:
        """A draft ready to be judged: `suggestions(count)` lists its least likely tokens; a `closed` one stays."""
        if source is None:
            self._require_no_source()
            return Refinery(draft, self.desk, denoiser=self.denoiser, closed=closed)
        if not self.config.network.translates:
            raise UsageError("a source", why="this model does not translate")
        words = take_out(source)[0]
        draft = keep_variables(draft, source)
        if closed or not any(map(str.isalpha, words)):  # then there is nothing to judge a translation by
            return Refinery(draft, self.desk, denoiser=self.denoiser, source=source, closed=True)
        length = self.draft_length(draft)
        if length > self.config.network.canvas:
            why = f"the model's canvas holds {self.config.network.canvas}"
            hint = "one sentence a line, without long addresses"
            raise UsageError(f"a draft translation of {length} tokens", why=why, hint=hint)
        denoiser, canvas = bound_to(self.network, words, self.desk, length=length)
        return Refinery(draft, replace(self.desk, canvas=canvas), denoiser=denoiser, source=source)

    def draft_length(self, draft: str) -> int:
        """The tokens of a draft, its {{locks}} among them."""
        segments = parse_template(draft).segments
        return len(self.tokenizer.encode("".join(each.text for each in segments if not isinstance(each, Blank))))

    @property
    def refine_sampling(self) -> SamplingConfig:
        """A few careful steps: what is already likely should stay."""
        return replace(
            self.config.sampling,
            rule="low-temperature",
            schedule="share",
            share=0.3,
            steps=20,
            temperature=0.3,
            final_temperature=-1.0,
        )

    @cached_property
    def desk(self) -> Desk:
        """What laying a request on a canvas needs to know of this model."""
        shapes = TokenShapes.of(self.tokenizer)
        ends = self.config.data.kind != "crops"  # a model of crops has never seen a text end
        return Desk(self.tokenizer, shapes, self.config.network.canvas, ends, Classes(shapes))

    @cached_property
    def denoiser(self) -> Denoiser:
        """f_theta as the chain asks it."""
        return as_denoiser(self.network)

    def _require_no_source(self) -> None:
        if self.config.network.translates:
            raise UsageError("this model only translates", why="it has an encoder and needs a source")

    @property
    def vocabulary_size(self) -> int:
        """How many tokens there are."""
        return self.config.network.vocabulary_size

    def text(self, tokens: Tensor) -> str:
        """What a canvas says: its tokens before the first pad."""
        return self.tokenizer.decode(tokens[: int(text_length(tokens[None]))].tolist())


Model = Sundae | AutoregressiveTwin | MaskPredictTranslator
"""Any model that can be trained here: SUNDAE and the baselines on its blocks."""


def as_model(network: Transformer, tokenizer: Tokenizer, config: RunConfig) -> Model:
    """The facade that fits a network."""
    match network:
        case Autoregressive():
            return AutoregressiveTwin(network, tokenizer, config)
        case MaskedTransformer():
            return MaskPredictTranslator(network, tokenizer, config)
        case _:
            return Sundae(network, tokenizer, config)


def load_model(name: str | Path) -> Model:
    """Whatever a model folder holds; see `Sundae.from_pretrained`."""
    found = read_model(name)
    network = build_network(found.config.network)
    try:
        network.load_state_dict(found.weights)
    except RuntimeError as error:
        raise DataError(f"the weights of {name} do not fit its config.json", why=str(error)) from None
    return as_model(network, found.tokenizer, found.config)


def save_model(
    model: Model, folder: Path, *, card: str = "", dtype: torch.dtype = torch.float32, force: bool = False
) -> None:
    """Write a self-contained model folder, whole or not at all."""
    content = ModelFolder(model.config, dict(model.network.state_dict()), model.tokenizer)
    write_model(folder, content, card=card, dtype=dtype, force=force)
