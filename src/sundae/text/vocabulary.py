"""Closed vocabularies: words, characters, or the tokens of text that was tokenised elsewhere."""

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal, Self, cast

from sundae.errors import DataError, UsageError
from sundae.text.counting import MOST_DISTINCT, by_frequency, count_bounded
from sundae.text.envelope import PAD, PAD_ID, UNKNOWN, UNKNOWN_ID, require_unicode, write_envelope

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"

_SPECIAL = (PAD, UNKNOWN)
# Marks that other programs put at the head of their lists.  Ours has no start or end, so noise must not draw them.
_FOREIGN_MARKS = ("<s>", "</s>", "<sos>", "<bos>", "<eos>")


class _ClosedVocabulary(ABC):
    """Tokens known beforehand; all others are `<unk>`."""

    def __init__(self, tokens: Sequence[str]) -> None:
        self._tokens = [*_SPECIAL, *tokens]
        self._ids = {token: number for number, token in enumerate(tokens, start=len(_SPECIAL))}
        self.vocabulary_size = len(self._tokens)

    @abstractmethod
    def _cut(self, text: str) -> Iterable[str]: ...

    @abstractmethod
    def _join(self, tokens: Iterable[str]) -> str: ...

    @staticmethod
    @abstractmethod
    def _is_token(token: str) -> bool: ...

    def encode(self, text: str) -> list[int]:
        """The tokens of a text; never a pad."""
        return [self._ids.get(token, UNKNOWN_ID) for token in self._cut(require_unicode(text))]

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """The tokens of each text."""
        return [self.encode(text) for text in texts]

    def decode(self, ids: Iterable[int]) -> str:
        """The text of any ids whatever; pads stand for no text."""
        return self._join(self.token_text(token) for token in ids if token != PAD_ID)

    def token_text(self, token: int) -> str:
        """One token as a reader should see it."""
        return self._tokens[token if 0 <= token < self.vocabulary_size else UNKNOWN_ID]

    def _write(self, path: Path, *, kind: str) -> None:
        write_envelope(path, kind=kind, content={"tokens": self._tokens})

    @classmethod
    def from_content(cls, content: object, *, where: str) -> Self:
        """The inverse of `save`."""
        tokens = cast(dict[str, object], content).get("tokens") if isinstance(content, dict) else None
        if not isinstance(tokens, list):
            raise DataError(f"{where} is not a tokenizer", why="it has no list of tokens")
        listed = cast(list[object], tokens)
        if tuple(listed[: len(_SPECIAL)]) != _SPECIAL:
            raise DataError(f"{where} is not a tokenizer", why=f"its first tokens are not {PAD} and {UNKNOWN}")
        return cls._checked(listed[len(_SPECIAL) :], where=where)

    @classmethod
    def _checked(cls, tokens: Sequence[object], *, where: str) -> Self:
        known: set[str] = set(_SPECIAL)
        for number, token in enumerate(tokens):
            if not (isinstance(token, str) and cls._is_token(token)):
                raise DataError(f"{where} is not a tokenizer", why=f"entry {number} is {token!r}, not a token")
            require_unicode(token)
            if token in known:
                raise DataError(f"{where} is not a tokenizer", why=f"{token!r} occurs twice")
            known.add(token)
        return cls(cast(Sequence[str], tokens))

    @classmethod
    def _train(cls, texts: Iterable[str], *, vocabulary_size: int) -> Self:
        room = vocabulary_size - len(_SPECIAL)
        if room < 1:
            raise UsageError(f"vocabulary {vocabulary_size} is too small", why=f"{PAD} and {UNKNOWN} leave no room")
        cutter = cls(())
        counts = count_bounded(
            (cutter._cut(require_unicode(text)) for text in texts), most_distinct=max(MOST_DISTINCT, 4 * room)
        )
        # A word that looks like <pad> is unknown: two tokens of one spelling could not be told apart.
        return cls([token for token in by_frequency(counts) if token not in _SPECIAL][:room])


class _Listed(_ClosedVocabulary):
    """A vocabulary of words, which can also come from a plain list."""

    @classmethod
    def from_list(cls, path: Path) -> Self:
        """The words of a file with one on each line; start, end, pad and unknown marks in it are left out."""
        try:
            text = path.read_text(encoding="utf-8-sig")
        except OSError as error:
            raise DataError(f"cannot read {path}", why=error.strerror or str(error)) from None
        except UnicodeDecodeError as error:
            raise DataError(f"{path} is not a list of words", why=f"byte {error.start} is not UTF-8") from None
        words = [line.removesuffix("\r") for line in text.split("\n")]
        kept = [word for word in words if word and word not in _SPECIAL and word not in _FOREIGN_MARKS]
        if not kept:
            raise DataError(f"{path} is not a list of words", why="it is empty")
        return cls._checked(kept, where=str(path))


class WordTokenizer(_Listed):
    """Words between whitespace."""

    kind: Literal["word"] = "word"

    def _cut(self, text: str) -> Iterable[str]:
        return text.split()

    def _join(self, tokens: Iterable[str]) -> str:
        return " ".join(tokens)

    @staticmethod
    def _is_token(token: str) -> bool:
        return token.split() == [token]

    def save(self, path: Path) -> None:
        """Write tokenizer.json."""
        self._write(path, kind=self.kind)


class PretokenisedTokenizer(_Listed):
    """Tokens between single spaces, in text that another program has cut; any other character may be part of one."""

    kind: Literal["pretokenised"] = "pretokenised"

    def _cut(self, text: str) -> Iterable[str]:
        # A line break ends a text and is no part of its last token.
        return (token for token in text.replace("\n", " ").split(" ") if token)

    def _join(self, tokens: Iterable[str]) -> str:
        return " ".join(tokens)

    @staticmethod
    def _is_token(token: str) -> bool:
        return token != "" and " " not in token and "\n" not in token

    def save(self, path: Path) -> None:
        """Write tokenizer.json."""
        self._write(path, kind=self.kind)


class CharacterTokenizer(_ClosedVocabulary):
    """Single characters (code points)."""

    kind: Literal["character"] = "character"

    def _cut(self, text: str) -> Iterable[str]:
        return text

    def _join(self, tokens: Iterable[str]) -> str:
        return "".join(REPLACEMENT if token == UNKNOWN else token for token in tokens)

    @staticmethod
    def _is_token(token: str) -> bool:
        return len(token) == 1

    def save(self, path: Path) -> None:
        """Write tokenizer.json."""
        self._write(path, kind=self.kind)


def train_words(texts: Iterable[str], *, vocabulary_size: int) -> WordTokenizer:
    """The most frequent words of the texts."""
    return WordTokenizer._train(texts, vocabulary_size=vocabulary_size)


def train_pretokenised(texts: Iterable[str], *, vocabulary_size: int) -> PretokenisedTokenizer:
    """The most frequent tokens of texts that are already cut."""
    return PretokenisedTokenizer._train(texts, vocabulary_size=vocabulary_size)


def train_characters(texts: Iterable[str], *, vocabulary_size: int) -> CharacterTokenizer:
    """The most frequent characters of the texts."""
    return CharacterTokenizer._train(texts, vocabulary_size=vocabulary_size)


def join_subwords(text: str) -> str:
    """Undo the `@@ ` that subword-nmt leaves between the parts of a word."""
    return re.sub(r"@@(?: |$)", "", text)
