"""`GET /memory/v1/tools` and `POST /memory/v1/tools/{name}`: a tool's arguments in, its answer in words and values out.

Each call goes the way of the API's own calls (the gate, the limits, recall, erasure), leaves a row in the audit log and
a record that `retrievals/{id}` and `replay/{id}` show; an erasure leaves its receipt instead, since a record would keep
the words that are to go. What a tool wants kept is the assistant's, whoever calls it: it states no preference and
teaches no procedure, and what it corrects is hidden, never reworded. Raises Unprocessable, NotFound, Conflict,
CapabilityMissing, ScopeDenied, TimedOut, StoreUnavailable.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Final
from uuid import UUID

from aiohttp import web

from memory.audit import noted
from memory.errors import Conflict, MemoryProxyFault, NotFound, StoreUnavailable, Unprocessable
from memory.read.conversation import session_ref
from memory.stored import MemoryRecord
from policies.gate import Item
from policies.hygiene import is_junk
from policies.labels import Sensitivity, is_sealed
from policies.text import storable
from proxy.api import schemas_tools as bodies
from proxy.api import tool_words as words
from proxy.api.answers import dumped, said
from proxy.api.asking import Caller, admitted, as_id, body_as, holder_for, parameters, validated
from proxy.api.attributes import require_not_of_record
from proxy.api.forget import Forget
from proxy.api.memories import item_of
from proxy.api.parts import OwnParts
from proxy.api.retrievals import Retrievals
from proxy.api.schemas import Asked
from proxy.api.schemas_forget import ForgetAsked, ForgetPlanned, ForgetWaits
from proxy.api.schemas_search import SearchAsked
from proxy.api.search import Search
from proxy.api.sessions import Labels
from proxy.api.tool_calls import tool_caller
from proxy.api.tool_record import SESSION, STATUS, ToolCall
from proxy.api.tool_table import openai_definitions
from proxy.gated import require_writable

STORED_S: Final = 10.0
_ASK_EVERY_S: Final = 0.05
_BODY: Final = dumped(bodies.ToolList(data=openai_definitions()).model_dump(mode="json"))


class Tools:
    """The handlers of the tools, by name in `handlers`."""

    def __init__(self, parts: OwnParts, labels: Labels, search: Search, forget: Forget, retrievals: Retrievals) -> None:
        self._parts = parts
        self._labels = labels
        self._search = search
        self._forget = forget
        self._retrievals = retrievals
        self.handlers: Final = {
            "memory_search": self.search,
            "memory_remember": self.remember,
            "memory_correct": self.correct,
            "memory_forget": self.forget,
            "memory_why": self.why,
        }

    async def list(self, request: web.Request) -> web.Response:
        """The definitions, always the same bytes."""
        admitted(request, self._parts.door)
        parameters(request, ())
        return web.Response(body=_BODY, content_type="application/json")

    async def search(self, request: web.Request) -> web.Response:
        """What is near to a question. A record that cannot be kept does not keep the answer back."""
        tool = "memory_search"
        caller = tool_caller(request, self._parts, tool)
        asked = await body_as(request, bodies.MemorySearchArguments)
        call = await self._call(tool, asked, caller)
        members = asked.model_dump(exclude={"k"}, exclude_none=True)
        recall = await self._search.recalled(caller, SearchAsked(k=asked.k or bodies.K_DEFAULT, **members), why=tool)
        call = replace(
            call, query=storable(asked.query), found=recall.candidates, rung=recall.rung, millis=recall.millis
        )
        kept = True
        try:
            await self._parts.tool_records.keep(call)
        except MemoryProxyFault:
            kept = False
        self._note(caller, tool, [call.retrieval_id], recorded=kept)
        sessions = await self._labels.of(caller.scope, (one.session_id for one in recall.candidates))
        found = [
            words.found(one, sessions.get(one.session_id) if one.session_id else None) for one in recall.candidates
        ]
        return said(
            bodies.MemorySearchSaid(
                tool=tool,
                text=words.search_words(recall.candidates, recall.rung),
                retrieval=str(call.retrieval_id) if kept else None,
                memories=found,
            )
        )

    async def remember(self, request: web.Request) -> web.Response:
        """Keep a statement as the assistant's; answered when it is searchable, or durable and slow."""
        tool = "memory_remember"
        caller = tool_caller(request, self._parts, tool)
        asked = await body_as(request, bodies.MemoryRememberArguments)
        call = await self._saying(tool, asked, caller, asked.content)
        record = await self._remembered(call)
        self._note(caller, tool, [call.retrieval_id, call.memory_id])
        return said(_remember_said(call, record), 200 if record else 202)

    async def correct(self, request: web.Request) -> web.Response:
        """Keep a statement as the assistant's, then hide the memory that it corrects. The new one comes first, so that
        nothing is lost between the two; where it is held back or late, the old one stands.
        """
        tool = "memory_correct"
        caller = tool_caller(request, self._parts, tool)
        asked = await body_as(request, bodies.MemoryCorrectArguments)
        wrong = as_id(asked.memory, "memory")
        await self._refuse_uncorrectable(caller, wrong, asked.version)
        call = await self._saying(tool, asked, caller, asked.content)
        record = await self._remembered(call)
        replaced = record is not None and not record.quarantine_reason
        if replaced:
            await self._hide(caller, call, wrong, asked.version)
        self._note(caller, tool, [call.retrieval_id, call.memory_id, wrong])
        kept = _remember_said(call, record)
        text = words.correct_words(kept.text, wrong, replaced=replaced)
        more = {"text": text, "replaced": str(wrong) if replaced else None}
        made = bodies.MemoryCorrectSaid(**{**kept.model_dump(), **more})
        return said(made, 200 if record else 202)

    async def forget(self, request: web.Request) -> web.Response:
        """Count what would go; with `confirm` erase exactly that."""
        tool = "memory_forget"
        caller = tool_caller(request, self._parts, tool)
        asked = await body_as(request, bodies.MemoryForgetArguments)
        target = {**asked.model_dump(exclude_none=True), "dry_run": asked.confirm is None}
        answer = await self._forget.forgotten(caller, validated(ForgetAsked, target))
        self._note(caller, tool, [], dry_run=asked.confirm is None)
        planned = answer if isinstance(answer, ForgetPlanned) else None
        waits = answer if isinstance(answer, ForgetWaits) else None
        receipt = None if planned or waits else dict(answer)
        made = bodies.MemoryForgetSaid(
            tool=tool,
            text=words.forget_words(answer),
            retrieval=None,
            counts=planned.counts if planned else receipt["counts"] if receipt else {},
            sample_ids=planned.sample_ids if planned else [],
            confirm=planned.confirm if planned else None,
            receipt=receipt,
            erasure=waits.id if waits else None,
        )
        return said(made, 202 if waits else 200)

    async def why(self, request: web.Request) -> web.Response:
        """What an answer or a search was given."""
        tool = "memory_why"
        caller = tool_caller(request, self._parts, tool)
        asked = await body_as(request, bodies.MemoryWhyArguments)
        record = await self._retrievals.told(caller, as_id(asked.retrieval, "retrieval"))
        self._note(caller, tool, [as_id(record.id, "retrieval")])
        memories = [words.given(one, tool=record.status == STATUS) for one in record.candidates]
        return said(
            bodies.MemoryWhySaid(
                tool=tool,
                text=words.why_words(record, memories),
                retrieval=record.id,
                query=record.query,
                block=record.block,
                created_at=record.created_at,
                memories=memories,
            )
        )

    # ------------------------------------------------------------ steps

    async def _call(self, tool: str, asked: Asked, caller: Caller) -> ToolCall:
        chain_key = await self._parts.keys.chain_key(caller.scope.tenant)
        session = session_ref(chain_key, caller.scope, caller.ask.session or SESSION)
        return ToolCall.of(tool, asked, caller.scope, session, caller.now)

    async def _saying(self, tool: str, asked: Asked, caller: Caller, content: str) -> ToolCall:
        """A call that wants this kept. Raises Unprocessable for words that say nothing, what the gate raises."""
        text = storable(content)
        if is_junk(text):
            raise Unprocessable("content says nothing to remember; send one statement in words", param="content")
        call = await self._call(tool, asked, caller)
        holder = await holder_for(caller, self._parts.keys)
        item = Item(caller.scope.tenant, Sensitivity.PUBLIC, session_id=call.session.session_id)
        require_writable(holder, item, "scope")
        return replace(call, says=text)

    async def _remembered(self, call: ToolCall) -> MemoryRecord | None:
        """Keep it and wait until it is stored; None where it is durable and takes longer than STORED_S. Raises
        StoreUnavailable where it is not durable, Unprocessable where the law took nothing of it.
        """
        await self._parts.tool_records.keep(call)
        until = time.monotonic() + STORED_S
        while time.monotonic() < until:
            try:
                await self._parts.records.sealed_exchange(call.scope, call.exchange_id)
            except (NotFound, StoreUnavailable):  # not yet, or not to be seen now: it is durable all the same
                await asyncio.sleep(_ASK_EVERY_S)
                continue
            try:
                return await self._parts.records.memory(call.scope, call.memory_id)
            except NotFound as none:
                raise Unprocessable(
                    "nothing of it is kept: it was forgotten before, or nothing is left of it without its secrets",
                    param="content",
                ) from none
            except StoreUnavailable:
                continue
        return None

    async def _refuse_uncorrectable(self, caller: Caller, memory: UUID, version: int) -> None:
        """Raise, before anything is kept, what makes this memory one that the caller cannot correct so."""
        known = await self._parts.records.memory(caller.scope, memory, now=caller.now)
        require_writable(await holder_for(caller, self._parts.keys), item_of(caller.scope, known), "memory")
        require_not_of_record(known, {"content"})
        if known.version != version:
            raise Conflict(f"the memory is at version {known.version}, the correction was made from {version}")
        if is_sealed(Sensitivity(known.sensitivity)):
            raise Unprocessable(
                f"this memory is {known.sensitivity}, and a tool's words are internal: correct it with PATCH, which "
                "keeps its label",
                param="memory",
            )

    async def _hide(self, caller: Caller, call: ToolCall, memory: UUID, version: int) -> None:
        """Hide what was corrected; where somebody changed it meanwhile the new one goes again. Raises Conflict,
        NotFound.
        """
        records, scope = self._parts.records, caller.scope
        note = noted(scope.tenant, caller.actor, "memory.delete", why="corrected", ids=[memory, call.memory_id])
        try:
            await records.delete_memory(scope, memory, caller.now, version=version, note=note)
        except (Conflict, NotFound):
            await records.delete_memory(scope, call.memory_id, caller.now)
            raise
        finally:
            await self._parts.tells.changed(scope)

    def _note(self, caller: Caller, tool: str, ids: Sequence[UUID], **detail: bool) -> None:
        """Leave an audit row of a call: what was called, by whom, on which ids; never with which words."""
        self._parts.journal.note(caller.scope.tenant, caller.actor, f"tool.{tool}", ids=ids, detail=detail)


def _remember_said(call: ToolCall, record: MemoryRecord | None) -> bodies.MemoryRememberSaid:
    held_back = (record.quarantine_reason or None) if record else None
    return bodies.MemoryRememberSaid(
        tool=call.tool,
        text=words.remember_words(call.memory_id, stored=record is not None, held_back=held_back),
        retrieval=str(call.retrieval_id),
        id=str(call.memory_id),
        version=record.version if record else 1,
        session=call.session.label,
        integrity=record.integrity if record else "assistant",
        stored=record is not None,
        held_back=held_back,
    )
