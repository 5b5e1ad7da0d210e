"""Personas in Postgres: a scope and how answers are asked to be in, personas with the words of their memories out.

Each act is one transaction with its audit row, or nothing. Raises NotFound, Conflict, TooLarge, StoreUnavailable.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

from memory.adapters.postgres.acting import acting
from memory.adapters.postgres.audit import AuditLog
from memory.adapters.postgres.database import Database, Transaction
from memory.adapters.postgres.outbox import announce
from memory.adapters.postgres.own_memory import (
    add_next_version,
    add_own_memory,
    is_made,
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
from memory.model import Scope
from memory.personas import DESCRIPTION, INTERESTS, NewPersona, Persona
from policies.labels import Sensitivity
from policies.lifetime import UNDO, never_deleted

PERSONAS_MAX: Final = 100
"""Live ones of a scope."""
_NONE: Final = "there is no such persona in this scope"
Seen = Callable[[Sensitivity], bool]


def everybody(_: Sensitivity) -> bool:
    """Who asks may be told of any."""
    return True


class PersonaStore:
    """The personas of one store. `embeddings` is the table that their vectors go to."""

    def __init__(self, database: Database, scopes: Scopes, embeddings: str, audit: AuditLog) -> None:
        self._database = database
        self._scopes = scopes
        self._audit = audit
        self._add_embedding = database.queries["add_embedding"].of_table(embeddings)

    async def save(self, scope: Scope, subject_id: UUID, new: NewPersona, *, now: datetime, note: Note) -> Persona:
        """Keep it under its name. Raises Conflict where the name is taken, TooLarge."""
        scope_id, witness = await self._scopes.ensure(scope), await self._audit.witness(note)
        place = Place(scope.tenant, scope_id, subject_id, new_id(), now)
        async with acting(self._database, scope.tenant, scope_id, witness) as (tx, changed):
            await _require_room(tx, scope, scope_id)
            await add_own_memory(
                tx,
                place,
                new.memory,
                "persona",
                session_id=None,
                changed=changed,
                add_embedding=self._add_embedding,
            )
            row = (place.exchange_id, scope_id, new.name, new.memory.memory_id, dict(new.facets))
            if await tx.row("add_persona", scope.tenant, *row, *times_of(new.times, now)) is None:
                raise _taken()
            await announce(tx, scope.tenant, scope_id, "created", [new.memory.memory_id], by="api", at=now)
            return await _one(tx, scope, scope_id, new.name)

    async def change(
        self,
        scope: Scope,
        subject_id: UUID,
        version: int,
        new: NewPersona,
        *,
        now: datetime,
        note: Note,
        lowers: bool = False,
    ) -> Persona:
        """The next version of the persona of this name; it may be less sensitive where it `lowers` the label. Raises
        NotFound, Conflict.
        """
        scope_id, witness = await self._scopes.known(scope, _NONE), await self._audit.witness(note)
        async with acting(self._database, scope.tenant, scope_id, witness) as (tx, changed):
            known = await _locked(tx, scope, scope_id, new.name)
            persona_id, card_id = UUID(int=known["persona_id"].int), known["memory_id"]
            place = Place(scope.tenant, scope_id, subject_id, persona_id, now)
            if await is_made(tx, place, known, card_id, version, new.memory, lowers=lowers):
                persona = await _one(tx, scope, scope_id, new.name)
                if persona.facets == new.facets:
                    return persona
            require_version(known, version, "persona")
            embeds = self._add_embedding
            await add_next_version(tx, place, card_id, new.memory, changed=changed, add_embedding=embeds, lowers=lowers)
            await tx.run("change_persona", scope.tenant, persona_id, version + 1, dict(new.facets), now)
            return await _one(tx, scope, scope_id, new.name)

    async def delete(self, scope: Scope, name: str, *, version: int | None = None, now: datetime, note: Note) -> None:
        """Hide it. Raises NotFound, and Conflict for another `version`."""
        scope_id, witness = await self._scopes.known(scope, _NONE), await self._audit.witness(note)
        async with acting(self._database, scope.tenant, scope_id, witness) as (tx, changed):
            known = await _locked(tx, scope, scope_id, name)
            require_version(known, version, "persona")
            await tx.run("mark_persona_deleted", scope.tenant, known["persona_id"], now)
            await turn_memory(tx, scope.tenant, scope_id, known["memory_id"], now, changed=changed, now=now)

    async def undelete(
        self, scope: Scope, name: str, *, now: datetime, note: Note, may: Callable[[Persona], None]
    ) -> Persona:
        """Bring back the one of this name that was deleted last, within 30 days. Raises NotFound, Conflict, TooLarge,
        and what `may` does: then nothing changes.
        """
        scope_id, witness = await self._scopes.known(scope, _NONE), await self._audit.witness(note)
        async with acting(self._database, scope.tenant, scope_id, witness) as (tx, changed):
            gone = await tx.row("deleted_persona", scope.tenant, scope_id, name)
            if gone is None or gone["deleted_at"] < now - UNDO:
                raise NotFound(never_deleted("persona"))
            if await tx.row("mark_persona_deleted", scope.tenant, gone["persona_id"], None) is None:
                raise _taken()
            card_id, gone_at = gone["memory_id"], gone["deleted_at"]
            await turn_memory(tx, scope.tenant, scope_id, card_id, None, gone_at=gone_at, changed=changed, now=now)
            back = await _one(tx, scope, scope_id, name)
            may(back)
            await _require_room(tx, scope, scope_id, 0)  # for who may see it: to others there is none
        return back

    async def one(self, scope: Scope, name: str, *, seen: Seen = everybody) -> Persona:
        """A persona. Raises NotFound, which says when it was deleted where its label is `seen`."""
        scope_id = await self._scopes.known(scope, _NONE)
        async with self._database.transaction(scope.tenant, [scope_id], read_only=True) as tx:
            return await _one(tx, scope, scope_id, name, seen)

    async def all_of(self, scope: Scope) -> Sequence[Persona]:
        """The live personas of a scope, by name."""
        scope_id = await self._scopes.find(scope)
        if scope_id is None:
            return ()
        async with self._database.transaction(scope.tenant, [scope_id], read_only=True) as tx:
            found = await tx.fetch("personas_of_scope", scope.tenant, scope_id, PERSONAS_MAX)
            return await _with_words(tx, scope, scope_id, found)


def _taken() -> Conflict:
    return Conflict("a persona of this name is there already: choose another, or change that one", param="name")


async def _require_room(tx: Transaction, scope: Scope, scope_id: int, more: int = 1) -> None:
    """So many more may be live: the list of them is read whole. Raises TooLarge."""
    if len(await tx.fetch("personas_of_scope", scope.tenant, scope_id, PERSONAS_MAX + 1)) + more > PERSONAS_MAX:
        raise TooLarge(f"a scope holds at most {PERSONAS_MAX} personas; delete some", param="name")


async def _locked(tx: Transaction, scope: Scope, scope_id: int, name: str) -> Any:
    row = await tx.row("lock_persona", scope.tenant, scope_id, name)
    if row is None:
        raise await _not_there(tx, scope, scope_id, name)
    return row


async def _not_there(tx: Transaction, scope: Scope, scope_id: int, name: str, seen: Seen = everybody) -> NotFound:
    gone = await tx.row("deleted_persona", scope.tenant, scope_id, name)
    if gone is None or gone["deleted_at"] < datetime.now(UTC) - UNDO:
        return NotFound(_NONE)
    said = (await standing_by_id(tx, scope.tenant, scope_id, [gone["memory_id"]])).get(gone["memory_id"])
    if said is None or not seen(Sensitivity(said["sensitivity"])):
        return NotFound(_NONE)
    return NotFound(f"this persona was deleted on {gone['deleted_at']:%Y-%m-%d}; undelete brings it back")


async def _one(tx: Transaction, scope: Scope, scope_id: int, name: str, seen: Seen = everybody) -> Persona:
    row = await tx.row("persona_by_name", scope.tenant, scope_id, name)
    if row is None:
        raise await _not_there(tx, scope, scope_id, name, seen)
    found = await _with_words(tx, scope, scope_id, [row])
    if not found:
        raise NotFound(_NONE)
    return found[0]


async def _with_words(tx: Transaction, scope: Scope, scope_id: int, found: Sequence[Any]) -> list[Persona]:
    words = await standing_by_id(tx, scope.tenant, scope_id, (row["memory_id"] for row in found))
    return [
        Persona(
            persona_id=UUID(int=row["persona_id"].int),
            name=row["name"],
            version=row["version"],
            memory_id=UUID(int=row["memory_id"].int),
            facets=row["facets"],
            description=str(said["attributes"].get(DESCRIPTION, "")),
            interests=_listed(said["attributes"].get(INTERESTS)),
            text=said["content"],
            integrity=said["integrity"],
            sensitivity=said["sensitivity"],
            hidden=said["hidden"],
            created_at=row["created_at"],
            changed_at=row["changed_at"],
        )
        for row in found
        if (said := words.get(row["memory_id"])) is not None
    ]


def _listed(said: object) -> tuple[str, ...]:
    """Interests, as the attributes have them: a person may have written others there."""
    return tuple(map(str, said)) if isinstance(said, list) else ()
