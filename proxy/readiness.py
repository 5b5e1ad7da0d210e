"""Readiness: what each dependency says of itself in, the answer of /memory/ready and a gauge that says the same out.

503 only before the first complete start and while draining; after that 200 with `ok` or `degraded`, since a memory
fault must not take the service out of rotation (DESIGN section 2). Probes run in the background, never in the request.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from memory.errors import MemoryProxyFault
from memory.telemetry import Metrics

log = logging.getLogger("memory_proxy.readiness")
PROBE_EVERY_S: Final = 2.0
PROBE_TIMEOUT_S: Final = 2.0
Probe = Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Dependency:
    """One dependency as last seen. `since` is when `ok` last changed."""

    ok: bool
    since: datetime
    error: str | None


class Readiness:
    """Probes dependencies and knows whether the first start is complete. `begun`: that of the service was, before this
    process took the place of one that had died or was replaced.
    """

    def __init__(self, probes: Mapping[str, Probe], metrics: Metrics, *, begun: bool = False) -> None:
        now = datetime.now(UTC)
        self._probes = probes
        self._away = metrics.dependency_away
        self._seen = {name: Dependency(False, now, "not asked yet") for name in probes}
        self.started = False
        self.begun = begun
        self.draining = False

    async def keep_probing(self) -> None:
        """Probe for ever; run as a task."""
        while True:
            await self.probe()
            await asyncio.sleep(PROBE_EVERY_S)

    async def probe(self) -> None:
        """Ask every dependency once, side by side. One that fails in an unforeseen way is told of, and not well."""
        names = list(self._probes)
        asked = await asyncio.gather(*(self._ask(self._probes[name]) for name in names), return_exceptions=True)
        for name, found in zip(names, asked, strict=True):
            before = self._seen[name]
            error = f"unforeseen: {type(found).__name__}" if isinstance(found, BaseException) else found
            if isinstance(found, BaseException) and before.error != error:
                log.error("asking %s failed in an unforeseen way", name, exc_info=found)
            ok = error is None
            since = before.since if before.ok == ok else datetime.now(UTC)
            self._seen[name] = Dependency(ok, since, error)
            self._away.labels(name).set(not ok)

    async def _ask(self, probe: Probe) -> str | None:
        try:
            async with asyncio.timeout(PROBE_TIMEOUT_S):
                await probe()
        except MemoryProxyFault as fault:
            return str(fault)
        except TimeoutError:
            return f"no answer within {PROBE_TIMEOUT_S:g} s"
        return None

    def answer(self) -> tuple[int, dict[str, Any]]:
        """The HTTP status and body of /memory/ready."""
        dependencies = {
            name: {"ok": seen.ok, "since": seen.since.isoformat(timespec="seconds"), "error": seen.error}
            for name, seen in self._seen.items()
        }
        if self.draining or not (self.started or self.begun):
            return 503, {"status": "draining" if self.draining else "starting", "dependencies": dependencies}
        healthy = all(seen.ok for seen in self._seen.values())
        return 200, {"status": "ok" if healthy else "degraded", "dependencies": dependencies}
