"""The lines of records in an import, as an export writes them; a member that a line leaves out has its usual value.

What is kept may be longer than what a call may say: a secret's place may be longer than the secret, and one has the
names of all that were merged into it.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Field

from memory.model import Kind
from policies.checkpoint import Part
from policies.entity import ALIASES_MAX, NAME_CHARS_MAX, VALUE_CHARS_MAX
from policies.entity import NOTES_CHARS_MAX as ENTITY_CHARS_MAX
from policies.persona import DESCRIPTION_CHARS_MAX, INTEREST_CHARS_MAX, INTERESTS_MAX
from policies.task import TITLE_CHARS_MAX, WORDS_CHARS_MAX
from proxy.api.schemas import Asked, Id, Moment, SensitivityName, ValidationStatus
from proxy.api.schemas_checkpoint import Name
from proxy.api.schemas_entity import EntityAsked, RelationshipAsked, scalars
from proxy.api.schemas_persona import PersonaAsked
from proxy.api.schemas_task import TaskAsked

PARTS_MAX = 1_000  # the most that checkpoint.parts_max may be
IntegrityName = Literal["admin", "user", "assistant", "tool", "web", "imported"]
_Name = Annotated[str, Field(min_length=1, max_length=2 * NAME_CHARS_MAX)]
_Interest = Annotated[str, Field(min_length=1, max_length=2 * INTEREST_CHARS_MAX)]
_Words = Annotated[str, Field(max_length=2 * WORDS_CHARS_MAX)]


class _Exported(Asked):
    """What every line of a record says of it beside its words. Other members of a line are passed over: of the bases of
    a line this is the last, whose configuration holds.
    """

    model_config = ConfigDict(extra="ignore")

    id: Id
    memory_id: Id
    created_at: Moment | None = None
    changed_at: Moment | None = None


class PersonaLine(PersonaAsked, _Exported):
    """A persona."""

    description: Annotated[str, Field(max_length=2 * DESCRIPTION_CHARS_MAX)] = ""
    interests: list[_Interest] = Field(default_factory=list, max_length=INTERESTS_MAX)


def _scalars(value: object) -> object:
    return scalars(value, 2 * VALUE_CHARS_MAX)


_Properties = Annotated[dict[str, Any], BeforeValidator(_scalars)]


class EntityLine(EntityAsked, _Exported):
    """A person or a thing. `learnt`: nobody has written of it, but ties name it."""

    learnt: bool = False

    name: _Name
    aliases: list[_Name] = Field(default_factory=list, max_length=64 * ALIASES_MAX)
    notes: Annotated[str, Field(max_length=2 * ENTITY_CHARS_MAX)] = ""
    properties: _Properties = Field(default_factory=dict)


class RelationshipLine(RelationshipAsked, _Exported):
    """What ties two, by the ids that they had in the export."""

    properties: _Properties = Field(default_factory=dict)


class TaskLine(TaskAsked, _Exported):
    """A task, and by the ids that they had what it needs."""

    title: Annotated[str, Field(min_length=1, max_length=2 * TITLE_CHARS_MAX)]
    notes: _Words = ""
    input: _Words = ""
    output: _Words = ""

    session: str | None = Field(default=None, min_length=1, max_length=256)
    integrity: IntegrityName = "user"


class PartLine(Asked):
    """A part of a checkpoint. Its words, and how many there are, are bounded as in a save, by the configuration."""

    model_config = ConfigDict(extra="ignore")

    part: Part
    content: Annotated[str, Field(min_length=1)]
    integrity: IntegrityName = "user"
    sensitivity: SensitivityName = "internal"
    memory_id: Id
    occurred_at: Moment | None = None


class EditedSaid(Asked):
    """What a person set of a memory, by the names of its members and attributes, and how a copy of it is known."""

    model_config = ConfigDict(extra="ignore")

    at: Moment
    learnt: str
    hidden: bool = False
    members: list[str] = Field(default_factory=list)
    attributes: list[str] = Field(default_factory=list)


class EditLine(Asked):
    """A memory of which a person has set something. Of one that is hidden the line says nothing else."""

    model_config = ConfigDict(extra="ignore")

    id: Id
    kind: Kind
    edited: EditedSaid
    source_ids: list[str] = Field(default_factory=list)
    event_ids: list[Id] = Field(default_factory=list)
    content: str = ""
    pinned: bool = False
    importance: float = 0.5
    sensitivity: SensitivityName = "internal"
    validation_status: ValidationStatus = "unreviewed"
    expires_at: Moment | None = None
    attributes: dict[str, Any] = Field(default_factory=dict)


class CheckpointLine(Asked):
    """A checkpoint with the words of its parts."""

    model_config = ConfigDict(extra="ignore")

    id: Id
    name: Name
    session: str | None = Field(default=None, min_length=1, max_length=256)
    parts: list[PartLine] = Field(min_length=1, max_length=PARTS_MAX)
    created_at: Moment | None = None
    changed_at: Moment | None = None
