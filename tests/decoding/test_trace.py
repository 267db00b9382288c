"""Traces: what is recorded, that it is not paid for by decoding, and that it survives a file."""

import json
from dataclasses import replace

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from torch import Tensor

from networks import build
from sundae.config import SamplingConfig, TokenizerKind
from sundae.core.length import PAD
from sundae.core.network import Ask, Denoiser, Prediction, Transformer, as_denoiser
from sundae.core.sampling import ChainState
from sundae.decoding.canvas import Canvas, last_of, run_canvas
from sundae.decoding.reading import Onlooker, Reading, Shown, Stretch, together, token_texts
from sundae.decoding.trace import Recorder, Trace, TracedRow, TracedState
from sundae.errors import DataError
from sundae.text.byte_bpe import train_byte_bpe
from sundae.text.tokenizer import Tokenizer, train_tokenizer

LINES = ["the snow ☃ falls and the cat naps", "the cat 猫 sees the snow", "a naïve cat naps"] * 30
BYTES = train_byte_bpe(LINES, vocabulary_size=290)
SIZE = BYTES.vocabulary_size


def ids_of(*parts: bytes) -> list[int]:
    """Tokens of one byte each."""
    single = {BYTES._token_bytes(token): token for token in range(1, 257)}
    return [single[bytes([byte])] for part in parts for byte in part]


# ---- reading


@given(st.lists(st.integers(0, SIZE - 1), max_size=30))
@example(ids_of("☃☃".encode()))
@example(ids_of(b"\xe2", b"\xe2\x98\x83", b"\x98", b"A"))
@example(ids_of("�".encode(), b"\xef\xbf"))
def test_texts_of_byte_level_tokens_join_to_the_text(ids):
    texts = token_texts(BYTES, ids)
    assert len(texts) == len(ids)
    assert "".join(texts) == BYTES.decode(ids)


@pytest.mark.parametrize("kind", ["word", "character", "pretokenised", "sentencepiece"])
def test_texts_of_other_tokens_join_to_the_text(kind: TokenizerKind):
    if kind == "sentencepiece":
        pytest.importorskip("sentencepiece", reason="the extra sundae[sentencepiece] is not installed")
    tokenizer = train_tokenizer(kind, LINES, vocabulary_size=60)

    @given(st.lists(st.integers(1, tokenizer.vocabulary_size - 1), max_size=12))
    def joins(ids: list[int]) -> None:
        assert "".join(token_texts(tokenizer, ids)) == tokenizer.decode(ids)

    joins()
    assert token_texts(tokenizer, tokenizer.encode("the cat"))[-1].strip() in ("cat", "t")


def test_texts_join_even_if_a_token_takes_back_what_was_there(monkeypatch: pytest.MonkeyPatch):
    said = {0: "", 1: "ab", 2: "a", 3: "abc"}
    monkeypatch.setattr(BYTES, "decode", lambda ids: said[len(ids)])
    assert token_texts(BYTES, [1, 2, 3]) == ["ab", "", "c"]


def shown_by(ids: list[int], stretches: list[Stretch] | None = None, tokenizer: Tokenizer = BYTES) -> Shown:
    canvas = Canvas.empty(len(ids), rows=1)
    reading = Reading(tokenizer, canvas=canvas, stretches=None if stretches is None else [stretches])
    return reading.read(torch.tensor(ids), row=0)


def test_a_split_character_is_shown_where_it_is_complete_and_its_parts_are_named():
    shown = shown_by(ids_of(b"a", "☃".encode(), b"b"))
    assert shown.tokens == ("a", "", "", "☃", "b")
    assert shown.labels == {1: "\\xe2", 2: "\\x98", 3: "\\x83"}


def test_what_follows_the_first_pad_is_kept_but_is_not_text():
    shown = shown_by([*ids_of(b"ab"), PAD, *ids_of(b"c"), PAD])
    assert (shown.length, shown.text) == (2, "ab")
    assert shown.tokens == ("a", "b", "", "c", "")
    assert shown.labels == {}


def test_given_text_is_shown_as_it_was_written():
    words = train_tokenizer("word", LINES, vocabulary_size=60)
    ids = [*words.encode("the zyzzyva naps"), *words.encode("cat"), PAD, *words.encode("snow")]
    shown = shown_by(ids, [Stretch(3, "the  zyzzyva naps"), Stretch(2, leading_space=True), Stretch(1, " snow")], words)
    assert shown.text == "the  zyzzyva naps cat snow"
    assert len(shown.tokens) == len(ids)
    assert "<unk>" in shown.labels.values()


@pytest.mark.parametrize(
    ("gap", "text", "length"),
    [(b"xy", "a xyb", 4), (b"x\0", "a xb", 4), (b"\0y", "a b", 4), (b" x", "a xb", 4)],
)
def test_a_gap_ends_at_its_first_pad_and_may_owe_a_space(gap: bytes, text: str, length: int):
    inner = [PAD if byte == 0 else ids_of(bytes([byte]))[0] for byte in gap]
    stretches = [Stretch(1, "a"), Stretch(2, leading_space=True), Stretch(1, "b")]
    shown = shown_by([*ids_of(b"a"), *inner, *ids_of(b"b"), PAD, PAD], stretches)
    assert (shown.text, shown.length) == (text, length)


def test_text_ends_inside_the_last_gap():
    shown = shown_by([*ids_of(b"ab"), PAD, *ids_of(b"c")], [Stretch(1, "a"), Stretch(3)])
    assert (shown.text, shown.length) == ("ab", 2)
    assert shown.tokens == ("a", "b", "", "c")


# ---- recording


class Counting:
    """A denoiser that remembers how often it was asked."""

    def __init__(self, denoiser: Denoiser) -> None:
        self.denoiser, self.times = denoiser, 0

    def __call__(self, ask: Ask) -> Prediction:
        self.times += 1
        return self.denoiser(ask)


@pytest.fixture(scope="module")
def speller() -> Transformer:
    return build(vocabulary_size=SIZE, canvas=10)


SAMPLING = SamplingConfig(steps=12, temperature=0.7, schedule="share", share=0.5)


def template_canvas(rows: int) -> Canvas:
    """`ab` is given, the second row owns only eight positions."""
    canvas = Canvas.empty(10, rows=rows, widths=torch.tensor([10, 8, 10][:rows]))
    template, editable = canvas.template.clone(), canvas.editable.clone()
    template[:, :2] = torch.tensor(ids_of(b"ab"))
    editable[:, :2] = False
    return replace(canvas, template=template, editable=editable)


def recorded(speller: Transformer, rows: int = 3) -> tuple[Recorder, list[ChainState], Counting]:
    canvas, denoiser, states = template_canvas(rows), Counting(as_denoiser(speller)), []
    reading = Reading(BYTES, canvas=canvas)
    recorder = Recorder(denoiser, reading=reading)
    chain = run_canvas(denoiser, canvas, sampling=SAMPLING, vocabulary_size=SIZE, seed=3)
    last_of(chain, together(reading, states.append, recorder))
    return recorder, states, denoiser


def test_every_state_is_kept_as_the_chain_had_it(speller: Transformer):
    recorder, states, _ = recorded(speller)
    for number, width in enumerate([10, 8, 10]):
        row = recorder.row(number, score=-1.0)
        assert row.locked == (0, 1)
        assert [state.step for state in row.states] == list(range(len(row.states)))
        for kept, state in zip(row.states, states, strict=False):
            own = state.tokens[number, :width]
            ids = own.tolist()
            text = ids[: ids.index(PAD)] if PAD in ids else ids
            assert kept.text == BYTES.decode(text)
            assert kept.text.startswith("ab")
            assert len(kept.tokens) == len(kept.probability) == width
            assert kept.changed == tuple(state.changed[number].nonzero().squeeze(1).tolist())
            assert kept.calls == int(state.calls[number])


def test_probabilities_are_the_models_given_the_state(speller: Transformer):
    recorder, states, _ = recorded(speller)
    for number, width in enumerate([10, 8, 10]):
        for kept, state in zip(recorder.row(number, score=0.0).states, states, strict=False):
            with torch.no_grad():
                own: Tensor = state.tokens[number : number + 1, :width]
                likely = speller.logits(speller(own)).softmax(-1)[0].gather(1, own[0][:, None]).squeeze(1)
            assert kept.probability == pytest.approx(likely.tolist(), rel=1e-3, abs=1e-7)


def test_tracing_changes_neither_the_texts_nor_their_cost(speller: Transformer):
    canvas = template_canvas(3)
    plain = Counting(as_denoiser(speller))
    alone = last_of(run_canvas(plain, canvas, sampling=SAMPLING, vocabulary_size=SIZE, seed=3))
    recorder, states, traced = recorded(speller)
    assert torch.equal(alone.tokens, states[-1].tokens)
    assert torch.equal(alone.calls, states[-1].calls)
    assert alone.network_calls == states[-1].network_calls == plain.times
    assert traced.times == plain.times
    recorder.row(0, score=0.0)
    assert traced.times == plain.times + 1  # all states of a row at once


def state_of(step: int, finished: list[bool]) -> ChainState:
    tokens = torch.tensor([ids_of(b"abc")] * len(finished))
    nothing = torch.zeros_like(tokens, dtype=torch.bool)
    calls = torch.full((len(finished),), step)
    return ChainState(step, tokens, nothing, torch.tensor(finished), torch.zeros(tokens.shape), calls, step)


def test_a_finished_row_is_recorded_no_longer():
    def indifferent(ask: Ask) -> Prediction:
        return Prediction(torch.zeros(*ask.tokens.shape, 1), torch.zeros(int(ask.where.sum()), SIZE))

    denoiser = Counting(indifferent)
    recorder = Recorder(denoiser, reading=Reading(BYTES, canvas=Canvas.empty(3, rows=2)))
    for step, finished in enumerate([[False, False], [False, True], [False, True], [True, True], [True, True]]):
        recorder(state_of(step, finished))
    assert [state.step for state in recorder.row(0, score=0.0).states] == [0, 1, 2, 3]
    assert [state.step for state in recorder.row(1, score=0.0).states] == [0, 1]
    assert recorder.row(0, score=0.0).states[0].probability == pytest.approx([1 / SIZE] * 3, rel=1e-3)
    assert denoiser.times == 3


def test_who_wants_to_know_is_told_what_it_looks_at():
    class Curious:
        reading: Reading | None = None
        steps: tuple[int, ...] = ()

        def begin(self, reading: Reading) -> None:
            self.reading = reading

        def __call__(self, state: ChainState) -> None:
            self.steps += (state.step,)

    curious, reading = Curious(), Reading(BYTES, canvas=Canvas.empty(3, rows=1))
    seen: list[int] = []
    assert isinstance(curious, Onlooker)
    watch = together(reading, None, curious, lambda state: seen.append(state.step))
    watch(state_of(5, [False]))
    assert curious.reading is reading
    assert curious.steps == (5,)
    assert seen == [5]


# ---- as a file


def small_trace() -> Trace:
    first = TracedState(
        step=0,
        calls=0,
        length=3,
        tokens=("a", "", "☃", ""),
        labels={1: "\\xe2"},
        changed=(),
        probability=(1, 0, 0.5, 1),
    )
    second = replace(first, step=1, calls=2, tokens=("a", "b", "c", ""), labels={}, changed=(1, 2))
    row = TracedRow(states=(first, second), locked=(0,), score=-0.5, source="ein ☃")
    sampling = {"rule": "low-temperature", "steps": 4, "temperature": 0.5, "stop_early": True, "none": None}
    return Trace(verb="translate", model="tiny", seed=3, sampling=sampling, rows=(row, replace(row, source=None)))


def test_a_trace_survives_its_file(speller: Transformer):
    assert Trace.from_json(small_trace().to_json()) == small_trace()
    recorder, _, _ = recorded(speller)
    rows = tuple(recorder.row(number, score=-0.25) for number in range(3))
    trace = replace(small_trace(), rows=rows)
    assert Trace.from_json(trace.to_json()) == trace


def test_the_file_says_what_tracing_cost_and_that_it_is_not_counted():
    content = json.loads(small_trace().to_json())
    assert content["rows"][0]["tracing_calls"] == 2
    assert content["rows"][0]["states"][-1]["calls"] == 2
    assert "not a cost of decoding" in content["note"]
    assert content["rows"][0]["text"] == "abc"


@pytest.mark.parametrize("text", ["", "null", "[]", "{}", '{"format": "sundae-corpus"}', "{" * 100_000, "\x00"])
def test_what_is_no_trace_is_refused(text: str):
    with pytest.raises(DataError, match=r"t\.json is not a trace"):
        Trace.from_json(text, where="t.json")


def test_another_version_is_refused():
    with pytest.raises(DataError, match="version 2 is not 1"):
        Trace.from_json(small_trace().to_json().replace('"version":1', '"version":2'))


DAMAGE = [
    (("verb",), 3, "'verb' of it is not a text"),
    (("seed",), 1.5, "'seed' of it is not a whole number"),
    (("seed",), True, "'seed' of it is not a whole number"),
    (("sampling",), [], "'sampling' of it is not an object"),
    (("sampling", "steps"), [], "'steps' of 'sampling' is not a finite number"),
    (("model",), "\ud800", "lone surrogate"),
    (("rows",), {}, "'rows' of it is not a list"),
    (("rows",), [], "no rows"),
    (("rows", 1), None, "'rows' of it is not an object"),
    (("rows", 0, "score"), float("nan"), "'score' of row 0 is not a finite number"),
    (("rows", 0, "source"), 1, "'source' of row 0 is not a text"),
    (("rows", 0, "text"), "other", "row 0 has a text that its last state does not say"),
    (("rows", 0, "locked"), [1], "row 0 changes what is locked"),
    (("rows", 0, "locked"), [4], "row 0 has a lock outside its canvas"),
    (("rows", 0, "states"), [], "row 0 has no states"),
    (("rows", 0, "states", 1, "step"), 0, "row 0 has steps in disorder"),
    (("rows", 0, "states", 1, "calls"), -1, "'calls' of state 1 of row 0 is negative"),
    (("rows", 0, "states", 1, "length"), 5, "state 1 of row 0 has a text longer than its canvas"),
    (("rows", 0, "states", 1, "tokens"), ["a", "b", "c"], "state 1 of row 0 has not one probability for each token"),
    (("rows", 0, "states", 1, "tokens", 0), None, "'tokens' of state 1 of row 0 is not a text"),
    (("rows", 0, "states", 1, "labels"), {"x": "y"}, "state 1 of row 0 has a label without a position"),
    (("rows", 0, "states", 1, "labels"), {"4": "y"}, "state 1 of row 0 names a position outside"),
    (("rows", 0, "states", 1, "changed"), [4], "state 1 of row 0 names a position outside"),
    (("rows", 0, "states", 1, "probability", 0), 1.5, "'probability' of state 1 of row 0 is not between 0 and 1"),
]


@pytest.mark.parametrize(("place", "value", "why"), DAMAGE)
def test_damage_is_found_and_named(place: tuple[str | int, ...], value: object, why: str):
    content = json.loads(small_trace().to_json())
    *way, last = place
    inner = content
    for name in way:
        inner = inner[name]
    inner[last] = value
    with pytest.raises(DataError, match=f"t.json is damaged: .*{why}"):
        Trace.from_json(json.dumps(content), where="t.json")


def test_no_field_may_be_missing():
    content = json.loads(small_trace().to_json())
    places = [content, content["rows"][0], content["rows"][0]["states"][1]]
    for inner in places:
        for name in set(inner) - {"sundae", "note", "tracing_calls", "format", "version"}:
            value = inner.pop(name)
            with pytest.raises(DataError, match=f"has no '{name}'"):
                Trace.from_json(json.dumps(content))
            inner[name] = value
    assert Trace.from_json(json.dumps(content)) == small_trace()


def test_states_of_one_row_share_a_canvas():
    content = json.loads(small_trace().to_json())
    state = content["rows"][0]["states"][0]
    state["tokens"], state["probability"] = state["tokens"][:3], state["probability"][:3]
    with pytest.raises(DataError, match="row 0 has states of different width"):
        Trace.from_json(json.dumps(content))
