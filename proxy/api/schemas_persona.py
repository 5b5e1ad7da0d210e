"""The bodies of personas, in and out."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, ConfigDict, Field

from policies.persona import (
    DESCRIPTION_CHARS_MAX,
    FACETS,
    INTEREST_CHARS_MAX,
    INTERESTS_MAX,
    NAME_CHARS_MAX,
    checked,
    name_of,
)
from proxy.api.schemas import Asked, Moment, Said, SensitivityName, without_defaults

Name = Annotated[str, Field(min_length=1, max_length=NAME_CHARS_MAX * 4), AfterValidator(name_of)]
Facets = Annotated[dict[str, str], Field(max_length=len(FACETS) + 1), AfterValidator(checked)]
Interest = Annotated[str, Field(min_length=1, max_length=INTEREST_CHARS_MAX)]
_KNOWN = "; ".join(f"{facet}: {', '.join(values)}" for facet, values in FACETS.items())


class _Style(Asked):
    """How answers are asked to be."""

    facets: Facets = Field(default_factory=dict, description=f"{_KNOWN}; language: an ISO 639-1 code.")
    description: Annotated[str, Field(max_length=DESCRIPTION_CHARS_MAX)] = Field(
        default="", description="What no facet says, as a statement about what the user likes."
    )
    interests: list[Interest] = Field(
        default_factory=list, max_length=INTERESTS_MAX, description="What the user is interested in, a few words each."
    )
    sensitivity: SensitivityName = "internal"


class PersonaAsked(_Style):
    """A persona to keep."""

    name: Name = Field(description="Unique in the scope; none of / = ; in it.")


class PersonaPatch(_Style):
    """What changes; a member left out stays as it is."""

    model_config = ConfigDict(json_schema_extra=without_defaults)


class PersonaSaid(Said):
    """A persona. `text` is what a prompt is given of it, as quoted data under "Style asked for"."""

    name: str
    built_in: bool = Field(description="Everybody has it, and nobody changes it.")
    id: str | None
    version: int
    facets: dict[str, str]
    description: str
    interests: list[str]
    text: str
    memory_id: str | None
    sensitivity: str
    state: str = Field(description="Why no prompt gets it now; empty: it does.")
    created_at: Moment | None
    changed_at: Moment | None


class PersonaList(Said):
    """The personas of a scope by name, then those that everybody has."""

    data: list[PersonaSaid]
    next_cursor: None = None


class PersonaDeleted(Said):
    """A persona that is gone from lists and prompts."""

    name: str
    deleted: bool = True
    deleted_at: Moment
    undo_until: Moment
