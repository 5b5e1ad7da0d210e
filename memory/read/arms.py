"""Raw scores of the arms in, fused scores and their parts out: the array half of ranking. Pure; refuses nothing."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from policies import ranking

Floats = NDArray[np.float32]
Part = Floats | float
"""A part of the score: of each, or one for all of them."""
Pick = slice | NDArray[np.intp]
"""Some slots, ascending; a slice is of all from the first."""
PLACES: Final = ("lexical_place", "dense_place")
_PARTS_EACH: Final = 4


@dataclass(frozen=True, slots=True)
class Arms:
    """Raw scores by unit, and by item for those that take part; `dense` is None without vector."""

    unit_lexical: Floats
    unit_dense: Floats | None
    lexical: Floats
    dense: Floats | None


def places(arms: Arms, chosen: list[int]) -> dict[str, Floats]:
    """For each of the chosen its place among the visible by each arm alone, from 1; equals share the best one."""
    found: dict[str, Floats] = {}
    for name, values in zip(PLACES, (arms.lexical, arms.dense), strict=True):
        if values is not None:
            theirs = values[chosen]
            better = len(values) - np.sort(values).searchsorted(theirs, side="right")
            found[name] = better.astype(np.float32) + 1.0
    return found


def best(
    scores: Floats, count: int, pick: Pick, occurred: NDArray[np.float64], identity: NDArray[Any]
) -> NDArray[np.intp]:
    """Positions of the `count` best, best first; of equal scores the later one, then the one of lower identity.

    `pick` are the slots that have scores, `occurred` and `identity` are by slot.
    """
    top = np.flatnonzero(scores >= _floor(scores, count))
    slots = top if isinstance(pick, slice) else pick[top]
    return top[np.lexsort((identity[slots], -occurred[slots], -scores[top]))][:count]


def best_of(some: NDArray[np.bool_], scores: Floats, count: int) -> NDArray[np.intp]:
    """Positions of the `count` best of some of them, best first."""
    places = np.flatnonzero(some)
    theirs = scores[places]
    if len(places) > count:
        near = np.flatnonzero(theirs >= np.partition(theirs, len(places) - count)[len(places) - count])
        places, theirs = places[near], theirs[near]
    return places[np.argsort(-theirs)[:count]]


def _floor(scores: Floats, count: int) -> float:
    """A score that at least `count` of them reach and not many more, or all.

    The `count`-th best of the bests of equal parts: it costs a third of the `count`-th best itself (87 us of 10,000).
    A part is every so many-th of them, since the best stand together: those of one session next to each other.
    """
    parts = _PARTS_EACH * count
    if len(scores) <= parts:
        return -math.inf
    width = len(scores) // parts
    bests = scores[: parts * width].reshape(width, parts).max(axis=0)
    return float(np.partition(bests, parts - count)[parts - count])


def spread(arms: Arms) -> tuple[float, float]:
    """Mean and standard deviation, never 0, of the dense scores; 0 and 1 without vector."""
    if arms.dense is None:
        return 0.0, 1.0
    mean = float(np.add.reduce(arms.dense)) / len(arms.dense)
    off = arms.dense - np.float32(mean)
    return mean, max(math.sqrt(float(np.dot(off, off)) / len(off)), 1e-6)


def unaided(parts: Mapping[str, Any], weights: ranking.Weights) -> Floats:
    """All of the score that needs neither the vector nor other scores."""
    score: Floats = ranking.unaided(parts["lexical"], parts["demotion"], parts["speaker"], parts["prior"], weights)
    return score + parts["in_time"] * weights.in_time if "in_time" in parts else score


def best_standing(
    places: NDArray[np.intp], slots: Pick, scores: Floats, occurred: NDArray[np.float64], identity: NDArray[Any]
) -> Part:
    """1 for the few of these places that are best without it, else 0; shape of `scores`. `slots` are theirs."""
    if not len(places):
        return 0.0
    chosen = np.zeros(len(scores), np.float32)
    chosen[places[best(scores[places], ranking.STANDING_MAX, slots, occurred, identity)]] = 1.0
    return chosen


def explained_by(
    parts: Mapping[str, Part], of_chosen: Mapping[str, Floats], chosen: list[int]
) -> list[dict[str, float]]:
    """The parts of each of the chosen; `parts` are of all that is visible, `of_chosen` of the chosen alone."""
    at = np.asarray(chosen, np.intp)
    columns = [
        *([one] * len(chosen) if isinstance(one, float) else one[at].tolist() for one in parts.values()),
        *(values.tolist() for values in of_chosen.values()),
    ]
    names = (*parts, *of_chosen)
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
