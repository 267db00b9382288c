"""The second pass of `prepare`: entries in, token files and an account of them out."""

from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Literal, Self

from sundae.errors import DataError
from sundae.text.corpus import SplitName, token_type
from sundae.text.envelope import UNKNOWN_ID
from sundae.text.holdout import text_key
from sundae.text.recipe import Entry, Recipe
from sundae.text.tokenizer import Tokenizer
from sundae.text.writer import SPLITS, Lengths, TokenWriter

DropReason = Literal["empty", "too long", "duplicate", "excluded"]

_BATCH_CHARACTERS = 1 << 18
_BATCH_ENTRIES = 4096


class _SplitWriter:
    """The files of one split, and what became of its entries."""

    def __init__(self, folder: Path, *, parallel: bool, tokens: str) -> None:
        folder.mkdir()
        self.text = TokenWriter(folder, prefix="", token_type=tokens)
        self.source = TokenWriter(folder, prefix="source_", token_type=tokens) if parallel else None
        self.dropped: Counter[DropReason] = Counter()
        self.cropped = 0
        self.unknown = 0
        self.before = Lengths()  # of whole texts, before the too long ones are dropped or cropped

    @property
    def writers(self) -> list[TokenWriter]:
        """In the order of an entry's texts."""
        return [self.text] if self.source is None else [self.source, self.text]

    def facts(self) -> dict[str, Any]:
        """What corpus.json says about the split."""
        facts: dict[str, Any] = {
            "texts": self.text.texts,
            "tokens": self.text.tokens,
            "lengths": self.text.lengths.summary(),
            "lengths_before_canvas": self.before.summary()["quantiles"],
            "dropped": dict(sorted(self.dropped.items())),
            "cropped": self.cropped,
            "unknown_tokens": self.unknown,
        }
        if self.source is not None:
            facts |= {"source_tokens": self.source.tokens, "source_lengths": self.source.lengths.summary()}
        return facts


class Encoder:
    """Encodes entries in batches and writes them in order."""

    def __init__(self, recipe: Recipe, tokenizer: Tokenizer, folder: Path, *, excluded: frozenset[int]) -> None:
        self._recipe, self._tokenizer, self._excluded = recipe, tokenizer, excluded
        self._seen: set[int] = set()
        self._inside_document = False
        self.documents = 0  # how many the pieces of crops came from
        self._batch: list[tuple[Entry, SplitName]] = []
        self._characters = 0
        self._splits: dict[SplitName, _SplitWriter] = {}
        with ExitStack() as stack:
            for name in SPLITS:
                split = _SplitWriter(
                    folder / name,
                    parallel=recipe.kind == "parallel",
                    tokens=token_type(tokenizer.vocabulary_size),
                )
                for writer in split.writers:
                    stack.callback(writer.close)
                self._splits[name] = split
            self._stack = stack.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def add(self, entry: Entry, split: SplitName) -> None:
        """Take one entry, or drop it for a reason that is counted."""
        reason = self._reason_to_drop(entry, split)
        if reason:
            self._splits[split].dropped[reason] += 1
            if not entry.last:
                return
            entry = Entry((), last=True)  # the document ends all the same
        self._batch.append((entry, split))
        self._characters += sum(map(len, entry.texts))
        if self._characters >= _BATCH_CHARACTERS or len(self._batch) >= _BATCH_ENTRIES:
            self._flush()

    def finish(self) -> dict[str, dict[str, Any]]:
        """Write what is left, and say what was written."""
        self._flush()
        for split in self._splits.values():
            for writer in split.writers:
                writer.finish()
        train = self._splits["train"]
        if train.text.tokens == 0:
            reasons = ", ".join(f"{count:,} {reason}" for reason, count in sorted(train.dropped.items()))
            raise DataError(
                "no text is left to train on", why=f"dropped: {reasons}" if reasons else "all of it is for validation"
            )
        return {name: split.facts() for name, split in self._splits.items()}

    def _reason_to_drop(self, entry: Entry, split: SplitName) -> DropReason | None:
        if entry.empty:
            return "empty"
        if not entry.whole and self._recipe.long == "drop":
            return "too long"
        if split == "train" and self._excluded and text_key(entry.texts[0]) in self._excluded:
            return "excluded"
        if self._recipe.unique:
            key = text_key("\0".join(entry.texts))
            if key in self._seen:
                return "duplicate"
            self._seen.add(key)
        return None

    def _flush(self) -> None:
        encoded = iter(self._tokenizer.encode_batch([text for entry, _ in self._batch for text in entry.texts]))
        for entry, name in self._batch:
            ids = [next(encoded) for _ in entry.texts]
            if self._recipe.kind == "crops":
                self._write_piece(ids[0] if ids else [], name, last=entry.last)
            elif ids:
                self._write_text(ids, self._splits[name], whole=entry.whole)
        self._batch = []
        self._characters = 0

    def _write_text(self, ids: list[list[int]], split: _SplitWriter, *, whole: bool) -> None:
        canvas = self._recipe.longest
        longest = max(map(len, ids))
        if not all(ids):
            split.dropped["empty"] += 1
            return
        if whole:
            split.before.add(longest)
        if longest > canvas or not whole:
            if self._recipe.long == "drop":
                split.dropped["too long"] += 1
                return
            split.cropped += 1
        for tokens, writer in zip(ids, split.writers, strict=True):
            kept = tokens[:canvas]
            split.unknown += self._count_unknown(kept)
            writer.extend(kept)
            writer.end()

    def _write_piece(self, ids: list[int], name: SplitName, *, last: bool) -> None:
        """Neighbouring pieces of a document become one text of their split; the other split's text ends there."""
        if ids:
            for other, split in self._splits.items():
                if other != name and split.text.inside:
                    split.text.end()
            self._splits[name].unknown += self._count_unknown(ids)
            self._splits[name].text.extend(ids)
            self._inside_document = True
        if last:
            self.documents += self._inside_document
            self._inside_document = False
            for split in self._splits.values():
                if split.text.inside:
                    split.text.end()

    def _count_unknown(self, ids: list[int]) -> int:
        return 0 if self._tokenizer.kind == "byte-bpe" else ids.count(UNKNOWN_ID)
