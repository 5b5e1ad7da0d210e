"""The bodies of the tools for checkpoints, in and out."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from policies.checkpoint import NAME_CHARS_MAX
from proxy.api.schemas import Asked
from proxy.api.schemas_checkpoint import NOTES_CHARS_MAX, CheckpointListed, CheckpointSaid
from proxy.api.schemas_tools import ToolSaid

CHECKPOINTS_DEFAULT = 20
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


class CheckpointToolSaid(ToolSaid):
    """A checkpoint with what it holds."""

    checkpoint: CheckpointSaid


class CheckpointListToolSaid(ToolSaid):
    """Checkpoints, newest first."""

    checkpoints: list[CheckpointListed]
