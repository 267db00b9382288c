"""`sundae evaluate` as a user meets it."""

import json
from pathlib import Path

import pytest

from sundae.baselines.autoregressive import Autoregressive
from sundae.baselines.models import AutoregressiveTwin
from sundae.cli import main
from sundae.config import RunConfig
from sundae.measure.evaluation import BlankItem, choose_blanks
from sundae.model import save_model
from test_model import model_of
from training.corpora import parallel_corpus, sentence_corpus, sentences


@pytest.fixture(scope="module")
def translator(tmp_path_factory: pytest.TempPathFactory) -> str:
    place = tmp_path_factory.mktemp("translator")
    model_of(parallel_corpus(place)).save_pretrained(place / "model")
    return str(place / "model")


@pytest.fixture(scope="module")
def writer(tmp_path_factory: pytest.TempPathFactory) -> str:
    place = tmp_path_factory.mktemp("writer")
    model_of(sentence_corpus(place)).save_pretrained(place / "model")
    return str(place / "model")


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory) -> str:
    place = tmp_path_factory.mktemp("judge")
    corpus = sentence_corpus(place)
    changes = {
        "network": {
            "kind": "autoregressive",
            "vocabulary_size": corpus.vocabulary_size,
            "width": 16,
            "hidden": 32,
            "heads": 2,
            "decoder_layers": 1,
        }
    }
    config = RunConfig().updated(changes)  # pyright: ignore[reportArgumentType]
    save_model(AutoregressiveTwin(Autoregressive(config.network), corpus.tokenizer, config), place / "model")
    return str(place / "model")


def written(path: Path, lines: list[str]) -> str:
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(path)


def test_translations_are_scored_and_the_report_says_how(translator: str, tmp_path: Path, capsys):
    lines = sentences(5)
    source, reference = written(tmp_path / "s", lines), written(tmp_path / "r", lines)
    common = ["evaluate", "translation", "--model", translator, "--source", source, "--reference", reference]
    more = ["--tokenised", "--hypotheses", str(tmp_path / "h"), "--out", str(tmp_path / "report"), "--threads", "1"]
    assert main([*common, *more, "sampling.steps=2"]) == 0
    said = capsys.readouterr().out
    assert "case:lc\\|eff:no\\|tok:none" in said
    assert "tok:13a" not in said
    assert len((tmp_path / "h").read_text(encoding="utf-8").splitlines()) == 5
    report = json.loads((tmp_path / "report" / "report.json").read_text(encoding="utf-8"))
    assert report["config"]["sampling"]["steps"] == 2
    assert report["seed"] == 0
    rows = {row["measure"]: row["value"] for row in report["tables"][0]["rows"]}
    assert rows["sentences"] == 5
    assert main([*common, *more]) == 2  # a report is never overwritten
    assert "never overwritten" in capsys.readouterr().err


def test_samples_are_measured_and_judged(judge: str, tmp_path: Path, capsys):
    samples = [*sentences(20), sentences(1)[0]]
    files = [written(tmp_path / "samples", samples), "--references", written(tmp_path / "refs", sentences(60)[20:])]
    more = ["--training", written(tmp_path / "train", sentences(10)), "--judge", judge, "--json", "--threads", "1"]
    assert main(["evaluate", "samples", *files, *more]) == 0
    report = json.loads(capsys.readouterr().out)
    rows = {row["measure"]: row["value"] for row in report["tables"][1]["rows"]}
    assert rows["samples that are training texts"] == pytest.approx(11 / 21)
    assert rows["judge's perplexity per token"]["value"] > 50  # an untrained judge knows nothing
    by_order = {row["n"]: row for row in report["tables"][0]["rows"]}
    assert 0 < by_order[2]["BLEU-n"] <= 1
    assert 0 < by_order[5]["self-BLEU-n"] < by_order[2]["self-BLEU-n"] <= 1


@pytest.mark.parametrize("which", ["writer", "judge"])
def test_blanks_are_filled_and_scored(which: str, tmp_path: Path, capsys, request):
    texts = written(tmp_path / "texts", sentences(12))
    arguments = ["evaluate", "blanks", texts, "--model", request.getfixturevalue(which), "-n", "4", "--json"]
    more = ["--candidates", "3", "--fills", str(tmp_path / "fills"), "--threads", "1", "sampling.steps=2"]
    assert main([*arguments, *more]) == 0
    rows = {row["measure"]: row["value"] for row in json.loads(capsys.readouterr().out)["tables"][0]["rows"]}
    assert rows["blanks"] == 4
    assert 0 <= rows["exact match"]["value"] <= rows["exact match among 3"]["value"] <= 1
    lines = [line.split("\t") for line in (tmp_path / "fills").read_text(encoding="utf-8").splitlines()]
    assert all(len(line) == 3 and "[[]]" in line[0] for line in lines)


def test_what_cannot_be_is_one_line_and_an_exit_code(translator: str, judge: str, tmp_path: Path, capsys):
    short, long = written(tmp_path / "short", sentences(2)), written(tmp_path / "long", sentences(3))
    unequal = ["translation", "--model", translator, "--source", short, "--reference", long]
    cases = [
        (unequal, 3),
        (["translation", "--model", translator, "--source", short, "--reference", "nowhere"], 3),
        (["translation", "--model", translator, "--source", short, "--reference", short, "network.width=3"], 2),
        (["samples", short, "--judge", translator], 2),
        (["blanks", short, "--model", translator], 2),
        (["blanks", short, "--model", judge, "-n", "-1"], 2),
        (["blanks", short, "--model", judge, "--threads", "-1"], 2),
        (["nothing"], 2),
    ]
    for arguments, code in cases:
        assert main(["evaluate", *arguments]) == code, arguments
        assert capsys.readouterr().err.count("\n") == 1


def test_blanks_are_inner_words_and_repeat_with_the_seed():
    texts = ["One two, three-four five.", "word", "Alone again"]
    items = choose_blanks(texts, seed=1)
    assert items == choose_blanks(texts, seed=1)
    assert [item.before + item.answer + item.after for item in items] == ["One two, three-four five.", "Alone again"]
    assert {choose_blanks(texts, seed=seed)[0].answer for seed in range(40)} == {"two", "three-four", "five"}
    assert {choose_blanks(texts, words=2, seed=seed)[0].answer for seed in range(20)} == {"three-four five"}
    assert BlankItem("a ", "b", " c").filled_in("a xyz c") == "xyz"
    assert BlankItem("a [[2 ", "b", " {{").template("[[1w]]") == r"a \[[2 [[1w]] \{{"


def test_a_line_is_what_a_newline_ends(tmp_path: Path):
    from sundae.cli.evaluate import read_texts

    (tmp_path / "f").write_text("one\u0085still one\r\n\ntwo\u2028\n", encoding="utf-8", newline="")
    assert read_texts(tmp_path / "f") == ["one\u0085still one", "", "two\u2028"]
    (tmp_path / "f").write_text("", encoding="utf-8")
    assert read_texts(tmp_path / "f") == []
    (tmp_path / "f").write_text("\n", encoding="utf-8")
    assert read_texts(tmp_path / "f") == [""]
