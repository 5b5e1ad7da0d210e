"""`/memory/v1/tasks`: what is to be done in, where it stands and what waits for what out.

A task's words pass redaction and are refused where they address the model: a task that a tool wrote would be an
instruction by another name. A prompt is given it as a statement of how it stands. Raises NotFound, Conflict, TooLarge,
VersionRequired, Unprocessable, StoreUnavailable.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import replace
from functools import partial
from typing import Final
from uuid import UUID

from aiohttp import web

from memory.audit import Note, noted
from memory.errors import (
    MemoryInvalid,
    NotFound,
    Unprocessable,
)
from memory.ids import new_id
from memory.model import NewMemory
from memory.tasks import WORDS, NewTask, Task, TaskChange
from policies.gate import Holder, Item
from policies.injection.judge import Origin
from policies.labels import Integrity, Sensitivity
from policies.lifetime import UNDO
from policies.task import OPEN, STATUSES, TITLE_CHARS_MAX, WORDS_CHARS_MAX, Status, told
from policies.text import storable
from proxy.api.answers import said
from proxy.api.asking import (
    Caller,
    as_id,
    body_as,
    caller_of,
    holder_for,
    id_in_path,
    parameters,
    require_change,
    session_listed,
    session_named,
)
from proxy.api.copies import Copy
from proxy.api.memories import version_in
from proxy.api.paging import PARAMETERS, page_of
from proxy.api.parts import OwnParts
from proxy.api.schemas_task import (
    TaskAsked,
    TaskDeleted,
    TaskHistorySaid,
    TaskList,
    TaskPatch,
    TaskSaid,
    TasksAsked,
    TasksMade,
    TaskStepSaid,
)
from proxy.api.screening import require_quotable
from proxy.api.sessions import Labels
from proxy.api.task_checkpoints import checkpoints_of, name_shown
from proxy.api.task_words import graph_said, task_said, waiting
from proxy.api.vectors import memory_of_record
from proxy.gated import may_show, readable, require_readable, require_writable

EXTRACTOR: Final = "task/1"
_require_quotable: Final = partial(require_quotable, instead="say what is to be done, not what it is to do")
GRAPH_MAX: Final = 1_000
KIND: Final = "task"
_READS: Final = "memory:read:own"
_WRITES: Final = "memory:write"


class TaskCalls:
    """The handlers of tasks."""

    def __init__(self, parts: OwnParts, labels: Labels) -> None:
        self._parts = parts
        self._labels = labels

    async def add(self, request: web.Request) -> web.Response:
        """Keep tasks, all or none."""
        caller = caller_of(request, self._parts.door, _WRITES)
        parameters(request, ())
        asked = await body_as(request, TasksAsked)
        return said(TasksMade(data=[*await self.added(caller, asked, Integrity.USER)]))

    async def added(
        self, caller: Caller, asked: TasksAsked, integrity: Integrity, copies: Sequence[Copy] = ()
    ) -> Sequence[TaskSaid]:
        """Keep tasks as somebody's words, under these ids where they are given. What is answered is read before they
        are kept: who is told of a fault behind that keeps them twice.
        """
        holder = await self._holder(caller)
        session = await session_named(caller, self._parts.keys, asked.session)
        item = Item(caller.scope.tenant, Sensitivity.PUBLIC, session_id=session.session_id if session else None)
        require_writable(holder, item, "scope")
        ids = _named(asked.tasks)
        wanted = {need for one in asked.tasks for need in one.needs} - ids.keys()
        # What is taken over has been told of already.
        needed = [] if copies else await self._seen(caller, holder, wanted)
        checkpoints = await checkpoints_of(self._parts.tasks, caller, holder, (one.checkpoint for one in asked.tasks))
        then = [one.said_by(caller) for one in copies] or [caller] * len(asked.tasks)
        memories = [
            await self._memory(when, one.status, _words(one), one.sensitivity, integrity)
            for when, one in zip(then, asked.tasks, strict=True)
        ]
        new = [
            NewTask(
                task_id,
                one.status,
                memory,
                frozenset(_need(need, ids) for need in one.needs),
                checkpoints[one.checkpoint],
            )
            for task_id, one, memory in zip(_ids(asked.tasks, ids), asked.tasks, memories, strict=True)
        ]
        new = [_as_copy(*one) for one in zip(new, copies, strict=True)] if copies else new
        subject = await self._parts.keys.subject_id(caller.scope.tenant, caller.scope.user)
        note = _note(caller, "add", [one.task_id for one in new])
        made = await self._parts.tasks.add(caller.scope, subject, new, session, caller.actor, now=caller.now, note=note)
        await self._changed(caller, "added", len(made))
        labels = {session.session_id: session.label} if session else {}
        not_done = waiting([*needed, *made])
        return [task_said(one, labels, not_done, name_shown(holder, one)) for one in made]

    async def list(self, request: web.Request) -> web.Response:
        """Tasks by when they were added; `status` (one, or several with commas, or `open`) and `session` narrow it."""
        caller = caller_of(request, self._parts.door, _READS)
        given = parameters(request, PARAMETERS | {"status", "session"})
        page = page_of(given, "tasks")
        try:
            session_id = await session_listed(caller, self._parts.records, given)
        except NotFound:
            return said(TaskList(data=[], next_cursor=None))
        found = await self._parts.tasks.page(
            caller.scope,
            limit=page.limit,
            cursor=page.cursor,
            order=page.order,
            statuses=_statuses(given.get("status")),
            session_id=session_id,
        )
        holder = await holder_for(caller, self._parts.keys)
        rows = await self.shown(caller, readable(holder, found.rows, partial(_item, caller)))
        return said(TaskList(data=[*rows], next_cursor=page.next_cursor(found.next_cursor)))

    async def show(self, request: web.Request) -> web.Response:
        """One task; its version is the ETag."""
        caller = caller_of(request, self._parts.door, _READS)
        parameters(request, ())
        known = await self._known(caller, await self._holder(caller), id_in_path(request, KIND))
        return await self._shown(caller, known)

    async def history(self, request: web.Request) -> web.Response:
        """How a task came where it is."""
        caller = caller_of(request, self._parts.door, _READS)
        parameters(request, ())
        return said(TaskHistorySaid(data=[*await self.steps(caller, id_in_path(request, KIND))]))

    async def steps(self, caller: Caller, task_id: UUID) -> Sequence[TaskStepSaid]:
        """How a task came where it is, oldest first. Raises NotFound."""
        known = await self._known(caller, await self._holder(caller), task_id)
        steps = await self._parts.tasks.history(caller.scope, known.task_id)
        return [TaskStepSaid(version=s.version, was=s.was, status=s.status, actor=s.actor, at=s.at) for s in steps]

    async def graph(self, request: web.Request) -> web.Response:
        """The open tasks: in which order they can be done, what is ready, what waits for what."""
        caller = caller_of(request, self._parts.door, _READS)
        parameters(request, ())
        tasks, _ = await self.newest(caller, sorted(OPEN), GRAPH_MAX)
        return said(graph_said(tasks))

    async def newest(self, caller: Caller, statuses: Sequence[Status], limit: int) -> tuple[Sequence[TaskSaid], bool]:
        """The newest tasks of these statuses, as far as the caller may see them, and whether there are more."""
        page = await self._parts.tasks.page(caller.scope, limit=limit, statuses=statuses)
        rows = readable(await self._holder(caller), page.rows, partial(_item, caller))
        return await self.shown(caller, rows), page.next_cursor is not None

    async def change(self, request: web.Request) -> web.Response:
        """The next version of a task."""
        caller = caller_of(request, self._parts.door, _WRITES)
        parameters(request, ())
        task_id, version = id_in_path(request, KIND), version_in(request)
        asked = await body_as(request, TaskPatch)
        version = require_change(asked, version)
        return _tagged(await self.changed(caller, task_id, version, asked, Integrity.USER))

    async def changed(
        self, caller: Caller, task_id: UUID, version: int, asked: TaskPatch, integrity: Integrity
    ) -> TaskSaid:
        """The next version of a task, as somebody's words: never above those that it had. What is answered is read
        before it is changed: who is told of a fault behind that sends it again.
        """
        holder = await self._holder(caller)
        known = await self._known(caller, holder, task_id)
        require_writable(holder, _item(caller, known), KIND)
        given = asked.model_fields_set
        words = {name: getattr(asked if name in given else known, name) for name in WORDS}
        status: Status = asked.status if "status" in given else known.status
        lower = integrity if known.integrity == Integrity.USER.value else Integrity(known.integrity)
        memory = await self._memory(caller, status, words, known.sensitivity, lower)
        change = TaskChange(status, memory, needs=None)
        if "needs" in given:
            await self._seen(caller, holder, set(asked.needs) - {str(need) for need in known.needs})
            change = replace(change, needs=frozenset(as_id(need, KIND, "needs") for need in asked.needs))
        if "checkpoint" in given:
            checkpoints = await checkpoints_of(self._parts.tasks, caller, holder, [asked.checkpoint])
            change = replace(change, checkpoint_id=checkpoints[asked.checkpoint])
        subject = await self._parts.keys.subject_id(caller.scope.tenant, caller.scope.user)
        labels = await self._labels.of(caller.scope, [known.session_id])
        not_done = await self._not_done(caller, holder, known.needs if change.needs is None else change.needs)
        note = _note(caller, "change", [task_id])
        made = await self._parts.tasks.change(
            caller.scope, subject, task_id, version, change, caller.actor, now=caller.now, note=note
        )
        await self._changed(caller, "changed")
        return task_said(made, labels, not_done, name_shown(holder, made))

    async def delete(self, request: web.Request) -> web.Response:
        """Hide a task: what needed it does not wait for it any more."""
        caller = caller_of(request, self._parts.door, _WRITES)
        parameters(request, ())
        return said(await self.deleted(caller, id_in_path(request, KIND), version_in(request)))

    async def deleted(self, caller: Caller, task_id: UUID, version: int | None = None) -> TaskDeleted:
        """Hide a task. Raises NotFound, and Conflict for another version."""
        holder = await self._holder(caller)
        known = await self._known(caller, holder, task_id)
        require_writable(holder, _item(caller, known), KIND)
        note = _note(caller, "delete", [known.task_id])
        await self._parts.tasks.delete(caller.scope, known.task_id, version=version, now=caller.now, note=note)
        await self._changed(caller, "deleted")
        return TaskDeleted(id=str(known.task_id), deleted_at=caller.now, undo_until=caller.now + UNDO)

    async def undelete(self, request: web.Request) -> web.Response:
        """Bring back a task that was deleted."""
        caller = caller_of(request, self._parts.door, _WRITES)
        parameters(request, ())
        task_id = id_in_path(request, KIND)
        note = _note(caller, "undelete", [task_id])
        may = may_show(await self._holder(caller), partial(_item, caller), KIND)
        back = await self._parts.tasks.undelete(caller.scope, task_id, now=caller.now, note=note, may=may)
        await self._changed(caller, "undeleted")
        return await self._shown(caller, back)

    # ------------------------------------------------------------ steps

    async def _holder(self, caller: Caller) -> Holder:
        return await holder_for(caller, self._parts.keys)

    async def _seen(self, caller: Caller, holder: Holder, needs: Collection[str]) -> Sequence[Task]:
        """The tasks that are needed. Raises NotFound for one that the caller may not see, as if it were not there."""
        wanted = {as_id(need, KIND, "needs") for need in needs}
        found = await self._parts.tasks.some(caller.scope, sorted(wanted)) if wanted else []
        seen = readable(holder, found, partial(_item, caller))
        if missing := sorted(wanted - {one.task_id for one in seen}):
            raise NotFound(f"there is no such task in this scope: {missing[0]}", param="needs")
        return seen

    async def _known(self, caller: Caller, holder: Holder, task_id: UUID) -> Task:
        known = await self._parts.tasks.one(caller.scope, task_id)
        require_readable(holder, _item(caller, known), KIND)
        return known

    async def _changed(self, caller: Caller, what: str, count: int = 1) -> None:
        await self._parts.tells.changed(caller.scope)
        self._parts.metrics.tasks.labels(what).inc(count)

    async def shown(self, caller: Caller, found: Sequence[Task]) -> Sequence[TaskSaid]:
        """Tasks as they are shown."""
        labels = await self._labels.of(caller.scope, [one.session_id for one in found])
        holder = await self._holder(caller)
        not_done = await self._not_done(caller, holder, {need for one in found for need in one.needs})
        return [task_said(one, labels, not_done, name_shown(holder, one)) for one in found]

    async def _shown(self, caller: Caller, one: Task) -> web.Response:
        (body,) = await self.shown(caller, [one])
        return _tagged(body)

    async def _not_done(self, caller: Caller, holder: Holder, needs: Collection[UUID]) -> Set[UUID]:
        """Those of these that the caller sees and that are not done."""
        others = await self._parts.tasks.some(caller.scope, sorted(needs)) if needs else []
        return waiting(readable(holder, others, partial(_item, caller)))

    async def _memory(
        self, caller: Caller, status: Status, words: Mapping[str, str], sensitivity: str, integrity: Integrity
    ) -> NewMemory:
        """The words of a task as they are stored. Raises Unprocessable, StoreUnavailable."""
        clean = await asyncio.to_thread(self._cleaned, words, integrity)
        text = told(status, clean["title"], clean["notes"], clean["output"])
        origin = _origin(integrity)
        await asyncio.to_thread(_require_quotable, text, origin, "all of it together addresses", param="title")
        return await memory_of_record(
            self._parts,
            text,
            caller.now,
            origin=KIND,
            extractor_version=EXTRACTOR,
            sensitivity=Sensitivity(sensitivity),
            attributes={name: said for name, said in clean.items() if said},
            integrity=integrity,
            role="user" if integrity is Integrity.USER else "assistant",
        )

    def _cleaned(self, words: Mapping[str, str], integrity: Integrity) -> dict[str, str]:
        clean = {name: self._parts.redactor.redact(storable(raw)).text.strip() for name, raw in words.items()}
        if not clean["title"]:
            raise Unprocessable("a title says what is to be done; nothing is left of this one", param="title")
        for name, text in clean.items():
            if len(text) > 2 * (TITLE_CHARS_MAX if name == "title" else WORDS_CHARS_MAX):  # a place may be longer
                raise Unprocessable(f"{name} is too long once its secrets are cut out", param=name)
            _require_quotable(text, _origin(integrity), f"{name} addresses", param=name)
        return clean


def _tagged(one: TaskSaid) -> web.Response:
    answer = said(one)
    answer.headers["ETag"] = f'"{one.version}"'
    return answer


def _origin(integrity: Integrity) -> Origin:
    return "own" if integrity is Integrity.USER else "model"


def _as_copy(new: NewTask, copy: Copy) -> NewTask:
    memory = copy.memory(new.memory)
    return replace(new, task_id=copy.record_id, memory=memory, as_it_stood=True, times=copy.times)


def _words(one: TaskAsked) -> dict[str, str]:
    return {"title": one.title, "notes": one.notes, "input": one.input, "output": one.output}


def _named(asked: Sequence[TaskAsked]) -> dict[str, UUID]:
    """Ids of the tasks that have a name in this body. Raises Unprocessable for a name that two have."""
    ids: dict[str, UUID] = {}
    for one in asked:
        if one.name in ids:
            raise Unprocessable("two tasks of this body have one name", param="tasks")
        if one.name is not None:
            ids[one.name] = new_id()
    return ids


def _ids(asked: Sequence[TaskAsked], named: Mapping[str, UUID]) -> list[UUID]:
    return [named[one.name] if one.name is not None else new_id() for one in asked]


def _need(need: str, named: Mapping[str, UUID]) -> UUID:
    return named[need] if need in named else as_id(need, KIND, "needs")


def _statuses(given: str | None) -> Sequence[Status]:
    if given is None:
        return STATUSES
    asked = set(given.split(","))
    if "open" in asked:
        asked = asked - {"open"} | OPEN
    if not asked <= set(STATUSES):
        raise MemoryInvalid(f"status is open or some of {', '.join(STATUSES)}, with commas", param="status")
    return [one for one in STATUSES if one in asked]


def _note(caller: Caller, what: str, ids: Sequence[UUID]) -> Note:
    return noted(caller.scope.tenant, caller.actor, f"task.{what}", ids=ids, at=caller.now)


def _item(caller: Caller, one: Task) -> Item:
    return Item(caller.scope.tenant, Sensitivity(one.sensitivity), session_id=one.session_id)
