"""Places for work of which only so much may be under way: whose it is in, a place out, in turns that are fair.

A place that comes free goes to the tenant that holds least of those that wait, and within it to whoever holds least;
who holds as little as another takes turns with it. The decision is `policies/overload.py`. Refuses nobody: who has
found no place in time is told so.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager
from typing import TypeVar
from uuid import UUID

from policies.overload import next_of

Tenant = UUID | None
Turns = deque[asyncio.Future[None]]
T = TypeVar("T", bound=Hashable)


class Places:
    """So many at once, and the others wait for `wait_s`, None: as long as it takes. One per process and kind of work.

    `user`: whatever tells those of one tenant apart. None is a tenant too: the work of nobody in particular.
    """

    def __init__(self, places: int, wait_s: float | None) -> None:
        self._places = places
        self._wait_s = wait_s
        self._taken = 0
        self._held: Counter[Tenant] = Counter()
        self._held_by: Counter[tuple[Tenant, Hashable]] = Counter()
        self._waiting: dict[Tenant, dict[Hashable, Turns]] = {}  # both in the order of their turns

    @property
    def held(self) -> Counter[Tenant]:
        """How many places each tenant has that has any."""
        return self._held

    @asynccontextmanager
    async def turn(self, tenant: Tenant, user: Hashable) -> AsyncIterator[bool]:
        """A place while the body runs; False where there was none in time."""
        taken = await self.take(tenant, user)
        try:
            yield taken
        finally:
            if taken:
                self.give_back(tenant, user)

    async def take(self, tenant: Tenant, user: Hashable) -> bool:
        """Whether there was a place in time; it is the caller's to give back."""
        if self._taken < self._places:
            self._hold(tenant, user)
            return True
        if not self._may_wait(tenant):
            return False
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(tenant, {}).setdefault(user, deque()).append(turn)
        try:
            await asyncio.wait([turn], timeout=self._wait_s)
        except asyncio.CancelledError:
            if not self._left(tenant, user, turn):
                self.give_back(tenant, user)  # its turn had come in the same moment
            raise
        return not self._left(tenant, user, turn)

    def give_back(self, tenant: Tenant, user: Hashable) -> None:
        """The place is another's."""
        self._taken -= 1
        _one_less(self._held, tenant)
        _one_less(self._held_by, (tenant, user))
        if self._waiting:
            self._hold(*self._next())

    def _may_wait(self, _tenant: Tenant) -> bool:
        return True

    def _hold(self, tenant: Tenant, user: Hashable) -> None:
        self._taken += 1
        self._held[tenant] += 1
        self._held_by[tenant, user] += 1

    def _next(self) -> tuple[Tenant, Hashable]:
        """Whose turn has come. It is told, and stands behind those that hold as little, with what of it still waits."""
        tenant = next_of({one: self._held[one] for one in self._waiting})
        users = self._waiting.pop(tenant)
        user = next_of({one: self._held_by[tenant, one] for one in users})
        turns = users.pop(user)
        turns.popleft().set_result(None)
        if turns:
            users[user] = turns
        if users:
            self._waiting[tenant] = users
        return tenant, user

    def _left(self, tenant: Tenant, user: Hashable, turn: asyncio.Future[None]) -> bool:
        """Leave the queue; False where the place has been given already."""
        if turn.done():
            return False
        users = self._waiting[tenant]
        users[user].remove(turn)
        if not users[user]:
            del users[user]
        if not users:
            del self._waiting[tenant]
        return True


def _one_less(held: Counter[T], one: T) -> None:
    held[one] -= 1
    if not held[one]:
        del held[one]
