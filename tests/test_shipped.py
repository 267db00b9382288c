"""The models that come with the package: small, whole, described, and at work offline."""

import json
import struct
import subprocess
import sys

import pytest

from sundae.cli import main
from sundae.cli.demo import DRAFT, SENTENCE
from sundae.folder import FILES, SHIPPED, shipped_models
from sundae.model import load_model

NAMES = sorted(shipped_models())


def test_all_of_them_are_small_enough():
    sizes = [path.stat().st_size for path in SHIPPED.rglob("*") if path.is_file()]
    assert sum(sizes) <= 60_000_000


@pytest.mark.parametrize("name", NAMES)
def test_a_model_is_whole_small_and_in_half_precision(name: str):
    folder = SHIPPED / name
    assert sorted(path.name for path in folder.iterdir()) == sorted(FILES)
    assert sum(path.stat().st_size for path in folder.iterdir()) <= 20_000_000
    with (folder / "model.safetensors").open("rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
    assert {about["dtype"] for key, about in header.items() if key != "__metadata__"} == {"F16"}


@pytest.mark.parametrize("name", NAMES)
def test_a_card_says_what_a_user_must_know(name: str):
    card = (SHIPPED / name / "README.md").read_text(encoding="utf-8")
    for heading in ("Data", "Attribution", "Training", "Measured", "Samples", "Limits"):
        assert f"## {heading}" in card, heading
    assert "CC BY" in card


@pytest.mark.parametrize("name", NAMES)
def test_it_works(name: str):
    model = load_model(name)
    if model.config.network.translates:
        assert model.translate(["I like it."])[0].text  # type: ignore[union-attr]
    else:
        assert model.generate(1)[0].text  # type: ignore[union-attr]


def test_the_demo_shows_that_a_blank_depends_on_its_right_side():
    done = subprocess.run([sys.executable, "-m", "sundae", "demo"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    sample, piano, french, last_week, every_week, refined, translated = done.stdout.splitlines()
    assert sample
    assert piano.split()[2] != french.split()[2]
    assert last_week.split()[1] != every_week.split()[1]
    assert refined != DRAFT
    assert translated not in ("", SENTENCE)


def test_who_refines_a_translation_translates(capsys):
    draft = ["refine", "Das ist ein Haus.", "--source", "That is a house.", "--candidates", "1"]
    assert main(draft) == 0
    assert "Haus" in capsys.readouterr().out
    assert main([*draft, "--model", "everyday"]) == 2
    assert "everyday does not translate" in capsys.readouterr().err
