"""What the write path's outcomes hold back: the rest of the lane, the rest of a subject, or nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from memory.adapters.redis_queue import RedisQueue
from memory.errors import EnvelopeUnreadable, LeaseLost, MemoryProxyFault, StoreRefused, StoreUnavailable
from memory.ports import Delivery
from memory.write.deliveries import Deliveries
from memory.write.worker import Outcome, Poison, Stored, Transient
from tests.test_worker_loop import LANES, SharedLeases, an_entry, is_empty, the_lane, until_depth, working
from tests.valkey_fixture import ValkeyServer


class Path:
    """A write path that keeps what it was given, in order, but for what `fails` has a fault for."""

    def __init__(self, fails: Callable[[Delivery], MemoryProxyFault | None]) -> None:
        self._fails = fails
        self.stored: list[UUID] = []

    async def write(self, delivery: Delivery, fence: int) -> None:
        await asyncio.sleep(0)
        fault = self._fails(delivery)
        if fault is not None:
            raise fault
        self.stored.append(delivery.entry.exchange_id)


async def outcomes(fault: MemoryProxyFault, at: int, *subjects: int) -> list[Outcome]:
    made = [Delivery(an_entry(one), the_lane(), str(place), 1) for place, one in enumerate(subjects)]
    path: Any = Path(lambda one: fault if one is made[at] else None)
    return await Deliveries(path).handle(the_lane(), 1, made)


@pytest.mark.parametrize(
    ("fault", "held"),
    [
        (StoreRefused("a constraint"), [True, False, True]),
        (StoreUnavailable("away"), [True, True, True]),
        (EnvelopeUnreadable("no key"), [False, False, False]),
    ],
)
async def test_behind_one_that_comes_again_waits_who_must_not_overtake_it(
    fault: MemoryProxyFault, held: list[bool]
) -> None:
    found = await outcomes(fault, 1, 2, 1, 1, 3, 1)  # subjects; the first entry of the first of them fails
    assert found[0] == Stored() and isinstance(found[1], Poison | Transient)
    waits = Transient("behind one that waits")
    assert found[2:] == [waits if one else Stored() for one in held]


async def test_a_lost_lease_goes_up() -> None:
    with pytest.raises(LeaseLost):
        await outcomes(LeaseLost("moved on"), 0, 1, 1)


async def test_what_is_refused_for_a_while_is_not_overtaken_by_its_subject(valkey: ValkeyServer) -> None:
    queue = RedisQueue(valkey.url, lanes=LANES)
    entries = [an_entry() for _ in range(6)]
    tries: list[int] = []

    def fails(delivery: Delivery) -> MemoryProxyFault | None:
        if delivery.entry.exchange_id != entries[2].exchange_id:
            return None
        tries.append(delivery.attempts)
        return StoreRefused("two writers met") if len(tries) < 3 else None

    path: Any = Path(fails)
    await queue.put_all(entries)
    async with working(queue, SharedLeases(), Deliveries(path).handle, attempts_max=8):
        depth = await until_depth(queue, is_empty)
    assert path.stored == [entry.exchange_id for entry in entries]
    assert (tries, depth.dead) == ([1, 2, 3], 0)
    await queue.close()


async def test_what_is_refused_for_ever_is_buried_and_its_subject_goes_on(valkey: ValkeyServer) -> None:
    queue = RedisQueue(valkey.url, lanes=LANES)
    entries = [an_entry() for _ in range(6)]
    path: Any = Path(lambda one: StoreRefused("no") if one.entry.exchange_id == entries[0].exchange_id else None)
    await queue.put_all(entries)
    async with working(queue, SharedLeases(), Deliveries(path).handle, attempts_max=3):
        await until_depth(queue, is_empty)
    [dead] = await queue.dead_letters(10)
    assert (dead.exchange_id, dead.attempts) == (entries[0].exchange_id, 3)
    assert path.stored == [entry.exchange_id for entry in entries[1:]]
    await queue.close()
