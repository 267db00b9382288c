"""Which texts are kept for validation: chosen by a hash, so that equal texts never stand on both sides."""

import hashlib
import heapq
from dataclasses import dataclass, field

from sundae.errors import UsageError

USUAL_SHARE = 0.01
USUAL_MOST = 2000
_MOST = 1_000_000
_HASHES = 1 << 64


def text_key(text: str, *, seed: int = 0) -> int:
    """64 bits that stand for a text."""
    salt = (seed % _HASHES).to_bytes(8, "little")
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8"), digest_size=8, salt=salt).digest(), "little")


@dataclass(frozen=True)
class Wish:
    """How much the user wants to keep: a number of texts, or a share of at most `most` texts."""

    count: int = 0
    share: float = 0.0
    most: int | None = None

    @property
    def wants_some(self) -> bool:
        """Whether anything is to be kept."""
        return self.count > 0 or self.share > 0


def parse_wish(text: str) -> Wish:
    """`2000` texts, the share `0.01`, or the usual share when nothing is said."""
    if not text:
        return Wish(share=USUAL_SHARE, most=USUAL_MOST)
    try:
        if text.isascii() and text.isdigit():
            count = int(text[:12])
            if count <= _MOST:
                return Wish(count=count)
            raise UsageError(f"--validation {text}", why=f"is more than {_MOST:,} texts")
        share = float(text)
    except ValueError:
        share = -1.0
    if not 0 <= share < 1:
        raise UsageError(
            f"--validation {text}", why="is neither a number of texts nor a share below 1", hint="--validation 0.01"
        )
    return Wish(share=share)


@dataclass
class Survey:
    """What a first pass over the texts learns: how many there are, and the smallest of their keys."""

    wish: Wish
    texts: int = 0
    _smallest: list[int] = field(default_factory=list)  # a heap of negated keys: the largest one kept comes first
    _kept: set[int] = field(default_factory=set)

    def add(self, key: int) -> None:
        """Take note of one text."""
        self.texts += 1
        if key in self._kept:
            return
        # One more than is wanted, to know that something is left to train on.
        if len(self._smallest) <= max(1, self.wish.count, self.wish.most or 0):
            heapq.heappush(self._smallest, -key)
        elif key < -self._smallest[0]:
            self._kept.discard(-heapq.heapreplace(self._smallest, -key))
        else:
            return
        self._kept.add(key)

    def threshold(self) -> int:
        """Texts with a key below it are for validation."""
        keys = sorted(self._kept)
        if not self.wish.wants_some:
            return 0
        if self.wish.count:
            if len(keys) <= self.wish.count:
                raise UsageError(
                    f"--validation {self.wish.count}",
                    why=f"of {self.texts:,} texts some must be left to train on, and equal ones stay together",
                )
            return keys[self.wish.count - 1] + 1
        if len(keys) < 2:
            return 0  # a single text cannot be divided
        if self.wish.most is not None:
            wanted = max(1, min(self.wish.most, round(self.texts * self.wish.share)))
            return keys[min(wanted, len(keys) - 1) - 1] + 1
        # A share of few texts may fall on none of them; one at least is kept.
        return max(int(self.wish.share * _HASHES), keys[0] + 1)
