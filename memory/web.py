"""The web as the steps see it: values, and the seams to what searches, fetches and reads.

Adapters implement the Protocols and are named only where the program is wired. Everything here is from outside: titles,
snippets and blocks have the integrity `web`, are never instructions, and hold what somebody wrote who wanted to be
found.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Protocol

BlockKind = Literal["heading", "text", "item", "code", "row"]


@dataclass(frozen=True, slots=True)
class Found:
    """One result of a search, as the provider has it. `published`: as it says it, "" where it does not."""

    title: str
    url: str
    snippet: str
    published: str = ""


@dataclass(frozen=True, slots=True)
class Fetched:
    """A page as it came: its last address after redirects, its type and charset as the server says, bytes unpacked."""

    url: str
    media_type: str
    charset: str
    body: bytes
    fetched_at: datetime


@dataclass(frozen=True, slots=True)
class Block:
    """A piece of a page's text: one line, but for code."""

    kind: BlockKind
    text: str


@dataclass(frozen=True, slots=True)
class PageText:
    """What a page says. `published`: ISO 8601, "" where it does not say; `cut`: there was more than was asked for."""

    title: str
    published: str
    blocks: tuple[Block, ...]
    cut: bool = False


class SearchProvider(Protocol):
    """Finds addresses for words."""

    async def search(self, query: str) -> list[Found]:
        """At most so many results as it was built for, best first; none where nothing was found. `query` has passed the
        redactor. Raises SearchFailed."""


class Fetcher(Protocol):
    """Fetches a page of the public web."""

    async def fetch(self, url: str, led: Callable[[str], None] = ...) -> Fetched:
        """The page, within its bounds. `led` is told each URL that a redirect leads to before that is asked for. Raises
        FetchRefused (our own law) and FetchFailed (the other side). May be cancelled at any await; then its connection
        is closed."""


class PageReader(Protocol):
    """Reads what a page says, away from the event loop and from the memory of this process."""

    async def read(self, page: Fetched) -> PageText:
        """Its text, within its bounds. Raises PageUnreadable."""
