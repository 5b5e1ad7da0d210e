"""What is under way in this process: requests and the bytes of their bodies in, a refusal where they are too much.

Both are bounded in all, and where there are several tenants none of them can take what there is from the others.
Nothing is expanded, and nothing is held back for a length that is only announced.
"""

from __future__ import annotations

from collections import deque
from typing import Final
from uuid import UUID

from aiohttp import web

from memory.config_sections import Limits
from memory.errors import EncodingRefused, RateLimited, TooLarge

# Of what there is one part in so many goes to tenants that hold no more than would still be left.
KEPT_FOR_OTHERS: Final = 8


class Shared:
    """An amount that tenants share. In its last part a tenant may hold no more than what is left for all others, so
    that each newcomer finds something: half of it, half of that, down to the last one.
    """

    def __init__(self, most: int, *, tenants: bool) -> None:
        self._most = most
        self.free_for_all = most - (most // KEPT_FOR_OTHERS if tenants else 0)
        self._held: dict[UUID, int] = {}
        self.taken = 0

    def take(self, tenant: UUID, amount: int) -> bool:
        """Whether so much more can be had; then it is taken."""
        held = self._held.get(tenant, 0) + amount
        left = self._most - self.taken
        if amount > left or (self.taken + amount > self.free_for_all and held > left):
            return False
        self._held[tenant] = held
        self.taken += amount
        return True

    def give_back(self, tenant: UUID, amount: int) -> None:
        """So much less is held."""
        self.taken -= amount
        held = self._held.get(tenant, 0) - amount
        if held > 0:
            self._held[tenant] = held
        else:
            self._held.pop(tenant, None)


class InFlight:
    """Requests under way and what they hold. `tenants`: there may be several."""

    def __init__(self, limits: Limits, *, tenants: bool = False) -> None:
        self.requests = Shared(limits.requests_max, tenants=tenants)
        self.bytes = Shared(limits.bodies_bytes_max, tenants=tenants)
        # What would not fit beside nothing else is too large, and not too much just now.
        self.body_bytes_max = min(limits.body_bytes_max, self.bytes.free_for_all)

    def one(self, tenant: UUID) -> Body:
        """One more request, while the caller's `with` block runs. Raises RateLimited."""
        if not self.requests.take(tenant, 1):
            raise RateLimited(f"limits.requests_max: {self.requests.taken} requests are under way", retry_after_s=1)
        return Body(self, tenant)


class Body:
    """What one request holds of the bytes; given back when the request has ended, as is its place."""

    __slots__ = ("_in_flight", "_tenant", "bytes")

    def __init__(self, in_flight: InFlight, tenant: UUID) -> None:
        self._in_flight = in_flight
        self._tenant = tenant
        self.bytes = 0

    def __enter__(self) -> Body:
        return self

    def __exit__(self, *raised: object) -> None:
        self._in_flight.bytes.give_back(self._tenant, self.bytes)
        self._in_flight.requests.give_back(self._tenant, 1)

    @property
    def bytes_max(self) -> int:
        """The most that it may have."""
        return self._in_flight.body_bytes_max

    def hold(self, size: int) -> None:
        """Hold so many bytes more. Raises TooLarge, RateLimited."""
        if self.bytes + size > self.bytes_max:
            raise TooLarge(f"limits.body_bytes_max: the body may have {self.bytes_max} bytes", param="body")
        if not self.take(size):
            raise RateLimited("limits.bodies_bytes_max: the bodies under way here are too much", retry_after_s=1)

    def take(self, size: int) -> bool:
        """Hold so many bytes more, where there is room for them."""
        has_room = self._in_flight.bytes.take(self._tenant, size)
        self.bytes += size * has_room
        return has_room

    def let_go(self, size: int) -> None:
        """Hold so many bytes fewer."""
        self._in_flight.bytes.give_back(self._tenant, size)
        self.bytes -= size


BODY: Final = web.RequestKey("body", Body)


async def read_body(request: web.Request, *, salted: bool = False) -> bytes:
    """A body as it came, never expanded. Raises TooLarge, before it is read where its length says so, TooSlow, and
    RateLimited where the bodies of all requests are too much.

    `salted`: its members must be read, so that a compressed one would pass the tenant's salt by: EncodingRefused.
    """
    if salted and request.headers.get("Content-Encoding", "identity").strip().lower() not in ("identity", ""):
        raise EncodingRefused("send the body uncompressed: this proxy separates tenants by a field of it", param="body")
    body = request[BODY]
    if (request.content_length or 0) > body.bytes_max:
        raise TooLarge(f"limits.body_bytes_max: the body may have {body.bytes_max} bytes", param="body")
    parts: deque[bytes] = deque()
    content = request.content
    while not content.at_eof():
        chunk = await content.readany()
        body.hold(len(chunk))
        parts.append(chunk)
    return b"".join(parts) if len(parts) != 1 else parts[0]
