import pytest

from sundae.errors import DataError
from sundae.measure.bleu import corpus_bleu

pytest.importorskip("sacrebleu")


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
