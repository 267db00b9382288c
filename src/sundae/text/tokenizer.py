"""What every tokenizer can do, and the two ways to get one: train it on text, or load it from a file.

A vocabulary holds `<pad>` = 0, for closed ones `<unk>` = 1, and otherwise only what text is made of: whatever noise
may draw is a token that the model may have to write.  No text encodes to `<pad>`, not even the text "<pad>".
"""

import itertools
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Protocol, assert_never

from sundae.config import TokenizerKind
from sundae.errors import DataError, UsageError
from sundae.text.byte_bpe import ByteBPETokenizer, train_byte_bpe
from sundae.text.envelope import FILE_NAME, PAD_ID, read_envelope
from sundae.text.sentence_piece import SentencePieceTokenizer, train_sentence_piece
from sundae.text.vocabulary import (
    CharacterTokenizer,
    PretokenisedTokenizer,
    WordTokenizer,
    train_characters,
    train_pretokenised,
    train_words,
)


class Tokenizer(Protocol):
    """Text to token ids and back."""

    @property
    def kind(self) -> TokenizerKind:
        """Which of the tokenizers this is."""
        ...

    @property
    def vocabulary_size(self) -> int:
        """The number of ids, which are 0 .. vocabulary_size-1."""
        ...

    def encode(self, text: str) -> list[int]:
        """The tokens of a text; never a pad."""
        ...

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """The tokens of each text, faster than one by one."""
        ...

    def decode(self, ids: Iterable[int]) -> str:
        """The text of any ids whatever; pads stand for no text."""
        ...

    def token_text(self, token: int) -> str:
        """One token as a reader should see it."""
        ...

    def save(self, path: Path) -> None:
        """Write tokenizer.json."""
        ...


def text_ids(ids: Iterable[int]) -> list[int]:
    """The ids before the first pad, which is where a text ends."""
    return list(itertools.takewhile(lambda token: token != PAD_ID, ids))


def continuation(tokenizer: "Tokenizer", ids: Sequence[int], *, after: Sequence[int]) -> str:
    """What tokens add to the text of those before them: some tokenizers put or keep a space only between tokens."""
    before, whole = tokenizer.decode(after), tokenizer.decode([*after, *ids])
    return whole[len(before) :] if whole.startswith(before) else tokenizer.decode(ids)


def train_tokenizer(kind: TokenizerKind, texts: Iterable[str], *, vocabulary_size: int) -> Tokenizer:
    """A tokenizer with at most so many tokens; fewer when the texts do not hold as many."""
    match kind:
        case "byte-bpe":
            return train_byte_bpe(texts, vocabulary_size=vocabulary_size)
        case "sentencepiece":
            return train_sentence_piece(texts, vocabulary_size=vocabulary_size)
        case "word":
            return train_words(texts, vocabulary_size=vocabulary_size)
        case "character":
            return train_characters(texts, vocabulary_size=vocabulary_size)
        case "pretokenised":
            return train_pretokenised(texts, vocabulary_size=vocabulary_size)
        case _:
            assert_never(kind)


def load_tokenizer(path: Path) -> Tokenizer:
    """The tokenizer in a tokenizer.json, or in the folder that holds one."""
    if path.is_dir():
        path = path / FILE_NAME
    kind, content = read_envelope(path)
    where = str(path)
    match kind:
        case "byte-bpe":
            return ByteBPETokenizer.from_content(content, where=where)
        case "sentencepiece":
            return SentencePieceTokenizer.from_content(content, where=where)
        case "word":
            return WordTokenizer.from_content(content, where=where)
        case "character":
            return CharacterTokenizer.from_content(content, where=where)
        case "pretokenised":
            return PretokenisedTokenizer.from_content(content, where=where)
        case _:
            raise DataError(f"cannot read {path}", why=f"unknown kind of tokenizer {kind!r}")


def borrow_tokenizer(path: Path, *, kind: TokenizerKind) -> Tokenizer:
    """A tokenizer from a sundae folder or file, a SentencePiece .model, or a list of words, one per line."""
    if path.is_dir() or path.suffix == ".json":
        return load_tokenizer(path)
    if path.suffix == ".model":
        return SentencePieceTokenizer.from_file(path)
    if kind == "word":
        return WordTokenizer.from_list(path)
    if kind == "pretokenised":
        return PretokenisedTokenizer.from_list(path)
    raise UsageError(
        f"cannot take a {kind} tokenizer from {path}",
        why="it is neither a folder, a .json nor a .model file",
        hint="--tokenizer word for a list with one word per line",
    )
