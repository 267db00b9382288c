"""What tokens look like: which begin a word, and which are made of word characters alone."""

import re
from dataclasses import dataclass

import torch
from torch import Tensor

from sundae.core.length import PAD
from sundae.text.tokenizer import Tokenizer

_WORD_CHARACTERS = re.compile(r"(?:[^\W_]|['\u2019-])+")


@dataclass(frozen=True)
class TokenShapes:
    """One boolean for each token of a vocabulary.

    `begins`: a word begins with it.  `wordlike`: apart from that space, it is letters and digits (', - among them).
    `lettered`: its first character, apart from that space, is a letter or a digit.  `spaced`: tokens carry their own
    spaces; if not, every token is a word and decoding puts spaces between.
    """

    begins: Tensor
    wordlike: Tensor
    lettered: Tensor
    spaced: bool

    @classmethod
    def of(cls, tokenizer: Tokenizer) -> "TokenShapes":
        """Look at every token once."""
        texts = [tokenizer.token_text(token) for token in range(tokenizer.vocabulary_size)]
        spaced = tokenizer.kind not in ("word", "pretokenised")
        begins = torch.tensor([not spaced or text.startswith(" ") for text in texts])
        wordlike = torch.tensor([bool(_WORD_CHARACTERS.fullmatch(text.removeprefix(" "))) for text in texts])
        # A space alone is how a character model begins a word.
        wordlike |= torch.tensor([text == " " for text in texts])
        lettered = torch.tensor([text.removeprefix(" ")[:1].isalnum() for text in texts])
        begins[PAD] = wordlike[PAD] = lettered[PAD] = False
        return cls(begins, wordlike, lettered, spaced)


def phrase_pattern(phrase: str) -> str:
    """A phrase as it may stand in a text: whole words, any white space between them."""
    body = r"\s+".join(re.escape(word) for word in phrase.split())
    before = r"(?<!\w)" if re.match(r"\w", phrase.strip()) else ""
    after = r"(?!\w)" if re.search(r"\w$", phrase.strip()) else ""
    return before + body + after
