"""Procedures: what was taught in; memories that hold, wait, are superseded or retired out, inside the caller's
transaction.

A wording that is new becomes a memory; one taught before gets one teaching more. Of the wordings of one trigger that
are approved the latest taught (or approved) holds, and it has taken the place of the others; this is worked out anew
each time one is added, judged or taken away, so nothing depends on the order of arrival, and a wording whose successor
goes holds again. A person's decision stays until the same is taught again after it.

The caller has raised the scope's version: its row lock keeps two writers of a scope apart. Raises StoreUnavailable,
StoreRefused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import pairwise
from typing import Final
from uuid import UUID

from memory.adapters.postgres import batch, outbox
from memory.adapters.postgres.database import Transaction
from memory.adapters.postgres.facts import EmbeddingQueries, Heard
from memory.adapters.postgres.procedure_rows import (
    REVIEWED,
    TAUGHT_ANEW,
    WAITS,
    Offered,
    Teaching,
    Wording,
    born_of,
    memory_of,
    procedure_row,
    renewal_of,
    said_of,
    wording_of,
)
from memory.adapters.postgres.rows import Place
from memory.errors import StoreRefused
from memory.model import NewProcedure
from policies.labels import derived_sensitivity
from policies.reconcile import moment
from policies.taught import fits

WORDINGS_MAX: Final = 200
"""Of one trigger; what is taught beyond them is kept as a turn only."""
_Book = dict[bytes, Wording]


def sift(procedures: Iterable[NewProcedure], heard: Mapping[UUID, Heard], without: frozenset[UUID]) -> list[Offered]:
    """Procedures whose turn is stored now, is the user's, is not forgotten and holds their words."""
    found = ((new, heard.get(new.event_id)) for new in procedures)
    return [
        Offered(new, one)
        for new, one in found
        if one is not None
        and one.turn.role == "user"
        and without.isdisjoint((new.event_id, new.memory.memory_id))
        and fits(new.procedure, one.turn.content)
    ]


async def store_procedures(
    tx: Transaction,
    place: Place,
    offered: Sequence[Offered],
    *,
    changed_version: int,
    embeddings: EmbeddingQueries,
    replaced: Sequence[UUID] = (),
) -> int:
    """Store these procedures and settle which wording of their triggers holds; returns how many are new memories.

    What was taught in the turns `replaced` counts no more: their text is another now.
    """
    lost = await _untaught(tx, place, replaced)
    triggers = await _triggers_of(tx, place, lost) | {one.new.procedure.key for one in offered}
    if not triggers:
        return 0
    book = await _open(tx, place, triggers)
    _hear(book, offered, place.now)
    back = [one for one in book.values() if one.is_taught_again]
    for one in back:
        await tx.run("hide_memory", place.tenant, one.memory_id, None, changed_version)
        one.deleted_at = None
    await outbox.announce_events(tx, place, "restored", [one.memory_id for one in back])
    born = await _settle(tx, place, book, changed_version, embeddings)
    left = [one for one in book.values() if one.memory_id in lost and one.last is None and one.deleted_at is None]
    unsupported = [one.memory_id for one in left]
    await tx.run_many("hide_memory", ((place.tenant, one, place.now, changed_version) for one in unsupported))
    await outbox.announce_events(tx, place, "deleted", unsupported)
    return born


async def resettle(
    tx: Transaction,
    place: Place,
    memory_ids: Sequence[UUID],
    *,
    changed_version: int,
    embeddings: EmbeddingQueries,
    reviewed: bool = False,
) -> None:
    """Work out again what holds of the triggers of these procedures, after one was deleted, shown again or judged.

    `reviewed`: somebody has just set the validation status of these. Memories of other kinds: nothing.
    """
    triggers = await _triggers_of(tx, place, memory_ids)
    if not triggers:
        return
    book = await _open(tx, place, triggers)
    for one in book.values():
        if reviewed and one.memory_id in memory_ids:
            one.row = replace(one.row, reason=REVIEWED.get(one.labels.status, WAITS), ruled_at=place.now)
    await _settle(tx, place, book, changed_version, embeddings)


async def _untaught(tx: Transaction, place: Place, replaced: Sequence[UUID]) -> list[UUID]:
    """Take back what was taught in these turns; returns the procedures that rested on them."""
    if not replaced:
        return []
    lost = list({row["memory_id"] for row in await tx.fetch("drop_teachings", place.tenant, replaced)})
    await tx.run("drop_evidence", place.tenant, lost, replaced)
    return lost


async def _triggers_of(tx: Transaction, place: Place, memory_ids: Sequence[UUID]) -> set[str]:
    found = await tx.fetch("triggers_of_procedures", place.tenant, memory_ids) if memory_ids else []
    return {row["trigger"] for row in found}


async def _open(tx: Transaction, place: Place, triggers: Iterable[str]) -> _Book:
    """All wordings of these triggers, by content key."""
    found = await tx.fetch("procedures_of_triggers", place.tenant, place.scope_id, sorted(triggers), WORDINGS_MAX)
    return {row["content_key"]: wording_of(row) for row in found}


def _hear(book: _Book, offered: Sequence[Offered], now: datetime) -> None:
    """Enter what is taught now; a wording that nobody taught before is about to become a memory."""
    arrived = int(now.timestamp() * 1_000_000)
    for seq, one in enumerate(offered, arrived):
        wordings = [known for known in book.values() if known.trigger == one.new.procedure.key]
        said = _teaching(one, wordings, now, seq)
        wording = book.get(one.new.memory.content_key)
        if wording is None:
            if len(wordings) >= WORDINGS_MAX:
                continue
            wording = born_of(one, 1 + max((known.number for known in wordings), default=0))
            book[one.new.memory.content_key] = wording
        elif _approves(one, said, wording):
            wording.labels = replace(wording.labels, status="confirmed")
            wording.row = replace(wording.row, reason=TAUGHT_ANEW)
        raised = derived_sensitivity([wording.labels.sensitivity, one.new.memory.sensitivity])
        wording.labels = replace(wording.labels, sensitivity=raised)
        wording.last = max(said, wording.last) if wording.last else said
        wording.taught.append((said, one))


def _approves(one: Offered, said: Teaching, known: Wording) -> bool:
    """Whoever teaches it again after it was judged means it."""
    waits = known.labels.status != "confirmed"
    later = known.row.ruled_at is None or said.said_at > known.row.ruled_at
    return one.new.memory.validation_status == "confirmed" and waits and later


def _teaching(one: Offered, wordings: Iterable[Wording], now: datetime, arrival: int) -> Teaching:
    """When it counts as taught: as with facts, a clock that jumps changes no order."""
    turn = one.heard.turn
    said_at = moment(
        turn.occurred_at,
        live=turn.origin == "live",
        behind=one.heard.behind,
        key_last=max((known.last.said_at for known in wordings if known.last), default=None),
        now=now,
    )
    return Teaching(said_at, arrival, one.new.procedure.span[0])


# ---------------------------------------------------------------- ruling, and writing what it changes


async def _settle(
    tx: Transaction, place: Place, book: _Book, changed_version: int, embeddings: EmbeddingQueries
) -> int:
    """What leaves force goes first, for the index that lets only one of a trigger hold. Returns the births."""
    for trigger in {one.trigger for one in book.values()}:
        _rule([one for one in book.values() if one.trigger == trigger])
    known = [one for one in book.values() if one.stored is not None and one.has_changed]
    born = [one for one in book.values() if one.offered is not None]
    writing = _Writing(tx, place, changed_version, embeddings)
    await writing.restate([one for one in known if not one.row.holds])
    await writing.bear(born)
    await writing.restate([one for one in known if one.row.holds])
    await writing.add_teachings([one for one in book.values() if one.taught])
    await tx.run("show_procedures", place.tenant, [one.memory_id for one in (*known, *born)])
    return len(born)


def _rule(wordings: Sequence[Wording]) -> None:
    """The latest of those that may hold does; each other has given way to the next later one.

    Not to the latest: then each teaching would renew all wordings of its trigger (964 ms with 150 of them).
    """
    able = sorted((one for one in wordings if one.may_hold), key=lambda one: one.rank)
    later: dict[UUID, UUID] = {one.memory_id: after.memory_id for one, after in pairwise(able)}
    for one in wordings:
        if one.may_hold or one.labels.status != "confirmed":
            one.labels = replace(one.labels, superseded_by=later.get(one.memory_id))
        one.row = replace(one.row, holds=bool(able) and one is able[-1])


@dataclass(frozen=True, slots=True)
class _Writing:
    """The rows of one settling."""

    tx: Transaction
    place: Place
    changed_version: int
    embeddings: EmbeddingQueries

    async def bear(self, born: Sequence[Wording]) -> None:
        """First versions, and what they teach."""
        made = [(one.offered.heard.session_id, memory_of(one, one.offered)) for one in born if one.offered is not None]
        kept = await batch.store_memories(
            self.tx,
            self.place,
            made,
            numbered=batch.Numbered((), {}),
            changed_version=self.changed_version,
            model=None,
            embeddings=self.embeddings.add,
        )
        if kept < len(made):
            raise StoreRefused("a procedure is stored as a memory and not among the procedures")
        await self.tx.run_many("add_procedure", (procedure_row(self.place, one) for one in born))
        await self._point([one for one in born if one.labels.superseded_by])
        waiting = [one.memory_id for one in born if one.state == "proposed"]
        await self.tx.fetch("set_review", self.place.tenant, waiting, [self.place.now] * len(waiting))
        await self._tell(born)

    async def restate(self, changed: Sequence[Wording]) -> None:
        """Write what has changed of procedures that the store has."""
        tx, tenant, now = self.tx, self.place.tenant, self.place.now
        rows = ((tenant, one.memory_id, one.state, one.row.reason, one.row.holds, one.row.ruled_at) for one in changed)
        await tx.run_many("set_procedure", rows)
        renewed = [one for one in changed if one.needs_version]
        old = [(tenant, one.memory_id, one.version) for one in renewed]
        await tx.run_many("close_version", ((tenant, one.memory_id, now) for one in renewed))
        await tx.run_many(
            "next_fact_version", ((*which, now, *said_of(one)) for which, one in zip(old, renewed, strict=True))
        )
        await tx.run_many("copy_provenance", ((*which, now, "reconcile") for which in old))
        await tx.run_many(self.embeddings.copy, old)
        for one in renewed:
            one.version += 1
        await self._point(changed)
        await tx.run_many("renew_expiry", (renewal_of(tenant, one) for one in changed if one.taught))
        await self._tell(changed)

    async def add_teachings(self, taught: Sequence[Wording]) -> None:
        """Where and when each was taught now, and the turns that its memory rests on from now on."""
        place = self.place
        said = [(wording, at, one) for wording in taught for at, one in wording.taught]
        await self.tx.run_many(
            "add_teaching",
            (
                (
                    place.tenant,
                    of.memory_id,
                    one.heard.event_id,
                    place.scope_id,
                    at.said_at,
                    at.seq,
                    *one.new.procedure.span,
                )
                for of, at, one in said
            ),
        )
        await self.tx.run_many(
            "add_evidence",
            (
                (place.tenant, of.memory_id, one.heard.event_id, place.scope_id, *one.new.procedure.span)
                for of, _, one in said
                if one is not of.offered  # a new memory rests on its first turn already
            ),
        )

    async def _point(self, changed: Sequence[Wording]) -> None:
        await self.tx.run_many(
            "point_fact",
            (
                (
                    self.place.tenant,
                    one.memory_id,
                    one.version,
                    self.changed_version,
                    one.labels.superseded_by,
                    TAUGHT_ANEW if one.labels.superseded_by else None,
                    self.place.now,
                )
                for one in changed
            ),
        )

    async def _tell(self, wordings: Sequence[Wording]) -> None:
        """Lines of the feed for what was superseded, and for what holds again."""
        superseded: dict[UUID, outbox.Labels] = {}
        revalidated: dict[UUID, outbox.Labels] = {}
        for one in wordings:
            before = None if one.stored is None else one.stored[0]
            was, by = before and before.superseded_by, one.labels.superseded_by
            if by is not None and was is None:
                superseded[one.memory_id] = {"superseded_by": by, "reason": TAUGHT_ANEW.replace(" ", "_")}
            elif before is not None and ((by is None and was is not None) or before.status != one.labels.status):
                revalidated[one.memory_id] = {"state": one.state}
        await outbox.announce_events(self.tx, self.place, "superseded", superseded, metadata=superseded)
        await outbox.announce_events(self.tx, self.place, "revalidated", revalidated, metadata=revalidated)
