"""Tasks in Postgres: a scope and what is to be done in, tasks with the words of their memories out.

Each act is one transaction with its audit row, or nothing: several tasks with what they need of each other are stored
whole, and a circle of needs is found before anything is written. Writers of a scope wait for one another on its
version. Raises NotFound, Conflict, TooLarge, StoreUnavailable.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence, Set
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from memory.adapters.postgres import batch
from memory.adapters.postgres.acting import acting
from memory.adapters.postgres.audit import AuditLog
from memory.adapters.postgres.cursors import Order, cursor_of, read_cursor
from memory.adapters.postgres.database import Database, Transaction
from memory.adapters.postgres.outbox import announce
from memory.adapters.postgres.own_memory import (
    add_next_version,
    add_own_memory,
    is_made,
    only,
    require_turn,
    require_version,
    standing_by_id,
    times_of,
    turn_memory,
)
from memory.adapters.postgres.rows import Place
from memory.adapters.postgres.scopes import Scopes
from memory.audit import Note
from memory.errors import Conflict, NotFound, TooLarge
from memory.ids import new_id
from memory.model import Scope, SessionRef
from memory.stored import Page
from memory.tasks import WORDS, CheckpointNamed, NewTask, Task, TaskChange, TaskStep
from policies.graph import circle_in
from policies.task import OPEN, STATUSES, Status, checked_move

OPEN_MAX: Final = 1_000
"""Open tasks of a scope: the graph is read whole where it changes."""
HISTORY_MAX: Final = 10_000
_NONE: Final = "there is no such task in this scope"


class TaskStore:
    """The tasks of one store. `embeddings` is the table that their vectors go to."""

    def __init__(self, database: Database, scopes: Scopes, embeddings: str, audit: AuditLog) -> None:
        self._database = database
        self._scopes = scopes
        self._audit = audit
        self._add_embedding = database.queries["add_embedding"].of_table(embeddings)

    async def add(
        self,
        scope: Scope,
        subject_id: UUID,
        new: Sequence[NewTask],
        session: SessionRef | None,
        actor: str,
        *,
        now: datetime,
        note: Note,
    ) -> list[Task]:
        """Keep all of them, or none, as of a conversation. Raises NotFound for a need or a checkpoint that is not
        there, Conflict for a circle, TooLarge.
        """
        scope_id, witness = await self._scopes.ensure(scope), await self._audit.witness(note)
        async with self._database.transaction(scope.tenant, [scope_id]) as tx:
            if session is not None:
                await batch.open_session(tx, Place(scope.tenant, scope_id, subject_id, new_id(), now), session, now)
            changed = await tx.value("bump_scope", scope.tenant, scope_id)
            if more := sum(one.status in OPEN for one in new):
                await _require_room(tx, scope, scope_id, more, "tasks")
            session_id = session.session_id if session else None
            needs = {one.task_id: one.needs for one in new}
            status = await _statuses(tx, scope, scope_id, frozenset().union(*needs.values()) - needs.keys())
            await _require_acyclic(tx, scope, needs)
            await _require_checkpoints(tx, scope, {one.checkpoint_id for one in new})
            status |= {one.task_id: one.status for one in new}
            for one in new:
                waits_for = [str(need) for need in sorted(one.needs) if status[need] != "done"]
                _refused(one.status, one.status, () if one.as_it_stood else waits_for)
            for one in new:
                place = Place(scope.tenant, scope_id, subject_id, one.task_id, now)
                await add_own_memory(
                    tx,
                    place,
                    one.memory,
                    "task",
                    session_id=session_id,
                    changed=changed,
                    add_embedding=self._add_embedding,
                )
                row = (one.task_id, scope_id, one.memory.memory_id, one.status, session_id, one.checkpoint_id)
                await tx.run("add_task", scope.tenant, *row, *times_of(one.times, now))
                await tx.run("add_task_step", scope.tenant, one.task_id, 1, scope_id, None, one.status, actor, now)
            await tx.run_many("add_task_edge", _edges(scope, scope_id, needs))
            told = [one.memory.memory_id for one in new]
            await announce(tx, scope.tenant, scope_id, "created", told, by="api", at=now)
            await witness(tx)
            found = {one.task_id: one for one in await _by_id(tx, scope, scope_id, list(needs))}
        return [found[one.task_id] for one in new]

    async def change(
        self,
        scope: Scope,
        subject_id: UUID,
        task_id: UUID,
        version: int,
        new: TaskChange,
        actor: str,
        *,
        now: datetime,
        note: Note,
    ) -> Task:
        """The next version of a task; where it is made already, that one. Raises NotFound: the task, a need, the
        checkpoint; Conflict: another version, a move that is none, a circle; TooLarge where it is taken up again beside
        too many.
        """
        scope_id, witness = await self._scopes.known(scope, _NONE), await self._audit.witness(note)
        async with acting(self._database, scope.tenant, scope_id, witness) as (tx, changed):
            known = await _locked(tx, scope, scope_id, task_id)
            place = Place(scope.tenant, scope_id, subject_id, task_id, now)
            if await is_made(tx, place, known, known["memory_id"], version, new.memory):
                task = only(await _by_id(tx, scope, scope_id, [task_id]), _NONE)
                if _stands(task, known["checkpoint_id"], new):
                    return task
            require_version(known, version, "task")
            if new.needs is not None:
                await _statuses(tx, scope, scope_id, new.needs - {task_id})
                await _require_acyclic(tx, scope, {task_id: new.needs})
                await tx.run("drop_task_edges", scope.tenant, task_id)
                await tx.run_many("add_task_edge", _edges(scope, scope_id, {task_id: new.needs}))
            checkpoint_id = known["checkpoint_id"] if new.checkpoint_id == "as it is" else new.checkpoint_id
            await _require_checkpoints(tx, scope, {checkpoint_id} - {known["checkpoint_id"]})
            if new.status != known["status"] or new.needs is not None:
                await _require_move(tx, scope, scope_id, known, new.status)
            if known["status"] not in OPEN and new.status in OPEN:
                await _require_room(tx, scope, scope_id, 1, "status")
            await add_next_version(
                tx, place, known["memory_id"], new.memory, changed=changed, add_embedding=self._add_embedding
            )
            await tx.run("change_task", scope.tenant, task_id, version + 1, new.status, checkpoint_id, now)
            step = (task_id, version + 1, scope_id, known["status"], new.status, actor, now)
            await tx.run("add_task_step", scope.tenant, *step)
            return only(await _by_id(tx, scope, scope_id, [task_id]), _NONE)

    async def delete(
        self, scope: Scope, task_id: UUID, *, version: int | None = None, now: datetime, note: Note
    ) -> None:
        """Hide it; what needed it does not wait for it any more. Raises NotFound,
        and Conflict for another `version`.
        """
        await self._hide(scope, task_id, now, now, note, version=version)

    async def undelete(
        self, scope: Scope, task_id: UUID, *, now: datetime, note: Note, may: Callable[[Task], None]
    ) -> Task:
        """Bring it back, within 30 days. Raises NotFound, TooLarge, Conflict for a circle that would be closed, and
        what `may` does: then nothing changes.
        """
        return only(await self._hide(scope, task_id, None, now, note, may), _NONE)

    async def _hide(
        self,
        scope: Scope,
        task_id: UUID,
        at: datetime | None,
        now: datetime,
        note: Note,
        may: Callable[[Task], None] = lambda _: None,
        version: int | None = None,
    ) -> list[Task]:
        """What is shown again, none where it is hidden."""
        scope_id, witness = await self._scopes.known(scope, _NONE), await self._audit.witness(note)
        async with acting(self._database, scope.tenant, scope_id, witness) as (tx, changed):
            found = await tx.row("lock_task", scope.tenant, scope_id, task_id)
            known = require_turn(found, "task", at, now)
            require_version(known, version, "task")
            await tx.run("mark_task_deleted", scope.tenant, task_id, at)
            card_id, gone_at = known["memory_id"], known["deleted_at"]
            await turn_memory(tx, scope.tenant, scope_id, card_id, at, gone_at=gone_at, changed=changed, now=now)
            back = await _by_id(tx, scope, scope_id, [task_id]) if at is None else []
            for one in back:
                may(one)  # to others there is none to be brought back, whatever is full or would be a circle
                if one.status in OPEN:
                    await _require_room(tx, scope, scope_id, 0, "id")
                edges = await tx.fetch("edges_of_tasks", scope.tenant, [task_id])
                await _require_acyclic(tx, scope, {task_id: frozenset(UUID(int=row["needs"].int) for row in edges)})
        return back

    # ------------------------------------------------------------ reading

    async def one(self, scope: Scope, task_id: UUID) -> Task:
        """A task. Raises NotFound."""
        return only(await self.some(scope, [task_id]), _NONE)

    async def some(self, scope: Scope, task_ids: Sequence[UUID]) -> list[Task]:
        """Those of these tasks that are there."""
        scope_id = await self._scopes.find(scope)
        if scope_id is None:
            return []
        async with self._database.transaction(scope.tenant, [scope_id], read_only=True) as tx:
            return await _by_id(tx, scope, scope_id, task_ids)

    async def page(
        self,
        scope: Scope,
        *,
        limit: int,
        cursor: str | None = None,
        order: Order = "desc",
        statuses: Sequence[Status] = STATUSES,
        session_id: UUID | None = None,
    ) -> Page[Task]:
        """Tasks by when they were added. Raises MemoryInvalid for a bad cursor."""
        scope_id, at = await self._scopes.find(scope), read_cursor(cursor, order)
        if scope_id is None:
            return Page((), None)
        async with self._database.transaction(scope.tenant, [scope_id], read_only=True) as tx:
            asked = (*at, list(statuses), session_id, limit + 1)
            name = "tasks_newest" if order == "desc" else "tasks_oldest"
            rows = await tx.fetch(name, scope.tenant, scope_id, *asked)
            found = await _with_words(tx, scope, scope_id, rows[:limit])
        last = rows[limit - 1] if len(rows) > limit else None
        return Page(tuple(found), cursor_of(last["created_at"], last["task_id"]) if last else None)

    async def checkpoints(self, scope: Scope, names: Sequence[str]) -> dict[str, CheckpointNamed]:
        """The checkpoints of these names that are there, by name."""
        scope_id = await self._scopes.find(scope)
        if scope_id is None:
            return {}
        async with self._database.transaction(scope.tenant, [scope_id], read_only=True) as tx:
            found = await tx.fetch("checkpoints_to_name", scope.tenant, scope_id, list(names))
        return {row["checkpoint_name"]: named for row in found if (named := _checkpoint(row)) is not None}

    async def history(self, scope: Scope, task_id: UUID) -> list[TaskStep]:
        """How a task came where it is, oldest first. Raises NotFound."""
        await self.one(scope, task_id)
        scope_id = await self._scopes.known(scope, _NONE)
        async with self._database.transaction(scope.tenant, [scope_id], read_only=True) as tx:
            found = await tx.fetch("history_of_task", scope.tenant, task_id, HISTORY_MAX)
        return [TaskStep(row["version"], row["was"], row["status"], row["actor"], row["at"]) for row in found]


def _stands(known: Task, checkpoint_id: UUID | None, new: TaskChange) -> bool:
    """Whether a task stands where a change would have it."""
    return (
        known.status == new.status
        and new.checkpoint_id in ("as it is", checkpoint_id)
        and (new.needs is None or new.needs == frozenset(known.needs))
    )


def _first() -> tuple[datetime, UUID]:
    return read_cursor(None, "desc")


def _edges(scope: Scope, scope_id: int, needs: Mapping[UUID, frozenset[UUID]]) -> list[tuple[Any, ...]]:
    return [(scope.tenant, task, one, scope_id) for task, wanted in needs.items() for one in sorted(wanted)]


async def _locked(tx: Transaction, scope: Scope, scope_id: int, task_id: UUID) -> Any:
    row = await tx.row("lock_task", scope.tenant, scope_id, task_id)
    if row is None or row["deleted_at"] is not None:
        raise NotFound(_NONE)
    return row


async def _require_room(tx: Transaction, scope: Scope, scope_id: int, more: int, param: str) -> None:
    """So many more tasks may be open. Raises TooLarge."""
    known = await tx.fetch("tasks_newest", scope.tenant, scope_id, *_first(), list(OPEN), None, OPEN_MAX + 1)
    if len(known) + more > OPEN_MAX:
        raise TooLarge(f"a scope has at most {OPEN_MAX} open tasks; end or delete some", param=param)


async def _statuses(tx: Transaction, scope: Scope, scope_id: int, task_ids: Set[UUID]) -> dict[UUID, Status]:
    """How these tasks stand. Raises NotFound where one is not there."""
    if not task_ids:
        return {}
    rows = await tx.fetch("tasks_by_id", scope.tenant, scope_id, sorted(task_ids))
    found: dict[UUID, Status] = {UUID(int=row["task_id"].int): row["status"] for row in rows}
    if missing := sorted(task_ids - found.keys()):
        raise NotFound(f"{_NONE}: {missing[0]}", param="needs")
    return found


async def _require_checkpoints(tx: Transaction, scope: Scope, named: Set[UUID | None]) -> None:
    """Raises NotFound where one has gone since it was read."""
    wanted = sorted(one for one in named if one is not None)
    found = await tx.fetch("checkpoints_to_keep", scope.tenant, wanted) if wanted else []
    if len(found) < len(wanted):
        raise NotFound("there is no such checkpoint in this scope", param="checkpoint")


async def _require_acyclic(tx: Transaction, scope: Scope, new: Mapping[UUID, frozenset[UUID]]) -> None:
    """With these needs no task waits for itself: a circle that they close leads back to one of them. Raises Conflict
    that names it.
    """
    needs = {task: set(wanted) for task, wanted in new.items()}
    front = {need for wanted in new.values() for need in wanted} - needs.keys()
    while front:
        needs |= {task: set() for task in front}
        for row in await tx.fetch("edges_of_tasks", scope.tenant, sorted(front)):
            needs[UUID(int=row["task_id"].int)].add(UUID(int=row["needs"].int))
        front = {need for task in front for need in needs[task]} - needs.keys()
    if circle := circle_in(needs):
        raise Conflict(f"these tasks would wait for one another: {' -> '.join(map(str, circle))}", param="needs")


async def _require_move(tx: Transaction, scope: Scope, scope_id: int, known: Any, to: Status) -> None:
    """It may go there, and what it needs is done. Raises Conflict."""
    edges = await tx.fetch("edges_of_tasks", scope.tenant, [known["task_id"]])
    needed = [row["needs"] for row in edges]
    rows = await tx.fetch("tasks_by_id", scope.tenant, scope_id, needed) if needed else []
    _refused(known["status"], to, [str(row["task_id"]) for row in rows if row["status"] != "done"])


def _refused(was: Status, to: Status, waits_for: Sequence[str]) -> None:
    try:
        checked_move(was, to, waits_for)
    except ValueError as fault:
        raise Conflict(str(fault), param="status") from None


async def _by_id(tx: Transaction, scope: Scope, scope_id: int, task_ids: Sequence[UUID]) -> list[Task]:
    return await _with_words(tx, scope, scope_id, await tx.fetch("tasks_by_id", scope.tenant, scope_id, list(task_ids)))


async def _with_words(tx: Transaction, scope: Scope, scope_id: int, found: Sequence[Any]) -> list[Task]:
    words = await standing_by_id(tx, scope.tenant, scope_id, (row["memory_id"] for row in found))
    edges = await tx.fetch("edges_of_tasks", scope.tenant, [row["task_id"] for row in found]) if found else []
    needs: dict[UUID, list[UUID]] = defaultdict(list)
    for edge in edges:
        needs[edge["task_id"]].append(UUID(int=edge["needs"].int))
    return [
        _task(row, said, tuple(sorted(needs[row["task_id"]])))
        for row in found
        if (said := words.get(row["memory_id"])) is not None
    ]


def _task(row: Any, said: Any, needs: tuple[UUID, ...]) -> Task:
    title, notes, given, output = (str(said["attributes"].get(name, "")) for name in WORDS)
    return Task(
        task_id=UUID(int=row["task_id"].int),
        version=row["version"],
        status=row["status"],
        title=title,
        notes=notes,
        input=given,
        output=output,
        needs=needs,
        session_id=row["session_id"],
        memory_id=UUID(int=row["memory_id"].int),
        integrity=said["integrity"],
        sensitivity=said["sensitivity"],
        hidden=said["hidden"],
        created_at=row["created_at"],
        changed_at=row["changed_at"],
        checkpoint=_checkpoint(row),
    )


def _checkpoint(row: Any) -> CheckpointNamed | None:
    if row["checkpoint_id"] is None:
        return None
    return CheckpointNamed(UUID(int=row["checkpoint_id"].int), row["checkpoint_name"], row["checkpoint_session"])
