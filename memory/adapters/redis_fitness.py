"""What a Redis or Valkey is like: a URL in, a RedisFitness out, of a cluster one of every primary. Writes nothing.

Raises QueueUnavailable.

A server that keeps CONFIG to itself (managed ones do) leaves those fields None; where a user of its may not ask INFO
either, the version is (0, 0) and nothing else is known.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from redis.asyncio.cluster import ClusterNode
from redis.exceptions import NoPermissionError, ResponseError

from memory.adapters.redis_client import Client, connect, faults
from memory.adapters.redis_cluster import Cluster, at

_SECTIONS: Final = ("server", "replication", "memory", "persistence", "cluster")


@dataclass(frozen=True, slots=True)
class RedisFitness:
    """`version` as (9, 1); `replicas` are connected ones; `maxmemory` in bytes, 0 unlimited; `cluster`: it is a node of
    one; `address` of a node that was asked as such, "HOST:PORT".
    """

    name: str
    version: tuple[int, int]
    role: str
    replicas: int
    cluster: bool
    maxmemory: int
    maxmemory_policy: str
    appendonly: bool
    appendfsync: str | None
    last_write_ok: bool
    address: str = ""


async def redis_fitness(url: str) -> list[RedisFitness]:
    """Ask the server, or all primaries of the cluster."""
    client = connect(url, timeout_s=5.0, connections_max=2)
    try:
        with faults("asking Redis"):
            nodes = await client.primaries() if isinstance(client, Cluster) else [None]
            return [await _asked(client, node) for node in nodes]
    finally:
        await client.aclose()


async def _asked(client: Client, node: ClusterNode | None) -> RedisFitness:
    there = at(node)
    seen = _read(await _info(client, there), await _appendfsync(client, there))
    return seen if node is None else replace(seen, address=node.name)


async def _info(client: Client, there: Mapping[str, Any]) -> Mapping[str, Any]:
    # Section by section: a plain INFO leaves some out, and Redis 7 takes several while proxies before it may not.
    try:
        sections = [await client.info(name, **there) for name in _SECTIONS]
    except NoPermissionError:
        return {}
    return {name: value for section in sections for name, value in section.items()}


async def _appendfsync(client: Client, there: Mapping[str, Any]) -> str | None:
    try:
        return str((await client.config_get("appendfsync", **there))["appendfsync"])
    except (ResponseError, KeyError):
        return None


def _read(info: Mapping[str, Any], appendfsync: str | None) -> RedisFitness:
    version = str(info.get("valkey_version") or info.get("redis_version") or "0.0")
    major, minor = (int(part) for part in (*version.split("."), "0")[:2])
    return RedisFitness(
        name="Valkey" if info.get("valkey_version") else "Redis",
        version=(major, minor),
        role=str(info.get("role", "master")),
        replicas=int(info.get("connected_slaves", 0)),
        cluster=bool(info.get("cluster_enabled")),
        maxmemory=int(info.get("maxmemory", 0)),
        maxmemory_policy=str(info.get("maxmemory_policy", "")),
        appendonly=bool(info.get("aof_enabled")),
        appendfsync=appendfsync,
        last_write_ok=info.get("aof_last_write_status", "ok") == "ok",
    )
