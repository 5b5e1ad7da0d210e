"""What erasure needs of stores, Redis and whoever makes things anew: Protocols. Each raises what its store raises."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol
from uuid import UUID

from memory.erasure.model import GoneTurn, Items, Job, Labelled, Named, Plan, Step, Target
from memory.erasure.shingles import Shingles
from memory.erasure.wanted import Wanted
from memory.model import TombstoneKind
from memory.ports import Entry

Witness = Callable[[Any], Awaitable[None]]
"""What writes the audit row of an act, called in the transaction of the act."""


class EraseStore(Protocol):
    """Jobs, and what they take away. StoreUnavailable; with a fence LeaseLost."""

    async def add(
        self,
        tenant: UUID,
        erasure_id: UUID,
        kind: str,
        target: bytes,
        digest: bytes,
        now: datetime,
        witness: Witness | None = None,
    ) -> None: ...
    async def add_ended(
        self,
        tenant: UUID,
        erasure_id: UUID,
        kind: str,
        digest: bytes,
        at: datetime,
        receipt: Mapping[str, Any],
        now: datetime,
    ) -> None: ...
    async def get(self, tenant: UUID, erasure_id: UUID) -> Job | None: ...
    async def waiting(self, limit: int = ..., *, after: UUID = ...) -> list[tuple[UUID, UUID]]: ...
    async def items(self, job: Job) -> Items: ...
    async def item_done(self, job: Job, kind: str, item: str) -> None: ...
    async def advance(self, job: Job, step: Step, counts: Mapping[str, Any], fence: int) -> None: ...
    async def end(self, job: Job, receipt: Mapping[str, Any], now: datetime, fence: int) -> None: ...
    async def horizon(self) -> int: ...
    async def settled(self, number: int) -> bool: ...
    async def tombstones_since(self, tenant: UUID, since: datetime) -> list[tuple[TombstoneKind, bytes]]: ...
    async def tombstones_of(
        self, tenant: UUID, tombstones: Sequence[tuple[TombstoneKind, bytes]]
    ) -> dict[tuple[TombstoneKind, bytes], datetime]: ...
    async def keep_tombstones(
        self, tenant: UUID, tombstones: Sequence[tuple[TombstoneKind, bytes]], at: datetime
    ) -> None: ...
    async def knows_tenant(self, tenant: UUID) -> bool: ...
    async def labels(self, tenant: UUID, scopes: Sequence[int]) -> list[tuple[UUID, int, str]]: ...
    async def scopes(self, tenant: UUID) -> list[Named]: ...
    async def plan(self, target: Target) -> Plan: ...
    def turns(
        self, tenant: UUID, scopes: Sequence[int], sessions: Sequence[UUID], events: Sequence[UUID], see: Sequence[int]
    ) -> AsyncIterator[list[GoneTurn]]: ...
    def own_ids(self, tenant: UUID, scopes: Sequence[int]) -> AsyncIterator[list[tuple[UUID, int, datetime]]]: ...
    async def reach(self, plan: Plan, tenant: UUID, events: Sequence[UUID]) -> dict[UUID, int]: ...
    async def labelled(
        self, tenant: UUID, see: Sequence[int], ids: Sequence[UUID], sessions: Sequence[UUID]
    ) -> list[Labelled]: ...
    async def said_by(self, tenant: UUID, see: Sequence[int], memories: Sequence[UUID]) -> list[str]: ...
    async def answers_given(
        self, tenant: UUID, see: Sequence[int], memories: Mapping[UUID, int]
    ) -> list[tuple[UUID, int, str]]: ...
    async def mark(
        self,
        job: Job,
        plan: Plan,
        tombstones: Sequence[tuple[TombstoneKind, bytes]],
        subject: UUID | None,
        now: datetime,
        fence: int,
    ) -> None: ...
    async def mark_more(
        self, job: Job, turns: Mapping[UUID, int], tombstones: Sequence[tuple[TombstoneKind, bytes]], fence: int
    ) -> None: ...
    async def delete(
        self,
        job: Job,
        items: Items,
        target: Target,
        marks: Callable[[Iterable[UUID]], Sequence[tuple[TombstoneKind, bytes]]],
        now: datetime,
        fence: int,
    ) -> dict[str, Any]: ...
    async def shred(self, job: Job, keys: Sequence[UUID], now: datetime) -> None: ...
    async def drop_unsaid_tokens(self, job: Job) -> int: ...
    async def rotate_salt(self, job: Job, now: datetime, before: datetime, fence: int) -> Job: ...


class GoesThrough(Protocol):
    """Reads all that the database holds of a tenant."""

    async def spare_said(self, tenant: UUID, scopes: Sequence[int], words: Shingles, made: Shingles) -> set[str]: ...
    async def run(self, tenant: UUID, scopes: Sequence[int], wanted: Wanted) -> Counter[str]: ...


class TakesFiles(Protocol):
    """Files of artifacts. StoreUnavailable."""

    async def forget(self, tenant: UUID, scope_ids: Sequence[int], now: datetime) -> int: ...


class Hots(Protocol):
    """Redis: processes, keys, entries. QueueUnavailable."""

    async def living(self) -> set[str]: ...
    async def announce(self, message: bytes) -> None: ...
    async def confirmed(self, erasure: UUID, turn: int) -> dict[str, int]: ...
    async def drop_hot(self, tenant: UUID, hot: Mapping[bytes, Collection[UUID] | None]) -> int: ...
    async def purge(
        self, tenant: UUID, subjects: Sequence[UUID] | None, judge: Callable[[Entry, bool], Awaitable[bool]]
    ) -> int: ...
    def everything(self) -> AsyncIterator[tuple[str, list[bytes]]]: ...


class MakesAnew(Protocol):
    """Makes what has other sources again. StoreUnavailable, EmbedderUnavailable."""

    async def make(self, job: Job, items: Items) -> dict[str, int]: ...
