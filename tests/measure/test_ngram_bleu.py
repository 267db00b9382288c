import csv
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from nltk.translate.bleu_score import SmoothingFunction, sentence_bleu

from sundae.errors import DataError, UsageError
from sundae.measure.ngram_bleu import bleu_against, self_bleu

ORDERS = (1, 2, 3, 4, 5)
# Few words and short texts: repeated n-grams, ties of length, duplicates and texts shorter than n come by themselves.
TEXT = st.lists(st.sampled_from("abc"), max_size=8).map(" ".join)


def nltk_bleu(hypothesis: str, references: list[str], order: int) -> float:
    score = sentence_bleu(
        [reference.split() for reference in references],
        hypothesis.split(),
        weights=(1 / order,) * order,
        smoothing_function=SmoothingFunction().method1,
    )
    return float(score)  # pyright: ignore[reportArgumentType]


@given(st.lists(TEXT, min_size=1, max_size=4), st.lists(TEXT, min_size=1, max_size=4))
@settings(max_examples=150)
@example([""], ["a"])  # empty
@example(["a"], [""])  # nothing to match
@example(["a a"], ["b b"])  # no unigram matches: 0, whatever the smoothing
@example(["a b c"], ["a b c"])  # shorter than 4 and 5
@example(["a b c"], ["a b", "a b c d"])  # two lengths equally near: the shorter counts
@example(["a a a"], ["a", "a a", "a"])  # the largest count in one reference, not the sum
def test_bleu_is_nltk_to_the_ninth_digit(samples: list[str], references: list[str]):
    found = bleu_against(samples, references=references, orders=ORDERS)
    for order in ORDERS:
        expected = [nltk_bleu(sample, references, order) for sample in samples]
        np.testing.assert_allclose(found.scores[order], expected, rtol=0, atol=1e-9)
        assert found.mean(order) == pytest.approx(sum(expected) / len(expected), abs=1e-9)


@given(st.lists(TEXT, min_size=2, max_size=6))
@settings(max_examples=200)
@example(["a b a b", "a b a b", "a b"])  # duplicates: each is the other's reference
@example(["a a a", "a a", "a"])  # three different counts: the largest of the others
@example(["a b c d e f", "a b c", "a b c d"])  # all lengths stand alone
@example(["", ""])
@example(["a b c", "a b", "a b c d"])  # a tie of lengths among the others
def test_self_bleu_is_nltk_against_all_others(samples: list[str]):
    found = self_bleu(samples, orders=ORDERS)
    for order in ORDERS:
        expected = [
            nltk_bleu(sample, samples[:number] + samples[number + 1 :], order) for number, sample in enumerate(samples)
        ]
        np.testing.assert_allclose(found.scores[order], expected, rtol=0, atol=1e-9)


def test_longer_texts_of_many_words_agree_with_nltk():
    draw = np.random.default_rng(0)
    words = [f"w{rank}" for rank in draw.zipf(1.3, 3000) % 500]
    lengths = draw.integers(3, 40, 60)
    texts = [" ".join(words[40 * number :][:length]) for number, length in enumerate(lengths)]
    samples, references = texts[:30], texts[30:]
    against, among = bleu_against(samples, references=references), self_bleu(samples)
    assert against.references == 30
    assert among.references == 29
    for order in (2, 3, 4, 5):
        for number, sample in enumerate(samples):
            assert against.scores[order][number] == pytest.approx(nltk_bleu(sample, references, order), abs=1e-9)
            others = samples[:number] + samples[number + 1 :]
            assert among.scores[order][number] == pytest.approx(nltk_bleu(sample, others, order), abs=1e-9)


def test_it_reproduces_the_published_figures_of_six_models(real_data: Callable[[str], Path]):
    coco, golden = real_data("coco_captions"), real_data("metric_golden") / "golden_bleu5.tsv"
    files = {"seqgan": "seq", "rankgan": "rank"}
    references = (coco / "gfs.valid.txt").read_text(encoding="utf-8").splitlines()
    rows = [line for line in golden.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    models = list(csv.DictReader(rows, delimiter="\t"))
    assert len(models) == 6
    for row in models:
        path = coco / "texygen_samples" / f"{files.get(row['model'], row['model'])}.txt"
        samples = path.read_text(encoding="utf-8").splitlines()
        quality = bleu_against(samples, references=references, orders=(5,)).mean(5)
        sameness = self_bleu(samples, orders=(5,)).mean(5)
        assert quality == pytest.approx(float(row["published_bleu5"]), abs=0.002), row["model"]
        assert sameness == pytest.approx(float(row["published_selfbleu5"]), abs=0.002), row["model"]


def test_what_cannot_be_scored_is_refused():
    with pytest.raises(DataError, match="0 samples and 1 references"):
        bleu_against([], references=["a"])
    with pytest.raises(DataError, match="1 samples and 0 references"):
        bleu_against(["a"], references=[])
    with pytest.raises(DataError, match="1 samples"):
        self_bleu(["a"])
    with pytest.raises(UsageError, match="orders"):
        self_bleu(["a", "b"], orders=(0, 1))
    with pytest.raises(UsageError, match="orders"):
        self_bleu(["a", "b"], orders=())
