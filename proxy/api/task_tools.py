"""The tools for tasks: what an agent keeps, moves and lists goes the way of `/memory/v1/tasks`.

What a tool writes is the assistant's, whoever calls it, and is judged as such; each call leaves an audit row and a
record. Raises what the calls of tasks raise.
"""

from __future__ import annotations

from typing import Final

from aiohttp import web

from memory.assemble import marked
from memory.errors import Unprocessable
from policies.injection.render import harmless
from policies.labels import Integrity
from policies.task import OPEN, STATUSES
from proxy.api.answers import said
from proxy.api.asking import Caller, as_id, body_as, validated
from proxy.api.parts import OwnParts
from proxy.api.schemas import Asked
from proxy.api.schemas_task import TaskAsked, TaskPatch, TaskSaid, TasksAsked, TaskStepSaid
from proxy.api.schemas_task_tools import (
    TASKS_DEFAULT,
    TaskAddArguments,
    TaskDeleteArguments,
    TaskDeleteToolSaid,
    TaskHistoryArguments,
    TaskHistoryToolSaid,
    TaskListArguments,
    TaskListToolSaid,
    TaskOrderArguments,
    TaskOrderToolSaid,
    TaskToolSaid,
    TaskUpdateArguments,
)
from proxy.api.task_words import graph_said
from proxy.api.tasks import GRAPH_MAX, KIND, TaskCalls
from proxy.api.tool_calls import MORE, kept_call, tool_caller

NO_TASKS: Final = "There are no such tasks."
EARLIER: Final = "There are changes before these."


class TaskTools:
    """The handlers, by name in `handlers`."""

    def __init__(self, parts: OwnParts, tasks: TaskCalls) -> None:
        self._parts = parts
        self._tasks = tasks
        self.handlers: Final = {
            "task_add": self.add,
            "task_update": self.update,
            "task_list": self.list,
            "task_order": self.order,
            "task_history": self.history,
            "task_delete": self.delete,
        }

    async def add(self, request: web.Request) -> web.Response:
        """Keep a task as the assistant's."""
        tool = "task_add"
        caller = tool_caller(request, self._parts, tool)
        asked = await body_as(request, TaskAddArguments)
        task = validated(TaskAsked, asked.model_dump(exclude_none=True))
        (made,) = await self._tasks.added(caller, TasksAsked(tasks=[task]), Integrity.ASSISTANT)
        return await self._answered(tool, asked, caller, made, f"Kept as task {made.id}, version {made.version}.")

    async def update(self, request: web.Request) -> web.Response:
        """Say where a task stands now."""
        tool = "task_update"
        caller = tool_caller(request, self._parts, tool)
        asked = await body_as(request, TaskUpdateArguments)
        members = ("status", "notes", "input", "output", "needs")
        given = {name: value for name in members if (value := getattr(asked, name)) is not None}
        if asked.checkpoint is not None:
            given["checkpoint"] = asked.checkpoint or None
        if not given:
            raise Unprocessable(f"nothing to change; say one of {', '.join(members)} and checkpoint", param="status")
        task_id, patch = as_id(asked.task, KIND), validated(TaskPatch, given)
        made = await self._tasks.changed(caller, task_id, asked.version, patch, Integrity.ASSISTANT)
        text = f"Task {made.id} is {made.status} now, version {made.version}."
        return await self._answered(tool, asked, caller, made, text)

    async def list(self, request: web.Request) -> web.Response:
        """The open tasks, or all."""
        tool = "task_list"
        caller = tool_caller(request, self._parts, tool)
        asked = await body_as(request, TaskListArguments)
        statuses = STATUSES if asked.over else sorted(OPEN)
        found, more = await self._tasks.newest(caller, statuses, asked.k or TASKS_DEFAULT)
        kept = await kept_call(self._parts, tool, asked, caller, [as_id(one.id, KIND) for one in found])
        text = "".join([*map(_line, found), MORE if more else ""]).rstrip("\n") or NO_TASKS
        return said(TaskListToolSaid(tool=tool, text=text, retrieval=kept, tasks=[*found]))

    async def order(self, request: web.Request) -> web.Response:
        """The open tasks, every one after what it needs, and what may be begun."""
        tool = "task_order"
        caller = tool_caller(request, self._parts, tool)
        asked = await body_as(request, TaskOrderArguments)
        open_, _ = await self._tasks.newest(caller, sorted(OPEN), GRAPH_MAX)
        graph, by_id = graph_said(open_), {one.id: one for one in open_}
        first = [by_id[id_] for id_ in graph.order[: asked.k or TASKS_DEFAULT]]
        more, ready = len(open_) - len(first), [one.id for one in first if one.id in graph.ready]
        kept = await kept_call(self._parts, tool, asked, caller, [as_id(one.id, KIND) for one in first])
        lines = [_line(one, "ready" if one.id in ready else one.status) for one in first]
        text = "".join([*lines, f"{more} more come after these." if more else ""]).rstrip("\n") or NO_TASKS
        answer = TaskOrderToolSaid(tool=tool, text=text, retrieval=kept, tasks=first, ready=ready, more=more)
        return said(answer)

    async def history(self, request: web.Request) -> web.Response:
        """How a task came where it is."""
        tool = "task_history"
        caller = tool_caller(request, self._parts, tool)
        asked = await body_as(request, TaskHistoryArguments)
        task_id = as_id(asked.task, KIND)
        all_ = await self._tasks.steps(caller, task_id)
        steps = [*all_[-(asked.k or TASKS_DEFAULT) :]]
        kept = await kept_call(self._parts, tool, asked, caller, [task_id])
        text = "\n".join([*([EARLIER] if len(all_) > len(steps) else []), *map(_step, steps)])
        return said(TaskHistoryToolSaid(tool=tool, text=text, retrieval=kept, steps=steps))

    async def delete(self, request: web.Request) -> web.Response:
        """Hide a task; a person can bring it back."""
        tool = "task_delete"
        caller = tool_caller(request, self._parts, tool)
        asked = await body_as(request, TaskDeleteArguments)
        gone = await self._tasks.deleted(caller, as_id(asked.task, KIND))
        kept = await kept_call(self._parts, tool, asked, caller, [as_id(gone.id, KIND)])
        text = f"Task {gone.id} is hidden; it can be shown again until {gone.undo_until:%Y-%m-%d}."
        return said(TaskDeleteToolSaid(tool=tool, text=text, retrieval=kept, task=gone))

    async def _answered(self, tool: str, asked: Asked, caller: Caller, made: TaskSaid, text: str) -> web.Response:
        kept = await kept_call(self._parts, tool, asked, caller, [as_id(made.id, KIND)])
        return said(TaskToolSaid(tool=tool, text=text, retrieval=kept, task=made))


def _line(one: TaskSaid, stands: str = "") -> str:
    """A task, its words quoted as data, with its line end. `stands`: how, in place of its status."""
    waits = f", waits for {', '.join(one.waits_for)}" if one.waits_for else ""
    from_where = f", checkpoint {harmless(one.checkpoint)}" if one.checkpoint else ""
    return f"- {stands or one.status} (id {one.id}, version {one.version}{waits}{from_where}): {marked(one.title)}"


def _step(one: TaskStepSaid) -> str:
    """A change in a line."""
    moved = f"{one.was} -> {one.status}" if one.was else f"kept as {one.status}"
    if one.was == one.status:
        moved = f"changed, {one.status} still"
    return f"- {one.at:%Y-%m-%d %H:%M} (version {one.version}): {moved}"
