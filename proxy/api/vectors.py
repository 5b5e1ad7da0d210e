"""Texts that a call keeps, embedded before anything is stored, and the memory that tells of a record.

Raises StoreUnavailable: it may be asked again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memory.errors import EmbedderUnavailable, StoreUnavailable
from memory.ids import new_id
from memory.model import Kind, NewMemory
from memory.write.windows import TextTokenizer, dated, split_windows
from policies.labels import Integrity, Sensitivity
from proxy.api.parts import EmbedsDocuments, OwnParts


async def windows_of(tokenizer: TextTokenizer, text: str) -> Sequence[tuple[int, int]]:
    """The ranges of a text that are embedded each by itself, as long as the model takes them."""
    with _asked():
        return await asyncio.to_thread(split_windows, text, tokenizer)


async def vectors_of(embedder: EmbedsDocuments, texts: Sequence[str]) -> NDArray[np.float32]:
    """Unit vectors, shape [len(texts), dim]."""
    with _asked():
        return await embedder.embed_documents(texts)


@contextmanager
def _asked() -> Iterator[None]:
    """A model that is busy, or not loaded yet, which its tokenizer says too."""
    try:
        yield
    except EmbedderUnavailable as fault:
        raise StoreUnavailable(f"this cannot be embedded now: {fault}", retry_after_s=1) from fault


async def memory_of_record(
    parts: OwnParts,
    text: str,
    at: datetime,
    *,
    origin: str,
    extractor_version: str,
    sensitivity: Sensitivity,
    attributes: Mapping[str, Any],
    integrity: Integrity = Integrity.USER,
    role: str = "user",
    kind: Kind = "semantic",
) -> NewMemory:
    """What recall finds a task, a card, a file or a persona by: made of no turn; its content key is the store's."""
    windows = await windows_of(parts.windows, text)
    vectors = await vectors_of(parts.embedder, [dated(text[a:b], at) for a, b in windows])
    return NewMemory(
        memory_id=new_id(),
        kind=kind,
        content=text,
        content_key=b"",
        role=role,
        integrity=integrity,
        sensitivity=sensitivity,
        origin=origin,
        importance=0.5,
        confidence=1.0,
        occurred_at=at,
        extractor_version=extractor_version,
        source_turns=(),
        windows=tuple(windows),
        vectors=vectors,
        attributes=dict(attributes),
    )
