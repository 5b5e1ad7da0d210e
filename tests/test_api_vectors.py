"""What a call keeps is embedded first: with no model at hand, or none yet, it is asked for again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from memory.errors import StoreUnavailable
from memory.late import LateEmbedder
from policies.labels import Integrity, Sensitivity
from proxy.api.conversation_parts import Words
from proxy.api.memories import Memories
from proxy.api.saving import Saving
from proxy.api.schemas import MemoryPatch
from proxy.api.vectors import memory_of_record

NOW = datetime(2026, 11, 28, tzinfo=UTC)
Act = Callable[[Any], Awaitable[None]]


async def keep_a_record(parts: Any) -> None:
    await memory_of_record(
        parts,
        "Task (queued): Tar the boat",
        NOW,
        origin="task",
        extractor_version="t",
        sensitivity=Sensitivity.INTERNAL,
        attributes={},
    )


async def save_a_checkpoint(parts: Any) -> None:
    words = Words("notes", "We stopped at the tar.", "user", Integrity.USER, Sensitivity.INTERNAL, (), NOW)
    await Saving(parts)._remembered([words])


async def reword_a_memory(parts: Any) -> None:
    asked = MemoryPatch(content="The boat is tarred.", validation_status="confirmed")
    known: Any = SimpleNamespace(occurred_at=NOW)
    await Memories(parts, SimpleNamespace())._change(asked, known)  # type: ignore[arg-type]


@pytest.mark.parametrize("act", [keep_a_record, save_a_checkpoint, reword_a_memory])
async def test_what_is_kept_before_the_model_is_loaded_is_asked_for_again(
    act: Callable[[Any], Awaitable[None]],
) -> None:
    late = LateEmbedder("model", 3)
    redactor = SimpleNamespace(redact=lambda text: SimpleNamespace(text=text))
    with pytest.raises(StoreUnavailable, match="not loaded yet") as refused:
        await act(SimpleNamespace(windows=late, embedder=late, redactor=redactor))
    assert refused.value.retry_after_s == 1
