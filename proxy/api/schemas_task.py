"""The bodies of tasks, in and out."""

from __future__ import annotations

from typing import Annotated

from pydantic import ConfigDict, Field

from policies.task import TITLE_CHARS_MAX, WORDS_CHARS_MAX, Status
from proxy.api.schemas import Asked, Moment, Said, SensitivityName, without_defaults
from proxy.api.schemas_checkpoint import Name

Title = Annotated[str, Field(min_length=1, max_length=TITLE_CHARS_MAX)]
Words = Annotated[str, Field(max_length=WORDS_CHARS_MAX)]
_NEEDS = "What is to be done first: ids of tasks, or names of others in this body."


class TaskAsked(Asked):
    """A task to keep."""

    title: Title = Field(description="What is to be done, in a sentence.")
    name: str | None = Field(
        default=None, min_length=1, max_length=64, description="What others in this body call it in `needs`."
    )
    status: Status = "queued"
    notes: Words = Field(default="", description="What helps to do it.")
    input: Words = Field(default="", description="What it starts from; text, or JSON as text.")
    output: Words = Field(default="", description="What came of it.")
    needs: list[str] = Field(default_factory=list, max_length=64, description=_NEEDS)
    checkpoint: Name | None = Field(default=None, description="The checkpoint that its work goes on from, by its name.")
    sensitivity: SensitivityName = "internal"


class TasksAsked(Asked):
    """Tasks to keep, all or none."""

    tasks: list[TaskAsked] = Field(min_length=1, max_length=64)
    session: str | None = Field(
        default=None, min_length=1, max_length=256, description="The conversation they come from; X-Memory-Session too."
    )


class TaskPatch(Asked):
    """What changes; a member left out stays as it is."""

    model_config = ConfigDict(json_schema_extra=without_defaults)

    title: Title = ""
    status: Status = "queued"
    notes: Words = ""
    input: Words = ""
    output: Words = ""
    needs: list[str] = Field(default_factory=list, max_length=64, description="Ids of tasks that are to be done first.")
    checkpoint: Name | None = Field(default=None, description="The name of a checkpoint; null: it names none any more.")


class TaskSaid(Said):
    """A task."""

    id: str
    version: int
    status: Status
    title: str
    notes: str
    input: str
    output: str
    needs: list[str]
    waits_for: list[str] = Field(description="Of what it needs, what is not done.")
    checkpoint: str | None = Field(description="The checkpoint that it names; null too where that is not to be seen.")
    session: str | None
    memory_id: str = Field(description="The memory that a prompt is given of it.")
    integrity: str
    sensitivity: str
    state: str = Field(description="Why no prompt gets it now; empty: it does.")
    created_at: Moment
    changed_at: Moment


class TaskList(Said):
    """Tasks, newest first."""

    data: list[TaskSaid]
    next_cursor: str | None


class TasksMade(Said):
    """The tasks of a body, in its order."""

    data: list[TaskSaid]


class TaskStepSaid(Said):
    """A change of a task."""

    version: int
    was: Status | None
    status: Status
    actor: str = Field(description="The key's id; `open` without keys.")
    at: Moment


class TaskHistorySaid(Said):
    """How a task came where it is, oldest first."""

    data: list[TaskStepSaid]


class TaskGraphSaid(Said):
    """The open tasks and how they hang together."""

    order: list[str] = Field(description="Every task after what it needs.")
    ready: list[str] = Field(description="Queued, and all that they need is done.")
    waiting: dict[str, list[str]] = Field(description="What waits, and for what.")


class TaskDeleted(Said):
    """A task that is gone from lists and prompts."""

    id: str
    deleted: bool = True
    deleted_at: Moment
    undo_until: Moment
