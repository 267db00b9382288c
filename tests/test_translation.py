"""A SUNDAE translator as a user meets it: trained by the command, and put to work."""

import errno
import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sundae.baselines.models import TOO_LONG, AutoregressiveTwin
from sundae.cli import main
from sundae.config import BaselineConfig, RankName, SamplingConfig
from sundae.core.network import Transformer
from sundae.decoding import desk
from sundae.decoding import lines as line_by_line
from sundae.decoding.lines import translate_lines
from sundae.decoding.refine import RefineSettings
from sundae.decoding.trace import Trace
from sundae.decoding.translation import TranslateSettings, Translator
from sundae.decoding.written import Written
from sundae.errors import UsageError
from sundae.folder import model_card
from sundae.measure.bleu import corpus_bleu
from sundae.measure.diversity import diversity
from sundae.measure.steps import by_step
from sundae.model import Sundae, load_model
from sundae.text.corpus import Corpus
from sundae.text.prepare import prepare
from sundae.text.recipe import Recipe
from training.corpora import parallel_corpus

SMALL = [
    *("network.width=48", "network.hidden=96", "network.heads=2", "network.decoder_layers=2", "network.dropout=0.0"),
    *("network.encoder_layers=2", "network.length_hidden=32", "objective.corruption_rates=even"),
    *("training.warmup_steps=20", "training.learning_rate=6e-3", "training.clip=1.0"),
    *("training.batch_size=64", "training.validate_every=2000", "training.checkpoint_every=2000"),
    *("sampling.steps=10", "sampling.temperature=0.3", "sampling.schedule=all", "sampling.candidates=4"),
]
QUICK = SamplingConfig(steps=4, temperature=0.3, schedule="all", candidates=2)


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return parallel_corpus(tmp_path_factory.mktemp("pairs"), count=64 + 20)


@pytest.fixture(scope="module")
def folder(pairs: Corpus, tmp_path_factory: pytest.TempPathFactory) -> str:
    out = tmp_path_factory.mktemp("runs") / "run"
    arguments = ["train", "tiny", "--data", str(pairs.folder), "--out", str(out), "--threads", "1", "-q"]
    assert main([*arguments, *SMALL, "training.steps=700"]) == 0
    return str(out / "model")


@pytest.fixture(scope="module")
def model(folder: str) -> Sundae:
    return Sundae.from_pretrained(folder)


def sides(pairs: Corpus) -> tuple[list[str], list[str]]:
    split = pairs.split("train")
    decode = pairs.tokenizer.decode
    rows = range(len(split))
    return [decode(split.source(row).tolist()) for row in rows], [decode(split.text(row).tolist()) for row in rows]


def test_a_model_says_what_it_was_trained_on(model: Sundae, pairs: Corpus, folder: str):
    told = model.config.data
    assert (told.description, told.training_pairs) == ("pairs.tsv", len(pairs.split("train")))
    assert (told.source_language, told.target_language) == ("", "")
    assert "| data | pairs.tsv |" in (Path(folder) / "README.md").read_text(encoding="utf-8")
    way = replace(told, source_language="en", target_language="de")
    assert "| data | pairs.tsv (en to de) |" in model_card(replace(model.config, data=way))


@pytest.mark.parametrize("rule", ["low-temperature", "argmax-unrolled"])
def test_it_learns_64_pairs_by_heart(model: Sundae, pairs: Corpus, rule):
    sources, references = sides(pairs)
    written = model.translate(sources, sampling=replace(model.config.sampling, rule=rule))
    assert corpus_bleu([each.text for each in written], references).score > 95


def test_mixed_lengths_in_a_batch_equal_line_by_line(model: Sundae, pairs: Corpus):
    sources = sides(pairs)[0][:12]
    several = replace(QUICK, length_candidates=3)
    for sampling, settings in ((QUICK, TranslateSettings(count=3)), (several, TranslateSettings(by="mbr"))):
        together = model.translate_many(sources, sampling=sampling, settings=settings)
        alone = [model.translate_many([source], sampling=sampling, settings=settings)[0] for source in sources]
        assert [[each.text for each in found] for found in together] == [
            [each.text for each in found] for found in alone
        ]
        assert [[each.network_calls for each in found] for found in together] == [
            [each.network_calls for each in found] for found in alone
        ]


def test_a_single_candidate_needs_no_score(model: Sundae, pairs: Corpus):
    sources = sides(pairs)[0][:5]
    one = replace(QUICK, candidates=1)
    plain = model.translate(sources, sampling=one, settings=TranslateSettings(scored=False))
    scored = model.translate(sources, sampling=one)
    assert [each.text for each in plain] == [each.text for each in scored]
    assert all(each.score == 0 for each in plain)
    assert all(each.score < 0 for each in scored)
    several = model.translate(sources, sampling=QUICK, settings=TranslateSettings(scored=False))
    assert [each.text for each in several] == [each.text for each in model.translate(sources, sampling=QUICK)]


def test_empty_lines_stay_empty_lines(model: Sundae):
    written = model.translate(["", "the cat", "  ", "\t"], sampling=QUICK)
    assert [bool(each.text) for each in written] == [False, True, False, False]
    assert model.translate([], sampling=QUICK) == []


def test_long_lines_and_words_are_split_and_what_cannot_be_is_counted(model: Sundae, pairs: Corpus):
    said: list[str] = []
    sources, references = sides(pairs)
    long = ". ".join(sources[:8])  # far more than 24 tokens
    endless = "é" * 60
    lines = [long, sources[0], endless]
    (whole,), _, (pieces,) = model.translate_many(lines, sampling=model.config.sampling, say=said.append)
    known = sum(word in whole.text.split() for word in " ".join(references[:8]).split())
    assert known > 0.8 * len(" ".join(references[:8]).split())
    assert len(pieces.text.split()) > 1
    assert said == ["2 of 3 lines have a sentence of more than 24 tokens and are translated in parts"]
    said.clear()
    asked: list[str] = []

    def echo(sources: Sequence[str]) -> list[list[Written]]:
        asked.extend(sources)
        return [[Written(source, 0.0, 1, 1)] for source in sources]

    assert len(model.tokenizer.encode("é")) == 2
    translate_lines(["é", "a"], echo, tokenizer=model.tokenizer, longest=1, say=said.append)
    assert sorted(asked) == ["a", "é"]
    assert said[1:] == ["1 of 2 lines hold a character of more than 1 tokens and are cropped"]


def test_sentences_are_translated_apart_and_what_has_no_letter_is_copied(model: Sundae):
    asked: list[str] = []

    def echo(sources: Sequence[str]) -> list[list[Written]]:
        asked.extend(sources)
        return [[Written(source.upper(), 0.0, 1, 1)] for source in sources]

    given = ["the cat . a dog .", "* * *", "12:30", "the cat 12", "&", ""]
    found = translate_lines(given, echo, tokenizer=model.tokenizer, longest=24)
    assert [own[0].text for own in found] == ["THE CAT . A DOG .", "* * *", "12:30", "THE CAT 12", "&", ""]
    assert sorted(asked) == ["a dog .", "the cat .", "the cat 12"]
    asked.clear()
    translate_lines([" ".join(["cat"] * 60)], echo, tokenizer=model.tokenizer, longest=24)
    assert max(len(model.tokenizer.encode(part)) for part in asked) <= 12
    with pytest.raises(UsageError, match="letter by letter"):
        model.translate("the cat")


def test_tags_stay_in_their_sentence_however_long_its_neighbours_become(model: Sundae):
    def by_heart(sources: Sequence[str]) -> list[list[Written]]:
        found = {
            "one .": ["eins und noch viel mehr .", ""],
            "a two b .": ["ein zwei b .", "ein zwei b ."],
            "c .": ["c .", "c ."],
        }
        return [[Written(text, 0.0, 1, 1) for text in found[source]] for source in sources]

    ((best, second),) = translate_lines(
        ["one . <i>a <b>two</b> b .</i> c ."], by_heart, tokenizer=model.tokenizer, longest=24, count=2
    )
    assert best.text == "eins und noch viel mehr . <i>ein <b>zwei</b> b .</i> c ."
    assert second.text == "<i>ein <b>zwei</b> b .</i> c ."
    (nothing,) = translate_lines(
        ["<b>one .</b>"], lambda _: [[Written("", 0.0, 1, 1)]], tokenizer=model.tokenizer, longest=24
    )
    assert nothing[0].text == "<b></b>"


def test_more_lengths_and_candidates_are_ranked_and_equal_ones_merged(model: Sundae, pairs: Corpus):
    source = sides(pairs)[0][3]
    (found,) = model.translate_many(
        [source],
        sampling=replace(QUICK, temperature=1.0, candidates=8, length_candidates=4),
        settings=TranslateSettings(count=10),
    )
    texts = [each.text for each in found]
    assert len(texts) == len(set(texts)) > 1
    assert [each.score for each in found] == sorted((each.score for each in found), reverse=True)


def test_candidates_are_ranked_as_the_model_s_settings_say(model: Sundae):
    loose = replace(QUICK, temperature=1.5, candidates=16, length_candidates=3)
    found: dict[float, list[str]] = {}
    for power in (-1.0, 0.0, 1.0):
        settings = replace(loose, length_normalisation=power)
        (own,) = model.translate_many(["the cat sees a dog"], sampling=settings, settings=TranslateSettings(count=48))
        found[power] = [each.text for each in own]
    ways: list[tuple[float, RankName]] = [(0.0, "score"), (1.0, "per-token"), (-1.0, "per-token")]
    for power, by in ways:
        settings = TranslateSettings(count=48, by=by)
        (own,) = model.translate_many(["the cat sees a dog"], sampling=loose, settings=settings)
        assert [each.text for each in own] == found[power]
    assert found[0.0] != found[1.0]


def test_without_length_prediction_there_is_one_length(model: Sundae):
    config = model.config.updated({"network": {"length_prediction": False}})
    blind = Sundae(Transformer(config.network), model.tokenizer, config)
    assert len(blind.translate(["the cat"], sampling=QUICK)) == 1
    with pytest.raises(UsageError, match="does not predict lengths"):
        blind.translate(["the cat"], sampling=replace(QUICK, length_candidates=2))


def test_terms_tags_and_numbers_are_kept(model: Sundae, pairs: Corpus):
    source = next(source for source in sides(pairs)[0] if "cat" in source.split())
    settings = TranslateSettings(terms={"Cat": "zebra", "unicorn": "horse"})
    (written,) = model.translate([source], sampling=QUICK, settings=settings)
    assert "zebra" in written.text.split()
    assert "horse" not in written.text
    (tagged,) = model.translate([f"<p>{source}</p> https://example.org/x"], sampling=QUICK)
    assert tagged.text.startswith("<p>")
    assert tagged.text.endswith("</p> https://example.org/x")
    (numbered,) = model.translate([f"{source} 37"], sampling=QUICK)
    assert "37" in numbered.text


def test_numbers_that_nobody_gave_are_counted_and_reported(model: Sundae, monkeypatch):
    settings = TranslateSettings()
    assert settings.invented("the cat 37", "cat 37 and 1999 the") == ["1999"]
    assert settings.invented("the cat 3,000", "cat 3.000 the 4") == []
    assert TranslateSettings(keep_numbers=False).invented("the", "1999") == []
    monkeypatch.setattr(Translator, "translate", lambda *_: [[Written("1999", 0.0, 1, 1)], [Written("b", 0.0, 1, 1)]])
    said: list[str] = []
    model.translate_many(["the cat", "a dog"], say=said.append)
    assert said == ["1 of 2 translations hold a number that their source does not have in digits (line 1)"]


def test_a_term_may_look_like_what_is_kept(model: Sundae, monkeypatch):
    monkeypatch.setattr(Translator, "translate", lambda _, some: [[Written("ein info@x.org", 0.0, 1, 1)] for _ in some])
    said: list[str] = []
    lines = ["a dog", '<a title="Hund">dog</a>']
    model.translate_many(lines, settings=TranslateSettings(terms={"dog": "info@x.org"}), say=said.append)
    assert not said
    model.translate_many(lines, settings=TranslateSettings(terms={"dog": "Hund"}), say=said.append)
    assert said == ["2 of 2 translations lack a term or a number that they should hold (lines 1, 2)"]


def test_everything_required_is_kept_at_once_and_by_every_alternative(model: Sundae, pairs: Corpus):
    terms = {"the": "zebra", "a big": "lion", "big": "horse", "40 cats": "a40 katze"}
    settings = TranslateSettings(count=3, terms=terms)
    assert settings.required("a big cat, the 32 dogs and 2nd") == (["lion", "zebra"], ["32"])
    assert settings.required("40 cats, 50 dogs, 50 lions") == (["a40 katze"], ["50", "50"])
    assert settings.lacking("a big cat", "ein Lion") == []
    assert settings.lacking("40 cats, 50 dogs, 50 lions", "40 hunde 50") == ["a40 katze", "50"]
    said: list[str] = []
    for source in sides(pairs)[0][:8]:
        (found,) = model.translate_many([f"{source} 32"], sampling=QUICK, settings=settings, say=said.append)
        assert not settings.lacking(f"{source} 32", found[0].text), found[0].text
        order = [len(settings.lacking(f"{source} 32", each.text)) for each in found]
        assert order[1:] == sorted(order[1:])
        alone = replace(settings, count=1)
        (first,) = model.translate([f"{source} 32"], sampling=QUICK, settings=alone)
        assert first == found[0]
        assert len({each.text for each in found}) == len(found)
    assert not said
    hopeless = TranslateSettings(terms={"cat": "incomprehensibilities " * 4, "the": "zebra"})
    (found,) = model.translate_many(["the cat"], sampling=QUICK, settings=hopeless, say=said.append)
    assert "zebra" in found[0].text
    assert said == ["1 of 1 translations lack a term or a number that they should hold (line 1)"]
    numbers = TranslateSettings(keep_numbers=False, banned=("37",))
    assert numbers.required("the cat 37") == TranslateSettings(banned=("37",)).required("the cat 37") == ([], [])
    with pytest.raises(UsageError, match="is banned"):
        TranslateSettings(terms={"cat": "the zebra"}, banned=("zebra",))


def test_places_of_required_words_are_ranked_by_score_whatever_ranks_the_rest(model: Sundae, pairs: Corpus):
    def found(line: str, by: RankName | None, *, keep_numbers: bool = True) -> list[Written]:
        settings = TranslateSettings(count=64, by=by, keep_numbers=keep_numbers)
        return model.translate_many([line], sampling=QUICK, settings=settings)[0]

    def drafts(line: str) -> list[str]:
        return [found(line, by, keep_numbers=False)[0].text for by in (None, "mbr")]

    # The number is put into the draft that comes first; which one that is may depend on who ranks.
    lines = (f"{source} 37" for source in sides(pairs)[0])
    line = next(each for each in lines if len(set(drafts(each))) == 1 and "37" not in drafts(each)[0])
    by_score, by_agreement = ([each for each in found(line, by) if "37" in each.text] for by in (None, "mbr"))
    assert by_score
    assert by_score == by_agreement


def test_tags_and_addresses_are_not_searched_for_terms(model: Sundae):
    settings = TranslateSettings(terms={"cat": "zebra", "big dog": "lion"})
    said: list[str] = []
    for line in ("the dog http://cat.org sees", "a <b>big</b> dog sees", "the dog 20<b>21</b> sees"):
        model.translate_many([line], sampling=QUICK, settings=settings, say=said.append)
    assert not said


@pytest.mark.skipif(shutil.which("patch") is None, reason="there is no patch")
def test_a_difference_between_lines_can_be_applied(folder: str, pairs: Corpus, tmp_path: Path, capsys):
    sources, references = sides(pairs)
    number = next(n for n, text in enumerate(references) if 6 <= len(text.split()) <= 8 and "cat" in text.split())
    for end in ("\n", ""):
        (tmp_path / "draft.txt").write_text(references[number].replace("cat", "river", 1) + end, encoding="utf-8")
        command = ["refine", str(tmp_path / "draft.txt"), "--source", sources[number], "--edits", "1", "--diff"]
        assert main([*command, "--model", folder, "--threads", "1"]) == 0
        diff = capsys.readouterr().out
        subprocess.run(["patch", str(tmp_path / "draft.txt")], input=diff, text=True, check=True, capture_output=True)
        assert (tmp_path / "draft.txt").read_text(encoding="utf-8") == f"{references[number]}\n"


def test_a_term_with_a_number_in_it_is_a_term(model: Sundae):
    settings = TranslateSettings(terms={"sheet": "a44 blatt"})
    assert settings.lacking("44 men hold a sheet", "a44 blatt") == ["44"]
    (written,) = model.translate(["44 cat sheet"], sampling=QUICK, settings=settings)
    assert not settings.lacking("44 cat sheet", written.text)


def test_terms_are_whole_words_of_the_source_written_as_they_are():
    settings = TranslateSettings(terms={"dog": "Köter", "log": "stamm"})
    assert settings.required("a hot-dog, a dog-house and a watch-dog") == ([], [])
    assert settings.required("Dog! -dog") == (["Köter"], [])
    assert settings.lacking("the dog", "der köter") == ["Köter"]
    assert settings.lacking("a log", "Stamm") == []
    assert settings.lacking("a log", "STAMM") == ["stamm"]


def test_a_long_term_gets_a_longer_canvas(model: Sundae, pairs: Corpus):
    source = next(source for source in sides(pairs)[0] if len(source.split()) == 3)
    term = source.split()[0]
    settings = TranslateSettings(terms={term: "the big red bird sees"})
    (written,) = model.translate([source], sampling=QUICK, settings=settings)
    assert "the big red bird sees" in written.text
    assert len(written.text.split()) > 5


def test_what_did_not_change_is_spared_unless_it_is_to_be_measured(model: Sundae, pairs: Corpus):
    sources = sides(pairs)[0][:6]
    whole = replace(QUICK, steps=12, stop_early=False, candidates=1)
    spared, measured = (
        model.translate(sources, sampling=whole, settings=TranslateSettings(spare=spare)) for spare in (True, False)
    )
    assert [each.text for each in spared] == [each.text for each in measured]
    assert {each.network_calls for each in measured} == {12}
    assert max(each.network_calls for each in spared) < 12


def test_known_lengths_are_taken(model: Sundae, pairs: Corpus):
    sources, references = sides(pairs)
    lengths = [len(pairs.tokenizer.encode(reference)) for reference in references]
    found = model.translate_to_length(sources, lengths, sampling=model.config.sampling)
    assert corpus_bleu([each.text for each in found], references).score > 95
    assert model.predicted_halves(sources[:70]) == [(length + 1) // 2 for length in lengths[:70]]


def test_a_draft_translation_is_refined_with_its_source_in_view(model: Sundae, pairs: Corpus):
    sources, references = sides(pairs)
    number = next(n for n, text in enumerate(references) if 6 <= len(text.split()) <= 8 and "cat" in text.split())
    draft = references[number].replace("cat", "river", 1)
    refined = model.refine(draft, source=sources[number], settings=RefineSettings(edits=1))
    assert refined.text == references[number]
    other = model.refine(references[number], source=sources[number], settings=RefineSettings(edits=1))
    assert other.text == references[number]
    tagged = model.refine(f"<b>big</b> 37 {references[number].split()[0]}", source=f"<b>{sources[number]}</b>")
    assert tagged.edits
    assert tagged.text.startswith("<b>")
    assert "</b> 37" in tagged.text
    with pytest.raises(UsageError, match="needs a source"):
        model.refine(draft)


def test_what_there_is_nothing_to_judge_by_stays(folder: str, pairs: Corpus, tmp_path: Path, capsys):
    sources, references = sides(pairs)
    draft, source = tmp_path / "draft.txt", tmp_path / "source.txt"
    kept = ["* * *", "...", '"!"', references[0], "x {{ name }}"]
    draft.write_text("\n".join(kept) + "\n", encoding="utf-8")
    source.write_text("\n".join([*kept[:3], "", "the {{ name }}"]) + "\n", encoding="utf-8")
    command = ["refine", str(draft), "--source", str(source), "--model", folder, "--threads", "1"]
    assert main(command) == 0
    said = capsys.readouterr()
    assert said.out.splitlines()[:4] == kept[:4]
    assert "{{ name }}" in said.out.splitlines()[4]
    assert "1 of 5 drafts stay as they are: their source is empty (the first is line 4)" in said.err
    wrong = references[0].split()
    wrong[1] = references[1].split()[1] if references[1].split()[1] != wrong[1] else references[2].split()[1]
    draft.write_bytes(f"{' '.join(wrong)}\r\n".encode())
    source.write_bytes(f"{sources[0]}\r\n".encode())
    assert main([*command, "--edits", "1", "--diff"]) == 0
    assert capsys.readouterr().out.splitlines(keepends=True)[3:] == [f"-{' '.join(wrong)}\r\n", f"+{references[0]}\r\n"]
    assert main([*command, "-T", "0"]) == 2


def test_the_command_line(folder: str, pairs: Corpus, tmp_path: Path, capsys):
    sources, references = sides(pairs)
    (tmp_path / "in.txt").write_text("\n".join([sources[0], "", sources[1]]) + "\n", encoding="utf-8")
    usual = ["--model", folder, "--threads", "1"]
    assert main(["translate", str(tmp_path / "in.txt"), *usual]) == 0
    assert capsys.readouterr().out.split("\n") == [references[0], "", references[1], ""]
    assert main(["translate", f"{sources[0]}\tnote", "--tsv", *usual]) == 0
    line = capsys.readouterr().out.rstrip("\n").split("\t")
    assert line[:3] == [sources[0], "note", references[0]]
    assert float(line[3]) <= 0
    assert main(["translate", sources[2], "-n", "3", "-t", "2.0", "--candidates", "16", "--json", *usual]) == 0
    found = [json.loads(each) for each in capsys.readouterr().out.splitlines()]
    assert 1 < len(found) <= 3
    assert main(["translate", sources[0], "--watch", "--html", str(tmp_path / "t.html"), *usual]) == 0
    said = capsys.readouterr()
    assert said.out == f"{references[0]}\n"
    assert "changed" in said.err
    assert sources[0] in (tmp_path / "t.html").read_text(encoding="utf-8")
    assert main(["translate", sources[0], "--trace", str(tmp_path / "t.json"), *usual]) == 0
    capsys.readouterr()
    (row,) = Trace.from_json((tmp_path / "t.json").read_text(encoding="utf-8")).rows
    assert (row.source, row.text) == (sources[0], references[0])
    (tmp_path / "lack.txt").write_text(f"{sources[0]}\n{sources[1]}\n", encoding="utf-8")
    (tmp_path / "long.tsv").write_text(f"{sources[1].split()[0]}\t{'incomprehensibilities ' * 4}\n", encoding="utf-8")
    lacking = ["translate", str(tmp_path / "lack.txt"), "--terms", str(tmp_path / "long.tsv"), *usual]
    assert main(lacking) == 0
    said = capsys.readouterr()
    assert main([*lacking, "--watch"]) == 0
    watched = capsys.readouterr()
    assert watched.out == said.out
    assert watched.err.endswith(said.err)
    assert ")\n" in said.err
    with_number = ["translate", f"<p>{sources[0]}</p> 37", "--trace", str(tmp_path / "t.json"), *usual]
    assert main(with_number) == 0
    written = capsys.readouterr().out.rstrip("\n")
    (row,) = Trace.from_json((tmp_path / "t.json").read_text(encoding="utf-8")).rows
    assert "37" in row.text
    assert written.replace("<p>", "").replace("</p>", "").split() == row.text.split()
    (tmp_path / "terms.tsv").write_text("\ufeffthe\tzebra\n", encoding="utf-8")
    with_the = next(source for source in sources if "the" in source.split())
    assert main(["translate", with_the, "--terms", str(tmp_path / "terms.tsv"), *usual]) == 0
    assert "zebra" in capsys.readouterr().out
    assert main(["refine", references[0], "--source", sources[0], *usual]) == 0
    assert capsys.readouterr().out == f"{references[0]}\n"
    for content in ("", "\n", "\n\n", f"{sources[0]}\n\n"):
        (tmp_path / "blank.txt").write_text(content, encoding="utf-8")
        assert main(["translate", str(tmp_path / "blank.txt"), *usual]) == 0
        assert capsys.readouterr().out == content.replace(sources[0], references[0])
        (tmp_path / "draft.txt").write_text(content.replace(sources[0], references[0]), encoding="utf-8")
        both = [str(tmp_path / "draft.txt"), "--source", str(tmp_path / "blank.txt")]
        assert main(["refine", *both, *usual]) == 0
        assert capsys.readouterr().out == content.replace(sources[0], references[0])
    (tmp_path / "blank.txt").write_text("\n", encoding="utf-8")
    assert main(["translate", str(tmp_path / "blank.txt"), "--html", str(tmp_path / "none.html"), *usual]) == 0
    assert "there is no trace" in capsys.readouterr().err
    (tmp_path / "long.txt").write_text(f"{sources[0]}\n{' '.join(sources)}\n", encoding="utf-8")
    (tmp_path / "draft.txt").write_text(f"{references[0]}\n{references[1]}\n", encoding="utf-8")
    assert main(["refine", str(tmp_path / "draft.txt"), "--source", str(tmp_path / "long.txt"), *usual]) == 0
    assert "1 of 2 sources have more than 24 tokens and were cropped" in capsys.readouterr().err
    assert main(["refine", str(tmp_path / "long.txt"), "--source", str(tmp_path / "draft.txt"), *usual]) == 0
    said = capsys.readouterr()
    assert said.out.splitlines()[1] == " ".join(sources)
    assert "1 of 2 drafts stay as they are" in said.err
    assert main(["refine", f"{references[0]} [[1]]", "--source", sources[0], *usual]) == 3
    assert "line 1: the draft has a blank" in capsys.readouterr().err
    read, terms = str(tmp_path / "in.txt"), str(tmp_path / "terms.tsv")
    before = [Path(path).read_bytes() for path in (read, terms)]
    assert main(["translate", read, "-o", read, *usual]) == 2
    assert main(["translate", "a", "-o", terms, "--terms", terms, *usual]) == 2
    assert main(["refine", "a", "--source", read, "-o", read, *usual]) == 2
    for flag in ("--trace", "--html"):
        assert main(["translate", read, flag, read, *usual]) == 2
        assert main(["translate", "a", "--terms", terms, flag, terms, *usual]) == 2
        assert main(["refine", read, "--source", terms, flag, read, *usual]) == 2
    assert [Path(path).read_bytes() for path in (read, terms)] == before
    capsys.readouterr()
    for text, written in (("", "\n"), ("user@host.de", "user@host.de\n")):
        assert main(["translate", text, *usual]) == 0
        assert capsys.readouterr().out == written
    (tmp_path / "two.txt").write_text(f"{references[0]}\n{references[1]}\n", encoding="utf-8")
    (tmp_path / "sources.txt").write_text(f"{sources[0]}\n{sources[1]}\n", encoding="utf-8")
    drafts = ["refine", str(tmp_path / "two.txt"), "--source", str(tmp_path / "sources.txt")]
    assert main([*drafts, "--json", *usual]) == 0
    assert [json.loads(line)["text"] for line in capsys.readouterr().out.splitlines()] == references[:2]
    assert main(["refine", references[0], "--source", sources[0], "--diff", *usual]) == 0
    assert capsys.readouterr() == ("", "sundae: nothing was changed\n")


def test_a_translation_that_was_cut_short_goes_on(folder: str, pairs: Corpus, tmp_path: Path, monkeypatch, capsys):
    monkeypatch.setattr(line_by_line, "BATCH", 4)
    sources, references = sides(pairs)
    (tmp_path / "in.txt").write_text("\n".join(sources[:20]) + "\n", encoding="utf-8")
    command = ["translate", str(tmp_path / "in.txt"), "-o", str(tmp_path / "out.txt"), "--model", folder]
    whole = Translator.translate
    batches: list[int] = []

    def interrupted(self: Translator, some: Sequence[str]) -> list[list[Written]]:
        if len(batches) == 3:
            raise KeyboardInterrupt
        batches.append(len(some))
        return whole(self, some)

    monkeypatch.setattr(Translator, "translate", interrupted)
    assert main([*command, "--threads", "1"]) == 130
    assert "12 translations are kept" in capsys.readouterr().err
    assert not (tmp_path / "out.txt").exists()
    with (tmp_path / "out.txt.partial").open("a", encoding="utf-8") as file:
        file.write('["torn')
    batches[:] = [-1] * 9
    assert main([*command, "--threads", "1"]) == 0
    assert "12 translations of an earlier try" in capsys.readouterr().err
    assert len(batches) == 9 + 2
    assert (tmp_path / "out.txt").read_text(encoding="utf-8").splitlines() == references[:20]
    assert not (tmp_path / "out.txt.partial").exists()
    assert main([*command[:-2], "-o", "-", "--threads", "1"]) == 0
    assert not list(Path.cwd().glob("*.partial"))
    for torn in ("", '{"mod'):  # killed while the first line was written
        (tmp_path / "out.txt.partial").write_text(torn, encoding="utf-8")
        assert main([*command, "--threads", "1"]) == 0
        assert "earlier try" not in capsys.readouterr().err
    for others in ('{"of": "another model"}\n["the", []]\n', "my own notes", "\n"):
        (tmp_path / "out.txt.partial").write_text(others, encoding="utf-8")
        assert main([*command, "--threads", "1"]) == 3
        assert "out.txt.partial is in the way" in capsys.readouterr().err
        assert (tmp_path / "out.txt.partial").read_text(encoding="utf-8") == others


@pytest.mark.parametrize("own", ["[]", "[[1, 2.0, 3, 4]]", '[["a", 0.0]]', "{}", '[["a", 0.0, 1, null]]'])
def test_a_file_of_finished_translations_that_somebody_changed_is_not_believed(
    folder: str, pairs: Corpus, tmp_path: Path, monkeypatch, capsys, own: str
):
    sources, references = sides(pairs)
    (tmp_path / "in.txt").write_text(f"{sources[0]}\n", encoding="utf-8")
    command = [
        "translate",
        str(tmp_path / "in.txt"),
        "--model",
        folder,
        "-o",
        str(tmp_path / "out.txt"),
        "--threads",
        "1",
    ]

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("sundae.cli.translate.Command.write", interrupted)
        assert main(command) == 130
    kept = tmp_path / "out.txt.partial"
    (head, _) = kept.read_text(encoding="utf-8").splitlines()
    kept.write_text(f"{head}\n{json.dumps([sources[0], 0])[:-2]}{own}]\n", encoding="utf-8")
    capsys.readouterr()
    assert main(command) == 0
    assert "0 translations of an earlier try" in capsys.readouterr().err
    assert (tmp_path / "out.txt").read_text(encoding="utf-8") == f"{references[0]}\n"


def test_what_is_kept_is_what_could_be_written(folder: str, pairs: Corpus, tmp_path: Path, monkeypatch, capsys):
    def full(path: Path, *arguments: Any, **more: Any):
        if path.suffix == ".partial":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return whole(path, *arguments, **more)

    whole = Path.open
    monkeypatch.setattr(Path, "open", full)
    (tmp_path / "in.txt").write_text(f"{sides(pairs)[0][0]}\n", encoding="utf-8")
    both = [str(tmp_path / "in.txt"), "-o", str(tmp_path / "out.txt")]
    assert main(["translate", *both, "--model", folder, "--threads", "1"]) == 3
    said = capsys.readouterr().err
    assert "No space left" in said
    assert "are kept" not in said


@pytest.mark.parametrize(
    ("more", "code"),
    [
        (["-n", "0"], 2),
        (["--lengths", "0"], 2),
        (["-T", "0"], 2),
        (["-o", "/proc/x.txt"], 3),
        (["--rank", "leave-one-out"], 2),
        (["--terms", "/nowhere.tsv"], 3),
        (["--candidates", "0"], 2),
        (["--html", "x.html", "--ban", "the", "-T", "1", "-o", "/nowhere/x"], 3),
    ],
)
def test_what_cannot_be_is_one_line_and_an_exit_code(folder: str, capsys, more: list[str], code: int):
    assert main(["translate", "the cat", "--model", folder, "--threads", "1", *more]) == code
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize("content", ["cat\tkatze\tnote\n", "cat\tkatze\nCat\tkater\n", "cat\n", "\tkatze\n"])
def test_terms_that_are_none_are_refused(folder: str, tmp_path: Path, capsys, content: str):
    (tmp_path / "terms.tsv").write_text(content, encoding="utf-8")
    common = ["translate", "the cat", "--model", folder, "--threads", "1"]
    assert main([*common, "--terms", str(tmp_path / "terms.tsv")]) == 3
    assert "terms.tsv, line" in capsys.readouterr().err


def test_evaluate_equals_translate_and_sweeps(folder: str, pairs: Corpus, tmp_path: Path, capsys):
    sources, references = sides(pairs)
    files = [tmp_path / name for name in ("source.txt", "reference.txt")]
    for file, lines in zip(files, (sources[:20], references[:20]), strict=True):
        file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    usual = ["--model", folder, "--threads", "1"]
    both = [*usual, "--source", str(files[0]), "--reference", str(files[1])]
    assert main(["translate", str(files[0]), *usual, "-T", "3", "-o", str(tmp_path / "out.txt")]) == 0
    hypotheses = str(tmp_path / "hypotheses.txt")
    assert main(["evaluate", "translation", *both, "--hypotheses", hypotheses, "sampling.steps=3"]) == 0
    assert "length accuracy" in capsys.readouterr().out
    assert (tmp_path / "out.txt").read_bytes() == (tmp_path / "hypotheses.txt").read_bytes()
    assert main(["translate", str(files[0]), *usual, "--lengths", "3", "-t", "1", "-o", str(tmp_path / "3.txt")]) == 0
    three = [*both, "--hypotheses", hypotheses, "sampling.length_candidates=3", "sampling.temperature=1"]
    assert main(["evaluate", "translation", *three]) == 0
    assert (tmp_path / "3.txt").read_bytes() == (tmp_path / "hypotheses.txt").read_bytes()
    assert (tmp_path / "3.txt").read_bytes() != (tmp_path / "out.txt").read_bytes()
    capsys.readouterr()
    sweep = ["sampling.steps=2,4", "sampling.candidates=1,2"]
    assert main(["evaluate", "translation", *both, *sweep, "--json"]) == 0
    (table,) = json.loads(capsys.readouterr().out)["tables"]
    assert [row["settings"] for row in table["rows"]] == [
        f"sampling.steps={steps} sampling.candidates={n}" for steps in (2, 4) for n in (1, 2)
    ]
    with pytest.MonkeyPatch.context() as patch:  # what is wrong is said before any work
        patch.setattr(Sundae, "translate_many", None)
        assert main(["evaluate", "translation", *both, "sampling.steps=2,x"]) == 2
        assert main(["evaluate", "translation", *both, "sampling.steps=2", "sampling.steps=4"]) == 2
        assert main(["evaluate", "steps", *both, "--temperatures", "0.3", "-1"]) == 2
        assert main(["evaluate", "steps", *both, "-T", "0"]) == 2
        assert main(["evaluate", "translation", *both, "--out", "/proc/x"]) == 3
        assert main(["evaluate", "translation", *both, "--out", str(files[0])]) == 2
        assert main(["evaluate", "translation", *both, "--hypotheses", str(files[1])]) == 2
        assert main(["evaluate", "translation", *both, "baseline.beam=1,2"]) == 2
        assert main(["evaluate", "translation", *both, "sampling.steps=0"]) == 2
        assert main(["evaluate", "steps", *both, "--temperatures"]) == 2
    capsys.readouterr()
    files[1].write_text("one line\n", encoding="utf-8")
    assert main(["evaluate", "translation", *both]) == 3
    assert "there must be as many" in capsys.readouterr().err


def test_what_grows_step_by_step_ends_as_the_translation(folder: str, model: Sundae, pairs: Corpus, tmp_path, capsys):
    sources, references = sides(pairs)
    files = [tmp_path / name for name in ("source.txt", "reference.txt")]
    for file, lines in zip(files, (sources, references), strict=True):
        file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    command = ["evaluate", "steps", "--model", folder, "--source", str(files[0]), "--reference", str(files[1])]
    more = ["-T", "4", "--temperatures", "0.3", "2.0", "--threads", "1", "--out", str(tmp_path / "report"), "--json"]
    assert main([*command, *more]) == 0
    (table,) = json.loads(capsys.readouterr().out)["tables"]
    low, high = table["rows"][:5], table["rows"][5:]
    assert [row["step"] for row in low] == [0, 1, 2, 3, 4]
    assert low[0]["BLEU"] < 5 < 80 < low[4]["BLEU"]
    assert low[4]["model score"] > max(low[0]["model score"], high[4]["model score"])
    chain = replace(model.config.sampling, steps=4, temperature=0.3, candidates=1, stop_early=False)
    last = model.translate(sources, sampling=chain, settings=TranslateSettings(keep_numbers=False))
    assert low[4]["BLEU"] == pytest.approx(corpus_bleu([each.text for each in last], references).score)
    assert low[4]["repeated tokens"] == diversity([each.text for each in last]).repeated_tokens
    assert all(0 <= row["repeated tokens"] < 1 for row in high)
    assert all((tmp_path / "report" / f"{what}.png").exists() for what in ("bleu", "model-score", "repeated-tokens"))
    with pytest.MonkeyPatch.context() as patch:  # a large model's batches are smaller
        patch.setattr(desk, "BATCH_BYTES", 4 * 24 * model.vocabulary_size * 5)
        again, _ = by_step(model, sources[:12], references[:12], sampling=chain)
    wide, _ = by_step(model, sources[:12], references[:12], sampling=chain)
    assert [each.bleu for each in again] == [each.bleu for each in wide]
    other, _ = by_step(model, sources[:12], references[:12], sampling=chain, seed=1)
    assert other[0].score != wide[0].score
    one, _ = by_step(model, sources[:12], references[:12], sampling=replace(chain, length_candidates=3))
    assert one == wide
    ours = model.translator(sampling=chain).score(sources, [each.text for each in last])
    theirs = model.translator().score(sources, references[1:] + references[:1])
    assert sum(ours) > sum(theirs)


def test_a_teacher_distils_a_corpus_and_is_resumed(folder: str, pairs: Corpus, tmp_path: Path, capsys):
    out = tmp_path / "distilled"
    arguments = ["distill", str(pairs.folder), "--teacher", folder, "--out", str(out), "--threads", "1", "-q"]
    assert main(arguments) == 0
    corpus = Corpus.open(out)
    sources = sides(pairs)[0]
    new_sources, targets = sides(corpus)
    assert new_sources == sources
    assert targets == [each.text for each in load_model(folder).translate(sources)]
    assert [corpus.split("validation").text(row).tolist() for row in range(20)] == [
        pairs.split("validation").text(row).tolist() for row in range(20)
    ]
    assert not (tmp_path / "distilled.translations").exists()
    assert corpus.facts["inputs"] == []
    assert corpus.facts["origin"]["teacher"] == folder
    assert main(arguments) == 2
    capsys.readouterr()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.tex").write_text("mine", encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:  # what is wrong is said before any work
        patch.setattr(Sundae, "translate_many", None)
        for place, why in (("other", "it holds thesis.tex"), ("other/thesis.tex", "not a corpus but a file")):
            assert main([*arguments[:4], "--out", str(tmp_path / place), "--force"]) == 2
            assert why in capsys.readouterr().err
        assert main([*arguments[:4], "--out", str(pairs.folder), "--force"]) == 2
        (tmp_path / "new.translations").write_bytes(b"\xff\n")
        assert main([*arguments[:4], "--out", str(tmp_path / "new")]) == 3
        assert "is damaged" in capsys.readouterr().err


def test_distillation_goes_on_where_it_stopped(folder: str, pairs: Corpus, tmp_path: Path, monkeypatch, capsys):
    import sundae.cli.distill as distill

    monkeypatch.setattr(distill, "CHUNK", 10)
    out, done = tmp_path / "distilled", tmp_path / "distilled.translations"
    arguments = ["distill", str(pairs.folder), "--teacher", folder, "--out", str(out), "--threads", "1", "-q"]
    translate, asked = Sundae.translate, list[int]()

    def counting(self: Sundae, sources: list[str]):
        asked.append(len(sources))
        if len(asked) == 4:
            raise KeyboardInterrupt
        return translate(self, sources)

    monkeypatch.setattr(Sundae, "translate", counting)
    assert main(arguments) == 130
    with done.open("ab") as file:
        file.write("a torn lé".encode()[:-1])
    half = done.read_bytes()
    done.write_bytes(half.replace(b'"beam": null', b'"beam": 3'))
    assert main(arguments) == 3
    assert "other translations" in capsys.readouterr().err
    done.write_bytes(half)
    assert main([*arguments, "--beam", "2"]) == 2
    assert main(arguments) == 0
    assert asked == [10, 10, 10, 10, 10, 10, 10, 4]
    assert len(Corpus.open(out).split("train")) == 64
    assert not done.exists()


def test_a_corpus_without_validation_keeps_none_and_an_empty_translation_the_target(
    folder: str, tmp_path: Path, monkeypatch, capsys
):
    table = tmp_path / "pairs.tsv"
    table.write_text("the cat\tcat the\na dog\tdog a\n", encoding="utf-8")
    recipe = Recipe(kind="parallel", inputs=(table,), out=tmp_path / "corpus", vocabulary=270, validation="0")
    prepare(recipe)
    monkeypatch.setattr(Sundae, "translate", lambda _, sources: [Written("", 0.0, 0, 0) for _ in sources])
    (tmp_path / "out.translations").write_text("", encoding="utf-8")  # killed before its first line
    arguments = ["distill", str(tmp_path / "corpus"), "--teacher", folder, "--out", str(tmp_path / "out"), "-q"]
    assert main(arguments) == 0
    assert "2 translations are empty" in capsys.readouterr().err
    corpus = Corpus.open(tmp_path / "out")
    assert (len(corpus.split("train")), len(corpus.split("validation"))) == (2, 0)
    assert sides(corpus)[1] == ["cat the", "dog a"]


def test_a_twin_translates_through_the_same_verb_and_judges(folder: str, pairs: Corpus, tmp_path: Path, capsys):
    out = tmp_path / "run"
    arguments = ["train", "tiny", "--data", str(pairs.folder), "--out", str(out), "--threads", "1", "-q"]
    small = [each for each in SMALL if "corruption" not in each]
    assert main([*arguments, *small, "training.steps=3", "--network", "autoregressive"]) == 0
    twin = load_model(out / "model")
    assert isinstance(twin, AutoregressiveTwin)
    capsys.readouterr()
    assert main(["translate", "the cat\n\nthe dog", "--model", str(out / "model"), "--threads", "1", "-n", "2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("\t")[0] for line in lines] == ["the cat", "the cat", "", "the dog", "the dog"]
    best = twin.translate(["the cat"], baseline=BaselineConfig(beam=5))[0].text
    assert lines[0].split("\t")[1] == best
    assert main(["translate", "the cat", "--model", str(out / "model"), "-T", "3"]) == 2
    # As a judge: of SUNDAE's candidates it takes the one that it finds likeliest per token.
    capsys.readouterr()
    command = ["translate", "the big cat", "--model", folder, "-T", "2", "-t", "1", "-n", "9", "--candidates", "9"]
    assert main([*command, "--judge", str(out / "model"), "--threads", "1", "--json"]) == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    texts = [each["text"] for each in found]
    likely = twin.log_likelihood(texts, sources=["the big cat"] * len(texts))
    means = (likely.log_probability / likely.predictions).tolist()
    assert len(texts) > 1
    assert means == sorted(means, reverse=True)
    assert [each["score"] for each in found] == pytest.approx(means, abs=1e-3)
    assert twin.rate(["the cat"] * 3, ["cat " * 100, texts[0], "cat " * 100])[::2] == [TOO_LONG, TOO_LONG]
    both = ["--source", str(tmp_path / "source.txt"), "--reference", str(tmp_path / "source.txt")]
    (tmp_path / "source.txt").write_text("the big cat\n", encoding="utf-8")
    judged = ["evaluate", "translation", "--model", folder, *both, "--judge", str(out / "model"), "--json"]
    hypotheses = ["--hypotheses", str(tmp_path / "hypotheses.txt"), "--threads", "1"]
    chain = ["sampling.steps=2", "sampling.temperature=1", "sampling.candidates=9"]
    assert main([*judged, *hypotheses, *chain]) == 0
    assert (
        json.loads(capsys.readouterr().out)["config"]["translation"]["judged by"]["network"]["kind"] == "autoregressive"
    )
    assert (tmp_path / "hypotheses.txt").read_text(encoding="utf-8") == f"{texts[0]}\n"
    assert main(["translate", "the cat", "--model", folder, "--judge", folder]) == 2
    capsys.readouterr()
    for judge, code in (("en-de", 2), ("de-en", 0)):
        config = json.loads((out / "model" / "config.json").read_text(encoding="utf-8"))
        config["data"] |= {"source_language": judge[:2], "target_language": judge[3:]}
        shutil.copytree(out / "model", tmp_path / judge)
        (tmp_path / judge / "config.json").write_text(json.dumps(config), encoding="utf-8")
        shutil.copytree(folder, tmp_path / "model", dirs_exist_ok=True)
        config = json.loads((tmp_path / "model" / "config.json").read_text(encoding="utf-8"))
        config["data"] |= {"source_language": "de", "target_language": "en"}
        (tmp_path / "model" / "config.json").write_text(json.dumps(config), encoding="utf-8")
        judging = ["--model", str(tmp_path / "model"), "--judge", str(tmp_path / judge), "--threads", "1"]
        assert main(["translate", "the cat", *judging]) == code
    assert "it translates en to de, and the model de to en" in capsys.readouterr().err
    for more in (["--rank", "mbr"], ["--candidates", "1"]):
        assert main(["translate", "the cat", "--model", folder, "--judge", str(out / "model"), *more]) == 2
    assert main([*judged, "--rank", "mbr"]) == 2
    # A number that no candidate has is put in, and the judge ranks what comes of that too.
    capsys.readouterr()
    command = ["translate", "the big cat 77", "--model", folder, "-T", "2", "-n", "3", "--threads", "1", "--json"]
    assert main([*command, "--judge", str(out / "model")]) == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    rated = twin.rate(["the big cat 77"] * len(found), [each["text"] for each in found])
    assert [each["score"] for each in found] == pytest.approx(rated, abs=1e-3)
    assert main(["translate", "the cat", "--model", str(out / "model"), "--judge", str(out / "model")]) == 2
