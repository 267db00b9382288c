"""Byte-level BPE: every Unicode text has tokens and comes back exactly, so nothing is unknown."""

import json
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from sundae.errors import DataError, UsageError
from sundae.text.counting import by_frequency, count_bounded
from sundae.text.envelope import PAD, PAD_ID, require_unicode, write_envelope

if TYPE_CHECKING:
    import tokenizers

SMALLEST = 257  # <pad> and the 256 bytes
REPLACEMENT = "\N{REPLACEMENT CHARACTER}"

# The trainer of `tokenizers` needs some 100 bytes of memory for each byte of different words; this keeps it at 150 MB.
_TRAINING_BYTES = 1_500_000
_TRAINING_CHUNK = 16_384

# Nearly the words of the pre-tokeniser.  Only training looks at them, so where the two differ the pre-tokeniser
# cuts once more and nothing is lost.  Longer runs are cut: endless ones would cost the trainer minutes.
_WORDS = re.compile(
    r"'(?:[sdmt]|ll|ve|re)| ?[^\W\d_]{1,64}| ?\d{1,64}| ?(?:[^\s\w]|_){1,64}|\s{1,64}(?!\S)|\s{1,64}",
)


def _byte_symbols() -> list[str]:
    """The visible character that stands for each byte in GPT-2's byte-level alphabet."""
    visible = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    hidden = [byte for byte in range(256) if byte not in visible]
    symbols = {byte: chr(byte) for byte in visible} | {byte: chr(256 + n) for n, byte in enumerate(hidden)}
    return [symbols[byte] for byte in range(256)]


_BYTE_OF_SYMBOL = {symbol: byte for byte, symbol in enumerate(_byte_symbols())}


class ByteBPETokenizer:
    """Byte-level BPE by the `tokenizers` library, without normalisation and without special tokens."""

    kind: Literal["byte-bpe"] = "byte-bpe"

    def __init__(self, vocabulary: dict[str, int], merges: list[tuple[str, str]]) -> None:
        self.vocabulary_size = len(vocabulary)
        self._engine = _engine(vocabulary, merges)
        symbols = sorted(vocabulary, key=vocabulary.__getitem__)
        self._bytes = [b"", *(bytes(_BYTE_OF_SYMBOL[symbol] for symbol in token) for token in symbols[1:])]

    def encode(self, text: str) -> list[int]:
        """The tokens of a text; never a pad."""
        return self.encode_batch([text])[0]

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """The tokens of each text, faster than one by one."""
        for text in texts:
            require_unicode(text)
        return [encoding.ids for encoding in self._engine.encode_batch_fast(texts, add_special_tokens=False)]

    def decode(self, ids: Iterable[int]) -> str:
        """The text of any ids whatever; bytes that are not UTF-8 become U+FFFD, and pads stand for no text."""
        return b"".join(map(self._token_bytes, ids)).decode("utf-8", errors="replace")

    def token_text(self, token: int) -> str:
        """One token as a reader should see it; a part of a character is shown as its bytes, such as \\xe2."""
        return PAD if token == PAD_ID else self._token_bytes(token).decode("utf-8", errors="backslashreplace")

    def save(self, path: Path) -> None:
        """Write tokenizer.json."""
        write_envelope(path, kind=self.kind, content=json.loads(self._engine.to_str()))

    def _token_bytes(self, token: int) -> bytes:
        return self._bytes[token] if 0 <= token < self.vocabulary_size else REPLACEMENT.encode()

    @classmethod
    def from_content(cls, content: object, *, where: str) -> "ByteBPETokenizer":
        """The inverse of `save`; all is checked here, because the library may panic on what it does not expect."""
        try:
            vocabulary, merges = _checked_model(content)
        except _BadModelError as error:
            raise DataError(f"{where} is not a byte-bpe tokenizer", why=str(error)) from None
        with _panics_as_data_errors(where):
            return cls(vocabulary, merges)


def train_byte_bpe(texts: Iterable[str], *, vocabulary_size: int) -> ByteBPETokenizer:
    """Learn the merges from the words of the texts; the same texts always give the same tokenizer."""
    if vocabulary_size < SMALLEST:
        raise UsageError(
            f"vocabulary {vocabulary_size} is too small",
            why=f"byte-bpe needs {SMALLEST} tokens: {PAD} and the 256 bytes",
        )
    tokenizers = _library()
    counts = count_bounded(_WORDS.findall(require_unicode(text)) for text in texts)
    words: list[tuple[str, int]] = []
    room = _TRAINING_BYTES
    for word in by_frequency(counts):
        room -= len(word.encode())
        if room < 0:
            break
        words.append((word, counts[word]))
    del counts
    engine = tokenizers.Tokenizer(tokenizers.models.BPE())
    engine.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=vocabulary_size,
        min_frequency=2,
        show_progress=False,
        special_tokens=[PAD],
        initial_alphabet=_byte_symbols(),
    )
    engine.train_from_iterator(_repeated(words), trainer)
    # The trainer also made <pad> a token that text can match; rebuilt from its merges alone, it is not.
    vocabulary, merges = _model_of(engine)
    return ByteBPETokenizer(vocabulary, merges)


def _repeated(words: list[tuple[str, int]]) -> Iterator[str]:
    """Text in which each word occurs as often as it was counted, for a trainer that takes no counts."""
    for word, count in words:
        if word.isspace():
            if len(word) > 1:
                yield from (word for _ in range(count))
            continue
        # A word that begins with a space starts anew at each repetition; the others are kept apart by line breaks,
        # which are words of one byte and so change no count of pairs.
        glue = "" if word.startswith(" ") else "\n"
        at_once = max(1, _TRAINING_CHUNK // (len(word) + 1))
        for start in range(0, count, at_once):
            yield glue.join([word] * min(at_once, count - start))


def _library() -> Any:
    # Its own threads fight with those of torch, and it warns when a process with them is forked.
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    import tokenizers
    import tokenizers.decoders
    import tokenizers.models
    import tokenizers.pre_tokenizers
    import tokenizers.trainers

    return tokenizers


def _engine(vocabulary: dict[str, int], merges: list[tuple[str, str]]) -> "tokenizers.Tokenizer":
    tokenizers = _library()
    engine = tokenizers.Tokenizer(tokenizers.models.BPE(vocabulary, merges))
    engine.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    engine.decoder = tokenizers.decoders.ByteLevel()  # `decode` here is our own; this is for others who read the file
    return engine


def _model_of(engine: "tokenizers.Tokenizer") -> tuple[dict[str, int], list[tuple[str, str]]]:
    model = json.loads(engine.to_str())["model"]
    return model["vocab"], [(left, right) for left, right in model["merges"]]


class _BadModelError(ValueError):
    pass


def _require(holds: bool, why: str) -> None:
    if not holds:
        raise _BadModelError(why)


def _checked_model(content: object) -> tuple[dict[str, int], list[tuple[str, str]]]:
    """Vocabulary and merges out of the library's JSON, when they can only do what ours do."""
    fields = _mapping(content, "content")
    model = _mapping(fields.get("model"), "model")
    cutter = _mapping(fields.get("pre_tokenizer"), "pre_tokenizer")
    _require(model.get("type") == "BPE", "its model is not BPE")
    _require(
        cutter.get("type") == "ByteLevel" and cutter.get("add_prefix_space") is False,
        "it does not cut text into bytes as ours do",
    )
    _require(fields.get("normalizer") is None, "it changes the text before encoding it")
    _require(not fields.get("added_tokens"), "it has tokens that text can match")
    vocabulary = _mapping(model.get("vocab"), "vocabulary")
    ids = sorted(token for token in vocabulary.values() if type(token) is int)
    _require(len(ids) == len(vocabulary), "an id is not a whole number")
    _require(vocabulary.get(PAD) == PAD_ID, f"{PAD} is not token {PAD_ID}")
    _require(all(b - a == 1 for a, b in pairwise(ids)) and ids[0] == 0, "ids have gaps or occur twice")
    _require(all(symbol in vocabulary for symbol in _BYTE_OF_SYMBOL), "a byte has no token")
    for token in vocabulary:
        _require(token == PAD or (token != "" and all(c in _BYTE_OF_SYMBOL for c in token)), "a token is not of bytes")
    merges = model.get("merges")
    _require(isinstance(merges, list), "it has no list of merges")
    pairs: list[tuple[str, str]] = []
    for merge in cast(list[object], merges):
        _require(isinstance(merge, list) and len(merge) == 2, "a merge is not a pair")
        left, right = cast(list[object], merge)
        if not (isinstance(left, str) and isinstance(right, str)):
            raise _BadModelError("a merge is not of tokens")
        whole = left + right
        _require(all(part in vocabulary and part != PAD for part in (left, right, whole)), "a merge is not of tokens")
        pairs.append((left, right))
    return cast(dict[str, int], vocabulary), pairs


def _mapping(value: object, name: str) -> dict[str, object]:
    _require(isinstance(value, dict), f"it has no {name}")
    return cast(dict[str, object], value)


@contextmanager
def _panics_as_data_errors(where: str) -> Iterator[None]:
    """Rust panics arrive as a BaseException that no `except Exception` would catch."""
    try:
        yield
    except BaseException as error:
        if isinstance(error, Exception) or type(error).__name__ == "PanicException":
            raise DataError(f"{where} is not a byte-bpe tokenizer", why=str(error)) from None
        raise
