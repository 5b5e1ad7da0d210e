"""What robots.txt of a site says about us: an address in, yes or no out, by RFC 9309.

Read once an hour for each origin, before its first page. 200: its rules, of 512 KiB at most; 4xx: no rules, all may be
read, but 429, which with 5xx keeps us out for a minute. A fault on the way is the caller's to see: without robots.txt
no page. `Crawl-delay` is no part of the RFC and is not waited for: a question takes a few pages of a site at most, one
after the other. Rules are matched by protego (BSD-3; longest match, wildcards, in linear time), which Python's own
robotparser does not.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final

from protego import Protego

from policies.web_address import WebAddress

BYTES_MAX: Final = 524_288
ORIGINS_MAX: Final = 256
FILES_BYTES_MAX: Final = 2_097_152
"""Of the files whose rules are kept: as rules they take 24 times that, and who has a domain has any number of hosts."""
KEEP_S: Final = 3_600.0
KEEP_OUT_S: Final = 60.0
_AGENT: Final = frozenset({"user-agent", "useragent", "user agent"})
_OTHERS: Final = "User-agent: others"


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer of a server; `body` unpacked within its bound, b"" for any status but 200."""

    status: int
    media_type: str
    charset: str
    location: str
    body: bytes


@dataclass(slots=True)
class _Origin:
    """What is known of one origin. `rules`: None for none, of a file of so many `bytes`; `until`: time.monotonic() at
    which it is asked anew.
    """

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    rules: Protego | None = None
    bytes: int = 0
    out: bool = False
    until: float = 0.0


class Robots:
    """The rules of the last origins, asked for by `ask`, which raises as fetching does."""

    def __init__(self, product: str, ask: Callable[[WebAddress], Awaitable[Answer]]) -> None:
        self._product = product
        self._ask = ask
        self._origins: OrderedDict[str, _Origin] = OrderedDict()

    async def allows(self, address: WebAddress) -> bool:
        """Whether the page may be fetched. Raises FetchRefused, FetchFailed."""
        origin = self._origins.setdefault(address.origin, _Origin())
        self._origins.move_to_end(address.origin)
        async with origin.lock:
            if time.monotonic() >= origin.until:
                await self._read(origin, address)
        while len(self._origins) > ORIGINS_MAX or sum(one.bytes for one in self._origins.values()) > FILES_BYTES_MAX:
            self._origins.popitem(last=False)
        if origin.out:
            return False
        return origin.rules is None or origin.rules.can_fetch(address.url, self._product)

    async def _read(self, origin: _Origin, address: WebAddress) -> None:
        answer = await self._ask(WebAddress(address.scheme, address.host, address.port, "/robots.txt"))
        rules, kept, out = None, 0, answer.status >= 500 or answer.status == 429
        if answer.status == 200:
            text, kept = answer.body.decode("utf-8-sig", "replace"), len(answer.body)
            rules = await asyncio.to_thread(_rules, text, self._product)  # 0.1 s for 512 KiB of rules
        origin.rules, origin.bytes, origin.out = rules, kept, out
        origin.until = time.monotonic() + (KEEP_OUT_S if out else KEEP_S)


def _rules(text: str, product: str) -> Protego:
    """The rules of a robots.txt, all crawlers that are none of us as one: each rule is kept for every name above it, so
    10,000 names before 20,000 rules would take more memory than there is.
    """
    return Protego.parse("\n".join(_as_ours(line, product) for line in text.splitlines()))


def _as_ours(line: str, product: str) -> str:
    name = _agent_in(line.partition("#")[0].strip())
    bare = name.replace("*", "") or name
    if not name or bare == "*":
        return line
    return f"User-agent: {bare}" if product.startswith(bare.lower()) else _OTHERS


def _agent_in(line: str) -> str:
    """The crawler that a line names, "" where it names none; as leniently as protego reads it."""
    field, colon, value = line.partition(":")
    is_named = field.strip().lower() in _AGENT
    if colon and (is_named or not value or value[0].isspace()):
        return value.strip() if is_named else ""
    words = line.split()
    known = (count for count in (1, 2) if " ".join(words[:count]).lower() in _AGENT)
    return " ".join(words[next(known, len(words)) :])
