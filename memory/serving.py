"""Which embedding model a store is searched with: values of it, the note that outlives a restart, who follows it.

The truth is one row in Postgres (docs/decisions/0016). The note, DIR/run/embedding-model.json, only tells a proxy
worker which model to begin with while Postgres is not up yet; it compares with the row before it answers from memory.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from memory.errors import MemoryProxyFault, StoreUnavailable
from memory.telemetry import event

log = logging.getLogger("memory_proxy.serving")
NOTE: Final = "embedding-model.json"
ASK_EVERY_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class StoredModel:
    """A model that has a table. `digest` names all that decides its vectors; `directory`: where its files were."""

    model_id: int
    name: str
    digest: str
    dim: int
    directory: Path | None
    table: str


@dataclass(frozen=True, slots=True)
class Serving:
    """The model that questions are asked of, the one beside it, and what a switch has made of them. `stands_back`: the
    one beside it was served before.
    """

    generation: int
    model: StoredModel
    standby: StoredModel | None
    paused: bool
    switched_at: datetime | None
    stands_back: bool = False


class ModelMoved(MemoryProxyFault):
    """This process began with another model than the store is searched with: it must begin again."""


def read_note(run: Path) -> StoredModel | None:
    """The model noted here; None without a note, or where it cannot be understood."""
    try:
        found = json.loads((run / NOTE).read_text("utf-8"))
        directory = Path(found["directory"]) if found["directory"] else None
        return StoredModel(
            int(found["model_id"]),
            str(found["name"]),
            str(found["digest"]),
            int(found["dim"]),
            directory,
            str(found["table"]),
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


def write_note(run: Path, model: StoredModel) -> bool:
    """Note this model, whole or not at all: whether it is noted now. Where it cannot be, a worker that begins finds out
    from the store, and could only begin again.
    """
    draft = run / f"{NOTE}.{os.getpid()}"
    said = {**asdict(model), "directory": str(model.directory) if model.directory else None}
    try:
        draft.write_text(json.dumps(said), "utf-8")
        draft.replace(run / NOTE)
    except OSError as fault:
        event(log, "model_not_noted", logging.WARNING, model=model.name, fault=str(fault))
        with contextlib.suppress(OSError):
            draft.unlink(missing_ok=True)
        return read_note(run) == model
    return True


async def until_moved(ask: Callable[[], Awaitable[int | None]], generation: int, every_s: float = ASK_EVERY_S) -> None:
    """Return once the store is at another generation. A store that does not answer is asked again."""
    while True:
        await asyncio.sleep(every_s)
        with contextlib.suppress(StoreUnavailable):
            found = await ask()
            if found is not None and found != generation:
                event(log, "model_moved", generation=found, was=generation)
                return
