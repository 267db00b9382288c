import pytest

from sundae.text.numbers import disorder, missing_numbers, number_places, numbers_in


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("1,234.5 and 1.234,5, 3.14.", ["1,234.5", "1.234,5", "3.14"]),
        ("at 12:30, on 2024-01-02 or 1/2!", ["12:30", "2024-01-02", "1/2"]),
        ("30 and 30", ["30", "30"]),
        ("4 kids, 0 dogs, 12 cats and 13 birds", ["13"]),
        ("5.5, 0.5 and 007", ["5.5", "0.5", "007"]),
        ("-5, (+5) or \u22125 but 20-30, a -40 and 50+60", ["-5", "+5", "\u22125", "20-30", "-40", "50", "60"]),
        ("COVID-19, 20%-30% and a 20-year-old", ["19", "20", "30", "20"]),
        ("a40, 33rd, 50pm, typ-a10, v1.50, 1.50km, 1990s", []),
        ("1\u00a0234,5 and 1'000'000", ["1\u00a0234,5", "1'000'000"]),
        ("two", []),
    ],
)
def test_which_numbers_a_translation_must_keep(text: str, numbers: list[str]):
    assert numbers_in(text) == numbers


@pytest.mark.parametrize(
    ("source", "translation", "missing"),
    [
        ("3,000 dogs and 13 cats at 10:30", "3.000 Hunde um 10.30", ["13"]),
        ("20 and 20", "30", ["20", "20"]),
        ("30 and 30", "30 und", ["30"]),
        ("30 and 30", "30 und 30", []),
        ("4 kids", "vier Kinder", []),
        ("the 2nd street at 5pm", "die zweite Straße um 17 Uhr", []),
        ("1,234.5", "1.234,5", []),
        ("1,234.5", "1234.5", []),
        ("1,234.5", "1 234,5", []),
        ("1,234.5", "1\u202f234,5", []),
        ("1.234,5", "1\u2019234.5", []),
        ("1,234", "1.234", []),
        ("1,234", "1234", []),
        ("1,234", "1,234", []),
        ("1,234,567", "1.234.567", []),
        ("1.5", "1,5", []),
        ("1.5", "15", ["1.5"]),
        ("15", "1.5", ["15"]),
        ("1.00", "100", ["1.00"]),
        ("0.234", "234", ["0.234"]),
        ("1,234.5 and 55", "1.234,55", ["1,234.5", "55"]),
        ("12:30", "12.30", []),
        ("12:30", "30 12", ["12:30"]),
        ("12:30", "12,30", ["12:30"]),
        ("30", "12:30", ["30"]),
        ("12/25", "25.12.", ["12/25"]),
        ("2024-01-02", "2024-01-02.", []),
        ("2024-01-02", "2024-02-01", ["2024-01-02"]),
        ("1990-1995", "1990\u20131995", []),
        ("-20 degrees", "20 Grad", ["-20"]),
        ("-20 degrees", "\u221220 Grad", []),
        ("20 degrees", "-20 Grad", ["20"]),
        ("+20 degrees", "20 Grad", []),
        ("20 km", "20km", []),
        ("80 years", "80er Jahre", []),
        ("number 80", "nummer80", ["80"]),
        ("1,234 and 1234", "1234 und 1,234", []),
        ("30 100", "30 100", []),
        ("30,100 and 100", "30 100", ["30,100"]),
    ],
)
def test_numbers_are_missed_as_whole_quantities(source: str, translation: str, missing: list[str]):
    assert missing_numbers(source, translation) == missing


def test_numbers_the_other_way_round_are_counted():
    assert disorder("20 men, 30 women", "20 Männer, 30 Frauen") == 0
    assert disorder("20 men, 30 women", "30 Frauen, 20 Männer") == 1
    assert disorder("20 men, 30 women, 4,000 dogs", "4.000 Hunde, 30 Frauen, 20 Männer") == 3
    assert disorder("20 men, 30 women", "30 Frauen") == 0


def test_where_numbers_stand():
    text = "um 12:30 (4 Hunde) f\u00fcr 1.234,5 Euro"
    assert [text[begin:end] for begin, end in number_places(text)] == numbers_in(text) == ["12:30", "1.234,5"]
