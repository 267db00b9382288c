"""The guard against banned phrases, on denoisers whose wishes are known."""

from dataclasses import replace

import pytest
import torch

from decoding.desks import desk_of_words
from sundae.config import SamplingConfig
from sundae.core.length import PAD
from sundae.core.network import Ask, Denoiser, Prediction
from sundae.decoding.constraints import Constraints, Guard
from sundae.decoding.desk import Order, run_orders
from sundae.decoding.fill import FillSettings, fill_templates
from sundae.decoding.layout import lay_out
from sundae.decoding.refine import Refinery, RefineSettings
from sundae.errors import UsageError
from sundae.text.template import parse_template
from sundae.text.tokenizer import train_tokenizer

DESK = desk_of_words()
SIZE = len(DESK.shapes.begins)


def wishing(*words: str) -> Denoiser:
    """Wants the first word most, then the second, and so on, everywhere; where a text has ended it wants the end."""
    wishes = torch.zeros(SIZE)
    for rank, word in enumerate(words):
        wishes[DESK.tokenizer.encode(word)[0]] = 20.0 - rank

    def answer(ask: Ask) -> Prediction:
        hidden = wishes.repeat(*ask.tokens.shape, 1)  # the hidden states are the logits
        ended = ask.tokens.flip(1).cumsum(1).flip(1) == 0
        hidden[..., 0] += 50.0 * ended
        return Prediction(hidden, hidden[ask.where])

    return answer


def head(hidden: torch.Tensor) -> torch.Tensor:
    return hidden


GREEDY = SamplingConfig(steps=6, temperature=0.0, stop_early=False)


def filled(template: str, denoiser: Denoiser, constraints: Constraints) -> str:
    settings = FillSettings(candidates=1, constraints=constraints)
    (written,) = fill_templates(
        [parse_template(template)], DESK, denoiser=denoiser, head=head, sampling=GREEDY, settings=settings
    )[0]
    return written.text


def test_a_word_that_the_vocabulary_lacks_cannot_be_required():
    with pytest.raises(UsageError, match="'zebra' must appear: the model's vocabulary cannot write it"):
        filled("the [[3]] sees", wishing("cat"), Constraints(must=("zebra",)))


def test_what_was_taken_back_is_not_offered_again():
    """Without that the chain would stand still on its first noise."""
    assert filled("the [[1]] sees", wishing("cat", "dog"), Constraints()) == "the cat sees"
    assert filled("the [[1]] sees", wishing("cat", "dog"), Constraints(banned=("cat",))) == "the dog sees"
    banned = Constraints(banned=("cat", "dog", "bird"))
    assert filled("the [[1]] sees", wishing("cat", "dog", "bird", "river"), banned) == "the river sees"


@pytest.mark.parametrize("rule", ["confidence", "predictor-corrector", "entropy-bounded", "low-temperature"])
def test_the_last_step_leaves_no_noise_where_a_phrase_was_taken_back(rule):
    """One step only, so that what is taken back is the noise of the start."""
    sampling = replace(GREEDY, rule=rule, steps=1)
    settings = FillSettings(candidates=1, constraints=Constraints(banned=("cat", "dog", "bird")))
    template = [parse_template("the [[3]] sees")]
    wanting = wishing("cat", "dog", "bird", "river")
    (found,) = fill_templates(template, DESK, denoiser=wanting, head=head, sampling=sampling, settings=settings)[0]
    assert found.text == "the river river river sees"


def test_a_phrase_is_broken_and_its_words_stay_free():
    text = filled("the [[2]] sees", wishing("cat", "dog"), Constraints(banned=("cat cat",)))
    assert sorted(text.split()[1:3]) == ["cat", "dog"]


def test_bans_hold_with_given_words_beside_the_blank():
    assert filled("the [[1]] sees", wishing("cat", "dog"), Constraints(banned=("the cat",))) == "the dog sees"
    assert filled("the [[1]] sees", wishing("cat", "dog"), Constraints(banned=("cat sees",))) == "the dog sees"


def test_a_row_that_is_held_back_has_not_settled():
    """It must go on to find another word, also where rows stop as soon as nothing changes."""
    (layout,) = lay_out(parse_template("the [[1]] sees"), DESK, tries=1)
    (outcome,) = run_orders(
        [Order(layout, 0)],
        DESK,
        denoiser=wishing("cat", "dog"),
        head=head,
        sampling=SamplingConfig(steps=20, temperature=0.0),
        seed=0,
        constraints=Constraints(banned=("cat",)),
    )
    assert DESK.tokenizer.decode(outcome.tokens) == "the dog sees"
    assert outcome.steps < 20


def test_allowed_words_follow_their_blank_into_its_window():
    template = "the cat sees a dog. the [[1]] bird. " + "the old red house. " * 4 + "a [[1w]] tree."
    text = filled(template, wishing("cat", "dog", "river"), Constraints(allowed={2: ("river", "red")}))
    assert text.split(". ")[1] == "the cat bird"
    assert text.endswith("a river tree.")


def test_a_draft_that_holds_a_banned_word_does_not_compete():
    refinery = Refinery("cat cat cat cat", DESK, denoiser=wishing("cat", "dog"))
    refined = refinery.refine(RefineSettings(constraints=Constraints(banned=("cat",))), sampling=GREEDY)
    assert refined.text == "dog dog dog dog"


def test_a_pad_may_end_a_word_that_goes_on_behind_it():
    tokenizer = train_tokenizer("byte-bpe", ["the there"], vocabulary_size=257)
    spelt = {letter: tokenizer.encode(letter)[0] for letter in "there "}
    guard = Guard(Constraints(banned=("the",)), tokenizer)

    def offending(text: str) -> set[int]:
        return guard.offending(torch.tensor([PAD if letter == "_" else spelt[letter] for letter in text]))

    assert offending("there_") == set()
    assert offending("the_re") == {0, 1, 2}  # it says "the"
    assert offending("there_the") == set()  # read on, it would be "therethe"
    assert offending("e_ the") == {3, 4, 5}  # what comes after the end may come into view
    after = torch.tensor([[spelt["t"], spelt["h"], spelt["e"], PAD, spelt["e"]]])
    before = torch.tensor([[spelt["t"], spelt["h"], spelt["e"], spelt["r"], spelt["e"]]])
    assert torch.equal(guard.mend(torch.tensor([0]), before=before, after=after), before)
