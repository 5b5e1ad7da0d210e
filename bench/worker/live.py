"""Live chats at a steady pace, and how long until each is searchable: traffic in, one record for each chat out.

A chat is sent when it is due, whether or not earlier ones have been answered. Its exchange is searchable from the
commit on that also stores its retrieval's record (one transaction), whose id the answer's head gave: the store is asked
for the outstanding ids every WATCH_S, so a lag is up to that and one query too long, never too short. Of each
`probe_every` chats one carries a mark of its own and is searched for through the API until found: what a client sees.
Raises CallFailed where a chat or a search is refused.
"""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

import aiohttp
import asyncpg

from bench.hygiene import Model
from bench.recall.client import CallFailed, user_header
from bench.worker.talks import Next, Traffic

WATCH_S: Final = 0.02
WATCH_MANY_S: Final = 0.25
MANY: Final = 200
PROBE_S: Final = 0.025
PROBE_MAX_S: Final = 900.0
_STORED: Final = """
SELECT r.retrieval_id FROM unnest($1::uuid[]) AS w (id)
JOIN retrievals r ON r.tenant_id = (SELECT tenant_id FROM tenants WHERE name = 'default') AND r.retrieval_id = w.id
"""


@dataclass(slots=True)
class Chat:
    """One chat. Seconds on this process's monotonic clock; `stored_s` and `found_s` None: not (yet), or not asked."""

    retrieval: UUID
    sent_s: float
    ended_s: float
    memory_ms: float
    status: str
    capture: str
    stored_s: float | None = None
    found_s: float | None = None

    @property
    def client_ms(self) -> float:
        """From sending to the last byte."""
        return (self.ended_s - self.sent_s) * 1000

    @property
    def lag_s(self) -> float | None:
        """From the last byte to being searchable."""
        return None if self.stored_s is None else max(0.0, self.stored_s - self.ended_s)

    @property
    def found_lag_s(self) -> float | None:
        """From the last byte to being found by a search."""
        return None if self.found_s is None else max(0.0, self.found_s - self.ended_s)


@dataclass(slots=True)
class Watch:
    """Who is not stored yet. Mutable."""

    connection: Any
    outstanding: dict[UUID, Chat] = field(default_factory=dict)

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            asked = list(self.outstanding)
            await asyncio.sleep(WATCH_MANY_S if len(asked) > MANY else WATCH_S)
            if not asked:
                continue
            found = await self.connection.fetch(_STORED, asked)
            now_s = time.monotonic()
            for row in found:
                self.outstanding.pop(UUID(int=row["retrieval_id"].int)).stored_s = now_s


@asynccontextmanager
async def watching(dsn: str) -> AsyncIterator[Watch]:
    """A watch on this store."""
    connection = await asyncpg.connect(dsn, timeout=10)
    watch = Watch(connection)
    task = asyncio.create_task(watch.run())
    try:
        yield watch
    finally:
        task.cancel()
        await asyncio.wait([task])
        await connection.close()
        if not task.cancelled() and (fault := task.exception()) is not None:
            raise CallFailed(f"the watch on the store ended: {fault}") from fault


@dataclass(slots=True)
class Live:
    """Clients that ask at a steady pace."""

    http: aiohttp.ClientSession
    url: str
    model: Model
    traffic: Traffic
    watch: Watch
    probe_every: int = 0
    _numbers: Any = field(default_factory=lambda: itertools.count(700_001))
    _probes: set[asyncio.Task[None]] = field(default_factory=set)

    async def paced(self, each_s: float, until: asyncio.Event, seconds: float | None = None) -> list[Chat]:
        """Chats, one each `each_s`, until the event or for so long; those under way are waited for."""
        tasks: list[asyncio.Task[Chat]] = []
        began = time.monotonic()
        for number in itertools.count():
            due_s = began + number * each_s
            if until.is_set() or (seconds is not None and due_s - began >= seconds):
                break
            await asyncio.sleep(max(0.0, due_s - time.monotonic()))
            tasks.append(asyncio.create_task(self._chat(number)))
            if any(task.done() and task.exception() for task in tasks[-200:]):
                break
        return list(await asyncio.gather(*tasks))

    async def settle(self, limit_s: float) -> None:
        """Wait until every chat is stored and every probe found. Raises CallFailed."""
        until_s = time.monotonic() + limit_s
        while self.watch.outstanding:
            if time.monotonic() > until_s:
                raise CallFailed(f"{len(self.watch.outstanding)} acknowledged chats are not stored")
            await asyncio.sleep(WATCH_S)
        if self._probes:
            await asyncio.gather(*self._probes)

    async def _chat(self, number: int) -> Chat:
        sent = self.traffic.take()
        mark = f"quokka{next(self._numbers)}"
        probed = bool(self.probe_every) and number % self.probe_every == 0
        messages = [dict(message) for message in sent.messages]
        if probed:
            messages[-1]["content"] += f" It is about {mark}."
        self.model.texts[mark] = sent.answer
        chat = await self._sent(sent, messages, mark)
        del self.model.texts[mark]
        self.traffic.answered(dataclasses.replace(sent, messages=tuple(messages)), sent.answer)
        if chat.capture in ("queue", "spool"):
            self.watch.outstanding[chat.retrieval] = chat
        if probed:
            task = asyncio.create_task(self._found(chat, sent.talk.user, mark))
            self._probes.add(task)
        return chat

    async def _sent(self, sent: Next, messages: list[dict[str, str]], mark: str) -> Chat:
        body = {"model": "m", "messages": messages, "metadata": {"answer": mark}}
        headers = {**user_header(sent.talk.user), "X-Memory-Session": sent.talk.label}
        began_s = time.monotonic()
        try:
            async with self.http.post(f"{self.url}/v1/chat/completions", json=body, headers=headers) as answer:
                raw = await answer.read()
                ended_s = time.monotonic()
                head = answer.headers
        except (aiohttp.ClientError, TimeoutError) as exc:
            raise CallFailed(f"a chat failed: {type(exc).__name__} {exc}") from exc
        if answer.status != 200:
            raise CallFailed(f"a chat answered {answer.status}: {raw[:200]!r}")
        return Chat(
            retrieval=UUID(head["X-Memory-Retrieval"]),
            sent_s=began_s,
            ended_s=ended_s,
            memory_ms=float(head["X-Memory-Millis"]),
            status=head["X-Memory-Status"],
            capture=head["X-Memory-Capture"],
        )

    async def _found(self, chat: Chat, user: str, mark: str) -> None:
        """Search until it is there."""
        body = {"query": f"What is about {mark}?", "k": 10}
        while time.monotonic() - chat.ended_s < PROBE_MAX_S:
            async with self.http.post(f"{self.url}/memory/v1/search", json=body, headers=user_header(user)) as answer:
                said = await answer.json()
            if answer.status != 200:
                raise CallFailed(f"a search answered {answer.status}: {said}")
            if any(mark in candidate["content"] for candidate in said["candidates"]):
                chat.found_s = time.monotonic()
                return
            # Every few hundredths while it is a matter of these, less often in a backlog of minutes.
            await asyncio.sleep(PROBE_S if time.monotonic() - chat.ended_s < 5 else 1.0)
        raise CallFailed(f"{mark} is not found after {PROBE_MAX_S:.0f} s")
