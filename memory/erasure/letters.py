"""Entries of the queue: one that is sealed in, whether it goes with what is to be forgotten out.

What waits goes where it is of a user, a project or a conversation that goes; of what else is forgotten it is stored
without. A dead letter, which is kept for as long as nobody replays it, goes also where it holds some of it: in its
history, in a block that it was given (another's too, of a copy that was shared), in a line of an import. Raises
StoreUnavailable.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from memory import payload
from memory.envelope import Binding, key_id_of, unseal
from memory.erasure.model import Target
from memory.errors import EnvelopeUnreadable
from memory.keys import KeyRing
from memory.model import Captured, ImportChunk, Scope, TombstoneKind
from memory.ports import Entry
from memory.write.tombstones import called, memory_marks, session_digest, turn_digests


@dataclass(frozen=True, slots=True)
class Letters:
    """Tells what goes with a target that was to go `at` this time. `subject`: that of a user who goes; `marks`: the
    tombstones of all that goes.
    """

    keys: KeyRing
    target: Target
    subject: UUID | None
    at: datetime
    marks: frozenset[tuple[TombstoneKind, bytes]]

    async def goes(self, entry: Entry, is_dead: bool) -> bool:
        """Whether this one goes; what came later stays."""
        try:
            said = await self._opened(entry)
        except EnvelopeUnreadable:
            return entry.subject_id == self.subject
        if said.arrived_at > self.at:
            return False
        label = said.session.label if isinstance(said, Captured) else None
        if _covers(self.target, said.scope, label):
            return True
        return is_dead and await self._holds_some(entry.tenant_id, said)

    async def _opened(self, entry: Entry) -> Captured | ImportChunk:
        key = await self.keys.by_id(entry.tenant_id, key_id_of(entry.envelope))
        purpose: Any = entry.kind
        raw = unseal(key, Binding(entry.tenant_id, entry.subject_id, entry.exchange_id, purpose), entry.envelope)
        return payload.unpack_import(raw) if entry.kind == "import" else payload.unpack_captured(raw)

    async def _holds_some(self, tenant: UUID, said: Captured | ImportChunk) -> bool:
        content_key = await self.keys.content_key(tenant)
        held = _of_lines(content_key, said) if isinstance(said, ImportChunk) else _of_history(content_key, said)
        return not self.marks.isdisjoint(held)


def _of_lines(content_key: bytes, chunk: ImportChunk) -> Iterator[tuple[TombstoneKind, bytes]]:
    """What the lines of an import are known by. They have no place in a chain yet."""
    for line in chunk.lines:
        yield "session", session_digest(content_key, chunk.scope, line.session_label)
        names = called(line.source_id, line.line_digest)
        yield from turn_digests(content_key, chunk.scope.user, line.content, names, b"")


def _of_history(content_key: bytes, captured: Captured) -> Iterator[tuple[TombstoneKind, bytes]]:
    """What the messages of a request are known by, and the memories that its blocks quote."""
    for chain in captured.digests:
        if chain is not None:
            yield from turn_digests(content_key, captured.scope.user, "", (), chain)
    for block in captured.retrieval.placed if captured.retrieval is not None else ():
        yield from memory_marks(content_key, block.memory_ids)


def _covers(target: Target, scope: Scope, label: str | None) -> bool:
    if target.kind == "user":
        return scope.user == target.value
    if target.kind == "project":
        return scope.project == target.value
    return target.kind == "session" and scope == target.scope and label == target.value
