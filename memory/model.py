"""The values that travel: what a request, an exchange, a turn and a memory are between the steps.

Frozen, slotted, no behaviour beyond what follows from their own fields, and no I/O. Times are aware, UTC.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Literal, NewType
from uuid import UUID

from memory.chain import Digest
from policies import overload
from policies.cascade import Visibility
from policies.checkpoint import Section
from policies.fact import Fact
from policies.labels import Integrity, Sensitivity
from policies.taught import Procedure

ScopeId = NewType("ScopeId", int)
if TYPE_CHECKING:  # the command line knows these types and has no vectors: numpy is a quarter of its start (.12 s)
    import numpy as np
    from numpy.typing import NDArray

    Vector = NDArray[np.float32]  # [dim], unit length
else:
    Vector = Any

Kind = Literal["working", "episodic", "semantic", "procedural", "summary", "document"]
Origin = Literal["live", "import"]
ExchangeStatus = Literal["complete", "partial", "failed", "refused"]
Mode = Literal["on", "read", "write", "off"]
Status = Literal["injected", "empty", "off", "degraded"]
RecordStatus = Status | Literal["tool"]  # a tool's call: what it found was not placed in a prompt of ours
Reason = Literal["deadline", "store", "embedder", "queue", "ledger", "overflow", "auth", "overload", "error"]
Rung = overload.Rung
OnConflict = Literal["error", "update"]


@dataclass(frozen=True, slots=True)
class Scope:
    """Whose memory: the four names that decide what is visible. `tenant` comes from the credential, never a header."""

    tenant: UUID
    user: str = "default"
    project: str = "default"
    agent: str = "default"


@dataclass(frozen=True, slots=True)
class Announcement:
    """A scope has reached this version."""

    tenant: UUID
    scope_id: int
    version: int


@dataclass(frozen=True, slots=True)
class ScopeVersion:
    """One visible scope, how often it has changed, and why it is seen. An index older than `rebuild_version` must be
    built anew.
    """

    scope_id: ScopeId
    version: int
    rebuild_version: int
    visibility: Visibility = "own"


@dataclass(frozen=True, slots=True)
class SessionRef:
    """A conversation: `label` is what the client says and sees, `session_id` the same thing in the store."""

    session_id: UUID
    label: str


# ---------------------------------------------------------------- recall


@dataclass(frozen=True, slots=True)
class Candidate:
    """One memory as recall ranks it. `shown` is the character range of `content` that answers best."""

    memory_id: UUID
    version: int
    kind: str
    role: str
    content: str
    shown: tuple[int, int]
    score: float
    parts: dict[str, float]
    admitted: bool
    occurred_at: datetime | None
    session_id: UUID | None
    seq: int
    scope_id: int
    integrity: str
    source_ids: tuple[str, ...]
    event_ids: tuple[UUID, ...]
    why: str = ""  # in words, why it is admitted or not
    later: UUID | None = None  # the memory that says it otherwise, and was said later
    visibility: Visibility = "own"  # why its scope is seen
    replayed: bool = False  # of the same conversation, whose client does not send it again
    sensitivity: str = "internal"
    replaces: bool = False  # it has taken the place of something that this conversation was given
    section: Section | Literal[""] = ""  # it stands under a heading of its own, in the order of `seq`
    same: tuple[UUID, ...] = ()  # other memories that say the same words, which it stands for
    language: str | None = None  # by whose rules its words are stemmed


@dataclass(frozen=True, slots=True)
class Recall:
    """What recall found, best first, and how far down the ladder it had to go. `terms`: the question's
    in all their forms, with idf. `made`: what was made of it already, where the same answer is given again.
    """

    candidates: tuple[Candidate, ...] = ()
    rung: Rung = "none"
    reason: Reason | None = None
    millis: float = 0.0
    terms: Mapping[str, float] = field(default_factory=dict)
    made: dict[Hashable, Any] | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Shown:
    """A memory as a block quotes it. `fingerprint`: 8 bytes of the BLAKE2b of its whole content."""

    memory_id: UUID
    version: int
    fingerprint: bytes


@dataclass(frozen=True, slots=True)
class Entry:
    """What the ledger has at a chain position: a block as it was placed, `sensitivity` the highest of its memories'."""

    text: str
    tokens: int
    shown: tuple[Shown, ...]
    sensitivity: str
    retrieval_id: UUID

    @property
    def memory_ids(self) -> tuple[UUID, ...]:
        """The memories quoted, in the block's order."""
        return tuple(one.memory_id for one in self.shown)


@dataclass(frozen=True, slots=True)
class Placed:
    """A block that went into the prompt: at which message, which bytes, made of which memories.

    `since`: the retrieval that placed it first; None: this one. `stood`: how many of its memories, the last ones, stood
    there before, with how many tokens; what came before it does not fit and is summed up in front of them.
    """

    position: int
    chain: Digest
    entry: Entry
    since: UUID | None = None
    anew: bool = False  # it takes the place of what an earlier attempt at this message was given
    stood: int = 0
    stood_tokens: int = 0

    @property
    def new_ids(self) -> tuple[UUID, ...]:
        """The memories that this request placed in it."""
        return () if self.kept else self.memory_ids[: len(self.memory_ids) - self.stood]

    @property
    def new_tokens(self) -> int:
        """The tokens that this request placed in it."""
        return 0 if self.kept else self.tokens - self.stood_tokens

    @property
    def kept(self) -> bool:
        """Whether it was placed by an earlier request of the conversation, and stands there again."""
        return self.since is not None

    @property
    def text(self) -> str:
        return self.entry.text

    @property
    def tokens(self) -> int:
        return self.entry.tokens

    @property
    def memory_ids(self) -> tuple[UUID, ...]:
        return self.entry.memory_ids


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """A block that stood in the conversation and is never sent again, and why."""

    chain: Digest
    reason: str


@dataclass(frozen=True, slots=True)
class Retrieval:
    """The record of what one request was given; `query` and the placed texts are stored sealed."""

    retrieval_id: UUID
    status: RecordStatus
    reason: Reason | None
    rung: Rung
    config_digest: str
    embedding_model: str
    query: str
    candidates: tuple[dict[str, Any], ...]  # id, version, kind, score, parts, admitted, why, source_ids
    placed: tuple[Placed, ...]
    tokens: int
    tokens_exact: bool
    millis: float
    sha256_sent: bytes
    created_at: datetime
    withdrawn: tuple[Withdrawn, ...] = ()
    left_out: tuple[int, int] | None = None  # messages from..upto that did not fit and were not sent
    cut: bytes | None = None  # the first message behind them, and those of other branches
    apart: bool = False  # asked as of another moment: the conversation's ledger says nothing of it
    restored: bytes | None = None  # the mark of the load that it was given, which says nothing from now on


# ---------------------------------------------------------------- capture and the write path


@dataclass(frozen=True, slots=True)
class Captured:
    """One exchange as it leaves the proxy: the client's own bytes and the answer, before any law has seen them."""

    exchange_id: UUID
    scope: Scope
    session: SessionRef
    mode: Mode
    status: ExchangeStatus
    reason: str | None
    http_status: int
    model: str | None
    arrived_at: datetime
    finished_at: datetime
    request: bytes
    answer: dict[str, Any]  # choices, usage, error, as the tee read them
    digests: tuple[Digest | None, ...] = ()  # the chain at each of the request's messages
    retrieval: Retrieval | None = None
    named: bool = False  # the client named the session; else it was found by the chain, or minted
    looked: bool = False  # its question was looked for in the web before it was answered


@dataclass(frozen=True, slots=True)
class ImportLine:
    """One past turn of an import, already validated. `line` is its 1-based number in the upload; `integrity` the label
    that it had where it was exported, where that is not the one of its role; `memory` why no memory in its own words is
    to be made of it: there was `none`, or it was `hidden`, and then nothing else is made of it either; `parent` the
    `source_id` of the turn that it stands behind, "" where it opens its conversation, None for the line before it;
    `parts` what it held beside its words; `model` who gave an answer.
    """

    line: int
    session_label: str
    role: str
    name: str | None
    content: str
    occurred_at: datetime
    source_id: str | None
    line_digest: bytes
    tool_calls: list[Any] | None = None
    tool_call_id: str | None = None
    sensitivity: str = "internal"
    integrity: str | None = None
    memory: str | None = None
    parent: str | None = None
    parts: list[dict[str, Any]] | None = None
    model: str | None = None


@dataclass(frozen=True, slots=True)
class ImportChunk:
    """Some lines of one import, stored in one transaction. `exchange_id` is the idempotency key of the chunk, `ceiling`
    the label above which who sends it sees nothing, None for no such bound.
    """

    exchange_id: UUID
    import_id: UUID
    chunk: int
    scope: Scope
    trusted: bool
    on_conflict: OnConflict
    arrived_at: datetime
    lines: tuple[ImportLine, ...]
    ceiling: str | None = None


@dataclass(frozen=True, slots=True)
class Turn:
    """One message at one chain position, clean: its text has passed redaction."""

    event_id: UUID
    exchange_id: UUID
    chain: Digest
    parent_chain: Digest | None
    role: str
    name: str | None
    content: str
    tool_calls: list[Any] | None
    tool_call_id: str | None
    source_id: str | None
    line_digest: bytes | None
    origin: Origin
    integrity: Integrity
    sensitivity: Sensitivity
    model: str | None
    redactions: int
    token_count: int | None
    occurred_at: datetime
    language: str | None = None  # as its detector names it, "de"; None where it was not sure
    parts: list[dict[str, Any]] | None = None  # what it holds beside its words, by digest: memory.write.parts


@dataclass(frozen=True, slots=True)
class Spoken:
    """A message in its conversation, as far as it bears on what the next one states. Its text has passed redaction."""

    event_id: UUID
    chain: Digest
    parent_chain: Digest | None
    role: str
    name: str | None
    content: str


TombstoneKind = Literal["user", "project", "session", "memory", "source", "content", "chain"]


@dataclass(frozen=True, slots=True)
class Times:
    """When a record was made and last changed, where that was in another store."""

    created_at: datetime
    changed_at: datetime


@dataclass(frozen=True, slots=True)
class Unless:
    """What keeps a copy of a record away: tombstones by kind and digest, and when the record was made."""

    tombstones: tuple[tuple[TombstoneKind, bytes], ...]
    happened: datetime


@dataclass(frozen=True, slots=True)
class NewMemory:
    """A memory to be stored with its first version, its vectors, and what it was made of."""

    memory_id: UUID
    kind: Kind
    content: str
    content_key: bytes
    role: str
    integrity: Integrity
    sensitivity: Sensitivity
    origin: str
    importance: float
    confidence: float
    occurred_at: datetime | None
    extractor_version: str
    source_turns: tuple[UUID, ...]  # event ids, primary first
    windows: tuple[tuple[int, int], ...] = ()
    vectors: NDArray[np.float32] | None = None  # [len(windows), dim]
    attributes: dict[str, Any] = field(default_factory=dict)
    language: str | None = None
    tool_name: str | None = None  # the tool whose output it is
    order: int = 0  # its place among what is stored with it: so many microseconds later
    spans: tuple[tuple[int, int] | None, ...] = ()  # which characters of each source turn, where that is known
    valid_from: datetime | None = None  # of the world
    valid_to: datetime | None = None
    validation_status: str = "unreviewed"
    superseded_by: UUID | None = None  # out of date already when it is stored
    expires_at: datetime | None = None  # in no answer from then on
    quarantine: str = ""  # why it is held back until a person has looked: names of rules, never its words
    unless: Unless | None = None  # not where one of these stands; held against them as it is stored


@dataclass(frozen=True, slots=True)
class NewFact:
    """A fact to be stored, as the memory it becomes and the turn that `fact.span` is a range of.

    The store sets what follows from the fact and from what is known: the memory's content key, source, span,
    attributes, validity and what it is superseded by. A fact that is known already adds its evidence and no memory.
    `beside`: earlier turns whose words it has too.
    """

    memory: NewMemory
    fact: Fact
    event_id: UUID
    beside: tuple[UUID, ...] = ()


@dataclass(frozen=True, slots=True)
class NewProcedure:
    """A procedure to be stored, as the memory it becomes and the turn that its spans are ranges of.

    The store sets what follows from what is known of its trigger. One that is known already adds its evidence and no
    memory.
    """

    memory: NewMemory
    procedure: Procedure
    event_id: UUID


@dataclass(frozen=True, slots=True)
class LedgerNode:
    """One chain position: how many tokens the client's message has, and what was placed there, sealed."""

    chain: Digest
    position: int
    token_count: int | None
    placed_sealed: bytes | None
    placed_sha256: bytes | None
    placed_tokens: int | None
    retrieval_id: UUID | None
    anew: bool = False  # what an earlier attempt was given gives way


@dataclass(frozen=True, slots=True)
class Base:
    """A sealed body that another exchange of its conversation is kept as a difference from."""

    exchange_id: UUID
    sealed: bytes


@dataclass(frozen=True, slots=True)
class Delta:
    """A sealed body as what its base has not (memory.delta)."""

    base_id: UUID
    sealed: bytes


@dataclass(frozen=True, slots=True)
class StoredExchange:
    """An exchange as the store keeps it: labels and a sealed body, no open text. `delta` takes the place of the body
    where its base is still there.
    """

    exchange_id: UUID
    subject_id: UUID
    origin: Origin
    status: ExchangeStatus
    reason: str | None
    http_status: int | None
    model: str | None
    finish_reasons: tuple[str, ...]
    usage: dict[str, Any] | None
    arrived_at: datetime
    finished_at: datetime
    sealed: bytes | None
    delta: Delta | None = None

    def unsealed(self) -> StoredExchange:
        """The row without its body."""
        return replace(self, sealed=None, delta=None)


@dataclass(frozen=True, slots=True)
class SealedRetrieval:
    """A retrieval record and its texts sealed: the store writes these, and of the open texts only their SHA-256."""

    record: Retrieval
    served_model: str | None
    sealed: bytes | None  # None: a memory in it was forgotten


@dataclass(frozen=True, slots=True)
class SealedToken:
    """A piece of personal data behind the token that stands in the open text for it."""

    token: str
    kind: str
    sealed: bytes


@dataclass(frozen=True, slots=True)
class Commit:
    """Everything one exchange leaves behind, written in one transaction or not at all; but for a history of thousands
    of messages, which goes `ahead` (memory.adapters.postgres.ahead).

    `turns` are in order and get the session's next `seq`; those whose chain digest the session already has are
    skipped by the store, together with the memories that rest on them alone.
    """

    scope: Scope
    session: SessionRef
    exchange: StoredExchange
    turns: tuple[Turn, ...]
    memories: tuple[NewMemory, ...]
    nodes: tuple[LedgerNode, ...]
    retrieval: SealedRetrieval | None
    lane: str
    fence: int
    facts: tuple[NewFact, ...] = ()  # those whose turn the session already has are skipped
    facts_due: bool = False  # they are taken out later: the exchange is marked, where its user said anything new
    procedures: tuple[NewProcedure, ...] = ()  # those whose turn the session already has are skipped
    cleaned_by: str = ""  # the mark of the redaction that all these texts have just passed; "": none that is known
    tokens: tuple[SealedToken, ...] = ()
    ahead: bool = False  # the oldest turns of a long history, without the exchange, which comes behind them


@dataclass(frozen=True, slots=True)
class Committed:
    """What a commit changed: which turns were new, and the scope's version that readers must reach."""

    scope_id: ScopeId
    scope_version: int
    new_turns: int
    duplicate_exchange: bool
    erased: int = 0  # turns and memories left out because their content, source or owner was forgotten
    facts_new: int = 0  # facts that became memories; the others were known, or dropped
    facts_dropped: int = 0  # facts that their turn does not support
    procedures_new: int = 0  # procedures that became memories; the others were known
    over_budget: int = 0  # memories held back because their source wrote too many within the hour


@dataclass(frozen=True, slots=True)
class LineConflict:
    """An import line that is known with another content, or that the law refuses."""

    line: int
    error: str


@dataclass(frozen=True, slots=True)
class IndexRow:
    """One memory as a hot scope takes it. `visible` False means: take it out. `chain` is its primary turn's digest."""

    memory_id: UUID
    version: int
    kind: str
    role: str
    content: str
    context: str  # text of the two turns before its primary turn in the session, oldest first, "" if none
    occurred_at: datetime | None
    session_id: UUID | None
    seq: int
    integrity: str
    sensitivity: str
    importance: float
    expires_at: datetime | None
    scope_id: int
    source_ids: tuple[str, ...]  # source_id of each source turn, else its event id, primary first
    event_ids: tuple[UUID, ...]
    windows: tuple[tuple[int, int], ...]
    vectors: NDArray[np.float32]  # [len(windows), dim]
    visible: bool
    changed_version: int
    chain: Digest | None
    created_at: datetime | None = None  # when it reached us
    speaker: str | None = None  # the name of who said its primary turn
    language: str | None = None  # of its content
    attributes: Mapping[str, Any] = field(default_factory=dict)
    validation_status: str = "unreviewed"
    injected: int = 0  # how often it was placed in a prompt
    last_injected_at: datetime | None = None
    pinned: bool = False
    cleaned_by: str = ""  # the mark of the redaction that its content has passed
    outdates: tuple[UUID, ...] = ()  # turns in which was said what this fact has taken the place of
    entity: UUID | None = None  # whom it names


SUCCESSORS_FOLLOWED: Final = 8
"""From a memory to what holds in its place: it is seldom corrected more often between two looks."""


@dataclass(frozen=True, slots=True)
class Quoted:
    """A memory that a conversation was given, as it is now. `hidden`: why no prompt gets it, "" for nothing;
    `successor`: what says it otherwise and holds instead.
    """

    row: IndexRow
    hidden: Literal["", "hidden", "quarantined", "rejected"]
    successor: UUID | None


@dataclass(frozen=True, slots=True)
class Injections:
    """How often one memory was placed in a prompt, and when last: an IndexRow's counters without the row."""

    memory_id: UUID
    injected: int
    last_injected_at: datetime | None
