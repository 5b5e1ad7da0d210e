"""Bounds against abuse by one user: requests in, a refusal with its reason where one is too much.

In flight by user, conversations of a user in an hour, messages of a request.
Keyed by tenant and user as a pair, never by address. Holds at most USERS_MAX users; who was not seen longest is
forgotten first, unless they have a request under way. Refuses nothing while its settings are null.
"""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final
from uuid import UUID

from memory.config_sections import Limits
from memory.errors import RateLimited, TooLarge

USERS_MAX: Final = 50_000
HOUR_S: Final = 3600.0
User = tuple[UUID, str]


class UserLimits:
    """What one user may have at once."""

    def __init__(self, limits: Limits, clock: Callable[[], float] = time.monotonic) -> None:
        self._limits = limits
        self._clock = clock
        self._under_way: dict[User, int] = {}
        self._sessions: OrderedDict[User, OrderedDict[UUID, float]] = OrderedDict()

    @property
    def counts_requests(self) -> bool:
        """Whether it matters whose request it is."""
        return self._limits.requests_per_user_max is not None

    @contextmanager
    def request(self, user: User) -> Iterator[None]:
        """One chat request of a user, while the body runs. Raises RateLimited."""
        most = self._limits.requests_per_user_max
        if most is None:
            yield
            return
        now = self._under_way.get(user, 0)
        if now >= most:
            raise RateLimited(f"limits.requests_per_user_max: this user has {most} under way", retry_after_s=1)
        self._under_way[user] = now + 1
        try:
            yield
        finally:
            left = self._under_way.pop(user) - 1
            if left:
                self._under_way[user] = left

    def session(self, user: User, session_id: UUID) -> None:
        """A conversation is spoken in. Raises RateLimited where it is one too many of this hour."""
        most = self._limits.sessions_per_user_hour
        if most is None:
            return
        now = self._clock()
        spoken = self._sessions.setdefault(user, OrderedDict())
        self._sessions.move_to_end(user)
        while len(self._sessions) > USERS_MAX:
            self._sessions.popitem(last=False)
        while spoken and now - next(iter(spoken.values())) >= HOUR_S:
            spoken.popitem(last=False)
        if session_id not in spoken and len(spoken) >= most:
            wait_s = math.ceil(HOUR_S - (now - next(iter(spoken.values()))))
            raise RateLimited(f"limits.sessions_per_user_hour: {most} conversations this hour", retry_after_s=wait_s)
        spoken[session_id] = now
        spoken.move_to_end(session_id)

    def messages(self, count: int) -> None:
        """Raise TooLarge for a chat request of too many messages."""
        if count > self._limits.messages_max:
            raise TooLarge(
                f"limits.messages_max: {self._limits.messages_max}, the request has {count}", param="messages"
            )
