"""How many records a scope may have holds by whatever way there would be one more."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from memory.adapters.postgres import checkpoint_store, entity_store, persona_store, task_store
from memory.adapters.postgres.audit import AuditLog
from memory.adapters.postgres.checkpoint_store import CheckpointStore
from memory.adapters.postgres.entity_store import EntityStore
from memory.adapters.postgres.persona_store import PersonaStore
from memory.adapters.postgres.task_store import TaskStore
from memory.audit import noted
from memory.checkpoints import NewCheckpoint
from memory.entities import CARD, NewEntity
from memory.errors import NotFound, TooLarge
from memory.ids import new_id
from memory.model import NewMemory
from memory.personas import NewPersona
from memory.tasks import NewTask, Task, TaskChange
from policies.entity import Told
from policies.task import Status
from tests.postgres.seed import SUBJECT, T0, key_of, record_memory, stores
from tests.postgres_fixture import TestDatabase


def unseen(_: Any) -> None:
    """Who may not see it is told that there is none, not that there is no room for it."""
    raise NotFound("none")


def memory(text: str) -> NewMemory:
    return record_memory(text, "semantic", "task", {"title": text})


async def test_no_more_tasks_are_open_than_may_be_however_one_comes_to_be(
    postgres: TestDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_store, "OPEN_MAX", 2)
    async with stores(postgres) as made:
        scope = made.scope()
        store = TaskStore(made.database, made.scopes, postgres.embeddings, AuditLog(made.database, key_of))
        more: Any = {"now": T0, "note": noted(scope.tenant, "test", "task.add", at=T0)}

        async def add(*statuses: Status) -> list[Task]:
            new = [NewTask(new_id(), status, memory("Paint it"), frozenset()) for status in statuses]
            return await store.add(scope, SUBJECT, new, None, "open", **more)

        (gone,) = await add("queued")
        await store.delete(scope, gone.task_id, **more)
        await add("queued", "running")
        (over,) = await add("done")
        with pytest.raises(TooLarge):
            await add("queued")
        with pytest.raises(TooLarge):
            change = TaskChange("queued", memory("Paint it"), None)
            await store.change(scope, SUBJECT, over.task_id, 1, change, "open", **more)
        with pytest.raises(NotFound):
            await store.undelete(scope, gone.task_id, may=unseen, **more)
        with pytest.raises(TooLarge):
            await store.undelete(scope, gone.task_id, may=lambda _: None, **more)
        assert len((await store.page(scope, limit=9)).rows) == 3


async def test_no_more_personas_are_live_than_are_listed(
    postgres: TestDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(persona_store, "PERSONAS_MAX", 2)
    async with stores(postgres) as made:
        scope = made.scope()
        store = PersonaStore(made.database, made.scopes, postgres.embeddings, AuditLog(made.database, key_of))
        more: Any = {"now": T0, "note": noted(scope.tenant, "test", "persona.save", at=T0)}
        for name in ("b", "c"):
            await store.save(scope, SUBJECT, NewPersona(name, {}, memory(name)), **more)
        await store.delete(scope, "b", **more)
        await store.save(scope, SUBJECT, NewPersona("a", {}, memory("a")), **more)
        with pytest.raises(NotFound):
            await store.undelete(scope, "b", may=unseen, **more)
        with pytest.raises(TooLarge):
            await store.undelete(scope, "b", may=lambda _: None, **more)
        assert [one.name for one in await store.all_of(scope)] == ["a", "c"]


async def test_no_more_checkpoints_are_live_than_may_be(
    postgres: TestDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint_store, "CHECKPOINTS_MAX", 2)
    async with stores(postgres) as made:
        scope = made.scope()
        store = CheckpointStore(made.database, made.scopes, postgres.embeddings, AuditLog(made.database, key_of))
        more: Any = {"now": T0, "note": noted(scope.tenant, "test", "checkpoint.save", at=T0)}
        for name in ("b", "c"):
            await store.save(scope, SUBJECT, NewCheckpoint(name, None, (), 0), **more)
        await store.delete(scope, "b", **more)
        await store.save(scope, SUBJECT, NewCheckpoint("a", None, (), 0), **more)
        with pytest.raises(NotFound):
            await store.undelete(scope, "b", may=unseen, **more)
        with pytest.raises(TooLarge):
            await store.undelete(scope, "b", may=lambda _: None, **more)
        assert {one.name for one in (await store.page(scope, limit=9)).rows} == {"a", "c"}


async def test_no_more_entities_are_there_than_may_be(postgres: TestDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entity_store, "ENTITIES_MAX", 2)
    async with stores(postgres) as made:
        scope = made.scope()
        store = EntityStore(made.database, made.scopes, postgres.embeddings, AuditLog(made.database, key_of))
        more: Any = {"now": T0, "note": noted(scope.tenant, "test", "entity.add", at=T0)}

        async def add(name: str) -> UUID:
            card = replace(memory(name), attributes={CARD: {"name": name, "type": "host"}})
            new = NewEntity(new_id(), Told(name, "host"), card, False)
            return (await store.add(scope, SUBJECT, new, "open", **more)).entity_id

        gone, _ = await add("db1"), await add("db2")
        await store.delete(scope, gone, "open", **more)
        await add("db3")
        with pytest.raises(TooLarge):
            await store.undelete(scope, gone, "open", may=lambda _: None, **more)
        page = await store.page(scope, limit=9, cursor=None, types=["host"])
        assert {one.name for one in page.rows} == {"db2", "db3"}
