"""The tools for tasks: what an agent keeps, moves and lists goes the way of `/memory/v1/tasks`.

What a tool writes is the assistant's, whoever calls it, and is judged as such; each call leaves an audit row and a
record. Raises what the calls of tasks raise.
"""

from __future__ import annotations

from typing import Final

from aiohttp import web

from policies.gate import Item
from policies.injection.render import harmless
from policies.labels import Integrity, Sensitivity
from policies.task import OPEN, STATUSES
from proxy.api.answers import said
from proxy.api.asking import Caller, as_id, body_as, holder_for, validated
from proxy.api.parts import OwnParts
from proxy.api.schemas import Asked
from proxy.api.schemas_task import TaskAsked, TaskPatch, TaskSaid, TasksAsked
from proxy.api.schemas_task_tools import (
    TASKS_DEFAULT,
    TaskAddArguments,
    TaskListArguments,
    TaskListToolSaid,
    TaskToolSaid,
    TaskUpdateArguments,
)
from proxy.api.tasks import KIND, TaskCalls
from proxy.api.tool_calls import kept_call, tool_caller
from proxy.gated import readable

NO_TASKS: Final = "There are no such tasks."


class TaskTools:
    """The handlers, by name in `handlers`."""

    def __init__(self, parts: OwnParts, tasks: TaskCalls) -> None:
        self._parts = parts
        self._tasks = tasks
        self.handlers: Final = {"task_add": self.add, "task_update": self.update, "task_list": self.list}

    async def add(self, request: web.Request) -> web.Response:
        """Keep a task as the assistant's."""
        caller = tool_caller(request, self._parts, "memory:write")
        asked = await body_as(request, TaskAddArguments)
        task = validated(TaskAsked, asked.model_dump(exclude_none=True))
        (made,) = await self._tasks.added(caller, TasksAsked(tasks=[task]), Integrity.ASSISTANT)
        return await self._answered("task_add", asked, caller, made, f"Kept as task {made.id}, version {made.version}.")

    async def update(self, request: web.Request) -> web.Response:
        """Say where a task stands now."""
        caller = tool_caller(request, self._parts, "memory:write")
        asked = await body_as(request, TaskUpdateArguments)
        members = ("status", "notes", "input", "output", "needs")
        given = {name: value for name in members if (value := getattr(asked, name)) is not None}
        if asked.checkpoint is not None:
            given["checkpoint"] = asked.checkpoint or None
        task_id, patch = as_id(asked.task, KIND), validated(TaskPatch, given)
        changed = await self._tasks.changed(caller, task_id, asked.version, patch, Integrity.ASSISTANT)
        (made,) = await self._tasks.shown(caller, [changed])
        text = f"Task {made.id} is {made.status} now, version {made.version}."
        return await self._answered("task_update", asked, caller, made, text)

    async def list(self, request: web.Request) -> web.Response:
        """The open tasks, or all."""
        caller = tool_caller(request, self._parts, "memory:read:own")
        asked = await body_as(request, TaskListArguments)
        statuses = STATUSES if asked.over else sorted(OPEN)
        page = await self._parts.tasks.page(caller.scope, limit=asked.k or TASKS_DEFAULT, statuses=statuses)
        holder = await holder_for(caller, self._parts.keys)
        seen = readable(
            holder,
            page.rows,
            lambda one: Item(caller.scope.tenant, Sensitivity(one.sensitivity), session_id=one.session_id),
        )
        found = await self._tasks.shown(caller, seen)
        kept = await kept_call(self._parts, "task_list", asked, caller, [as_id(one.id, KIND) for one in found])
        text = "\n".join(map(_line, found)) or NO_TASKS
        return said(TaskListToolSaid(tool="task_list", text=text, retrieval=kept, tasks=[*found]))

    async def _answered(self, tool: str, asked: Asked, caller: Caller, made: TaskSaid, text: str) -> web.Response:
        kept = await kept_call(self._parts, tool, asked, caller, [as_id(made.id, KIND)])
        return said(TaskToolSaid(tool=tool, text=text, retrieval=kept, task=made))


def _line(one: TaskSaid) -> str:
    """A task in a line, its words quoted as data."""
    waits = f", waits for {', '.join(one.waits_for)}" if one.waits_for else ""
    from_where = f", checkpoint {harmless(one.checkpoint)}" if one.checkpoint else ""
    return f"- {one.status} (id {one.id}, version {one.version}{waits}{from_where}): {harmless(one.title)}"
