"""Write budgets: memories about to be stored in, the same out, those beyond their source's hour held back for review.

A source is a live session's tool, a session's people and model, or an import by a key that is not trusted with roles.
Counted in the caller's transaction, so a retried exchange counts once and a rolled back one not at all; sources are
counted in the order of their digests, so that two writers cannot wait for each other in a circle. Raises
StoreUnavailable.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final
from uuid import UUID

from memory.adapters.postgres.database import Transaction
from memory.adapters.postgres.rows import Place
from memory.model import NewMemory
from policies.poisoning import UNVOUCHED

REASON: Final = "budget"
Made = tuple[UUID | None, NewMemory]  # session id, memory


@dataclass(frozen=True, slots=True)
class Budgets:
    """Memories of one source in one hour that are recalled at once: of what nobody vouches for, and of a session. 0: no
    bound.
    """

    foreign: int = 0
    session: int = 0


async def within_budget(
    tx: Transaction, place: Place, made: Sequence[Made], budgets: Budgets, *, import_id: UUID | None = None
) -> tuple[list[Made], int]:
    """The memories in their order, and how many of them are held back for their number."""
    of: dict[bytes, list[int]] = {}
    for at, (session_id, memory) in enumerate(made):
        if _bound(memory, budgets) and not memory.quarantine:
            of.setdefault(_source(session_id, memory, import_id), []).append(at)
    held, hour = set[int](), place.now.replace(minute=0, second=0, microsecond=0)
    for source in sorted(of):
        places = of[source]
        total = await tx.value("count_writes", place.tenant, place.scope_id, source, hour, len(places))
        room = max(0, _bound(made[places[0]][1], budgets) - (total - len(places)))
        held.update(places[room:])
    return [
        (session_id, replace(memory, quarantine=f"{REASON}: {_kind(memory)}") if at in held else memory)
        for at, (session_id, memory) in enumerate(made)
    ], len(held)


def _bound(memory: NewMemory, budgets: Budgets) -> int:
    return budgets.foreign if _kind(memory) == "foreign" else budgets.session


def _kind(memory: NewMemory) -> str:
    return "foreign" if memory.integrity.value in UNVOUCHED else "session"


def _source(session_id: UUID | None, memory: NewMemory, import_id: UUID | None) -> bytes:
    """A digest of who writes: an import as a whole; live, a session, and in it each tool."""
    parts = (_kind(memory), str(import_id or session_id), memory.tool_name or "" if import_id is None else "")
    return hashlib.sha256("\x1f".join(parts).encode()).digest()
