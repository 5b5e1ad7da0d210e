"""Raw scores of the arms in, fused scores and their parts out: the array half of ranking. Pure; refuses nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from policies import ranking

Floats = NDArray[np.float32]
PLACES: Final = ("lexical_place", "dense_place")


@dataclass(frozen=True, slots=True)
class Arms:
    """Raw scores by unit and by item; `visible` are the item slots that take part, `dense` is None without vector."""

    visible: NDArray[np.intp]
    unit_lexical: Floats
    unit_dense: Floats | None
    lexical: Floats
    dense: Floats | None


def fused(arms: Arms, demotion: Floats, speaker: Floats, weights: ranking.Weights) -> tuple[Floats, dict[str, Floats]]:
    """Scores of the visible items and the scaled parts they are made of; by words alone where there is no vector."""
    lexical = ranking.rescale(arms.lexical, 0.0, float(arms.lexical.max()))
    parts = {"lexical": lexical, "demotion": demotion, "speaker": speaker}
    if arms.dense is None:
        return ranking.fuse(lexical * 0.0, lexical, demotion, speaker, ranking.LEXICAL_ONLY), parts
    dense = ranking.rescale(arms.dense, float(arms.dense.min()), float(arms.dense.max()))
    return ranking.fuse(dense, lexical, demotion, speaker, weights), {"dense": dense, **parts}


def places(arms: Arms, chosen: list[int]) -> dict[str, Floats]:
    """For each of the chosen its place among the visible by each arm alone, from 1; equals share the best one."""
    found: dict[str, Floats] = {}
    for name, values in zip(PLACES, (arms.lexical, arms.dense), strict=True):
        if values is not None:
            better = [np.count_nonzero(values > values[at]) for at in chosen]
            found[name] = np.asarray(better, np.float32) + 1.0
    return found


def best(scores: Floats, ties: tuple[NDArray[Any], ...], count: int) -> NDArray[np.intp]:
    """Positions of the `count` best, best first; equal scores by the last of `ties`, then by the one before it."""
    if count < len(scores):
        last = np.partition(scores, len(scores) - count)[len(scores) - count]
        top = np.flatnonzero(scores >= last)
    else:
        top = np.arange(len(scores))
    return top[np.lexsort((*(values[top] for values in ties), -scores[top]))][:count]


def margins(arms: Arms) -> Floats | None:
    """Dense scores in standard deviations above the mean of the visible; 0 where all are alike."""
    if arms.dense is None:
        return None
    spread = float(arms.dense.std())
    above: Floats = (arms.dense - arms.dense.mean()) / max(spread, 1e-6)
    return above
