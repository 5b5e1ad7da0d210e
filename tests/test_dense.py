"""The vectors of a scope: their products, with units that come and go."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from memory.read.dense import DenseIndex

DIM = 384


def vectors(count: int, seed: int) -> NDArray[np.float32]:
    drawn = np.random.default_rng(seed).standard_normal((count, DIM)).astype(np.float32)
    return np.asarray(drawn / np.linalg.norm(drawn, axis=1, keepdims=True), np.float32)


def test_products_are_those_of_the_vectors_but_for_a_step_of_int8() -> None:
    held, query = vectors(2_000, 1), vectors(1, 2)[0]
    dense = DenseIndex(DIM)
    for unit in range(0, 2_000, 2):
        dense.put([unit, unit + 1], held[unit : unit + 2])
    errors = dense.products(query, 2_000) - held @ query
    assert np.abs(errors).max() < 4e-3
    assert errors.std() < 1e-3


def test_a_unit_used_again_has_its_new_vector_and_a_dropped_one_none() -> None:
    one, other = vectors(2, 3)
    dense = DenseIndex(DIM)
    dense.put([5], one[None])
    dense.put([6], one[None])
    dense.drop([5])
    dense.put([6], other[None])
    found = dense.products(other, 7)
    assert found[5] == 0.0
    assert abs(found[6] - 1.0) < 4e-3


def test_a_vector_of_zeros_is_no_fault() -> None:
    dense = DenseIndex(DIM)
    dense.put([0], np.zeros((1, DIM), np.float32))
    assert dense.products(vectors(1, 4)[0], 1)[0] == 0.0
    assert dense.products(np.zeros(DIM, np.float32), 1)[0] == 0.0


def test_the_nearest_of_two_groups_is_their_best_pair() -> None:
    some = vectors(3, 5)
    dense = DenseIndex(DIM)
    dense.put([0, 1, 2], some)
    dense.put([3], some[1:2])
    assert abs(dense.nearest([0, 1], [2, 3]) - 1.0) < 8e-3
    assert dense.nearest([0], [2]) < 0.5
