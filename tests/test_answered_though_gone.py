"""What is answered of what is kept or changed: it does not hang on a store that is gone a moment later."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import numpy as np
import pytest

from memory.artifacts import About, Artifact, Content, Owner
from memory.errors import StoreUnavailable
from memory.model import Scope
from memory.stored import MemoryRecord
from memory.tasks import NewTask, Task
from proxy.auth import OpenDoor
from tests.test_api_admission import parts, serving

NEEDED = UUID(int=7)


def task(task_id: UUID, needs: tuple[UUID, ...] = (), session_id: UUID | None = None) -> Task:
    words: dict[str, Any] = {"title": "Order the oak", "notes": "", "input": "", "output": "", "hidden": ""}
    at = datetime(2026, 11, 21, tzinfo=UTC)
    ids: dict[str, Any] = {"memory_id": UUID(int=8), "session_id": session_id, "needs": needs}
    labels: dict[str, Any] = {"integrity": "user", "sensitivity": "internal", "created_at": at, "changed_at": at}
    return Task(task_id=task_id, version=1, status="queued", **words, **ids, **labels)


class GoneAfter:
    """A store that keeps tasks, and does not answer any more once it has kept some."""

    def __init__(self) -> None:
        self.kept: list[NewTask] = []

    async def some(self, scope: Scope, task_ids: Sequence[UUID]) -> list[Task]:
        if self.kept:
            raise StoreUnavailable("gone")
        return [task(one) for one in task_ids]

    async def labels(self, scope: Scope, session_ids: Sequence[UUID]) -> dict[UUID, str]:
        raise StoreUnavailable("gone")

    async def add(self, *asked: Any, **how: Any) -> list[Task]:
        new, session = asked[2], asked[3]
        self.kept += new
        return [task(one.task_id, tuple(one.needs), session.session_id) for one in new]


def own(store: Any) -> dict[str, Any]:
    """The parts that the calls need."""

    async def nothing(*_: Any, **__: Any) -> Any:
        return bytes(32)

    async def vectors(texts: Sequence[str]) -> Any:
        return np.zeros((len(texts), 4), np.float32)

    door = OpenDoor()
    door.opens_to(UUID(int=1))
    return {
        "door": door,
        "keys": SimpleNamespace(chain_key=nothing, subject_id=nothing),
        "redactor": SimpleNamespace(redact=lambda text: SimpleNamespace(text=text)),
        "windows": SimpleNamespace(offsets=lambda text: [(0, len(text))]),
        "embedder": SimpleNamespace(embed_documents=vectors),
        "tells": SimpleNamespace(changed=nothing, asked=nothing),
        "tasks": store,
        "records": store,
        "artifacts": SimpleNamespace(store=store),
    }


async def test_a_task_that_is_kept_is_answered_so_that_nobody_keeps_it_twice() -> None:
    store = GoneAfter()
    asked = {"tasks": [{"title": "Order the oak", "needs": [str(NEEDED)]}], "session": "yard"}
    async with serving(parts(**own(store))) as call:
        status, body = await call("POST", "/memory/v1/tasks", json=asked)
    assert (status, len(store.kept)) == (200, 1), body
    (made,) = body["data"]
    assert (made["session"], made["waits_for"]) == ("yard", [str(NEEDED)])


@dataclass
class Changing:
    """A store of one record, which does not answer any more once that is changed."""

    record: Any
    changes: int = 0

    def _here(self) -> None:
        if self.changes:
            raise StoreUnavailable("gone")

    async def one(self, *_: Any, **__: Any) -> Any:
        self._here()
        return self.record

    memory = one

    async def some(self, scope: Scope, task_ids: Sequence[UUID]) -> list[Task]:
        self._here()
        return [task(one) for one in task_ids]

    async def labels(self, scope: Scope, session_ids: Sequence[UUID]) -> dict[UUID, str]:
        self._here()
        return dict.fromkeys(session_ids, "yard")

    async def change(self, *_: Any, **__: Any) -> Any:
        self.changes += 1
        return replace(self.record, version=2)

    patch_memory = change


def memory() -> MemoryRecord:
    given: dict[str, Any] = dict.fromkeys((one.name for one in fields(MemoryRecord)), None)
    given |= {"memory_id": UUID(int=8), "version": 1, "kind": "semantic", "collection": "default", "content": "An oak."}
    given |= {"integrity": "user", "sensitivity": "internal", "session_id": UUID(int=9), "scope_id": 1, "role": "user"}
    given |= {
        "pinned": False,
        "importance": 0.5,
        "confidence": 0.5,
        "attributes": {},
        "source_ids": (),
        "event_ids": (),
    }
    at = datetime(2026, 11, 21, tzinfo=UTC)
    return MemoryRecord(**given | {"origin": "live", "validation_status": "", "created_at": at, "recorded_from": at})


def file() -> Artifact:
    at = datetime(2026, 11, 21, tzinfo=UTC)
    content, owner = Content("text/plain", 9, "0" * 64), Owner(UUID(int=1), UUID(int=2), 1)
    labels: dict[str, Any] = {"integrity": "user", "sensitivity": "internal", "hidden": ""}
    ids: dict[str, Any] = {"artifact_id": UUID(int=7), "session_id": UUID(int=9), "memory_id": UUID(int=8)}
    more: dict[str, Any] = {"version": 1, "owner": owner, "blob": "0" * 64, "created_at": at, "changed_at": at}
    return Artifact(content=content, about=About("oak.txt"), **ids, **labels, **more)


@pytest.mark.parametrize(
    ("path", "record", "asked"),
    [
        ("memories", memory(), {"pinned": True}),
        ("tasks", task(UUID(int=7), (NEEDED,), UUID(int=9)), {"notes": "of the yard"}),
        ("artifacts", file(), {"caption": "What the oak costs"}),
    ],
)
async def test_what_is_changed_is_answered_so_that_nobody_is_refused_who_changed_it(
    path: str, record: Any, asked: dict[str, Any]
) -> None:
    """Sent again it would be another version's change: 409."""
    store = Changing(record)
    async with serving(parts(**own(store))) as call:
        status, body = await call("PATCH", f"/memory/v1/{path}/{UUID(int=7)}", json=asked, headers={"If-Match": '"1"'})
    assert (status, store.changes) == (200, 1), body
    assert (body["version"], body["session"]) == (2, "yard")
    assert body.get("waits_for", [str(NEEDED)]) == [str(NEEDED)]


class Forgets:
    """Takes what is to be forgotten, and does not answer for some time then."""

    def __init__(self, away: int) -> None:
        self.asked = 0
        self._away = away

    async def ask(self, *_: Any) -> UUID:
        self.asked += 1
        return UUID(int=7)

    async def is_of(self, *_: Any) -> bool:
        return True

    async def job(self, *_: Any) -> Any:
        self._away -= 1
        if self._away >= 0:
            raise StoreUnavailable("no connection is free")
        return SimpleNamespace(receipt={"id": str(UUID(int=7)), "complete": True}, step="ended")


@pytest.mark.parametrize(("away", "status"), [(2, 200), (1_000, 202)])
async def test_who_asked_for_an_erasure_is_told_that_it_goes_on_whatever_the_store_does_meanwhile(
    monkeypatch: pytest.MonkeyPatch, away: int, status: int
) -> None:
    """Who is told that it was not taken asks again, and of what has gone by then gets a receipt of nothing."""
    monkeypatch.setattr("proxy.api.forget.ANSWER_S", 0.3)

    async def witness(*_: Any) -> None:
        """Of nothing."""

    forgets = Forgets(away)
    more: Any = {"forgets": forgets, "audit": SimpleNamespace(witness=witness)}
    async with serving(parts(**own(None), **more)) as call:
        found, body = await call("POST", "/memory/v1/forget", json={"user": "ada"})
        assert (found, forgets.asked, body["id"]) == (status, 1, str(UUID(int=7))), body
        if status == 202:
            assert (body["status"], body["step"]) == ("running", "asked")
            found, body = await call("GET", f"/memory/v1/forget/{body['id']}")
            assert (found, body["error"]["code"]) == (503, "store_unavailable")
