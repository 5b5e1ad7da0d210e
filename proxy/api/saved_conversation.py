"""A conversation as a checkpoint keeps it: a session and who asks in, what it says of itself now out, as pieces.

What it was given, what it taught and what it left undone, each as far as the caller may read it. Raises
StoreUnavailable.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from dataclasses import replace
from functools import partial
from typing import Final
from uuid import UUID

from memory.errors import MemoryProxyFault, NotFound
from memory.stored import MemoryRecord, SessionRecord
from policies.checkpoint import Part, may_become
from policies.gate import Holder, Item
from policies.labels import Integrity, Sensitivity, derived_integrity, derived_sensitivity
from policies.task import OPEN
from proxy.api.asking import Caller
from proxy.api.conversation_parts import Words, words_of
from proxy.api.memories import item_of
from proxy.api.parts import OwnParts
from proxy.api.pieces import Piece, Pieces
from proxy.gated import readable

# How long a save waits for what was said a moment ago to be stored: the answer leaves before that.
_SETTLE_S: Final = 2.0
_SETTLE_STEP_S: Final = 0.05


class Conversations:
    """Reads what they say of themselves."""

    def __init__(self, parts: OwnParts, pieces: Pieces) -> None:
        self._parts = parts
        self._pieces = pieces

    async def pieces(
        self, caller: Caller, holder: Holder, session: SessionRecord, wanted: Collection[Part]
    ) -> list[Piece]:
        """What a conversation says of itself now, as far as this caller may see it."""
        spoken = await self._quoted(caller, holder, session)
        if "summary" in wanted and session.summary_memory_id is not None:
            spoken += await self._summary(caller, holder, session.summary_memory_id)
        pieces = [self._pieces.of_words(one) for one in spoken if one.part in wanted]
        facts = await self._learnt(caller, holder, session.session_id)
        pieces += [self._pieces.of_memory(part, one) for one in facts if (part := _part_of(one)) in wanted]
        if "task" in wanted:
            pieces += await self._pending(caller, holder, session.session_id)
        known = {one.memory_id for one in facts}
        pieces += [
            piece for piece in await self._placed(caller, holder, session.session_id, known) if piece.part in wanted
        ]
        if "preference" in wanted:
            pieces += await self._pinned(caller, holder)
        return pieces

    async def _quoted(self, caller: Caller, holder: Holder, session: SessionRecord) -> list[Words]:
        """Goal, plan, questions left open and calls without an answer, each with the labels of its turns."""
        if self._parts.working is None:
            return []
        context = await self._parts.working.of(caller.scope, session.session_id)
        found = words_of(context) if context is not None else []
        sources = sorted({event_id for one in found for event_id in one.sources})
        labels = await self._parts.checkpoints.store.turn_labels(caller.scope, sources)
        kept = []
        for one in found:
            if not all(event_id in labels for event_id in one.sources):
                continue
            integrity = derived_integrity(Integrity(labels[event_id][0]) for event_id in one.sources)
            sensitivity = derived_sensitivity(Sensitivity(labels[event_id][1]) for event_id in one.sources)
            if may_become(one.part, integrity):
                kept.append(replace(one, integrity=integrity, sensitivity=sensitivity))
        item = partial(_item_of_words, caller, session.session_id)
        return list(readable(holder, kept, item))

    async def _summary(self, caller: Caller, holder: Holder, memory_id: UUID) -> list[Words]:
        try:
            record = await self._parts.records.memory(caller.scope, memory_id, now=caller.now)
        except NotFound:
            return []
        shown = readable(holder, [record], partial(item_of, caller.scope))
        return [
            Words(
                "summary",
                one.content,
                "summary",
                Integrity(one.integrity),
                Sensitivity(one.sensitivity),
                one.event_ids,
                one.occurred_at,
            )
            for one in shown
        ]

    async def _learnt(self, caller: Caller, holder: Holder, session_id: UUID) -> list[MemoryRecord]:
        """The newest facts that were learnt in it and hold, and its files; its tasks are told of by themselves."""
        page = await self._parts.records.memories(
            caller.scope, limit=200, kind="semantic", session_id=session_id, now=caller.now
        )
        holding = [one for one in page.rows if _holds(one) and one.collection != "task"]
        return list(readable(holder, holding, partial(item_of, caller.scope)))[
            : self._parts.checkpoints.bounds.facts_max
        ]

    async def _pending(self, caller: Caller, holder: Holder, session_id: UUID) -> list[Piece]:
        """The tasks that came from it and are open, by reference."""
        most = self._parts.checkpoints.bounds.facts_max
        page = await self._parts.tasks.page(caller.scope, limit=most, statuses=sorted(OPEN), session_id=session_id)
        ids = [one.memory_id for one in page.rows]
        return [piece for one in ids for piece in await self._pieces.if_readable(caller, holder, "task", one)]

    async def _placed(self, caller: Caller, holder: Holder, session_id: UUID, known: Collection[UUID]) -> list[Piece]:
        """Facts of other conversations and documents that it was given."""
        found = await self._parts.checkpoints.store.placed(
            caller.scope, session_id, self._parts.checkpoints.bounds.parts_max
        )
        ids = [(memory_id, kind) for memory_id, kind, _ in found if memory_id not in known]
        pieces: list[Piece] = []
        for memory_id, kind in ids:
            part: Part = "document" if kind == "document" else "fact"
            if (
                part == "fact"
                and len(known) + sum(one.part == "fact" for one in pieces) >= self._parts.checkpoints.bounds.facts_max
            ):
                continue
            pieces += await self._pieces.if_readable(caller, holder, part, memory_id)
        return pieces

    async def _pinned(self, caller: Caller, holder: Holder) -> list[Piece]:
        found = await self._parts.checkpoints.store.pinned(caller.scope, self._parts.checkpoints.bounds.facts_max)
        ids = [memory_id for memory_id, _ in found]
        return [piece for one in ids for piece in await self._pieces.if_readable(caller, holder, "preference", one)]

    async def settle(self) -> None:
        """Wait a moment for what was captured to be stored; what takes longer is not in the checkpoint."""
        try:
            async with asyncio.timeout(_SETTLE_S):
                while True:
                    depth = await self._parts.queue.depth()
                    if depth.pending + depth.in_flight + self._parts.hand_off.held() == 0:
                        return
                    await asyncio.sleep(_SETTLE_STEP_S)
        except (TimeoutError, MemoryProxyFault):
            return  # what is stored by now is what there is


def _part_of(one: MemoryRecord) -> Part:
    """What a memory of the conversation is taken as: a file as a document, by reference."""
    return "document" if one.collection == "artifact" else "fact"


def _item_of_words(caller: Caller, session_id: UUID, words: Words) -> Item:
    return Item(caller.scope.tenant, words.sensitivity, session_id=session_id)


def _holds(record: MemoryRecord) -> bool:
    quarantined = record.quarantine_reason is not None
    return record.superseded_by is None and not quarantined and record.validation_status != "rejected"
