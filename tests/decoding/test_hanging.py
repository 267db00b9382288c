"""On a model that ships: a toy that knows its pairs by heart shows nothing of what stands for what."""

import pytest

from sundae.decoding.hanging import hanging_word
from sundae.decoding.translation import TranslateSettings, bound_to
from sundae.model import Sundae


@pytest.fixture(scope="module")
def model() -> Sundae:
    return Sundae.from_pretrained("english-german")


def hanging(model: Sundae, source: str, without: str, draft: str) -> str | None:
    length = len(model.tokenizer.encode(draft))
    (given, width), (missing, _) = (
        bound_to(model.network, each, model.desk, length=length) for each in (source, without)
    )
    span = hanging_word(draft, model.tokenizer, given=given, without=missing, width=width)
    return None if span is None else draft[slice(*span)]


@pytest.mark.parametrize(
    ("source", "term", "draft", "word"),
    [
        ("Where did you buy this book?", "book", "Wo hast du dieses Buch gekauft?", "Buch"),
        ("The dog runs.", "dog", "Der Hund l\u00e4uft.", "Hund"),
        ("I have a dog and a book.", "dog", "Ich habe einen Hund und ein Buch.", "Hund"),
        ("I have a dog and a book.", "book", "Ich habe einen Hund und ein Buch.", "Buch"),
        ("I have no time.", "time", "Ich habe keine Zeit.", "Zeit"),
        ("My brother bought a new car.", "car", "Mein Bruder hat ein neues Auto gekauft.", "Auto"),
    ],
)
def test_a_word_hangs_on_what_it_translates(model: Sundae, source: str, term: str, draft: str, word: str):
    without = TranslateSettings(terms={term: "x"}).without(source, "x")
    assert term not in without
    assert hanging(model, source, without, draft) == word


def test_nothing_hangs_on_nothing(model: Sundae):
    assert hanging(model, "I have no time.", "I have no time.", "Ich habe keine Zeit.") is None
    assert hanging(model, "I have no time.", "I have no.", "...") is None


def test_a_term_takes_the_place_of_its_word(model: Sundae):
    settings = TranslateSettings(terms={"time": "Mu\u00dfe", "station": "Hauptbahnhof"})
    found = model.translate(["I have no time.", "Can you tell me how to get to the station?"], settings=settings)
    plain = model.translate(["I have no time.", "Can you tell me how to get to the station?"])
    wanted = [plain[0].text.replace("Zeit", "Mu\u00dfe"), plain[1].text.replace("Bahnhof", "Hauptbahnhof")]
    assert [each.text for each in found] == wanted
    assert "Mu\u00dfe" in wanted[0]
    assert "Hauptbahnhof" in wanted[1]
