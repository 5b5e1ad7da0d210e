"""What erasure does in Redis: processes that say they live and what they hold, and keys and entries that go.

    mp:h:erased (channel)        what every process must let go of, as JSON: ids only
    mp:h:alive:<process>         set while the process lives, ALIVE_S
    mp:h:{erasure}:ok:<round>    by process: how many of the forgotten ids it still held, before it let go of them

Queue and cache may be two servers. Every call raises QueueUnavailable.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, Final
from uuid import UUID

from memory.adapters.redis_client import connect, faults
from memory.adapters.redis_queue import _GROUP, _LANES_KEY, _dead_key, _delivery, _key, lane_names
from memory.ports import Entry

ALIVE_S: Final = 10
_CHANNEL: Final = "mp:h:erased"
_CONFIRMED_S: Final = 300
_SILENCE_S: Final = 5.0
_PAGE: Final = 200
_REWRITE_POLL_S: Final = 0.1
Judge = Callable[[Entry], Awaitable[bool]]


class RedisErase:
    """Erasure's side of Redis. `queue_url` and `cache_url` may be the same."""

    def __init__(self, queue_url: str, cache_url: str, *, lanes: int = 16) -> None:
        self._cache: Any = connect(cache_url)
        self._queue: Any = self._cache if queue_url == cache_url else connect(queue_url)
        self._lanes = lanes

    async def close(self) -> None:
        """Close the clients."""
        await self._cache.aclose()
        if self._queue is not self._cache:
            await self._queue.aclose()

    # ------------------------------------------------------------ processes

    async def say_alive(self, process: str) -> None:
        """This process must confirm what is announced from now on."""
        with faults("say alive"):
            await self._cache.execute_command("SET", f"mp:h:alive:{process}", 1, "EX", ALIVE_S)

    async def say_gone(self, process: str) -> None:
        """This process holds nothing any more."""
        with faults("say gone"):
            await self._cache.execute_command("DEL", f"mp:h:alive:{process}")

    async def living(self) -> set[str]:
        """The processes that live."""
        with faults("list processes"):
            return {
                raw.decode().rpartition(":")[2] async for raw in self._cache.scan_iter(match="mp:h:alive:*", count=1000)
            }

    async def announce(self, message: bytes) -> None:
        """Tell every process."""
        with faults("announce erasure"):
            await self._cache.execute_command("PUBLISH", _CHANNEL, message)

    async def listen(self, ready: Callable[[], None]) -> AsyncIterator[bytes | None]:
        """What is announced from now on; None now and then, to say that the connection lives. `ready` is called once
        nothing is missed any more.
        """
        with faults("listen for erasures"):
            async with self._cache.pubsub(ignore_subscribe_messages=False) as listening:
                await listening.subscribe(_CHANNEL)
                while True:
                    heard = await listening.get_message(timeout=_SILENCE_S)
                    if heard is not None and heard["type"] == "subscribe":
                        ready()
                    elif heard is None:
                        await listening.ping()
                        yield None
                    elif heard["type"] == "message":
                        yield heard["data"]

    async def confirm(self, erasure: UUID, turn: int, process: str, held: int) -> None:
        """This process has let go."""
        key = f"mp:h:{{{erasure.hex}}}:ok:{turn}"
        with faults("confirm erasure"):
            pipe = self._cache.pipeline(transaction=False)
            pipe.execute_command("HSET", key, process, held)
            pipe.execute_command("EXPIRE", key, _CONFIRMED_S)
            await pipe.execute()

    async def confirmed(self, erasure: UUID, turn: int) -> dict[str, int]:
        """Who has let go, and of how many ids."""
        with faults("ask who confirmed"):
            found: Any = await self._cache.hgetall(f"mp:h:{{{erasure.hex}}}:ok:{turn}")
        return {name.decode(): int(held) for name, held in found.items()}

    # ------------------------------------------------------------ what goes

    async def drop_scope(self, tenant: UUID, scope_key: bytes) -> int:
        """Every key of a scope: digests, openings, working contexts. How many."""
        return await self._drop(f"mp:h:{{{tenant.hex}:{scope_key.hex()}}}:*", lambda _name, _value: True)

    async def drop_sessions(self, tenant: UUID, scope_key: bytes, sessions: Sequence[UUID]) -> int:
        """The keys of some conversations of a scope. How many."""
        ids, names = {one.bytes for one in sessions}, {one.hex for one in sessions}

        def theirs(name: str, value: bytes) -> bool:
            what, _, last = name.rpartition("}:")[2].partition(":")
            if what == "w":
                return last in names
            if what == "l":
                return last.partition(":")[0] in names
            return value[1:17] in ids if what == "o" else value[:16] in ids

        return await self._drop(f"mp:h:{{{tenant.hex}:{scope_key.hex()}}}:*", theirs)

    async def drop_ledgers(self, tenant: UUID) -> int:
        """What all conversations of a tenant were given: any may quote what goes. The store has the rest. How many."""
        return await self._drop(f"mp:h:{{{tenant.hex}:*}}:l:*", lambda _name, _value: True)

    async def _drop(self, pattern: str, wanted: Callable[[str, bytes], bool]) -> int:
        dropped = 0
        with faults("drop hot keys"):
            async for raw in self._cache.scan_iter(match=pattern, count=1000):
                value = await self._cache.get(raw)
                if value is not None and wanted(raw.decode(), value):
                    dropped += int(await self._cache.execute_command("DEL", raw))
        return dropped

    async def purge(self, tenant: UUID, subjects: Sequence[UUID] | None, judge: Judge) -> int:
        """Take entries out of every lane and its dead letters: those of these subjects (None: of anybody) of whom
        `judge` says so. How many.
        """
        gone = 0
        for lane in await self._known_lanes():
            for key in (_key(lane), _dead_key(lane)):
                gone += await self._purge(lane, key, tenant, subjects, judge)
        return gone

    async def _purge(self, lane: str, key: str, tenant: UUID, subjects: Sequence[UUID] | None, judge: Judge) -> int:
        gone, start = 0, "-"
        while True:
            with faults("read a lane"):
                found: Any = await self._queue.execute_command("XRANGE", key, start, "+", "COUNT", _PAGE)
            for entry_id, fields in found:
                entry = _delivery(lane, entry_id, fields, 1).entry
                ours = entry.tenant_id == tenant and (subjects is None or entry.subject_id in subjects)
                if ours and await judge(entry):
                    with faults("take an entry out"):
                        pipe = self._queue.pipeline(transaction=True)
                        pipe.execute_command("XACK", key, _GROUP, entry_id)
                        pipe.execute_command("XDEL", key, entry_id)
                        gone += int((await pipe.execute())[1])
            if len(found) < _PAGE:
                return gone
            start = "(" + found[-1][0].decode()

    async def _known_lanes(self) -> tuple[str, ...]:
        with faults("list lanes"):
            known = {raw.decode() for raw in await self._queue.execute_command("SMEMBERS", _LANES_KEY)}
        return tuple(sorted({*known, *lane_names(self._lanes)}))

    async def rewrite_log(self, within_s: float) -> bool:
        """Write the append-only file of the queue anew, without what is gone. Whether that was done in time."""
        with faults("rewrite the log"):
            await self._queue.execute_command("BGREWRITEAOF")
            for _ in range(round(within_s / _REWRITE_POLL_S)):
                await asyncio.sleep(_REWRITE_POLL_S)
                info = await self._queue.info("persistence")
                if not info["aof_rewrite_in_progress"] and not info.get("aof_rewrite_scheduled"):
                    return bool(info["aof_last_bgrewrite_status"] == "ok")
        return False

    # ------------------------------------------------------------ the probe

    async def everything(self) -> AsyncIterator[tuple[str, list[bytes]]]:
        """Every key with all that it holds, on both servers, but for what erasure itself has said there."""
        for client in {id(one): one for one in (self._queue, self._cache)}.values():
            with faults("read everything"):
                async for raw in client.scan_iter(match="*", count=1000):
                    name = raw.decode("utf-8", "replace")
                    yield name, [raw, *await _values(client, raw)]


async def _values(client: Any, key: bytes) -> list[bytes]:
    kind = (await client.type(key)).decode()
    if kind == "string":
        value = await client.get(key)
        return [] if value is None else [value]
    if kind == "hash":
        return [part for pair in (await client.hgetall(key)).items() for part in pair]
    if kind == "set":
        return list(await client.smembers(key))
    if kind == "list":
        return list(await client.lrange(key, 0, -1))
    if kind == "zset":
        return list(await client.zrange(key, 0, -1))
    if kind == "stream":
        found: Any = await client.execute_command("XRANGE", key, "-", "+")
        return [value for _, fields in found for value in fields.values()]
    return []
