"""The bodies of artifacts, in and out."""

from __future__ import annotations

import json
from typing import Annotated

from pydantic import BeforeValidator, ConfigDict, Field

from memory.artifact_links import LINK_S_DEFAULT, LINK_S_MAX
from proxy.api.asking import no_constant
from proxy.api.schemas import Asked, Moment, Said, SensitivityName, without_defaults
from proxy.api.schemas_documents import Binary
from proxy.api.schemas_entity import Properties, Value

CAPTION_CHARS_MAX = 1_000
TEXT_CHARS_MAX = 8_000
_TEXT = "What stands in it, as you or a reader of images found it; without it a text file's own beginning and end."
Caption = Annotated[str, Field(max_length=CAPTION_CHARS_MAX)]
Text = Annotated[str, Field(max_length=TEXT_CHARS_MAX)]
_METADATA = "What you know of it: texts, numbers, truths (camera, build, author)."


def _parsed(value: object) -> object:
    """A part of a form as JSON, as OpenAPI has objects there; a refusal says no word of it: it may be a secret."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value, parse_constant=no_constant)
    except (ValueError, RecursionError):
        raise ValueError("expected a JSON object") from None


class ArtifactAsked(Asked):
    """The parts of an upload, `multipart/form-data`."""

    file: Binary = Field(description="The file, of any type; its first bytes must not contradict its Content-Type.")
    name: str | None = Field(default=None, max_length=255, description="What it is called; without it the file's name.")
    caption: Caption = Field(default="", description="What it shows or is for.")
    text: Text = Field(default="", description=_TEXT)
    metadata: Annotated[Properties, BeforeValidator(_parsed)] = Field(default_factory=dict, description=_METADATA)
    session: str | None = Field(
        default=None, min_length=1, max_length=256, description="The conversation it comes from; X-Memory-Session too."
    )
    sensitivity: SensitivityName = Field(default="internal", description="The label of what a prompt is given of it.")


class ArtifactPatch(Asked):
    """What changes; a member left out stays as it is."""

    model_config = ConfigDict(json_schema_extra=without_defaults)

    name: str = Field(default="", min_length=1, max_length=255)
    caption: Caption = ""
    text: Text = ""
    metadata: Properties = Field(default_factory=dict, description=_METADATA)


class ArtifactSaid(Said):
    """A file: what it is, and where its bytes are to be had."""

    id: str
    version: int
    name: str
    media_type: str
    bytes: int
    sha256: str
    width: int | None = Field(description="Of an image, in pixels.")
    height: int | None
    caption: str
    text: str
    metadata: dict[str, Value]
    session: str | None
    memory_id: str = Field(description="The memory that a prompt is given of it.")
    integrity: str
    sensitivity: str
    state: str = Field(description="Why no prompt gets it now; empty: it does.")
    created_at: Moment
    changed_at: Moment


class ArtifactKept(ArtifactSaid):
    """A file that was sent."""

    reused: bool = Field(
        description="The scope has these bytes already: this is that one, and at most its label was raised."
    )


class ArtifactList(Said):
    """Files, newest first."""

    data: list[ArtifactSaid]
    next_cursor: str | None


class LinkAsked(Asked):
    """For how long."""

    expires_s: int = Field(default=LINK_S_DEFAULT, ge=1, le=LINK_S_MAX, description="Seconds that it opens the file.")


class LinkSaid(Said):
    """A way to the bytes for whoever has no key."""

    url: str = Field(description="Path and query at this server.")
    expires_at: Moment


class ArtifactDeleted(Said):
    """A file that is gone from lists and prompts."""

    id: str
    deleted: bool = True
    deleted_at: Moment
    undo_until: Moment
