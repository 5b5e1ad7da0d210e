"""Hygiene, measured: pages of what is kept in, shares of what should not be there out, with examples by id.

`Inspection` judges pages by policies/hygiene.py; `keep_measuring` does so for ever on a sample, as the one of all
workers that leads, and sets the gauges. Reads only. A store that does not answer is asked again next time.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Final, Protocol
from uuid import UUID

from memory.assemble import OPENING
from memory.errors import StoreUnavailable
from memory.ports import Leader
from memory.telemetry import Metrics, event
from policies.hygiene import RATES, Kept, Rate, SeenWords, Tally, faults, is_aged
from policies.redaction import Redacted

log: Final = logging.getLogger("memory_proxy.hygiene")
FIRST_S: Final = 60.0
EVERY_S: Final = 900.0
# A sample of 2,000 puts a share of .05 within .01 (95 %) and costs the worker about a second of CPU.
SAMPLE_MEMORIES: Final = 2_000
UNUSED_AFTER: Final = timedelta(days=30)
EXAMPLES: Final = 5


class Redacts(Protocol):
    """Finds secrets."""

    def redact(self, text: str) -> Redacted:
        """The text without its secrets, and where they stood."""


class Found(Protocol):
    """A memory and where it is."""

    @property
    def tenant(self) -> UUID:
        """Whose."""

    @property
    def scope_id(self) -> int:
        """Its scope."""

    @property
    def memory_id(self) -> UUID:
        """Its name."""

    @property
    def kept(self) -> Kept:
        """What is kept."""


class Pages(Protocol):
    """The store, read for its hygiene."""

    def pages(
        self, *, user: str | None = None, project: str | None = None, page: int = ...
    ) -> AsyncIterator[Sequence[Found]]:
        """Every memory of every tenant by scope, oldest first. Raises StoreUnavailable."""


class Inspection:
    """One walk through what is kept; mutable. `examples`: the first few memories of each rate, with their text."""

    def __init__(
        self, redactor: Redacts, *, now: datetime, unused_after: timedelta = UNUSED_AFTER, examples: int = EXAMPLES
    ) -> None:
        self._redactor = redactor
        self._now = now
        self._unused_after = unused_after
        self._examples = examples
        self._seen = SeenWords()
        self.tally = Tally()
        self.examples: dict[Rate, list[Found]] = {rate: [] for rate in RATES}

    def look(self, page: Sequence[Found]) -> None:
        """Judge a page. Work for a processor, about half a millisecond a memory: not for an event loop."""
        for found in page:
            kept = found.kept
            rates = faults(_with_frame(kept), now=self._now, unused_after=self._unused_after)
            if kept.shown and self._seen.known((found.tenant, found.scope_id, kept.kind), kept.content):
                rates.add("duplicate")
            if kept.shown and self._redactor.redact(kept.content).findings:
                rates.add("secret")
            self.tally.add(kept, rates, aged=is_aged(kept, self._now, self._unused_after))
            for rate in rates:
                if len(self.examples[rate]) < self._examples:
                    self.examples[rate].append(found)


async def keep_measuring(
    store: Pages,
    leader: Leader,
    redactor: Redacts,
    metrics: Metrics,
    *,
    first_s: float = FIRST_S,
    every_s: float = EVERY_S,
    sample: int = SAMPLE_MEMORIES,
) -> None:
    """Set the gauges for ever; run as a task. A round goes on where the last ended; after the end it begins anew."""
    walk, leads = store.pages(), False
    await asyncio.sleep(first_s)
    while True:
        try:
            led, leads = leads, await leader.lead(2 * every_s) is not None
            if led and not leads:
                _say_nothing(metrics)
            if leads:
                inspection, ended = await _sampled(walk, redactor, sample)
                if ended and not inspection.tally.memories:  # the last round had just come to the end
                    inspection, ended = await _sampled(walk := store.pages(), redactor, sample)
                walk = store.pages() if ended else walk
                _publish(inspection.tally, metrics)
        except StoreUnavailable as fault:
            walk = store.pages()
            event(log, "hygiene_postponed", logging.WARNING, fault=str(fault))
        await asyncio.sleep(every_s)


async def _sampled(walk: AsyncIterator[Sequence[Found]], redactor: Redacts, sample: int) -> tuple[Inspection, bool]:
    """The next so many memories, and whether these were the last."""
    inspection = Inspection(redactor, now=datetime.now(UTC), examples=0)
    looked = 0
    async for page in walk:
        await asyncio.to_thread(inspection.look, page)
        looked += len(page)
        if looked >= sample:
            return inspection, False
    return inspection, True


def _publish(tally: Tally, metrics: Metrics) -> None:
    for rate in RATES:
        metrics.hygiene.labels(rate).set(tally.share(rate))
    counts = {rate: count for rate, count in tally.found.items() if count}
    event(log, "hygiene", memories=tally.memories, facts=tally.facts, **counts)


def _say_nothing(metrics: Metrics) -> None:
    """Another measures now: what was found here last would stand beside what it finds for as long as we live."""
    for rate in RATES:
        metrics.hygiene.labels(rate).set(math.nan)


def _with_frame(kept: Kept) -> Kept:
    """The same, where the frame of a block counts as placed too: a model may quote it along."""
    if not any(one.placed for one in kept.evidence):
        return kept
    framed = (replace(one, placed=(OPENING, *one.placed)) if one.placed else one for one in kept.evidence)
    return replace(kept, evidence=tuple(framed))
