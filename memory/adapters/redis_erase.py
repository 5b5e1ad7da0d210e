"""What erasure does in Redis: processes that say they live and what they hold, and keys and entries that go.

    mp:h:erased (channel)        what every process must let go of, as JSON: ids only; or that work was asked for
    mp:h:alive:<process>         set while the process lives, ALIVE_S
    mp:h:{erasure}:ok:<round>    by process: how many of the forgotten ids it still held, before it let go of them

Queue and cache may be two servers. Who lives is said in the queue's: one that may evict would forget a process, and an
erasure not wait for it. Every call raises QueueUnavailable.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Final, NamedTuple
from uuid import UUID

from redis.exceptions import ResponseError

from memory.adapters import redis_scripts
from memory.adapters.redis_client import connect, faults, heard_on
from memory.adapters.redis_cluster import Cluster, at
from memory.adapters.redis_queue import _GROUP, _LANES_KEY, LANES, _dead_key, _delivery, _key, lane_names
from memory.ports import Entry

ALIVE_S: Final = 10
_CHANNEL: Final = "mp:h:erased"
_CONFIRMED_S: Final = 300
_SILENCE_S: Final = 5.0
_PAGE: Final = 50  # of each of some dozen streams at once
_BATCH: Final = 250
_SCANNED: Final = 1000
_REWRITE_POLL_S: Final = 0.1
Judge = Callable[[Entry, bool], Awaitable[bool]]


class RedisErase:
    """Erasure's side of Redis. `queue_url` and `cache_url` may be the same."""

    def __init__(self, queue_url: str, cache_url: str, *, lanes: int = LANES) -> None:
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
            await self._queue.execute_command("SET", f"mp:h:alive:{process}", 1, "EX", ALIVE_S)

    async def say_gone(self, process: str) -> None:
        """This process holds nothing any more."""
        with faults("say gone"):
            await self._queue.execute_command("DEL", f"mp:h:alive:{process}")

    async def living(self) -> set[str]:
        """The processes that live."""
        with faults("list processes"):
            return {
                raw.decode().rpartition(":")[2]
                async for raw in self._queue.scan_iter(match="mp:h:alive:*", count=_SCANNED)
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
            async with aclosing(heard_on(self._cache, _CHANNEL, _SILENCE_S)) as listening:
                async for heard in listening:
                    if heard is None:
                        yield None
                    elif heard["type"] == "subscribe":
                        ready()
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

    async def drop_hot(self, tenant: UUID, hot: Mapping[bytes, Collection[UUID] | None]) -> int:
        """The keys of these scopes (by their key): all, or those of some conversations. And what the conversations of
        all scopes of the tenant were given, since any may quote what goes; the store has it. How many. One pass.
        """
        scopes = {
            f"{tenant.hex}:{key.hex()}": None if sessions is None else frozenset(one.hex for one in sessions)
            for key, sessions in hot.items()
        }
        dropped = 0
        with faults("drop hot keys"):
            async for page in _batches(self._cache.scan_iter(match=f"mp:h:{{{tenant.hex}:*}}:*", count=_SCANNED)):
                names = {raw: _HotName.of(raw) for raw in page}
                some = [raw for raw, name in names.items() if scopes.get(name.scope) is not None]
                values = dict(zip(some, await _each(self._cache, [("GET", raw) for raw in some]), strict=True))
                going = [raw for raw, name in names.items() if name.goes(scopes, values.get(raw))]
                dropped += sum(await _each(self._cache, [("DEL", raw) for raw in going]))
        return dropped

    async def purge(self, tenant: UUID, subjects: Sequence[UUID] | None, judge: Judge) -> int:
        """Take out of every lane what waits of these subjects (None: of anybody), and of its dead letters those of
        anybody, where `judge` says so, told whether it is a dead letter. How many.
        """
        gone = 0
        lanes = {key: lane for lane in await self._known_lanes() for key in (_key(lane), _dead_key(lane))}
        async for key, found in _entries(self._queue, list(lanes)):
            for entry_id, fields in found:
                entry = _delivery(lanes[key], entry_id, fields, 1).entry
                is_dead = key == _dead_key(lanes[key])
                meant = is_dead or subjects is None or entry.subject_id in subjects
                if entry.tenant_id == tenant and meant and await judge(entry, is_dead):
                    with faults("take an entry out"):
                        gone += int(
                            await self._queue.execute_command("EVAL", redis_scripts.DONE, 1, key, _GROUP, entry_id)
                        )
        return gone

    async def _known_lanes(self) -> tuple[str, ...]:
        with faults("list lanes"):
            known = {raw.decode() for raw in await self._queue.execute_command("SMEMBERS", _LANES_KEY)}
        return tuple(sorted({*known, *lane_names(self._lanes)}))

    async def rewrite_log(self, within_s: float) -> bool:
        """Write the append-only file of the queue anew, without what is gone; of a cluster those of its replicas too.
        Whether that was done in time. A rewrite that is under way began with all of it: another is begun behind that.
        """
        with faults("rewrite the log"):
            nodes = await self._queue.nodes() if isinstance(self._queue, Cluster) else [None]
            return all(await asyncio.gather(*(self._rewrite_log(at(node), within_s) for node in nodes)))

    async def _rewrite_log(self, there: Mapping[str, Any], within_s: float) -> bool:
        begun = False
        for _ in range(round(within_s / _REWRITE_POLL_S)):
            info = await self._queue.info("persistence", **there)
            busy = info["aof_rewrite_in_progress"] or info.get("aof_rewrite_scheduled")
            if begun and not busy:
                return bool(info["aof_last_bgrewrite_status"] == "ok")
            if not busy:
                begun = await self._begin_rewrite(there)
            await asyncio.sleep(_REWRITE_POLL_S)
        return False

    async def _begin_rewrite(self, there: Mapping[str, Any]) -> bool:
        """False where the server had begun one by itself meanwhile."""
        try:
            await self._queue.execute_command("BGREWRITEAOF", **there)
        except ResponseError as refusal:
            if "in progress" not in str(refusal):
                raise
            return False
        return True

    # ------------------------------------------------------------ the probe

    async def everything(self) -> AsyncIterator[tuple[str, list[bytes]]]:
        """Every key with all that it holds, on both servers; streams and whatever else is long in parts."""
        for client in {id(one): one for one in (self._queue, self._cache)}.values():
            with faults("read everything"):
                async for page in _batches(client.scan_iter(match="*", count=_SCANNED)):
                    kinds = [kind.decode() for kind in await _each(client, [("TYPE", raw) for raw in page])]
                    read = [(raw, kind) for raw, kind in zip(page, kinds, strict=True) if kind in _READ_BY]
                    found = await _each(client, [(_READ_BY[kind][0], raw, *_READ_BY[kind][1:]) for raw, kind in read])
                    for (raw, kind), value in zip(read, found, strict=True):
                        yield raw.decode("utf-8", "replace"), [raw, *_parts(kind, value)]
                    streams = [raw for raw, kind in zip(page, kinds, strict=True) if kind == "stream"]
                    async for raw, entries in _entries(client, streams):
                        yield raw.decode("utf-8", "replace"), [raw, *(one for _, of in entries for one in of.values())]


_READ_BY: Final[Mapping[str, tuple[Any, ...]]] = {
    "string": ("GET",),
    "hash": ("HGETALL",),
    "set": ("SMEMBERS",),
    "list": ("LRANGE", 0, -1),
    "zset": ("ZRANGE", 0, -1),
}


def _parts(kind: str, value: Any) -> list[bytes]:
    if kind == "string":
        return [] if value is None else [value]
    if kind == "hash":
        return [part for pair in value.items() for part in pair]
    return list(value)


class _HotName(NamedTuple):
    """The name of a key of a conversation or a scope, taken apart: `mp:h:{tenant:scope}:what:last`."""

    scope: str
    what: str
    last: str

    @classmethod
    def of(cls, raw: bytes) -> _HotName:
        scope, _, rest = raw.decode().removeprefix("mp:h:{").partition("}:")
        what, _, last = rest.partition(":")
        return cls(scope, what, last)

    def goes(self, scopes: Mapping[str, Collection[str] | None], value: bytes | None) -> bool:
        """Whether it goes with these, all or by the hex of their conversations: then `value` says of which it is."""
        if self.what == "l":  # what a conversation was given
            return True
        sessions = scopes.get(self.scope, ())
        if sessions is None:
            return True
        if self.what == "w":  # a working context
            return self.last in sessions
        at = 1 if self.what == "o" else 0  # an opening; else a digest
        return value is not None and value[at : at + 16].hex() in sessions


async def _each(client: Any, calls: Sequence[tuple[Any, ...]]) -> list[Any]:
    """What each call answers, in one round trip."""
    if not calls:
        return []
    pipe = client.pipeline(transaction=False)
    for call in calls:
        pipe.execute_command(*call)
    answers: list[Any] = await pipe.execute()
    return answers


async def _batches(names: AsyncIterator[bytes]) -> AsyncIterator[list[bytes]]:
    batch: list[bytes] = []
    async for name in names:
        batch.append(name)
        if len(batch) == _BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


async def _entries(client: Any, keys: Sequence[Any]) -> AsyncIterator[tuple[Any, list[Any]]]:
    """What streams hold, a page of each in one round trip."""
    start = dict.fromkeys(keys, "-")
    while start:
        with faults("read streams"):
            found = await _each(client, [("XRANGE", key, at, "+", "COUNT", _PAGE) for key, at in start.items()])
        for key, entries in zip(list(start), found, strict=True):
            if len(entries) < _PAGE:
                del start[key]
            else:
                start[key] = "(" + entries[-1][0].decode()
            yield key, entries
