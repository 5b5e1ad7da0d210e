"""The pace of questions: users of the model first, tenants in turn, and nobody waits past the limit."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, date, datetime, timedelta
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.errors import QueueUnavailable
from memory.write.pace import Limits, Pace, SpentHere, SpentTogether, Standing, Trend, Yielded, verdict
from tests.waiting import until

ADA, BOB, EVE = (UUID(int=number) for number in (1, 2, 3))
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


class Clock:
    def __init__(self) -> None:
        self.now = NOON

    def __call__(self) -> datetime:
        return self.now


class Switch:
    """A load that a test sets."""

    def __init__(self) -> None:
        self.on = False
        self.asked = 0

    async def busy(self, ours: int) -> bool:
        self.asked += 1
        return self.on


class World:
    def __init__(self, **limits: float) -> None:
        self.clock, self.load, self.spends = Clock(), Switch(), SpentHere()
        self.pace = Pace(
            Limits(**limits),  # type: ignore[arg-type]
            self.load,
            self.spends,
            self.clock,
            poll_s=0.01,
        )
        self.order: list[str] = []
        self.inside = 0
        self.most_inside = 0

    async def question(self, tenant: UUID, name: str, *, tokens: int = 0, holds: asyncio.Event | None = None) -> bool:
        async with self.pace.turn(tenant, self.clock.now) as granted:
            if not granted:
                return False
            self.order.append(name)
            self.inside += 1
            self.most_inside = max(self.most_inside, self.inside)
            await (holds.wait() if holds else asyncio.sleep(0))
            await self.pace.spent(tenant, tokens)
            self.inside -= 1
            return True


@asynccontextmanager
async def holding(world: World) -> AsyncIterator[asyncio.Event]:
    """The only place is taken until the event is set."""
    free = asyncio.Event()
    task = asyncio.create_task(world.question(EVE, "first", holds=free))
    await until(lambda: world.pace.running == 1)
    yield free
    free.set()
    assert await task


GOOD = Standing(age_s=0, tokens_left=5, day_left_s=9e4, place=True, turn=True, quiet=True)
standings = st.builds(
    Standing,
    age_s=st.floats(-1e6, 1e6),
    tokens_left=st.integers(-10, 10),
    day_left_s=st.floats(0, 86_400),
    place=st.booleans(),
    turn=st.booleans(),
    quiet=st.booleans(),
)


@given(standings)
def test_the_verdict_asks_only_when_nothing_stands_against_it(standing: Standing) -> None:
    said = verdict(standing, Limits())
    free = standing.place and standing.turn and standing.quiet and standing.tokens_left > 0
    assert (said == "now") == (free and standing.age_s < 900)
    assert standing.age_s < 900 or said == "heuristic"
    midnight_in_time = standing.day_left_s < 900 - standing.age_s
    assert (said == "heuristic") == (standing.age_s >= 900 or (standing.tokens_left <= 0 and not midnight_in_time))


async def test_tenants_take_turns_and_each_keeps_its_order() -> None:
    world = World()
    async with holding(world):
        waiting = [asyncio.create_task(world.question(ADA, f"ada{n}")) for n in range(4)]
        await asyncio.sleep(0)
        waiting += [asyncio.create_task(world.question(BOB, f"bob{n}")) for n in range(2)]
        await asyncio.sleep(0.03)
    assert all(await asyncio.gather(*waiting))
    assert world.order == ["first", "ada0", "bob0", "ada1", "bob1", "ada2", "ada3"]


async def test_no_more_questions_run_at_once_than_allowed() -> None:
    world = World(concurrency=2)
    done = await asyncio.gather(*(world.question(UUID(int=n % 3), str(n)) for n in range(12)))
    assert all(done)
    assert world.most_inside == 2
    assert world.pace.running == 0


async def test_waits_while_the_model_is_busy_and_goes_when_it_is_not() -> None:
    world = World()
    world.load.on = True
    task = asyncio.create_task(world.question(ADA, "ada"))
    await until(lambda: world.load.asked >= 3)
    assert world.order == []
    assert await world.pace.now(ADA, world.clock.now) == "wait"
    world.load.on = False
    assert await task


async def test_what_has_waited_too_long_goes_to_the_heuristic_path() -> None:
    world = World(defer_max_s=900)
    world.load.on = True
    task = asyncio.create_task(world.question(ADA, "ada"))
    await until(lambda: world.load.asked >= 2)
    world.clock.now += timedelta(seconds=901)
    assert not await task
    assert await world.pace.now(ADA, NOON) == "heuristic"
    assert await World(defer_max_s=0).pace.now(ADA, NOON) == "heuristic"


async def test_a_clock_that_jumps_back_keeps_nobody_waiting_for_ever() -> None:
    world = World(defer_max_s=0.05)
    world.load.on = True
    task = asyncio.create_task(world.question(ADA, "ada"))
    world.clock.now -= timedelta(days=30)
    assert not await task


async def test_a_tenant_without_tokens_is_passed_over_and_begins_anew_at_midnight() -> None:
    world = World(tokens_per_day=100)
    assert await world.question(ADA, "ada", tokens=100)
    assert await world.pace.now(ADA, NOON) == "heuristic"
    assert await world.question(BOB, "bob")
    world.clock.now = NOON.replace(hour=23, minute=59)
    task = asyncio.create_task(world.question(ADA, "ada again"))
    await asyncio.sleep(0.03)
    assert await world.question(BOB, "bob again")
    assert not task.done()
    world.clock.now += timedelta(minutes=2)
    assert await task
    assert world.order == ["ada", "bob", "bob again", "ada again"]


async def test_a_wait_that_is_cancelled_gives_its_turn_away() -> None:
    world = World()
    async with holding(world):
        first = asyncio.create_task(world.question(ADA, "ada"))
        await asyncio.sleep(0.02)
        second = asyncio.create_task(world.question(BOB, "bob"))
        await asyncio.sleep(0.02)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
    assert await second
    assert world.pace.running == 0


async def test_a_question_that_fails_frees_its_place() -> None:
    world = World()
    with pytest.raises(RuntimeError):
        async with world.pace.turn(ADA, NOON) as granted:
            assert granted
            raise RuntimeError
    assert await world.question(BOB, "bob")


async def test_a_running_call_is_left_when_others_begin_to_wait() -> None:
    world = World()
    left = asyncio.Event()

    async def call() -> str:
        try:
            await asyncio.sleep(60)
        finally:
            left.set()
        return "late"

    async def quick() -> str:
        return "answer"

    assert await world.pace.unless_others_wait(quick()) == "answer"
    world.load.on = True
    with pytest.raises(Yielded):
        await world.pace.unless_others_wait(call())
    assert left.is_set()


async def test_a_call_that_fails_fails_as_it_would_alone() -> None:
    async def call() -> None:
        raise KeyError("x")

    with pytest.raises(KeyError):
        await World().pace.unless_others_wait(call())


async def test_spends_hold_one_day() -> None:
    spends = SpentHere()
    assert await spends.add(ADA, date(2026, 3, 1), 5) == 5
    assert await spends.add(ADA, date(2026, 3, 1), 2) == 7
    assert await spends.add(BOB, date(2026, 3, 1), 0) == 0
    assert await spends.add(ADA, date(2026, 3, 2), 0) == 0


async def test_workers_share_what_was_spent_and_count_alone_while_they_cannot() -> None:
    spent, there = SpentHere(), True

    async def spend(tenant: UUID, day: date, tokens: int) -> int:
        if not there:
            raise QueueUnavailable("count tokens: gone")
        return await spent.add(tenant, day, tokens)

    one, other = SpentTogether(spend), SpentTogether(spend)
    assert await one.add(ADA, date(2026, 3, 1), 5) == 5
    assert await other.add(ADA, date(2026, 3, 1), 2) == 7
    there = False
    assert await one.add(ADA, date(2026, 3, 1), 4) == 9
    there = True
    assert await one.add(ADA, date(2026, 3, 1), 0) == 9  # what was not counted there is not forgotten here


def test_latency_rises_when_it_doubles_and_settles_when_it_stays() -> None:
    trend = Trend()
    for _ in range(20):
        trend = trend.after(0.1)
        assert not trend.rising
    for _ in range(8):
        trend = trend.after(0.4)
    assert trend.rising
    assert not trend.after(None).rising
    for _ in range(200):
        trend = trend.after(0.4)
    assert not trend.rising


@given(st.lists(st.none() | st.floats(0, 1e6)))
def test_a_trend_takes_any_course(means: list[float | None]) -> None:
    trend = Trend()
    for mean in means:
        trend = trend.after(mean)
    assert trend.rising in (True, False)
