"""Memories without vectors in, the same with their windows and vectors out, embedded in one batch.

Raises EmbedderUnavailable. Changes nothing else of a memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from memory.model import NewMemory
from memory.ports import Embedder
from memory.write.windows import TextTokenizer, dated, split_windows


async def embedded(
    memories: Sequence[NewMemory], embedder: Embedder, tokenizer: TextTokenizer
) -> tuple[NewMemory, ...]:
    """The memories, each split where it is longer than the model reads."""
    windows = [tuple(split_windows(memory.content, tokenizer)) for memory in memories]
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
