"""The calls of tasks, as `/memory/openapi.json` describes them."""

from __future__ import annotations

from typing import Final

from proxy.api import schemas_task as said
from proxy.api.call import BODY, CALLER, Call

_PATH: Final = "/memory/v1/tasks"
_ONE: Final = f"{_PATH}/{{id}}"

TASK_CALLS: Final = (
    Call(
        "POST",
        _PATH,
        "addTasks",
        "Keep tasks, all or none; they may need one another by name.",
        said.TasksMade,
        body=said.TasksAsked,
        parameters=("scope", "session_of_tasks"),
        errors=(*CALLER, "memory_conflict", *BODY, "not_found", "conflict"),
    ),
    Call(
        "GET",
        _PATH,
        "listTasks",
        "Tasks that are not deleted, newest first.",
        said.TaskList,
        parameters=("limit", "cursor", "order", "task_status", "session", "scope"),
        errors=CALLER,
    ),
    Call(
        "GET",
        f"{_PATH}/graph",
        "getTaskGraph",
        "The open tasks: in which order they can be done, which are ready, what waits for what.",
        said.TaskGraphSaid,
        parameters=("scope",),
        errors=CALLER,
    ),
    Call(
        "GET",
        _ONE,
        "getTask",
        "One task; its version is the ETag.",
        said.TaskSaid,
        parameters=("id", "scope"),
        errors=(*CALLER, "not_found"),
    ),
    Call(
        "GET",
        f"{_ONE}/history",
        "getTaskHistory",
        "How a task came where it is, oldest first.",
        said.TaskHistorySaid,
        parameters=("id", "scope"),
        errors=(*CALLER, "not_found"),
    ),
    Call(
        "PATCH",
        _ONE,
        "changeTask",
        "The next version of a task: its words, where it stands, what it needs.",
        said.TaskSaid,
        body=said.TaskPatch,
        parameters=("id", "if_match", "scope"),
        errors=(*CALLER, *BODY, "not_found", "conflict", "version_required"),
    ),
    Call(
        "DELETE",
        _ONE,
        "deleteTask",
        "Hide a task; it can be brought back for 30 days.",
        said.TaskDeleted,
        parameters=("id", "if_match_optional", "scope"),
        errors=(*CALLER, "not_found", "conflict"),
    ),
    Call(
        "POST",
        f"{_ONE}/undelete",
        "undeleteTask",
        "Bring back a task that was deleted.",
        said.TaskSaid,
        parameters=("id", "scope"),
        errors=(*CALLER, "not_found", "conflict", "too_large"),
    ),
)
