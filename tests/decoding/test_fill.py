"""Filling as a whole: what is given stays, what is asked for is kept, whatever the model writes."""

import random
import re
from collections import Counter
from dataclasses import replace

import pytest

from decoding.desks import words_of
from sundae.decoding.constraints import Constraints
from sundae.decoding.desk import run_orders
from sundae.decoding.fill import FillSettings
from sundae.errors import UsageError
from sundae.model import Sundae
from sundae.text.prepare import prepare
from sundae.text.recipe import Recipe
from sundae.text.template import Blank, escape, parse_template
from test_model import model_of
from training.corpora import WORDS, sentence_corpus, sentences


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Sundae:
    return model_of(sentence_corpus(tmp_path_factory.mktemp("corpus")))


@pytest.fixture(scope="module")
def quick(model: Sundae):
    return replace(model.fill_sampling, steps=3)


def random_template(chooser: random.Random) -> str:
    parts = []
    for _ in range(chooser.randint(1, 4)):
        kind = chooser.random()
        if kind < 0.35:
            size = chooser.randint(1, 3)
            parts.append(
                chooser.choice([f"[[{size}]]", f" [[{size}]]", f" [[{size}w]]", "[[?]]", f" [[{size}-{size + 2}]]"])
            )
        elif kind < 0.7:
            parts.append(" ".join(chooser.choices(WORDS, k=chooser.randint(1, 3))))
        else:
            code_points = [chooser.choice([chooser.randrange(32, 127), chooser.randrange(160, 0x2FFF), 0x1F642])]
            parts.append(escape("".join(map(chr, code_points * chooser.randint(1, 3)))))
    return "".join(parts)


def check(model: Sundae, template: str, texts) -> None:
    segments = parse_template(template).segments
    given = "".join("(.*?)" if isinstance(s, Blank) else re.escape(s.text) for s in segments)
    for written in texts:
        assert re.fullmatch(given, written.text, re.DOTALL), (template, written.text)
        assert len(written.fills) == sum(isinstance(s, Blank) for s in segments)
        position = 0
        for segment, follower in zip(segments, [*segments[1:], None], strict=True):
            if isinstance(segment, Blank):
                begin, end = written.fills[0]
                written = replace(written, fills=written.fills[1:])
                if segment.leading_space:
                    assert written.text[position] == " "
                if segment.unit == "words":
                    assert segment.low <= len(written.text[begin:end].split()) <= segment.high
                position = end
            else:
                assert written.text.startswith(segment.text, position)
                position += len(segment.text)
            assert follower is not None or position == len(written.text)


def fill_random(model: Sundae, count: int) -> None:
    chooser = random.Random(7)
    sampling = replace(model.fill_sampling, steps=2)
    filled = refused = 0
    for number in range(count):
        template = random_template(chooser)
        if "[[" not in template.replace(r"\[[", ""):
            continue
        try:
            texts = model.fill(template, count=2, candidates=2, sampling=sampling, seed=number)
        except UsageError:
            refused += 1  # too long, or no candidate had the number of words
            continue
        check(model, template, texts)
        filled += 1
    assert filled > 3 * refused


def test_random_templates_keep_what_was_given(model: Sundae):
    fill_random(model, 500)


@pytest.mark.slow
def test_twenty_thousand_random_templates_keep_what_was_given(model: Sundae):
    fill_random(model, 20_000)


def test_candidates_are_ranked_and_equal_ones_merged(model: Sundae, quick):
    written = model.fill("the [[1]] sees", count=50, candidates=60, sampling=quick)
    assert len({each.text for each in written}) == len(written)
    scores = [each.score for each in written]
    assert scores == sorted(scores, reverse=True)


def test_a_template_gets_the_same_alone_and_in_company(model: Sundae, quick):
    templates = ["the [[1w]] sees", "[[?]] dog", "a [[2]] cat [[1]]", "the [[2-4]] river"] * 3
    settings = FillSettings(count=2, candidates=3, seed=5)
    together = model.fill_many(templates, sampling=quick, settings=settings)
    for template, company in zip(templates, together, strict=True):
        alone = model.fill_many([template], sampling=quick, settings=settings)[0]
        assert [each.text for each in alone] == [each.text for each in company]


def test_a_long_template_is_filled_through_windows(model: Sundae, quick):
    sentence = "the old cat sees a big red bird and the river. "
    template = sentence * 3 + "the dog [[1w]] a tree. " + sentence + "a bird [[2]] the [[1w]] house." + " " + sentence
    texts = model.fill(template, count=2, candidates=4, sampling=quick)
    check(model, template, texts)
    assert len(texts) == 2
    assert texts[0].fills[1][0] > 200


def test_a_long_template_may_begin_a_sentence_with_a_blank(model: Sundae, quick):
    template = "the old cat sees a big red bird and the river. " * 3 + "[[2w]] sees a tree."
    check(model, template, model.fill(template, sampling=quick))


# ---- constraints


def test_banned_words_appear_at_no_step(model: Sundae):
    sampling = replace(model.config.sampling, steps=8, temperature=1.0)
    free = [each.text for each in model.generate(12, sampling=sampling, seed=1)]
    favourites = Counter(word for text in free for word in words_of(text.lower())).most_common(4)
    constraints = Constraints(banned=("cat", "old house", *(word for word, _ in favourites)))
    assert any(constraints.find_banned(text) for text in free)  # without the ban they do appear
    guarded = 0

    def watch(state) -> None:
        nonlocal guarded
        for row in state.tokens:
            assert not constraints.find_banned(model.text(row)), model.text(row)
            guarded += 1

    texts = [each.text for each in model.generate(12, sampling=sampling, constraints=constraints, seed=1, watch=watch)]
    assert guarded > 12
    assert not any(constraints.find_banned(text) for text in texts)


def test_a_ban_on_what_the_model_wants_leaves_no_noise_behind(model: Sundae):
    """What was taken back is not offered again, so the chain goes another way instead of standing still."""
    sampling = replace(model.fill_sampling, steps=12, temperature=0.0)
    favourite = model.fill("the [[1w]] sees", sampling=sampling)[0]
    begin, end = favourite.fills[0]
    banned = favourite.text[begin:end]
    other = model.fill("the [[1w]] sees", sampling=sampling, constraints=Constraints(banned=(banned,)))[0]
    assert banned not in other.text.split()


def test_words_that_must_appear_do(model: Sundae, quick):
    constraints = Constraints(must=("tree", "big house"))
    for written in model.generate(6, sampling=quick, constraints=constraints):
        assert not constraints.missing(written.text), written.text
    for written in model.fill("the [[9]] sees [[?]]", count=4, sampling=quick, constraints=constraints):
        assert not constraints.missing(written.text)
        assert written.text.startswith("the ")


def test_only_allowed_words_fill_a_blank(model: Sundae, quick):
    constraints = Constraints(allowed={2: ("cat", "river", "zebra")})
    texts = model.fill("the [[1w]] sees a [[1w]] and", count=5, sampling=quick, constraints=constraints)
    assert {each.text[slice(*each.fills[1])] for each in texts} <= {"cat", "river", "zebra"}
    two = model.fill(
        "a [[2w]] and", candidates=30, sampling=quick, constraints=Constraints(allowed={1: ("cat", "red")})
    )
    assert set(two[0].text[slice(*two[0].fills[0])].split()) <= {"cat", "red"}
    phrases = Constraints(allowed={1: ("big house", "small cat")})
    filled = model.fill("the [[?]] and", count=9, candidates=60, sampling=quick, constraints=phrases)
    assert {each.text[slice(*each.fills[0])] for each in filled} <= {"big house", "small cat"}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Constraints(banned=("cat",), must=("the cat",)), "'the cat' must appear: but 'cat' is banned"),
        (lambda: Constraints(banned=("cat",), allowed={1: ("Cat",)}), "every allowed word is banned"),
        (lambda: Constraints(banned=(" ",)), "an empty word"),
    ],
)
def test_what_contradicts_itself_is_refused(make, message):
    with pytest.raises(UsageError, match=re.escape(message)):
        make()


@pytest.mark.parametrize(
    ("template", "constraints", "message"),
    [
        ("the cat [[1]]", Constraints(banned=("cat",)), "stands in text that may not change"),
        ("the [[1]] sees", Constraints(must=("incomprehensibilities",)), "no room"),
        ("the [[1w]]", Constraints(allowed={3: ("cat",)}), "there is 1 blank"),
        ("the cat. " * 12 + "[[1]]", Constraints(must=("tree",)), "fits the canvas"),
        ("the cat. " * 12 + "[[1]]", Constraints(allowed={2: ("tree",)}), "there is 1 blank"),
    ],
)
def test_what_cannot_be_says_why(model: Sundae, quick, template, constraints, message):
    with pytest.raises(UsageError, match=message):
        model.fill(template, sampling=quick, constraints=constraints)


def test_bans_are_whole_words_in_any_case_and_spacing():
    constraints = Constraints(banned=("cat", "new york"))
    assert constraints.find_banned("The CAT sat") == [(4, 7)]
    assert constraints.find_banned("concatenate") == []
    assert constraints.find_banned("New\n  York") == [(0, 10)]


def test_the_chain_starts_with_nothing_that_is_barred(model: Sundae):
    """With no step at all a blank still holds words, begins with its space, and has no pad."""
    sampling = replace(model.fill_sampling, steps=0)
    for seed in range(10):
        for written in model.fill("the [[2w]] sees [[3]]!", count=8, sampling=sampling, seed=seed):
            assert re.fullmatch(r"the [\w'-]+ [\w'-]+ sees .*!", written.text, re.DOTALL), written.text


def test_ranking_by_what_the_model_does_not_see(model: Sundae, quick):
    by_sight, without = (
        [each.text for each in model.fill("the [[1w]] sees [[2]]", count=20, by=by, sampling=quick)]
        for by in ("per-token", "leave-one-out")
    )
    assert 0 < len(set(by_sight) & set(without)) < 20
    assert by_sight[0] != without[0]


def test_how_candidates_are_ranked_unless_told(model: Sundae, quick):
    known, tried = "the [[1w]] sees [[2]]", "the [[1-2w]] sees [[2]]"
    settings = FillSettings(count=20)
    together = model.fill_many([tried, known, tried], sampling=quick, settings=settings)
    by_token = model.fill(tried, count=20, by="per-token", sampling=quick)
    unseen = model.fill(known, count=20, by="leave-one-out", sampling=quick)
    for found, alone in ((together[0], by_token), (together[1], unseen)):
        assert [each.text for each in found] == [each.text for each in alone]
        assert [each.score for each in found] == pytest.approx([each.score for each in alone], abs=1e-4)
    assert [each.text for each in together[2]] == [each.text for each in together[0]]


@pytest.mark.parametrize("kind", ["word", "character", "sentencepiece", "pretokenised"])
def test_other_tokenizers_keep_words_apart(kind, tmp_path):
    if kind == "sentencepiece":
        pytest.importorskip("sentencepiece")
    text = tmp_path / "text.txt"
    text.write_text("\n".join(sentences(400)) + "\n", encoding="utf-8")
    recipe = Recipe(kind="sentences", inputs=(text,), out=tmp_path / "c", tokenizer=kind, vocabulary=60, canvas=40)
    model = model_of(prepare(recipe), canvas=40)
    sampling = replace(model.fill_sampling, steps=2)
    for written in model.fill("the [[2]] sees", count=3, sampling=sampling):
        assert re.fullmatch(r"the .* sees", written.text, re.DOTALL), written.text
    for written in model.generate(3, prompt="the cat", sampling=sampling):
        assert written.text.startswith("the cat")
        if kind in ("word", "pretokenised") and written.text != "the cat":
            assert written.text.startswith("the cat ")
    constraints = Constraints(banned=("cat", "dog", "e", "a"))
    for written in model.generate(6, sampling=sampling, constraints=constraints):
        assert not constraints.find_banned(written.text)
    refined = model.refine("the old cat  sees\na dog", sampling=sampling)
    assert len(refined.text.split("\n")) >= 2


def test_a_ban_holds_for_text_outside_every_window(model: Sundae, quick):
    template, constraints = "the old cat sees a river. " * 6 + "the [[1w]].", Constraints(banned=("river",))
    with pytest.raises(UsageError, match="'river' is banned"):
        model.fill(template, sampling=quick, constraints=constraints)


def test_words_of_several_tokens_are_not_mixed(model: Sundae, quick):
    words = ("gigantic", "obnoxious", "ferocious")
    assert all(len(model.tokenizer.encode(f" {word}")) > 1 for word in words)
    settings = FillSettings(count=3, constraints=Constraints(allowed={1: words}))
    found = model.fill_many(["the [[1w]] cat"], sampling=quick, settings=settings)[0]
    assert {each.text for each in found} == {f"the {word} cat" for word in words}
    settings = FillSettings(count=9, constraints=Constraints(allowed={1: ("cat", "old dog")}))
    found = model.fill_many(["the [[2w]] sees"], sampling=quick, settings=settings)[0]
    assert {each.text for each in found} == {"the old dog sees", "the cat cat sees"}


def test_a_word_that_must_appear_takes_no_space_that_is_not_there(model: Sundae, quick):
    must = FillSettings(constraints=Constraints(must=("dog",)))
    for template, text in (('the "[[1w]]" sees', 'the "dog" sees'), ("the [[1w]] sees", "the dog sees")):
        assert model.fill_many([template], sampling=quick, settings=must)[0][0].text == text


def test_a_word_that_is_given_need_not_be_written(model: Sundae, quick):
    settings = FillSettings(count=4, constraints=Constraints(must=("dog",)))
    found = model.fill_many(["the [[1w]] dog sees"], sampling=quick, settings=settings)[0]
    assert any(each.text.split().count("dog") == 1 for each in found)


def test_a_window_is_filled_once_for_all_versions(model: Sundae, quick, monkeypatch):
    runs: list[int] = []

    def counted(orders, *arguments, **named):
        runs.append(len(orders))
        return run_orders(orders, *arguments, **named)

    monkeypatch.setattr("sundae.decoding.fill.run_orders", counted)
    found = model.fill_many(["the [[1w]] sees. " * 8], sampling=quick, settings=FillSettings(count=3))[0]
    assert len(found) == 3
    assert len(runs) == 8


def test_windows_that_look_the_same_are_not_filled_the_same(model: Sundae, quick):
    (filled,) = model.fill("the [[2]] sees. " * 8, sampling=replace(quick, temperature=1.0), candidates=1)
    assert len({filled.text[slice(*span)] for span in filled.fills}) > 1


def test_a_blank_in_a_later_window_is_called_by_its_number(model: Sundae, quick):
    template = "the [[1w]] sees. " * 3 + "the old cat sees a dog. a [[2]] bird"
    with pytest.raises(UsageError, match="blank 4 cannot be filled"):
        model.fill(template, sampling=quick, constraints=Constraints(allowed={4: ("incomprehensibilities",)}))


@pytest.mark.parametrize("by", ["leave-one-out", "per-token", "score"])
def test_candidates_come_in_the_order_of_the_scores_that_are_shown(model: Sundae, quick, by):
    found = model.fill("the [[1w]] sees a [[1w]]", sampling=quick, count=8, candidates=32, by=by)
    scores = [each.score for each in found]
    assert len(scores) > 3
    assert scores == sorted(scores, reverse=True)


def test_allowed_words_that_are_banned_are_not_tried(model: Sundae, quick):
    for words in (("cat", "dog"), ("old cat", "old dog")):
        constraints = Constraints(banned=(words[0],), allowed={1: words})
        (filled,) = model.fill("the [[1-2w]] sees", sampling=quick, constraints=constraints)
        assert words[1] in filled.text


def test_a_word_without_a_space_before_it_begins_with_a_letter(model: Sundae, quick):
    for filled in model.fill("([[1w]]) sees", sampling=replace(quick, temperature=1.0), count=20, candidates=40):
        begin, _ = filled.fills[0]
        assert filled.text[begin].isalnum()


@pytest.mark.parametrize("given", [{"count": 0}, {"count": -1}, {"candidates": 0}])
def test_less_than_one_is_refused(given):
    with pytest.raises(UsageError, match="at least 1"):
        FillSettings(**given)
