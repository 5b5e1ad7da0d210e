"""The ids of a record that comes out of an export: the id that it had in, those of its copy in another scope out. Pure.

The same record taken in twice has the same ids, so it is there once, and what is forgotten of a copy is known by them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID

from memory.ids import derived_id
from memory.model import NewMemory, Scope, Times, Unless
from proxy.api.asking import Caller


@dataclass(frozen=True, slots=True)
class Copy:
    """The ids of a copy, of the record and of the memory that says it, what keeps it away, and when it was made."""

    record_id: UUID
    memory_id: UUID
    unless: Unless | None = None
    times: Times | None = None

    def memory(self, made: NewMemory) -> NewMemory:
        """The memory under the copy's id."""
        return replace(made, memory_id=self.memory_id, unless=self.unless)

    def said_by(self, caller: Caller) -> Caller:
        """The caller as of when the record was said."""
        return replace(caller, now=self.times.changed_at) if self.times else caller


def times_in(created_at: datetime | None, changed_at: datetime | None, now: datetime) -> Times:
    """When a record was made and last changed, by its line; of a date to come that is now, as of none."""
    made = min(created_at or now, now)
    return Times(made, min(max(changed_at or made, made), now))


def copy_of(scope: Scope, record_id: UUID) -> Copy:
    """The copy of a record in this scope."""
    copied = derived_id(record_id, "copy", str(scope.tenant), scope.user, scope.project, scope.agent)
    return Copy(copied, derived_id(copied, "memory"))
