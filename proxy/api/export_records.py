"""The records of a scope as lines of an export: personas, people and things, what ties them, checkpoints, tasks.

Only what somebody wrote and a prompt may be given: what is learnt of facts comes again with its turns. Reads by pages.
Raises StoreUnavailable.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final
from uuid import UUID

from memory.checkpoints import Checkpoint, StoredPart
from memory.entities import Entity, Relationship
from memory.errors import NotFound
from memory.model import Scope
from memory.personas import Persona
from memory.tasks import Task
from policies.gate import Holder, Item
from policies.labels import Sensitivity
from proxy.api.asking import to_rfc3339
from proxy.api.checkpoint_words import row_item
from proxy.api.entities import TYPES
from proxy.api.parts import OwnParts
from proxy.api.sessions import Labels
from proxy.api.task_checkpoints import name_shown
from proxy.gated import readable

_PAGE_ROWS: Final = 500
Line = dict[str, Any]


async def record_lines(parts: OwnParts, scope: Scope, holder: Holder) -> AsyncIterator[list[Line]]:
    """The lines by pages; what another names comes before it, but for tasks, which need each other as they like. None
    names what is not among them.
    """
    item = _item_in(scope)
    personas = readable(holder, await parts.personas.all_of(scope), item)
    yield [persona_line(one) for one in personas if not one.hidden]
    async for page in _entities(parts, scope, holder):
        yield page
    async for page in _checkpoints(parts, scope, holder):
        yield page
    cursor = None
    while True:
        tasks = await parts.tasks.page(scope, limit=_PAGE_ROWS, cursor=cursor)
        seen = [one for one in readable(holder, tasks.rows, item) if not one.hidden]
        labels = await Labels(parts.records).of(scope, (one.session_id for one in seen))
        needed = await parts.tasks.some(scope, list({need for one in seen for need in one.needs}))
        goes = {one.task_id for one in readable(holder, needed, item) if not one.hidden}
        yield [
            task_line(
                replace(one, needs=tuple(need for need in one.needs if need in goes)),
                labels.get(one.session_id) if one.session_id else None,
                name_shown(holder, one),
            )
            for one in seen
        ]
        if (cursor := tasks.next_cursor) is None:
            break


async def _entities(parts: OwnParts, scope: Scope, holder: Holder) -> AsyncIterator[list[Line]]:
    item, cursor, ids, learnt = _item_in(scope), None, list[UUID](), dict[UUID, Entity]()
    goes: set[UUID] = set()
    while True:
        page = await parts.entities.page(scope, limit=_PAGE_ROWS, cursor=cursor, types=TYPES)
        seen = readable(holder, page.rows, item)
        yield [entity_line(one) for one in seen if one.card_id is not None and not one.hidden]
        ids += [one.entity_id for one in seen]
        learnt |= {one.entity_id: one for one in seen if one.card_id is None}
        goes |= {one.entity_id for one in seen if one.card_id is None or not one.hidden}
        if (cursor := page.next_cursor) is None:
            break
    for first in range(0, len(ids), _PAGE_ROWS):
        async for ties in _ties(parts, scope, ids[first : first + _PAGE_ROWS]):
            kept = [one for one in readable(holder, ties, item) if not one.learnt and {one.source, one.target} <= goes]
            ends = [learnt.pop(end) for one in kept for end in (one.source, one.target) if end in learnt]
            yield [*map(entity_line, ends), *map(relationship_line, kept)]


async def _ties(parts: OwnParts, scope: Scope, ids: Sequence[UUID]) -> AsyncIterator[Sequence[Relationship]]:
    cursor = None
    while True:
        page = await parts.entities.tied(scope, ids, limit=_PAGE_ROWS, cursor=cursor)
        yield page.rows
        if (cursor := page.next_cursor) is None:
            break


async def _checkpoints(parts: OwnParts, scope: Scope, holder: Holder) -> AsyncIterator[list[Line]]:
    item, cursor = _item_in(scope), None
    while True:
        page = await parts.checkpoints.store.page(scope, limit=_PAGE_ROWS, cursor=cursor, order="asc")
        rows = readable(holder, page.rows, partial(row_item, scope))
        labels = await Labels(parts.records).of(scope, (row.session_id for row in rows))
        for row in rows:
            try:
                whole = await parts.checkpoints.store.one(scope, row.name)
            except NotFound:  # deleted since the page was read
                continue
            kept = [one for one in readable(holder, whole.parts, item) if not one.state]
            if kept:  # of one that says nothing any more there is nothing to take in
                yield [checkpoint_line(whole, kept, labels.get(row.session_id) if row.session_id else None)]
        if (cursor := page.next_cursor) is None:
            break


def _item_in(scope: Scope) -> Callable[[Any], Item]:
    def item(one: Any) -> Item:
        return Item(scope.tenant, Sensitivity(one.sensitivity), session_id=getattr(one, "session_id", None))

    return item


def persona_line(one: Persona) -> Line:
    """A persona."""
    return _line(
        "persona",
        one.persona_id,
        name=one.name,
        facets=dict(one.facets),
        description=one.description,
        interests=list(one.interests),
        sensitivity=one.sensitivity,
        memory_id=str(one.memory_id),
        created_at=to_rfc3339(one.created_at),
        changed_at=to_rfc3339(one.changed_at),
    )


def entity_line(one: Entity) -> Line:
    """A person or a thing that somebody wrote of, those that are merged into it by their names; or that is learnt, and
    named by a tie that somebody wrote.
    """
    card: Mapping[str, Any] = (one.card.properties or {}) if one.card else {}
    facets: Mapping[str, str] = (one.card.facets or {}) if one.card else {}
    return _line(
        "entity",
        one.entity_id,
        of=one.type,
        name=one.name,
        aliases=list(one.aliases),
        properties=dict(card),
        facets=dict(facets),
        notes=one.card.notes if one.card else "",
        namesake=bool(one.ambiguous),
        learnt=True if one.card_id is None else None,
        sensitivity=one.sensitivity,
        memory_id=str(one.card_id or one.named_by[0]),
        created_at=to_rfc3339(one.created_at),
        changed_at=to_rfc3339(one.changed_at),
    )


def relationship_line(one: Relationship) -> Line:
    """What ties two."""
    return _line(
        "relationship",
        one.relationship_id,
        source=str(one.source),
        tie=one.type,
        target=str(one.target),
        properties=dict(one.properties),
        valid_from=to_rfc3339(one.valid_from),
        valid_to=to_rfc3339(one.valid_to),
        sensitivity=one.sensitivity,
        memory_id=str(one.memory_id),
        created_at=to_rfc3339(one.created_at),
    )


def task_line(one: Task, session: str | None, checkpoint: str | None) -> Line:
    """A task as it stands; its history stays where it is."""
    return _line(
        "task",
        one.task_id,
        title=one.title,
        status=one.status,
        notes=one.notes,
        input=one.input,
        output=one.output,
        needs=list(map(str, one.needs)),
        checkpoint=checkpoint,
        session=session,
        integrity=one.integrity,
        sensitivity=one.sensitivity,
        memory_id=str(one.memory_id),
        created_at=to_rfc3339(one.created_at),
        changed_at=to_rfc3339(one.changed_at),
    )


def checkpoint_line(one: Checkpoint, parts: list[StoredPart], session: str | None) -> Line:
    """A checkpoint in its version of now, each part with its words."""
    said = [
        {
            "part": part.part,
            "content": part.content,
            "made_by": part.role,
            "integrity": part.integrity,
            "sensitivity": part.sensitivity,
            "memory_id": str(part.memory_id),
            **({"occurred_at": to_rfc3339(part.occurred_at)} if part.occurred_at else {}),
        }
        for part in parts
    ]
    row = one.row
    return _line(
        "checkpoint",
        row.checkpoint_id,
        name=row.name,
        session=session,
        parts=said,
        created_at=to_rfc3339(row.created_at),
        changed_at=to_rfc3339(row.changed_at),
    )


def _line(kind: str, record_id: Any, **members: Any) -> Line:
    found: Line = {"type": kind, "id": str(record_id), **members}
    return {name: value for name, value in found.items() if value is not None}
