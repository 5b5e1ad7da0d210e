"""A tiny evaluation set and the values that its questions become, for the tests of the recall harness."""

from __future__ import annotations

import json
import lzma
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.recall.answers import Answered
from bench.recall.chat import Given, Said
from bench.recall.client import Found
from bench.recall.corpus import Question
from bench.recall.injected import (
    Injection,
)
from bench.recall.run import Asked, Measured

TURNS: list[dict[str, Any]] = [
    {"scope": "c1", "session": "s1", "id": "c1:1", "role": "Ann", "date": "7:31 pm on 21 January, 2022", "text": "Hi!"},
    {"scope": "c1", "session": "s1", "id": "c1:2", "role": "Ben", "date": None, "text": "I bought a red canoe."},
    {"scope": "c1", "session": "s2", "id": "c1:3", "role": "Ann", "date": "12:05 am on 2 May, 2023", "text": "Nice."},
    {"scope": "c2", "session": "s1", "id": "c2:1", "role": "assistant", "date": None, "text": "A canoe is a boat."},
]
QUERIES: list[dict[str, Any]] = [
    {"scope": "c1", "qid": "q1", "type": "single", "q": "Which canoe was bought?", "gold": ["c1:2"]},
    {
        "scope": "c1",
        "qid": "q2",
        "type": "multi",
        "q": "?",
        "gold": ["c1:1"],
        "audit": {"correct_evidence": ["2", "3"]},
    },
    {"scope": "c2", "qid": "q3", "type": "adversarial", "q": "Who?", "gold": ["c2:1"], "unanswerable": True},
]


def written(folder: Path, turns: Sequence[Any] = TURNS, queries: Sequence[Any] = QUERIES, stem: str = "locomo") -> Path:
    for name, objects in (("corpus", turns), ("queries", queries)):
        put(folder / f"{stem}.{name}.jsonl.xz", objects)
    return folder


def put(path: Path, objects: Sequence[Any]) -> None:
    with lzma.open(path, "wt", encoding="utf-8") as out:
        out.writelines(json.dumps(one) + "\n" for one in objects)


def question(gold: str, stale: str = "", scope: str = "c1", *, answerable: bool = True) -> Question:
    return Question("q", scope, "kind", "?", frozenset(gold), frozenset(stale), answerable)


def lines_of(ids: str) -> tuple[dict[str, str], ...]:
    return tuple({"source_id": turn_id, "content": turn_id, "role": "user"} for turn_id in ids)


def opening(scope: str = "c1") -> Question:
    return Question("o", scope, "opening", "Write a poem.", frozenset(), frozenset(), answerable=False)


def answered(of: Question, remembering: str, bare: str, placed: str = "") -> Answered:
    return Answered(of, Said(remembering, injection(of, placed).given), Said(bare, injection(of, "").given))


def asked(of: Question, ids: str, *, admitted: int = 0, chance: float = 0.0) -> Asked:
    return Asked(of, Found(tuple(ids), len(ids), admitted, chance, 1.0, "full", tuple(ids[:admitted])))


def injection(of: Question, ids: str, *, tokens: int = 10, millis: float = 1.0) -> Injection:
    return Injection(of, Given("injected" if ids else "empty", len(ids), tokens, millis, "r", tuple(ids)))


def measured(asks: Sequence[Asked], *, given: Sequence[Given] = (), import_s: float = 2.0, **more: Any) -> Measured:
    sorted_ids = [tuple(sorted(a.found.ids)) for a in asks]
    return Measured(asks, {"bm25": sorted_ids, **more.pop("baselines", {})}, import_s, given, **more)
