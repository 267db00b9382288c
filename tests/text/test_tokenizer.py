"""Tokenizers: lossless where they promise it, the same every time, and deaf to hostile files."""

import hashlib
import json
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from samples import SENTENCES

from sundae.config import TokenizerKind
from sundae.errors import CapabilityError, DataError, UsageError
from sundae.text.byte_bpe import ByteBPETokenizer, train_byte_bpe
from sundae.text.counting import count_bounded
from sundae.text.inputs import find_inputs
from sundae.text.tokenizer import Tokenizer, borrow_tokenizer, load_tokenizer, text_ids, train_tokenizer
from sundae.text.vocabulary import PretokenisedTokenizer, WordTokenizer, join_subwords, train_words

KINDS: tuple[TokenizerKind, ...] = get_args(TokenizerKind)
Get = Callable[[TokenizerKind], Tokenizer]

# What a careless pre-tokeniser, normaliser or special token would lose.
HARD_TEXTS = [
    "",
    " ",
    "   leading and trailing   ",
    "\n\n\t tabs \r\n and \x00 NUL \x1c\x1f\x7f",
    "<pad><unk><s></s>[MASK]<|endoftext|> <pad>",
    "Ġ Ċ ▁ the alphabet of the tokenizer itself",
    "e\u0301 é \ufb01 ﬁ Å Å",  # composed, decomposed, ligatures: no normalisation
    "\u200b\u200f\u202e\ufeff\u2028\u2029\x85",
    "👩\u200d👩\u200d👧\u200d👦 🏳️\u200d🌈 \U0010ffff",
    "日本語のテキスト、中文文本、한국어 텍스트",
    "can't won't they'll I've I'm you're he'd it's 'S 'T",
    "1234567890 ½ ² ٣ ५",
]


def text_from(draw: random.Random) -> str:
    """Any Unicode text: plain, wide, or both, without surrogates."""
    parts = []
    for _ in range(draw.randint(0, 6)):
        top = draw.choice((0x80, 0x800, 0x10000, 0x110000))
        points = (draw.randrange(top) for _ in range(draw.randint(0, 8)))
        parts.append("".join(chr(p) for p in points if not 0xD800 <= p < 0xE000) + draw.choice(("", " ", "  ", "\n")))
    return "".join(parts)


def bytes_from(draw: random.Random) -> bytes:
    """Bytes that are sometimes UTF-8, sometimes nearly, sometimes not at all."""
    good = text_from(draw).encode()
    kind = draw.randrange(3)
    if kind == 0:
        return good
    if kind == 1 and good:
        at = draw.randrange(len(good))
        return good[:at] + bytes([draw.randrange(256)]) + good[at + 1 :]
    return draw.randbytes(draw.randint(0, 24))


def check_unicode(tokenizer: Tokenizer, count: int) -> None:
    draw = random.Random(count)
    texts = [text_from(draw) for _ in range(count)]
    for text, ids in zip(texts, tokenizer.encode_batch(texts), strict=True):
        assert 0 not in ids
        assert tokenizer.decode(ids) == text


def check_bytes(tokenizer: Tokenizer, count: int, folder: Path) -> None:
    """What is UTF-8 comes back; what is not is refused with the place of its first wrong byte."""
    draw = random.Random(count)
    path = folder / "bytes.txt"
    refused = 0
    for _ in range(count):
        data = bytes_from(draw)
        path.write_bytes(data or b" ")
        (file,) = find_inputs([path], format=None, spool=folder)
        try:
            expected = (data or b" ").decode("utf-8")
        except UnicodeDecodeError as error:
            with pytest.raises(DataError, match=rf"bytes.txt is not UTF-8 text: byte {error.start}: "):
                list(file.chunks())
            refused += 1
            continue
        text = "".join(file.chunks())
        assert text == expected.removeprefix("\ufeff")
        assert tokenizer.decode(tokenizer.encode(text)) == text
    assert count / 10 < refused < count


@pytest.mark.parametrize("text", HARD_TEXTS)
def test_byte_bpe_gives_hard_texts_back(text: str, byte_bpe: ByteBPETokenizer) -> None:
    ids = byte_bpe.encode(text)
    assert byte_bpe.decode(ids) == text
    assert 0 not in ids
    assert all(0 < token < byte_bpe.vocabulary_size for token in ids)


@given(text=st.text(st.characters(exclude_categories=["Cs"])))
def test_byte_bpe_gives_any_text_back(text: str, byte_bpe: ByteBPETokenizer) -> None:
    assert byte_bpe.decode(byte_bpe.encode(text)) == text


def test_byte_bpe_gives_some_unicode_and_some_bytes_back(byte_bpe: ByteBPETokenizer, tmp_path: Path) -> None:
    check_unicode(byte_bpe, 500)
    check_bytes(byte_bpe, 300, tmp_path)


@pytest.mark.slow
def test_byte_bpe_gives_20000_texts_and_10000_byte_strings_back(byte_bpe: ByteBPETokenizer, tmp_path: Path) -> None:
    check_unicode(byte_bpe, 20_000)
    check_bytes(byte_bpe, 10_000, tmp_path)


@given(ids=st.lists(st.integers(-5, 500)))
def test_byte_bpe_decodes_any_ids(ids: list[int], byte_bpe: ByteBPETokenizer) -> None:
    byte_bpe.decode(ids).encode("utf-8")


def test_half_a_character_becomes_a_replacement_character(byte_bpe: ByteBPETokenizer) -> None:
    ids = train_byte_bpe([], vocabulary_size=257).encode("é!")
    assert byte_bpe.decode(ids[1:]) == "\ufffd!"
    assert byte_bpe.token_text(ids[0]) == "\\xc3"


def test_byte_bpe_without_merges_holds_the_bytes_alone() -> None:
    tokenizer = train_byte_bpe(["too short"], vocabulary_size=5000)
    assert tokenizer.vocabulary_size == 257
    assert tokenizer.encode("hi") == [tokenizer.encode("h")[0], tokenizer.encode("i")[0]]
    with pytest.raises(UsageError, match="257"):
        train_byte_bpe([], vocabulary_size=256)


def test_byte_bpe_fills_exactly_the_vocabulary_that_was_asked_for(byte_bpe: ByteBPETokenizer) -> None:
    assert byte_bpe.vocabulary_size == 330
    assert len({byte_bpe.token_text(token) for token in range(330)}) == 330


def test_byte_bpe_learns_words_with_their_space(byte_bpe: ByteBPETokenizer) -> None:
    assert [byte_bpe.token_text(token) for token in byte_bpe.encode("the cat happy")] == ["the", " cat", " happy"]


def test_our_words_are_those_of_the_library(byte_bpe: ByteBPETokenizer) -> None:
    """Training counts words with a regular expression of our own; fed with whole text, the library learns the same."""
    tokenizers = pytest.importorskip("tokenizers")
    engine = tokenizers.Tokenizer(tokenizers.models.BPE())
    engine.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=330,
        min_frequency=2,
        show_progress=False,
        special_tokens=["<pad>"],
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
    )
    engine.train_from_iterator(SENTENCES, trainer)
    assert json.loads(engine.to_str())["model"] == json.loads(byte_bpe._engine.to_str())["model"]


def test_training_gives_the_same_tokenizer_in_every_process(tmp_path: Path) -> None:
    program = """
import sys, pathlib
from sundae.text.tokenizer import train_tokenizer
texts = pathlib.Path(sys.argv[1]).read_text().split("\\n")
for kind in ("byte-bpe", "word", "character"):
    train_tokenizer(kind, texts, vocabulary_size=330).save(pathlib.Path(sys.argv[2]) / f"{kind}.json")
"""
    (tmp_path / "text").write_text("\n".join(SENTENCES))
    seen = set()
    for seed in "0", "1", "2":
        out = tmp_path / seed
        out.mkdir()
        environment = {"PYTHONHASHSEED": seed, "TOKENIZERS_PARALLELISM": "true" if seed == "2" else "false"}
        subprocess.run([sys.executable, "-c", program, tmp_path / "text", out], check=True, env=environment, timeout=60)
        files = sorted(out.iterdir())
        seen.add(tuple(hashlib.sha256(path.read_bytes()).hexdigest() for path in files))
    assert len(seen) == 1


# What holds for every kind.


@pytest.mark.parametrize("kind", KINDS)
def test_no_text_becomes_a_pad(kind: TokenizerKind, any_tokenizer: Get) -> None:
    tokenizer = any_tokenizer(kind)
    for text in HARD_TEXTS:
        assert 0 not in tokenizer.encode(text)
    assert tokenizer.token_text(0) == "<pad>"


@pytest.mark.parametrize("kind", KINDS)
def test_a_saved_tokenizer_is_the_same_tokenizer(kind: TokenizerKind, any_tokenizer: Get, tmp_path: Path) -> None:
    tokenizer = any_tokenizer(kind)
    path = tmp_path / "tokenizer.json"
    tokenizer.save(path)
    for loaded in (load_tokenizer(path), load_tokenizer(tmp_path), borrow_tokenizer(path, kind="character")):
        assert (loaded.kind, loaded.vocabulary_size) == (kind, tokenizer.vocabulary_size)
        assert loaded.encode_batch([*HARD_TEXTS, *SENTENCES]) == tokenizer.encode_batch([*HARD_TEXTS, *SENTENCES])
    first = path.read_bytes()
    load_tokenizer(path).save(path)
    assert path.read_bytes() == first


@pytest.mark.parametrize("kind", KINDS)
def test_ids_of_any_kind_and_value_decode(kind: TokenizerKind, any_tokenizer: Get) -> None:
    tokenizer = any_tokenizer(kind)
    everything = range(-3, tokenizer.vocabulary_size + 3)
    tokenizer.decode(np.asarray(everything)).encode("utf-8")
    assert tokenizer.decode([0, 0]) == tokenizer.decode([]) == ""
    assert len([tokenizer.token_text(token) for token in everything]) == len(everything)


@pytest.mark.parametrize("kind", KINDS)
def test_known_text_comes_back(kind: TokenizerKind, any_tokenizer: Get) -> None:
    tokenizer = any_tokenizer(kind)
    text = SENTENCES[0].replace("<pad>", "the")
    assert tokenizer.decode(tokenizer.encode(text)) == text


@pytest.mark.parametrize("kind", KINDS)
def test_a_lone_surrogate_is_refused_with_its_place(kind: TokenizerKind, any_tokenizer: Get) -> None:
    with pytest.raises(DataError, match=r"character 3 is a lone surrogate \(U\+D83D\)"):
        any_tokenizer(kind).encode("bad\ud83d")
    with pytest.raises(DataError, match="lone surrogate"):
        train_tokenizer(kind, ["\udfff"], vocabulary_size=300)


def test_text_ends_at_the_first_pad() -> None:
    assert text_ids([5, 6, 0, 7, 0]) == [5, 6]
    assert text_ids([]) == text_ids([0, 5]) == []
    assert text_ids(np.array([3, 4])) == [3, 4]


# Closed vocabularies.


def test_words_are_ranked_by_frequency_then_by_text() -> None:
    tokenizer = train_words(["b b a a c", "d <unk> <pad> <pad> <pad>"], vocabulary_size=5)
    assert [tokenizer.token_text(token) for token in range(tokenizer.vocabulary_size)] == [
        "<pad>",
        "<unk>",
        "a",
        "b",
        "c",
    ]
    assert tokenizer.encode("c a\t\n x <pad> <unk>") == [4, 2, 1, 1, 1]
    assert tokenizer.decode([4, 2, 1, 0]) == "c a <unk>"


def test_characters_know_only_what_they_saw(any_tokenizer: Get) -> None:
    tokenizer = any_tokenizer("character")
    assert tokenizer.encode("ж") == [1]
    assert tokenizer.decode(tokenizer.encode("aжa\n")) == "a\ufffda\ufffd"


def test_pretokenised_text_is_cut_at_spaces_only() -> None:
    tokenizer = train_tokenizer("pretokenised", ["un@@ believ@@ able\xa0story ."], vocabulary_size=10)
    assert len(tokenizer.encode("able\xa0story .")) == 2
    text = tokenizer.decode(tokenizer.encode("un@@ believ@@ able\xa0story  ."))
    assert text == "un@@ believ@@ able\xa0story ."
    assert join_subwords(text) == "unbelievable\xa0story ."
    assert join_subwords("a b@@ c d@@") == "a bc d"


def test_a_list_of_words_is_a_vocabulary(tmp_path: Path) -> None:
    path = tmp_path / "words.txt"
    path.write_text("<pad>\n<eos>\n<sos>\n<unk>\nthe\r\ncat\n\n", encoding="utf-8")
    tokenizer = borrow_tokenizer(path, kind="word")
    assert tokenizer.vocabulary_size == 4
    assert tokenizer.encode("the cat <eos>") == [2, 3, 1]
    assert borrow_tokenizer(path, kind="pretokenised").kind == "pretokenised"
    with pytest.raises(UsageError, match="neither a folder"):
        borrow_tokenizer(path, kind="byte-bpe")
    for content in ("", "the\nthe\n", "two words\n"):
        path.write_text(content)
        with pytest.raises(DataError):
            WordTokenizer.from_list(path)
    path.write_bytes(b"ok\n\xff\n")
    with pytest.raises(DataError, match="byte 3"):
        PretokenisedTokenizer.from_list(path)
    with pytest.raises(DataError, match="No such file"):
        WordTokenizer.from_list(tmp_path / "missing.txt")


def test_counting_is_exact_below_its_bound_and_bounded_above() -> None:
    batches = [["a", "b", "a"], ["c"]]
    assert count_bounded(batches) == Counter(a=2, b=1, c=1)
    draw = random.Random(0)
    flood = ([str(draw.random()) for _ in range(50)] + ["often"] * 5 for _ in range(200))
    counts = count_bounded(flood, most_distinct=100)
    assert len(counts) <= 100
    assert counts["often"] == 1000


@pytest.mark.parametrize("kind", ["word", "character", "pretokenised"])
def test_a_vocabulary_needs_room_for_one_token(kind: TokenizerKind) -> None:
    assert train_tokenizer(kind, ["b a b"], vocabulary_size=3).vocabulary_size == 3
    with pytest.raises(UsageError, match="too small"):
        train_tokenizer(kind, ["a"], vocabulary_size=2)


# SentencePiece.


def test_without_sentencepiece_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sentencepiece", None)
    with pytest.raises(CapabilityError, match=r"pip install 'sundae\[sentencepiece\]'"):
        train_tokenizer("sentencepiece", SENTENCES, vocabulary_size=100)


def test_sentencepiece_models_of_others_must_keep_the_vocabulary_rule(tmp_path: Path) -> None:
    library = pytest.importorskip("sentencepiece", reason="the extra sundae[sentencepiece] is not installed")
    common = {"vocab_size": 60, "minloglevel": 2, "hard_vocab_limit": False}
    ours, theirs = tmp_path / "ours.model", tmp_path / "theirs.model"
    for path, marks in ((ours, {"pad_id": 0, "unk_id": 1, "bos_id": -1, "eos_id": -1}), (theirs, {})):
        with path.open("wb") as file:
            library.SentencePieceTrainer.train(sentence_iterator=iter(SENTENCES), model_writer=file, **common, **marks)
    assert borrow_tokenizer(ours, kind="byte-bpe").kind == "sentencepiece"
    with pytest.raises(DataError, match="--pad_id=0"):
        borrow_tokenizer(theirs, kind="sentencepiece")
    ours.write_bytes(b"not a model")
    with pytest.raises(DataError):
        borrow_tokenizer(ours, kind="sentencepiece")
    with pytest.raises(UsageError):
        train_tokenizer("sentencepiece", SENTENCES, vocabulary_size=3)


# Bad files.


def damage(data: bytes, draw: random.Random) -> bytes:
    """A file that was cut, flipped, spliced or repeated."""
    at = draw.randrange(len(data))
    match draw.randrange(5):
        case 0:
            return data[:at]
        case 1:
            return data[:at] + bytes([data[at] ^ (1 << draw.randrange(8))]) + data[at + 1 :]
        case 2:
            return data[:at] + draw.randbytes(draw.randint(1, 8)) + data[at:]
        case 3:
            return data[:at] + data[at + draw.randint(1, 200) :]
        case _:
            return data[:at] + data[draw.randrange(len(data)) :]


def check_damage(kind: TokenizerKind, tokenizer: Tokenizer, folder: Path, count: int) -> None:
    """Only our errors come out, and what still loads still keeps the rules."""
    path = folder / "tokenizer.json"
    tokenizer.save(path)
    sound = path.read_bytes()
    draw = random.Random(0)
    refused = 0
    for _ in range(count):
        path.write_bytes(damage(sound, draw))
        try:
            loaded = load_tokenizer(path)
        except DataError:
            refused += 1
            continue
        for text in HARD_TEXTS:
            ids = loaded.encode(text)
            assert 0 not in ids
            if kind == "byte-bpe":
                assert loaded.decode(ids) == text
    assert refused > count / 2


@pytest.mark.parametrize("kind", KINDS)
def test_damaged_files_give_our_errors(kind: TokenizerKind, any_tokenizer: Get, tmp_path: Path) -> None:
    check_damage(kind, any_tokenizer(kind), tmp_path, 60)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_2000_damaged_files_give_our_errors(kind: TokenizerKind, any_tokenizer: Get, tmp_path: Path) -> None:
    check_damage(kind, any_tokenizer(kind), tmp_path, 2000)


def change(content: Any, path: str, value: object) -> None:
    *parents, last = path.split("/")
    for parent in parents:
        content = content[parent]
    content[last] = value


@pytest.mark.parametrize(
    ("path", "value", "why"),
    [
        ("format", "other", "lacks"),
        ("version", 2, "version 2"),
        ("kind", "magic", "unknown kind"),
        ("content", None, "no content"),
        ("content/model", [], "no model"),
        ("content/model/type", "Unigram", "not BPE"),
        ("content/model/merges", "Ġ t", "no list of merges"),
        ("content/model/merges", [["Ġ"]], "not a pair"),
        ("content/model/merges", [["Ġ", "☃"]], "not of tokens"),
        ("content/model/merges", [[1, 2]], "not of tokens"),
        ("content/model/merges", [["<pa", "d>"]], "not of tokens"),
        ("content/model/vocab", {}, "<pad> is not token 0"),
        ("content/model/vocab/<pad>", 7, "<pad> is not token 0"),
        ("content/model/vocab/a", 0, "gaps or occur twice"),
        ("content/model/vocab/a", 10**6, "gaps or occur twice"),
        ("content/model/vocab/a", True, "not a whole number"),
        ("content/model/vocab/a", "1", "not a whole number"),
        ("content/model/vocab/ \u2603", 330, "not of bytes"),
        ("content/pre_tokenizer", None, "no pre_tokenizer"),
        ("content/pre_tokenizer/add_prefix_space", True, "cut text"),
        ("content/normalizer", {"type": "Lowercase"}, "changes the text"),
        ("content/added_tokens", [{"id": 0, "content": "<pad>"}], "text can match"),
    ],
)
def test_byte_bpe_files_that_would_not_be_ours_are_refused(
    path: str, value: object, why: str, byte_bpe: ByteBPETokenizer, tmp_path: Path
) -> None:
    file = tmp_path / "tokenizer.json"
    byte_bpe.save(file)
    envelope = json.loads(file.read_text())
    change(envelope, path, value)
    file.write_text(json.dumps(envelope))
    with pytest.raises(DataError, match=why):
        load_tokenizer(file)


@pytest.mark.parametrize(
    "tokens",
    [None, [], ["<pad>"], ["<unk>", "<pad>"], ["<pad>", "<unk>", "a", "a"], ["<pad>", "<unk>", "<pad>"]]
    + [["<pad>", "<unk>", bad] for bad in (1, "", "a b", None, ["a"], "\ud800")],
)
def test_bad_word_lists_are_refused(tokens: object, tmp_path: Path) -> None:
    file = tmp_path / "tokenizer.json"
    content = {"tokens": tokens}
    file.write_text(json.dumps({"format": "sundae-tokenizer", "version": 1, "kind": "word", "content": content}))
    with pytest.raises(DataError):
        load_tokenizer(file)


@pytest.mark.parametrize("content", ["", "[]", "null", "[" * 100_000, '{"format": ', "\ufeff{}"])
def test_files_that_are_no_envelope_are_refused(content: str, tmp_path: Path) -> None:
    file = tmp_path / "tokenizer.json"
    file.write_text(content, encoding="utf-8")
    with pytest.raises(DataError, match="is not a tokenizer"):
        load_tokenizer(file)
    with pytest.raises(DataError, match="No such file"):
        load_tokenizer(tmp_path / "missing.json")


def test_a_panic_of_the_library_is_a_data_error(
    byte_bpe: ByteBPETokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class PanicException(BaseException):
        pass

    def panic(*_: object) -> None:
        raise PanicException("index out of bounds")

    byte_bpe.save(tmp_path / "tokenizer.json")
    monkeypatch.setattr("sundae.text.byte_bpe._engine", panic)
    with pytest.raises(DataError, match="index out of bounds"):
        load_tokenizer(tmp_path)


def test_saving_where_there_is_no_folder_is_a_data_error(byte_bpe: ByteBPETokenizer, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot write"):
        byte_bpe.save(tmp_path / "missing" / "tokenizer.json")


@settings(max_examples=30)
@given(words=st.lists(st.text(st.characters(exclude_categories=["Cs", "Z", "Cc"]), min_size=1), max_size=8))
def test_words_of_any_script_come_back(words: list[str]) -> None:
    tokenizer = train_tokenizer("word", [" ".join(words)], vocabulary_size=100)
    kept = [word for word in words if word not in ("<pad>", "<unk>")]
    assert tokenizer.decode(tokenizer.encode(" ".join(kept))) == " ".join(kept)
