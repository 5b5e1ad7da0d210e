"""Whose queue a Redis database holds: a store's own id in, the id of the store that has it out.

Entries are sealed under a store's keys, so that another one could only bury them. Noted at the first start, for good.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final
from uuid import UUID

from redis.exceptions import RedisClusterException, ResponseError

from memory.adapters.redis_client import Client, connect, faults
from memory.adapters.redis_cluster import Cluster
from memory.errors import StartFailed

KEY: Final = "mp:owner"


async def owner_of(url: str, store: UUID) -> str:
    """Whose it is, from now on this store's where it was nobody's. Raises QueueUnavailable, and StartFailed where the
    address says of a cluster that it is none, or of a server that it is one.
    """
    client = connect(url, connections_max=2)
    try:
        with faults("ask whose queue it is"):
            await _as_addressed(client)
            await client.set(KEY, str(store), nx=True)
            owner = await client.get(KEY)
    finally:
        await client.aclose()
    return owner.decode("ascii", "replace") if isinstance(owner, bytes) else str(owner)


async def _as_addressed(client: Client) -> None:
    """Nothing mends by waiting what is said here, as what does not answer may."""
    if isinstance(client, Cluster):
        try:
            await client.initialize()
        except RedisClusterException as fault:
            if "not enabled" in str(fault):
                raise StartFailed("redis.url names no node of a cluster; remedy: redis:// or rediss://") from fault
            raise
        return
    with suppress(ResponseError):  # whoever is alone has no such command, or this user may not ask
        await client.execute_command("CLUSTER", "MYID")  # type: ignore[no-untyped-call]
        raise StartFailed(
            "redis.url names a node of a cluster, which refuses what lies on others; remedy: "
            "redis+cluster://HOST:PORT, or rediss+cluster:// over TLS"
        )
