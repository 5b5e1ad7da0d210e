"""What is answered of a task that is kept: it does not hang on a store that is gone a moment later."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import numpy as np

from memory.errors import StoreUnavailable
from memory.model import Scope
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


async def test_a_task_that_is_kept_is_answered_so_that_nobody_keeps_it_twice() -> None:
    store, door = GoneAfter(), OpenDoor()
    door.opens_to(UUID(int=1))

    async def nothing(*_: Any, **__: Any) -> Any:
        return bytes(32)

    async def vectors(texts: Sequence[str]) -> Any:
        return np.zeros((len(texts), 4), np.float32)

    own: Any = {
        "keys": SimpleNamespace(chain_key=nothing, subject_id=nothing),
        "redactor": SimpleNamespace(redact=lambda text: SimpleNamespace(text=text)),
        "windows": SimpleNamespace(offsets=lambda text: [(0, len(text))]),
        "embedder": SimpleNamespace(embed_documents=vectors),
        "tells": SimpleNamespace(changed=nothing),
        "tasks": store,
        "records": store,
    }
    asked = {"tasks": [{"title": "Order the oak", "needs": [str(NEEDED)]}], "session": "yard"}
    async with serving(parts(door=door, **own)) as call:
        status, body = await call("POST", "/memory/v1/tasks", json=asked)
    assert (status, len(store.kept)) == (200, 1), body
    (made,) = body["data"]
    assert (made["session"], made["waits_for"]) == ("yard", [str(NEEDED)])
