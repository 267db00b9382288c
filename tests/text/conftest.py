"""Small texts and tokenizers that the tests of this room share."""

from collections.abc import Callable
from pathlib import Path

import pytest
from samples import SENTENCES

from sundae.config import TokenizerKind
from sundae.text.byte_bpe import ByteBPETokenizer, train_byte_bpe
from sundae.text.corpus import Corpus
from sundae.text.prepare import prepare
from sundae.text.recipe import Recipe
from sundae.text.tokenizer import Tokenizer, train_tokenizer


@pytest.fixture(scope="session")
def byte_bpe() -> ByteBPETokenizer:
    return train_byte_bpe(SENTENCES, vocabulary_size=330)


@pytest.fixture(scope="session")
def any_tokenizer() -> Callable[[TokenizerKind], Tokenizer]:
    made: dict[TokenizerKind, Tokenizer] = {}

    def get(kind: TokenizerKind) -> Tokenizer:
        if kind == "sentencepiece":
            pytest.importorskip("sentencepiece", reason="the extra sundae[sentencepiece] is not installed")
        if kind not in made:
            made[kind] = train_tokenizer(kind, SENTENCES, vocabulary_size=300)
        return made[kind]

    return get


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., Corpus]:
    """Prepare files in the test's own folder; the tokenizer is small unless something is said."""

    def run(kind: str, *inputs: Path, **choices: object) -> Corpus:
        settings = {"kind": kind, "inputs": inputs, "out": tmp_path / "corpus", "vocabulary": 300} | choices
        return prepare(Recipe(**settings))  # pyright: ignore[reportArgumentType]

    return run
