"""The lanes of a dead predecessor: a note of who ran in this slot before in, its leases given back at once out.

A worker that was killed leaves its lanes leased for the rest of the lease; its successor in the same slot of the same
data directory knows that it is dead, since the supervisor starts it only then. Without a note, or when it cannot be
read, the leases run out as before. Refuses to guess: only the very holder named in the note is given back.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from memory.write.lanes import Leases

log: Final = logging.getLogger(__name__)


class Succession:
    """Leases that begin with giving back what the predecessor held. One per process."""

    def __init__(self, leases: Leases, note: Path) -> None:
        self._leases = leases
        self._note = note
        self._inherited = False

    async def acquire(self, holder: str, want: Sequence[str], ttl_s: float) -> dict[str, int]:
        """As Leases.acquire; the first time the predecessor's lanes are free before. Raises StoreUnavailable."""
        if not self._inherited:
            predecessor = await asyncio.to_thread(self._read)
            if predecessor:
                await self._leases.release(predecessor)
            await asyncio.to_thread(self._write, holder)
            self._inherited = True
        return await self._leases.acquire(holder, want, ttl_s)

    async def release(self, holder: str) -> None:
        """Give back all lanes. Raises StoreUnavailable."""
        await self._leases.release(holder)

    def _read(self) -> str:
        try:
            return self._note.read_text().strip()
        except (OSError, ValueError):
            return ""

    def _write(self, holder: str) -> None:
        """Whole or not at all; a note that cannot be written costs the successor one lease time."""
        draft = self._note.with_suffix(".new")
        try:
            draft.write_text(holder)
            draft.replace(self._note)
        except OSError as exc:
            log.warning("%s cannot be written: %s", self._note, exc.strerror)
