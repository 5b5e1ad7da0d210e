"""The preferences of a scope as they were learnt: a scope in, what holds with its evidence out. StoreUnavailable."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from memory.adapters.postgres.database import Database
from memory.adapters.postgres.own_memory import standing_by_id
from memory.adapters.postgres.scopes import Scopes
from memory.model import Scope
from memory.preferences import Preference
from policies.labels import Sensitivity, labels_up_to

PREFERENCES_MAX: Final = 500
EVIDENCE_MAX: Final = 8


class PreferenceStore:
    """Reads preferences."""

    def __init__(self, database: Database, scopes: Scopes) -> None:
        self._database = database
        self._scopes = scopes

    async def preferences(
        self,
        scope: Scope,
        now: datetime,
        among: Sequence[UUID] | None = None,
        *,
        ceiling: Sensitivity | None = None,
        session_id: UUID | None = None,
    ) -> tuple[list[Preference], bool]:
        """Those that hold in this very scope, of these or of all, up to this sensitivity and of one conversation where
        that is all that may be seen, the last said first; and whether there are more.
        """
        scope_id = await self._scopes.find(scope)
        if scope_id is None:
            return [], False
        async with self._database.transaction(scope.tenant, [scope_id], read_only=True) as tx:
            asked = (scope_id, PREFERENCES_MAX + 1, EVIDENCE_MAX, now, None if among is None else list(among))
            seen = (None if ceiling is None else labels_up_to(ceiling), session_id)
            rows = await tx.fetch("preferences_of_scope", scope.tenant, *asked, *seen)
            found = rows[:PREFERENCES_MAX]
            standing = await standing_by_id(tx, scope.tenant, scope_id, (row["memory_id"] for row in found))
        shown = {memory_id: row for memory_id, row in standing.items() if not row["hidden"]}
        held = [_preference(row, said) for row in found if (said := shown.get(row["memory_id"])) is not None]
        return held, len(rows) > PREFERENCES_MAX


def _preference(row: Any, said: Any) -> Preference:
    return Preference(
        memory_id=UUID(int=row["memory_id"].int),
        version=row["version"],
        statement=said["content"],
        predicate=row["predicate"],
        said=row["said"],
        sessions=row["sessions"],
        first_said=row["first_said"],
        last_said=row["last_said"],
        vouched=row["vouched"],
        pinned=row["pinned"],
        sensitivity=said["sensitivity"],
        session_id=row["session_id"],
        evidence=tuple(UUID(int=one.int) for one in row["evidence"] or ()),
    )
