"""A commit's values out as INSERT parameters, a row in as a turn. Pure; text is made storable here."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from memory.chain import Digest
from memory.model import Base, LedgerNode, NewMemory, SealedRetrieval, StoredExchange, Turn
from policies.labels import Integrity, Sensitivity
from policies.text import storable


@dataclass(frozen=True, slots=True)
class Place:
    """Where and when rows are written: what every one of them carries."""

    tenant: UUID
    scope_id: int
    subject_id: UUID
    exchange_id: UUID
    now: datetime
    by: str | None = None  # what the feed calls whoever writes; None: the exchange


@dataclass(frozen=True, slots=True)
class OpenSession:
    """A session locked by this transaction, as it was found."""

    session_id: UUID
    next_seq: int
    epoch: int
    last_at: datetime | None = None  # when it was last spoken in
    tip_chain: bytes | None = None


def _text(text: str | None) -> str | None:
    return None if text is None else storable(text)


def base_of(base_id: UUID | None, base_sealed: bytes | None) -> Base | None:
    """What a sealed body is a difference from."""
    return None if base_id is None or base_sealed is None else Base(base_id, base_sealed)


def exchange_row(place: Place, session_id: UUID, exchange: StoredExchange) -> tuple[Any, ...]:
    """Parameters of add_exchange: the body as a difference where there is one, else whole."""
    sealed = exchange.delta.sealed if exchange.delta else exchange.sealed
    digest = None if sealed is None else hashlib.sha256(sealed).digest()
    return (
        place.tenant,
        exchange.exchange_id,
        place.scope_id,
        session_id,
        exchange.subject_id,
        exchange.origin,
        exchange.status,
        _text(exchange.reason),
        exchange.http_status,
        _text(exchange.model),
        [storable(reason) for reason in exchange.finish_reasons],
        exchange.usage,
        exchange.arrived_at,
        exchange.finished_at,
        place.now,
        sealed,
        digest,
        exchange.delta.base_id if exchange.delta else None,
    )


def turn_row(place: Place, session_id: UUID, turn: Turn, seq: int, attempt: int) -> tuple[Any, ...]:
    """Parameters of add_turn."""
    return (
        place.tenant,
        turn.event_id,
        place.scope_id,
        session_id,
        turn.exchange_id,
        seq,
        turn.chain,
        turn.parent_chain,
        attempt,
        storable(turn.role),
        _text(turn.name),
        storable(turn.content),
        turn.tool_calls,
        _text(turn.tool_call_id),
        _text(turn.source_id),
        turn.line_digest,
        turn.origin,
        turn.integrity.value,
        turn.sensitivity.value,
        _text(turn.model),
        turn.redactions,
        turn.token_count,
        turn.occurred_at,
        place.now,
        turn.language,
        turn.parts,
    )


def replaced_turn_row(place: Place, event_id: UUID, turn: Turn) -> tuple[Any, ...]:
    """Parameters of replace_turn."""
    return (
        place.tenant,
        event_id,
        storable(turn.role),
        _text(turn.name),
        storable(turn.content),
        turn.line_digest,
        turn.integrity.value,
        turn.sensitivity.value,
        turn.redactions,
        turn.token_count,
        turn.occurred_at,
        place.now,
        turn.language,
        turn.tool_calls,
        _text(turn.tool_call_id),
        turn.parts,
        turn.exchange_id,
    )


def memory_row(place: Place, session_id: UUID | None, memory: NewMemory, changed_version: int) -> tuple[Any, ...]:
    """Parameters of add_memory."""
    return (
        place.tenant,
        memory.memory_id,
        place.scope_id,
        memory.kind,
        memory.content_key,
        session_id,
        place.subject_id,
        changed_version,
        _recorded(place, memory),
        memory.quarantine or None,
    )


def _recorded(place: Place, memory: NewMemory) -> datetime:
    """When it is stored, a little later for each that is stored with it, so that they keep their order."""
    return place.now + timedelta(microseconds=memory.order)


def version_row(place: Place, memory_id: UUID, version: int, memory: NewMemory) -> tuple[Any, ...]:
    """Parameters of add_version."""
    return (
        place.tenant,
        memory_id,
        version,
        place.scope_id,
        storable(memory.content),
        storable(memory.role),
        memory.integrity.value,
        memory.sensitivity.value,
        memory.origin,
        memory.importance,
        memory.confidence,
        memory.attributes,
        memory.occurred_at,
        _recorded(place, memory) if version == 1 else place.now,
        memory.language,
        _text(memory.tool_name),
        memory.valid_from,
        memory.valid_to,
        memory.validation_status,
        memory.superseded_by,
        memory.expires_at,
    )


def provenance_row(
    place: Place, memory_id: UUID, version: int, memory: NewMemory, model: str | None
) -> tuple[Any, ...]:
    """Parameters of add_provenance."""
    return (
        place.tenant,
        memory_id,
        version,
        place.scope_id,
        memory.origin,
        _text(model),
        memory.extractor_version,
        place.exchange_id,
        place.now,
    )


def derivation_rows(
    place: Place, memory_id: UUID, memory: NewMemory, event_of: Mapping[UUID, UUID]
) -> list[tuple[Any, ...]]:
    """Parameters of add_derivation. `event_of` names the stored turn where a turn was already there."""
    kind = "summary" if memory.kind == "summary" else "memory"
    spans = [span or (None, None) for span in memory.spans] or [(None, None)] * len(memory.source_turns)
    return [
        (place.tenant, memory_id, kind, event_of.get(source, source), "turn", ordinal, place.scope_id, *span)
        for ordinal, (source, span) in enumerate(zip(memory.source_turns, spans, strict=True))
    ]


def embedding_rows(place: Place, memory_id: UUID, version: int, memory: NewMemory) -> list[tuple[Any, ...]]:
    """Parameters of add_embedding, one per window; none for a memory without vectors."""
    if memory.vectors is None:
        return []
    return [
        (place.tenant, place.scope_id, memory_id, version, number, start, end, vector)
        for number, ((start, end), vector) in enumerate(zip(memory.windows, memory.vectors, strict=True))
    ]


def node_row(place: Place, session: OpenSession, node: LedgerNode) -> tuple[Any, ...]:
    """Parameters of add_ledger_node."""
    return (
        place.tenant,
        session.session_id,
        node.chain,
        place.scope_id,
        session.epoch,
        node.position,
        node.token_count,
        node.placed_sealed,
        node.placed_sha256,
        node.placed_tokens,
        node.retrieval_id,
        place.now,
        node.anew,
    )


def retrieval_row(place: Place, session_id: UUID, sealed: SealedRetrieval) -> tuple[Any, ...]:
    """Parameters of add_retrieval. Placements go without their text: that is in the sealed part."""
    record = sealed.record
    placements = [
        {
            "position": placed.position,
            "chain": placed.chain.hex(),
            "sha256": hashlib.sha256(placed.text.encode("utf-8", "surrogatepass")).hexdigest(),
            "tokens": placed.tokens,
            "memory_ids": [str(memory_id) for memory_id in placed.memory_ids],
            "since": str(placed.since) if placed.since else None,
        }
        for placed in record.placed
    ]
    return (
        place.tenant,
        record.retrieval_id,
        place.scope_id,
        session_id,
        place.exchange_id,
        record.status,
        record.reason,
        record.rung,
        record.config_digest,
        record.embedding_model,
        _text(sealed.served_model),
        list(record.candidates),
        placements,
        record.tokens,
        record.tokens_exact,
        record.millis,
        record.sha256_sent,
        sealed.sealed,
        record.created_at,
    )


def heard_turn(row: Any) -> Turn:
    """A stored turn as extraction hears it: without its tool calls; its source where the query gives one."""
    return Turn(
        event_id=row["event_id"],
        exchange_id=row["exchange_id"],
        chain=Digest(row["chain"]),
        parent_chain=None if row["parent_chain"] is None else Digest(row["parent_chain"]),
        role=row["role"],
        name=row["name"],
        content=row["content"],
        tool_calls=None,
        tool_call_id=None,
        source_id=row.get("source_id"),
        line_digest=row.get("line_digest"),
        origin=row["origin"],
        integrity=Integrity(row["integrity"]),
        sensitivity=Sensitivity(row["sensitivity"]),
        model=row["model"],
        redactions=row["redactions"],
        token_count=row["token_count"],
        occurred_at=row["occurred_at"],
        language=row["language"],
    )


def key_of_its_own(what: bytes, memory_id: UUID) -> bytes:
    """A content key that no other memory has, for one that is found no more by what it says: `what` became of it."""
    return hashlib.sha256(what + memory_id.bytes).digest()
