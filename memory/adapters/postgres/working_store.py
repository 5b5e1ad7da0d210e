"""Turns for working contexts: a session and what is known of it in, the turns behind that out, or the last of all.

The version of the scope is read before the turns: what is read is at least as new as the version says, and a turn that
is hidden in between makes the next reading start anew. Raises StoreUnavailable.
"""

from __future__ import annotations

from typing import Any, Final
from uuid import UUID

from memory.adapters.postgres.database import Database
from memory.adapters.postgres.scopes import Scopes
from memory.model import Scope
from memory.read.working import Known, Reading, WorkingTurn
from policies.working import ARGUMENTS_CHARS, ENDS_CHARS

VERSIONS_BEHIND_MAX: Final = 500
"""Of a scope that changed oftener since, the session is read anew: its changes would be more rows than its turns."""
_NOTHING_KNOWN: Final = Known(2**62, 0)  # nothing has changed since then, so nothing is looked through


class PostgresWorking:
    """The sessions of one store, as working contexts read them."""

    def __init__(self, database: Database, scopes: Scopes) -> None:
        self._database = database
        self._scopes = scopes

    async def working(self, scope: Scope, session_id: UUID, known: Known | None, *, limit: int) -> Reading | None:
        """The turns behind `known` where that still holds, else the last `limit`; None for no such session."""
        scope_id = await self._scopes.find(scope)
        if scope_id is None:
            return None
        asked = known or _NOTHING_KNOWN
        async with self._database.transaction(scope.tenant, [scope_id], read_only=True, generic=True) as tx:
            since = (asked.version, asked.upto_seq, VERSIONS_BEHIND_MAX)
            row = await tx.row("working_state", scope.tenant, scope_id, session_id, *since)
            if row is None:
                return None
            whole = known is None or not _holds(known, row, limit)
            first = max(0, row["next_seq"] - limit) if whole else asked.upto_seq
            found: list[Any] = []
            if row["next_seq"] > first:
                ends = (ENDS_CHARS, ARGUMENTS_CHARS)
                found = await tx.fetch("working_turns", scope.tenant, session_id, first, limit, *ends)
        return Reading(row["version"], whole, first, tuple(WorkingTurn(**one) for one in found))


def _holds(known: Known, row: Any, limit: int) -> bool:
    """Whether what is known can be gone on from. A store that was set back is behind it."""
    if row["touched"] or row["rebuild_version"] > known.version:
        return False
    untold: int = row["next_seq"] - known.upto_seq
    return known.version <= row["version"] and 0 <= untold <= limit
