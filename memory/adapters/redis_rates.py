"""What keys have used, counted for all processes together: one more request in, the counts it was judged by out.

    mp:k:{key id}:r:<minute>   requests admitted in a minute since 1970
    mp:k:{key id}:t:<day>      tokens used on a UTC day
    mp:k:{key id}:t:<day>:<teller>   as many of them as one that counts has told

Ids and counts; every key has a time to live. One round trip a request, and a request that is refused is not counted, so
that asking again does not put off the moment when it is let in. Raises QueueUnavailable past `timeout_ms`.
"""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Final
from uuid import UUID

from memory.adapters.redis_client import connect, faults
from policies.key_limits import KeyLimits
from policies.rate import WINDOW_S, Used, share_left

_MINUTES_TTL_S: Final = 150
_DAYS_TTL_S: Final = 2 * 86_400
_NO_LIMIT: Final = -1

# KEYS this minute, last minute, day; ARGV share of the last minute, requests a minute, tokens a day (-1: no limit),
# time to live.
_TAKE: Final = """
local current = tonumber(redis.call('GET', KEYS[1]) or '0')
local previous = tonumber(redis.call('GET', KEYS[2]) or '0')
local tokens = tonumber(redis.call('GET', KEYS[3]) or '0')
local per_minute, per_day = tonumber(ARGV[2]), tonumber(ARGV[3])
if per_day >= 0 and tokens >= per_day then return {0, previous, current, tokens} end
if per_minute >= 0 then
  if previous * tonumber(ARGV[1]) + current + 1 > per_minute then return {0, previous, current, tokens} end
  redis.call('INCR', KEYS[1])
  redis.call('EXPIRE', KEYS[1], ARGV[4])
end
return {1, previous, current, tokens}
"""

# KEYS day, what the teller has told; ARGV what it knows of, time to live. It tells its sum: one that is told twice, or
# again since no answer came, counts once.
_SPEND: Final = """
local more = tonumber(ARGV[1]) - tonumber(redis.call('GET', KEYS[2]) or '0')
if more <= 0 then return 0 end
redis.call('INCRBY', KEYS[1], more)
redis.call('EXPIRE', KEYS[1], ARGV[2])
redis.call('SET', KEYS[2], ARGV[1], 'EX', ARGV[2])
return more
"""


class RedisRates:
    """The counts of one process's keys in the server that all share."""

    def __init__(self, url: str, *, timeout_ms: float) -> None:
        self._client = connect(url)
        self._timeout_s = timeout_ms / 1000

    async def close(self) -> None:
        """Close the client."""
        await self._client.aclose()

    async def take(self, key_id: UUID, now: datetime, limits: KeyLimits) -> Used:
        """Count one more request where it fits; what it was judged by."""
        minute, elapsed_s = divmod(now.timestamp(), WINDOW_S)
        keys = (_minute(key_id, int(minute)), _minute(key_id, int(minute) - 1), _day(key_id, now))
        asked = (limits.requests_per_minute, limits.tokens_per_day)
        told = (share_left(elapsed_s), *(_NO_LIMIT if one is None else one for one in asked), _MINUTES_TTL_S)
        with faults("count requests"):
            async with asyncio.timeout(self._timeout_s):
                answer = await self._client.execute_command("EVAL", _TAKE, len(keys), *keys, *told)
        admitted, previous, current, tokens = (int(one) for one in answer)
        return Used(admitted == 1, previous, current, tokens)

    async def spend(self, key_id: UUID, teller: UUID, now: datetime, tokens: int) -> None:
        """So many of today's tokens of the key does who tells know of by now."""
        day = _day(key_id, now)
        with faults("count tokens"):
            async with asyncio.timeout(self._timeout_s):
                keys = (day, f"{day}:{teller.hex}")
                await self._client.execute_command("EVAL", _SPEND, len(keys), *keys, tokens, _DAYS_TTL_S)


def _minute(key_id: UUID, minute: int) -> str:
    return f"mp:k:{{{key_id.hex}}}:r:{minute}"


def _day(key_id: UUID, now: datetime) -> str:
    return f"mp:k:{{{key_id.hex}}}:t:{now.date().isoformat()}"
