"""The bodies of checkpoints, in and out."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, ConfigDict, Field

from memory.checkpoints import PartState
from policies.checkpoint import NAME_CHARS_MAX, Part, name_of
from proxy.api.schemas import Asked, Id, Moment, Said, SensitivityName, without_defaults

NOTES_CHARS_MAX = 8_000
LINE_CHARS_MAX = 500
LINES_MAX = 16
IDS_MAX = 64

Name = Annotated[str, Field(min_length=1, max_length=NAME_CHARS_MAX * 4), AfterValidator(name_of)]
Line = Annotated[str, Field(min_length=1, max_length=LINE_CHARS_MAX)]


class _Parts(Asked):
    """What a checkpoint holds, as far as it is said and not taken from a conversation."""

    notes: Annotated[str, Field(max_length=NOTES_CHARS_MAX)] = Field(
        default="", description="A note to whoever goes on from here; secrets are cut out of it."
    )
    goals: list[Line] = Field(
        default_factory=list, max_length=LINES_MAX, description="Instead of the goal that the conversation says."
    )
    tasks: list[Line] = Field(
        default_factory=list, max_length=LINES_MAX, description="Instead of the steps and questions left open in it."
    )
    entities: list[Line] = Field(
        default_factory=list,
        max_length=LINES_MAX,
        description="Who or what it is about, a line each: words, or the id of one of `/memory/v1/entities`, of which "
        "what is known is taken along by reference: its card, else the newest memories that name it "
        "(checkpoint.parts_max).",
    )
    memories: list[Id] = Field(
        default_factory=list,
        max_length=IDS_MAX,
        description="Exactly these facts, instead of those of the conversation.",
    )
    documents: list[Id] = Field(
        default_factory=list, max_length=IDS_MAX, description="Exactly these documents; only a reference is kept."
    )
    preferences: list[Id] = Field(
        default_factory=list, max_length=IDS_MAX, description="Exactly these preferences, instead of the pinned ones."
    )
    persona: Annotated[str, Field(max_length=512)] = Field(
        default="", description="A persona by its name, or facets: what X-Memory-Persona takes."
    )
    sensitivity: SensitivityName = Field(default="internal", description="Of what is said here.")
    trim: bool = Field(
        default=False,
        description="Where it is too long (checkpoint.tokens_max), leave out summary, documents, facts and entities, "
        "the last first. Without it that is 413.",
    )


class CheckpointAsked(_Parts):
    """What to keep under a name: a conversation as it stands, and what is said here."""

    name: Name = Field(description="Unique in the scope; no / in it.")
    session: Annotated[str, Field(min_length=1, max_length=256)] | None = Field(
        default=None, description="The conversation; without it only what is said here is kept."
    )
    summary: bool = Field(default=True, description="Take the conversation's rolling summary along.")


class CheckpointPatch(_Parts):
    """What changes; a member left out stays as it is, an empty one is taken out."""

    model_config = ConfigDict(json_schema_extra=without_defaults)

    refresh: bool = Field(
        default=False,
        description="Take goal, steps, questions, facts, documents, preferences and summary from the conversation "
        "again, in place of those that are there, those that were said or named by hand too.",
    )


class BranchAsked(Asked):
    """The name of the branch."""

    name: Name
    from_project: Annotated[str, Field(min_length=1, max_length=256)] | None = Field(
        default=None,
        description="The project of the same user that the checkpoint is taken from; this call's gets the branch. "
        "Takes the capability checkpoint:any_project. What is taken is copied, and ends with its source.",
    )


class LoadAsked(Asked):
    """Which conversation is to be given the checkpoint with its next message."""

    session: Annotated[str, Field(min_length=1, max_length=256)]
    from_project: Annotated[str, Field(min_length=1, max_length=256)] | None = Field(
        default=None, description="Take it from this project of the same user first, as `branch` does, and as that may."
    )
    name: Name | None = Field(
        default=None, description="What one of another project is called in this; without it as it is called there."
    )


class PartSaid(Said):
    """One part. `content` is its memory's as it is now; `saved` what it was, where that differs."""

    part: Part
    own: bool = Field(description="Made for the checkpoint; else a memory that was there.")
    memory_id: str
    version: int = Field(description="The memory's version when it was saved.")
    current_version: int
    content: str
    saved: str | None = None
    role: str
    integrity: str
    sensitivity: str
    state: PartState = Field(
        description="Why no prompt gets it now; empty: it does. In place of what is superseded comes its successor."
    )
    successor: str | None = None


class CheckpointListed(Said):
    """A checkpoint in a list. `tokens`: about what a load of it takes of the block."""

    id: str
    name: str
    version: int
    session: str | None
    branched_from: str | None = Field(description="The id of the checkpoint that it was branched from.")
    created_at: Moment
    changed_at: Moment
    tokens: int
    parts: int


class CheckpointList(Said):
    """Some checkpoints."""

    data: list[CheckpointListed]
    next_cursor: str | None


class CheckpointSaid(Said):
    """A checkpoint in one of its versions. `withheld`: how many parts this caller may not see."""

    id: str
    name: str
    version: int
    current_version: int
    session: str | None
    branched_from: str | None
    created_at: Moment
    changed_at: Moment
    recorded_at: Moment
    tokens: int
    parts: list[PartSaid]
    withheld: int = 0
    trimmed: int = Field(default=0, description="Parts that were left out of this save because of its length.")


class CheckpointDeleted(Said):
    """A checkpoint that is gone from lists and loads."""

    id: str
    name: str
    deleted: Literal[True] = True
    deleted_at: Moment
    undo_until: Moment


class DifferenceSaid(Said):
    """A part on one side only."""

    part: Part
    memory_id: str
    content: str
    integrity: str


class ChangeSaid(Said):
    """A part that is worded otherwise."""

    part: Part
    before: str
    after: str
    integrity_before: str
    integrity_after: str
    unified: str = Field(description="A unified diff of the two.")


class CheckpointDiffSaid(Said):
    """From one checkpoint, or version, to another."""

    id: str
    name: str
    version: int
    with_id: str
    with_name: str
    with_version: int
    added: list[DifferenceSaid]
    removed: list[DifferenceSaid]
    changed: list[ChangeSaid]
    same: int


class CheckpointLoaded(Said):
    """It is placed with the conversation's next message, once."""

    name: str = Field(description="What it is called in this project.")
    version: int
    session: str
    parts: int
    trimmed: int = Field(default=0, description="Parts that stayed in the project it was taken from.")
    placed: Literal["next"] = "next"
