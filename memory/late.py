"""An embedder that comes later: the port at once, the model when it is loaded.

Until then every question raises EmbedderUnavailable, which recall answers lexically. Holds nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from memory.errors import EmbedderBusy
from memory.model import Vector
from memory.ports import Embedder


class Loaded(Embedder, Protocol):
    """A loaded model also says where the tokens of a text lie."""

    def offsets(self, text: str) -> Sequence[tuple[int, int]]:
        """Half-open character ranges of the tokens, ascending."""

    @property
    def window_tokens(self) -> int:
        """Tokens of one window that it embeds whole."""


class LateEmbedder:
    """Implements Embedder; `model` and `dim` are known from the registry before anything is loaded."""

    def __init__(self, model: str, dim: int) -> None:
        self.model = model
        self.dim = dim
        self._loaded: Loaded | None = None

    @property
    def loaded(self) -> bool:
        """Whether the model is there."""
        return self._loaded is not None

    async def ping(self) -> None:
        """Raise EmbedderUnavailable until the model is there."""
        self._now()

    def arrived(self, embedder: Loaded) -> None:
        """From now on this one answers."""
        self._loaded = embedder

    async def embed_query(self, text: str) -> Vector:
        """One unit vector, shape [dim]. Raises EmbedderUnavailable."""
        return await self._now().embed_query(text)

    async def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Unit vectors, shape [len(texts), dim]. Raises EmbedderUnavailable."""
        return await self._now().embed_documents(texts)

    def offsets(self, text: str) -> Sequence[tuple[int, int]]:
        """Character ranges of the tokens. Raises EmbedderUnavailable."""
        return self._now().offsets(text)

    @property
    def window_tokens(self) -> int:
        """Tokens of one window that it embeds whole. Raises EmbedderUnavailable."""
        return self._now().window_tokens

    def _now(self) -> Loaded:
        if self._loaded is None:
            raise EmbedderBusy("the model is not loaded yet")
        return self._loaded
