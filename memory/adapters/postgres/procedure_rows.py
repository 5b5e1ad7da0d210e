"""Procedures to rows and back: wordings as the store has them, what is taught now, the memory that a new one becomes.

Values; pure, refuses nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Final, Literal
from uuid import UUID

from memory.adapters.postgres.facts import Heard
from memory.adapters.postgres.rows import Place
from memory.model import NewMemory, NewProcedure
from policies.labels import Integrity, Sensitivity

TAUGHT: Final = "taught by the user"
TAUGHT_ANEW: Final = "taught anew"
WAITS: Final = "waits for review"
State = Literal["proposed", "approved", "retired"]
_STATES: Final[Mapping[str, State]] = {"confirmed": "approved", "rejected": "retired"}
REVIEWED: Final = {"confirmed": "approved in review", "rejected": "rejected in review"}
_LONG_AGO: Final = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Offered:
    """A procedure with the turn that teaches it."""

    new: NewProcedure
    heard: Heard


@dataclass(frozen=True, slots=True, order=True)
class Teaching:
    """One time that a wording was taught; the greater is the later."""

    said_at: datetime
    seq: int
    span_start: int


@dataclass(frozen=True, slots=True)
class Labels:
    """What a version of it says besides its words."""

    status: str
    superseded_by: UUID | None
    sensitivity: Sensitivity


@dataclass(frozen=True, slots=True)
class Row:
    """What else is known of it: as the table of procedures has it."""

    reason: str
    holds: bool
    ruled_at: datetime | None


@dataclass(slots=True)
class Wording:
    """One procedure: as the store has it (`stored`), or about to be born of `offered`. `taught`: what is taught now."""

    memory_id: UUID
    trigger: str
    number: int
    integrity: Integrity
    labels: Labels
    row: Row
    stored: tuple[Labels, Row] | None = None
    version: int = 1
    derived: bool = False
    occurred_at: datetime | None = None
    deleted_at: datetime | None = None
    last: Teaching | None = None
    was_taught: bool = False  # the store has a teaching of it
    offered: Offered | None = None
    taught: list[tuple[Teaching, Offered]] = field(default_factory=list)

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


def wording_of(row: Any) -> Wording:
    labels = Labels(row["validation_status"], row["superseded_by"], Sensitivity(row["sensitivity"]))
    kept = Row(row["reason"], row["holds"], row["ruled_at"])
    last = None if row["said_at"] is None else Teaching(row["said_at"], row["seq"], row["span_start"])
    return Wording(
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


def born_of(one: Offered, number: int) -> Wording:
    memory = one.new.memory
    approved = memory.validation_status == "confirmed"
    return Wording(
        memory_id=memory.memory_id,
        trigger=one.new.procedure.key,
        number=number,
        integrity=memory.integrity,
        labels=Labels(memory.validation_status, None, memory.sensitivity),
        row=Row(TAUGHT if approved else WAITS, False, None),
        occurred_at=memory.occurred_at,
        offered=one,
    )


def said_of(one: Wording) -> tuple[Any, ...]:
    """Parameters of next_fact_version from integrity on."""
    labels = (one.integrity.value, one.labels.sensitivity.value, one.labels.status)
    return (*labels, one.occurred_at, None, None, one.labels.superseded_by)


def renewal_of(tenant: UUID, one: Wording) -> tuple[Any, ...]:
    """Parameters of renew_expiry."""
    return tenant, one.memory_id, one.version, one.taught[-1][1].new.memory.expires_at


def memory_of(one: Wording, offered: Offered) -> NewMemory:
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


def procedure_row(place: Place, one: Wording) -> tuple[Any, ...]:
    """Parameters of add_procedure."""
    what = (place.tenant, one.memory_id, place.scope_id, one.trigger, "taught", one.number)
    return (*what, one.state, one.row.reason, one.row.holds, one.row.ruled_at, 0, 0)
