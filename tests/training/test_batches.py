import itertools
from pathlib import Path

import numpy as np
import pytest

from sundae.config import RunConfig
from sundae.errors import DataError
from sundae.text.corpus import Corpus
from sundae.training.batches import Batch, Cursor, batches_from, plan_for
from training.corpora import crop_corpus, parallel_corpus, sentence_corpus


def config_for(corpus: Corpus, **training: object) -> RunConfig:
    network: dict[str, object] = {"vocabulary_size": corpus.vocabulary_size, "canvas": corpus.canvas or 16}
    if corpus.kind == "parallel":
        network["encoder_layers"] = 1
    return RunConfig().updated({"network": network, "data": {"kind": corpus.kind}, "training": training})


def take(plan, cursor: Cursor, count: int) -> list[tuple[Batch, Cursor]]:
    return list(itertools.islice(batches_from(plan, cursor), count))


@pytest.mark.parametrize("make", [sentence_corpus, crop_corpus, parallel_corpus])
def test_a_cursor_is_all_that_resuming_needs(tmp_path: Path, make):
    corpus = make(tmp_path)
    plan = plan_for(config_for(corpus, batch_size=16), corpus.split("train"))
    steps = take(plan, Cursor(), 60)
    assert {cursor.epoch for _, cursor in steps} >= {0, 1}
    again = take(plan_for(config_for(corpus, batch_size=16), corpus.split("train")), steps[24][1], 35)
    for (one, after_one), (other, after_other) in zip(steps[25:], again, strict=True):
        assert after_one == after_other
        assert one.clean.equal(other.clean)


def test_an_epoch_of_sentences_shows_each_at_most_once_and_epochs_differ(tmp_path: Path):
    corpus = sentence_corpus(tmp_path)
    split = corpus.split("train")
    plan = plan_for(config_for(corpus, batch_size=16), split)
    first, second = (np.concatenate(plan.epoch(number)) for number in (0, 1))
    assert len(set(first.tolist())) == len(first) == len(split) // 16 * 16
    assert first.tolist() != second.tolist()
    assert first.tolist() == np.concatenate(plan.epoch(0)).tolist()


def test_an_epoch_of_pairs_shows_each_exactly_once_on_its_own_canvas(tmp_path: Path):
    corpus = parallel_corpus(tmp_path)
    split = corpus.split("train")
    plan = plan_for(config_for(corpus, batch_tokens=64), split)
    rows = plan.epoch(0)
    assert sorted(np.concatenate(rows).tolist()) == list(range(len(split)))
    for batch in (plan.load(each) for each in rows):
        assert batch.inside.all(), "bucketing leaves nothing beyond a canvas"
        assert batch.tokens <= 64 or len(batch.clean) == 1
        assert batch.clean.shape[1] in (8, 16, 24)
        assert batch.source is not None
        assert batch.source_inside is not None
        assert ((batch.source != 0) == batch.source_inside).all()


def test_sources_of_a_batch_are_about_as_long(tmp_path: Path):
    corpus = parallel_corpus(tmp_path)
    split = corpus.split("train")
    plan = plan_for(config_for(corpus, batch_tokens=64), split)
    lengths, spread, mixed = split.lengths("source"), [], []
    for epoch in range(4):
        batches = plan.epoch(epoch)
        shuffled = np.random.default_rng(epoch).permutation(np.concatenate(batches))
        ends = np.cumsum([len(rows) for rows in batches])[:-1]
        spread += [np.ptp(lengths[rows]) for rows in batches]
        mixed += [np.ptp(lengths[rows]) for rows in np.split(shuffled, ends)]
    assert np.mean(spread) < np.mean(mixed) / 2


def test_without_length_prediction_every_canvas_is_the_same(tmp_path: Path):
    corpus = parallel_corpus(tmp_path)
    config = config_for(corpus, batch_size=8).updated({"network": {"length_prediction": False}})
    plan = plan_for(config, corpus.split("train"))
    assert {plan.load(rows).clean.shape[1] for rows in plan.epoch(0)} == {24}


def test_crops_come_from_the_text(tmp_path: Path):
    corpus = crop_corpus(tmp_path)
    split = corpus.split("train")
    stream = split.text(0).tolist()
    plan = plan_for(config_for(corpus, batch_size=4), split)
    batch = plan.load(plan.epoch(0)[0])
    for row in batch.clean.tolist():
        assert any(stream[i : i + 16] == row for i in range(len(stream)))


def test_a_corpus_smaller_than_a_batch_is_trained_on_whole(tmp_path: Path):
    corpus = sentence_corpus(tmp_path, count=45)
    plan = plan_for(config_for(corpus, batch_size=4096), corpus.split("train"))
    assert len(plan.epoch(0)) == 1


def test_too_little_text_is_a_clear_error(tmp_path: Path):
    corpus = crop_corpus(tmp_path)
    config = config_for(corpus).updated({"network": {"canvas": 100_000}})
    with pytest.raises(DataError, match="fewer than one canvas"):
        plan_for(config, corpus.split("train"))
