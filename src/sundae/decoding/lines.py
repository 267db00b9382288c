"""Lines in, lines out, whatever translates them: long lines are split, tags and addresses kept, lengths gathered."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

import numpy as np

from sundae.decoding.written import Written
from sundae.errors import UsageError
from sundae.text.placeables import Placeable, put_back, take_out
from sundae.text.sentences import certain_sentences, split_to_fit
from sundae.text.tokenizer import Tokenizer

BATCH = 32
"""Sources that are translated together, those of similar length."""

Translate = Callable[[Sequence[str]], list[list[Written]]]
"""Of sources that fit the model: for each its best translations."""


@dataclass(frozen=True)
class _Line:
    """What is left to translate of a line, in parts that fit."""

    parts: tuple[str, ...]
    placeables: tuple[Placeable, ...]


class Kept:
    """Translations of parts of lines that are known already; whoever wants to keep them elsewhere overrides `add`."""

    def __init__(self) -> None:
        self.found: dict[str, list[Written]] = {}

    def add(self, found: Mapping[str, list[Written]]) -> None:
        """Some more."""
        self.found |= found


def translate_lines(
    lines: Sequence[str],
    translate: Translate,
    *,
    tokenizer: Tokenizer,
    longest: int,
    count: int = 1,
    progress: Callable[[int], None] | None = None,
    say: Callable[[str], None] | None = None,
    kept: Kept | None = None,
) -> list[list[Written]]:
    """For each line its best `count` translations at most; an empty line stays empty.

    Every sentence is translated apart, one of more than `longest` tokens in parts of half as many at most, and version
    i is made of the i-th best of each.  What has no letter stays as it is.  What cannot be split is cropped by the
    model; `say` is told how many lines were split inside a sentence, and how many cropped.
    """
    if isinstance(lines, str):
        raise UsageError("one text where lines are wanted", why="it would be read letter by letter", hint="[text]")

    def fits(text: str, most: int = longest) -> bool:
        return len(tokenizer.encode(text.strip())) <= most

    def in_parts(sentence: str) -> list[str]:
        # As long as what a model has seen most of: it makes short work of a longer one.
        return [sentence] if fits(sentence) else split_to_fit(sentence, lambda text: fits(text, max(1, longest // 2)))

    read: list[_Line] = []
    split = cropped = 0
    for line in lines:
        text, placeables = take_out(line)
        sentences = certain_sentences(text)
        split += not all(map(fits, sentences))
        pieces = (part.strip() for sentence in sentences for part in in_parts(sentence))
        parts = tuple(part for part in pieces if part)
        cropped += not all(map(fits, parts))
        read.append(_Line(parts, placeables))
    if split and say is not None:
        say(f"{split} of {len(lines)} lines have a sentence of more than {longest} tokens and are translated in parts")
    if cropped and say is not None:
        say(f"{cropped} of {len(lines)} lines hold a character of more than {longest} tokens and are cropped")
    every = dict.fromkeys(part for line in read for part in line.parts)
    kept = Kept() if kept is None else kept
    done = {part: [Written(part, 0.0, 0, 0)] for part in every if not any(map(str.isalpha, part))} | kept.found
    wanted = [part for part in every if part not in done]
    if len(wanted) > BATCH:  # else who watches sees the first sentence first
        wanted.sort(key=lambda part: len(tokenizer.encode(part)))
    for begin in range(0, len(wanted), BATCH):
        some = wanted[begin : begin + BATCH]
        found = dict(zip(some, translate(some), strict=True))
        kept.add(found)
        done |= found
        if progress is not None:
            progress(len(lines) * (len(every) - len(wanted) + begin + len(some)) // len(every))
    return [_joined(line, [done[part] for part in line.parts], count) for line in read]


def _joined(line: _Line, parts: Sequence[Sequence[Written]], count: int) -> list[Written]:
    versions: dict[str, Written] = {}
    for number in range(min(count, max(map(len, parts), default=1))):
        own = [part[min(number, len(part) - 1)] for part in parts]
        texts = [each.text for each in own]
        text = put_back(" ".join(texts), _part_by_part(line, texts))
        written = Written(
            text,
            sum(each.score for each in own) / max(1, len(own)),
            max((each.steps for each in own), default=0),
            sum(each.network_calls for each in own),
            origins=tuple(origin for each in own for origin in each.origins),
        )
        versions.setdefault(text, written)
    return list(versions.values())


def _part_by_part(line: _Line, translations: Sequence[str]) -> tuple[Placeable, ...]:
    """What was taken out of one sentence goes into its translation, not into that of its neighbour."""
    words, translated = ([0, *accumulate(len(text.split()) for text in side)] for side in (line.parts, translations))
    if not translated[-1]:
        return line.placeables
    shares = (np.interp(each.share * words[-1], words, translated) / translated[-1] for each in line.placeables)
    return tuple(replace(each, share=float(share)) for each, share in zip(line.placeables, shares, strict=True))
