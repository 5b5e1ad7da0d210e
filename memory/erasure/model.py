"""Values of erasure: what is to be forgotten, what that comes to, and how far a job is. Frozen, no I/O."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Literal, get_args
from uuid import UUID

from memory.model import Scope

TargetKind = Literal["user", "project", "session", "memory", "source_id", "query"]
Step = Literal["asked", "marked", "deleted", "rebuilt", "shredded", "ended"]
ItemKind = Literal["scope", "session", "exchange", "turn", "memory", "retrieval", "key", "summary", "learn"]
KINDS: Final[tuple[TargetKind, ...]] = get_args(TargetKind)
ID_BYTES: Final = 100
"""What an id weighs as work for an event loop, in bytes of a body: a project of 50,000 users has 500,000."""
WHOLE: Final = frozenset({"user", "project"})
"""Kinds that take whole scopes."""


@dataclass(frozen=True, slots=True)
class Named:
    """A scope with its names."""

    scope_id: int
    user: str
    project: str
    agent: str
    visibility: str


@dataclass(frozen=True, slots=True)
class Target:
    """What somebody wants forgotten. `scope` is the caller's; `memory_ids`, `turn_ids`: what a query has found.

    `until`: in an older copy, when it was wanted. What came later stays; the ids, of whatever scope, go all the same.
    """

    kind: TargetKind
    value: str
    scope: Scope
    memory_ids: tuple[UUID, ...] = ()
    turn_ids: tuple[UUID, ...] = ()
    until: datetime | None = None

    def packed(self) -> bytes:
        """As bytes, to be sealed."""
        names = [self.scope.user, self.scope.project, self.scope.agent]
        ids = [[str(one) for one in some] for some in (self.memory_ids, self.turn_ids)]
        until = [] if self.until is None else [self.until.isoformat()]
        return json.dumps([self.kind, self.value, names, *ids, *until]).encode()

    @classmethod
    def unpacked(cls, raw: bytes, tenant: UUID) -> Target:
        """The target again."""
        kind, value, (user, project, agent), *ids = json.loads(raw)
        memories, turns = (tuple(UUID(one) for one in some) for some in ids[:2])
        until = datetime.fromisoformat(ids[2]) if ids[2:] else None
        return cls(kind, value, Scope(tenant, user, project, agent), memories, turns, until)


@dataclass(frozen=True, slots=True)
class GoneTurn:
    """A turn that goes: what it is recognised by when it comes again. `names`: what lines of an import call it. `came`:
    when it was said or stored, whichever is earlier.
    """

    event_id: UUID
    scope_id: int
    session_id: UUID
    exchange_id: UUID
    chain: bytes
    role: str
    names: tuple[str, ...]
    content: str
    came: datetime


@dataclass(frozen=True, slots=True)
class Plan:
    """What a target comes to: whole scopes, whole conversations, single turns, and memories named or made of them.

    `stays`: of the scopes that were meant some hold what came later, and are left with it.
    """

    scopes: tuple[Named, ...] = ()
    sessions: Mapping[UUID, tuple[int, str]] = field(default_factory=dict)  # scope, label
    turns: Mapping[UUID, int] = field(default_factory=dict)  # scope
    memories: Mapping[UUID, int] = field(default_factory=dict)  # scope
    stays: bool = False
    hot: Mapping[int, bytes] = field(default_factory=dict)  # by scope that goes whole: its key in Redis

    @property
    def scope_ids(self) -> list[int]:
        """Of the scopes that go whole."""
        return [one.scope_id for one in self.scopes]

    @property
    def sessions_beside(self) -> list[UUID]:
        """The conversations that go whole of scopes that do not."""
        whole = set(self.scope_ids)
        return [one for one, (scope_id, _) in self.sessions.items() if scope_id not in whole]

    @property
    def touched(self) -> list[int]:
        """Every scope of which something goes."""
        some = {scope_id for scope_id, _ in self.sessions.values()}
        return sorted({*self.scope_ids, *some, *self.turns.values(), *self.memories.values()})


@dataclass(frozen=True, slots=True)
class Labelled:
    """What goes with a target, as a gate needs to know it. `item_id` None: some of a whole conversation."""

    kind: Literal["memory", "turn"]
    item_id: UUID | None
    sensitivity: str
    session_id: UUID | None


@dataclass(frozen=True, slots=True)
class Job:
    """One erasure as its row says."""

    tenant_id: UUID
    erasure_id: UUID
    kind: TargetKind
    target: bytes | None
    digest: bytes
    step: Step
    requested_at: datetime
    counts: dict[str, Any]
    receipt: dict[str, Any] | None
    finished_at: datetime | None


@dataclass(frozen=True, slots=True)
class Listed:
    """One erasure as a list shows it. `complete` None: it goes on."""

    erasure_id: UUID
    kind: TargetKind
    step: Step
    requested_at: datetime
    finished_at: datetime | None
    complete: bool | None


@dataclass(frozen=True, slots=True)
class Items:
    """What a job is about, by kind; the values are scopes."""

    of: Mapping[str, Mapping[str, int]]

    def ids(self, kind: ItemKind) -> list[UUID]:
        """The items of a kind that are ids."""
        return [UUID(item) for item in self.of.get(kind, {})]

    def scope_ids(self) -> list[int]:
        """The scopes that go whole."""
        return [int(item.partition(":")[0]) for item in self.of.get("scope", {})]

    def sessions_beside(self) -> list[UUID]:
        """The conversations that go whole of scopes that do not."""
        whole = set(self.scope_ids())
        return [UUID(one) for one, scope_id in self.of.get("session", {}).items() if scope_id not in whole]

    def scope_keys(self) -> list[bytes]:
        """Their keys in Redis, for when nobody knows their names any more."""
        return [bytes.fromhex(item.partition(":")[2]) for item in self.of.get("scope", {}) if ":" in item]

    def touched(self) -> list[int]:
        """Every scope of which something goes."""
        return sorted({scope for kind in self.of.values() for scope in kind.values() if scope > 0})


@dataclass(frozen=True, slots=True)
class Traces:
    """What a probe found, by place; and what it looked for."""

    found: Mapping[str, int]
    ids: int
    shingles: int
    said_elsewhere: int

    @property
    def total(self) -> int:
        """All of it."""
        return sum(self.found.values())


def added(counts: Mapping[str, Any], more: Mapping[str, int]) -> dict[str, Any]:
    """Counts by name, added up."""
    return dict(Counter({name: int(value) for name, value in counts.items()}) + Counter(dict(more)))
