"""Frechet distance between two clouds of embeddings, each taken as a normal distribution."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sundae.errors import DataError


def frechet_distance(first: ArrayLike, second: ArrayLike) -> float:
    """Squared distance of the means plus tr(C1 + C2 - 2 (C1 C2)^1/2), for embeddings of shape items x numbers.

    It shrinks as samples grow: compare only figures that were made from equal numbers.
    """
    one, two = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    if one.ndim != 2 or two.ndim != 2 or one.shape[1] != two.shape[1]:
        raise DataError(f"embeddings of shapes {one.shape} and {two.shape}", why="both are items x the same numbers")
    if min(len(one), len(two)) < 2:
        raise DataError(f"{len(one)} and {len(two)} embeddings", why="a covariance needs at least two")
    covariances = [np.atleast_2d(np.cov(side, rowvar=False)) for side in (one, two)]
    # The eigenvalues of (C1 C2)^1/2 are the singular values of C1^1/2 C2^1/2: real, and no digits lost by squaring.
    shared = np.linalg.svd(_root(covariances[0]) @ _root(covariances[1]), compute_uv=False).sum()
    apart = one.mean(axis=0) - two.mean(axis=0)
    return float(apart @ apart + np.trace(covariances[0]) + np.trace(covariances[1]) - 2 * shared)


def _root(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """Symmetric square root of a positive semi-definite matrix."""
    values, vectors = np.linalg.eigh(matrix)
    rounding = len(values) * np.finfo(values.dtype).eps * values.max()  # an eigenvalue below it is zero
    return (vectors * np.sqrt(np.where(values > rounding, values, 0))) @ vectors.T
