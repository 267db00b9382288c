"""From text to corpus: what is kept, what is dropped and counted, what is split, and what happens when it fails."""

import errno
import gzip
import hashlib
import io
import json
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
from samples import SENTENCES, make_sentences

from sundae.config import TokenizerKind
from sundae.errors import DataError, UsageError
from sundae.text import encoder, prepare, writer
from sundae.text.corpus import Corpus
from sundae.text.recipe import Recipe

Make = Callable[..., Corpus]


def texts(corpus: Corpus, split: Any) -> list[str]:
    part = corpus.split(split)
    return [corpus.tokenizer.decode(part.text(i)) for i in range(len(part))]


def write(path: Path, lines: list[str]) -> Path:
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def tree(folder: Path) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }


# What is kept.


def test_sentences_are_kept_in_order_and_counted(make: Make, tmp_path: Path) -> None:
    lines = [*SENTENCES[:50], "", "  \t", "word " * 200, SENTENCES[0]]
    corpus = make("sentences", write(tmp_path / "a.txt", lines), canvas=64, validation="0")
    train = corpus.facts["splits"]["train"]
    assert texts(corpus, "train") == [*SENTENCES[:50], SENTENCES[0]]
    assert train["dropped"] == {"empty": 2, "too long": 1}
    assert (train["texts"], train["cropped"]) == (51, 0)
    assert train["tokens"] == corpus.split("train").tokens
    assert train["lengths_before_canvas"]["1"] > 64 >= train["lengths"]["quantiles"]["1"]
    assert corpus.canvas == 64


def test_long_sentences_can_be_cropped(make: Make, tmp_path: Path) -> None:
    lines = [*SENTENCES[:20], "cat " * 40, "cat " * 10_000]
    corpus = make(
        "sentences", write(tmp_path / "a.txt", lines), canvas=30, long="crop", validation="0", tokenizer="word"
    )
    assert corpus.facts["splits"]["train"]["cropped"] == 2
    assert texts(corpus, "train")[-2:] == [" ".join(["cat"] * 30)] * 2


def test_equal_texts_are_kept_unless_unique(make: Make, tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", ["a cat", "a dog", "a cat ", "a cat"])
    assert len(make("sentences", path, validation="0").split("train")) == 4
    corpus = make("sentences", path, validation="0", unique=True, force=True)
    assert texts(corpus, "train") == ["a cat", "a dog"]
    assert corpus.facts["splits"]["train"]["dropped"] == {"duplicate": 2}


def test_pairs_with_an_empty_or_long_side_are_dropped(make: Make, tmp_path: Path) -> None:
    source = write(tmp_path / "a.en", ["one", "", "two", "x " * 300, "three"])
    target = write(tmp_path / "a.de", ["eins", "leer", " ", "zwei", "drei"])
    corpus = make("parallel", source, target, validation="0")
    assert corpus.facts["splits"]["train"]["dropped"] == {"empty": 2, "too long": 1}
    train = corpus.split("train")
    assert [corpus.tokenizer.decode(train.source(i)) for i in range(2)] == ["one", "three"]
    assert texts(corpus, "train") == ["eins", "drei"]
    assert corpus.canvas == 128


def test_unknown_words_are_counted(make: Make, tmp_path: Path) -> None:
    words = write(tmp_path / "words.list", ["the", "cat"])
    path = write(tmp_path / "a.txt", ["the cat sat", "the dog"])
    corpus = make("sentences", path, tokenizer="word", tokenizer_from=words, validation="0")
    assert corpus.vocabulary_size == 4
    assert corpus.facts["splits"]["train"]["unknown_tokens"] == 2


def test_documents_do_not_run_together(make: Make, tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", ["one.", "two.", "", "three."])
    for split, expected in (
        ("file", ["one.\ntwo.\n\nthree.\n"]),
        ("paragraph", ["one.\ntwo.\n", "three.\n"]),
        ("line", ["one.\n", "two.\n", "three.\n"]),
    ):
        corpus = make("crops", path, split=split, validation="0", force=True)
        assert texts(corpus, "train") == expected


def test_long_documents_are_whole_although_they_are_cut(make: Make, tmp_path: Path) -> None:
    text = " ".join(make_sentences(3000, seed=5)) + "x" * 40_000 + "\n"
    (tmp_path / "a.txt").write_text(text)
    corpus = make("crops", tmp_path / "a.txt", validation="0")
    assert texts(corpus, "train") == [text]
    assert corpus.facts["documents"] == 1


def test_pieces_of_one_document_are_kept_for_validation(make: Make, tmp_path: Path) -> None:
    text = " ".join(make_sentences(8000, seed=6)) + "\n"
    (tmp_path / "a.txt").write_text(text)
    corpus = make("crops", tmp_path / "a.txt", validation="3")
    kept = texts(corpus, "validation")
    assert 1 <= len(kept) <= 3
    rest = texts(corpus, "train")
    assert len(rest) <= len(kept) + 1
    assert sum(map(len, kept + rest)) == len(text)
    for part in kept:
        assert part in text
        assert all(part not in other for other in rest)


def test_the_first_texts_and_the_last_ones_teach_the_tokenizer(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prepare, "SAMPLE", 4000)
    lines = ["aaaa bbbb"] * 2000 + ["yyyy zzzz"] * 2000
    for name in ("a.txt", "a.txt.gz"):
        data = "\n".join(lines).encode()
        (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    corpus = make("sentences", tmp_path / "a.txt", tokenizer="word", vocabulary=10)
    assert {corpus.tokenizer.token_text(i) for i in range(2, 6)} == {"aaaa", "bbbb", "yyyy", "zzzz"}
    make("sentences", tmp_path / "a.txt.gz", tokenizer="word", vocabulary=10, force=True)


def test_a_tokenizer_can_be_borrowed(make: Make, tmp_path: Path) -> None:
    first = make("sentences", write(tmp_path / "a.txt", SENTENCES))
    path = write(tmp_path / "b.txt", make_sentences(50, seed=9))
    for borrowed in (first.folder, first.folder / "tokenizer.json"):
        second = make("sentences", path, tokenizer_from=borrowed, out=tmp_path / "second", force=True, canvas=90)
        assert (second.folder / "tokenizer.json").read_bytes() == (first.folder / "tokenizer.json").read_bytes()
    assert set(texts(second, "train")) | set(texts(second, "validation")) == set(make_sentences(50, seed=9))


def test_standard_input_is_read_and_leaves_no_copy(make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO("\n".join(SENTENCES).encode())))
    corpus = make("sentences", Path("-"), validation="0", canvas=90)
    assert texts(corpus, "train") == SENTENCES
    assert corpus.facts["inputs"][0]["name"] == "standard input"
    assert sorted(path.name for path in corpus.folder.iterdir()) == [
        "corpus.json",
        "tokenizer.json",
        "train",
        "validation",
    ]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["corpus"]


# What is split off.


def test_equal_sentences_never_stand_on_both_sides(make: Make, tmp_path: Path) -> None:
    corpus = make("sentences", write(tmp_path / "a.txt", SENTENCES * 3), validation="0.2", canvas=90)
    train, validation = set(texts(corpus, "train")), set(texts(corpus, "validation"))
    assert validation
    assert not train & validation
    assert train | validation == set(SENTENCES)


def test_equal_sources_never_stand_on_both_sides(make: Make, tmp_path: Path) -> None:
    pairs = [f"{source}\t{target}" for source in SENTENCES[:60] for target in ("eins", "zwei", "drei")]
    corpus = make("parallel", write(tmp_path / "a.tsv", pairs), validation="10")
    sides = []
    for name in ("train", "validation"):
        split = corpus.split(name)
        sides.append({corpus.tokenizer.decode(split.source(i)) for i in range(len(split))})
    assert len(sides[1]) == 10
    assert not sides[0] & sides[1]
    assert len(corpus.split("validation")) == 30


def test_another_seed_keeps_other_texts(make: Make, tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", SENTENCES)
    kept = [set(texts(make("sentences", path, seed=s, validation="20", force=True), "validation")) for s in (0, 1)]
    assert kept[0] != kept[1]


def test_validation_can_come_from_files(make: Make, tmp_path: Path) -> None:
    path, other = write(tmp_path / "a.txt", SENTENCES[:40]), write(tmp_path / "b.txt", SENTENCES[40:50])
    corpus = make("sentences", path, validation_from=(other,), canvas=90)
    assert texts(corpus, "train") == SENTENCES[:40]
    assert texts(corpus, "validation") == SENTENCES[40:50]
    assert [file["name"] for file in corpus.facts["inputs"]] == [str(path), str(other)]
    pairs = write(tmp_path / "a.tsv", [f"{text}\tx" for text in SENTENCES])
    corpus = make("parallel", pairs, validation_from=(other, other), force=True)
    assert len(corpus.split("validation")) == 10


def test_excluded_texts_are_not_trained_on(make: Make, tmp_path: Path) -> None:
    test_set = write(tmp_path / "test.txt", SENTENCES[:5])
    corpus = make("sentences", write(tmp_path / "a.txt", SENTENCES), exclude=(test_set,), validation="0", canvas=90)
    assert not set(texts(corpus, "train")) & set(SENTENCES[:5])
    assert corpus.facts["splits"]["train"]["dropped"]["excluded"] >= 5
    pairs = write(tmp_path / "a.tsv", [f"{text}\tx" for text in SENTENCES])
    corpus = make("parallel", pairs, exclude=(test_set,), validation="0", force=True)
    assert corpus.facts["splits"]["train"]["dropped"]["excluded"] >= 5


# What is written.


def test_the_same_command_writes_the_same_bytes(make: Make, tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", SENTENCES)
    first = tree(make("sentences", path, unique=True).folder)
    assert tree(make("sentences", path, unique=True, force=True).folder) == first


def test_the_account_tells_files_inputs_and_settings(make: Make, tmp_path: Path) -> None:
    path = tmp_path / "a.txt.gz"
    path.write_bytes(gzip.compress("\n".join(SENTENCES).encode()))
    corpus = make("sentences", path, path, seed=3)
    facts = json.loads((corpus.folder / "corpus.json").read_text())
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    assert facts["inputs"] == [{"name": str(path), "bytes": path.stat().st_size, "sha256": digest}] * 2
    assert facts["settings"]["seed"] == 3
    assert set(facts["files"]) | {"corpus.json"} == set(tree(corpus.folder))
    assert all(
        facts["files"][name]["sha256"] == digest
        for name, digest in tree(corpus.folder).items()
        if name != "corpus.json"
    )
    assert (facts["tokenizer"], facts["vocabulary_size"]) == ("byte-bpe", corpus.vocabulary_size)


def test_an_existing_folder_is_not_touched(make: Make, tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", SENTENCES)
    first = tree(make("sentences", path).folder)
    with pytest.raises(UsageError, match=r"exists.*--force"):
        make("sentences", path, seed=1)
    assert tree(tmp_path / "corpus") == first
    make("sentences", path, seed=1, force=True)
    assert tree(tmp_path / "corpus") != first
    (tmp_path / "corpus" / "thesis.txt").write_text("do not lose me")
    with pytest.raises(UsageError, match=r"not a corpus: it holds thesis\.txt"):
        make("sentences", path, force=True)
    with pytest.raises(UsageError, match="not a corpus"):
        make("sentences", path, out=path, force=True)
    assert (tmp_path / "corpus" / "thesis.txt").exists()
    corpus = make("sentences", path, out=tmp_path / "deep" / "er" / "corpus")
    assert corpus.folder.is_dir()


@pytest.mark.parametrize(
    "error", [KeyboardInterrupt(), OSError(errno.ENOSPC, "No space left on device"), RuntimeError()]
)
@pytest.mark.parametrize("force", [False, True])
def test_what_goes_wrong_midway_leaves_nothing_behind(
    error: BaseException, force: bool, make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "a.txt", SENTENCES)
    before = tree(make("sentences", path).folder) if force else {}
    calls = 0

    def fail(self: writer.TokenWriter, ids: list[int]) -> None:
        nonlocal calls
        calls += 1
        if calls > 100:
            raise error

    monkeypatch.setattr(writer.TokenWriter, "extend", fail)
    expected = DataError if isinstance(error, OSError) else type(error)
    with pytest.raises(expected) as caught:
        make("sentences", path, seed=1, force=force)
    if isinstance(error, OSError):
        assert "No space left on device" in str(caught.value)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == (["a.txt", "corpus"] if force else ["a.txt"])
    assert (tree(tmp_path / "corpus") if force else {}) == before


def test_a_failed_rename_gives_the_old_corpus_back(make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "a.txt", SENTENCES)
    before = tree(make("sentences", path).folder)
    rename = Path.rename

    def fail(self: Path, target: Path) -> Path:
        if self.suffix == ".partial":
            raise OSError(errno.EIO, "Input/output error")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", fail)
    with pytest.raises(DataError, match="Input/output error"):
        make("sentences", path, seed=1, force=True)
    assert tree(tmp_path / "corpus") == before
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["a.txt", "corpus"]


@pytest.mark.parametrize(
    ("kind", "choices", "why"),
    [
        ("sentences", {"inputs": ()}, "nothing to prepare"),
        ("sentences", {"canvas": 0}, "--canvas 0"),
        ("crops", {"canvas": 32}, "--canvas 32.*cut in training"),
        ("sentences", {"split": "line"}, "--split line"),
        ("sentences", {"seed": -1}, "--seed"),
        ("sentences", {"validation": "5", "validation_from": (Path("x"),)}, "exclude each other"),
        ("sentences", {"validation": "all"}, "--validation all"),
        ("sentences", {"field": "a,b"}, "--field a,b"),
        ("parallel", {"field": "en"}, "--field en"),
        ("parallel", {"field": "en,"}, "--field en,"),
        ("crops", {"exclude": (Path("x"),)}, "--exclude"),
        ("sentences", {"vocabulary": 10}, "257"),
        ("sentences", {"validation": "400"}, "left to train on"),
    ],
)
def test_what_makes_no_sense_is_a_usage_error(
    kind: str, choices: dict[str, object], why: str, make: Make, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=why):
        make(kind, write(tmp_path / "a.txt", SENTENCES), **choices)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["a.txt"]


def test_text_of_which_nothing_is_left_is_a_data_error(make: Make, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no text is left to train on: dropped: 3 empty"):
        make("sentences", write(tmp_path / "a.txt", ["", " ", "\t"]))
    with pytest.raises(DataError, match="2 too long"):
        make("sentences", write(tmp_path / "a.txt", ["a b c d e f g", "h i j k l m n"]), canvas=2, validation="0")
    with pytest.raises(DataError, match="no text is left"):
        make("crops", write(tmp_path / "a.txt", [" ", "\n\n"]))


def test_batches_are_small(make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However the batches fall, the corpus is the same."""
    path = write(tmp_path / "a.txt", SENTENCES)
    expected = tree(make("sentences", path).folder)
    monkeypatch.setattr(encoder, "_BATCH_ENTRIES", 7)
    assert tree(make("sentences", path, force=True).folder) == expected
    monkeypatch.setattr(encoder, "_BATCH_CHARACTERS", 50)
    assert tree(make("sentences", path, force=True).folder) == expected


def test_progress_is_told_in_bytes(tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", SENTENCES)
    heard: list[tuple[str, int, int]] = []
    recipe = Recipe(kind="sentences", inputs=(path,), out=tmp_path / "corpus", vocabulary=300)
    prepare.prepare(recipe, report=lambda *event: heard.append(event))
    size = path.stat().st_size
    assert [event for event in heard if event[1] == size] == [
        ("learning the tokenizer", size, size),
        ("encoding", size, size),
    ]


@pytest.mark.parametrize("kind", get_args(TokenizerKind))
def test_every_tokenizer_writes_text_that_can_be_read(kind: str, make: Make, tmp_path: Path) -> None:
    if kind == "sentencepiece":
        pytest.importorskip("sentencepiece", reason="the extra sundae[sentencepiece] is not installed")
    lines = [line.replace("<pad>", "the") for line in SENTENCES]
    path = write(tmp_path / "a.txt", lines)
    corpus = make("sentences", path, tokenizer=kind, validation="0", canvas=90)
    assert texts(corpus, "train") == lines
    assert corpus.facts["tokenizer"] == kind
    corpus = make("crops", path, tokenizer=kind, validation="0", split="line", force=True)
    assert [text.removesuffix("\n") for text in texts(corpus, "train")] == lines
    borrowed = make(
        "crops", path, tokenizer_from=corpus.folder, out=tmp_path / "borrowed", split="line", validation="0"
    )
    assert (borrowed.folder / "train/tokens.bin").read_bytes() == (corpus.folder / "train/tokens.bin").read_bytes()


# Not ru_maxrss: a child inherits that of the process that started it, and all peaks would be those of pytest.
_PEAK = """
import pathlib, re, sys
from sundae.cli import main
code = main(["prepare", "crops", sys.argv[1], "--out", sys.argv[2], "--vocabulary", "300", "-q"])
print(re.search(r"VmHWM:\\s*(\\d+) kB", pathlib.Path("/proc/self/status").read_text())[1])
sys.exit(code)
"""


def blocks(form: str, megabytes: int) -> Iterator[str]:
    """Text of some form and size that no reader should have to hold at once."""
    draw = random.Random(0)
    if form == "json":
        yield '["first"'
    for _ in range(megabytes * 1000):
        match form:
            case "one word":
                yield "".join(draw.choices("abcdefgh", k=1000))
            case "blanks":
                yield " " * 999 + "x"
            case "rare words":
                yield "".join(f"{draw.getrandbits(35):x} " for _ in range(110))
            case "json":
                yield ',{"text": "' + "word " * 195 + '"}'
            case _:
                yield "the cat sat on a mat " * 47
    if form == "json":
        yield "]"


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory is read from /proc")
@pytest.mark.parametrize("form", ["words", "one word", "blanks", "rare words", "json", "gz"])
def test_memory_does_not_grow_with_the_file(form: str, tmp_path: Path) -> None:
    """`benchmarks/prepare_memory.py` does the same with 1 GB."""
    peaks = []
    for megabytes in (1, 40):
        path = tmp_path / {"json": "a.json", "gz": "a.txt.gz"}.get(form, "a.txt")
        with gzip.open(path, "wt") if form == "gz" else path.open("w") as file:
            file.writelines(blocks(form, megabytes))
        command = [sys.executable, "-c", _PEAK, path, tmp_path / f"{megabytes}"]
        child = subprocess.run(command, capture_output=True, text=True, check=True, timeout=600)
        peaks.append(int(child.stdout) * 1024)
    assert peaks[0] < 200_000_000  # a larger one would hide growth
    assert peaks[1] - peaks[0] < 256_000_000


# Real text.

Real = Callable[[str], Path]


def test_multi30k_keeps_its_pairs(real_data: Real, make: Make) -> None:
    raw = real_data("multi30k") / "raw"
    corpus = make(
        "parallel",
        raw / "val.en.gz",
        raw / "val.de.gz",
        validation_from=(raw / "test_2016_flickr.en.gz", raw / "test_2016_flickr.de.gz"),
        vocabulary=2000,
    )
    assert [len(corpus.split(name)) for name in ("train", "validation")] == [1014, 1000]
    source = gzip.decompress((raw / "val.en.gz").read_bytes()).decode().split("\n")
    train = corpus.split("train")
    assert [corpus.tokenizer.decode(train.source(i)) for i in range(1014)] == [line.strip() for line in source[:1014]]


def test_emnlp_news_fits_the_canvas_of_the_paper(real_data: Real, make: Make) -> None:
    folder = real_data("emnlp2017_news")
    corpus = make("sentences", folder / "valid.txt", tokenizer="word", vocabulary=5699, canvas=52, validation="0")
    assert len(corpus.split("train")) == 10_000


def test_shakespeare_comes_back(real_data: Real, make: Make) -> None:
    (path,) = (path for path in real_data("tinyshakespeare").rglob("*.txt") if path.name != "SOURCE.txt")
    corpus = make("crops", path, validation="0", vocabulary=1000)
    assert "".join(texts(corpus, "train")) == path.read_text(encoding="utf-8")
