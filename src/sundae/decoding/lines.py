"""Lines in, lines out, whatever translates them: long lines are split, tags and addresses kept, lengths gathered."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sundae.decoding.written import Written
from sundae.text.placeables import Placeable, put_back, take_out
from sundae.text.sentences import split_to_fit
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


def translate_lines(
    lines: Sequence[str],
    translate: Translate,
    *,
    tokenizer: Tokenizer,
    longest: int,
    count: int = 1,
    progress: Callable[[int], None] | None = None,
    say: Callable[[str], None] | None = None,
) -> list[list[Written]]:
    """For each line its best `count` translations at most; an empty line stays empty.

    A line of more than `longest` tokens is translated in parts, and version i is made of the i-th best of each.  What
    cannot be split is cropped by the model; `say` is told how many lines that was.
    """

    def fits(text: str) -> bool:
        return len(tokenizer.encode(text.strip())) <= longest

    read: list[_Line] = []
    cropped = 0
    for line in lines:
        text, placeables = take_out(line)
        parts = tuple(part.strip() for part in split_to_fit(text, fits) if part.strip())
        cropped += not all(map(fits, parts))
        read.append(_Line(parts, placeables))
    if cropped and say is not None:
        say(f"{cropped} of {len(lines)} lines hold a character of more than {longest} tokens and were cropped")
    wanted = list(dict.fromkeys(part for line in read for part in line.parts))
    wanted.sort(key=lambda part: len(tokenizer.encode(part)))
    done: dict[str, list[Written]] = {}
    for begin in range(0, len(wanted), BATCH):
        some = wanted[begin : begin + BATCH]
        done |= dict(zip(some, translate(some), strict=True))
        if progress is not None:
            progress(len(lines) * len(done) // len(wanted))
    return [_joined([done[part] for part in line.parts], line.placeables, count) for line in read]


def _joined(parts: Sequence[Sequence[Written]], placeables: Sequence[Placeable], count: int) -> list[Written]:
    versions: dict[str, Written] = {}
    for number in range(min(count, max(map(len, parts), default=1))):
        own = [part[min(number, len(part) - 1)] for part in parts]
        text = put_back(" ".join(each.text for each in own), placeables)
        written = Written(
            text,
            sum(each.score for each in own) / max(1, len(own)),
            max((each.steps for each in own), default=0),
            sum(each.network_calls for each in own),
            origins=tuple(origin for each in own for origin in each.origins),
        )
        versions.setdefault(text, written)
    return list(versions.values())
