"""Corpora on disk: what is written is what is read, and damage is found."""

import contextlib
import json
import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from samples import make_sentences

from sundae.errors import DataError, UsageError
from sundae.text.corpus import Corpus
from sundae.text.writer import Lengths, TokenWriter

Make = Callable[..., Corpus]


@pytest.fixture
def sentences(make: Make, tmp_path: Path) -> Corpus:
    path = tmp_path / "text.txt"
    path.write_text("\n".join(make_sentences(200, seed=1)))
    return make("sentences", path, canvas=60)


@pytest.fixture
def parallel(make: Make, tmp_path: Path) -> Corpus:
    path = tmp_path / "pairs.tsv"
    path.write_text("".join(f"{a}\t{b}\n" for a, b in zip(make_sentences(80), make_sentences(80, seed=2), strict=True)))
    return make("parallel", path, canvas=70, vocabulary=320)


def test_sentences_come_back_as_they_were(sentences: Corpus) -> None:
    texts = {sentences.tokenizer.decode(split.text(i)) for split in both(sentences) for i in range(len(split))}
    assert texts == set(make_sentences(200, seed=1))


def both(corpus: Corpus) -> tuple:
    return corpus.split("train"), corpus.split("validation")


def test_rows_are_texts_and_pads(sentences: Corpus) -> None:
    train = sentences.split("train")
    lengths = train.lengths()
    assert train.tokens == lengths.sum()
    rows = train.canvas_rows([3, 0, 3], 60)
    assert rows.dtype == np.int64
    assert rows.shape == (3, 60)
    for row, index in zip(rows, [3, 0, 3], strict=True):
        text = train.text(index)
        assert (row[: len(text)] == text).all()
        assert (row[len(text) :] == 0).all()
        assert 0 not in text
    longest = int(lengths.argmax())
    assert 0 not in train.canvas_rows([longest], int(lengths.max()))
    with pytest.raises(UsageError, match=r"a canvas of .* is too small"):
        train.canvas_rows([longest], int(lengths.max()) - 1)
    assert train.canvas_rows([], 5).shape == (0, 5)
    with pytest.raises(IndexError):
        train.text(len(train))
    with pytest.raises(IndexError):
        train.canvas_rows([-1], 60)


def test_sides_of_a_pair_stay_together(parallel: Corpus) -> None:
    pairs = set(zip(make_sentences(80), make_sentences(80, seed=2), strict=True))
    seen = set()
    for split in both(parallel):
        for i in range(len(split)):
            seen.add((parallel.tokenizer.decode(split.source(i)), parallel.tokenizer.decode(split.text(i))))
        rows = split.canvas_rows(range(len(split)), 70, side="source")
        assert ((rows != 0).sum(1) == split.lengths("source")).all()
    assert seen == pairs


def test_crops_come_from_the_row_of_all_texts(make: Make, tmp_path: Path) -> None:
    text = " ".join(make_sentences(300, seed=3))
    (tmp_path / "a.txt").write_text(text)
    corpus = make("crops", tmp_path / "a.txt", validation="0")
    train, validation = both(corpus)
    assert corpus.tokenizer.decode(train.crop_rows([0], train.tokens)[0]) == text + "\n"
    rows = train.crop_rows([0, 5, train.tokens - 8], 8)
    assert rows.dtype == np.int64
    assert (rows[1] == train.crop_rows([0], 13)[0, 5:]).all()
    for starts in ([-1], [train.tokens - 7]):
        with pytest.raises(UsageError, match="cannot crop 8 tokens"):
            train.crop_rows(starts, 8)
    assert len(validation) == validation.tokens == 0
    assert validation.lengths().tolist() == []
    assert validation.crop_rows([], 8).shape == (0, 8)
    with pytest.raises(UsageError, match="no sources"):
        train.source(0)


def test_damage_is_found(sentences: Corpus) -> None:
    """Sizes always; single bits when asked."""
    Corpus.open(sentences.folder, verify=True)
    draw = random.Random(0)
    files = [path for path in sentences.folder.rglob("*") if path.is_file() and path.stat().st_size]
    for path in files:
        sound = path.read_bytes()
        for _ in range(8):
            at = draw.randrange(len(sound))
            flipped = sound[:at] + bytes([sound[at] ^ (1 << draw.randrange(8))]) + sound[at + 1 :]
            path.write_bytes(flipped)
            if path.name == "corpus.json":
                # The account of the corpus is the one file that nothing vouches for.
                with contextlib.suppress(DataError):
                    Corpus.open(sentences.folder, verify=True)
            else:
                with pytest.raises(DataError, match="does not have its sha256"):
                    Corpus.open(sentences.folder, verify=True)
            path.write_bytes(sound[:at])
            with pytest.raises(DataError):
                Corpus.open(sentences.folder)
        path.unlink()
        with pytest.raises(DataError):
            Corpus.open(sentences.folder)
        path.write_bytes(sound)
    Corpus.open(sentences.folder, verify=True)


def test_files_that_lie_consistently_are_found(sentences: Corpus) -> None:
    facts_path = sentences.folder / "corpus.json"
    sound = facts_path.read_text()
    for change in (
        {"format": "x"},
        {"version": 9},
        {"kind": "poems"},
        {"canvas": "60"},
        {"vocabulary_size": 1},
        {"files": {}},
        {"files": None},
        {"files": sentences.facts["files"] | {"../outside": {"bytes": 1, "sha256": ""}}},
        {"files": dict.fromkeys(sentences.facts["files"])},
        {"kind": "parallel"},
    ):
        facts_path.write_text(json.dumps(json.loads(sound) | change))
        with pytest.raises(DataError):
            Corpus.open(sentences.folder)
    for content in ("", "[]", "[" * 100_000, "{"):
        facts_path.write_text(content)
        with pytest.raises(DataError):
            Corpus.open(sentences.folder)
    facts_path.write_text(json.dumps(json.loads(sound) | {"vocabulary_size": 299}))
    with pytest.raises(DataError, match="not the tokenizer"):
        _ = Corpus.open(sentences.folder).tokenizer
    facts_path.write_text(json.dumps(json.loads(sound) | {"vocabulary_size": 40}))
    with pytest.raises(DataError, match="outside the vocabulary"):
        Corpus.open(sentences.folder, verify=True)


def test_offsets_that_do_not_fit_are_found(sentences: Corpus) -> None:
    path = sentences.folder / "train" / "offsets.bin"
    offsets = np.fromfile(path, dtype="<i8")
    for index, value in ((0, 1), (-1, 0), (3, 10**9), (3, -5)):
        changed = offsets.copy()
        changed[index] = value
        changed.tofile(path)
        with pytest.raises(DataError, match="offsets do not fit"):
            Corpus.open(sentences.folder).split("train").text(2)
    changed = offsets.copy()
    changed[3] = changed[5]
    changed.tofile(path)
    with pytest.raises(DataError):
        Corpus.open(sentences.folder, verify=True)


def test_a_folder_that_is_no_corpus_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"is not a corpus.*sundae prepare"):
        Corpus.open(tmp_path)


def test_large_vocabularies_take_four_bytes(make: Make, tmp_path: Path) -> None:
    words = [f"w{n}" for n in range(70_000)]
    (tmp_path / "a.txt").write_text("\n".join(" ".join(words[n : n + 100]) for n in range(0, 70_000, 100)))
    corpus = make("sentences", tmp_path / "a.txt", tokenizer="word", vocabulary=70_002, canvas=100, validation="0")
    train = corpus.split("train")
    assert corpus.vocabulary_size == 70_002
    assert (corpus.folder / "train/tokens.bin").stat().st_size == 4 * 70_000
    assert sorted(train.crop_rows([0], 70_000)[0]) == list(range(2, 70_002))


def test_lengths_are_counted() -> None:
    lengths = Lengths()
    assert lengths.summary() == {"quantiles": {}, "histogram": {}}
    for length in [1] * 50 + [5] * 45 + [9] * 4 + [100_000]:
        lengths.add(length)
    assert lengths.summary() == {
        "quantiles": {"0.5": 1, "0.9": 5, "0.95": 5, "0.99": 9, "1": 100_000},
        "histogram": {"1-1": 50, "4-7": 45, "8-15": 4, "65536-": 1},
    }


def test_offsets_are_written_in_parts(tmp_path: Path) -> None:
    writer = TokenWriter(tmp_path, prefix="", token_type="<u2")
    for _ in range(70_000):
        writer.extend([7])
        writer.end()
    writer.finish()
    assert (np.fromfile(tmp_path / "offsets.bin", dtype="<i8") == np.arange(70_001)).all()
