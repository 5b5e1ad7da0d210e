"""What was set of memories by hand: a line of an export in, the same set of the memory that a copy of its turns made.

It goes the way of PATCH and DELETE: redaction, judgement, bounds, the gate and audit are those. It makes no memory, so
what was forgotten or refused here stays away; a file vouches for nothing: what addresses the model is refused, what is
held back stays so, whatever the line says of a review, and no label is lowered. What a person has set here is replaced
with `on_conflict=update` alone, and a rejection or a deletion not even then. Raises LineRefused, NotYet for a line
whose memory may come with turns behind it, what the calls raise.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from math import isclose
from typing import Any, Final
from uuid import UUID

from memory.edits import Counterpart
from memory.errors import NotFound
from memory.ids import id_in
from memory.model import OnConflict
from memory.stored import MemoryRecord
from policies.gate import filter_write
from policies.injection.judge import origin_of
from policies.labels import Integrity, Sensitivity
from policies.text import storable
from proxy.api.asking import Caller, holder_for, validated
from proxy.api.attributes import cleaned, words_of
from proxy.api.import_lines import LineRefused, NotYet
from proxy.api.memories import Memories, item_of
from proxy.api.parts import OwnParts
from proxy.api.schemas import MemoryPatch
from proxy.api.schemas_records import EditLine
from proxy.api.screening import require_quotable

FORGOTTEN: Final = "it was forgotten, and does not come back"
_CONFLICT: Final = "memory: somebody has changed it here by hand (send it with ?on_conflict=update to replace that)"
_HELD_BACK: Final = "memory: it is held back here until somebody confirms it here"
_MISSING: Final = "memory: nothing here was made of the same words of the same turns; change it here by hand"
_PRECISION: Final = 1e-5  # an export rounds an importance to six places


class EditTaker:
    """Takes the edits of one import. `copies`: by the ids that they had, the memories of records taken before."""

    def __init__(
        self, parts: OwnParts, caller: Caller, memories: Memories, on_conflict: OnConflict, copies: Mapping[UUID, UUID]
    ) -> None:
        self._parts = parts
        self._caller = caller
        self._memories = memories
        self._on_conflict = on_conflict
        self._copies = copies

    async def take(self, value: dict[str, Any]) -> None:
        """Take one."""
        line = validated(EditLine, value)
        here = await self._counterpart(line)
        if here is None and (line.edited.hidden or line.validation_status == "rejected"):
            return
        if here is None:
            raise NotYet(_MISSING)
        known = None if here.is_hidden else await self._known(line, here)
        asked = {} if known is None else await asyncio.to_thread(self._asked, line, known)
        if known is None or not (asked or line.edited.hidden):
            return
        if here.is_edited and self._on_conflict == "error":
            raise LineRefused(_CONFLICT)
        if line.edited.hidden:
            with suppress(NotFound):  # another import of the same was faster
                await self._memories.hidden(self._caller, known, known.version)
            return
        if known.quarantine_reason and asked.get("validation_status") == "confirmed":
            raise LineRefused(_HELD_BACK)
        await asyncio.to_thread(_refuse_instructions, asked, known)
        await self._memories.changed(self._caller, known, known.version, validated(MemoryPatch, asked))

    async def _known(self, line: EditLine, here: Counterpart) -> MemoryRecord | None:
        """The memory here as it stands, None past its end; one that the caller may not change looks like none."""
        parts, caller = self._parts, self._caller
        unless = await parts.forgets.unless(caller.scope, [UUID(line.id), here.memory_id], None, line.edited.at)
        if await parts.forgets.kept_away(caller.scope.tenant, unless):
            raise LineRefused(f"memory: {FORGOTTEN}")
        try:
            known = await parts.records.memory(caller.scope, here.memory_id, now=caller.now)
        except NotFound:
            return None
        if not filter_write(await holder_for(caller, parts.keys), item_of(caller.scope, known)).allowed:
            raise NotYet(_MISSING)
        return known

    async def _counterpart(self, line: EditLine) -> Counterpart | None:
        """The memory here that is the line's: by its id or that of its record's copy, else one of the same turns that
        has said the same.
        """
        own = UUID(line.id)
        ids = [own, self._copies.get(own, own)]
        # A turn without an id of its client's is called by its own, here or where it comes from.
        events = [named for one in (*line.event_ids, *line.source_ids) if (named := id_in(one)) is not None]
        found = await self._parts.edits.counterparts(self._caller.scope, line.kind, line.source_ids, events, ids)
        by_id = {one.memory_id: one for one in found}
        for memory_id in ids:
            if memory_id in by_id:
                return by_id[memory_id]
        alike = [one for one in found if line.kind == "episodic" or line.edited.learnt in one.learnt]
        return min(alike, key=lambda one: one.is_hidden, default=None)

    def _asked(self, line: EditLine, known: MemoryRecord) -> dict[str, Any]:
        """The members of a change that makes what is known what the line says; none where it is."""
        redactor, members = self._parts.redactor, line.edited.members
        asked: dict[str, Any] = {"pinned": line.pinned} if line.pinned != known.pinned else {}
        if "content" in members and redactor.redact(storable(line.content)).text != known.content:
            asked["content"] = line.content
        if "importance" in members and not isclose(line.importance, known.importance, abs_tol=_PRECISION):
            asked["importance"] = line.importance
        if "sensitivity" in members and Sensitivity(line.sensitivity).rank > Sensitivity(known.sensitivity).rank:
            asked["sensitivity"] = line.sensitivity
        if "validation_status" in members and known.validation_status not in ("rejected", line.validation_status):
            asked["validation_status"] = line.validation_status
        if "expires_at" in members and line.expires_at != known.expires_at:
            asked["expires_at"] = line.expires_at
        names = line.edited.attributes
        kept = {name: value for name, value in known.attributes.items() if name not in names}
        attributes = kept | {name: line.attributes[name] for name in names if name in line.attributes}
        if names and cleaned(attributes, known.attributes, redactor) != known.attributes:
            asked["attributes"] = attributes
        return asked


def _refuse_instructions(asked: Mapping[str, Any], known: MemoryRecord) -> None:
    said = f"{asked.get('content', '')}\n{words_of(asked.get('attributes', {}), known.attributes)}"
    origin = origin_of(Integrity(known.integrity))
    require_quotable(said, origin, "the line addresses", instead="where it is meant so, change it by hand", param=None)
