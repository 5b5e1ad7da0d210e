"""The values of personas: one to store, and one as it lies in the store. Frozen, slotted, no I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from memory.model import NewMemory, Times

DESCRIPTION = "description"
"""The member of its memory's attributes that holds what the user added to the facets in words of his own."""
INTERESTS = "interests"
"""The member that holds what the user is interested in."""


@dataclass(frozen=True, slots=True)
class NewPersona:
    """What is to be stored under a name; `memory` says it in the words a prompt is given."""

    name: str
    facets: Mapping[str, str]
    memory: NewMemory
    times: Times | None = None


@dataclass(frozen=True, slots=True)
class Persona:
    """A persona as it is now. `text`: what a prompt is given; `hidden`: why none is, "" for nothing."""

    persona_id: UUID
    name: str
    version: int
    memory_id: UUID
    facets: Mapping[str, str]
    description: str
    interests: Sequence[str]
    text: str
    integrity: str
    sensitivity: str
    hidden: str
    created_at: datetime
    changed_at: datetime
