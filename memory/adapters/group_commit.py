"""Many waiters, one flush: items in, each acknowledged when the flush that carried it has returned.

While a flush runs, later items gather and go with the next one, so that concurrent writers share one fsync. Order
of items is order of `add`. An item whose waiter was cancelled still goes. Refuses nothing;
a failed flush fails its own items only.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from memory.errors import MemoryProxyFault

T = TypeVar("T")
Flush = Callable[[Sequence[T]], Awaitable[Sequence[MemoryProxyFault | None]]]


class GroupCommit(Generic[T]):
    """One flush at a time. `flush` gives one result per item, None for success, or raises for all of them."""

    def __init__(self, flush: Flush[T], *, items_max: int) -> None:
        self._flush = flush
        self._items_max = items_max
        self._waiting: list[tuple[T, asyncio.Future[None]]] = []
        self._task: asyncio.Task[None] | None = None

    @property
    def idle(self) -> bool:
        """Whether nothing waits and nothing is on its way."""
        return self._task is None

    async def add(self, item: T) -> None:
        """Return when `item` has been flushed. Raises the fault of its flush."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, done))
        if self._task is None:
            self._task = asyncio.create_task(self._run())
        await done

    async def settled(self) -> None:
        """Wait until all that was added has been flushed."""
        if self._task is not None:
            await asyncio.wait([self._task])

    async def _run(self) -> None:
        try:
            while self._waiting:
                batch, self._waiting = self._waiting[: self._items_max], self._waiting[self._items_max :]
                await self._carry(batch)
        finally:
            self._task = None
            for _, done in self._waiting:
                done.cancel()
            self._waiting.clear()

    async def _carry(self, batch: list[tuple[T, asyncio.Future[None]]]) -> None:
        results: Sequence[MemoryProxyFault | None]
        try:
            results = await self._flush([item for item, _ in batch])
        except MemoryProxyFault as exc:
            results = [type(exc)(*exc.args) for _ in batch]
        except BaseException as exc:
            for _, done in batch:
                if isinstance(exc, Exception) and not done.done():
                    done.set_exception(exc)  # a defect: seen by whoever waits, not taken for a cancellation
                done.cancel()
            if not isinstance(exc, Exception):
                raise
            return  # what waits behind goes with the next flush
        for (_, done), fault in zip(batch, results, strict=True):
            if done.done():
                continue
            if fault is None:
                done.set_result(None)
            else:
                done.set_exception(fault)
