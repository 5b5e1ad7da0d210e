"""The lifecycle feed: a change of memories in, numbered lines of the outbox out, in the change's own transaction.

What comes in: ids of memories, what became of them, who did it. What goes out: pages of events, oldest first, for a
governance layer outside. Numbers have no gaps inside a scope and follow the order of commits (docs/decisions/0010), so
a reader that asks for what comes behind its last cursor misses nothing and sees nothing twice. Holds ids and labels
only: metadata that could be content is refused with ValueError. Raises MemoryInvalid for a cursor that is none of the
scope's, StoreUnavailable.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, Literal
from uuid import UUID

from memory.adapters.postgres.database import Database, Transaction
from memory.adapters.postgres.rows import Place
from memory.adapters.postgres.scopes import Scopes
from memory.errors import MemoryInvalid
from memory.model import Scope
from memory.stored import EventPage, LifecycleEvent, MemoryChange

Happening = Literal[
    "created", "updated", "superseded", "expired", "revalidated", "shared", "deleted", "restored", "erased"
]
Label = str | int | bool | None | UUID | Sequence[str]
Labels = Mapping[str, Label]

EVENTS_KEPT: Final = timedelta(days=30)
"""As long as a deletion can be undone. A reader that stays away longer is told how many it missed."""
_DROPPED_AT_ONCE: Final = 10_000
_CHANGEABLE: Final = ("content", "pinned", "importance", "sensitivity", "validation_status", "attributes")
# A word of ours, a version, an id or a digest: nothing that a sentence fits into.
_LABEL: Final = re.compile(r"[\w.:/-]{1,64}", re.ASCII)
_CURSOR: Final = re.compile(r"([0-9]{1,18})\.([0-9]{1,18})", re.ASCII)


async def announce_events(
    tx: Transaction,
    place: Place,
    what: Happening,
    memory_ids: Iterable[UUID],
    *,
    metadata: Mapping[UUID, Labels] | None = None,
) -> None:
    """Tell what became of these memories of the place's scope, because of the place's exchange, or of who it is by.

    Call it after the change, in the same transaction, behind bump_scope (the order of locks), and before the row goes
    where it is erased: kind, version and labels are read from it. `metadata` goes by memory id.
    """
    by = place.by or str(place.exchange_id)
    await announce(tx, place.tenant, place.scope_id, what, memory_ids, by=by, at=place.now, metadata=metadata)


async def announce(
    tx: Transaction,
    tenant: UUID,
    scope_id: int,
    what: Happening,
    memory_ids: Iterable[UUID],
    *,
    by: str,
    at: datetime,
    metadata: Mapping[UUID, Labels] | None = None,
) -> None:
    """The same for a change that no exchange made. `by`: an id, or a word like "api". Raises ValueError."""
    ids = list(memory_ids)
    if not ids:
        return
    said = {str(memory_id): _checked(labels) for memory_id, labels in (metadata or {}).items()}
    await tx.run("announce_events", tenant, scope_id, what, ids, said, by, at)


async def announce_patch(
    tx: Transaction,
    tenant: UUID,
    scope_id: int,
    memory_id: UUID,
    change: MemoryChange,
    at: datetime,
    *,
    released: bool,
) -> None:
    """A change by the API: which members it changed, and that it revalidated the memory where it judged it; with the
    word that it was held back until now.
    """
    changed = [name for name in _CHANGEABLE if getattr(change, name) is not None]
    changed += ["expires_at"] if change.set_expires_at else []
    told: Labels = {"changed": changed}
    await announce(tx, tenant, scope_id, "updated", [memory_id], by="api", at=at, metadata={memory_id: told})
    if change.validation_status is not None:
        told = {"validation_status": change.validation_status} | ({"quarantine": "released"} if released else {})
        await announce(tx, tenant, scope_id, "revalidated", [memory_id], by="api", at=at, metadata={memory_id: told})


class Feed:
    """The reading side of the outbox."""

    def __init__(self, database: Database, scopes: Scopes) -> None:
        self._database = database
        self._scopes = scopes

    async def events(self, scope: Scope, *, limit: int, after: str | None = None) -> EventPage:
        """Events of the scope behind a cursor, oldest first. Raises MemoryInvalid."""
        scope_id = await self._scopes.find(scope)
        if scope_id is None:
            if after is not None:
                raise _foreign_cursor()
            return EventPage((), None, 0)
        seen = 0 if after is None else _seq(after, scope_id)
        async with self._database.transaction(scope.tenant, [scope_id], read_only=True) as tx:
            # First the counter: what it counts is visible to the question behind it, or was dropped.
            last = await tx.value("last_event", scope.tenant, scope_id) or 0
            found = await tx.fetch("events_after", scope.tenant, scope_id, seen, limit + 1)
        if seen > last:
            raise _foreign_cursor()
        rows = tuple(_event(scope_id, row) for row in found[:limit])
        first = found[0]["seq"] if found else last + 1
        missed = 0 if after is None else first - seen - 1
        return EventPage(rows, rows[-1].cursor if len(found) > limit else None, missed)


async def drop_old_events(database: Database, tenant: UUID, scope_ids: Sequence[int], now: datetime) -> int:
    """Drop the events of these scopes that are older than EVENTS_KEPT, some at a time; how many."""
    dropped = 0
    while True:
        async with database.transaction(tenant, scope_ids) as tx:
            gone = await tx.run("drop_events", tenant, now - EVENTS_KEPT, _DROPPED_AT_ONCE)
        dropped += gone
        if gone < _DROPPED_AT_ONCE:
            return dropped


def _event(scope_id: int, row: Any) -> LifecycleEvent:
    members = dict(row)
    return LifecycleEvent(cursor=f"{scope_id}.{members.pop('seq')}", **members)


def _seq(cursor: str, scope_id: int) -> int:
    found = _CURSOR.fullmatch(cursor)
    if found is None or int(found[1]) != scope_id:
        raise _foreign_cursor()
    return int(found[2])


def _foreign_cursor() -> MemoryInvalid:
    return MemoryInvalid("this cursor is not of this scope's feed as it is now; begin without one", param="after")


def _checked(labels: Labels) -> dict[str, Any]:
    """Labels as JSON. Raises ValueError for what could be a text: the feed leaves the house."""
    return {_word(name): _plain(value) for name, value in labels.items()}


def _plain(value: Label) -> Any:
    if value is None or isinstance(value, int):
        return value
    if isinstance(value, str | UUID):
        return _word(str(value))
    return [_word(one) for one in value]


def _word(text: str) -> str:
    if not _LABEL.fullmatch(text):
        raise ValueError("the lifecycle feed takes ids and labels of at most 64 characters, no text")
    return text
