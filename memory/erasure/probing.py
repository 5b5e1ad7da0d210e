"""Looking for what was erased: what is sought for each of several erasures of a tenant in, the traces of each out.

One pass through every table, Redis and the spool for all of them: it costs what reading all of a tenant costs, however
many look for something. What each finds is its own. Raises StoreUnavailable, QueueUnavailable, OSError.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from uuid import UUID

from memory.erasure.model import Items, Traces
from memory.erasure.ports import GoesThrough, Hots
from memory.erasure.shingles import Shingles
from memory.erasure.wanted import Together, Wanted

_FILLED: Final = re.compile(rb"[^\0]{64,}")
_PIECE_BYTES: Final = 1 << 20
_ZEROS: Final = bytes(_PIECE_BYTES)


@dataclass(frozen=True, slots=True)
class Sought:
    """What one erasure has to look for. `held`: how many of its ids processes had at hand when they were asked."""

    erasure_id: UUID
    items: Items
    words: Shingles
    made: Shingles
    held: int

    def ids(self, named: Collection[str] = ()) -> list[UUID]:
        """Its ids, but for those that clients call other turns by."""
        return [one for one in (*self.items.ids("turn"), *self.items.ids("memory")) if str(one) not in named]


@dataclass(frozen=True, slots=True)
class Probing:
    """What is looked through. `spooled`: how many entries of a spool are sealed under one of these keys."""

    database: GoesThrough
    redis: Hots
    spool: Path
    spooled: Callable[[Collection[UUID]], int]

    async def run(self, tenant: UUID, scopes: Sequence[int], sought: Sequence[Sought]) -> list[Traces]:
        """The traces of each of these, in their order."""
        named = await self.database.called(tenant, scopes, [one for its in sought for one in its.ids()])
        ids = [one.ids(named) for one in sought]
        each = [Wanted(its, one.items.ids("key"), one.words, one.made) for its, one in zip(ids, sought, strict=True)]
        wanted = Together(each, [one.made for one in sought])
        found = await self.database.run(tenant, scopes, wanted)
        async for name, values in self.redis.everything():
            for at, hits in (one for value in values for one in wanted.count(value)):
                if sought[at].erasure_id.hex not in name:
                    found[at][f"redis {':'.join(name.split(':')[:2])}"] += hits
        in_files = await asyncio.to_thread(_in_files, self.spool, wanted)
        for at, one in enumerate(sought):
            in_files[at] += await asyncio.to_thread(self.spooled, frozenset(one.items.ids("key")))
            found[at].update({"spool": in_files[at], "processes": one.held})
        return [
            Traces(
                {place: hits for place, hits in its.items() if hits},
                len(some),
                len(one.words) + len(one.made),
                one.words.said_elsewhere + one.made.said_elsewhere,
            )
            for its, some, one in zip(found, ids, sought, strict=True)
        ]


def _in_files(directory: Path, wanted: Together) -> Counter[int]:
    """Traces in the open in the files of a directory, by whose they are: what lies there is sealed, so any would be a
    defect.
    """
    found = Counter[int]()
    for path in sorted(directory.glob("*")) if directory.is_dir() else ():
        with path.open("rb") as file:
            while piece := file.read(_PIECE_BYTES):
                if piece != _ZEROS[: len(piece)]:  # preallocated: most of it is zeros
                    for part in _FILLED.findall(piece):
                        found.update(dict(wanted.count(part)))
    return found
