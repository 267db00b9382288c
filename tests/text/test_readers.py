"""Reading text: every format, every way to cut it, and every way in which a file can be bad."""

import contextlib
import gzip
import io
import json
import os
import random
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples import make_sentences

from sundae.errors import DataError, UsageError
from sundae.text.byte_bpe import ByteBPETokenizer
from sundae.text.inputs import Format, InputFile, find_inputs
from sundae.text.json_stream import read_items
from sundae.text.pieces import Piece, cut_stretches, split_lines, split_paragraphs
from sundae.text.readers import read_documents, read_pairs, read_sentences


def found(*paths: Path, form: Format | None = None) -> list[InputFile]:
    return find_inputs(paths, format=form, spool=paths[0].parent / "spool")


def write(path: Path, content: str | bytes) -> Path:
    data = content.encode() if isinstance(content, str) else content
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def sentences(path: Path, field: str = "") -> list[str]:
    (file,) = found(path)
    return [record.text for record in read_sentences(file, field=field)]


def in_chunks(text: str, draw: random.Random) -> Iterator[str]:
    at = 0
    while at < len(text):
        size = draw.randint(1, 40)
        yield text[at : at + size]
        at += size


# Cutting.

rough = st.text(st.sampled_from(" \n\t\r\x1c\xa0ab1,.é猫"), max_size=120)


@given(documents=st.lists(st.lists(rough, max_size=4), max_size=4), longest=st.integers(1, 30))
def test_pieces_are_bounded_and_together_the_documents(documents: list[list[str]], longest: int) -> None:
    stretches = [stretch for document in documents for stretch in (*document, None)]
    rebuilt, current = [], ""
    for piece in cut_stretches(stretches, longest=longest):
        assert len(piece.text) <= longest
        assert piece.text or piece.last
        current += piece.text
        if piece.last:
            rebuilt.append(current)
            current = ""
    assert rebuilt == ["".join(document) for document in documents]
    assert current == ""


@given(text=rough, longest=st.integers(3, 30), seed=st.integers(0, 5))
def test_lines_do_not_depend_on_chunks(text: str, longest: int, seed: int) -> None:
    pieces = list(split_lines(in_chunks(text, random.Random(seed)), longest=longest))
    lines, current = [], ""
    for piece in pieces:
        assert len(piece.text) <= longest * 2
        current += piece.text
        if piece.last:
            lines.append(current)
            current = ""
    expected = text.split("\n")
    if not expected[-1]:
        expected.pop()
    assert lines == [line.removesuffix("\r") for line in expected]
    assert current == ""


def test_cuts_at_spaces_change_no_token(byte_bpe: ByteBPETokenizer) -> None:
    draw = random.Random(1)
    words = ["the", "cat", "don't", "12", ",", "!?", "é", "猫", "\x1c"]
    alphabet = [*words, " ", "  ", "\n", "\n\n", "\t", "\xa0", "\u2028"]
    for _ in range(300):
        text = "".join(draw.choices(alphabet, k=60))
        pieces = [piece.text for piece in cut_stretches((text, None), longest=draw.randint(20, 80))]
        if any(not piece[0].isspace() for piece in pieces[1:]):
            continue  # no whitespace was near enough
        joined = [token for piece in pieces for token in byte_bpe.encode(piece)]
        assert joined == byte_bpe.encode(text)


def test_text_without_spaces_is_cut_all_the_same() -> None:
    pieces = list(cut_stretches(("x" * 100, None), longest=30))
    assert [len(piece.text) for piece in pieces] == [30, 30, 30, 10]
    assert [piece.last for piece in pieces] == [False, False, False, True]


def test_paragraphs_are_kept_apart_by_blank_lines() -> None:
    text = "\n\none\ntwo\r\n \t\nthree\n\n\n"
    pieces = list(cut_stretches(split_paragraphs(split_lines([text]))))
    assert pieces == [Piece("one\ntwo", last=True), Piece("three", last=True)]


# Formats.


def test_every_format_gives_the_same_sentences(tmp_path: Path) -> None:
    texts = ["one", "zwei \u2028 zwei", "trois\x85", "tab\tless".replace("\t", " "), "猫"]
    contents = {
        "a.txt": "\n".join(texts) + "\n",
        "b.txt": "\ufeff" + "\r\n".join(texts),
        "a.tsv": "".join(f"{text}\tother\n" for text in texts),
        "a.jsonl": "\n\n".join(json.dumps({"text": text, "n": 1}) for text in texts),
        "b.jsonl": "\n".join(json.dumps(text, ensure_ascii=False) for text in texts),
        "a.json": json.dumps([{"s": text} for text in texts], indent=3),
        "b.json": json.dumps(texts),
        "train.en": "\n".join(texts),
    }
    for name, content in contents.items():
        expected = [text.strip() for text in texts]
        assert sentences(write(tmp_path / name, content)) == expected, name
        assert sentences(write(tmp_path / f"{name}.gz", content)) == expected, name


def test_fields_are_keys_or_columns(tmp_path: Path) -> None:
    assert sentences(write(tmp_path / "a.tsv", "a\tb\nc\td\n"), field="2") == ["b", "d"]
    assert sentences(write(tmp_path / "a.jsonl", '{"x": "a", "text": "b"}'), field="x") == ["a"]
    for field in ("0", "x", "-1", "1.5", "²"):
        with pytest.raises(UsageError, match="column numbers"):
            sentences(tmp_path / "a.tsv", field=field)
    with pytest.raises(DataError, match=r"a\.tsv, line 1: has 2 columns, column 3"):
        sentences(tmp_path / "a.tsv", field="3")
    with pytest.raises(DataError, match=r"line 1: has no 'y' among its keys 'x', 'text'.*--field"):
        sentences(tmp_path / "a.jsonl", field="y")


def test_documents_are_files_paragraphs_or_lines(tmp_path: Path) -> None:
    (file,) = found(write(tmp_path / "a.txt", "one\ntwo\n\nthree\n"))
    assert list(read_documents(file, split="file")) == [Piece("one\ntwo\n\nthree\n", last=True)]
    assert [p.text for p in read_documents(file, split="paragraph")] == ["one\ntwo", "three"]
    assert [p.text for p in read_documents(file, split="line")] == ["one", "two", "", "three"]
    (file,) = found(write(tmp_path / "a.jsonl", '{"text": "one\\n\\ntwo"}\n{"text": ""}'))
    assert [p.text for p in read_documents(file, split="line")] == ["one\n\ntwo", ""]


def test_pairs_come_from_two_files_or_from_tables(tmp_path: Path) -> None:
    source, target = write(tmp_path / "a.en", "one\ntwo\n"), write(tmp_path / "a.de.gz", "eins\nzwei\n")
    expected = [("one", "eins"), ("two", "zwei")]

    def pairs(*paths: Path, fields: tuple[str, str] = ("", "")) -> list[tuple[str, str]]:
        return [(left.text, right.text) for left, right in read_pairs(found(*paths), fields=fields)]

    assert pairs(source, target) == expected
    table = write(tmp_path / "a.tsv", "one\teins\tx\ntwo\tzwei\n")
    assert pairs(table) == expected
    assert pairs(table, fields=("2", "1")) == [("eins", "one"), ("zwei", "two")]
    assert pairs(table, table) == expected * 2
    records = write(tmp_path / "a.jsonl", '{"en": "one", "de": "eins"}\n["two", "zwei"]')
    with pytest.raises(UsageError, match="--field en,de"):
        pairs(records)
    assert pairs(write(tmp_path / "b.json", '[["one", "eins"], ["two", "zwei"]]')) == expected
    assert pairs(write(tmp_path / "c.jsonl", '{"en": "one", "de": "eins"}'), fields=("en", "de")) == expected[:1]
    for files in ([source], [source, target, source], [source, table]):
        with pytest.raises(UsageError, match="cannot pair"):
            pairs(*files)
    for left, right, counts in (("a\nb\nc\nd", "a\nb\n", "4 .* 2"), ("a", "a\n\n", "1 .* 2"), ("a\nb", "a", "2 .* 1")):
        write(source, left)
        write(target, right)
        with pytest.raises(DataError, match=rf"a\.en has {counts.split()[0]} lines, .*a\.de\.gz has {counts[-1]}"):
            pairs(source, target)


def test_a_table_with_blank_lines_has_empty_records(tmp_path: Path) -> None:
    files = found(write(tmp_path / "a.tsv", "a\tb\n\nc\td\n"))
    assert [(a.text, b.text) for a, b in read_pairs(files)] == [("a", "b"), ("", ""), ("c", "d")]


def test_an_endless_line_is_kept_only_in_its_beginning(tmp_path: Path) -> None:
    text = "word " * 20_000
    for name in ("a.txt", "a.tsv", "a.jsonl"):
        content = json.dumps(text) if name == "a.jsonl" else text
        (file,) = found(write(tmp_path / name, f"{content}\nshort\n" if name != "a.jsonl" else f'{content}\n"short"'))
        first, second = read_sentences(file)
        assert not first.whole
        assert 10_000 < len(first.text) <= 16_384
        assert second == ("short", True)


# JSON streams.

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda children: st.lists(children, max_size=3) | st.dictionaries(st.text(), children, max_size=3),
    max_leaves=6,
)


@given(items=st.lists(json_values, max_size=5), indent=st.sampled_from([None, 1]), seed=st.integers(0, 9))
def test_json_items_do_not_depend_on_chunks(items: list[object], indent: int | None, seed: int) -> None:
    text = json.dumps(items, indent=indent, ensure_ascii=seed % 2 == 0)
    assert list(read_items(in_chunks(text, random.Random(seed)), where="x")) == items


@given(st.text(st.sampled_from('[]{}",:1.e-ntrufals \\u'), max_size=30), st.integers(0, 9))
def test_broken_json_is_a_data_error(text: str, seed: int) -> None:
    try:
        items = list(read_items(in_chunks(text, random.Random(seed)), where="x"))
    except DataError as error:
        said = str(error)
    else:
        said = "x, character"
        assert items == json.loads(text)
    assert "x, character" in said


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "not a JSON list"),
        ('{"data": []}', "not a JSON list"),
        ("[1, 2", "not closed"),
        ("[1 2]", "comma"),
        ("[1],", "follows"),
        ("[1, ]", "not valid JSON"),
        ('["a', "not valid JSON"),
        ("[" * 100_000, "nested too deeply"),
        ("[" + "1" * 5000 + "]", "digits"),
    ],
)
def test_what_is_wrong_with_json_is_said(text: str, why: str) -> None:
    with pytest.raises(DataError, match=why):
        list(read_items([text], where="x"))


def test_an_item_has_a_largest_size() -> None:
    with pytest.raises(DataError, match="longer than 100 characters"):
        list(read_items(("x" if n else '["' for n in range(10_000)), where="x", longest=100))


# Files.


def test_folders_are_searched_in_order_for_text(tmp_path: Path) -> None:
    root = tmp_path / "root"
    for name in ("b.txt", "a/z.jsonl", "a/y.tsv.gz", "c.json", "a/x.TXT"):
        write(root / name, "x")
    for name in (".hidden.txt", ".git/a.txt", "code.py", "notes", "old/corpus.json", "old/tokenizer.json", "old/x.txt"):
        write(root / name, "x")
    write(root / "empty.txt", "")
    assert [file.path.relative_to(root).as_posix() for file in found(root)] == [
        "b.txt",
        "c.json",
        "a/x.TXT",
        "a/y.tsv.gz",
        "a/z.jsonl",
    ]
    (tmp_path / "none").mkdir()
    with pytest.raises(DataError, match="no text in the folder"):
        found(tmp_path / "none")


def test_a_named_format_rules_over_the_name(tmp_path: Path) -> None:
    (file,) = found(write(tmp_path / "pairs.txt", "a\tb\n"), form="tsv")
    assert [record.text for record in read_sentences(file)] == ["a"]


def test_bad_files_are_named_with_the_reason(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"missing\.txt: No such file"):
        found(tmp_path / "missing.txt")
    with pytest.raises(DataError, match=r"empty\.txt is empty"):
        found(write(tmp_path / "empty.txt", ""))
    whole = gzip.compress(b"some text that is long enough to be cut" * 100)
    for data in (whole[:-9], whole[:20], b"not gzip at all", whole[:30] + b"\x00\x00\x00" + whole[33:]):
        path = tmp_path / "a.txt.gz"
        path.write_bytes(data)
        with pytest.raises(DataError, match=r"cannot decompress .*a\.txt\.gz"):
            sentences(path)
    path = tmp_path / "locked.txt"
    write(path, "x")
    (file,) = found(path)
    path.unlink()
    with pytest.raises(DataError, match=r"cannot read .*locked\.txt: No such file"):
        list(file.chunks())


@pytest.mark.parametrize(
    ("data", "place"),
    [
        (b"\xff", 0),
        (b"abc\xe2\x82", 3),
        (b"ab\xc3\x28", 2),
        (b"x" * ((1 << 18) - 1) + b"\xe2\x28\xa1", (1 << 18) - 1),
        (b"\xed\xa0\x80", 0),
        (b"x" * (1 << 18) + b"\xf8", 1 << 18),
    ],
)
def test_bytes_that_are_not_utf8_are_named_with_their_place(data: bytes, place: int, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=rf"a\.txt is not UTF-8 text: byte {place}: "):
        sentences(write(tmp_path / "a.txt", data))
    with pytest.raises(DataError, match=rf"byte {place} of the decompressed text"):
        sentences(write(tmp_path / "a.txt.gz", data))


def test_records_that_are_no_text_are_named(tmp_path: Path) -> None:
    for line, why in (
        ("{", "not valid JSON"),
        ("17", "is a int"),
        ('{"text": 17}', "its text is a int"),
        ('{"title": "x"}', "has no 'text' or 's'"),
        ('"\\ud800"', "its text has a lone surrogate at character 0"),
        ("[" * 100_000, "not valid JSON"),
    ):
        with pytest.raises(DataError, match=rf"a\.jsonl, line 2: {why}"):
            sentences(write(tmp_path / "a.jsonl", '"fine"\n' + line))


def test_any_bytes_in_any_format_are_text_or_our_error(tmp_path: Path) -> None:
    draw = random.Random(0)
    for number in range(200):
        name = draw.choice(["a.txt", "a.tsv", "a.jsonl", "a.json", "a.txt.gz", "a.json.gz"])
        path = tmp_path / f"{number}{name}"
        path.write_bytes(draw.choice([draw.randbytes(40), b'["' + draw.randbytes(5) + b'"]', b'{"s":"x"}\n{']))
        with contextlib.suppress(DataError):
            sentences(path)


def test_streams_are_copied_because_they_are_read_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"from\nstdin\n")))
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_bytes(b"from a pipe"))
    writer.start()
    first, second = find_inputs([Path("-"), pipe], format=None, spool=tmp_path / "spool")
    writer.join()
    for _ in range(2):
        assert [record.text for file in (first, second) for record in read_sentences(file)] == [
            "from",
            "stdin",
            "from a pipe",
        ]
    assert first.name == "standard input"


def test_what_was_read_is_seen_by_the_watcher(tmp_path: Path) -> None:
    content = "\n".join(make_sentences(2000))
    for name in ("a.txt", "a.txt.gz"):
        (file,) = found(write(tmp_path / name, content))
        seen: list[bytes] = []
        assert "".join(file.chunks(seen.append)) == content
        assert b"".join(seen) == file.path.read_bytes()
