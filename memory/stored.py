"""The store's own values: keys, lines, turns and records as they lie there, and what a commit is checked against.

Frozen, slotted, no I/O. What travels between the steps is in memory.model. Times are aware, UTC.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Generic, TypeVar
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from memory.chain import Digest
from memory.ids import minted_ms
from memory.model import Base, LineConflict, NewFact, NewMemory, NewProcedure, SessionRef, TombstoneKind, Turn
from policies.cascade import Visibility
from policies.labels import Sensitivity, within_ceiling


@dataclass(frozen=True, slots=True)
class ApiKey:
    """What is known of an API key; its secret is not. `fixed` and `defaults` are scope members by name."""

    key_id: UUID
    tenant_id: UUID
    prefix: str
    secret_sha256: bytes
    name: str
    fixed: dict[str, str]
    defaults: dict[str, str]
    capabilities: tuple[str, ...]
    sensitivity_ceiling: str
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    limits: dict[str, Any] = field(default_factory=dict)  # policies/key_limits.py
    token_key: bytes | None = field(default=None, repr=False)  # sealed under the tenant's key
    former_prefix: str | None = None  # of the secret it had before it was rotated, which holds until `former_until`
    former_sha256: bytes | None = field(default=None, repr=False)
    former_token_key: bytes | None = field(default=None, repr=False)
    former_until: datetime | None = None
    rotated_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Label:
    """How sensitive a memory is, and why it is seen."""

    sensitivity: Sensitivity
    visibility: Visibility


@dataclass(frozen=True, slots=True)
class Given:
    """A memory that a request was given or chosen from: the digest of its tombstone, and the turns that the model said
    behind the first block that quotes it.
    """

    digest: bytes
    behind: frozenset[UUID] = frozenset()


@dataclass(frozen=True, slots=True)
class Digests:
    """HMACs that a commit is held against the tombstones by. `items` goes by event id or memory id, `given` by the id
    of a memory as its record has it.

    Content, source, chain and memory tombstones hold for ever; those of a user, project or session for what happened
    before them, so that a forgotten user may come back and start anew.
    """

    scope: tuple[tuple[TombstoneKind, bytes], ...] = ()
    items: dict[UUID, tuple[tuple[TombstoneKind, bytes], ...]] = field(default_factory=dict)
    given: dict[str, Given] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ImportItem:
    """One line of an import that passed the law: its turn, chained after its session's tail, and what became of it.
    `untold`: its words are hidden where it comes from; `behind`: the session that has what the turn stands behind,
    where that is stored already.
    """

    line: int
    session: SessionRef
    turn: Turn
    memories: tuple[NewMemory, ...]
    facts: tuple[NewFact, ...] = ()
    procedures: tuple[NewProcedure, ...] = ()
    untold: bool = False
    behind: UUID | None = None


@dataclass(frozen=True, slots=True)
class KnownLine:
    """A line the store has, how sensitive its turn is, and where that stands. `source_id` None: known by its digest
    alone.
    """

    event_id: UUID
    session_id: UUID
    exchange_id: UUID
    source_id: str | None
    line_digest: bytes | None
    sensitivity: str
    recorded_at: datetime
    chain: Digest

    def came_later(self, exchange_id: UUID, now: datetime) -> bool:
        """Whether it came later than a chunk that is stored only `now`, as a dead letter is; not where a clock has
        dated it ahead.
        """
        is_dated_ahead = self.recorded_at > now or minted_ms(self.exchange_id) > self.recorded_at.timestamp() * 1000
        return self.exchange_id > exchange_id and not is_dated_ahead

    def is_above(self, ceiling: str | None) -> bool:
        """Whether who has this ceiling may neither see nor change it."""
        return ceiling is not None and not within_ceiling(Sensitivity(self.sensitivity), Sensitivity(ceiling))


@dataclass(frozen=True, slots=True)
class KnownLines:
    """What the store has of some lines, by their two identities."""

    by_source: dict[str, KnownLine]
    by_digest: dict[bytes, KnownLine]

    def find(self, source_id: str | None, line_digest: bytes | None) -> KnownLine | None:
        """The stored line of the same identity: its `source_id`, else its digest."""
        if source_id is not None:
            return self.by_source.get(source_id)
        return None if line_digest is None else self.by_digest.get(line_digest)


@dataclass(frozen=True, slots=True)
class ImportProgress:
    """How far an import is. `chunks` are those stored; `whole`: as many, where none is missing before the last."""

    chunks: int
    done: int
    failed: int
    errors: tuple[LineConflict, ...]
    whole: int = 0


@dataclass(frozen=True, slots=True)
class SessionTail:
    """Where a session ends: what the next imported line is chained to, and the last words before it, in order."""

    tip_chain: Digest | None
    next_seq: int
    last_at: datetime | None
    texts: tuple[str, ...] = ()
    session_id: UUID | None = None


@dataclass(frozen=True, slots=True)
class StoredTurn:
    """A turn as the store has it."""

    event_id: UUID
    session_id: UUID
    exchange_id: UUID
    seq: int
    chain: Digest
    attempt: int
    role: str
    name: str | None
    content: str
    tool_calls: list[Any] | None
    tool_call_id: str | None
    source_id: str | None
    origin: str
    integrity: str
    sensitivity: str
    model: str | None
    redactions: int
    token_count: int | None
    occurred_at: datetime
    recorded_at: datetime
    parts: list[dict[str, Any]] | None = None
    parent_chain: Digest | None = None


@dataclass(frozen=True, slots=True)
class SummaryState:
    """A session's rolling summary, of the turns below `summarised_seq`. `content` is None where there is none; one that
    is `withdrawn` holds words that are not to be told any more, and waits to be made anew.
    """

    summarised_seq: int
    next_seq: int
    memory_id: UUID | None
    content: str | None
    tokens_since: int = 0  # of the turns that it does not cover
    attributes: dict[str, Any] | None = None
    integrity: str | None = None
    sensitivity: str | None = None
    changed_version: int | None = None  # the scope's version as of its latest change: no two summaries share one
    withdrawn: bool = False


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """Some rows of a list, and the cursor that leads on; None at the end."""

    rows: tuple[T, ...]
    next_cursor: str | None


@dataclass(frozen=True, slots=True)
class LifecycleEvent:
    """One line of the lifecycle feed. `by`: the id of the exchange, import or job that did it, or `api`."""

    cursor: str
    at: datetime
    what: str
    memory_id: UUID
    version: int | None
    kind: str | None
    by: str | None
    metadata: dict[str, Any]


@dataclass(frozen=True, slots=True)
class EventPage:
    """Some events, oldest first. `missed` came behind the cursor asked for and are not kept any more."""

    rows: tuple[LifecycleEvent, ...]
    next_cursor: str | None
    missed: int


@dataclass(frozen=True, slots=True)
class SessionRecord:
    """A conversation as the API lists it. `turns` is their number, `summarised_turns` that of those that its rolling
    summary covers.
    """

    session_id: UUID
    label: str
    turns: int
    epoch: int
    summarised_turns: int
    summary_memory_id: UUID | None
    created_at: datetime
    last_at: datetime
    ended_at: datetime | None  # its client said so; turns of a later time go on with it
    attributes: dict[str, Any]


@dataclass(frozen=True, slots=True)
class MemoryRecord:
    """A memory with its current version, as the API shows it. `source_ids` as in recall, primary first."""

    memory_id: UUID
    version: int
    kind: str
    collection: str
    session_id: UUID | None
    scope_id: int
    pinned: bool
    quarantine_reason: str | None
    superseded_by: UUID | None
    superseded_reason: str | None  # why, in the words of policies/reconcile.py, or same meaning
    deleted_at: datetime | None
    created_at: datetime
    content: str
    role: str
    integrity: str
    sensitivity: str
    origin: str
    importance: float
    confidence: float
    validation_status: str
    attributes: dict[str, Any]
    expires_at: datetime | None
    occurred_at: datetime | None
    valid_from: datetime | None
    valid_to: datetime | None
    recorded_from: datetime
    source_ids: tuple[str, ...]
    event_ids: tuple[UUID, ...]
    review_due_at: datetime | None = None  # since when somebody should look whether it holds


@dataclass(frozen=True, slots=True)
class MemoryChange:
    """What a PATCH changes; None leaves as it is. A new `content` brings its windows and vectors.

    `expires_at` is set (also to None: never) where `set_expires_at` says so.
    """

    content: str | None = None
    windows: tuple[tuple[int, int], ...] = ()
    vectors: NDArray[np.float32] | None = None  # [len(windows), dim]
    pinned: bool | None = None
    importance: float | None = None
    sensitivity: str | None = None
    validation_status: str | None = None
    expires_at: datetime | None = None
    set_expires_at: bool = False
    attributes: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class RetrievalRecord:
    """What one request was given; the query and the blocks are in `sealed`, None after their retention."""

    retrieval_id: UUID
    session_id: UUID
    exchange_id: UUID
    status: str
    reason: str | None
    rung: str | None
    config_digest: str
    embedding_model: str
    served_model: str | None
    candidates: list[dict[str, Any]]
    placements: list[dict[str, Any]]
    tokens: int
    tokens_exact: bool
    millis: float
    sha256_sent: bytes
    sealed: bytes | None
    created_at: datetime


@dataclass(frozen=True, slots=True)
class SealedExchange:
    """The sealed parts of an exchange; None after their retention. `base`: what they are a difference from."""

    exchange_id: UUID
    session_id: UUID
    subject_id: UUID
    status: str
    reason: str | None
    sealed: bytes | None
    sealed_sha256: bytes | None
    finished_at: datetime
    base: Base | None = None


@dataclass(frozen=True, slots=True)
class ExportedTurn:
    """A turn with what the client calls its session. `memory`: where none in its own words is to be made of it again,
    whether there was `none`, or one that is `hidden`. `parent`: what a copy knows the turn by that it stands behind, ""
    where it opens its conversation, None where that is not known.
    """

    label: str
    turn: StoredTurn
    memory: str | None = None
    parent: str | None = None


@dataclass(frozen=True, slots=True)
class Counts:
    """How much a scope holds; memories without the deleted."""

    sessions: int
    turns: int
    memories: int
