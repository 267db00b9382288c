"""Which text each position of a canvas shows, at any step of a chain."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from torch import Tensor

from sundae.core.length import PAD
from sundae.core.network import Denoiser
from sundae.core.sampling import ChainState
from sundae.decoding.canvas import Canvas, Watch
from sundae.text.tokenizer import Tokenizer, text_ids

UNFINISHED = "\N{REPLACEMENT CHARACTER}"
"""What bytes decode to that are not a whole character."""


def token_texts(tokenizer: Tokenizer, ids: Sequence[int], *, text: str | None = None) -> list[str]:
    """A text cut at its tokens, so that joining gives the text back; `text` if it is not what the tokens decode to.

    A token shows what it adds to the tokens before it.  Byte-level tokens may end inside a character: the token that
    completes it shows it, and those before it show nothing.
    """
    whole = tokenizer.decode(ids) if text is None else text
    texts: list[str] = []
    begin = known = anchor = 0  # what `known` tokens decode to ends at `anchor`, between two characters
    for count in range(1, len(ids) + 1):
        prefix = tokenizer.decode(ids[known:count])
        end = (
            len(whole)
            if count == len(ids)
            else max(begin, anchor + _agreement(prefix, whole[anchor : anchor + len(prefix)]))
        )
        texts.append(whole[begin:end])
        begin = end
        if tokenizer.kind == "byte-bpe" and end == anchor + len(prefix) and UNFINISHED not in prefix:
            known, anchor = count, end  # such tokens decode to the same whatever stands before them
    return texts


def _agreement(prefix: str, whole: str) -> int:
    """How many characters the two begin with together."""
    if prefix == whole:
        return len(prefix)
    pairs = enumerate(zip(prefix, whole, strict=False))
    return next((place for place, (a, b) in pairs if a != b), min(len(prefix), len(whole)))


@dataclass(frozen=True)
class Stretch:
    """So many positions of a template: text as it was given, or a gap (None) that ends at its first pad.

    With `leading_space` a gap's text begins with a space, whether or not its first token does.
    """

    width: int
    text: str | None = None
    leading_space: bool = False


@dataclass(frozen=True)
class Shown:
    """What the positions of a row show: the first `length` texts join to what the row says, the others come after it.

    `labels` name tokens that are not what they show, such as a part of a character.
    """

    length: int
    tokens: tuple[str, ...]
    labels: Mapping[int, str]

    @property
    def text(self) -> str:
        """What the row says."""
        return "".join(self.tokens[: self.length])


class Reading:
    """How the rows of a canvas are read; `stretches` has the template of each row that comes from one.

    `denoiser` can be asked what the model thinks of a state, by those who want to know.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        *,
        canvas: Canvas,
        denoiser: Denoiser | None = None,
        stretches: Sequence[Sequence[Stretch] | None] | None = None,
    ) -> None:
        self.tokenizer, self.inside, self.denoiser = tokenizer, canvas.inside, denoiser
        self.locked = canvas.inside & ~canvas.editable
        self._stretches = [None] * len(canvas.inside) if stretches is None else stretches

    def read(self, tokens: Tensor, *, row: int) -> Shown:
        """The text of each position that the row owns."""
        ids: list[int] = tokens[self.inside[row]].tolist()
        stretches = self._stretches[row]
        if stretches is None:
            length = len(text_ids(ids))
            texts = token_texts(self.tokenizer, ids[:length])
        else:
            texts = _template_texts(self.tokenizer, ids, stretches)
            length = len(texts)
        own = [self.tokenizer.token_text(token) for token in ids]
        labels = {place: own[place] for place, text in enumerate(texts) if text.strip() != own[place].strip()}
        after = ("" if ids[place] == PAD else own[place] for place in range(length, len(ids)))
        return Shown(length, (*texts, *after), labels)


def _template_texts(tokenizer: Tokenizer, ids: Sequence[int], stretches: Sequence[Stretch]) -> list[str]:
    texts: list[str] = []
    homeless = ""  # text without a token of its own, such as the space before a gap that is still empty
    position = 0
    for stretch in stretches:
        part = ids[position : position + stretch.width]
        position += stretch.width
        own = text_ids(part) if stretch.text is None else part
        cut = token_texts(tokenizer, own, text=stretch.text)
        space = " " if stretch.leading_space and not "".join(cut).startswith(" ") else ""
        if cut:
            cut[0], homeless = homeless + space + cut[0], ""
        else:
            homeless += space + (stretch.text or "")
        last = position == sum(each.width for each in stretches)
        texts += cut if last else [*cut, *[""] * (stretch.width - len(cut))]
    if texts:
        texts[-1] += homeless
    return texts


@dataclass(frozen=True, eq=False)
class Origin:
    """Which row of a chain that was watched wrote a text, or a part of one; `score` is what it was ranked by."""

    reading: Reading
    row: int
    score: float
    source: str | None = None


@runtime_checkable
class Onlooker(Protocol):
    """A Watch that wants to know what it is looking at."""

    def begin(self, reading: Reading) -> None: ...

    def __call__(self, state: ChainState) -> None: ...


def together(reading: Reading, *watches: Watch | None) -> Watch:
    """All of them as one Watch, after those that want it have been told how the canvas is read."""
    seeing = [watch for watch in watches if watch is not None]
    for watch in seeing:
        if isinstance(watch, Onlooker):
            watch.begin(reading)

    def show(state: ChainState) -> None:
        for watch in seeing:
            watch(state)

    return show
