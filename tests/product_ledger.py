"""The product's own ledger as a `Place` (tests/ledger_clients.py): what a request of a conversation is given by the
code that serves it: `Conversations`, `Ledgers` and `assemble`, with Redis and Postgres in dictionaries.

Each question recalls one memory of its own, so that every turn has something new to place.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, cast
from uuid import UUID

from memory.chain import Digest, chain, extend
from memory.ids import new_id
from memory.keys import KeyRing
from memory.model import IndexRow, Quoted, Recall, Scope, ScopeId, ScopeVersion
from memory.read.candidates import as_candidate
from memory.read.conversation import WITHDRAWN, Asked, Conversation, Conversations, Hot
from memory.read.dropped import Joint, known_by
from memory.read.extract import SentenceCompressor
from memory.read.hot import HotScope, as_stored, item_of
from memory.read.items import Filter
from memory.read.ledger import Ledgers
from memory.read.route import ByLength
from memory.telemetry import Metrics
from proxy.prompt import Rules, assemble
from proxy.room import Room
from proxy.wire.chat_request import ChatRequest
from tests.key_table import Table
from tests.ledger_clients import Message
from tests.test_assemble import LIMITS, Characters
from tests.test_conversation import MemoryHot, MemoryStore
from tests.test_recall import row, unit

NOW = datetime(2026, 11, 1, tzinfo=UTC)
KEY = bytes(32)
RULES = Rules(LIMITS, Characters(), ByLength(), SentenceCompressor())


@dataclass
class LedgerHot(MemoryHot):
    """Redis in dictionaries, the ledger included."""

    ledger: dict[tuple[UUID, bytes], bytes] = field(default_factory=dict)

    async def find(self, scope: Scope, scope_key: bytes, asked: Asked) -> Hot:
        found = await super().find(scope, scope_key, asked)
        session = asked.session_id
        if session is None:
            known = [found.sessions[one] for one in asked.answers if one in found.sessions]
            opened = found.opening if found.opening and not found.opening_continued else None
            session = known[-1].session_id if known else opened.session_id if opened else None
        entries = {
            mark: self.ledger[session, mark] for mark in asked.marks if session and (session, mark) in self.ledger
        }
        return Hot(found.sessions, found.opening, found.opening_continued, {}, session, entries)

    async def note(
        self,
        scope: Scope,
        key: bytes,
        session_id: UUID,
        entries: Mapping[Digest, bytes],
        withdrawn: Iterable[Digest],
        *,
        anew: bool = False,
    ) -> None:
        for digest, value in entries.items():
            if anew or (session_id, digest) not in self.ledger:
                self.ledger[session_id, digest] = value
        self.ledger.update(dict.fromkeys(((session_id, digest) for digest in withdrawn), WITHDRAWN))


@dataclass
class Store(MemoryStore):
    """Postgres in dictionaries: the memories that there are, and the ledger as the write path keeps it."""

    rows: dict[UUID, IndexRow] = field(default_factory=dict)
    places: dict[tuple[UUID, bytes], bytes] = field(default_factory=dict)

    async def ledger(self, scope: Scope, session_id: UUID, chains: Sequence[bytes]) -> Mapping[bytes, bytes]:
        return {one: self.places[session_id, one] for one in chains if (session_id, one) in self.places}

    def write(self, session_id: UUID, digests: Iterable[Digest | None], sealed: Mapping[Digest, bytes]) -> None:
        """One exchange: its chain positions, with what was newly placed."""
        for digest in filter(None, digests):
            self.places.setdefault((session_id, digest), b"")
        for digest, value in sealed.items():
            self.places[session_id, digest] = value

    async def standing(self, tenant: UUID, scope_ids: Sequence[int], memory_ids: Sequence[UUID]) -> list[Quoted]:
        return [Quoted(self.rows[one], "", None) for one in memory_ids if one in self.rows]

    async def summary(self, tenant: UUID, scope_ids: Sequence[int], session_id: UUID) -> IndexRow | None:
        return None

    async def visible_scopes(self, scope: Scope) -> tuple[ScopeVersion, ...]:
        return (ScopeVersion(ScopeId(1), 1, 0),)


class NotHeld:
    """Hot scopes that hold none."""

    def held(self, scope: Scope) -> HotScope | None:
        return None


class World:
    """A proxy and its stores, for one conversation. `sent`: its requests so far."""

    def __init__(self) -> None:
        self.sent: list[tuple[list[Message], Conversation, bytes]] = []
        self.recalled: dict[str, IndexRow] = {}  # by question: the same one recalls the same
        self.scope = Scope(new_id())
        self.keys = KeyRing(Table(), KEY)
        self.hot, self.store = LedgerHot(), Store()
        self.conversations = Conversations(self.hot, self.store)
        self.another_process()

    def another_process(self) -> None:
        """From now on a process is asked that has nothing of the ledger at hand."""
        self.ledgers = Ledgers(self.hot, self.store, cast(Any, NotHeld()), self.keys, Metrics(), as_stored, str)

    async def blocks(self, messages: Sequence[Message]) -> Mapping[int, str]:
        """One request and its answer: the block of each message."""
        chat = ChatRequest.parse(json.dumps({"messages": list(messages)}).encode())
        values = [view.value for view in chat.messages]
        key = await self.keys.chain_key(self.scope.tenant)
        found = await self.conversations.find(self.scope, key, None, values, tuple(chain(key, values)), ())
        newest, places = chat.newest_user, chat.places(found.digests)
        undecided = newest if newest == len(messages) - 1 else None
        kept = await self.ledgers.kept(self.scope, found, places, undecided, Filter(), NOW)
        went_on = newest is not None and newest < len(messages) - 1 and not found.is_new
        asked = chat.query_text
        memory = self.recalled.setdefault(asked, row(f"Fact number {len(self.store.rows)}.", unit(1, 0, 0, 0)))
        self.store.rows[memory.memory_id] = memory
        prompt = assemble(
            chat,
            Recall((as_candidate(item_of(memory)),), "full"),
            kept,
            Room(10_000),
            RULES,
            chain=found.digests[newest] if newest is not None else None,
            retrieval_id=new_id(),
            salt=None,
            may_place=not went_on,
            opens=found.opens,
        )
        entries = {new.chain: new.entry for new in prompt.newly_placed}
        await self.ledgers.note(self.scope, found.session, entries, kept.found, prompt.withdrawn, anew=found.opens)
        sealed = {one: await self.ledgers.sealed(self.scope, found.session, entry) for one, entry in entries.items()}
        self.store.write(found.session.session_id, found.digests, sealed)
        if found.is_new:
            await self.conversations.remember(self.scope, key, found, [], {})
        self.sent.append((list(messages), found, key))
        return {one.position: one.text for one in prompt.placed}

    async def answers(self, messages: Sequence[Message]) -> None:
        """What the model said to earlier requests, as far as this request tells: the next one is recognised by it."""
        for before, found, key in self.sent:
            behind = messages[len(before)] if len(messages) > len(before) else None
            tip = found.tip
            if behind is None or behind["role"] != "assistant" or list(messages[: len(before)]) != before or not tip:
                continue
            digest = extend(key, tip, behind)
            pairs = {pair: Joint(found.session, tip, digest) for pair in known_by(key, before[-1], behind)}
            await self.conversations.remember(self.scope, key, found, [digest], pairs)
            self.store.sessions[digest] = found.session


def product(messages: Sequence[Message], remembered: dict[str, Any]) -> Mapping[int, str]:
    """What the product places in a request of one conversation."""
    world: World = remembered.setdefault("world", World())

    async def placed() -> Mapping[int, str]:
        await world.answers(messages)
        return await world.blocks(messages)

    return asyncio.run(placed())


def product_without_redis(messages: Sequence[Message], remembered: dict[str, Any]) -> Mapping[int, str]:
    """The same, everything hot lost before each request: what the process has at hand answers, and Postgres."""
    world: World = remembered.setdefault("world", World())
    world.hot.ledger.clear()
    return product(messages, remembered)


def product_by_postgres_alone(messages: Sequence[Message], remembered: dict[str, Any]) -> Mapping[int, str]:
    """The same, in a process that has nothing at hand either: all that was stored is known, and nothing else."""
    world: World = remembered.setdefault("world", World())
    world.hot.ledger.clear()
    world.another_process()
    return product(messages, remembered)
