import random
import re
from dataclasses import replace

import pytest
import torch

from decoding.desks import desk_of_words
from sundae.config import SamplingConfig
from sundae.core.network import Ask, Prediction
from sundae.decoding.constraints import Constraints
from sundae.decoding.refine import Refined, Refinery, RefineSettings
from sundae.errors import UsageError
from sundae.model import Sundae
from sundae.text.corpus import Corpus
from test_model import model_of
from training.corpora import WORDS, crop_corpus, sentence_corpus

DRAFT = "the old cat {{sees}} a dog. A naïve 🙂 bird \\[[2]] likes the river!\n\n the tree"


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return sentence_corpus(tmp_path_factory.mktemp("corpus"))


@pytest.fixture(scope="module")
def model(corpus: Corpus) -> Sundae:
    return model_of(corpus)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Sundae:
    return model_of(crop_corpus(tmp_path_factory.mktemp("crops")), canvas=12)


def gain(refined: Refined) -> float:
    assert refined.score is not None
    assert refined.draft_score is not None
    return refined.score - refined.draft_score


def distance(model: Sundae, first: str, second: str) -> int:
    """Tokens that differ, if both have as many."""
    one, two = model.tokenizer.encode(first), model.tokenizer.encode(second)
    assert len(one) == len(two)
    return sum(a != b for a, b in zip(one, two, strict=True))


def wild(model: Sundae):
    """Settings under which an untrained model changes whatever it may."""
    return replace(model.refine_sampling, temperature=1.0, steps=4, stop_early=False)


@pytest.fixture
def candidates_only(monkeypatch):
    """The draft does not compete: what the chain wrote is what comes out."""
    from sundae.decoding import refine

    def best(texts, **_):
        return [0]

    monkeypatch.setattr(refine, "rank", best)


@pytest.mark.parametrize("which", ["model", "running"])
def test_locks_and_what_is_between_sentences_stay(which, request, candidates_only):
    model = request.getfixturevalue(which)
    for seed in range(5):
        refined = model.refine(DRAFT, settings=RefineSettings(seed=seed), sampling=wild(model))
        assert refined.edits
        assert " sees" in refined.text
        for begin, end, _ in refined.edits:
            assert end <= 11 or begin >= 16  # not even a part of " sees"
        if which == "model":
            assert "\n\n " in refined.text


def test_the_edits_are_the_difference(model: Sundae, candidates_only):
    plain = DRAFT.replace("{{", "").replace("}}", "").replace("\\[[", "[[")
    refined = model.refine(DRAFT, sampling=wild(model))
    text = plain
    for begin, end, new in sorted(refined.edits, reverse=True):
        assert text[begin:end] != new
        text = text[:begin] + new + text[end:]
    assert text == refined.text


@pytest.mark.parametrize("budget", [0, 1, 3])
def test_an_edit_budget_is_kept(model: Sundae, budget, candidates_only):
    draft = "the old cat sees a dog and the big red bird hears a small river"
    refined = model.refine(draft, settings=RefineSettings(edits=budget), sampling=wild(model))
    changed = sum(len(model.tokenizer.encode(draft[begin:end])) for begin, end, _ in refined.edits)
    assert changed <= budget
    assert (refined.text != draft) == (budget > 0)


def test_a_share_is_a_budget_too(model: Sundae, candidates_only):
    draft = "the old cat sees a dog and the big"
    assert len(model.tokenizer.encode(draft)) == 16
    for share, budget in ((0.0, 0), (0.25, 4), (0.33, 5)):
        refined = model.refine(draft, settings=RefineSettings(share=share), sampling=wild(model))
        assert sum(len(model.tokenizer.encode(draft[begin:end])) for begin, end, _ in refined.edits) <= budget
        assert bool(refined.edits) == (budget > 0)


def test_more_suspicion_asks_for_more_evidence(model: Sundae, candidates_only):
    draft = "the old cat sees a dog and the big"
    changed = [
        {edit[0] for edit in model.refine(draft, settings=RefineSettings(suspicion=factor), sampling=wild(model)).edits}
        for factor in (1.0, 1e9)
    ]
    assert changed[0]
    assert not changed[1]  # nothing is a billion times likelier to an untrained model
    for factor in (0.5, float("nan")):
        with pytest.raises(UsageError, match="--suspicion"):
            RefineSettings(suspicion=factor)


def test_the_draft_wins_if_nothing_is_better(model: Sundae):
    """By the model's score, the result is never worse than the draft."""
    for seed in range(6):
        refined = model.refine(DRAFT, settings=RefineSettings(seed=seed), sampling=wild(model))
        assert gain(refined) >= 0


def test_banned_words_are_removed(model: Sundae):
    draft = "the old cat sees a dog. the bird likes a cat"
    constraints = Constraints(banned=("cat",))
    refined = model.refine(draft, settings=RefineSettings(constraints=constraints), sampling=wild(model))
    assert not constraints.find_banned(refined.text)
    for draft, edits, why in (
        ("the {{cat}}", None, "may not change"),
        ("the cat", 0, "edit budget"),
        ("{{the cat}}", None, "may not change"),
    ):
        settings = RefineSettings(constraints=constraints, edits=edits)
        with pytest.raises(UsageError, match=why):
            model.refine(draft, settings=settings, sampling=wild(model))


def majority(ask: Ask) -> Prediction:
    """Believes that all words of a text are equal, but for a little faith in what it sees."""
    logits = torch.zeros(int(ask.where.sum()), len(desk_of_words().shapes.begins))
    for line, (row, place) in enumerate(ask.where.nonzero().tolist()):
        if not ask.tokens[row, place:].any():
            logits[line, 0] = 50.0  # the text has ended
        for token in ask.tokens[row][ask.tokens[row] != 0].tolist():
            logits[line, token] += 3.0
        logits[line, ask.tokens[row, place]] += 0.5
    return Prediction(torch.zeros(*ask.tokens.shape, 1), logits)


def test_a_proof_reader_finds_the_word_that_does_not_fit_and_refining_mends_it():
    refinery = Refinery("cat cat dog cat", desk_of_words(), denoiser=majority)
    (found,) = refinery.suggestions(1)
    assert (found.token, found.begin, found.end) == (" dog", 7, 11)
    assert found.alternatives[0][0] == "cat"
    assert found.probability < 0.05
    sampling = SamplingConfig(steps=4, temperature=0.0)
    refined = refinery.refine(RefineSettings(edits=1), sampling=sampling)
    assert refined.text == "cat cat cat cat"
    assert refined.edits == ((7, 11, " cat"),)
    assert gain(refined) > 0
    assert refinery.refine(RefineSettings(edits=0), sampling=sampling).text == "cat cat dog cat"


def test_what_is_unknown_to_a_word_vocabulary_is_left_alone():
    refinery = Refinery("cat  cat xyzzy cat dog ", desk_of_words(), denoiser=majority)
    refined = refinery.refine(RefineSettings(), sampling=SamplingConfig(steps=4, temperature=0.0))
    assert refined.text == "cat  cat xyzzy cat cat "


def test_suggestions_are_the_least_likely_in_reading_order(model: Sundae):
    reader = model.proof_reader(DRAFT)
    every = reader.suggestions(1000)
    assert [each.begin for each in every] == sorted(each.begin for each in every)
    some = reader.suggestions(4)
    assert {each.begin for each in some} == {each.begin for each in sorted(every, key=lambda s: s.probability)[:4]}
    assert all("sees" not in each.token for each in every)
    for each in every:
        assert each.token == reader.text[each.begin : each.end]
        assert all(likelier > each.probability for _, likelier in each.alternatives)
        assert not any("\\x" in text for text, _ in each.alternatives), "a part of a character says nothing to a reader"


@pytest.mark.parametrize("which", ["model", "running"])
@pytest.mark.parametrize("count", [60, pytest.param(3000, marks=pytest.mark.slow)])
def test_any_text_can_be_refined_and_stays_whole(which, count, request):
    model = request.getfixturevalue(which)
    chooser = random.Random(3)
    sampling = replace(model.refine_sampling, steps=2, temperature=1.0)
    for number in range(count):
        parts = []
        for _ in range(chooser.randint(0, 12)):
            word = chooser.choice([*WORDS, "é☃", "🙂", "\u200d", "a.b", "?!", "\n", "{{old}}", "中文字", "  "])
            parts.append(word)
        draft = chooser.choice([" ", ""]).join(parts)
        refined = model.refine(draft, sampling=sampling, settings=RefineSettings(seed=number, candidates=1))
        if "{{old}}" in draft:
            assert refined.text.count("old") >= draft.count("{{old}}")
        if not re.search(r"\w", draft):
            continue
        assert refined.text


def test_every_stretch_fits_and_they_cover_the_draft(model: Sundae, running: Sundae):
    draft = "the cat sees a dog. " * 3 + "the big red old small house tree river " * 6 + "the end."
    for each in (model, running):
        refinery = Refinery(draft, each.desk, denoiser=each.denoiser)
        assert all(len(stretch.ids) <= each.desk.canvas for stretch in refinery.stretches)
        covered = "".join(stretch.text for stretch in refinery.stretches)
        assert covered.replace(" ", "") == draft.replace(" ", "")
        for stretch in refinery.stretches:
            assert draft[stretch.begin : stretch.begin + len(stretch.text)] == stretch.text
    assert any(stretch.context != (0, 0) for stretch in refinery.stretches)  # running text sees its neighbours


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda model: model.refine("the [[2]] cat"), "has a blank"),
        (lambda _: RefineSettings(edits=-1), "must not be negative"),
        (lambda _: RefineSettings(share=1.5), "between 0 and 1"),
        (lambda _: RefineSettings(constraints=Constraints(must=("cat",))), "no blanks"),
    ],
)
def test_what_cannot_be_says_why(model: Sundae, make, message):
    with pytest.raises(UsageError, match=message):
        make(model)


def test_a_believer_is_judged_by_what_it_does_not_see():
    """A network that believes every word of a list when it sees it, and else wants "cat": only without sight is
    "river" less likely than "cat"."""
    desk = desk_of_words()
    size = len(desk.shapes.begins)
    believed = torch.zeros(size, dtype=torch.bool)
    believed[desk.tokenizer.encode("the river cat sees")] = True
    cat, pad = desk.tokenizer.encode("cat")[0], 0

    def believing(ask: Ask) -> Prediction:
        seen = ask.tokens[ask.where]
        wanted = torch.where(believed[seen] | (seen == pad), seen, cat)
        logits = 12.0 * torch.nn.functional.one_hot(wanted, size).float()
        logits[:, cat] += 6.0
        return Prediction(torch.zeros(*ask.tokens.shape, 1), logits)

    sampling = SamplingConfig(steps=3, temperature=0.0)
    found = {
        by: Refinery("the river sees", desk, denoiser=believing).refine(
            RefineSettings(by=by, edits=1), sampling=sampling
        )
        for by in ("per-token", "leave-one-out")
    }
    assert found["leave-one-out"].text.split().count("cat") == 1
    assert gain(found["leave-one-out"]) > 0
    assert found["per-token"].score == pytest.approx(found["per-token"].draft_score, abs=1e-3)


def test_a_sentence_longer_than_the_canvas_is_seen_through_windows_full_of_it(model: Sundae):
    draft = " ".join(["the old cat sees a dog and"] * 9) + " ends"
    reader = model.proof_reader(draft)
    every = model.tokenizer.encode(draft)
    canvas = model.desk.canvas
    assert len(every) > 2 * canvas
    place = 0
    for stretch in reader.stretches:
        left, right = stretch.context
        own = len(stretch.ids) - left - right
        assert list(stretch.ids) == every[place - left : place + own + right]
        assert len(stretch.ids) == canvas  # all that there is room for
        words = [bool(model.tokenizer.token_text(token).strip()) for token in every[place : place + own]]
        assert stretch.editable() == [False] * left + words + [False] * right
        place += own
    assert place == len(every)
    assert "".join(stretch.text for stretch in reader.stretches) == draft


@pytest.mark.parametrize(
    ("draft", "kept"),
    [
        ("the cat https://example.com/a?b=c sees", ["https://example.com/a?b=c"]),
        ("the <b>old</b> cat sees 3.50 dogs", ["<b>", "</b>", "3.50"]),
        ("- the old cat\n2. sees a dog\n## the tree", ["-", "\n2.", "\n##"]),
        ("the cat.   a   dog  sees", ["  ", "  ", " "]),
        ("the cafe\u0301 sees", ["e\u0301"]),
    ],
)
def test_what_is_no_word_stays(model: Sundae, candidates_only, draft: str, kept: list[str]):
    for seed in range(5):
        settings = RefineSettings(suspicion=1.0, seed=seed)
        text = model.refine(draft, settings=settings, sampling=wild(model)).text
        assert text != draft
        place = 0
        for piece in kept:
            place = text.index(piece, place) + len(piece)


def test_words_do_not_grow_together(model: Sundae, candidates_only):
    draft = "the old cat sees a dog"
    for seed in range(20):
        refined = model.refine(draft, settings=RefineSettings(suspicion=1.0, seed=seed), sampling=wild(model))
        tokens = [model.tokenizer.token_text(token) for token in model.tokenizer.encode(draft)]
        for begin, _, new in refined.edits:
            if draft[begin] == " ":
                assert not new[:1].isalnum(), (tokens, new)
