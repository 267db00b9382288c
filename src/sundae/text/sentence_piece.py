"""SentencePiece, the tokenizer of the paper's C4 models; an optional extra, imported only when it is used."""

import base64
import binascii
import hashlib
import io
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal, cast

from sundae.errors import CapabilityError, DataError, UsageError
from sundae.text.envelope import PAD, PAD_ID, UNKNOWN, UNKNOWN_ID, require_unicode, write_envelope

_WORD_START = "\N{LOWER ONE EIGHTH BLOCK}"
_LONGEST_TEXT = 1 << 20  # in bytes; the library silently leaves out longer ones, and its own limit is 4,192
_THREADS = 4  # fixed: the number of partial sums may show in the last bits


class SentencePieceTokenizer:
    """A SentencePiece model that travels inside tokenizer.json."""

    kind: Literal["sentencepiece"] = "sentencepiece"

    def __init__(self, model: bytes, *, where: str) -> None:
        self._model = model
        library = _library()
        try:
            self._processor = library.SentencePieceProcessor(model_proto=model)
            found = [getattr(self._processor, name)() for name in ("pad_id", "unk_id", "bos_id", "eos_id")]
            self.vocabulary_size: int = self._processor.vocab_size()
        except (RuntimeError, ValueError, TypeError) as error:
            raise DataError(f"{where} is not a SentencePiece model", why=str(error)) from None
        if found != [PAD_ID, UNKNOWN_ID, -1, -1]:
            raise DataError(
                f"cannot use the SentencePiece model in {where}",
                why=f"pad, unk, bos and eos are {found}, not [{PAD_ID}, {UNKNOWN_ID}, -1, -1]",
                hint="train one with --pad_id=0 --unk_id=1 --bos_id=-1 --eos_id=-1",
            )

    def encode(self, text: str) -> list[int]:
        """The tokens of a text; never a pad."""
        return self._processor.encode(require_unicode(text))

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """The tokens of each text."""
        return [self.encode(text) for text in texts]

    def decode(self, ids: Iterable[int]) -> str:
        """The text of any ids whatever; pads stand for no text."""
        known = [token if 0 <= token < self.vocabulary_size else UNKNOWN_ID for token in map(int, ids)]
        return self._processor.decode([token for token in known if token != PAD_ID])

    def token_text(self, token: int) -> str:
        """One token as a reader should see it."""
        if not 0 <= token < self.vocabulary_size:
            return UNKNOWN
        return self._processor.id_to_piece(int(token)).replace(_WORD_START, " ")

    def save(self, path: Path) -> None:
        """Write tokenizer.json."""
        content = {
            "sha256": hashlib.sha256(self._model).hexdigest(),
            "model": base64.b64encode(self._model).decode("ascii"),
        }
        write_envelope(path, kind=self.kind, content=content)

    @classmethod
    def from_content(cls, content: object, *, where: str) -> "SentencePieceTokenizer":
        """The inverse of `save`; the hash keeps damaged models away from a parser written in C++."""
        fields = cast(dict[str, object], content) if isinstance(content, dict) else {}
        encoded, digest = fields.get("model"), fields.get("sha256")
        if not (isinstance(encoded, str) and isinstance(digest, str)):
            raise DataError(f"{where} is not a SentencePiece tokenizer", why="it has no model")
        try:
            model = base64.b64decode(encoded, validate=True)
        except (binascii.Error, ValueError) as error:
            raise DataError(f"{where} is not a SentencePiece tokenizer", why=str(error)) from None
        if hashlib.sha256(model).hexdigest() != digest:
            raise DataError(f"{where} is damaged", why="the SentencePiece model does not have its sha256")
        return cls(model, where=where)

    @classmethod
    def from_file(cls, path: Path) -> "SentencePieceTokenizer":
        """A model that `spm_train` wrote."""
        try:
            return cls(path.read_bytes(), where=str(path))
        except OSError as error:
            raise DataError(f"cannot read {path}", why=error.strerror or str(error)) from None


def train_sentence_piece(texts: Iterable[str], *, vocabulary_size: int) -> SentencePieceTokenizer:
    """A unigram model with the library's own normalisation; line breaks become spaces."""
    library = _library()
    kept = [require_unicode(text) for text in texts]
    written = io.BytesIO()
    try:
        library.SentencePieceTrainer.train(
            sentence_iterator=iter(kept),
            model_writer=written,
            model_type="unigram",
            vocab_size=vocabulary_size,
            hard_vocab_limit=False,
            pad_id=PAD_ID,
            unk_id=UNKNOWN_ID,
            bos_id=-1,
            eos_id=-1,
            pad_piece=PAD,
            unk_piece=UNKNOWN,
            unk_surface=UNKNOWN,
            max_sentence_length=_LONGEST_TEXT,
            num_threads=_THREADS,
            minloglevel=2,
        )
    except (RuntimeError, ValueError) as error:
        raise UsageError(f"cannot train SentencePiece with vocabulary {vocabulary_size}", why=str(error)) from None
    return SentencePieceTokenizer(written.getvalue(), where="the trained model")


def _library() -> Any:
    try:
        import sentencepiece
    except ImportError:
        raise CapabilityError(
            "the sentencepiece tokenizer is not installed", hint="pip install 'sundae[sentencepiece]'"
        ) from None
    return sentencepiece
