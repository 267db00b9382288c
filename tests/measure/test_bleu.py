import logging
import random

import numpy as np
import pytest

from sundae.errors import DataError
from sundae.measure.bleu import (
    bleu_interval,
    compare_bleu,
    corpus_bleu,
    corpus_chrf,
    score_of_counts,
    sentence_counts,
    tokenised_bleu,
)
from sundae.measure.bootstrap import draw_resamples

pytest.importorskip("sacrebleu")


def systems(sentences: int = 60) -> tuple[list[str], list[str], list[str]]:
    """A better system, a worse one, and references; the 13a tokenisation and case have something to do."""
    draw = random.Random(0)
    words = ["The", "cat", "sat", "on", "a", "mat,", "it's", "3.5", "dogs.", "ran", "far", "AWAY"]
    references = [" ".join(draw.choices(words, k=draw.randint(4, 12))) for _ in range(sentences)]

    def damage(text: str, share: float) -> str:
        return " ".join(draw.choice(words) if draw.random() < share else word for word in text.split())

    return [damage(text, 0.15) for text in references], [damage(text, 0.3) for text in references], references


def test_a_perfect_translation_scores_100_and_says_how():
    lines = ["The cat sat on the mat .", "It was a very good day for a walk ."]
    bleu = corpus_bleu(lines, lines)
    assert bleu.score == pytest.approx(100)
    assert bleu.signature.startswith("nrefs:1|case:mixed|")
    assert "tok:13a" in bleu.signature


def test_references_are_not_passed_transposed():
    # Two hypotheses, each right for its own reference and wrong for the other.
    bleu = corpus_bleu(["a b c d e f", "u v w x y z"], ["a b c d e f", "u v w x y z"])
    assert bleu.score == pytest.approx(100)


def test_unequal_numbers_are_refused_with_both_counts():
    with pytest.raises(DataError, match="2 hypotheses and 1 references"):
        corpus_bleu(["a", "b"], ["a"])
    with pytest.raises(DataError, match="1 hypotheses and 2 references"):
        corpus_chrf(["a"], ["a", "b"])
    with pytest.raises(DataError, match="no hypotheses"):
        tokenised_bleu([], [])


def test_tokenised_bleu_folds_case_leaves_tokens_and_says_so(caplog: pytest.LogCaptureFixture):
    references = ["the cat isn't on the mat ."] * 120
    with caplog.at_level(logging.WARNING, logger="sacrebleu"):
        shouted = tokenised_bleu(["THE CAT ISN'T ON THE MAT ."] * 120, references)
    assert shouted.score == pytest.approx(100)
    assert "case:lc" in shouted.signature
    assert "tok:none" in shouted.signature
    assert not caplog.records  # it knows that the text is tokenised
    # "mat." is another token than "mat ."; the 13a tokenisation would split it.
    assert tokenised_bleu(["the cat isn't on the mat."] * 120, references).score < 90


def test_chrf_gives_credit_for_half_a_word_and_says_how():
    assert corpus_chrf(["unbelievable"], ["unbelievable"]).score == pytest.approx(100)
    near, far = corpus_chrf(["unbelievably"], ["unbelievable"]), corpus_chrf(["xyzzy"], ["unbelievable"])
    assert 50 < near.score < 100
    assert far.score == 0
    assert "nc:6" in near.signature
    assert "nw:0" in near.signature


@pytest.mark.parametrize("tokenised", [False, True])
def test_a_resample_scores_what_sacrebleu_gives_its_sentences(tokenised: bool):
    better, _, references = systems()
    better[3] = ""  # an empty translation is a translation
    score = tokenised_bleu if tokenised else corpus_bleu
    counts = sentence_counts(better, references, tokenised=tokenised)
    for drawn in draw_resamples(len(references), resamples=5, seed=2):
        expected = score([better[i] for i in drawn], [references[i] for i in drawn]).score
        found = score_of_counts(counts[drawn].sum(axis=0, keepdims=True).astype(np.float64))
        assert found.tolist() == [pytest.approx(expected, abs=1e-9)]


def test_smoothing_is_sacrebleus_where_no_long_ngram_matches():
    hypotheses, references = ["a b x c d y", "p q"], ["a b z c d w", "p r"]
    counts = sentence_counts(hypotheses, references).sum(axis=0, keepdims=True).astype(np.float64)
    assert counts[0, 4] == 0  # no trigram
    expected = corpus_bleu(hypotheses, references).score
    assert expected > 0
    assert score_of_counts(counts).tolist() == [pytest.approx(expected, abs=1e-9)]


def test_the_difference_of_two_systems_is_paired_and_signed():
    better, worse, references = systems()
    found = compare_bleu(better, worse, references=references, resamples=60, seed=1)
    scores = found.scores
    assert scores.first.value == pytest.approx(corpus_bleu(better, references).score)
    assert scores.second.value == pytest.approx(corpus_bleu(worse, references).score)
    assert scores.difference.value == pytest.approx(scores.first.value - scores.second.value)
    assert scores.decided
    assert found.signature == corpus_bleu(better, references).signature
    by_hand = [
        corpus_bleu([better[i] for i in drawn], [references[i] for i in drawn]).score
        - corpus_bleu([worse[i] for i in drawn], [references[i] for i in drawn]).score
        for drawn in draw_resamples(len(references), resamples=60, seed=1)
    ]
    assert scores.first_wins == np.mean(np.array(by_hand) > 0)
    low, high = np.quantile(by_hand, 0.025, method="lower"), np.quantile(by_hand, 0.975, method="higher")
    assert (scores.difference.low, scores.difference.high) == (pytest.approx(low), pytest.approx(high))


def test_the_interval_of_one_system_has_its_score_and_signature():
    better, _, references = systems()
    found = bleu_interval(better, references=references, tokenised=True, resamples=100)
    assert found.score.low < found.score.value < found.score.high
    assert found.score.value == pytest.approx(tokenised_bleu(better, references).score)
    assert "tok:none" in found.signature


def test_text_that_looks_tokenised_is_warned_of_unless_one_is_to_be_quiet(caplog: pytest.LogCaptureFixture):
    tokenised = ["the cat sees the dog ."] * 200
    loud = corpus_bleu(tokenised, tokenised)
    assert "tokenized" in caplog.text
    caplog.clear()
    assert corpus_bleu(tokenised, tokenised, quiet=True) == loud
    assert not caplog.text
