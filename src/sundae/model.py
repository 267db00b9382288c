"""The facade: text in, text out, and models on disk."""

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save_file
from torch import Tensor, nn

from sundae.config import RunConfig, SamplingConfig, read_config
from sundae.core.length import PAD, canvas_for, likeliest_half_length, text_length
from sundae.core.network import Memory, Transformer, as_denoiser
from sundae.core.sampling import model_score
from sundae.decoding.canvas import Canvas, Watch, last_of, run_canvas
from sundae.errors import CapabilityError, DataError, UsageError
from sundae.text.template import Blank, parse_template
from sundae.text.tokenizer import Tokenizer, load_tokenizer

FILES = ("config.json", "model.safetensors", "tokenizer.json", "README.md")


@dataclass(frozen=True)
class Written:
    """One finished text, what the model thinks of it, and what it cost."""

    text: str
    score: float
    steps: int
    network_calls: int


class Sundae:
    """A trained model with its tokenizer and settings."""

    def __init__(self, network: Transformer, tokenizer: Tokenizer, config: RunConfig) -> None:
        if tokenizer.vocabulary_size != config.network.vocabulary_size:
            raise DataError(
                f"the tokenizer has {tokenizer.vocabulary_size} tokens",
                why=f"the network was made for network.vocabulary_size={config.network.vocabulary_size}",
            )
        self.network, self.tokenizer, self.config = network.eval(), tokenizer, config

    @classmethod
    def from_pretrained(cls, name: str | Path) -> "Sundae":
        """A model folder, or with the `hub` extra the id of a repository of such files."""
        folder = Path(name)
        if not folder.is_dir():
            folder = _download(str(name))
        try:
            config = read_config(folder / "config.json")
            # Read, not mapped: a mapped file that somebody cuts short would kill the process.
            weights = load((folder / "model.safetensors").read_bytes())
        except FileNotFoundError as error:
            raise DataError(f"{folder} is not a model folder", why=f"it has no {Path(error.filename).name}") from None
        except (OSError, ValueError, SafetensorError) as error:
            raise DataError(f"cannot load the model in {folder}", why=str(error)) from None
        tokenizer = load_tokenizer(folder / "tokenizer.json")
        network = Transformer(config.network)
        try:
            network.load_state_dict({key: value.float() for key, value in weights.items()})
        except RuntimeError as error:
            raise DataError(f"the weights in {folder} do not fit its config.json", why=str(error)) from None
        return cls(network, tokenizer, config)

    def save_pretrained(
        self, folder: Path, *, card: str = "", dtype: torch.dtype = torch.float32, force: bool = False
    ) -> None:
        """Write a self-contained model folder, whole or not at all."""
        if folder.exists() and not force:
            raise UsageError(f"{folder} exists", why="a model is never overwritten by accident", hint="--force")
        temporary = folder.with_name(f".writing-{folder.name}-{os.getpid()}")
        shutil.rmtree(temporary, ignore_errors=True)
        try:
            temporary.mkdir(parents=True)
            (temporary / "config.json").write_text(self.config.to_json(), encoding="utf-8")
            weights = {name: weight.to(dtype).contiguous() for name, weight in self.network.state_dict().items()}
            save_file(weights, temporary / "model.safetensors", metadata={"format": "pt"})
            self.tokenizer.save(temporary / "tokenizer.json")
            (temporary / "README.md").write_text(card or model_card(self.config), encoding="utf-8")
            if folder.exists():
                shutil.rmtree(folder)
            temporary.rename(folder)
        except (OSError, SafetensorError) as error:
            shutil.rmtree(temporary, ignore_errors=True)
            raise DataError(f"cannot write the model to {folder}", why=str(error)) from None

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
        longest = self.config.network.source_positions
        encoded = [torch.tensor(self.tokenizer.encode(text)[:longest], dtype=torch.long) for text in sources]
        source = nn.utils.rnn.pad_sequence(encoded, batch_first=True, padding_value=PAD)
        lengths = torch.tensor([len(ids) for ids in encoded])
        inside = torch.arange(source.shape[1]) < lengths[:, None]
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


def model_card(config: RunConfig, *, notes: str = "") -> str:
    """A short README for a model folder."""
    network = config.network
    layers = f"{network.encoder_layers}+{network.decoder_layers}" if network.translates else str(network.decoder_layers)
    return f"""# A SUNDAE model

Written by Sundae, the implementation of *Step-unrolled Denoising Autoencoders for Text Generation* (ICLR 2022).

| | |
|---|---|
| layers, width, hidden, heads | {layers}, {network.width}, {network.hidden}, {network.heads} |
| vocabulary, canvas | {network.vocabulary_size} ({config.data.tokenizer}), {network.canvas} |
| unrolled steps | {config.objective.unroll_steps} |
| updates, batch size | {config.training.steps}, {config.training.batch_tokens or config.training.batch_size} |
| data | {config.data.description or "not described"} |

{notes}
Use: `sundae generate --model DIR`, `sundae fill "..." --model DIR`, or `Sundae.from_pretrained(DIR)` in Python.
"""


def _download(name: str) -> Path:
    if name.count("/") != 1 or name.startswith((".", "/", "~")):
        raise DataError(f"there is no model {name!r}", why="it is no folder", hint="the path of a model folder")
    try:
        from huggingface_hub import snapshot_download
    except ImportError:
        raise CapabilityError(
            f"there is no folder {name!r}",
            why="and to look it up on a hub needs an extra",
            hint="pip install 'sundae[hub]'",
        ) from None
    try:
        return Path(snapshot_download(name, allow_patterns=list(FILES)))
    except Exception as error:  # the hub's client raises many kinds, network errors among them
        raise DataError(f"cannot get {name!r} from the hub", why=str(error).splitlines()[0]) from None
