"""The tools for checkpoints: what an agent keeps, lists and reads goes the way of `/memory/v1/checkpoints`.

What a tool writes is the assistant's, so it becomes notes and no goal; what it is given are quotations. Each call
leaves an audit row and a record. Raises what the calls of checkpoints raise.
"""

from __future__ import annotations

from typing import Final

from aiohttp import web

from policies.injection.render import harmless
from policies.labels import Integrity
from proxy.api.answers import said
from proxy.api.asking import as_id, body_as, validated
from proxy.api.checkpoints import Checkpoints
from proxy.api.parts import OwnParts
from proxy.api.schemas_checkpoint import CheckpointAsked, CheckpointListed, PartSaid
from proxy.api.schemas_checkpoint_tools import (
    CHECKPOINTS_DEFAULT,
    CheckpointListArguments,
    CheckpointListToolSaid,
    CheckpointLoadArguments,
    CheckpointSaveArguments,
    CheckpointToolSaid,
)
from proxy.api.tool_calls import kept_call, tool_caller
from proxy.api.tool_words import FRAME

KIND: Final = "checkpoint"
NONE: Final = "There are no checkpoints."


class CheckpointTools:
    """The handlers, by name in `handlers`."""

    def __init__(self, parts: OwnParts, checkpoints: Checkpoints) -> None:
        self._parts = parts
        self._checkpoints = checkpoints
        self.handlers: Final = {
            "checkpoint_save": self.save,
            "checkpoint_load": self.load,
            "checkpoint_list": self.list,
        }

    async def save(self, request: web.Request) -> web.Response:
        """Keep where the work stands, with the assistant's notes; of the conversation, where the request names one."""
        caller = tool_caller(request, self._parts, "memory:write")
        asked = await body_as(request, CheckpointSaveArguments)
        body = validated(CheckpointAsked, {"name": asked.name, "notes": asked.notes, "trim": True})
        made = await self._checkpoints.saved(caller, body, Integrity.ASSISTANT)
        kept = await kept_call(self._parts, "checkpoint_save", asked, caller, [as_id(made.id, KIND)])
        text = f"Kept as checkpoint {harmless(made.name)}, version {made.version}, with {len(made.parts)} parts."
        return said(CheckpointToolSaid(tool="checkpoint_save", text=text, retrieval=kept, checkpoint=made))

    async def load(self, request: web.Request) -> web.Response:
        """What one holds, as quotations."""
        caller = tool_caller(request, self._parts, "memory:read:own")
        asked = await body_as(request, CheckpointLoadArguments)
        found = await self._checkpoints.named(caller, asked.name)
        kept = await kept_call(self._parts, "checkpoint_load", asked, caller, [as_id(found.id, KIND)])
        lines = [_part(one) for one in found.parts if not one.state]
        text = FRAME + "\n".join(lines) if lines else "Nothing of it may be given now."
        return said(CheckpointToolSaid(tool="checkpoint_load", text=text, retrieval=kept, checkpoint=found))

    async def list(self, request: web.Request) -> web.Response:
        """The checkpoints, newest first."""
        caller = tool_caller(request, self._parts, "memory:read:own")
        asked = await body_as(request, CheckpointListArguments)
        found = await self._checkpoints.listed(caller, asked.k or CHECKPOINTS_DEFAULT)
        ids = [as_id(one.id, KIND) for one in found]
        kept = await kept_call(self._parts, "checkpoint_list", asked, caller, ids)
        text = "\n".join(map(_line, found)) or NONE
        return said(CheckpointListToolSaid(tool="checkpoint_list", text=text, retrieval=kept, checkpoints=[*found]))


def _part(one: PartSaid) -> str:
    return f"- {one.part} ({one.integrity}): {harmless(one.content)}"


def _line(one: CheckpointListed) -> str:
    return f"- {harmless(one.name)} (version {one.version}, {one.parts} parts, {one.changed_at:%Y-%m-%d})"
