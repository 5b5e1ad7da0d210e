"""Facts to rows and back: labels of a stored fact, its sayings, and the memory that a new one becomes. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from memory.adapters.postgres.rows import Place
from memory.model import NewFact, NewMemory
from policies.fact import Aspect, Fact
from policies.labels import Integrity, Sensitivity, derived_sensitivity
from policies.reconcile import Saying, Standing, State, Statement, content_key, fact_key, statement_of

SAME_MEANING: Final = "same meaning"
"""Why a fact stands behind another (policies/same_meaning.py): nothing of it is out of date."""


@dataclass(frozen=True, slots=True)
class Labels:
    """What the store says of a fact besides its words. `version` is the number of the memory's current version."""

    version: int
    state: str  # policies.reconcile.State, or "withdrawn"
    superseded_by: UUID | None
    reason: str | None
    validation_status: str
    integrity: Integrity
    sensitivity: Sensitivity
    occurred_at: datetime | None
    valid_from: datetime | None
    valid_to: datetime | None
    deleted_at: datetime | None = None
    expires_at: datetime | None = None

    @property
    def is_merged(self) -> bool:
        """Whether it stands behind a fact that says the same in other words."""
        return self.superseded_by is not None and self.reason == SAME_MEANING

    @property
    def counts(self) -> bool:
        """Whether what it says is heard."""
        return self.deleted_at is None and self.validation_status != "rejected"

    @property
    def of_version(self) -> tuple[Any, ...]:
        """What a version holds: parameters of next_fact_version from integrity on."""
        labels = (self.integrity.value, self.sensitivity.value, self.validation_status)
        return (*labels, self.occurred_at, self.valid_from, self.valid_to, self.superseded_by)


def labels_of(row: Any) -> Labels:
    """The labels in a row of facts_of_keys."""
    return Labels(
        version=row["version"],
        state=row["state"],
        superseded_by=row["superseded_by"],
        reason=row["superseded_reason"],
        validation_status=row["validation_status"],
        integrity=Integrity(row["integrity"]),
        sensitivity=Sensitivity(row["sensitivity"]),
        occurred_at=row["occurred_at"],
        valid_from=row["valid_from"],
        valid_to=row["valid_to"],
        deleted_at=row["deleted_at"],
        expires_at=row["expires_at"],
    )


def labels_for(standing: Standing, by: UUID | None, old: Labels | None, said: Iterable[Saying]) -> Labels:
    """The labels that a standing gives a fact, new or with these `old` ones. `said`: its new sayings.

    What a person set stays: a review, and a sensitivity, which new evidence can raise and nothing lowers. A fact that
    stands behind another stays there until it is said anew, confirmed, or holds no more.
    """
    status = "unreviewed" if old is None else old.validation_status
    was: State | str | None = None if old is None else old.state
    if standing.state == "disputed" and was != "disputed" and status == "unreviewed":
        status = "disputed"
    elif was == "disputed" != standing.state and status == "disputed":
        status = "unreviewed"
    newly = [saying.sensitivity for saying in said]
    reason: str | None = standing.reason
    if old is not None and old.is_merged and standing.state == "current" and not newly and status != "confirmed":
        by, reason = old.superseded_by, SAME_MEANING  # it holds, and what it stands behind says so for both
    return Labels(
        version=1 if old is None else old.version,
        state=standing.state,
        superseded_by=by,
        reason=reason,
        validation_status=status,
        integrity=standing.integrity,
        sensitivity=standing.sensitivity if old is None else derived_sensitivity([old.sensitivity, *newly]),
        occurred_at=standing.since.said_at,
        valid_from=standing.since.begins,
        valid_to=standing.until,
        expires_at=None if old is None else old.expires_at,
    )


def memory_of(new: NewFact, event_id: UUID, labels: Labels) -> NewMemory:
    """The memory that a fact becomes, resting on its span of this turn."""
    fact = new.fact
    return replace(
        new.memory,
        kind="semantic",
        content_key=content_key(fact),
        source_turns=(event_id, *new.beside),
        spans=(fact.span, *(None for _ in new.beside)),
        attributes={**new.memory.attributes, **attributes_of(fact)},
        integrity=labels.integrity,
        sensitivity=labels.sensitivity,
        occurred_at=labels.occurred_at,
        valid_from=labels.valid_from,
        valid_to=labels.valid_to,
        validation_status=labels.validation_status,
        superseded_by=labels.superseded_by,
    )


def attributes_of(fact: Fact) -> dict[str, Any]:
    """A fact's parts as the attributes of its memory, to filter by."""
    subject, predicate = fact_key(fact.subject, fact.predicate)
    return {
        "subject": subject,
        "predicate": predicate,
        "object": statement_of(fact).object,
        "category": fact.category,
        "cardinality": fact.cardinality,
        "negated": fact.negated,
        "qualifiers": dict(fact.qualifiers),
    }


def fact_row(place: Place, memory_id: UUID, fact: Fact, standing: Standing) -> tuple[Any, ...]:
    """Parameters of add_fact."""
    statement = statement_of(fact)
    words = (*fact_key(fact.subject, fact.predicate), statement.object, statement.negated, statement.cardinality)
    standing_now = (standing.state, *_last(standing), *_told_apart(statement, standing))
    return (place.tenant, memory_id, place.scope_id, *words, fact.category, *standing_now)


def set_row(place: Place, memory_id: UUID, statement: Statement, standing: Standing) -> tuple[Any, ...]:
    """Parameters of set_fact."""
    return (place.tenant, memory_id, standing.state, *_last(standing), *_told_apart(statement, standing))


def _told_apart(statement: Statement, standing: Standing) -> tuple[str, str, bool]:
    aspect = standing.aspect
    exclusive = statement.cardinality == "one" and not statement.negated and aspect.is_one
    return aspect.of, aspect.unit, exclusive


def _last(standing: Standing) -> tuple[datetime, int, bool]:
    return standing.last.said_at, standing.last.seq, standing.last.correction


def saying_row(place: Place, memory_id: UUID, event_id: UUID, saying: Saying) -> tuple[Any, ...]:
    """Parameters of add_saying."""
    when = (saying.said_at, saying.seq, saying.at)
    labels = (saying.integrity.value, saying.sensitivity.value, saying.correction)
    valid, of = (saying.valid_from, saying.valid_to), saying.aspect
    told_apart = (of.of, of.unit, of.of_many, of.changed)
    return (place.tenant, memory_id, event_id, place.scope_id, *when, *labels, *valid, *told_apart)


def saying_of(statement: Statement, row: Any) -> Saying:
    """The saying in a row of sayings_of_facts."""
    return Saying(
        statement=statement,
        said_at=row["said_at"],
        integrity=Integrity(row["integrity"]),
        seq=row["seq"],
        at=row["span_start"],
        correction=row["correction"],
        sensitivity=Sensitivity(row["sensitivity"]),
        valid_from=row["valid_from"],
        valid_to=row["valid_to"],
        aspect=Aspect(row["aspect"], row["unit"], row["of_many"], row["changed"]),
    )
