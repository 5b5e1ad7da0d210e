"""What one request of a run came to: the client's body, the body that reached the model, and what the head said."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from bench.prefix_cache.dialogues import Message


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request in the order in which it reached the upstream. `upstream` is the last body sent for it."""

    script: str
    kind: str
    client: Mapping[str, Any] = field(repr=False)
    upstream: Mapping[str, Any] = field(repr=False)
    answer: Message = field(repr=False)
    status: str = ""  # X-Memory-Status
    kept: int = 0  # X-Memory-Kept
    placed: int = 0  # X-Memory-Count
    order: int = 0
