"""The durable queue over Streams: entries in, deliveries out, in order within a lane.

    mp:q:{live-03}        the lane's stream: x exchange, t tenant, s subject (16 raw bytes each), k kind, e envelope
    mp:q:{live-03}:dead   its dead letters: the same fields, r reason, a attempts
    mp:q:lanes            every lane that ever took an entry, so that fewer lanes in the configuration hide none
    mp:q:trouble          why a worker could store nothing a moment ago; goes by itself

One lane is one hash tag, so a cluster shards by lane and every transaction stays inside one slot. Who may read a lane
is decided by its lease, not here: there is one consumer name. Entries leave by XACK + XDEL, never by length. Refuses,
with QueueUnavailable, an entry over 48 MiB and whatever the server refuses; says nothing of an entry's content.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal
from uuid import UUID

from redis.exceptions import ResponseError

from memory.adapters import redis_scripts
from memory.adapters.group_commit import GroupCommit
from memory.adapters.redis_client import connect, faults, refused
from memory.adapters.redis_cluster import Cluster
from memory.adapters.redis_line import Asks, Command, Pooled, line_to
from memory.errors import MemoryProxyFault, QueueUnavailable
from memory.ports import Delivery, Entry, QueueDepth

ENTRY_BYTES_MAX: Final = 48 << 20
LANES: Final = 64
TENANT_LANES_MIN: Final = 8  # of so many, or of all: two workers with four hands each find something to do
LaneClass = Literal["live", "bulk"]
Durability = Literal["fsync", "process", "none", "unknown"]
Promised = Literal["fsync", "process", "replicated"]

_ASKED: Final = ("append*", "maxmemory*")
_WEAKEST_LAST: Final[tuple[Durability, ...]] = ("fsync", "process", "none", "unknown")
_GROUP: Final = b"mp"
_CONSUMER: Final = b"lane"
_ENTRY_ID: Final = re.compile(r"[0-9]{1,19}-[0-9]{1,19}", re.ASCII)
_LANES_KEY: Final = "mp:q:lanes"
_TROUBLE_KEY: Final = "mp:q:trouble"
TROUBLE_S: Final = 15  # a worker tries again every 5 s at least
_CLASSES: Final[tuple[LaneClass, ...]] = ("live", "bulk")
_FLUSH_ITEMS_MAX: Final = 128
_ALONE_BYTES: Final = 256 << 10  # larger entries take a connection of their own, so that small ones need not wait
_POLL_FIRST_S: Final = 0.02  # of a cluster
_POLL_MAX_S: Final = 0.16
_DEAD_AT_ONCE: Final = 16  # of a lane; 300 letters of 1 MB at once: 2.4 s, and 570 MB in the server
_PING_S: Final = 1.5  # for the replicas to answer; a probe of readiness waits half a second longer
_BLOCK_MS_MAX: Final = 4000  # a second less than the client waits for an answer


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """An entry that was given up: where it lies and why. `dead_id` is `<lane>/<stream id>`."""

    dead_id: str
    exchange_id: UUID
    tenant_id: UUID
    reason: str
    attempts: int


def lane_names(lanes: int) -> tuple[str, ...]:
    """All lanes of both classes, live first."""
    return tuple(f"{lane_class}-{number:02d}" for lane_class in _CLASSES for number in range(lanes))


def lane_of(tenant_id: UUID, subject_id: UUID, lane_class: str, *, lanes: int = LANES) -> str:
    """The lane of a subject: the same on every machine and in every release, so that order is kept.

    One of the few of its tenant (shuffle sharding), which another tenant shares a quarter of as a rule: however many
    users of the one fill theirs, most of the other's stand in lanes where nobody waits.
    """
    of_tenant = min(lanes, max(TENANT_LANES_MIN, lanes // 4))
    place = _hashed(tenant_id.bytes + subject_id.bytes) % of_tenant
    return f"{lane_class}-{_hashed(tenant_id.bytes + place.to_bytes(2, 'big')) % lanes:02d}"


def _hashed(value: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(value, digest_size=8, person=b"mp-lane").digest(), "big")


class RedisQueue:
    """ports.Queue over Redis 7+ or Valkey 8+, alone or as a cluster.

    `durability` is what `put` waits for: with `replicated` also `WAITAOF 1 <replicas>` within `put_timeout_s`. The pool
    gives every blocking take a connection of its own, so that puts never wait behind it. Nothing is sent before use.
    """

    def __init__(
        self,
        url: str,
        *,
        lanes: int = LANES,
        durability: Promised = "fsync",
        replicas: int = 1,
        put_timeout_s: float = 5.0,
    ) -> None:
        self._client = connect(url)
        self._pooled = Pooled(self._client)
        self._line = line_to(url, self._client)
        self._lanes = lanes
        self._durability = durability
        self._replicas = replicas if durability == "replicated" else 0
        self._put_timeout_s = put_timeout_s
        self._puts: GroupCommit[Entry] = GroupCommit(self._flush, items_max=_FLUSH_ITEMS_MAX)

    async def close(self) -> None:
        """Finish the puts on their way and close the client."""
        await self._puts.settled()
        await self._line.close()
        await self._client.aclose()

    async def prepare(self, read: Sequence[str] = ()) -> tuple[str, ...]:
        """Create what readers need and return every lane to be read, those of an earlier configuration included, and
        what is `read` already: a server that has lost its data names none of these. Where nothing is missing nothing is
        created: a full server refuses even that, and what waits in it must get out.
        """
        with faults("prepare lanes"):
            names = tuple(dict.fromkeys((*lane_names(self._lanes), *read)))
            known = {raw.decode() for raw in await self._client.execute_command("SMEMBERS", _LANES_KEY)}
            if unnamed := [lane for lane in names if lane not in known]:
                await self._client.execute_command("SADD", _LANES_KEY, *unnamed)
            lanes = (*names, *sorted(known.difference(names)))
            held = await self._each("XPENDING", lanes)
            _raise_but("NOGROUP", held)
            missing = [lane for lane, reply in zip(lanes, held, strict=True) if isinstance(reply, Exception)]
            _raise_but("BUSYGROUP", await self._each("XGROUP CREATE", missing, "0", "MKSTREAM"))
        return lanes

    async def _each(self, command: str, lanes: Sequence[str], *behind: str) -> list[Any]:
        """What this command says of the group of each of these lanes, an exception where it is refused."""
        pipe = self._client.pipeline(transaction=False)
        for lane in lanes:
            pipe.execute_command(*command.split(), _key(lane), _GROUP, *behind)
        return await pipe.execute(raise_on_error=False) if lanes else []

    async def ping(self) -> None:
        """Return when the server answers. Raises QueueUnavailable."""
        with faults("ping"):
            await self._client.execute_command("PING")

    async def ping_for_writes(self) -> None:
        """Return when the server takes entries, as durably as is promised: a full one, a replica, one that cannot save
        and one without its replicas answer to a `ping`. Changes nothing. Raises QueueUnavailable.
        """
        doing = "ping for writes"
        for reply, unsafe in await self._asked(self._pooled, doing, await self._changing_nothing(), _PING_S, _PING_S):
            if isinstance(reply, Exception) and not str(reply).startswith("BUSYGROUP"):
                raise refused(doing, reply) from reply
            if unsafe:
                raise QueueUnavailable(f"{doing}: {unsafe}")

    async def _changing_nothing(self) -> list[tuple[str, Command]]:
        """What the server takes only where it takes entries; of a cluster every primary that has a lane of ours."""
        names = lane_names(self._lanes)
        if not isinstance(self._client, Cluster):
            return [(_LANES_KEY, ("SADD", _LANES_KEY, names[0]))]
        with faults("ping for writes"):
            one_each = {(await self._client.node_of(_key(lane))).name: _key(lane) for lane in names}
        return [(key, ("XGROUP", "CREATE", key, _GROUP, "0", "MKSTREAM")) for key in one_each.values()]

    async def ping_as_promised(self) -> None:
        """`ping_for_writes` of a server that keeps what it takes as well as is promised, as far as it says. Raises
        QueueUnavailable.
        """
        await self.ping_for_writes()
        promised, gives = self._durability, await self.durability()
        if gives == "none":
            raise QueueUnavailable(f"queue.durability is {promised}: the server may evict entries (maxmemory-policy)")
        if promised == "fsync" and gives == "process":
            raise QueueUnavailable("queue.durability is fsync: the server lacks appendonly yes or appendfsync always")

    # ------------------------------------------------------------ writing

    async def put(self, entry: Entry) -> None:
        """Append one entry; concurrent puts share a round trip and an fsync. Raises QueueUnavailable."""
        if _size(entry) > _ALONE_BYTES:
            await self.put_all([entry])
        else:
            await self._puts.add(entry)

    async def put_all(self, entries: Sequence[Entry]) -> None:
        """Append several in this order, in one round trip; on QueueUnavailable some of them may be there."""
        for fault in await self._append(self._pooled, entries):
            if fault is not None:
                raise fault

    async def _flush(self, entries: Sequence[Entry]) -> list[MemoryProxyFault | None]:
        return await self._append(self._line, entries)

    async def _append(self, way: Asks, entries: Sequence[Entry]) -> list[MemoryProxyFault | None]:
        """XADD each; the result of each, or QueueUnavailable for all when the connection failed."""
        small = [entry for entry in entries if _size(entry) <= ENTRY_BYTES_MAX]
        lanes = [_key(self._lane(entry)) for entry in small]
        commands: list[Command] = [("XADD", key, "*", *_fields(entry)) for key, entry in zip(lanes, small, strict=True)]
        # The server reads 16 KiB of a connection at a time and fsyncs after each: 64 entries of 4 kB cost it 16 fsyncs
        # (72 ms), as one transaction one. A cluster has no transaction over slots, WAITAOF none inside.
        if len(small) > 1 and not isinstance(self._client, Cluster) and not self._replicas:
            as_one: list[Command] = [("MULTI",), *commands, ("EXEC",)]
            replies = _executed(await way.ask("put", as_one, self._put_timeout_s))
            added: list[tuple[Any, str | None]] = [(reply, None) for reply in replies]
        else:
            asked = list(zip(lanes, commands, strict=True))
            added = await self._asked(way, "put", asked, self._put_timeout_s, bool(self._replicas)) if asked else []
        left = iter(added)
        return [_verdict(entry, left) for entry in entries]

    async def _asked(
        self, way: Asks, doing: str, asked: Sequence[tuple[str, Command]], within_s: float, more_s: float
    ) -> list[tuple[Any, str | None]]:
        """The reply of each (key, command), and why it is not on replicas as promised, or None. The replicas have
        `within_s` to say so, and all of it `more_s` besides.
        """
        commands = [command for _, command in asked]
        if not self._replicas:
            return [(reply, None) for reply in await way.ask(doing, commands, within_s + more_s)]
        waiting: Command = ("WAITAOF", 1, self._replicas, int(within_s * 1000))
        if isinstance(self._client, Cluster):
            with faults(doing):
                async with asyncio.timeout(within_s + more_s):
                    replies = await self._client.ask_each(asked, waiting)
            return [(reply, self._not_replicated(behind)) for reply, behind in replies]
        *said, behind = await way.ask(doing, [*commands, waiting], within_s + more_s)
        return [(reply, self._not_replicated(behind)) for reply in said]

    def _not_replicated(self, reply: Any) -> str | None:
        """Why the reply of WAITAOF is no promise, or None."""
        if isinstance(reply, Exception):
            return f"WAITAOF: {reply}"
        local, copies = reply
        return None if local >= 1 and copies >= self._replicas else f"fsynced here {local}, on replicas {copies}"

    def _lane(self, entry: Entry) -> str:
        return lane_of(entry.tenant_id, entry.subject_id, entry.lane_class, lanes=self._lanes)

    # ------------------------------------------------------------ reading

    async def take(self, lanes: Sequence[str], *, count: int, block_ms: int) -> list[Delivery]:
        """The next entries, at most `count` of each lane. `block_ms` 0 does not wait.

        After a fault entries may have been delivered to nobody: reclaim the lanes before the next take.
        """
        if not lanes:
            return []
        try:
            return await self._take(lanes, count, block_ms)
        except QueueUnavailable as exc:
            if not (isinstance(exc.__cause__, ResponseError) and str(exc.__cause__).startswith("NOGROUP")):
                raise
        await self.prepare(lanes)
        return await self._take(lanes, count, block_ms)

    async def _take(self, lanes: Sequence[str], count: int, block_ms: int) -> list[Delivery]:
        with faults("take"):
            if isinstance(self._client, Cluster):
                return await self._poll(self._client, lanes, count, block_ms / 1000)
            reading = _reading(lanes, count, block_ms)
            return _deliveries(await self._client.execute_command(*reading))  # type: ignore[no-untyped-call]

    async def _poll(self, cluster: Cluster, lanes: Sequence[str], count: int, wait_s: float) -> list[Delivery]:
        """A cluster answers for one slot at a time, so waiting is polling, less and less often."""
        loop, pause_s = asyncio.get_running_loop(), _POLL_FIRST_S
        deadline = loop.time() + wait_s
        while True:
            pipe: Any = cluster.pipeline()
            for lane in lanes:  # redis-py would ask a server for the keys of each of these
                pipe.execute_command(*_reading([lane], count, 0), target_nodes=await cluster.node_of(_key(lane)))
            found = [delivery for reply in await pipe.execute() for delivery in _deliveries(reply)]
            left_s = deadline - loop.time()
            if found or left_s <= 0:
                return found
            await asyncio.sleep(min(pause_s, left_s))
            pause_s = min(2 * pause_s, _POLL_MAX_S)

    async def unfinished(self, lanes: Sequence[str]) -> set[str]:
        """Those of these lanes from which something was taken that is not finished, in one round trip. A lane that was
        never prepared, or went with the server's data, has nothing.
        """
        with faults("look for unfinished entries"):
            pipe = self._client.pipeline(transaction=False)
            groups = self._by_question(lanes)
            for some in groups:
                pipe.execute_command("EVAL", redis_scripts.HELD, len(some), *map(_key, some), _GROUP)
            replies = await pipe.execute(raise_on_error=False) if groups else []
            for reply in replies:
                if isinstance(reply, Exception):  # in the server's words: redis-py would put the script before them
                    raise reply
        return {some[place - 1] for some, places in zip(groups, replies, strict=True) for place in places}

    def _by_question(self, lanes: Sequence[str]) -> list[Sequence[str]]:
        """Lanes that one script may look at: all of them, where the server is no cluster."""
        return [[lane] for lane in lanes] if isinstance(self._client, Cluster) else [lanes] if lanes else []

    async def reclaim(self, lane: str, *, count: int) -> list[Delivery]:
        """What was taken and not finished, oldest first; the caller holds the lane's lease.

        Only the first is charged with another attempt: a lane stands still because of its head, and the entries
        that merely were in hand when a worker died are not to blame.
        """
        with faults("reclaim"):
            held: list[Any] = await self._client.xpending_range(_key(lane), _GROUP, "-", "+", count)
            pipe = self._client.pipeline(transaction=False)
            tried: dict[bytes, int] = {}
            for row in held:
                tried[row["message_id"]] = row["times_delivered"] + (not tried)
            for entry_id, attempts in tried.items():
                pipe.execute_command(*("XCLAIM", _key(lane), _GROUP, _CONSUMER, 0, entry_id, "RETRYCOUNT", attempts))
            replies = await pipe.execute() if tried else []
        found = [entry for reply in replies for entry in reply if entry[1]]
        return [_delivery(lane, entry_id, fields, max(1, tried[entry_id])) for entry_id, fields in found]

    async def give_back(self, delivery: Delivery) -> None:
        """Leave it pending and uncount this attempt: the fault was not the entry's. Raises QueueUnavailable."""
        with faults("give back"):
            await self._client.execute_command(
                *("XCLAIM", _key(delivery.lane), _GROUP, _CONSUMER, 0, delivery.delivery_id),
                *("RETRYCOUNT", max(0, delivery.attempts - 1), "JUSTID"),
                parse_justid=True,
            )

    async def done(self, delivery: Delivery) -> None:
        """Acknowledge and delete, in one transaction; again is harmless. Raises QueueUnavailable."""
        await self.done_all([delivery])

    async def done_all(self, deliveries: Sequence[Delivery]) -> None:
        """`done` for several entries, one step for each lane among them. Raises QueueUnavailable."""
        for lane in dict.fromkeys(delivery.lane for delivery in deliveries):
            ids = [delivery.delivery_id for delivery in deliveries if delivery.lane == lane]
            with faults("done"):
                await self._client.execute_command("EVAL", redis_scripts.DONE, 1, _key(lane), _GROUP, *ids)

    async def tell_trouble(self, text: str) -> None:
        """What keeps entries from being stored, for whoever asks within TROUBLE_S. Raises QueueUnavailable."""
        with faults("tell of trouble"):
            await self._client.execute_command("SET", _TROUBLE_KEY, text, "EX", TROUBLE_S)

    async def trouble(self) -> str | None:
        """What a worker told of last; None: nothing lately. Raises QueueUnavailable."""
        with faults("ask for trouble"):
            told = await self._client.execute_command("GET", _TROUBLE_KEY)
        return None if told is None else str(told, "utf-8", "replace")

    # ------------------------------------------------------------ dead letters and counts

    async def bury(self, delivery: Delivery, reason: str) -> None:
        """Move to the lane's dead letters, sealed as it is; a second call moves nothing. Raises QueueUnavailable."""
        key = _key(delivery.lane)
        with faults("bury"):
            await self._client.execute_command(
                *("EVAL", redis_scripts.MOVE, 2, key, _dead_key(delivery.lane), _GROUP, delivery.delivery_id),
                *("r", reason, "a", delivery.attempts),
            )

    async def dead_letters(self, limit: int, tenant: UUID | None = None, behind: str | None = None) -> list[DeadLetter]:
        """The newest `limit` dead letters of all lanes, or of a tenant, newest first; those behind the one of this id,
        be it gone. Raises QueueUnavailable.

        Some at a time: a script is given all of an entry, and the server does nothing else meanwhile.
        """
        most = min(limit, _DEAD_AT_ONCE)
        rows: list[tuple[str, Any]] = []
        with faults("list dead letters"):
            before = {lane: _from(lane, behind) for lane in await self._known_lanes()}
            while before:
                pipe = self._client.pipeline(transaction=False)
                for lane, last in before.items():
                    pipe.execute_command("EVAL", redis_scripts.DEAD, 1, _dead_key(lane), most, last, "-")
                for lane, reply in zip(list(before), await pipe.execute(), strict=True):
                    rows += [(lane, row) for row in reply if tenant in (None, _uuid(row[2]))]
                    if len(reply) < most or sum(one == lane for one, _ in rows) >= limit:
                        del before[lane]
                    else:
                        before[lane] = b"(" + reply[-1][0]
        rows.sort(key=lambda found: (_id_order(found[1][0]), found[0]), reverse=True)
        return [_dead_letter(lane, row) for lane, row in rows[:limit]]

    async def dead_letter(self, dead_id: str) -> DeadLetter | None:
        """One of them. Raises QueueUnavailable."""
        lane, _, entry_id = dead_id.partition("/")
        if _ENTRY_ID.fullmatch(entry_id) is None or lane not in await self._known_lanes():
            return None
        with faults("read dead letter"):
            found = await self._client.execute_command(
                "EVAL", redis_scripts.DEAD, 1, _dead_key(lane), 1, entry_id, entry_id
            )
        return _dead_letter(lane, found[0]) if found else None

    async def replay_dead(self, dead_id: str) -> bool:
        """Put a dead letter back at the end of its lane, its attempts forgotten. False when there is none."""
        lane, _, entry_id = dead_id.partition("/")
        if not entry_id or lane not in await self._known_lanes():
            return False
        with faults("replay dead letter"):
            moved = await self._client.execute_command(
                "EVAL", redis_scripts.MOVE, 2, _dead_key(lane), _key(lane), _GROUP, entry_id
            )
        return moved is not None

    async def depth(self) -> QueueDepth:
        """Counts over all lanes, in one round trip. Deferred work is not the queue's: `background` is 0."""
        lanes = await self._known_lanes()
        with faults("depth"):
            pipe = self._client.pipeline(transaction=False)
            for some in self._by_question(lanes):
                keys = [key for lane in some for key in (_key(lane), _dead_key(lane))]
                pipe.execute_command("EVAL", redis_scripts.STAT, len(keys), *keys, _GROUP)
            stats = [row for rows in await pipe.execute() for row in rows]
        in_flight = sum(held for _, held, _, _ in stats)
        return QueueDepth(
            pending=sum(length for length, _, _, _ in stats) - in_flight,
            in_flight=in_flight,
            background=0,
            dead=sum(dead for _, _, _, dead in stats),
            oldest_seconds=max(0, *(age for _, _, age, _ in stats)) / 1000,
        )

    async def durability(self) -> Durability:
        """What this server gives: `fsync` an acknowledged entry survives kill -9 and power loss of the server,
        `process` it survives ours only, `none` it may be evicted, `unknown` the server does not say.
        """
        with faults("inspect the server"):
            try:
                if not isinstance(self._client, Cluster):
                    return _promise(await self._client.config_get(*_ASKED))
                reply: Any = await self._client.config_get(*_ASKED, target_nodes="primaries")
            except ResponseError:  # CONFIG is forbidden or renamed on managed servers
                return "unknown"
        nodes = [each for each in reply.values() if isinstance(each, dict)] or [reply]  # one node answers for itself
        return max((_promise(settings) for settings in nodes), key=_WEAKEST_LAST.index, default="unknown")

    async def _known_lanes(self) -> tuple[str, ...]:
        with faults("list lanes"):
            known = {raw.decode() for raw in await self._client.execute_command("SMEMBERS", _LANES_KEY)}
        names = lane_names(self._lanes)
        return (*names, *sorted(known.difference(names)))


# ---------------------------------------------------------------- entries and fields


def _raise_but(expected: str, replies: Iterable[Any]) -> None:
    """Raise the first refusal among the replies that does not begin with `expected`."""
    for reply in replies:
        if isinstance(reply, Exception) and not str(reply).startswith(expected):
            raise reply


def _key(lane: str) -> str:
    return f"mp:q:{{{lane}}}"


def _dead_key(lane: str) -> str:
    return f"mp:q:{{{lane}}}:dead"


def _size(entry: Entry) -> int:
    return len(entry.envelope)


def _fields(entry: Entry) -> tuple[str | bytes, ...]:
    ids = ("x", entry.exchange_id.bytes, "t", entry.tenant_id.bytes, "s", entry.subject_id.bytes)
    return (*ids, "k", entry.kind, "e", entry.envelope)


def _promise(config: Any) -> Durability:
    """What one server's settings promise."""
    settings = {_text(name): _text(value) for name, value in _pairs(config)}
    if settings.get("maxmemory-policy", "").startswith("allkeys") and settings.get("maxmemory", "0") != "0":
        return "none"
    return "fsync" if settings.get("appendonly") == "yes" and settings.get("appendfsync") == "always" else "process"


def _executed(replies: Sequence[Any]) -> list[Any]:
    """The replies inside a transaction. Raises QueueUnavailable where the server did none of it, with its reason."""
    for reply in replies:
        if isinstance(reply, Exception):
            raise refused("put", reply) from reply
    return list(replies[-1])


def _verdict(entry: Entry, added: Iterator[tuple[Any, str | None]]) -> MemoryProxyFault | None:
    """The fault of one entry of a flush, or None. `added` yields what was said of those that were sent: the reply, and
    why that is no promise.
    """
    if _size(entry) > ENTRY_BYTES_MAX:
        return QueueUnavailable(f"put: the entry has {_size(entry)} bytes, more than {ENTRY_BYTES_MAX}")
    reply, unsafe = next(added)
    if isinstance(reply, Exception):
        return refused("put", reply)
    return QueueUnavailable(f"put: {unsafe}") if unsafe else None


def _reading(lanes: Sequence[str], count: int, block_ms: int) -> Command:
    """What takes the next entries of lanes."""
    wait = ("BLOCK", min(block_ms, _BLOCK_MS_MAX)) if block_ms > 0 else ()
    keys = [_key(lane) for lane in lanes]
    return ("XREADGROUP", "GROUP", _GROUP, _CONSUMER, "COUNT", count, *wait, "STREAMS", *keys, *[">"] * len(keys))


def _deliveries(reply: Any) -> list[Delivery]:
    """Read the reply of XREADGROUP; entries that were never delivered before have one attempt."""
    return [
        _delivery(_text(key).partition("{")[2].partition("}")[0], entry_id, fields, 1)
        for key, entries in _pairs(reply or [])
        for entry_id, fields in entries
    ]


def _delivery(lane: str, entry_id: bytes, fields: dict[bytes, bytes], attempts: int) -> Delivery:
    """What another hand put there has nil ids and no envelope that opens: it is buried, and the lane goes on."""
    entry = Entry(
        exchange_id=_uuid(fields.get(b"x")),
        tenant_id=_uuid(fields.get(b"t")),
        subject_id=_uuid(fields.get(b"s")),
        kind=fields.get(b"k", b"exchange").decode("utf-8", "replace"),
        lane_class=lane.partition("-")[0],
        envelope=fields.get(b"e", b""),
    )
    return Delivery(entry=entry, lane=lane, delivery_id=entry_id.decode(), attempts=attempts)


def _from(lane: str, behind: str | None) -> bytes:
    """Where a lane is read backwards from to go on behind a dead letter of any lane; of two of one moment the one of
    the later lane is first."""
    if behind is None:
        return b"+"
    its_lane, _, entry_id = behind.partition("/")
    return (b"" if lane < its_lane else b"(") + entry_id.encode()


def _dead_letter(lane: str, row: Any) -> DeadLetter:
    entry_id, exchange, tenant, reason, attempts = row
    return DeadLetter(
        dead_id=f"{lane}/{entry_id.decode()}",
        exchange_id=_uuid(exchange),
        tenant_id=_uuid(tenant),
        reason=reason.decode("utf-8", "replace"),
        attempts=int(attempts),
    )


def _uuid(raw: bytes | None) -> UUID:
    return UUID(bytes=raw) if raw is not None and len(raw) == 16 else UUID(int=0)


def _id_order(entry_id: bytes) -> tuple[int, int]:
    millis, _, sequence = entry_id.partition(b"-")
    return int(millis), int(sequence)


def _text(raw: bytes | str) -> str:
    return raw.decode() if isinstance(raw, bytes) else raw


def _pairs(reply: Any) -> Iterable[tuple[Any, Any]]:
    """Pairs from a mapping, from [[a, b], ...], or from a flat [a, b, ...]: clients differ."""
    if isinstance(reply, dict):
        return reply.items()
    if reply and isinstance(reply[0], list | tuple):
        return [(pair[0], pair[1]) for pair in reply]
    return list(zip(reply[::2], reply[1::2], strict=True))
