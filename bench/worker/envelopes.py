"""Exchanges as the proxy captures them, straight into the queue: what is said in, sealed entries and their ids out.

For a backlog of an hour, which would take the proxy minutes to answer. The parts are the product's own (chain,
payload, seal, queue); what no proxy has made is the record of the retrieval: CANDIDATES of them, nothing placed.
Raises QueueUnavailable, StoreUnavailable.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

from bench.worker.talks import Next, Traffic
from memory import payload
from memory.adapters.postgres.database import Database
from memory.adapters.postgres.keys import KeyStore
from memory.adapters.redis_queue import RedisQueue
from memory.chain import Digest, chain
from memory.config import Settings
from memory.envelope import Binding, seal
from memory.ids import new_id
from memory.keys import KeyRing, load_or_create_master_key
from memory.model import Captured, Retrieval, Scope
from memory.ports import Entry
from memory.read.conversation import session_ref

CANDIDATES: Final = 20
_AT_ONCE: Final = 64


@dataclass(frozen=True, slots=True)
class Put:
    """What went into the queue: ids by exchange, the turns it leaves, and how large it is."""

    exchange_ids: tuple[UUID, ...]
    turns: int
    envelope_bytes: int
    chars: int  # of what is new


class Sealer:
    """Seals for one service. Mutable: holds connections until `close`."""

    def __init__(self, settings: Settings, database: Database, tenant: UUID) -> None:
        assert settings.data.dir is not None and settings.redis.url is not None
        self._database = database
        self._tenant = tenant
        self._keys = KeyRing(KeyStore(database), load_or_create_master_key(settings.data.dir / "master.key"))
        self._queue = RedisQueue(settings.redis.url.get_secret_value(), lanes=settings.queue.lanes)

    @classmethod
    async def of(cls, settings: Settings) -> Sealer:
        """For the service of these resolved settings."""
        assert settings.database.url is not None
        database = await Database.open(settings.database.url.get_secret_value())
        return cls(settings, database, await KeyStore(database).ensure_tenant("default", datetime.now(UTC)))

    async def close(self) -> None:
        """Let go of both stores."""
        await self._queue.close()
        await self._database.close()

    async def put(self, traffic: Traffic, count: int) -> Put:
        """Put so many exchanges into the queue, each as if it had just ended."""
        ids: list[UUID] = []
        turns, size, chars = 0, 0, 0
        while len(ids) < count:
            entries = []
            for _ in range(min(_AT_ONCE, count - len(ids))):
                sent = traffic.take()
                entries.append(await self._entry(sent))
                traffic.answered(sent, sent.answer)
                turns += sent.fresh + 1
                chars += sum(len(one["content"]) for one in sent.messages[-sent.fresh :]) + len(sent.answer)
            await self._queue.put_all(entries)
            ids += [entry.exchange_id for entry in entries]
            size += sum(len(entry.envelope) for entry in entries)
        return Put(tuple(ids), turns, size, chars)

    async def _entry(self, sent: Next) -> Entry:
        scope = Scope(self._tenant, sent.talk.user)
        chain_key = await self._keys.chain_key(self._tenant)
        subject = await self._keys.subject_id(self._tenant, scope.user)
        captured = captured_of(sent, scope, chain_key)
        binding = Binding(self._tenant, subject, captured.exchange_id, "exchange")
        key = await self._keys.subject_key(self._tenant, scope.user)
        envelope = seal(key, binding, payload.pack_captured(captured))
        return Entry(captured.exchange_id, self._tenant, subject, "exchange", "live", envelope)


def captured_of(sent: Next, scope: Scope, chain_key: bytes) -> Captured:
    """The exchange as it leaves the proxy."""
    now = datetime.now(UTC)
    body = json.dumps({"model": "m", "messages": list(sent.messages)}).encode()
    digests = tuple(chain(chain_key, sent.messages))
    answer = {"index": 0, "message": {"role": "assistant", "content": sent.answer}, "finish_reason": "stop"}
    return Captured(
        exchange_id=new_id(),
        scope=scope,
        session=session_ref(chain_key, scope, sent.talk.label),
        mode="on",
        status="complete",
        reason=None,
        http_status=200,
        model="m",
        arrived_at=now,
        finished_at=now,
        request=body,
        answer={"choices": [answer], "usage": {"prompt_tokens": 300, "completion_tokens": 200}},
        digests=digests,
        retrieval=_retrieval(sent.messages[-1]["content"], body, digests, now),
        named=True,
    )


def _retrieval(query: str, body: bytes, _digests: Sequence[Digest | None], now: datetime) -> Retrieval:
    return Retrieval(
        retrieval_id=new_id(),
        status="empty",
        reason=None,
        rung="full",
        config_digest="bench",
        embedding_model="bench",
        query=query,
        candidates=tuple(_candidate() for _ in range(CANDIDATES)),
        placed=(),
        tokens=0,
        tokens_exact=False,
        millis=5.0,
        sha256_sent=hashlib.sha256(body).digest(),
        created_at=now,
    )


def _candidate() -> dict[str, Any]:
    """The record of one candidate, as long as the product's (proxy.prompt)."""
    scores = {"dense": 0.123456, "lexical": 0.123456, "recency": 0.123456, "authority": 1.0, "chance": 0.123456}
    return {
        "id": str(new_id()),
        "version": 1,
        "kind": "episodic",
        "score": 0.123456,
        "scores": scores,
        "admitted": False,
        "injected": False,
        "why": "it is about something else",
        "source_ids": [str(new_id())],
    }
