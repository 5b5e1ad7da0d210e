"""Secrets of keys that hold no more: told by who ends one, asked for by a process that cannot read the table of keys.

    mp:k:ended   by "key id:prefix of the secret" when it ends, seconds since 1970 by the server's clock

Ids and prefixes, for as long as a process may go on with the keys that it knows; what is older goes when the next is
told. In the queue's server: one that may evict would forget that a key was revoked. Raises QueueUnavailable past
`timeout_s`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import datetime
from typing import Final
from uuid import UUID

from memory.adapters.redis_client import connect, faults
from memory.errors import QueueUnavailable
from memory.key_table import Secret

_KEY: Final = "mp:k:ended"
_KEPT_S: Final = 8 * 86_400  # auth.stale_max_s is a week at most

# KEYS ended; ARGV how long, then of each secret in how many seconds it ends and what it is called.
_TELL: Final = """
local now = tonumber(redis.call('TIME')[1])
for at = 2, #ARGV, 2 do redis.call('ZADD', KEYS[1], now + tonumber(ARGV[at]), ARGV[at + 1]) end
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - tonumber(ARGV[1]))
return 1
"""
_KNOWN: Final = "return redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', redis.call('TIME')[1])"


class RedisEnded:
    """The secrets that were ended, in the server that all processes share."""

    def __init__(self, url: str, *, timeout_s: float) -> None:
        self._client = connect(url)
        self._timeout_s = timeout_s

    async def close(self) -> None:
        """Close the client."""
        await self._client.aclose()

    async def tell(self, ends: Mapping[Secret, datetime], now: datetime) -> None:
        """These hold no more from then on; `now` is by the same clock."""
        told: list[str | int] = []
        for secret, at in ends.items():
            told += [max(0, int((at - now).total_seconds())), f"{secret.key_id.hex}:{secret.prefix}"]
        with faults("tell of ended keys"):
            async with asyncio.timeout(self._timeout_s):
                await self._client.execute_command("EVAL", _TELL, 1, _KEY, _KEPT_S, *told)

    async def known(self) -> frozenset[Secret]:
        """Those that hold no more by now."""
        with faults("ask for ended keys"):
            async with asyncio.timeout(self._timeout_s):
                found = await self._client.execute_command("EVAL", _KNOWN, 1, _KEY)
        try:
            return frozenset(map(_secret, found))
        except ValueError as exc:
            raise QueueUnavailable(f"{_KEY} holds what names no key") from exc


def _secret(member: bytes) -> Secret:
    key_id, _, prefix = member.decode().partition(":")
    return Secret(UUID(key_id), prefix)
