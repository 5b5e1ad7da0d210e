"""One evaluation set through the service: imported, asked, scored beside BM25. An EvalSet in, a SetResult out.

Several users import at once, as they would; questions are asked one after the other, for their times.
Raises CallFailed; a turn of another scope among the answers is counted, not raised.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Final

import aiohttp

from bench.recall.baseline import SingleTurnBm25
from bench.recall.client import Found, import_turns, search
from bench.recall.corpus import EvalSet, Question
from bench.recall.score import Figure, Ranked, auc, by_kind, difference, figure, measures, recall_at, updated_above
from bench.stats import Summary

Say = Callable[[str], None]
SEARCHED: Final = 20
IMPORTS_AT_ONCE: Final = 8
SAY_EVERY_S: Final = 5.0
# What must hold on the shared sets: turn recall@10. None: not below BM25 of the same run.
FLOORS: Final[dict[str, float | None]] = {"locomo": 0.72, "beam": 0.54, "memsim": None}


@dataclass(frozen=True, slots=True)
class Asked:
    """A question with what the service and BM25 found for it."""

    question: Question
    found: Found
    bm25: tuple[str, ...]


class Progress:
    """Says how far a long step is, now and then."""

    def __init__(self, what: str, total: int, say: Say) -> None:
        self._what = what
        self._total = total
        self._say = say
        self._done = 0
        self._started = self._said_at = perf_counter()

    @property
    def seconds(self) -> float:
        """Since the step began."""
        return perf_counter() - self._started

    def moved(self, by: int) -> None:
        """So many more are done."""
        self._done += by
        now = perf_counter()
        if now - self._said_at >= SAY_EVERY_S:
            self._said_at = now
            self._say(f"{self._what}: {self._done} of {self._total}, {self._done / (now - self._started):.1f}/s")


async def import_set(client: aiohttp.ClientSession, url: str, chosen: EvalSet, say: Say) -> float:
    """Import every scope; returns the seconds until all turns were searchable. Raises CallFailed."""
    progress = Progress(f"{chosen.name}: turns imported", chosen.turn_count, say)
    room = asyncio.Semaphore(IMPORTS_AT_ONCE)

    async def one(scope: str) -> None:
        async with room:
            await import_turns(client, url, scope, chosen.lines[scope], progress.moved)

    await asyncio.gather(*map(one, chosen.lines))
    return progress.seconds


async def ask_set(client: aiohttp.ClientSession, url: str, chosen: EvalSet, say: Say) -> list[Asked]:
    """Ask every question, the unanswerable too. Raises CallFailed."""
    indexes = {scope: SingleTurnBm25(lines) for scope, lines in chosen.lines.items()}
    progress = Progress(f"{chosen.name}: questions asked", len(chosen.questions), say)
    asked = []
    for question in chosen.questions:
        found = await search(client, url, question.scope, question.text, SEARCHED)
        asked.append(Asked(question, found, indexes[question.scope].ranked(question.text, SEARCHED)))
        progress.moved(1)
    return asked


def set_result(chosen: EvalSet, asked: Sequence[Asked], import_s: float) -> dict[str, Any]:
    """All figures of one set, ready for JSON."""
    answerable = [a for a in asked if a.question.answerable]
    ours = [Ranked(a.question, a.found.ids) for a in answerable]
    bm25 = [Ranked(a.question, a.bm25) for a in answerable]
    millis = Summary.of([a.found.millis for a in asked])
    return {
        "scopes": len(chosen.lines),
        "turns": chosen.turn_count,
        "answerable": len(answerable),
        "unanswerable": len(asked) - len(answerable),
        "ours": _figures(ours),
        "bm25": _figures(bm25),
        "more_than_bm25": {"recall@10": _plain(difference(ours, bm25, lambda ranked: recall_at(ranked, 10)))},
        "by_kind": _by_kind(ours, bm25),
        "updates": _updates(ours, bm25),
        "admission": _admission(asked),
        "leaks": leak_count(chosen, asked),
        "import": {"seconds": round(import_s, 1), "turns_per_s": round(chosen.turn_count / import_s, 1)},
        "search_ms": {name: round(value, 2) for name, value in millis.as_json().items()},
        "rungs": {rung: sum(a.found.rung == rung for a in asked) for rung in sorted({a.found.rung for a in asked})},
    }


def leak_count(chosen: EvalSet, asked: Sequence[Asked]) -> int:
    """Turns among the answers that are not of the asking scope. Anything but 0 is a defect of the highest severity."""
    own = {scope: {line["source_id"] for line in lines} for scope, lines in chosen.lines.items()}
    return sum(turn_id not in own[a.question.scope] for a in asked for turn_id in a.found.ids)


def floor_of(name: str, result: Mapping[str, Any]) -> float:
    """The least turn recall@10 that a set may have."""
    fixed = FLOORS[name]
    return float(result["bm25"]["recall@10"]["mean"]) if fixed is None else fixed


def _figures(rankings: Sequence[Ranked]) -> dict[str, Any]:
    return {name: _plain(figure(rankings, measure)) for name, measure in measures().items()}


def _plain(found: Figure) -> dict[str, float]:
    return {"mean": round(found.mean, 4), "low": round(found.low, 4), "high": round(found.high, 4)}


def _by_kind(ours: Sequence[Ranked], bm25: Sequence[Ranked]) -> dict[str, Any]:
    mine, theirs = (by_kind(rankings, lambda ranked: recall_at(ranked, 10)) for rankings in (ours, bm25))
    return {
        kind: {"questions": count, "recall@10": round(mean, 4), "bm25": round(theirs[kind][0], 4)}
        for kind, (mean, count) in mine.items()
    }


def _updates(ours: Sequence[Ranked], bm25: Sequence[Ranked]) -> dict[str, int] | None:
    above, count = updated_above(ours)
    return {"new_above_old": above, "bm25": updated_above(bm25)[0], "questions": count} if count else None


def _admission(asked: Sequence[Asked]) -> dict[str, Any]:
    """How often anything is let in, by whether there is anything to let in; AUC of the surest candidate's chance."""
    groups = {
        "answerable": [a.found for a in asked if a.question.answerable],
        "unanswerable": [a.found for a in asked if not a.question.answerable],
    }
    said: dict[str, Any] = {}
    for name, found in groups.items():
        if found:
            said[name] = {
                "given_something": round(sum(f.admitted > 0 for f in found) / len(found), 4),
                "admitted_mean": round(sum(f.admitted for f in found) / len(found), 2),
            }
    area = auc([f.chance for f in groups["answerable"]], [f.chance for f in groups["unanswerable"]])
    return {**said, "auc": None if area is None else round(area, 4)}
