"""Facts and procedures of turns, by rules and with vectors: turns in, what they say out. Raises EmbedderUnavailable."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from memory.model import NewFact, NewProcedure, Turn
from memory.ports import Embedder
from memory.write.embedding import embedded, ending
from memory.write.procedures import embedded_procedures
from memory.write.windows import TextTokenizer
from policies.lifetime import DaysOf


@dataclass(frozen=True, slots=True)
class Learning:
    """Takes out what the write path would have."""

    find_facts: Callable[[Sequence[Turn]], list[NewFact]]
    find_procedures: Callable[[Sequence[Turn]], list[NewProcedure]]
    embedder: Embedder
    windows: TextTokenizer
    lives: DaysOf
    clock: Callable[[], datetime]

    async def facts(self, turns: Sequence[Turn]) -> tuple[NewFact, ...]:
        """What these turns state."""
        found = await asyncio.to_thread(self.find_facts, turns)
        made = await embedded([fact.memory for fact in found], self.embedder, self.windows)
        lasting = ending(made, self.clock(), self.lives)
        return tuple(replace(fact, memory=memory) for fact, memory in zip(found, lasting, strict=True))

    async def procedures(self, turns: Sequence[Turn]) -> tuple[NewProcedure, ...]:
        """What these turns teach."""
        found = await asyncio.to_thread(self.find_procedures, turns)
        made = await embedded_procedures([one.memory for one in found], self.embedder, self.windows)
        lasting = ending(made, self.clock(), self.lives)
        return tuple(replace(one, memory=memory) for one, memory in zip(found, lasting, strict=True))
