"""The vectors of one scope, kept in place: (unit numbers, unit vectors) in, dot products by unit out.

Each vector is held as int8 with a scale of its own, since the scan is bound by the memory it reads: 10,000 units take
.34 ms after an embedding has emptied the caches, .74 in half precision. A product's error is 7e-4 (standard deviation
over 10,000 pairs of 384 numbers, 2.6e-3 at most); the model itself is 3e-3 from its float original, and recall@10 of
no set of `bench/tune_recall.py` moves by more than .001.

The owner of the units (ScopeIndex) numbers them densely. No I/O; one owner, not thread-safe.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import simsimd
from numpy.typing import NDArray

from memory.read.columns import grown

_STEPS: Final = 127.0
_SCALE_MIN: Final = 1e-12  # of an all-zero vector


class DenseIndex:
    """Vectors by unit. `dim` is their length."""

    def __init__(self, dim: int) -> None:
        self._steps: NDArray[np.int8] = np.zeros((16, dim), np.int8)
        self._scales: NDArray[np.float32] = np.zeros(16, np.float32)

    @property
    def bytes_held(self) -> int:
        """Memory, bytes, free room included."""
        return self._steps.nbytes + self._scales.nbytes

    def put(self, units: Sequence[int], vectors: NDArray[np.float32]) -> None:
        """Set the vectors of these units, shape [len(units), dim]."""
        while max(units) >= len(self._scales):
            self._steps, self._scales = grown(self._steps, 0), grown(self._scales, 0.0)
        self._steps[list(units)], self._scales[list(units)] = _quantised(vectors)

    def drop(self, units: Sequence[int]) -> None:
        """Forget the vectors of these units."""
        self._steps[list(units)] = 0
        self._scales[list(units)] = 0.0

    def products(self, vector: NDArray[np.float32], count: int) -> NDArray[np.float32]:
        """The dot product of each of the first `count` units with a vector, shape [count]; 0 for one without."""
        scale = np.float32(max(float(vector.max()), -float(vector.min()), _SCALE_MIN)) / np.float32(_STEPS)
        steps = np.rint(vector / scale).astype(np.int8)[None]
        # Without `out=`: with it simsimd 6.5.16 returns a None it does not own, so that None would be freed one day.
        sums = np.asarray(simsimd.cdist(steps, self._steps[:count], "dot", out_dtype="float32"))[0]
        products: NDArray[np.float32] = sums * (self._scales[:count] * scale)
        return products

    def nearest(self, some: Sequence[int], others: Sequence[int]) -> float:
        """The largest dot product of one of `some` with one of `others`."""
        mine, theirs = (self._steps[list(units)] * self._scales[list(units), None] for units in (some, others))
        return float((mine @ theirs.T).max())

    def between(self, units: Sequence[int]) -> NDArray[np.float32]:
        """The dot product of each two of these, shape [len(units), len(units)]."""
        own = self._steps[list(units)] * self._scales[list(units), None]
        products: NDArray[np.float32] = own @ own.T
        return products


def _quantised(vectors: NDArray[np.float32]) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """Shape [n, dim] as whole steps and the size of a step, shape [n]."""
    scales = np.maximum(np.abs(vectors).max(axis=1), _SCALE_MIN).astype(np.float32) / np.float32(_STEPS)
    return np.rint(vectors / scales[:, None]).astype(np.int8), scales
