"""The bodies of the tools for checkpoints, in and out."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from policies.checkpoint import NAME_CHARS_MAX, name_of
from proxy.api.schemas import Asked
from proxy.api.schemas_checkpoint import (
    NOTES_CHARS_MAX,
    CheckpointDeleted,
    CheckpointDiffSaid,
    CheckpointListed,
    CheckpointSaid,
)
from proxy.api.schemas_tools import ToolSaid

CHECKPOINTS_DEFAULT = 20
VERSION_MAX = 999_999_999
_NAME = Annotated[str, Field(min_length=1, max_length=NAME_CHARS_MAX)]


class CheckpointSaveArguments(Asked):
    """Where the work stands."""

    name: _NAME = Field(description="What it is to be called; a name that is taken is refused.")
    notes: str = Field(
        min_length=1, max_length=NOTES_CHARS_MAX, description="Where the work stands, for whoever goes on from here."
    )


class CheckpointLoadArguments(Asked):
    """Which one."""

    name: _NAME = Field(description="The name of the checkpoint, from checkpoint_list.")


class CheckpointListArguments(Asked):
    """How many."""

    k: int | None = Field(
        default=None, ge=1, le=100, description=f"Most checkpoints to give; {CHECKPOINTS_DEFAULT} without it."
    )


class CheckpointDiffArguments(Asked):
    """Which two."""

    name: _NAME = Field(description="The name of the checkpoint to begin from.")
    other: _NAME | None = Field(default=None, description="The name of another one; without it versions of the same.")
    version: int | None = Field(default=None, ge=1, le=VERSION_MAX, description="Of name; without it the current one.")
    other_version: int | None = Field(default=None, ge=1, le=VERSION_MAX, description="Of the other, likewise.")


class CheckpointBranchArguments(Asked):
    """Which one, and its new name."""

    name: _NAME = Field(description="The name of the checkpoint to begin from.")
    new_name: Annotated[_NAME, AfterValidator(name_of)] = Field(
        description="What the branch is to be called; a name that is taken is refused."
    )
    from_project: Annotated[str, Field(min_length=1, max_length=256)] | None = Field(
        default=None, description="The user's project that name is in; without it this one."
    )


class CheckpointDeleteArguments(Asked):
    """Which one."""

    name: _NAME = Field(description="The name of the checkpoint, from checkpoint_list.")


class CheckpointToolSaid(ToolSaid):
    """A checkpoint with what it holds."""

    checkpoint: CheckpointSaid


class CheckpointListToolSaid(ToolSaid):
    """Checkpoints, newest first."""

    checkpoints: list[CheckpointListed]


class CheckpointDiffToolSaid(ToolSaid):
    """How two differ."""

    difference: CheckpointDiffSaid


class CheckpointDeleteToolSaid(ToolSaid):
    """A checkpoint that is gone from lists and loads."""

    checkpoint: CheckpointDeleted
