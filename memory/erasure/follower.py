"""What every process does when something was erased: an announcement in, what it held let go of, its word back.

Drops ids of scopes, keys of subjects, indexes of hot scopes, vectors of questions, answers to them, and what is being
made of conversations; says how many of the forgotten ids it had found in its indexes behind the second word of a job,
when none may be there: who did not hear that one lets go first. A process that cannot hear says that it lives and no
more, and is waited for in vain: what it holds is confirmed with the store within the staleness bound anyway (DESIGN
section 6). Where it hears again it lets go of all that is not confirmed so, since it may have missed anything. Ids
only.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol
from uuid import UUID

from memory.errors import QueueUnavailable, StoreUnavailable
from memory.ports import ASKED
from memory.telemetry import event

log: Final = logging.getLogger("memory_proxy.erasure")
_AGAIN_S: Final = 1.0
_ALIVE_EVERY_S: Final = 3.0
_TOLD_MAX: Final = 4_096
"""Erasures that are known to have told what is to be let go of; a few of each tenant are under way at a time."""


class Signals(Protocol):
    """How processes hear of erasures. Every call raises QueueUnavailable."""

    async def say_alive(self, process: str) -> None: ...
    async def say_gone(self, process: str) -> None: ...
    def listen(self, ready: Callable[[], None]) -> AsyncIterator[bytes | None]: ...
    async def confirm(self, erasure: UUID, turn: int, process: str, held: int) -> None: ...


class HoldsScopes(Protocol):
    """Ids of scopes in process."""

    def drop_ids(self, tenant: UUID, scope_ids: Sequence[int]) -> None: ...


class HoldsKeys(Protocol):
    """Keys in process."""

    def drop_subject(self, tenant: UUID, subject_id: UUID) -> None: ...
    def drop_subjects(self) -> None: ...
    def drop(self, tenant: UUID, key_id: UUID) -> None: ...
    def drop_salt(self, tenant: UUID) -> None: ...
    def drop_salts(self) -> None: ...
    async def salt_key(self, tenant: UUID) -> bytes: ...


class HoldsIndexes(Protocol):
    """Hot scopes in process, and what is known of conversations."""

    def let_go(self, tenant: UUID, scope_ids: Sequence[int]) -> None: ...
    def let_go_of_all(self) -> None: ...
    def holding(self, tenant: UUID, memory_ids: Sequence[UUID]) -> int: ...


class HoldsQueries(Protocol):
    """What was made of questions or of conversations, in process; nobody can tell of which."""

    def let_go(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Word:
    """One announcement. `turn`: which of a job's; `memories`: the forgotten ids, to be looked for."""

    tenant: UUID
    erasure: UUID
    turn: int
    scopes: tuple[int, ...] = ()
    subject: UUID | None = None
    keys: tuple[UUID, ...] = ()
    memories: tuple[UUID, ...] = ()

    def packed(self) -> bytes:
        """As it is announced."""
        said: dict[str, Any] = {
            "tenant": self.tenant.hex,
            "erasure": self.erasure.hex,
            "turn": self.turn,
            "scopes": self.scopes,
            "subject": self.subject.hex if self.subject else None,
            "keys": [one.hex for one in self.keys],
            "memories": [one.hex for one in self.memories],
        }
        return json.dumps(said, separators=(",", ":")).encode()

    @classmethod
    def unpacked(cls, raw: bytes) -> Word | None:
        """The word again; None for what is none: the server may be shared."""
        try:
            said = json.loads(raw)
            return cls(
                UUID(said["tenant"]),
                UUID(said["erasure"]),
                int(said["turn"]),
                tuple(int(one) for one in said["scopes"]),
                UUID(said["subject"]) if said["subject"] else None,
                tuple(UUID(one) for one in said["keys"]),
                tuple(UUID(one) for one in said["memories"]),
            )
        except (ValueError, KeyError, TypeError, AttributeError):
            return None


class Follower:
    """Follows erasures for one process. `indexes` None: it holds none. `wakes`: set where work was asked for."""

    def __init__(
        self,
        signals: Signals,
        process: str,
        scopes: HoldsScopes,
        keys: HoldsKeys,
        indexes: HoldsIndexes | None,
        queries: Sequence[HoldsQueries] = (),
        wakes: Sequence[asyncio.Event] = (),
    ) -> None:
        self._signals = signals
        self._process = process
        self._scopes = scopes
        self._keys = keys
        self._indexes = indexes
        self._queries = queries
        self._wakes = wakes
        self._told = deque[UUID](maxlen=_TOLD_MAX)

    async def follow(self) -> None:
        """For ever; run as a task."""
        alive = asyncio.create_task(self._say_alive())
        try:
            while True:
                with contextlib.suppress(QueueUnavailable):
                    async for raw in self._signals.listen(self._hears):
                        if raw == ASKED:
                            self._wake()
                        elif raw is not None and (word := Word.unpacked(raw)) is not None:
                            await self.heard(word)
                await asyncio.sleep(_AGAIN_S)
        finally:
            alive.cancel()
            with contextlib.suppress(QueueUnavailable):
                await self._signals.say_gone(self._process)

    def _wake(self) -> None:
        for woken in self._wakes:
            woken.set()

    def _hears(self) -> None:
        """Let go of what may have been erased while nothing was heard here, and look for what was asked for."""
        self._wake()
        self._keys.drop_subjects()
        self._keys.drop_salts()
        for held_of_queries in self._queries:
            held_of_queries.let_go()
        if self._indexes is not None:
            self._indexes.let_go_of_all()

    async def heard(self, word: Word) -> None:
        """Let go, and say so."""
        self._scopes.drop_ids(word.tenant, word.scopes)
        if word.subject is not None:
            self._keys.drop_subject(word.tenant, word.subject)
        for key_id in word.keys:
            self._keys.drop(word.tenant, key_id)
        self._keys.drop_salt(word.tenant)
        for held_of_queries in self._queries:
            held_of_queries.let_go()
        held = 0
        if self._indexes is not None:
            if word.erasure not in self._told:
                self._indexes.let_go(word.tenant, word.scopes)
            held = self._indexes.holding(word.tenant, word.memories)
            self._indexes.let_go(word.tenant, word.scopes)
        if word.scopes:
            self._told.append(word.erasure)
        with contextlib.suppress(StoreUnavailable):
            await self._keys.salt_key(word.tenant)
        try:
            await self._signals.confirm(word.erasure, word.turn, self._process, held)
        except QueueUnavailable as fault:
            event(log, "erasure_not_confirmed", logging.WARNING, erasure=str(word.erasure), fault=str(fault))

    async def _say_alive(self) -> None:
        """From the beginning, whether it hears or not: what it holds meanwhile may be what is being erased."""
        while True:
            rest_s = _ALIVE_EVERY_S
            try:
                await self._signals.say_alive(self._process)
            except QueueUnavailable:
                rest_s = _AGAIN_S
            await asyncio.sleep(rest_s)
