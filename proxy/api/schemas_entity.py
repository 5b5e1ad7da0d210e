"""The bodies of people and things, in and out."""

from __future__ import annotations

from math import isfinite
from typing import Annotated, Any

from pydantic import BeforeValidator, ConfigDict, Field, WithJsonSchema

from memory.entities import Happening
from policies.entity import (
    ALIASES_MAX,
    NAME_CHARS_MAX,
    NOTES_CHARS_MAX,
    PROPERTIES_MAX,
    PROPERTY,
    VALUE_CHARS_MAX,
    Type,
)
from proxy.api.schemas import Asked, Moment, Said, SensitivityName, matching, without_defaults

Name = Annotated[str, Field(min_length=1, max_length=NAME_CHARS_MAX)]
Names = Annotated[list[Name], Field(max_length=ALIASES_MAX)]
_KEY = "[a-z][a-z0-9_]{0,63}"
Key = Annotated[
    str,
    matching(_KEY, "small letters, digits and underscores, a letter first, at most 64, like works_at"),
    WithJsonSchema({"type": "string", "pattern": f"^{_KEY}$"}),
]
Value = str | bool | int | float
NAMED_BY_MAX = 100  # a list of a thousand of them is 4 MB with it, and was without an end


def scalars(value: object, chars_max: int) -> object:
    """An object of scalars; a refusal says no word of it, since a name may be a secret."""
    if not isinstance(value, dict) or len(value) > PROPERTIES_MAX:
        raise ValueError(f"expected an object of at most {PROPERTIES_MAX} members")
    if any(not isinstance(name, str) or PROPERTY.fullmatch(name) is None for name in value):
        raise ValueError("a name is of small letters, digits and underscores, a letter first, at most 64")
    if any(not isinstance(one, Value) or (isinstance(one, str) and len(one) > chars_max) for one in value.values()):
        raise ValueError(f"a value is a text of at most {chars_max} characters, a number, true or false")
    if any(isinstance(one, float) and not isfinite(one) for one in value.values()):
        raise ValueError("a number in it is beyond what can be kept (1.8e308)")
    return value


def _properties(value: object) -> object:
    return scalars(value, VALUE_CHARS_MAX)


_SCHEMA = {
    "type": "object",
    "maxProperties": PROPERTIES_MAX,
    "propertyNames": {"pattern": f"^{PROPERTY.pattern}$"},
    "additionalProperties": {
        "anyOf": [{"type": "string", "maxLength": VALUE_CHARS_MAX}, {"type": "number"}, {"type": "boolean"}]
    },
}
Properties = Annotated[dict[str, Any], BeforeValidator(_properties), WithJsonSchema(_SCHEMA)]
Notes = Annotated[str, Field(max_length=NOTES_CHARS_MAX)]
_FACETS = "How a person likes to be written to: the facets of a persona."
_NAMESAKE = "Others of its type may have its names: they are two."


class EntityAsked(Asked):
    """A person or a thing to keep."""

    name: Name = Field(description="What it is called.")
    type: Type
    aliases: Names = Field(default_factory=list, description="What else it is called.")
    properties: Properties = Field(default_factory=dict, description="What is known of it: texts, numbers, truths.")
    facets: dict[str, str] = Field(default_factory=dict, max_length=8, description=_FACETS)
    notes: Notes = ""
    namesake: bool = Field(default=False, description=_NAMESAKE)
    sensitivity: SensitivityName = "internal"


class EntityPatch(Asked):
    """What changes; a member left out stays as it is."""

    model_config = ConfigDict(json_schema_extra=without_defaults)

    name: Name = ""
    type: Type = "other"
    aliases: Names = Field(default_factory=list)
    properties: Properties = Field(default_factory=dict)
    facets: dict[str, str] = Field(default_factory=dict, max_length=8, description=_FACETS)
    notes: Notes = ""
    namesake: bool = Field(default=False, description=_NAMESAKE)


class EntitySaid(Said):
    """A person or a thing."""

    id: str
    version: int
    type: Type
    name: str
    aliases: list[str] = Field(description="By hand, by facts, and of those merged into it.")
    properties: dict[str, Value]
    facets: dict[str, str]
    notes: str
    learnt: bool = Field(description="It is known by facts alone; nobody has written of it.")
    memory_id: str | None = Field(description="The memory that a prompt is given of it; a learnt one has its facts.")
    named_by: list[str] = Field(
        max_length=NAMED_BY_MAX, description=f"The memories that name it, oldest first: the newest {NAMED_BY_MAX}."
    )
    named_by_total: int = Field(description="How many name it.")
    merged_into: str | None
    same: list[str] = Field(description="Those that are merged into it.")
    ambiguous: list[str] = Field(description="Names that another has too: they resolve to none.")
    sensitivity: str
    state: str = Field(description="Why no prompt gets its card now; empty: it does, or there is none.")
    created_at: Moment
    changed_at: Moment


class EntityList(Said):
    """People and things, newest first."""

    data: list[EntitySaid]
    next_cursor: str | None


class MergeAsked(Asked):
    """Into which one."""

    into: str = Field(min_length=1, max_length=64, description="The id of the one that both are from now on.")


class EntityStepSaid(Said):
    """A change of one."""

    version: int
    what: Happening
    other: str | None = Field(description="The one it was merged into or split from, or that it took or gave back.")
    actor: str = Field(description="The key's id, `open` without keys, `worker` where it was learnt.")
    at: Moment


class EntityHistorySaid(Said):
    """How one became what it is, oldest first."""

    data: list[EntityStepSaid]


class RelationshipAsked(Asked):
    """What ties two of them."""

    source: str = Field(min_length=1, max_length=64, description="The id of the one it is said of.")
    type: Key = Field(description="How it is tied, as a verb: works_at, part_of, sister.")
    target: str = Field(min_length=1, max_length=64, description="The id of the other.")
    properties: Properties = Field(default_factory=dict)
    valid_from: Moment | None = Field(default=None, description="Since when.")
    valid_to: Moment | None = Field(default=None, description="Until when.")
    sensitivity: SensitivityName = "internal"


class RelationshipSaid(Said):
    """What ties two of them."""

    id: str
    source: str
    type: str
    target: str
    says: str = Field(description="As a prompt is given it.")
    properties: dict[str, Value]
    learnt: bool = Field(description="A fact says so.")
    memory_id: str
    sensitivity: str
    valid_from: Moment | None
    valid_to: Moment | None
    created_at: Moment


class RelationshipDeleted(Said):
    """It ties them no more."""

    id: str
    deleted: bool = True


class NearSaid(Said):
    """One that is near."""

    entity: EntitySaid
    hops: int


class NeighboursSaid(Said):
    """Who is near one, nearest first, and what ties them."""

    entities: list[NearSaid]
    relationships: list[RelationshipSaid]


class PathSaid(Said):
    """One way from one to another: ids of relationships, each with the entity it leads to."""

    relationships: list[str]
    entities: list[str]


class PathsSaid(Said):
    """The ways from one to another, shortest first."""

    paths: list[PathSaid]
    relationships: list[RelationshipSaid]


class EntityDeleted(Said):
    """One that is gone from lists and prompts, and is not learnt again."""

    id: str
    deleted: bool = True
    deleted_at: Moment
    undo_until: Moment
