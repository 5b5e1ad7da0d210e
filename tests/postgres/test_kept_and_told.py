"""What is kept is told in the transaction that keeps it: who asked is not refused for something that is done."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from memory.adapters.postgres.audit import AuditLog
from memory.adapters.postgres.checkpoint_store import CheckpointStore
from memory.adapters.postgres.database import Database, Transaction
from memory.adapters.postgres.entity_store import EntityStore
from memory.adapters.postgres.persona_store import PersonaStore
from memory.adapters.postgres.task_store import TaskStore
from memory.audit import noted
from memory.checkpoints import NewCheckpoint
from memory.entities import CARD, NewEntity, NewRelationship
from memory.errors import StoreUnavailable
from memory.ids import new_id
from memory.personas import NewPersona
from memory.tasks import NewTask, TaskChange
from policies.entity import Told
from tests.postgres.seed import SUBJECT, T0, key_of, stores
from tests.postgres.test_bounds_of_records import memory
from tests.postgres_fixture import TestDatabase


@dataclass
class Once:
    """A pool that has no connection left for who has written something."""

    inner: Database
    is_away: bool = False

    @property
    def queries(self) -> Any:
        return self.inner.queries

    @asynccontextmanager
    async def transaction(
        self, tenant: UUID | None, scope_ids: Iterable[int] = (), *, read_only: bool = False
    ) -> AsyncIterator[Transaction]:
        if self.is_away:
            raise StoreUnavailable("no connection is free")
        async with self.inner.transaction(tenant, scope_ids, read_only=read_only) as tx:
            yield tx
        self.is_away = not read_only


async def test_what_is_kept_is_told_without_another_transaction_that_may_fail(postgres: TestDatabase) -> None:
    async with stores(postgres) as made:
        scope, pool = made.scope(), Once(made.database)
        await made.scopes.ensure(scope)
        parts: Any = (pool, made.scopes, postgres.embeddings, AuditLog(made.database, key_of))
        more: Any = {"now": T0, "note": noted(scope.tenant, "test", "record.keep", at=T0)}
        may: Any = {**more, "may": lambda _: None}

        async def told(act: Callable[..., Awaitable[Any]], *given: Any, **named: Any) -> Any:
            pool.is_away = False
            found = await act(scope, *given, **named)
            assert pool.is_away
            return found

        tasks, personas = TaskStore(*parts), PersonaStore(*parts)
        new = NewTask(new_id(), "queued", memory("Paint it"), frozenset())
        (task,) = await told(tasks.add, SUBJECT, [new], None, "open", **more)
        change = TaskChange("running", memory("Paint it"), None)
        changed = await told(tasks.change, SUBJECT, task.task_id, 1, change, "open", **more)
        await told(tasks.delete, task.task_id, **more)
        assert await told(tasks.undelete, task.task_id, **may) == changed

        saved = await told(personas.save, SUBJECT, NewPersona("p", {}, memory("p")), **more)
        assert (await told(personas.change, SUBJECT, 1, NewPersona("p", {}, memory("q")), **more)).text == "q"
        await told(personas.delete, "p", **more)
        assert (await told(personas.undelete, "p", **may)).persona_id == saved.persona_id

        checkpoints = CheckpointStore(*parts)
        await told(checkpoints.save, SUBJECT, NewCheckpoint("c", None, (), 0), **more)
        assert (await told(checkpoints.change, SUBJECT, 1, NewCheckpoint("c", None, (), 0), **more)).version == 2
        assert (await told(checkpoints.branch, "c", "d", **more)).row.name == "d"
        await told(checkpoints.delete, "c", **more)
        assert (await told(checkpoints.undelete, "c", **may)).version == 2

        entities = EntityStore(*parts)

        def named(name: str, entity_id: UUID | None = None) -> NewEntity:
            card = replace(memory(name), attributes={CARD: {"name": name, "type": "host"}})
            return NewEntity(entity_id or new_id(), Told(name, "host"), card, False)

        one, other, third = [
            await told(entities.add, SUBJECT, named(name), "open", **more) for name in ("db1", "db2", "db3")
        ]
        assert (await told(entities.change, SUBJECT, 1, named("db4", one.entity_id), "open", **more)).version == 2
        tie = NewRelationship(new_id(), one.entity_id, "uses", other.entity_id, memory("uses"), None, None)
        assert (await told(entities.relate, SUBJECT, tie, **more)).relationship_id == tie.relationship_id
        assert (await told(entities.merge, third.entity_id, other.entity_id, "open", **more)).version == 2
        assert (await told(entities.split, third.entity_id, "open", **more)).version == 3
        await told(entities.delete, third.entity_id, "open", **more)
        assert (await told(entities.undelete, third.entity_id, "open", **may)).entity_id == third.entity_id
