"""What the tools share: who calls in, the record and the audit row of a call out."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Final
from uuid import UUID

from aiohttp import web

from memory.errors import MemoryProxyFault
from memory.read.conversation import session_ref
from proxy.api.asking import Caller, caller_of, parameters
from proxy.api.parts import OwnParts
from proxy.api.schemas import Asked
from proxy.api.tool_record import SESSION, ToolCall
from proxy.api.tool_table import TOOLS

MORE: Final = "There are more than these."
_CAPABILITY: Final = {tool.name: tool.capability for tool in TOOLS}


def tool_caller(request: web.Request, parts: OwnParts, tool: str) -> Caller:
    """Who calls a tool, which takes no parameters. Raises as `caller_of`."""
    caller = caller_of(request, parts.door, _CAPABILITY[tool])
    parameters(request, ())
    return caller


async def kept_call(parts: OwnParts, tool: str, asked: Asked, caller: Caller, ids: Sequence[UUID]) -> str | None:
    """The record of a call; None where it cannot be kept, which does not keep the answer back."""
    scope, recorded = caller.scope, False
    call: ToolCall | None = None
    with suppress(MemoryProxyFault):
        session = session_ref(await parts.keys.chain_key(scope.tenant), scope, caller.ask.session or SESSION)
        call = ToolCall.of(tool, asked, scope, session, caller.now)
        await parts.tool_records.keep(call)
        recorded = True
    named, detail = [*([call.retrieval_id] if call else []), *ids], {"recorded": recorded}
    parts.journal.note(scope.tenant, caller.actor, f"tool.{tool}", ids=named, detail=detail)
    return str(call.retrieval_id) if call and recorded else None
