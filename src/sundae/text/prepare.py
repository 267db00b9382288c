"""From text to a corpus on disk, in two passes over the text and in bounded memory.

The first pass counts the texts, chooses those for validation and trains the tokenizer; the second one encodes.
"""

import hashlib
import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import sundae
from sundae.text.corpus import FORMAT, VERSION, Corpus
from sundae.text.encoder import Encoder
from sundae.text.envelope import FILE_NAME as TOKENIZER_FILE
from sundae.text.holdout import Survey, text_key
from sundae.text.inputs import InputFile, find_inputs
from sundae.text.readers import Watch, read_sentences
from sundae.text.recipe import Recipe
from sundae.text.tokenizer import Tokenizer, borrow_tokenizer, train_tokenizer
from sundae.text.writer import CORPUS_FILE, file_facts, new_folder

# The tokenizer learns from at most so many characters, spread evenly over the inputs.
SAMPLE = 1 << 25
SENTENCEPIECE_SAMPLE = 1 << 23  # its trainer needs some 25 bytes of memory for each of them
NAMED = 4
"""Files that a corpus without a description is described by."""
_COMPRESSION = 4  # text is about so many times larger than its .gz

Report = Callable[[str, int, int], object]


def prepare(recipe: Recipe, *, report: Report | None = None) -> Corpus:
    """Write the corpus that the recipe describes; `report` hears (stage, bytes done, bytes in all)."""
    with new_folder(recipe.out, force=recipe.force) as folder:
        spool = folder / "spool"
        files, held_out, excluded = (
            find_inputs(paths, format=recipe.format, spool=spool)
            for paths in (recipe.inputs, recipe.validation_from, recipe.exclude)
        )
        survey = Survey(recipe.wish)
        tokenizer = _first_pass(recipe, files, survey, report=report)
        watcher = _Watcher("encoding", [*files, *held_out], report=report, hashing=True)
        with Encoder(recipe, tokenizer, folder, excluded=_keys(excluded, recipe)) as encoder:
            threshold = survey.threshold()
            for entry in recipe.entries(files, watch=watcher):
                key = text_key(entry.texts[0], seed=recipe.seed)
                encoder.add(entry, "validation" if key < threshold else "train")
            for entry in recipe.entries(held_out, watch=watcher):
                encoder.add(entry, "validation")
            splits = encoder.finish()
        shutil.rmtree(spool, ignore_errors=True)
        tokenizer.save(folder / TOKENIZER_FILE)
        facts = {
            "format": FORMAT,
            "version": VERSION,
            "sundae": sundae.__version__,
            "kind": recipe.kind,
            "canvas": recipe.longest,
            "tokenizer": tokenizer.kind,
            "vocabulary_size": tokenizer.vocabulary_size,
            "documents": encoder.documents,
            "about": _about(recipe, files, texts=splits["train"]["texts"]),
            "splits": splits,
            "inputs": watcher.facts(),
            "settings": _settings(recipe),
            **_origin(recipe),
            "files": {
                path.relative_to(folder).as_posix(): file_facts(path)
                for path in sorted(folder.rglob("*"))
                if path.is_file()
            },
        }
        (folder / CORPUS_FILE).write_text(json.dumps(facts, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    return Corpus.open(recipe.out)


def _first_pass(recipe: Recipe, files: Sequence[InputFile], survey: Survey, *, report: Report | None) -> Tokenizer:
    """The tokenizer, and in `survey` what the validation texts are chosen by."""
    watcher = _Watcher("learning the tokenizer", files, report=report)
    if recipe.tokenizer_from is None:
        sample = _surveyed(recipe, files, survey, watch=watcher)
        return train_tokenizer(recipe.tokenizer, sample, vocabulary_size=recipe.vocabulary)
    tokenizer = borrow_tokenizer(recipe.tokenizer_from, kind=recipe.tokenizer)
    if recipe.wish.wants_some:
        for _ in _surveyed(recipe, files, survey, watch=watcher):
            pass
    return tokenizer


def _surveyed(recipe: Recipe, files: Sequence[InputFile], survey: Survey, *, watch: Watch) -> Iterator[str]:
    """Every text is counted; the sample that is given out is spread evenly."""
    room = SENTENCEPIECE_SAMPLE if recipe.tokenizer == "sentencepiece" else SAMPLE
    expected = sum(file.size * (_COMPRESSION if file.compressed else 1) for file in files)
    share = min(1.0, room / expected)
    for entry in recipe.entries(files, watch=watch):
        if entry.empty:
            continue
        survey.add(text_key(entry.texts[0], seed=recipe.seed))
        if room > 0 and int(survey.texts * share) > int((survey.texts - 1) * share):
            room -= sum(map(len, entry.texts))
            yield from entry.texts


def _keys(files: Sequence[InputFile], recipe: Recipe) -> frozenset[int]:
    """The texts that must not be trained on; of parallel text, its sources."""
    return frozenset(text_key(record.text) for file in files for record in read_sentences(file, field=recipe.fields[0]))


class _Watcher:
    """Sees the bytes of the inputs pass, for the progress report and for their hashes."""

    def __init__(self, stage: str, files: Sequence[InputFile], *, report: Report | None, hashing: bool = False) -> None:
        self._stage, self._files, self._report = stage, files, report
        self._total = sum(file.size for file in files)
        self._done = 0
        # By identity: the same file may be given twice.
        self._hashes = {id(file): hashlib.sha256() for file in files} if hashing else {}

    def __call__(self, file: InputFile, data: bytes) -> None:
        self._done += len(data)
        if id(file) in self._hashes:
            self._hashes[id(file)].update(data)
        if self._report is not None:
            self._report(self._stage, self._done, self._total)

    def facts(self) -> list[dict[str, object]]:
        """Name, size and sha256 of each input."""
        return [
            {"name": file.name, "bytes": file.size, "sha256": self._hashes[id(file)].hexdigest()}
            for file in self._files
        ]


def _origin(recipe: Recipe) -> dict[str, Any]:
    """In place of the names of inputs that nobody will find again: what they were made from."""
    if recipe.origin is None:
        return {}
    settings = _settings(recipe) | {"validation_from": [path.name for path in recipe.validation_from]}
    return {"settings": settings, "inputs": [], "origin": dict(recipe.origin)}


def _about(recipe: Recipe, files: Sequence[InputFile], *, texts: int) -> dict[str, Any]:
    """What a model says of the text that it was trained on: settings of `data` in its configuration."""
    names = [Path(file.name).name for file in files]
    listed = ", ".join(names[:NAMED]) + (f" and {len(names) - NAMED} more files" if len(names) > NAMED else "")
    source, target = recipe.direction
    return {
        "description": recipe.description or listed,
        "source_language": source,
        "target_language": target,
        "training_pairs": texts if recipe.kind == "parallel" else 0,
    }


def _settings(recipe: Recipe) -> dict[str, Any]:
    """The choices that decide what is in the files; not where they lie."""
    return {
        "tokenizer": recipe.tokenizer,
        "vocabulary": recipe.vocabulary,
        "tokenizer_from": None if recipe.tokenizer_from is None else str(recipe.tokenizer_from),
        "long": recipe.long,
        "split": recipe.split,
        "field": recipe.field,
        "format": recipe.format,
        "unique": recipe.unique,
        "validation": recipe.validation,
        "validation_from": [str(path) for path in recipe.validation_from],
        "exclude": [str(path) for path in recipe.exclude],
        "seed": recipe.seed,
    }
