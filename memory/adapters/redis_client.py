"""Connections to Redis or Valkey: a URL in, a client out; and the one place where its exceptions are translated.

Refuses to retry by itself: what failed is said at once, and the caller has a spool, a pause or a slower path.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, cast
from urllib.parse import urlsplit, urlunsplit

from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.cluster import ClusterNode
from redis.asyncio.connection import SSLConnection, parse_url
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import ReadOnlyError, RedisClusterException, RedisError

from memory.adapters.redis_cluster import Cluster
from memory.errors import ConfigInvalid, QueueUnavailable

Client = Redis | Cluster
_REASON_CHARS_MAX = 120
NODE_CONNECTIONS_MAX: Final = 1024
_CLUSTER: Final = "+cluster"
_PORT: Final = 6379
_REPLIES = frozenset(
    ("decode_responses", "encoding", "encoding_errors", "legacy_responses", "protocol", "retry_on_error")
)
"""Options that say what a reply looks like. One in the URL goes before ours."""


class _Tls(SSLConnection):
    """Reads its certificate files for each connection, not once in its life: they are renewed while a service runs, and
    a client's may be good for a day.
    """

    def _connection_arguments(self) -> Mapping[str, Any]:
        self.ssl_context.context = None
        arguments: Mapping[str, Any] = super()._connection_arguments()
        return arguments


def connect(url: str, *, timeout_s: float = 5.0, connections_max: int = 64) -> Client:
    """A client with a pool of its own; nothing is sent yet.

    `url` begins with redis://, rediss:// or unix://, or names nodes of a cluster (see `is_cluster`). `timeout_s` bounds
    one answer and one connection attempt, and must exceed the longest `block_ms` of a take by a second. RESP2, so that
    replies have one shape on every server. What a primary of before refuses, since it is a replica now, costs its
    connection: the address may lead elsewhere. More at once than `connections_max` wait for one of them, so long at
    most; a cluster's client cannot wait, and has NODE_CONNECTIONS_MAX to each node. Raises ConfigInvalid where the URL
    has an option that there is not, a value that is none, or one that nothing here could be read with.
    """
    options: dict[str, Any] = {
        "protocol": 2,
        "socket_timeout": timeout_s,
        "socket_connect_timeout": timeout_s,
        "max_connections": connections_max,
        "retry": Retry(NoBackoff(), 0),
    }
    try:
        if is_cluster(url):
            return _cluster(url, options)
        _refuse_ours(url, options)
        options["retry_on_error"] = [ReadOnlyError]  # no retry is left: closed, and raised
        pool = BlockingConnectionPool.from_url(url, timeout=timeout_s, **options)
        if issubclass(pool.connection_class, SSLConnection):
            pool.connection_class = _Tls
        pool.make_connection()  # type: ignore[no-untyped-call]  # it looks at options by name
    except (RedisError, RedisClusterException) as exc:
        raise ConfigInvalid(f"redis.url or redis.cache_url cannot be used: {exc}") from None
    except TypeError as exc:  # its words are those of a call
        option = str(exc).partition("'")[2].rstrip("'") or "has a value of the wrong kind"
        raise ConfigInvalid(f"redis.url or redis.cache_url cannot be used, for its option {option}") from None
    except ValueError:  # its words may be a part of the password
        raise ConfigInvalid(
            "redis.url or redis.cache_url cannot be used, for its port or the value of an option"
        ) from None
    return Redis.from_pool(pool)


def is_cluster(url: str) -> bool:
    """Whether it names nodes of a cluster: redis+cluster://HOST:PORT,HOST:PORT, or rediss+cluster:// over TLS. One is
    enough to learn of all others; any of several will do, where one is away as a process begins.
    """
    return url.partition("://")[0].endswith(_CLUSTER)


def _cluster(url: str, options: dict[str, Any]) -> Cluster:
    parts = urlsplit(url)
    user, at, hosts = parts.netloc.rpartition("@")
    alone = [
        urlunsplit(parts._replace(scheme=parts.scheme.removesuffix(_CLUSTER), netloc=f"{user}{at}{host}"))
        for host in hosts.split(",")
    ]
    _refuse_ours(alone[0], options)
    seeds = [ClusterNode(said.get("host", "localhost"), said.get("port", _PORT)) for said in map(parse_url, alone)]
    options["max_connections"] = NODE_CONNECTIONS_MAX
    cluster = cast(Cluster, Cluster.from_url(alone[0], startup_nodes=seeds[1:], **options))
    if cluster.connection_kwargs["connection_class"] is SSLConnection:
        cluster.connect_by(_Tls)
    return cluster


def _refuse_ours(url: str, options: Mapping[str, Any]) -> None:
    said: Mapping[str, Any] = parse_url(url)
    for name in sorted(_REPLIES & said.keys()):
        if said[name] != options.get(name):
            raise ConfigInvalid(f"redis.url or redis.cache_url cannot be used: its option {name} is not to be chosen")
    if said.get("socket_timeout", options["socket_timeout"]) < options["socket_timeout"]:
        least_s = options["socket_timeout"]
        raise ConfigInvalid(f"redis.url or redis.cache_url cannot be used: its socket_timeout is below {least_s:g} s")


async def leave_replica(client: Client, replies: Iterable[Any]) -> None:
    """Close the connections at rest where one of these replies says that a replica was asked."""
    if isinstance(client, Redis) and any(isinstance(reply, ReadOnlyError) for reply in replies):
        await client.connection_pool.disconnect(inuse_connections=False)


async def heard_on(client: Any, channel: str, silence_s: float) -> AsyncGenerator[Mapping[str, Any] | None, None]:
    """What comes on a channel, that it is subscribed too; None after so much silence.

    Raises what the client raises, and TimeoutError where a ping is not answered within as long again: the connection
    is half open, and nothing would come.
    """
    if isinstance(client, Cluster):
        await client.initialize()
    try:
        async with client.pubsub() as listening:
            await listening.subscribe(channel)
            asked = False
            while True:
                heard = await listening.get_message(timeout=silence_s)
                if heard is None:
                    if asked:
                        raise TimeoutError
                    await listening.ping()
                asked = heard is None
                yield heard
    except (RedisError, OSError):
        if isinstance(client, Cluster):
            client.look_again()
        raise


@contextmanager
def faults(doing: str) -> Iterator[None]:
    """Translate whatever the client, the socket or a time-out raises into QueueUnavailable. Never quotes a value.

    Raises CancelledError where the client has lost one: redis-py sends by `asyncio.wait_for`, and that of Python 3.11
    takes what was sent at that moment for the outcome. Who is told to end once would go on for ever.
    """
    task = asyncio.current_task()
    cancelled = task.cancelling() if task is not None else 0
    fault: Exception | None = None
    try:
        yield
    except (RedisError, RedisClusterException, OSError, TimeoutError) as exc:
        fault = exc
    if task is not None and task.cancelling() > cancelled:
        raise asyncio.CancelledError from fault
    if fault is not None:
        raise refused(doing, fault) from fault


def refused(doing: str, reply: Exception) -> QueueUnavailable:
    """A foreign fault, or what the server said to a command, as ours. Never quotes a value."""
    silent = "no answer in time" if isinstance(reply, TimeoutError) else ""
    said = str(reply)[:_REASON_CHARS_MAX] or silent
    return QueueUnavailable(": ".join(part for part in (doing, type(reply).__name__, said) if part))
