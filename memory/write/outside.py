"""Outside knowledge behind the answer: stored exchanges in, pages of the web staged as documents out.

What the user asked last is looked at once its exchange is stored, unless it is held back. Where it needs the web,
pages are looked for and kept, so that the next question of this kind has them; no answer waits for it. It is best
effort: what is asked while WAITING_MAX questions wait is passed over and counted (`busy`), and a worker that dies takes
what waits with it. Never ends by itself: cancel it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Protocol
from uuid import UUID

from memory.errors import MemoryProxyFault
from memory.model import Captured, Scope, Turn
from memory.outside import Asker, Outside
from memory.telemetry import Metrics, event
from memory.web_documents import WebDocuments
from policies.labels import Sensitivity
from policies.web_need import QUESTION_CHARS_MAX, Known

log = logging.getLogger("memory_proxy.outside")
ACTOR: Final = "worker"
WAITING_MAX: Final = 64
AT_ONCE: Final = 2


class KnowsPages(Protocol):
    """What the store knows of pages."""

    async def newest_page(self, scope: Scope, memory_ids: Sequence[UUID]) -> datetime | None:
        """When the newest page of the web that one of these memories is of was fetched. Raises StoreUnavailable."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A question whose exchange is stored, with what its prompt was given."""

    scope: Scope
    text: str
    sensitivity: Sensitivity
    placed: tuple[str, ...]
    memory_ids: tuple[UUID, ...]


class LooksBehind:
    """One per worker process."""

    def __init__(
        self,
        outside: Outside,
        pages: WebDocuments,
        known: KnowsPages,
        metrics: Metrics,
        clock: Callable[[], datetime],
    ) -> None:
        self._outside = outside
        self._pages = pages
        self._known = known
        self._metrics = metrics
        self._clock = clock
        self._waiting: asyncio.Queue[Asked] = asyncio.Queue(WAITING_MAX)

    def heard(self, captured: Captured, turns: Sequence[Turn]) -> None:
        """An exchange is stored, with these turns new and held back by nothing. Never waits."""
        asked = None if captured.looked else asked_in(captured, turns)
        if asked is None:
            return
        try:
            self._waiting.put_nowait(asked)
        except asyncio.QueueFull:
            self._metrics.outside_searches.labels("busy").inc()

    async def run(self) -> None:
        """Look for what was asked, AT_ONCE questions at a time, until cancelled."""
        async with asyncio.TaskGroup() as group:
            for _ in range(AT_ONCE):
                group.create_task(self._keep_looking())

    async def _keep_looking(self) -> None:
        while True:
            asked = await self._waiting.get()
            try:
                await self._look(asked)
            except MemoryProxyFault as fault:
                event(log, "outside_not_kept", logging.WARNING, fault=str(fault))
            except Exception:  # a worker loop is one of the three named places
                self._metrics.work.labels("unforeseen").inc()
                log.exception("looking outside failed in an unforeseen way; the loop goes on")

    async def _look(self, asked: Asked) -> None:
        web_at = await self._known.newest_page(asked.scope, asked.memory_ids) if asked.memory_ids else None
        asker = Asker(asked.scope.tenant, ACTOR, asked.sensitivity)
        gained = await self._outside.look(asker, asked.text, Known(asked.placed, web_at))
        if gained.pages:
            await self._pages.keep(asked.scope, ACTOR, gained.pages, self._clock())


def asked_in(captured: Captured, turns: Sequence[Turn]) -> Asked | None:
    """The question that an exchange ends with, clean; None where it asks nothing new or nothing short, or is not among
    these turns: one that is held back is not asked of anybody, nor is what was said before it.
    """
    last = next((digest for digest in reversed(captured.digests) if digest is not None), None)
    asked = next((turn for turn in turns if turn.chain == last), None)
    if asked is None or asked.role != "user" or len(asked.content) > QUESTION_CHARS_MAX:
        return None
    found = captured.retrieval
    return Asked(
        scope=captured.scope,
        text=asked.content,
        sensitivity=asked.sensitivity,
        placed=tuple(one.text for one in found.placed) if found else (),
        memory_ids=tuple(UUID(one["id"]) for one in found.candidates if one.get("injected")) if found else (),
    )
