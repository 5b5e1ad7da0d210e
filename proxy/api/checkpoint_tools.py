"""The tools for checkpoints: what an agent keeps, lists and reads goes the way of `/memory/v1/checkpoints`.

What a tool writes is the assistant's, so it becomes notes and no goal; what it is given are quotations. Each call
leaves an audit row and a record. Raises what the calls of checkpoints raise.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from aiohttp import web

from memory.assemble import marked
from policies.injection.render import harmless
from policies.labels import Integrity
from proxy.api.answers import said
from proxy.api.asking import as_id, body_as, validated
from proxy.api.checkpoints import Checkpoints, kept_name
from proxy.api.parts import OwnParts
from proxy.api.schemas_checkpoint import (
    BranchAsked,
    CheckpointAsked,
    CheckpointDiffSaid,
    CheckpointListed,
    CheckpointSaid,
    PartSaid,
)
from proxy.api.schemas_checkpoint_tools import (
    CHECKPOINTS_DEFAULT,
    CheckpointBranchArguments,
    CheckpointDeleteArguments,
    CheckpointDeleteToolSaid,
    CheckpointDiffArguments,
    CheckpointDiffToolSaid,
    CheckpointListArguments,
    CheckpointListToolSaid,
    CheckpointLoadArguments,
    CheckpointSaveArguments,
    CheckpointToolSaid,
)
from proxy.api.tool_calls import MORE, kept_call, tool_caller
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
            "checkpoint_diff": self.diff,
            "checkpoint_branch": self.branch,
            "checkpoint_delete": self.delete,
        }

    async def save(self, request: web.Request) -> web.Response:
        """Keep where the work stands, with the assistant's notes; of the conversation, where the request names one."""
        tool = "checkpoint_save"
        caller = tool_caller(request, self._parts, tool)
        asked = await body_as(request, CheckpointSaveArguments)
        body = validated(CheckpointAsked, {"name": asked.name, "notes": asked.notes, "trim": True})
        made = await self._checkpoints.saved(caller, body, Integrity.ASSISTANT)
        kept = await kept_call(self._parts, tool, asked, caller, [as_id(made.id, KIND)])
        return said(CheckpointToolSaid(tool=tool, text=saved(made), retrieval=kept, checkpoint=made))

    async def load(self, request: web.Request) -> web.Response:
        """What one holds, as quotations."""
        tool = "checkpoint_load"
        caller = tool_caller(request, self._parts, tool)
        asked = await body_as(request, CheckpointLoadArguments)
        found = await self._checkpoints.named(caller, asked.name)
        kept = await kept_call(self._parts, tool, asked, caller, [as_id(found.id, KIND)])
        text = loaded(found.parts)
        return said(CheckpointToolSaid(tool=tool, text=text, retrieval=kept, checkpoint=found))

    async def list(self, request: web.Request) -> web.Response:
        """The checkpoints, newest first."""
        tool = "checkpoint_list"
        caller = tool_caller(request, self._parts, tool)
        asked = await body_as(request, CheckpointListArguments)
        found, more = await self._checkpoints.listed(caller, asked.k or CHECKPOINTS_DEFAULT)
        ids = [as_id(one.id, KIND) for one in found]
        kept = await kept_call(self._parts, tool, asked, caller, ids)
        text = "\n".join([*map(_line, found), *([MORE] if more else [])]) or NONE
        return said(CheckpointListToolSaid(tool=tool, text=text, retrieval=kept, checkpoints=[*found]))

    async def diff(self, request: web.Request) -> web.Response:
        """How two differ, or two versions of one, as quotations."""
        tool = "checkpoint_diff"
        caller = tool_caller(request, self._parts, tool)
        asked = await body_as(request, CheckpointDiffArguments)
        name, other = (kept_name(one, caller) for one in (asked.name, asked.other or asked.name))
        found = await self._checkpoints.compared(caller, (name, asked.version), (other, asked.other_version))
        ids = [as_id(one, KIND) for one in dict.fromkeys((found.id, found.with_id))]
        kept = await kept_call(self._parts, tool, asked, caller, ids)
        text = _differences(found)
        return said(CheckpointDiffToolSaid(tool=tool, text=text, retrieval=kept, difference=found))

    async def branch(self, request: web.Request) -> web.Response:
        """Another name for what one holds now; of another project where the key may."""
        tool = "checkpoint_branch"
        caller = tool_caller(request, self._parts, tool)
        asked = await body_as(request, CheckpointBranchArguments)
        body = BranchAsked(name=asked.new_name, from_project=asked.from_project)
        made = await self._checkpoints.branched(caller, kept_name(asked.name, caller), body)
        kept = await kept_call(self._parts, tool, asked, caller, [as_id(made.id, KIND)])
        return said(CheckpointToolSaid(tool=tool, text=saved(made), retrieval=kept, checkpoint=made))

    async def delete(self, request: web.Request) -> web.Response:
        """Hide one; a person can bring it back."""
        tool = "checkpoint_delete"
        caller = tool_caller(request, self._parts, tool)
        asked = await body_as(request, CheckpointDeleteArguments)
        gone = await self._checkpoints.deleted(caller, kept_name(asked.name, caller))
        kept = await kept_call(self._parts, tool, asked, caller, [as_id(gone.id, KIND)])
        text = f"Checkpoint {harmless(gone.name)} is hidden; it can be shown again until {gone.undo_until:%Y-%m-%d}."
        return said(CheckpointDeleteToolSaid(tool=tool, text=text, retrieval=kept, checkpoint=gone))


def saved(made: CheckpointSaid) -> str:
    """What is kept, and of what was left out how much."""
    left = f" {made.trimmed} parts were left out." if made.trimmed else ""
    return f"Kept as checkpoint {harmless(made.name)}, version {made.version}, with {len(made.parts)} parts.{left}"


def loaded(parts: Sequence[PartSaid]) -> str:
    """What a checkpoint holds, as quotations, and of what is not given how much and why."""
    lines = [_part(one) for one in parts if not one.state]
    left = Counter(one.state for one in parts if one.state)
    why = f"Left out: {', '.join(f'{count} {state}' for state, count in left.items())}." if left else ""
    if not lines:
        return f"Nothing of it may be given now. {why}".rstrip()
    return (FRAME + "".join(lines) + why).rstrip("\n")


def _part(one: PartSaid) -> str:
    return _quoted("-", one.part, one.integrity, one.content)


def _line(one: CheckpointListed) -> str:
    return f"- {harmless(one.name)} (version {one.version}, {one.parts} parts, {one.changed_at:%Y-%m-%d})"


def _differences(found: CheckpointDiffSaid) -> str:
    """What there is on one side only, as quotations: - is what was, + what is."""
    lines = [_quoted("-", one.part, one.integrity, one.content) for one in found.removed]
    lines += [_quoted("+", one.part, one.integrity, one.content) for one in found.added]
    for one in found.changed:
        lines.append(_quoted("-", one.part, one.integrity_before, one.before))
        lines.append(_quoted("+", one.part, one.integrity_after, one.after))
    same = f"{found.same} parts are the same."
    return FRAME + "".join([*lines, same]) if lines else f"They do not differ; {same}"


def _quoted(sign: str, part: str, integrity: str, content: str) -> str:
    """A part that no words of its own can make look like another, with its line end."""
    return f"{sign} {part} ({integrity}): {marked(content)}"
