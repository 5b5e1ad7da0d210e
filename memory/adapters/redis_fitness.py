"""What a Redis or Valkey is like: a URL in, a RedisFitness out. Writes nothing. Raises QueueUnavailable.

A server that keeps CONFIG to itself (managed ones do) leaves those fields None; where a user of its may not ask INFO
either, the version is (0, 0) and nothing else is known.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from redis.asyncio import Redis
from redis.exceptions import NoPermissionError, ResponseError

from memory.adapters.redis_client import Client, connect, faults


@dataclass(frozen=True, slots=True)
class RedisFitness:
    """`version` as (9, 1); `replicas` are connected ones; `maxmemory` in bytes, 0 unlimited."""

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


async def redis_fitness(url: str) -> RedisFitness:
    """Ask one server."""
    client = connect(url, timeout_s=5.0, connections_max=2)
    try:
        with faults("asking Redis"):
            info = await _info(client)
            return _read(info, await _appendfsync(client))
    finally:
        await client.aclose()


async def _info(client: Client) -> Mapping[str, Any]:
    # Section by section: a plain INFO leaves some out, and Redis 7 takes several while proxies before it may not.
    try:
        sections = [await client.info(name) for name in ("server", "replication", "memory", "persistence", "cluster")]
    except NoPermissionError:
        return {}
    return {name: value for section in sections for name, value in section.items()}


async def _appendfsync(client: Client) -> str | None:
    if not isinstance(client, Redis):
        return None
    try:
        return str((await client.config_get("appendfsync"))["appendfsync"])
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
