"""Pages of the public web: a URL in; bytes, type and time out, or a fault that says why not.

The URL is judged by its words, its host resolved once, every address of it judged, and exactly those are connected to:
aiohttp gets them from us, and the last gate stands where the socket is made. The same again at each redirect. A
connection serves one request. No cookies, no credentials, no proxy of the environment, no Referer; one User-Agent, by
which robots.txt is read first. Bytes are bounded as they come and as they unpack, seconds in all and to the head of
each answer. One request at a time for each host.

Raises FetchRefused (refused_address, robots) and FetchFailed (redirects, http_status, media_type, too_large, too_slow,
unreachable). A cancelled call closes its connection. `is_allowed_ip` and `resolve` are for
tests; no setting reaches them.
"""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from ipaddress import ip_address
from typing import Any, Final, Protocol
from urllib.parse import urljoin

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from memory.adapters.robots import BYTES_MAX as ROBOTS_BYTES_MAX
from memory.adapters.robots import Answer, Robots
from memory.adapters.unpack import ENCODINGS, Unpacker
from memory.errors import FetchFailed, FetchRefused
from memory.web import Fetched
from policies.web_address import Ip, Reach, WebAddress, address_of, is_public

PRODUCT: Final = "memory-proxy"
HTML_TYPES: Final = ("text/html", "application/xhtml+xml")
MEDIA_TYPES: Final = (*HTML_TYPES, "text/plain")
REDIRECTS_MAX: Final = 3
ADDRESSES_MAX: Final = 8
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_FIELD_BYTES_MAX: Final = 65_536
_RESOLVER_THREADS: Final = 4
_CHARSET: Final = re.compile(r"""charset\s*=\s*["']?([\w:.-]{1,40})""", re.IGNORECASE)


class Resolve(Protocol):
    """A name to its addresses."""

    async def __call__(self, host: str) -> Sequence[str]:
        """Addresses in text form, best first. Raises OSError."""


@dataclass(frozen=True, slots=True)
class FetchBounds:
    """What one fetch may cost: bytes of a page on the wire and unpacked, seconds to a head and in all."""

    page_bytes_max: int = 2_000_000
    head_s: float = 5.0
    total_s: float = 10.0
    redirects_max: int = REDIRECTS_MAX
    at_once: int = 4


@dataclass(frozen=True, slots=True)
class _Ask:
    """What is wanted of an answer: its media types (none: any), its bytes, and whether more of them is a fault."""

    media_types: tuple[str, ...]
    bytes_max: int
    cut: bool


@dataclass(slots=True)
class _Turn:
    """The queue at one host."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    users: int = 0


class SystemResolver:
    """The machine's own resolver, on threads of its own: a name server that does not answer holds up nothing else."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(_RESOLVER_THREADS, thread_name_prefix="web-names")

    async def __call__(self, host: str) -> Sequence[str]:
        """Addresses of the host. Raises OSError."""
        loop = asyncio.get_running_loop()
        found = await loop.run_in_executor(
            self._threads, lambda: socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
        )
        return list(dict.fromkeys(str(entry[4][0]) for entry in found))


class WebFetcher:
    """Fetches within `reach` and `bounds`. `contact`: mail address or URL for those who read a site's logs."""

    def __init__(
        self,
        reach: Reach,
        bounds: FetchBounds | None = None,
        *,
        contact: str = "",
        resolve: Resolve | None = None,
        is_allowed_ip: Callable[[Ip], bool] = is_public,
    ) -> None:
        self._reach = reach
        self._bounds = bounds or FetchBounds()
        self._resolve = resolve or SystemResolver()
        self._is_allowed_ip = is_allowed_ip
        self._agent = f"{PRODUCT}/1 (+{contact})" if contact else f"{PRODUCT}/1"
        self._tls = ssl.create_default_context()
        self._turns: dict[str, _Turn] = {}
        self._at_once = asyncio.Semaphore(self._bounds.at_once)
        self._robots = Robots(PRODUCT, self._robots_of)

    async def fetch(self, url: str, led: Callable[[str], None] = lambda _: None) -> Fetched:
        """A page; `led` is told where redirects lead. Raises FetchRefused, FetchFailed."""
        try:
            async with asyncio.timeout(self._bounds.total_s), self._at_once:
                return await self._page(url, led)
        except TimeoutError as exc:
            raise FetchFailed("too_slow", f"no whole page within {self._bounds.total_s} s") from exc

    async def _page(self, url: str, led: Callable[[str], None]) -> Fetched:
        ask = _Ask(MEDIA_TYPES, self._bounds.page_bytes_max, cut=False)
        address = self._judged(url)
        for hop in range(self._bounds.redirects_max + 1):
            if hop:
                led(address.url)
            if not await self._robots.allows(address):
                raise FetchRefused("robots", f"robots.txt of {address.host} keeps us out")
            answer = await self._get(address, ask)
            if answer.status == 200:
                return Fetched(address.url, answer.media_type, answer.charset, answer.body, datetime.now(UTC))
            address = self._next(address, answer)
        raise FetchFailed("redirects", f"more than {self._bounds.redirects_max} redirects")

    async def _robots_of(self, address: WebAddress) -> Answer:
        """The answer for robots.txt of an origin; redirects are followed as a page's are, without asking robots.txt."""
        ask = _Ask((), ROBOTS_BYTES_MAX, cut=True)
        for _ in range(self._bounds.redirects_max + 1):
            answer = await self._get(address, ask)
            if answer.status not in _REDIRECTS:
                return answer
            address = self._next(address, answer)
        raise FetchFailed("redirects", f"more than {self._bounds.redirects_max} redirects to a robots.txt")

    def _judged(self, url: str) -> WebAddress:
        """The address, if its words may be asked."""
        found = address_of(url, self._reach)
        if isinstance(found, WebAddress):
            return found
        raise FetchRefused("refused_address", f"an address that is not fetched ({found})")

    def _next(self, address: WebAddress, answer: Answer) -> WebAddress:
        """Where a redirect leads."""
        if answer.status not in _REDIRECTS:
            raise FetchFailed("http_status", f"{address.host} says {answer.status}")
        if not answer.location:
            raise FetchFailed("redirects", f"{address.host} redirects to nowhere")
        try:
            target = urljoin(address.url, answer.location)
        except ValueError as exc:
            raise FetchFailed("redirects", f"{address.host} redirects to what is no URL") from exc
        found = self._judged(target)
        if address.scheme == "https" and found.scheme == "http":
            raise FetchFailed("redirects", f"{address.host} redirects out of TLS")
        return found

    async def _get(self, address: WebAddress, ask: _Ask) -> Answer:
        """One request, when it is its turn at the host. Raises FetchRefused, FetchFailed."""
        async with self._turn(address.host), AsyncExitStack() as stack:
            try:
                async with asyncio.timeout(self._bounds.head_s):
                    response = await self._asked(address, ask, stack)
            except TimeoutError as exc:
                raise FetchFailed("too_slow", f"{address.host} gave no head in {self._bounds.head_s} s") from exc
            except (aiohttp.ClientError, OSError, ValueError) as exc:
                raise FetchFailed("unreachable", f"{address.host} is not reached ({type(exc).__name__})") from exc
            try:
                return await _answer(response, ask)
            except (aiohttp.ClientError, OSError) as exc:
                raise FetchFailed("unreachable", f"{address.host} broke off ({type(exc).__name__})") from exc

    async def _asked(self, address: WebAddress, ask: _Ask, stack: AsyncExitStack) -> aiohttp.ClientResponse:
        """The head of the answer. The connection ends with the stack."""
        ips = await self._addresses(address)
        connector = aiohttp.TCPConnector(
            resolver=_Pinned(address.host, ips),
            socket_factory=_gate(ips),
            ssl=self._tls,
            force_close=True,
            limit=1,
            use_dns_cache=False,
        )
        session = await stack.enter_async_context(
            aiohttp.ClientSession(
                connector=connector,
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
                trust_env=False,
                timeout=aiohttp.ClientTimeout(total=None),
                max_line_size=_FIELD_BYTES_MAX,
                max_field_size=_FIELD_BYTES_MAX,
            )
        )
        headers = {
            "User-Agent": self._agent,
            "Accept": ", ".join(ask.media_types) or "*/*",
            "Accept-Encoding": ENCODINGS,
        }
        url = URL(address.url, encoded=True)
        return await stack.enter_async_context(session.get(url, headers=headers, allow_redirects=False))

    async def _addresses(self, address: WebAddress) -> list[Ip]:
        """Every address of the host, each of them allowed. One that is not refuses them all: a name that leads into a
        private network and elsewhere is an attempt, or a fault."""
        literal = address.ip
        texts = [str(literal)] if literal is not None else await self._resolve(address.host)
        try:
            ips = [ip_address(text) for text in texts]
        except ValueError as exc:
            raise FetchRefused("refused_address", f"{address.host} has what is no address") from exc
        if not ips:
            raise FetchFailed("unreachable", f"{address.host} has no address")
        if not all(self._is_allowed_ip(ip) and self._reach.takes(ip) for ip in ips):
            raise FetchRefused("refused_address", f"{address.host} leads to an address that is not fetched")
        return ips[:ADDRESSES_MAX]

    @asynccontextmanager
    async def _turn(self, host: str) -> AsyncIterator[None]:
        """One request at a time for each host."""
        turn = self._turns.setdefault(host, _Turn())
        turn.users += 1
        try:
            async with turn.lock:
                yield
        finally:
            turn.users -= 1
            if not turn.users:
                self._turns.pop(host, None)


class _Pinned(AbstractResolver):
    """Gives aiohttp the addresses that were judged, so that nothing is resolved twice."""

    def __init__(self, host: str, ips: Sequence[Ip]) -> None:
        self._host = host
        self._ips = ips

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """The judged addresses. Raises OSError for another host."""
        if host != self._host:
            raise OSError("another host than was judged")
        return [
            ResolveResult(
                hostname=host,
                host=str(ip),
                port=port,
                family=socket.AF_INET if ip.version == 4 else socket.AF_INET6,
                proto=0,
                flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
            )
            for ip in self._ips
        ]

    async def close(self) -> None:
        """Nothing is held."""


def _gate(ips: Sequence[Ip]) -> Callable[[tuple[Any, ...]], socket.socket]:
    """Makes the sockets of a request: the last place that a connection passes, and one that none goes round."""
    judged = frozenset(ips)

    def make(info: tuple[Any, ...]) -> socket.socket:
        family, kind, proto, _, where = info
        if ip_address(where[0]) not in judged:
            raise PermissionError("a connection to an address that was not judged")
        return socket.socket(family, kind, proto)

    return make


async def _answer(response: aiohttp.ClientResponse, ask: _Ask) -> Answer:
    """The answer with its body, where that is wanted: of status 200 and of the right type."""
    said = response.headers.get("Content-Type", "")
    media_type = said.partition(";")[0].strip().lower()
    charset = found[1] if (found := _CHARSET.search(said)) else ""
    head = Answer(response.status, media_type, charset, response.headers.get("Location", ""), b"")
    if response.status != 200:
        return head
    host = response.url.host
    if ask.media_types and media_type not in ask.media_types:
        raise FetchFailed("media_type", f"{host} gives another type than {', '.join(ask.media_types)}")
    if not ask.cut and (response.content_length or 0) > ask.bytes_max:
        raise FetchFailed("too_large", f"{host} gives more than {ask.bytes_max} bytes")
    unpacker = Unpacker(response.headers.get("Content-Encoding", ""), ask.bytes_max)
    async for chunk in response.content.iter_any():
        unpacker.feed(chunk)
        if unpacker.over and ask.cut:
            break
        if unpacker.over:
            raise FetchFailed("too_large", f"{host} gives more than {ask.bytes_max} bytes")
    return replace(head, body=unpacker.body())
