"""The records of an import: lines as an export writes them in, records of the caller's scope out.

A record goes the way of its own call: redaction, judgement, bounds and audit are those. Its ids are made of those that
it had, so one that is taken in twice is there once, one that was deleted here stays deleted, and what was forgotten
does not come back. Only a key that may import as trusted brings any, since they are words of the user's own; none gains
integrity by travelling. Raises LineRefused, in words for the answer; NotYet for one that names what may come later.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Final, TypeVar
from uuid import UUID

from pydantic import BaseModel

from memory.audit import noted
from memory.checkpoints import StoredPart
from memory.entities import Entity
from memory.errors import NotFound, Refused, StoreUnavailable
from memory.model import OnConflict, Unless
from policies.checkpoint import may_become
from policies.gate import Item, filter_write
from policies.labels import Integrity, Sensitivity
from proxy.api.asking import Caller, holder_for, session_named, validated
from proxy.api.conversation_parts import Words
from proxy.api.copies import Copy, copy_of, times_in
from proxy.api.entities import EntityCalls
from proxy.api.import_edits import FORGOTTEN, EditTaker
from proxy.api.import_lines import EDITED_TYPE, LineRefused, NotYet, Record
from proxy.api.memories import Memories
from proxy.api.parts import OwnParts
from proxy.api.personas import PersonaCalls
from proxy.api.saving import Saving
from proxy.api.schemas_entity import EntityAsked, RelationshipAsked
from proxy.api.schemas_persona import PersonaAsked
from proxy.api.schemas_records import CheckpointLine, EntityLine, PartLine, PersonaLine, RelationshipLine, TaskLine
from proxy.api.schemas_task import TaskAsked, TasksAsked
from proxy.api.sessions import Labels
from proxy.api.task_checkpoints import checkpoints_of
from proxy.api.tasks import TaskCalls

M = TypeVar("M", bound=BaseModel)
L = TypeVar("L", Entity, StoredPart)
_VOUCHED: Final = frozenset({Integrity.ADMIN.value, Integrity.USER.value})
UNTRUSTED: Final = (
    "records and edits of memories are the user's own words: they are taken from a key with memory:import:trusted"
)


class RecordTaker:
    """Takes the records of one import."""

    def __init__(self, parts: OwnParts, caller: Caller, *, trusted: bool, on_conflict: OnConflict) -> None:
        self._parts = parts
        # A session in the head of the call is that of turns without one; a record says its own.
        self._caller = replace(caller, ask=replace(caller.ask, session=None))
        self._trusted = trusted
        self._personas, self._entities, self._saving = PersonaCalls(parts), EntityCalls(parts), Saving(parts)
        labels, self._copies = Labels(parts.records), dict[UUID, UUID]()
        self._tasks = TaskCalls(parts, labels)
        edits = EditTaker(parts, self._caller, Memories(parts, labels), on_conflict, self._copies)
        self._waited: set[str] = set()  # tasks that were put off once, until all checkpoints have come
        self._known_here: dict[str, UUID] = {}  # by the ids that they had, those who were here under other ids
        self._take: Final[dict[str, Callable[[dict[str, Any]], Awaitable[None]]]] = {
            "persona": self._persona,
            "entity": self._entity,
            "relationship": self._relationship,
            "task": self._task,
            "checkpoint": self._checkpoint,
            EDITED_TYPE: edits.take,
        }

    async def take(self, record: Record) -> None:
        """Take one. Raises LineRefused, NotYet, StoreUnavailable."""
        if not self._trusted:
            raise LineRefused(UNTRUSTED)
        value = {name: member for name, member in record.value.items() if name != "type"}
        try:
            await self._take[record.kind](value)
        except StoreUnavailable:
            raise
        except Refused as fault:
            raise LineRefused(f"{record.kind}: {fault}") from fault

    async def _persona(self, value: dict[str, Any]) -> None:
        line = validated(PersonaLine, value)
        copy = await self._new(line)
        if copy is None:
            return
        await self._personas.kept(self._caller, _asked(PersonaAsked, line), copy)

    async def _entity(self, value: dict[str, Any]) -> None:
        line = validated(EntityLine, {**_without(value, "of"), "type": value.get("of")})
        copy, same = await self._new(line), await self._called_so(line)
        here = same[0] if same else None
        if here is not None:
            self._known_here[line.id] = here.entity_id
        if copy is None or (here is not None and line.learnt):
            return
        for other in same[1:]:  # they were one where it comes from
            here = await self._entities.merged(self._caller, other.entity_id, same[0].entity_id)
        await self._entities.kept(self._caller, _asked(EntityAsked, line), copy, here)

    async def _relationship(self, value: dict[str, Any]) -> None:
        line = validated(RelationshipLine, {**_without(value, "tie"), "type": value.get("tie")})
        copy = await self._new(line)
        if copy is None:
            return
        ends = {"source": await self._entity_here(line.source), "target": await self._entity_here(line.target)}
        await self._entities.tied(self._caller, _asked(RelationshipAsked, line).model_copy(update=ends), copy)

    async def _task(self, value: dict[str, Any]) -> None:
        line = validated(TaskLine, value)
        copy = await self._new(line, line.session)
        if copy is None:
            return
        here: dict[str, Any] = {"checkpoint": await self._checkpoint_here(line), "name": None}
        needs = [await self._task_here(one) for one in line.needs]
        here["needs"] = [one for one in needs if one is not None]
        asked = _asked(TaskAsked, line).model_copy(update=here)
        integrity = Integrity.USER if line.integrity in _VOUCHED else Integrity.ASSISTANT
        await self._tasks.added(self._caller, TasksAsked(tasks=[asked], session=line.session), integrity, [copy])

    async def _checkpoint(self, value: dict[str, Any]) -> None:
        """Its parts become its own, in words; documents and files are not taken, and an upload brings those again."""
        line = validated(CheckpointLine, value)
        caller, store = self._caller, self._parts.checkpoints.store
        said = await self._clean(
            one for one in line.parts if one.part != "document" and may_become(one.part, Integrity(one.integrity))
        )
        try:
            known = await store.one(caller.scope, caller.credential.hide(line.name))
        except NotFound:
            pass
        else:
            there = {(one.part, one.content) for one in await self._below(known.parts)}
            if all((one.part, one.content) in there for one in said):
                return
            raise LineRefused("checkpoint: another of this name is here; rename or delete one of them")
        if not said:
            raise LineRefused(
                "checkpoint: documents are to be uploaded again, and only a user's own words become a goal"
            )
        ids = {one.memory_id: _part_id(caller, line, one) for one in said}
        unless = {
            one.memory_id: await self._unless([UUID(one.memory_id), ids[one.memory_id]], line.session, line.created_at)
            for one in said
        }
        forgets, tenant = self._parts.forgets, caller.scope.tenant
        said = [one for one in said if not await forgets.kept_away(tenant, unless[one.memory_id])]
        if not said:
            raise LineRefused(f"checkpoint: {FORGOTTEN}")
        if await self._parts.records.memory_labels(caller.scope, list(ids.values())):
            raise LineRefused("checkpoint: it was deleted here; undelete brings it back")
        session = await session_named(caller, self._parts.keys, line.session)
        of_session = session.session_id if session is not None else None
        words = [_words(one, min(one.occurred_at, caller.now) if one.occurred_at else None) for one in said]
        new = await self._saving.made_of(caller.credential.hide(line.name), words, caller, of_session)
        # The parts of one checkpoint differ in their kind or their words, and come out in that order.
        of = {(one.part, one.content): Copy(UUID(line.id), ids[one.memory_id], unless[one.memory_id]) for one in said}
        copies = [(one, of[one.part, one.made.content], one.made) for one in new.parts if one.made is not None]
        parts = tuple(replace(one, memory_id=copy.memory_id, made=copy.memory(made)) for one, copy, made in copies)
        subject = await self._parts.keys.subject_id(caller.scope.tenant, caller.scope.user)
        names = {"checkpoint": new.name}
        note = noted(caller.scope.tenant, caller.actor, "checkpoint.save", names=names, at=caller.now)
        new = replace(new, parts=parts, times=times_in(line.created_at, line.changed_at, caller.now))
        await store.save(caller.scope, subject, new, now=caller.now, note=note)
        await self._parts.tells.changed(caller.scope)
        self._parts.metrics.checkpoints.labels("saved").inc()

    # ------------------------------------------------------------ steps

    async def _clean(self, parts: Iterable[PartLine]) -> list[PartLine]:
        """Parts of a checkpoint in the words that are kept here: by these they are known when they come again."""
        said = list(parts)
        clean = await self._saving.cleaned([_words(one) for one in said])
        return [one.model_copy(update={"content": words.text}) for one, words in zip(said, clean, strict=True)]

    async def _new(self, line: Any, session: str | None = None) -> Copy | None:
        """The ids of a record that is to be kept; None for one that is here, or was and has been deleted since."""
        scope = self._caller.scope
        copy, memory_id = copy_of(scope, UUID(line.id)), UUID(line.memory_id)
        unless = await self._unless([memory_id, copy.memory_id], session, line.created_at)
        if await self._parts.forgets.kept_away(scope.tenant, unless):
            raise LineRefused(FORGOTTEN)
        known = await self._parts.records.memory_labels(scope, [memory_id, copy.memory_id])
        self._copies[memory_id] = copy.memory_id
        times = times_in(line.created_at, line.changed_at, self._caller.now)
        return None if known else replace(copy, unless=unless, times=times)

    async def _unless(self, ids: Sequence[UUID], session: str | None, happened: datetime | None) -> Unless:
        label = self._caller.kept(session) if session is not None else None
        return await self._parts.forgets.unless(self._caller.scope, ids, label, happened or self._caller.now)

    async def _called_so(self, line: EntityLine) -> list[Entity]:
        """Who here has the line's name, where the line is that one's card, or either is only learnt; and who is learnt
        by other names that the card says, unless there may be several of these.
        """
        scope, found = self._caller.scope, dict[UUID, Entity]()
        cards = {UUID(line.memory_id), copy_of(scope, UUID(line.id)).memory_id, None}
        for name in (line.name, *(() if line.learnt or line.namesake else line.aliases)):
            named = await self._named(line, name)
            if len(named) == 1 and (line.learnt or named[0].card_id in cards):
                found.setdefault(named[0].entity_id, named[0])
        return list(found.values())

    async def _named(self, line: EntityLine, name: str) -> Sequence[Entity]:
        asked: dict[str, Any] = {"limit": 2, "cursor": None, "types": [line.type]}
        found = await self._parts.entities.named(self._caller.scope, self._caller.credential.hide(name), **asked)
        return await self._below(found.rows)

    async def _below(self, found: Sequence[L]) -> Sequence[L]:
        """Those of these that the caller's ceiling lets it change: of others nothing is said."""
        holder = await holder_for(self._caller, self._parts.keys)
        items = [Item(holder.tenant, Sensitivity(one.sensitivity)) for one in found]
        return [one for one, item in zip(found, items, strict=True) if filter_write(holder, item).allowed]

    async def _entity_here(self, named: str) -> str:
        """The entity that a line names, by its id, that of its copy or that of who was here. Raises NotYet."""
        ids = _ids_of(self._caller, named)
        ids += [self._known_here[named]] if named in self._known_here else []
        found = {one.entity_id for one in await self._parts.entities.some(self._caller.scope, ids)}
        return _first(ids, found, "an entity")

    async def _task_here(self, named: str) -> str | None:
        """The task that a line needs, likewise; None for one that was here and has been deleted: nothing waits for it
        any more. Raises NotYet.
        """
        scope, ids = self._caller.scope, _ids_of(self._caller, named)
        found = {one.task_id for one in await self._parts.tasks.some(scope, ids)}
        if ids and not found and await self._parts.records.memory_labels(scope, [copy_of(scope, ids[0]).memory_id]):
            return None
        return _first(ids, found, "a task")

    async def _checkpoint_here(self, line: TaskLine) -> str | None:
        """The checkpoint that a task names, by its name; a task is taken without one that does not come either. Raises
        NotYet the first time.
        """
        holder = await holder_for(self._caller, self._parts.keys)
        try:
            await checkpoints_of(self._parts.tasks, self._caller, holder, [line.checkpoint])
        except NotFound:
            if line.id in self._waited:
                return None
            self._waited.add(line.id)
            raise NotYet("it names a checkpoint that is not here") from None
        return line.checkpoint


def _first(ids: Sequence[UUID], found: set[UUID], what: str) -> str:
    for one in ids:
        if one in found:
            return str(one)
    raise NotYet(f"it names {what} that is not here: {ids[0] if ids else 'no id'}")


def _ids_of(caller: Caller, named: str) -> list[UUID]:
    try:
        return [UUID(named), copy_of(caller.scope, UUID(named)).record_id]
    except ValueError:
        return []


def _part_id(caller: Caller, line: CheckpointLine, one: PartLine) -> UUID:
    """The id of a part's copy: of another checkpoint it is another memory."""
    return copy_of(caller.scope, UUID(int=UUID(line.id).int ^ UUID(one.memory_id).int)).memory_id


def _words(one: PartLine, said_at: datetime | None = None) -> Words:
    integrity = Integrity(one.integrity) if one.integrity not in _VOUCHED else Integrity.USER
    role = "user" if integrity is Integrity.USER else "assistant"
    return Words(one.part, one.content, role, integrity, Sensitivity(one.sensitivity), (), said_at)


def _asked(model: type[M], line: BaseModel) -> M:
    """What the line's own call takes; the line is held to its own bounds."""
    return model.model_construct(**{name: getattr(line, name) for name in model.model_fields})


def _without(value: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: member for name, member in value.items() if name not in names}
