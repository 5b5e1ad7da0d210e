"""Parts of a checkpoint to be: words or a memory in, a piece with its tokens out. Raises StoreUnavailable."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from uuid import UUID

from memory.checkpoints import StoredPart
from memory.errors import NotFound
from memory.stored import MemoryRecord
from policies.checkpoint import LABELS, Costs, Part, may_become
from policies.gate import Holder
from policies.labels import Integrity
from proxy.api.asking import Caller
from proxy.api.conversation_parts import Words
from proxy.api.memories import item_of
from proxy.api.parts import OwnParts
from proxy.gated import readable


@dataclass(frozen=True, slots=True)
class Piece(Costs):
    """A part to be kept: words that are to become a memory, or a memory that is there."""

    words: Words | None = None
    named: tuple[UUID, int] | None = None
    own: bool = False

    @property
    def key(self) -> object:
        """What makes two of them the same."""
        return self.named[0] if self.named else (self.part, self.words and self.words.text)


class Pieces:
    """Makes them."""

    def __init__(self, parts: OwnParts) -> None:
        self._parts = parts

    def of_words(self, words: Words) -> Piece:
        """Words that are to become a memory."""
        return Piece(words.part, self._cost(words.part, words.role, words.text), words=words)

    def of_memory(self, part: Part, record: MemoryRecord) -> Piece:
        """A memory that is there, as it is now."""
        cost = self._cost(part, record.role, record.content)
        return Piece(part, cost, named=(record.memory_id, record.version))

    def as_it_was(self, part: Part, one: StoredPart) -> Piece:
        """A part that a checkpoint has already."""
        cost = self._cost(part, one.role, one.content)
        return Piece(part, cost, named=(one.memory_id, one.current_version), own=one.own)

    def _cost(self, part: Part, role: str, content: str) -> int:
        """About the tokens of its item in a block."""
        return self._parts.checkpoints.counter.count(f"[{role}, {LABELS[part]}] {content}") + 1

    async def if_readable(self, caller: Caller, holder: Holder, part: Part, memory_id: UUID) -> list[Piece]:
        """A memory by its id; none where the caller may not read it, or a checkpoint not hold it."""
        try:
            record = await self._parts.records.memory(caller.scope, memory_id, now=caller.now)
        except NotFound:  # of a wider scope, or gone since
            return []
        shown = readable(holder, [record], partial(item_of, caller.scope))
        return [self.of_memory(part, one) for one in shown if may_become(part, Integrity(one.integrity))]
