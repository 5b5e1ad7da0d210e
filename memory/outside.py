"""Outside knowledge for one question: who asks, the question and what recall found in; pages of the web out.

Does the question need it? Then its words go to a search service, without personal data, and not at all where it holds a
secret or is confidential; of what that finds the first few that may be fetched are fetched and read, two of a host at
most. What fails is told by reason, counted, and costs the page alone; past `total_s` what is there is given. Every page
has the integrity `web`: quoted as data, never an instruction, a preference or a procedure, and judged as foreign where
it is stored. Storing is the caller's. Takes seconds: never on the way of a request that has not asked for it.

Every search and every fetch leaves a row in the audit log, written down before it is sent, with HMACs of the query, the
URL and its host: where somebody looked tells what was asked. Raises no fault of the web.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final, Literal
from uuid import UUID

from memory.audit import Audit
from memory.errors import FetchRefused, OutsideUnavailable, PageUnreadable, WebReason
from memory.telemetry import Metrics
from memory.web import Block, Fetcher, Found, PageReader, SearchProvider
from policies.labels import Integrity, Sensitivity, is_sealed
from policies.redaction import PLACEHOLDER
from policies.web_address import Reach, WebAddress, address_of
from policies.web_need import Known, Need, need_of, query_of

OF_A_HOST_MAX: Final = 2
QUERY_BYTES_MIN: Final = 3
"""Of UTF-8: two letters are no question, two characters of Chinese are."""
SearchOutcome = Literal["", "found", "nothing", "withheld"] | WebReason


@dataclass(frozen=True, slots=True)
class Asker:
    """For whom: the tenant, the key's id as the audit log names it ("open" without keys), and the question's label."""

    tenant: UUID
    actor: str
    sensitivity: Sensitivity = Sensitivity.INTERNAL


@dataclass(frozen=True, slots=True)
class OutsideBounds:
    """What one question may cost: pages given, and seconds in all. Twice as many pages are tried at most."""

    pages_max: int = 3
    total_s: float = 20.0


@dataclass(frozen=True, slots=True)
class WebPage:
    """A page as it may be stored: text of a stranger, with where it is from, when it came, and why it was asked for.

    `published` is ISO 8601 as the page says it, "" where it does not; `cut`: the page says more than is kept of it.
    """

    url: str
    title: str
    published: str
    fetched_at: datetime
    blocks: tuple[Block, ...]
    cut: bool
    why: Need
    integrity: Integrity = Integrity.WEB


@dataclass(frozen=True, slots=True)
class Missed:
    """A result that gave no page, and why."""

    url: str
    reason: WebReason


@dataclass(frozen=True, slots=True)
class Gained:
    """What came of a question. `search` is "" where nothing was searched for; pages in the order of the results."""

    need: Need | None = None
    search: SearchOutcome = ""
    pages: tuple[WebPage, ...] = ()
    missed: tuple[Missed, ...] = ()


@dataclass(frozen=True, slots=True)
class OutsideParts:
    """What it works with. `redact`: a text as it may leave the machine, placeholders where a secret stood."""

    search: SearchProvider
    fetcher: Fetcher
    reader: PageReader
    redact: Callable[[str], str]
    audit: Audit
    metrics: Metrics
    now: Callable[[], datetime] = field(default=lambda: datetime.now(UTC))


class Outside:
    """Looks outside, within `reach` and `bounds`. One for a process; many questions at once."""

    def __init__(self, parts: OutsideParts, reach: Reach, bounds: OutsideBounds | None = None) -> None:
        self._parts = parts
        self._reach = reach
        self._bounds = bounds or OutsideBounds()

    async def look(self, asker: Asker, question: str, known: Known) -> Gained:
        """Pages for the question, where it needs any."""
        need = need_of(question, known, self._parts.now())
        self._parts.metrics.outside_needs.labels(need or "none").inc()
        if need is None:
            return Gained()
        return await self.look_for(asker, question, need)

    async def look_for(self, asker: Asker, question: str, need: Need) -> Gained:
        """Pages for a question that needs them. A cancelled call ends what it began."""
        query = "" if is_sealed(asker.sensitivity) else self._query(question)
        if not query:
            self._parts.metrics.outside_searches.labels("withheld").inc()
            return Gained(need, "withheld")
        work = _Work(need)
        with self._timed("all"):
            try:
                async with asyncio.timeout(self._bounds.total_s):
                    await self._search(asker, query, work)
                    await self._pages(asker, work)
            except TimeoutError:
                work.late()
        for outcome, count in work.outcomes().items():
            self._parts.metrics.outside_pages.labels(outcome).inc(count)
        self._parts.metrics.outside_searches.labels(work.search).inc()
        return work.gained(self._bounds.pages_max)

    def _query(self, question: str) -> str:
        """The words that leave the machine; "" where they may not, or nothing is left of them."""
        said = self._parts.redact(question)
        if PLACEHOLDER.search(said):
            return ""
        query = query_of(said)
        return query if len(query.encode()) >= QUERY_BYTES_MIN else ""

    async def _search(self, asker: Asker, query: str, work: _Work) -> None:
        self._parts.audit.note(asker.tenant, asker.actor, "outside.search", why=work.need, names={"query": query})
        try:
            with self._timed("search"):
                found = await self._parts.search.search(query)
        except OutsideUnavailable as fault:
            work.search = fault.reason
            return
        work.search = "found" if found else "nothing"
        work.take(found, self._reach, self._bounds.pages_max)

    async def _pages(self, asker: Asker, work: _Work) -> None:
        """Read as many as are wanted, the best first; others take the places of those that fail."""
        while wanted := work.next(self._bounds.pages_max):
            async with asyncio.TaskGroup() as group:
                for url in wanted:
                    group.create_task(self._page(asker, url, work))

    async def _page(self, asker: Asker, url: str, work: _Work) -> None:
        try:
            async with self._audited(asker, url, work.need):
                work.read(url, await self._read(asker, url, work.need))
        except OutsideUnavailable as fault:
            work.missed[url] = fault.reason

    async def _read(self, asker: Asker, url: str, need: Need) -> WebPage:
        def led(to: str) -> None:
            self._note_fetch(asker, to, need)

        with self._timed("fetch"):
            fetched = await self._parts.fetcher.fetch(url, led)
        with self._timed("read"):
            page = await self._parts.reader.read(fetched)
        if not page.blocks:
            raise PageUnreadable("a page without text")
        return WebPage(fetched.url, page.title, page.published, fetched.fetched_at, page.blocks, page.cut, need)

    @asynccontextmanager
    async def _audited(self, asker: Asker, url: str, need: Need) -> AsyncIterator[None]:
        """A row before the page is asked for, and one more where our own law kept us from it."""
        names = self._note_fetch(asker, url, need)
        try:
            yield
        except FetchRefused as fault:
            self._parts.audit.note(
                asker.tenant, asker.actor, "outside.fetch", decision="refused", why=fault.reason, names=names
            )
            raise

    def _note_fetch(self, asker: Asker, url: str, need: Need) -> dict[str, str]:
        """A row of what is about to be asked for; the names in it."""
        found = address_of(url, self._reach)
        names = {"url": url, "host": found.host if isinstance(found, WebAddress) else ""}
        self._parts.audit.note(asker.tenant, asker.actor, "outside.fetch", why=need, names=names)
        return names

    @contextmanager
    def _timed(self, step: str) -> Iterator[None]:
        began = time.perf_counter()
        try:
            yield
        finally:
            self._parts.metrics.outside_seconds.labels(step).observe(time.perf_counter() - began)


@dataclass(slots=True)
class _Work:
    """One question under way; mutable. `order`: URLs to try, best first; `tried`: how many of them were begun."""

    need: Need
    search: SearchOutcome = ""
    order: list[str] = field(default_factory=list)
    tried: int = 0
    pages: dict[str, WebPage] = field(default_factory=dict)
    missed: dict[str, WebReason] = field(default_factory=dict)
    again: set[str] = field(default_factory=set)
    """Those that led to a page that is there."""

    def take(self, found: Sequence[Found], reach: Reach, pages_max: int) -> None:
        """The results that may be fetched, each address once and few of a host."""
        of_host: Counter[str] = Counter()
        for one in found:
            address = address_of(one.url, reach)
            if not isinstance(address, WebAddress):
                self.missed[one.url] = "refused_address"
            elif address.url not in self.order and of_host[address.host] < OF_A_HOST_MAX:
                of_host[address.host] += 1
                self.order.append(address.url)
        del self.order[2 * pages_max :]

    def read(self, url: str, page: WebPage) -> None:
        """A page is there; one that another result has led to counts once."""
        if any(page.url == one.url for one in self.pages.values()):
            self.again.add(url)
        else:
            self.pages[url] = page

    def next(self, pages_max: int) -> list[str]:
        """The URLs to try now; none when enough pages are there, or nothing is left to try."""
        begun = self.tried
        self.tried = min(len(self.order), begun + max(0, pages_max - len(self.pages)))
        return self.order[begun : self.tried]

    def late(self) -> None:
        """The time is over: what was begun and is not there was too slow."""
        self.search = self.search or "too_slow"
        over = {*self.pages, *self.missed, *self.again}
        self.missed |= {url: "too_slow" for url in self.order[: self.tried] if url not in over}

    def outcomes(self) -> Counter[str]:
        """How many pages came to what."""
        return Counter({"read": len(self.pages)}) + Counter(self.missed.values())

    def gained(self, pages_max: int) -> Gained:
        """What is there."""
        pages = [self.pages[url] for url in self.order if url in self.pages]
        missed = [Missed(url, reason) for url, reason in self.missed.items()]
        return Gained(self.need, self.search, tuple(pages[:pages_max]), tuple(missed))
