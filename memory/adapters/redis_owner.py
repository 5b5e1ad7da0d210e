"""Whose queue a Redis database holds: a store's own id in, the id of the store that has it out.

Entries are sealed under a store's keys, so that another one could only bury them. Noted at the first start, for good.
"""

from __future__ import annotations

from typing import Final
from uuid import UUID

from memory.adapters.redis_client import connect, faults

KEY: Final = "mp:owner"


async def owner_of(url: str, store: UUID) -> str:
    """Whose it is, from now on this store's where it was nobody's. Raises QueueUnavailable."""
    client = connect(url, connections_max=2)
    try:
        with faults("ask whose queue it is"):
            await client.set(KEY, str(store), nx=True)
            owner = await client.get(KEY)
    finally:
        await client.aclose()
    return owner.decode("ascii", "replace") if isinstance(owner, bytes) else str(owner)
