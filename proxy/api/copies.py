"""The ids of a record that comes out of an export: the id that it had in, those of its copy in another scope out. Pure.

The same record taken in twice has the same ids, so it is there once, and what is forgotten of a copy is known by them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from uuid import UUID

from memory.ids import derived_id
from memory.model import NewMemory, Scope, Unless


@dataclass(frozen=True, slots=True)
class Copy:
    """The ids of a copy, of the record and of the memory that says it, and what keeps it away."""

    record_id: UUID
    memory_id: UUID
    unless: Unless | None = None

    def memory(self, made: NewMemory) -> NewMemory:
        """The memory under the copy's id."""
        return replace(made, memory_id=self.memory_id, unless=self.unless)


def copy_of(scope: Scope, record_id: UUID) -> Copy:
    """The copy of a record in this scope."""
    copied = derived_id(record_id, "copy", str(scope.tenant), scope.user, scope.project, scope.agent)
    return Copy(copied, derived_id(copied, "memory"))
