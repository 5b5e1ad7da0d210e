"""Scores of ranked turn ids against known evidence: rankings in, means with bootstrap intervals out. Pure.

`recall@k` is the share of a question's gold turns among the first k turns, `any@k` and `all@k` whether one or all of
them are; nDCG@10 counts every gold turn 1; MRR is 1 / rank of the first. Intervals resample whole scopes, since the
questions of one conversation are not independent: with four scopes they are wide, and rightly so.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from bench.recall.corpus import Question

DEPTHS: Final = (1, 5, 10, 20)
RESAMPLES: Final = 2_000
_SEED: Final = 20_260_101


@dataclass(frozen=True, slots=True)
class Ranked:
    """A question with the turns found for it, best first."""

    question: Question
    ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Figure:
    """A mean with its 95 % interval."""

    mean: float
    low: float
    high: float

    def rounded(self) -> dict[str, float]:
        """Ready for JSON."""
        return {"mean": round(self.mean, 4), "low": round(self.low, 4), "high": round(self.high, 4)}


def recall_at(ranked: Ranked, depth: int) -> float:
    """Share of the gold among the first `depth`."""
    return len(ranked.question.gold.intersection(ranked.ids[:depth])) / len(ranked.question.gold)


def share_of_gold(ranked: Ranked) -> float:
    """Share of the gold among all that was found."""
    return recall_at(ranked, len(ranked.ids))


def ndcg_at(ranked: Ranked, depth: int) -> float:
    """Discounted gain over the best possible one."""
    gold = ranked.question.gold
    gain = sum(1 / math.log2(rank + 2) for rank, turn_id in enumerate(ranked.ids[:depth]) if turn_id in gold)
    return gain / sum(1 / math.log2(rank + 2) for rank in range(min(depth, len(gold))))


def reciprocal_rank(ranked: Ranked) -> float:
    """1 / rank of the first gold turn, 0 where none was found."""
    return 1 / (1 + first_rank(ranked.ids, ranked.question.gold))


def first_rank(ids: Sequence[str], wanted: frozenset[str]) -> float:
    """The rank (from 0) of the first wanted turn, infinite where none was found."""
    return min((rank for rank, turn_id in enumerate(ids) if turn_id in wanted), default=math.inf)


def measures() -> dict[str, Callable[[Ranked], float]]:
    """All measures of one ranking by name."""
    found: dict[str, Callable[[Ranked], float]] = {}
    for depth in DEPTHS:
        found[f"recall@{depth}"] = lambda ranked, depth=depth: recall_at(ranked, depth)  # type: ignore[misc]
    for depth in DEPTHS:
        found[f"any@{depth}"] = lambda ranked, depth=depth: float(recall_at(ranked, depth) > 0)  # type: ignore[misc]
        found[f"all@{depth}"] = lambda ranked, depth=depth: float(recall_at(ranked, depth) == 1)  # type: ignore[misc]
    return {**found, "ndcg@10": lambda ranked: ndcg_at(ranked, 10), "mrr": reciprocal_rank}


def figure(rankings: Sequence[Ranked], measure: Callable[[Ranked], float]) -> Figure:
    """The mean of a measure over questions, and its interval over resampled scopes."""
    return bootstrapped([(ranked.question.scope, measure(ranked)) for ranked in rankings])


def difference(ours: Sequence[Ranked], theirs: Sequence[Ranked], measure: Callable[[Ranked], float]) -> Figure:
    """The mean of what we have more than they, question by question, and its interval."""
    pairs = zip(ours, theirs, strict=True)
    return bootstrapped([(mine.question.scope, measure(mine) - measure(other)) for mine, other in pairs])


def by_kind(rankings: Sequence[Ranked], measure: Callable[[Ranked], float]) -> dict[str, tuple[float, int]]:
    """Mean of a measure and number of questions, by type of question."""
    groups: dict[str, list[float]] = defaultdict(list)
    for ranked in rankings:
        groups[ranked.question.kind].append(measure(ranked))
    return {kind: (float(np.mean(values)), len(values)) for kind, values in sorted(groups.items())}


def updated_above(rankings: Sequence[Ranked]) -> tuple[int, int]:
    """Of the questions with an outdated turn: how often the first new one ranks above the first outdated, of how many.

    Neither found counts as not above.
    """
    asked = [ranked for ranked in rankings if ranked.question.stale]
    right = (first_rank(r.ids, r.question.gold) < first_rank(r.ids, r.question.stale) for r in asked)
    return sum(right), len(asked)


def auc(positive: Sequence[float], negative: Sequence[float]) -> float | None:
    """Chance that a positive scores above a negative, ties half; None without one of either."""
    if not positive or not negative:
        return None
    high, low = np.array(positive)[:, None], np.array(negative)
    return float((high > low).mean() + (high == low).mean() / 2)


def auc_figure(positive: Sequence[tuple[str, float]], negative: Sequence[tuple[str, float]]) -> Figure | None:
    """The same of (scope, score), with its interval over resampled scopes; None without one of either.

    A drawn set of scopes that has only positives or only negatives says nothing and is left out.
    """
    area = auc([score for _, score in positive], [score for _, score in negative])
    if area is None:
        return None
    scopes = sorted({scope for scope, _ in (*positive, *negative)})
    highs, lows = ([[v for s, v in side if s == scope] for scope in scopes] for side in (positive, negative))
    wins: NDArray[np.float64] = np.array(
        [[(auc(high, low) or 0.0) * len(high) * len(low) for low in lows] for high in highs], np.float64
    )
    sizes = [np.array([len(one) for one in side], np.float64) for side in (highs, lows)]
    drawn = np.random.default_rng(_SEED).integers(0, len(scopes), (RESAMPLES, len(scopes)))
    times: NDArray[np.float64] = np.stack([(drawn == at).sum(axis=1) for at in range(len(scopes))], axis=1) * 1.0
    pairs = (times @ sizes[0]) * (times @ sizes[1])
    areas = ((times @ wins) * times).sum(axis=1)[pairs > 0] / pairs[pairs > 0]
    low, high = np.quantile(areas, (0.025, 0.975))
    return Figure(area, float(low), float(high))


def bootstrapped(values: Sequence[tuple[str, float]]) -> Figure:
    """The mean of (scope, value), one or more of them, with its interval over resampled scopes."""
    groups: dict[str, list[float]] = defaultdict(list)
    for scope, value in values:
        groups[scope].append(value)
    sums: NDArray[np.float64] = np.array([sum(group) for group in groups.values()])
    counts: NDArray[np.float64] = np.array([len(group) for group in groups.values()], np.float64)
    drawn = np.random.default_rng(_SEED).integers(0, len(groups), (RESAMPLES, len(groups)))
    means = sums[drawn].sum(axis=1) / counts[drawn].sum(axis=1)
    low, high = np.quantile(means, (0.025, 0.975))
    return Figure(float(sums.sum() / counts.sum()), float(low), float(high))
