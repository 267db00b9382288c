"""Desks for tests: a word vocabulary, where tokens are easy to read, and a byte-level one, as real models have."""

import re
from functools import cache

from sundae.decoding.layout import Classes, Desk
from sundae.decoding.shapes import TokenShapes
from sundae.text.byte_bpe import train_byte_bpe
from sundae.text.tokenizer import Tokenizer, train_tokenizer
from training.corpora import sentences


def words_of(text: str) -> list[str]:
    """The words of a text, without punctuation."""
    return re.findall(r"[^\W_]+(?:['\u2019-][^\W_]+)*", text)


def desk_for(tokenizer: Tokenizer, *, canvas: int = 16, ends: bool = True) -> Desk:
    shapes = TokenShapes.of(tokenizer)
    return Desk(tokenizer, shapes, canvas, ends, Classes(shapes))


@cache
def desk_of_words() -> Desk:
    return desk_for(train_tokenizer("word", sentences(200), vocabulary_size=100))


@cache
def desk_of_bytes(canvas: int = 24) -> Desk:
    return desk_for(train_byte_bpe(sentences(400), vocabulary_size=300), canvas=canvas)
