"""What a vector of a user's interests would do to recall: nothing for it and some against it, so it is not built.

    python -m bench.recall_interests                  recall@5, recall@10 and nDCG@10 by its weight, about two minutes

The mean of the vectors of what a user likes (facts of the predicate `likes`) is compared with every memory, rescaled
to 0 to 1 and added to the score with a weight, after everything else that ranks.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from bench.recall_sets import SETS, RecallSet, Vectors, read_set
from bench.tune_recall import DATA, altered, ask, ndcg_at, recall_at
from memory.adapters.embedder import OnnxEmbedder
from memory.adapters.model_files import prepare_model
from memory.adapters.model_registry import DEFAULT_MODEL, read_registry
from memory.read.arms import Floats, Part
from memory.read.index import ScopeIndex

WEIGHTS: Final = (0.0, 0.02, 0.05, 0.1, 0.2)
Scores = tuple[Floats, dict[str, Part]]


def interests(chosen: RecallSet, vectors: Vectors) -> Mapping[int, NDArray[np.float32]]:
    """The interest vector of each index that knows of any, by the index's identity."""
    found: dict[int, NDArray[np.float32]] = {}
    for index in chosen.indexes.values():
        facts = [item for item in index._items.values() if item.attributes.get("predicate") == "likes"]
        liked = [item.content for item in facts if not item.attributes.get("negated")]
        if liked:
            mean = vectors.of(liked).mean(axis=0)
            found[id(index)] = (mean / np.linalg.norm(mean)).astype(np.float32)
    return found


def with_interests(known: Mapping[int, NDArray[np.float32]], weight: float) -> Callable[..., Scores]:
    """`ScopeIndex._scores` with the part."""
    plain = ScopeIndex._scores

    def scores(self: ScopeIndex, query: Any, arms: Any) -> Scores:
        found, parts = plain(self, query, arms)
        vector = known.get(id(self))
        if vector is None or not weight:
            return found, parts
        near = self._best_by_item(self._dense.products(vector, self._unit_count), -1.0)[query.visible.pick]
        low, high = float(near.min()), float(near.max())
        return found + np.float32(weight) * (near - low) / np.float32(max(high - low, 1e-6)), parts

    return scores


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir()) / "memory-proxy-recall")
    options = parser.parse_args()
    embedder = OnnxEmbedder(prepare_model(read_registry()[DEFAULT_MODEL], options.cache, print))
    vectors = Vectors(embedder, options.cache / "vectors")
    try:
        for name in SETS:
            chosen = read_set(options.data, name, vectors)
            known = interests(chosen, vectors)
            print(f"{name}: {len(known)} of {len(chosen.indexes)} scopes have likes", flush=True)
            for weight in WEIGHTS:
                with altered(ScopeIndex, _scores=with_interests(known, weight)):
                    found = ask(chosen, k=10)
                figures = f"{recall_at(found, 5):.3f}  {recall_at(found, 10):.3f}  {ndcg_at(found, 10):.3f}"
                print(f"  weight {weight:.2f}   {figures}", flush=True)
    finally:
        embedder.close()


if __name__ == "__main__":
    main()
