"""Procedures: what was taught in; memories that hold, wait, are superseded or retired out, inside the caller's
transaction.

A wording that is new becomes a memory; one taught before gets one teaching more. Of the wordings of one trigger that
are approved the latest taught (or approved) holds, and it has taken the place of the others; this is worked out anew
each time one is added, judged or taken away, so nothing depends on the order of arrival, and a wording whose successor
goes holds again. A person's decision stays until the same is taught again after it.

The caller has raised the scope's version: its row lock keeps two writers of a scope apart. Raises StoreUnavailable.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Final, Literal
from uuid import UUID

from memory.adapters.postgres import batch, outbox
from memory.adapters.postgres.database import Transaction
from memory.adapters.postgres.facts import EmbeddingQueries, Heard
from memory.adapters.postgres.rows import Place
from memory.errors import StoreUnavailable
from memory.model import NewMemory, NewProcedure
from policies.labels import Integrity, Sensitivity, derived_sensitivity
from policies.procedure import fits
from policies.reconcile import moment

WORDINGS_MAX: Final = 200
"""Of one trigger; what is taught beyond them is kept as a turn only."""
TAUGHT: Final = "taught by the user"
TAUGHT_ANEW: Final = "taught anew"
WAITS: Final = "waits for review"
State = Literal["proposed", "approved", "retired"]
_STATES: Final[Mapping[str, State]] = {"confirmed": "approved", "rejected": "retired"}
_REVIEWED: Final = {"confirmed": "approved in review", "rejected": "rejected in review"}
_LONG_AGO: Final = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Offered:
    """A procedure with the turn that teaches it."""

    new: NewProcedure
    heard: Heard


@dataclass(frozen=True, slots=True, order=True)
class _Teaching:
    """One time that a wording was taught; the greater is the later."""

    said_at: datetime
    seq: int
    span_start: int


@dataclass(frozen=True, slots=True)
class _Labels:
    """What a version of it says besides its words."""

    status: str
    superseded_by: UUID | None
    sensitivity: Sensitivity


@dataclass(frozen=True, slots=True)
class _Row:
    """What else is known of it: as the table of procedures has it."""

    reason: str
    holds: bool
    ruled_at: datetime | None


@dataclass(slots=True)
class _Wording:
    """One procedure: as the store has it (`stored`), or about to be born of `offered`. `taught`: what is taught now."""

    memory_id: UUID
    trigger: str
    number: int
    integrity: Integrity
    labels: _Labels
    row: _Row
    stored: tuple[_Labels, _Row] | None = None
    version: int = 1
    derived: bool = False
    occurred_at: datetime | None = None
    deleted_at: datetime | None = None
    last: _Teaching | None = None
    was_taught: bool = False  # the store has a teaching of it
    offered: Offered | None = None
    taught: list[tuple[_Teaching, Offered]] = field(default_factory=list)

    @property
    def may_hold(self) -> bool:
        """Whether it is approved, supported and not deleted."""
        return (self.derived or self.last is not None) and self.deleted_at is None and self.labels.status == "confirmed"

    @property
    def is_taught_again(self) -> bool:
        """Whether it was hidden and is taught later; or at all, where it was hidden for want of a source."""
        if self.deleted_at is None or not self.taught:
            return False
        return not self.was_taught or any(at.said_at > self.deleted_at for at, _ in self.taught)

    @property
    def rank(self) -> tuple[datetime, int, int, int]:
        """The greatest of a trigger holds."""
        ruled_at = self.row.ruled_at or _LONG_AGO
        if self.last is None:
            return ruled_at, 0, 0, self.number
        return max(self.last.said_at, ruled_at), self.last.seq, self.last.span_start, self.number

    @property
    def state(self) -> State:
        return _STATES.get(self.labels.status, "proposed")

    @property
    def has_changed(self) -> bool:
        return bool(self.taught) or self.stored != (self.labels, self.row)

    @property
    def needs_version(self) -> bool:
        return self.stored is not None and self.stored[0] != self.labels


_Book = dict[bytes, _Wording]


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
    for one in book.values():
        if one.is_taught_again:
            await tx.run("hide_memory", place.tenant, one.memory_id, None, changed_version)
            one.deleted_at = None
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
            one.row = replace(one.row, reason=_REVIEWED.get(one.labels.status, WAITS), ruled_at=place.now)
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
    return {row["content_key"]: _wording(row) for row in found}


def _wording(row: Any) -> _Wording:
    labels = _Labels(row["validation_status"], row["superseded_by"], Sensitivity(row["sensitivity"]))
    kept = _Row(row["reason"], row["holds"], row["ruled_at"])
    last = None if row["said_at"] is None else _Teaching(row["said_at"], row["seq"], row["span_start"])
    return _Wording(
        memory_id=row["memory_id"],
        trigger=row["trigger"],
        number=row["number"],
        integrity=Integrity(row["integrity"]),
        labels=labels,
        row=kept,
        stored=(labels, kept),
        version=row["version"],
        derived=row["origin"] == "derived",
        occurred_at=row["occurred_at"],
        deleted_at=row["deleted_at"],
        last=last,
        was_taught=last is not None,
    )


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
            wording = _born(one, 1 + max((known.number for known in wordings), default=0))
            book[one.new.memory.content_key] = wording
        elif _approves(one, said, wording):
            wording.labels = replace(wording.labels, status="confirmed")
            wording.row = replace(wording.row, reason=TAUGHT_ANEW)
        raised = derived_sensitivity([wording.labels.sensitivity, one.new.memory.sensitivity])
        wording.labels = replace(wording.labels, sensitivity=raised)
        wording.last = max(said, wording.last) if wording.last else said
        wording.taught.append((said, one))


def _approves(one: Offered, said: _Teaching, known: _Wording) -> bool:
    """Whoever teaches it again after it was judged means it."""
    waits = known.labels.status != "confirmed"
    later = known.row.ruled_at is None or said.said_at > known.row.ruled_at
    return one.new.memory.validation_status == "confirmed" and waits and later


def _born(one: Offered, number: int) -> _Wording:
    memory = one.new.memory
    approved = memory.validation_status == "confirmed"
    return _Wording(
        memory_id=memory.memory_id,
        trigger=one.new.procedure.key,
        number=number,
        integrity=memory.integrity,
        labels=_Labels(memory.validation_status, None, memory.sensitivity),
        row=_Row(TAUGHT if approved else WAITS, False, None),
        occurred_at=memory.occurred_at,
        offered=one,
    )


def _teaching(one: Offered, wordings: Iterable[_Wording], now: datetime, arrival: int) -> _Teaching:
    """When it counts as taught: as with facts, a clock that jumps changes no order."""
    turn = one.heard.turn
    said_at = moment(
        turn.occurred_at,
        live=turn.origin == "live",
        session_last=one.heard.session_last,
        key_last=max((known.last.said_at for known in wordings if known.last), default=None),
        now=now,
    )
    return _Teaching(said_at, arrival, one.new.procedure.span[0])


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


def _rule(wordings: Sequence[_Wording]) -> None:
    """The latest of those that may hold does, and has taken the place of the others."""
    able = [one for one in wordings if one.may_hold]
    holder = max(able, key=lambda one: one.rank, default=None)
    for one in wordings:
        replaced = holder is not None and one is not holder and one.may_hold
        by = holder.memory_id if holder is not None and replaced else None
        if one.may_hold or one.labels.status != "confirmed":
            one.labels = replace(one.labels, superseded_by=by)
        one.row = replace(one.row, holds=one is holder)


@dataclass(frozen=True, slots=True)
class _Writing:
    """The rows of one settling."""

    tx: Transaction
    place: Place
    changed_version: int
    embeddings: EmbeddingQueries

    async def bear(self, born: Sequence[_Wording]) -> None:
        """First versions, and what they teach."""
        made = [(one.offered.heard.session_id, _memory(one, one.offered)) for one in born if one.offered is not None]
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
            raise StoreUnavailable("a procedure is stored as a memory and not among the procedures")
        await self.tx.run_many("add_procedure", (procedure_row(self.place, one) for one in born))
        await self._point([one for one in born if one.labels.superseded_by])
        waiting = [one.memory_id for one in born if one.state == "proposed"]
        await self.tx.fetch("set_review", self.place.tenant, waiting, [self.place.now] * len(waiting))
        await self._tell(born)

    async def restate(self, changed: Sequence[_Wording]) -> None:
        """Write what has changed of procedures that the store has."""
        tx, tenant, now = self.tx, self.place.tenant, self.place.now
        rows = ((tenant, one.memory_id, one.state, one.row.reason, one.row.holds, one.row.ruled_at) for one in changed)
        await tx.run_many("set_procedure", rows)
        renewed = [one for one in changed if one.needs_version]
        old = [(tenant, one.memory_id, one.version) for one in renewed]
        await tx.run_many("close_version", ((tenant, one.memory_id, now) for one in renewed))
        await tx.run_many(
            "next_fact_version", ((*which, now, *_said(one)) for which, one in zip(old, renewed, strict=True))
        )
        await tx.run_many("copy_provenance", ((*which, now, "reconcile") for which in old))
        await tx.run_many(self.embeddings.copy, old)
        for one in renewed:
            one.version += 1
        await self._point(changed)
        await tx.run_many("renew_expiry", (_renewal(tenant, one) for one in changed if one.taught))
        await self._tell(changed)

    async def add_teachings(self, taught: Sequence[_Wording]) -> None:
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

    async def _point(self, changed: Sequence[_Wording]) -> None:
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

    async def _tell(self, wordings: Sequence[_Wording]) -> None:
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


def _said(one: _Wording) -> tuple[Any, ...]:
    """Parameters of next_fact_version from integrity on."""
    labels = (one.integrity.value, one.labels.sensitivity.value, one.labels.status)
    return (*labels, one.occurred_at, None, None, one.labels.superseded_by)


def _renewal(tenant: UUID, one: _Wording) -> tuple[Any, ...]:
    """Parameters of renew_expiry."""
    return tenant, one.memory_id, one.version, one.taught[-1][1].new.memory.expires_at


def _memory(one: _Wording, offered: Offered) -> NewMemory:
    """The memory that a wording becomes, its steps resting on the turn as it is stored."""
    memory, event_id = offered.new.memory, offered.heard.event_id
    steps = [{**step, "event_id": str(event_id)} for step in memory.attributes.get("steps", ())]
    return replace(
        memory,
        source_turns=(event_id,),
        attributes={**memory.attributes, "steps": steps},
        sensitivity=one.labels.sensitivity,
        validation_status=one.labels.status,
        superseded_by=one.labels.superseded_by,
    )


def procedure_row(place: Place, one: _Wording) -> tuple[Any, ...]:
    """Parameters of add_procedure."""
    what = (place.tenant, one.memory_id, place.scope_id, one.trigger, "taught", one.number)
    return (*what, one.state, one.row.reason, one.row.holds, one.row.ruled_at, 0, 0)
