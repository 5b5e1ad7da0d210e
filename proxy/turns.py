"""Turns at what a process does only so often at once: a scope in, a place for a while out; a refusal where none is free
in time.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from memory.errors import Refused
from memory.model import Scope
from memory.places import Places


class Turns:
    """As many at once as there are places, and the others wait; `late` is what is said to who has waited too long."""

    def __init__(self, places: Places, late: Callable[[], Refused]) -> None:
        self._places = places
        self._late = late

    @asynccontextmanager
    async def turn(self, scope: Scope) -> AsyncIterator[None]:
        """A place while the body runs. Raises what `late` says where there was none in time."""
        async with self._places.turn(scope.tenant, scope.user) as taken:
            if not taken:
                raise self._late()
            yield
