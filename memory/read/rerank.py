"""The best candidates in a better order: (question, Recall, seconds left) -> Recall.

Fails open: when the reranker is late, fails or gives no usable scores the order stays, and the rung says `no-rerank`.
Admission stays as it was: it is calibrated on other features. Never waits for a reranker beyond its time, not even for
its cancellation.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from memory.bounded import unheard
from memory.errors import MemoryProxyFault
from memory.model import Candidate, Recall
from memory.ports import Reranker
from memory.telemetry import event

log = logging.getLogger("memory_proxy.rerank")
# Of a candidate's best window at most this is read: a window of 200 tokens has about 900 characters.
SHOWN_CHARS_MAX: Final = 1_000
# Left for the loop to come round to the answer, so that the deadline is kept and not merely aimed at.
_MARGIN_S: Final = 0.005


@dataclass(frozen=True, slots=True)
class Reranking:
    """A reranker and how far it is heard: the best `depth` are re-ranked, `weight` 0..1 is its part in a score."""

    reranker: Reranker
    depth: int
    weight: float

    async def applied(self, query: str, found: Recall, left_s: float) -> Recall:
        """The same candidates, the best `depth` in the order of their new scores; within `left_s` seconds."""
        if not found.candidates:
            return found
        head = found.candidates[: self.depth]
        scores = await self._scores(query, [_shown(candidate) for candidate in head], left_s - _MARGIN_S)
        if scores is None:
            return replace(found, rung="no-rerank") if found.rung == "full" else found
        return replace(found, candidates=self._ordered(found.candidates, scores))

    async def _scores(self, query: str, texts: Sequence[str], limit_s: float) -> Sequence[float] | None:
        """The reranker's scores, 0..1, or None."""
        if limit_s <= 0:
            return None
        task = asyncio.ensure_future(self._asked(query, texts))
        try:
            await asyncio.wait({task}, timeout=limit_s)
        finally:
            if not task.done():
                task.add_done_callback(unheard)
                task.cancel()
        if not task.done() or task.cancelled():
            return None
        if (fault := task.exception()) is not None:
            if not isinstance(fault, MemoryProxyFault):
                event(log, "rerank_failed", logging.ERROR, fault=type(fault).__name__)
            return None
        return task.result()

    async def _asked(self, query: str, texts: Sequence[str]) -> Sequence[float] | None:
        """What the reranker says, 0..1; None where that is not one finite number for each text."""
        said = await self.reranker.rerank(query, texts)
        try:
            scores = [float(score) for score in said]
        except (TypeError, ValueError):
            scores = []
        if len(scores) != len(texts) or not all(map(math.isfinite, scores)):
            event(log, "rerank_failed", logging.ERROR, fault="not one finite score for each text")
            return None
        return [min(1.0, max(0.0, score)) for score in scores]

    def _ordered(self, candidates: Sequence[Candidate], scores: Sequence[float]) -> tuple[Candidate, ...]:
        """Score = (1 - weight) x depth / (depth + places before it) + weight x the reranker's.

        The place counts 1 for the first and one half at `depth`, whatever k is. What lies beyond the depth was not
        read: its reranker's part is 0, so it stays behind, in its order. A candidate that stood before one of a higher
        score is the newer of two values (`policies/newest.py`): it gets no less than that one, and so stays before it.
        """
        placed = [
            (1 - self.weight) * self.depth / (self.depth + before) + self.weight * score
            for before, score in enumerate(scores)
        ]
        placed = _newer_first(placed, candidates)
        head = [
            replace(candidate, score=total, parts={**candidate.parts, "rerank": score})
            for candidate, total, score in zip(candidates, placed, scores, strict=False)
        ]
        tail = [
            replace(candidate, score=(1 - self.weight) * self.depth / (self.depth + before))
            for before, candidate in enumerate(candidates[len(head) :], len(head))
        ]
        return (*sorted(head, key=lambda candidate: -candidate.score), *tail)


def _newer_first(placed: Sequence[float], candidates: Sequence[Candidate]) -> list[float]:
    """The scores, each at least that of any behind it whose score had been higher."""
    kept = list(placed)
    for at in reversed(range(len(kept))):
        for behind in range(at + 1, len(kept)):
            if candidates[behind].score > candidates[at].score:
                kept[at] = max(kept[at], kept[behind])
    return kept


def _shown(candidate: Candidate) -> str:
    """What of a candidate is read: its best window."""
    start, end = candidate.shown
    return candidate.content[start : min(end, start + SHOWN_CHARS_MAX)]
