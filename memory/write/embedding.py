"""Memories without vectors in, the same as they are born out: with vectors, and with their end.

Raises EmbedderUnavailable. Changes nothing else of a memory.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from memory.model import NewMemory
from memory.ports import Embedder
from memory.write.windows import TextTokenizer, dated, split_windows
from policies.lifetime import DaysOf, expires_at


async def embedded(
    memories: Sequence[NewMemory], embedder: Embedder, tokenizer: TextTokenizer
) -> tuple[NewMemory, ...]:
    """The memories, each split where it is longer than the model reads: 1 ms for some 5 kB, so off the event loop."""
    windows = await asyncio.to_thread(lambda: [tuple(split_windows(one.content, tokenizer)) for one in memories])
    texts = [
        dated(memory.content[start:end], memory.occurred_at)
        for memory, ranges in zip(memories, windows, strict=True)
        for start, end in ranges
    ]
    if not texts:
        return ()
    vectors = await embedder.embed_documents(texts)
    found: list[NewMemory] = []
    at = 0
    for memory, ranges in zip(memories, windows, strict=True):
        found.append(replace(memory, windows=ranges, vectors=vectors[at : at + len(ranges)]))
        at += len(ranges)
    return tuple(found)


def ending(memories: Sequence[NewMemory], now: datetime, lives: DaysOf) -> tuple[NewMemory, ...]:
    """The memories, each with the end that its kind has; one that has an end keeps it."""
    return tuple(replace(one, expires_at=one.expires_at or expires_at(one.kind, now, lives)) for one in memories)
