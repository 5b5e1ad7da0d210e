"""Texts that a call keeps, embedded before anything is stored. Raises StoreUnavailable: it may be asked again."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import numpy as np
from numpy.typing import NDArray

from memory.errors import EmbedderUnavailable, StoreUnavailable
from memory.write.windows import dated, split_windows
from proxy.api.parts import EmbedsDocuments, OwnParts


async def vectors_of(embedder: EmbedsDocuments, texts: Sequence[str]) -> NDArray[np.float32]:
    """Unit vectors, shape [len(texts), dim]."""
    try:
        return await embedder.embed_documents(texts)
    except EmbedderUnavailable as fault:
        raise StoreUnavailable(f"this cannot be embedded now: {fault}", retry_after_s=1) from fault


async def windows_of(
    parts: OwnParts, text: str, at: datetime
) -> tuple[tuple[tuple[int, int], ...], NDArray[np.float32]]:
    """The windows of a text, and a vector for each, as of a moment."""
    windows = split_windows(text, parts.windows)
    return tuple(windows), await vectors_of(parts.embedder, [dated(text[a:b], at) for a, b in windows])
