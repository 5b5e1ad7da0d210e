"""Sharing as an act: a memory of the caller's own scope in, a copy of it in what the project or the tenant shares out.

The copy is a document there, with the source's integrity and sensitivity and none of what made it somebody's own fact,
preference or procedure; a derivation edge names its source. Whatever ends the source ends the copy, in the same
transaction (a trigger of migration 0015). Act and audit row are one transaction. Refuses what is confidential or above,
what recall does not show, sessions' own state, and what lies outside the caller's scope (NotFound).
"""

from __future__ import annotations

import hashlib
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from memory.adapters.postgres.audit import AuditLog
from memory.adapters.postgres.database import Database, Transaction
from memory.adapters.postgres.outbox import announce
from memory.adapters.postgres.scopes import Scopes
from memory.adapters.postgres.sealing import looks_sealed
from memory.audit import noted
from memory.errors import NotFound, StoreUnavailable, Unprocessable
from memory.ids import new_id
from memory.model import Scope
from memory.shared import Shared, SharedTo
from policies.labels import Sensitivity, within_ceiling

CEILING: Final = Sensitivity.INTERNAL
"""What is above it is never shared (DESIGN section 7)."""
_KINDS: Final = frozenset({"episodic", "semantic", "procedural", "document"})
_COLLECTIONS: Final = frozenset({"episode", "month", "canary", "session-document"})


class Sharing:
    """Shares and takes back. `embeddings` is the table whose vectors a copy gets."""

    def __init__(
        self,
        database: Database,
        scopes: Scopes,
        audit: AuditLog,
        embeddings: str,
    ) -> None:
        self._database = database
        self._scopes = scopes
        self._audit = audit
        self._copy_embeddings = database.queries["copy_embeddings_to"].of_table(embeddings)

    async def share(self, scope: Scope, memory_id: UUID, to: SharedTo, *, actor: str, now: datetime) -> Shared:
        """Copy a memory to what `to` shares; the copy that is there already where it was. Raises NotFound,
        Unprocessable.
        """
        own = await self._scopes.known(scope, "nothing is stored in this scope")
        target = await self._common(scope, to)
        copy_id = new_id()
        note = noted(scope.tenant, actor, f"share.{to}", ids=(memory_id, copy_id), names=_names(scope, to), at=now)
        witness = await self._audit.witness(note)
        async with self._database.transaction(scope.tenant, [own, target]) as tx:
            await tx.value(
                "bump_scope", scope.tenant, own
            )  # the order of locks: own scope, memory, shared scope, chain
            source = await tx.row("source_to_share", scope.tenant, own, memory_id)
            _refuse(source, now)
            known = await tx.row("copies_shown", scope.tenant, memory_id, [target])
            if known is not None:
                return Shared(memory_id, UUID(int=known["copy_id"].int), to, known["created_at"], new=False)
            await self._copy(tx, scope.tenant, memory_id, copy_id, own, target, source, to, now)
            await witness(tx)
        return Shared(memory_id, copy_id, to, now, new=True)

    async def unshare(
        self, scope: Scope, memory_id: UUID, to: SharedTo, *, actor: str, now: datetime, admin: bool = False
    ) -> tuple[UUID, ...]:
        """Hide the copies of one's own memory in what `to` shares, also those that are hidden with it until it is shown
        again; an `admin` may name a copy of anybody's instead.
        The ids of the copies hidden. Raises NotFound where there is none.
        """
        target = await self._known_common(scope, to)
        own = await self._scopes.find(scope)
        if target is None or (own is None and not admin):
            raise NotFound("no such memory is shared")
        seen = [target] if own is None else [own, target]
        note = noted(scope.tenant, actor, f"unshare.{to}", ids=(memory_id,), names=_names(scope, to), at=now)
        witness = await self._audit.witness(note)
        async with self._database.transaction(scope.tenant, seen) as tx:
            if own is not None:
                await tx.value("bump_scope", scope.tenant, own)
            copies = await self._copies(tx, scope.tenant, own, target, memory_id, admin=admin)
            if not copies:
                raise NotFound("no such memory is shared")
            changed = await tx.value("bump_scope", scope.tenant, target)
            await tx.run_many("hide_memory", ((scope.tenant, one, now, changed) for one in copies))
            await announce(tx, scope.tenant, target, "deleted", copies, by="unshare", at=now)
            await witness(tx)
        return copies

    async def _copy(
        self,
        tx: Transaction,
        tenant: UUID,
        source_id: UUID,
        copy_id: UUID,
        own: int,
        target: int,
        source: Any,
        to: SharedTo,
        now: datetime,
    ) -> None:
        changed = await tx.value("bump_scope", tenant, target)
        key = hashlib.sha256(b"shared\x00" + copy_id.bytes).digest()
        version = source["version"]
        await tx.run("copy_memory", tenant, source_id, copy_id, target, key, changed, now)
        told = {"shared": to}
        await tx.run("copy_version", tenant, source_id, version, copy_id, target, source["expires_at"], told, now)
        (read,) = await tx.fetch("versions_by_number", tenant, [source_id], [version])
        if looks_sealed(read["content"]):  # it only pretends to be, and lies sealed for its own row
            await tx.run("seal_version", tenant, copy_id, 1, target, read["content"], told, read["sensitivity"])
        await tx.run("copy_provenance_to", tenant, source_id, version, copy_id, target, now)
        await tx.run(self._copy_embeddings, tenant, source_id, version, copy_id, target)
        await tx.run("add_share", tenant, source_id, copy_id, target, own, now)
        await tx.run("add_derivation", tenant, copy_id, "memory", source_id, "memory", 0, target, None, None)
        labels = {copy_id: {"to": to}}
        await announce(tx, tenant, target, "shared", [copy_id], by="api", at=now, metadata=labels)
        await announce(tx, tenant, own, "shared", [source_id], by="api", at=now, metadata={source_id: {"to": to}})

    async def _copies(
        self, tx: Transaction, tenant: UUID, own: int | None, target: int, memory_id: UUID, *, admin: bool
    ) -> tuple[UUID, ...]:
        """The copies to hide: of the caller's own memory, or for an admin the one that is named."""
        source = None if own is None else await tx.row("lock_memory", tenant, own, memory_id)
        if source is not None:
            found = await tx.fetch("copies_to_take_back", tenant, memory_id, [target], source["deleted_at"])
            return tuple(UUID(int=row["copy_id"].int) for row in found)
        if not admin or await tx.row("source_of_copy", tenant, memory_id, [target]) is None:
            return ()
        locked = await tx.row("lock_memory", tenant, target, memory_id)
        return () if locked is None or locked["deleted_at"] is not None else (memory_id,)

    async def _common(self, scope: Scope, to: SharedTo) -> int:
        """The scope that is shared, made when it is new."""
        names = (scope.tenant, to, _project(scope, to))
        known = await self._known_common(scope, to)
        if known is None:
            async with self._database.transaction(scope.tenant) as tx:
                await tx.run("add_common_scope", *names)
                known = await tx.value("find_common_scope", *names)
        if known is None:
            raise StoreUnavailable("a scope was stored and is not there")
        return known

    async def _known_common(self, scope: Scope, to: SharedTo) -> int | None:
        async with self._database.transaction(scope.tenant, read_only=True) as tx:
            found: int | None = await tx.value("find_common_scope", scope.tenant, to, _project(scope, to))
        return found


def _refuse(source: Any | None, now: datetime) -> None:
    """Raise NotFound or Unprocessable for what must not be shared."""
    if source is None or source["deleted_at"] is not None:
        raise NotFound("there is no such memory in this scope")
    if source["expires_at"] is not None and source["expires_at"] <= now:
        raise NotFound("there is no such memory in this scope")
    if not within_ceiling(Sensitivity(source["sensitivity"]), CEILING):
        raise Unprocessable("what is confidential or secret cannot be shared", param="sensitivity")
    if source["kind"] not in _KINDS or source["collection"] in _COLLECTIONS:
        raise Unprocessable("the state and the summaries of a session cannot be shared", param="kind")
    if source["quarantined_at"] is not None or source["superseded_by"] is not None:
        raise Unprocessable("what is quarantined or superseded cannot be shared", param="id")
    if source["validation_status"] == "rejected":
        raise Unprocessable("what a review has rejected cannot be shared", param="validation_status")
    if source["kind"] == "procedural" and source["validation_status"] != "confirmed":
        raise Unprocessable("a procedure can be shared once it is approved", param="validation_status")


def _project(scope: Scope, to: SharedTo) -> str:
    return scope.project if to == "project" else ""


def _names(scope: Scope, to: SharedTo) -> dict[str, str]:
    return {"user": scope.user, **({"project": scope.project} if to == "project" else {})}
