"""The bodies of the tools for tasks, in and out."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from policies.checkpoint import NAME_CHARS_MAX
from policies.task import TITLE_CHARS_MAX, WORDS_CHARS_MAX, Status
from proxy.api.schemas import Asked
from proxy.api.schemas_task import TaskDeleted, TaskSaid, TaskStepSaid
from proxy.api.schemas_tools import Id, ToolSaid

TASKS_DEFAULT = 20
_Words = Annotated[str, Field(max_length=WORDS_CHARS_MAX)]
_Name = Annotated[str, Field(max_length=NAME_CHARS_MAX)]


class TaskAddArguments(Asked):
    """What is to be done."""

    title: str = Field(min_length=1, max_length=TITLE_CHARS_MAX, description="What is to be done, in a sentence.")
    notes: _Words | None = Field(default=None, description="What helps to do it.")
    input: _Words | None = Field(default=None, description="What it starts from; text, or JSON as text.")
    needs: list[Id] | None = Field(default=None, max_length=64, description="Ids of tasks that are to be done first.")
    checkpoint: _Name | None = Field(
        default=None, min_length=1, description="The checkpoint that the work goes on from, from checkpoint_list."
    )


class TaskUpdateArguments(Asked):
    """Where a task stands now."""

    task: Id = Field(description="The id of the task, from task_list.")
    version: int = Field(ge=1, description="Its version, from task_list.")
    status: Status | None = Field(default=None, description="Where it stands now; left out, where it stood.")
    notes: _Words | None = Field(default=None, description="What helps to do it, in place of what was noted.")
    input: _Words | None = Field(default=None, description="What it starts from, in place of what it was.")
    output: _Words | None = Field(default=None, description="What came of it.")
    needs: list[Id] | None = Field(default=None, max_length=64, description="Ids of all tasks to be done first.")
    checkpoint: _Name | None = Field(
        default=None, description="The checkpoint that the work goes on from; an empty text: from none."
    )


class TaskListArguments(Asked):
    """Which tasks."""

    k: int | None = Field(default=None, ge=1, le=100, description=f"Most tasks to give; {TASKS_DEFAULT} without it.")
    over: bool | None = Field(default=None, description="true: also what is done, failed or cancelled.")


class TaskOrderArguments(Asked):
    """How many."""

    k: int | None = Field(default=None, ge=1, le=100, description=f"Most tasks to give; {TASKS_DEFAULT} without it.")


class TaskHistoryArguments(Asked):
    """Of which task."""

    task: Id = Field(description="The id of the task, from task_list.")
    k: int | None = Field(default=None, ge=1, le=100, description=f"Most changes to give; {TASKS_DEFAULT} without it.")


class TaskDeleteArguments(Asked):
    """Which task."""

    task: Id = Field(description="The id of the task, from task_list.")


class TaskToolSaid(ToolSaid):
    """The task as it is now."""

    task: TaskSaid


class TaskListToolSaid(ToolSaid):
    """Tasks, newest first."""

    tasks: list[TaskSaid]


class TaskOrderToolSaid(ToolSaid):
    """Open tasks, every one after what it needs."""

    tasks: list[TaskSaid]
    ready: list[str] = Field(description="Of these, what is queued and may be begun.")
    more: int = Field(description="How many open tasks come after these.")


class TaskHistoryToolSaid(ToolSaid):
    """The last changes of a task, oldest first."""

    steps: list[TaskStepSaid]


class TaskDeleteToolSaid(ToolSaid):
    """A task that is gone from lists and prompts."""

    task: TaskDeleted
