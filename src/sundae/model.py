"""The facade: text in, text out, and models on disk."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import torch
from torch import Tensor

from sundae.baselines.autoregressive import Autoregressive
from sundae.baselines.cmlm import MaskedTransformer
from sundae.baselines.kinds import build_network
from sundae.baselines.models import AutoregressiveTwin, MaskPredictTranslator
from sundae.config import RunConfig, SamplingConfig
from sundae.core.length import PAD, canvas_for, likeliest_half_length, text_length
from sundae.core.network import Memory, Transformer, as_denoiser
from sundae.core.sampling import model_score
from sundae.decoding.canvas import Canvas, Watch, last_of, run_canvas
from sundae.decoding.written import Written
from sundae.errors import CapabilityError, DataError, UsageError
from sundae.folder import ModelFolder, read_model, require_fit, write_model
from sundae.text.sources import pad_sources
from sundae.text.template import Blank, parse_template
from sundae.text.tokenizer import Tokenizer


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
        self, sources: Sequence[str], *, sampling: SamplingConfig | None = None, seed: int = 0
    ) -> list[Written]:
        """One translation for each source: the best of `sampling.candidates` by model score, on a predicted canvas.

        Paper: sec. 3.1 (Target Length Prediction, Decoding).
        """
        if not self.config.network.translates:
            raise UsageError("this model does not translate", why="it has no encoder", hint="sundae generate or fill")
        if not sources:
            return []
        sampling = sampling or self.config.sampling
        source, inside = pad_sources(self.tokenizer, sources, longest=self.config.network.source_positions)
        memory, widths = self._remember(source, inside)
        chosen = torch.arange(len(sources)).repeat_interleave(sampling.candidates)
        canvas = Canvas.empty(int(widths.max()), rows=len(chosen), widths=widths[chosen])
        denoiser = as_denoiser(self.network, memory=memory, sources=chosen)
        state = last_of(
            run_canvas(denoiser, canvas, sampling=sampling, vocabulary_size=self.vocabulary_size, seed=seed)
        )
        total = model_score(denoiser, state.tokens, inside=canvas.inside).total.view(-1, sampling.candidates)
        best = total.argmax(1) + torch.arange(len(sources)) * sampling.candidates
        return [
            Written(self.text(state.tokens[row]), float(total.flatten()[row]), state.step, int(state.calls[row]))
            for row in best.tolist()
        ]

    @torch.no_grad()
    def _remember(self, source: Tensor, inside: Tensor) -> tuple[Memory, Tensor]:
        network, largest = self.network, self.config.network.canvas
        encodings = network.encode(source, inside=inside)
        if not self.config.network.length_prediction:
            return network.remember(encodings, inside=inside), torch.full((len(source),), largest)
        half = likeliest_half_length(network.length_predictor(encodings, inside=inside))
        return network.remember(encodings, inside=inside, half=half), canvas_for(half, largest=largest)

    # ---- writing

    def generate(
        self, count: int = 1, *, sampling: SamplingConfig | None = None, seed: int = 0, watch: Watch | None = None
    ) -> list[Written]:
        """Texts from nothing: every canvas starts as pure noise."""
        return self._write(Canvas.empty(self.config.network.canvas, rows=count), sampling, seed, watch)

    def fill(
        self,
        template: str,
        *,
        count: int = 1,
        sampling: SamplingConfig | None = None,
        seed: int = 0,
        watch: Watch | None = None,
    ) -> list[Written]:
        """The template with its blanks filled `count` times, best first; what was given comes back as it was."""
        canvas, keep = self._template_canvas(template)
        written = self._write(canvas.repeated(count), sampling or self.fill_sampling, seed, watch, keep)
        return sorted(written, key=lambda each: -each.score)

    @property
    def fill_sampling(self) -> SamplingConfig:
        """The model's sampling settings, with all blanks updated at every step.

        Paper: sec. 3.2 (Text In-painting).
        """
        return replace(self.config.sampling, schedule="all")

    def _template_canvas(self, template: str) -> tuple[Canvas, "_Given"]:
        tokens: list[int] = []
        given: list[tuple[int, int, str]] = []  # where, up to where, which text
        editable: list[int] = []
        word_starts: list[int] = []
        for segment in parse_template(template).segments:
            if isinstance(segment, Blank):
                if segment.unit != "tokens" or segment.low != segment.high or segment.unknown:
                    raise CapabilityError(
                        "only blanks of a fixed number of tokens can be filled yet", hint="a blank such as [[6]]"
                    )
                if segment.leading_space:
                    word_starts.append(len(tokens))
                editable += range(len(tokens), len(tokens) + segment.low)
                tokens += [PAD] * segment.low
            else:
                ids = self.tokenizer.encode(segment.text)
                given.append((len(tokens), len(tokens) + len(ids), segment.text))
                tokens += ids
        if not editable:
            raise UsageError("the template has no blank", hint="a blank such as [[6]] stands for six tokens")
        canvas = self.config.network.canvas
        if len(tokens) > canvas:
            raise UsageError(f"the template has {len(tokens)} tokens", why=f"the model's canvas holds {canvas}")
        # A sentence model ends its text with pads; a model of crops has never seen one.
        width = canvas if self.config.data.kind == "sentences" else len(tokens)
        row = torch.tensor([tokens + [PAD] * (width - len(tokens))])
        mask = torch.zeros_like(row, dtype=torch.bool)
        mask[0, editable] = True
        # Text follows, or the user has said where it ends: a blank holds no pad.
        barred = torch.zeros(width, self.vocabulary_size, dtype=torch.bool)
        barred[:, PAD] = True
        barred[word_starts] |= ~self._begins_with_space
        return Canvas(row, mask, torch.ones_like(mask), barred), _Given(len(tokens), tuple(given))

    @cached_property
    def _begins_with_space(self) -> Tensor:
        texts = (self.tokenizer.token_text(token) for token in range(self.vocabulary_size))
        return torch.tensor([text.startswith(" ") for text in texts])

    def _write(
        self,
        canvas: Canvas,
        sampling: SamplingConfig | None,
        seed: int,
        watch: Watch | None,
        given: "_Given | None" = None,
    ) -> list[Written]:
        denoiser = as_denoiser(self.network)
        states = run_canvas(
            denoiser,
            canvas,
            sampling=sampling or self.config.sampling,
            vocabulary_size=self.vocabulary_size,
            seed=seed,
        )
        state = last_of(states, watch)
        score = model_score(denoiser, state.tokens, inside=canvas.inside)
        return [
            Written(
                text=self.text(tokens) if given is None else self._filled(tokens, given),
                score=float(score.per_token[row]),
                steps=state.step,
                network_calls=int(state.calls[row]),
            )
            for row, tokens in enumerate(state.tokens)
        ]

    @property
    def vocabulary_size(self) -> int:
        """How many tokens there are."""
        return self.config.network.vocabulary_size

    def text(self, tokens: Tensor) -> str:
        """What a canvas says: its tokens before the first pad."""
        return self.tokenizer.decode(tokens[: int(text_length(tokens[None]))].tolist())

    def _filled(self, tokens: Tensor, given: "_Given") -> str:
        """Given text is put back as it was written: tokens of an incomplete character could not restore it."""
        ids: list[int] = tokens.tolist()
        pieces, position = [], 0
        for begin, end, text in given.parts:
            pieces += [self.tokenizer.decode(ids[position:begin]), text]
            position = end
        return "".join([*pieces, self.tokenizer.decode(ids[position : given.length])])


@dataclass(frozen=True)
class _Given:
    length: int
    parts: tuple[tuple[int, int, str], ...]


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
