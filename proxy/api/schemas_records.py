"""The lines of records in an import, as an export writes them; a member that a line leaves out has its usual value."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from policies.checkpoint import Part
from proxy.api.schemas import Asked, Moment, SensitivityName
from proxy.api.schemas_checkpoint import NOTES_CHARS_MAX, Id, Name
from proxy.api.schemas_entity import EntityAsked, RelationshipAsked
from proxy.api.schemas_persona import PersonaAsked
from proxy.api.schemas_task import TaskAsked

IntegrityName = Literal["admin", "user", "assistant", "tool", "web", "imported"]


class _Exported(Asked):
    """What every line of a record says of it beside its words. Other members of a line are passed over."""

    model_config = ConfigDict(extra="ignore")

    id: Id
    memory_id: Id
    created_at: Moment | None = None


class PersonaLine(_Exported, PersonaAsked):
    """A persona."""


class EntityLine(_Exported, EntityAsked):
    """A person or a thing."""


class RelationshipLine(_Exported, RelationshipAsked):
    """What ties two, by the ids that they had in the export."""


class TaskLine(_Exported, TaskAsked):
    """A task, and by the ids that they had what it needs."""

    session: str | None = Field(default=None, min_length=1, max_length=256)
    integrity: IntegrityName = "user"


class PartLine(Asked):
    """A part of a checkpoint."""

    model_config = ConfigDict(extra="ignore")

    part: Part
    content: Annotated[str, Field(min_length=1, max_length=2 * NOTES_CHARS_MAX)]
    integrity: IntegrityName = "user"
    sensitivity: SensitivityName = "internal"
    memory_id: Id


class CheckpointLine(Asked):
    """A checkpoint with the words of its parts."""

    model_config = ConfigDict(extra="ignore")

    id: Id
    name: Name
    session: str | None = Field(default=None, min_length=1, max_length=256)
    parts: list[PartLine] = Field(min_length=1, max_length=256)
    created_at: Moment | None = None
