"""Limits of a key: read closed, counted for all processes together, and alone while the server is away."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any, cast
from uuid import UUID, uuid4

import aiohttp
import pytest
from aiohttp import web
from hypothesis import example, given
from hypothesis import strategies as st

from memory.adapters.redis_rates import RedisRates
from memory.config_sections import Limits
from memory.errors import CapabilityMissing, QueueUnavailable, RateLimited
from memory.telemetry import Metrics
from policies.key_limits import KeyLimits, LimitsInvalid, limits_of, narrower
from policies.rate import WINDOW_S, Used, admits, retry_after_s
from proxy.app import Front, build_app
from proxy.identity import Credential
from proxy.in_flight import InFlight
from proxy.limits import KeyUse, require_model
from proxy.passages import Passages
from proxy.relay import Upstream
from tests.valkey_fixture import ValkeyServer

NOON = datetime(2026, 11, 21, 12, 0, 5, tzinfo=UTC)


class Clock:
    """A clock that is set."""

    def __init__(self, now: datetime = NOON) -> None:
        self.now = now

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
async def rates(valkey: ValkeyServer) -> AsyncIterator[RedisRates]:
    made = RedisRates(valkey.url, timeout_ms=2000)
    yield made
    await made.close()


def of(limits: KeyLimits, key_id: UUID | None = None) -> Credential:
    return Credential(UUID(int=1), key_id or uuid4(), limits=limits)


async def admitted(uses: list[KeyUse], credential: Credential, count: int) -> int:
    """How many of so many requests at once are let in, dealt to these processes."""
    asked = [uses[n % len(uses)].admit(credential) for n in range(count)]
    return sum(answer is None for answer in await asyncio.gather(*asked, return_exceptions=True))


# ---------------------------------------------------------------- values


@given(
    st.builds(
        KeyLimits,
        requests_per_minute=st.none() | st.integers(1, 1000),
        tokens_per_day=st.none() | st.integers(1, 10**9),
        injected_tokens_max=st.none() | st.integers(0, 4000),
        models=st.none() | st.frozensets(st.text(min_size=1, max_size=9), min_size=1, max_size=5),
        overflow=st.sampled_from([None, "error", "summarise"]),
    )
)
def test_limits_are_read_back_as_they_were(limits: KeyLimits) -> None:
    assert limits_of(limits.stored()) == limits


@pytest.mark.parametrize(
    "stored",
    [
        {"requests_per_minute": 0},
        {"requests_per_minute": True},
        {"tokens_per_day": "9"},
        {"injected_tokens_max": -1},
        {"models": []},
        {"models": "m"},
        {"models": [1]},
        {"overflow": "drop"},
        {"overflow": ["error"]},
        {"requests_per_hour": 5},
    ],
)
def test_a_limit_that_is_not_understood_is_no_limit_to_be_without(stored: dict[str, object]) -> None:
    with pytest.raises(LimitsInvalid):
        limits_of(stored)


@given(st.none() | st.integers(0, 9), st.none() | st.integers(0, 9))
def test_the_narrower_of_two_limits_holds(one: int | None, other: int | None) -> None:
    given_limits = [limit for limit in (one, other) if limit is not None]
    assert narrower(one, other) == min(given_limits, default=None)


@given(st.integers(0, 200), st.integers(0, 200), st.integers(1, 100), st.floats(0, 59.9))
@example(0, 144, 97, 0.0)
def test_who_comes_again_when_told_is_let_in(previous: int, current: int, limit: int, elapsed_s: float) -> None:
    if admits(previous, current, limit, elapsed_s):
        return
    later = elapsed_s + retry_after_s(previous, current, limit, elapsed_s)
    turned = int(later // WINDOW_S)
    windows = {0: (previous, current), 1: (current, 0)}.get(turned, (0, 0))
    assert admits(*windows, limit, later % WINDOW_S)


# ---------------------------------------------------------------- counting


async def test_all_processes_together_admit_the_limit_and_no_more(rates: RedisRates) -> None:
    uses = [KeyUse(rates, Clock()) for _ in range(3)]
    credential = of(KeyLimits(requests_per_minute=10))
    assert await admitted(uses, credential, 60) == 10
    assert await admitted(uses, of(KeyLimits(requests_per_minute=10)), 5) == 5, "another key has counts of its own"


async def test_refused_requests_do_not_put_off_the_next(rates: RedisRates) -> None:
    clock = Clock()
    use, credential = KeyUse(rates, clock), of(KeyLimits(requests_per_minute=6))
    assert await admitted([use], credential, 200) == 6
    with pytest.raises(RateLimited) as refused:
        await use.admit(credential)
    assert refused.value.retry_after_s is not None
    clock.now += timedelta(seconds=refused.value.retry_after_s)
    await use.admit(credential)


async def test_no_minute_admits_twice_the_limit_around_its_turn(rates: RedisRates) -> None:
    clock = Clock(NOON.replace(second=59))
    use, credential = KeyUse(rates, clock), of(KeyLimits(requests_per_minute=10))
    assert await admitted([use], credential, 20) == 10
    clock.now += timedelta(seconds=2)
    assert await admitted([use], credential, 20) == 0
    clock.now += timedelta(seconds=120)
    assert await admitted([use], credential, 20) == 10


async def test_tokens_of_the_day_are_those_of_all_processes(rates: RedisRates) -> None:
    clock = Clock()
    uses = [KeyUse(rates, clock) for _ in range(2)]
    credential = of(KeyLimits(tokens_per_day=100))
    for use in uses:
        use.spend(credential, 60)
    await settled(uses)
    for use in uses:
        with pytest.raises(RateLimited) as refused:
            await use.admit(credential)
        assert refused.value.retry_after_s == 43_195
    clock.now += timedelta(hours=12)
    assert await admitted(uses, credential, 2) == 2


@pytest.mark.parametrize("jump", [timedelta(days=1), timedelta(days=-1), timedelta(days=366)])
async def test_tokens_are_counted_on_when_the_clock_has_been_in_another_day(rates: RedisRates, jump: timedelta) -> None:
    """What was told of this day by then was taken off what was told behind it."""
    clock = Clock()
    use, credential = KeyUse(rates, clock), of(KeyLimits(tokens_per_day=100))
    for away in (timedelta(), jump, timedelta()):
        clock.now = NOON + away
        use.spend(credential, 60)
        await settled([use])
    with pytest.raises(RateLimited, match="tokens of today"):
        await use.admit(credential)


async def test_of_keys_that_are_used_no_more_nothing_is_held_on_the_next_day(rates: RedisRates) -> None:
    clock = Clock(NOON.replace(hour=23, minute=50))
    use, limits = KeyUse(rates, clock), KeyLimits(requests_per_minute=10)
    await asyncio.gather(*(use.admit(of(limits)) for _ in range(50)))
    clock.now += timedelta(minutes=9, seconds=50)
    last = of(limits)
    assert await admitted([use], last, 10) == 10
    clock.now += timedelta(seconds=10)
    assert await admitted([use], last, 10) == 0
    assert len(use._own) == 1


async def settled(uses: list[KeyUse]) -> None:
    await asyncio.gather(*(task for use in uses for task in use._under_way))


async def test_with_the_server_away_each_process_counts_alone(valkey: ValkeyServer) -> None:
    rates = RedisRates(valkey.url, timeout_ms=50)
    valkey.kill()
    uses = [KeyUse(rates, Clock()) for _ in range(2)]
    credential = of(KeyLimits(requests_per_minute=5, tokens_per_day=1000))
    assert await admitted(uses, credential, 40) == 10
    thrifty = of(KeyLimits(tokens_per_day=1000))
    uses[0].spend(thrifty, 1000)
    with pytest.raises(RateLimited, match="tokens"):
        await uses[0].admit(thrifty)
    with pytest.raises(QueueUnavailable):
        await rates.take(uuid4(), NOON, KeyLimits(requests_per_minute=1))
    await rates.close()


async def test_what_was_used_while_the_server_was_away_counts_when_it_is_back(
    valkey: ValkeyServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("proxy.limits.AWAY_S", 0.0)
    rates = RedisRates(valkey.url, timeout_ms=500)
    uses = [KeyUse(rates, Clock()) for _ in range(2)]
    credential = of(KeyLimits(tokens_per_day=1000))
    valkey.kill()
    for use in uses:
        use.spend(credential, 600)
    await settled(uses)
    valkey.start()
    for use in (*uses, *uses):  # each tells what it knows of, once
        with contextlib.suppress(RateLimited):
            await use.admit(credential)
    assert credential.key_id is not None
    assert (await rates.take(credential.key_id, NOON, KeyLimits())).tokens == 1200
    assert await admitted([KeyUse(rates, Clock())], credential, 1) == 0
    await rates.close()


async def test_tokens_that_are_told_again_since_no_answer_came_count_once(rates: RedisRates) -> None:
    key_id, process = uuid4(), uuid4()
    for told in (600, 600, 900):
        await rates.spend(key_id, process, NOON, told)
    assert (await rates.take(key_id, NOON, KeyLimits())).tokens == 900


async def test_a_frozen_server_costs_one_timeout_and_not_one_a_request(valkey: ValkeyServer) -> None:
    class Slow(RedisRates):
        calls = 0

        async def take(self, key_id: UUID, now: datetime, limits: KeyLimits) -> Used:
            Slow.calls += 1
            return await super().take(key_id, now, limits)

    rates = Slow(valkey.url, timeout_ms=50)
    valkey.freeze()
    use, credential = KeyUse(rates, Clock()), of(KeyLimits(requests_per_minute=50))
    for _ in range(20):
        await use.admit(credential)
    assert Slow.calls == 1
    valkey.thaw()
    await rates.close()


async def test_a_key_without_counted_limits_asks_nobody() -> None:
    use = KeyUse(RedisRates("unix:///nowhere/at/all.sock", timeout_ms=50))
    assert use.begin(of(KeyLimits(models=frozenset({"m"})))) is None
    assert use.begin(Credential(UUID(int=1))) is None
    use.spend(of(KeyLimits(requests_per_minute=1)), 5)
    assert not use._under_way


def test_a_model_is_refused_by_its_name() -> None:
    credential = of(KeyLimits(models=frozenset({"small"})))
    require_model(credential, "small")
    require_model(of(KeyLimits()), None)
    with pytest.raises(CapabilityMissing, match="the model 'large'; it may use: small"):
        require_model(credential, "large")
    for unnamed in (None, 5, ["small"]):
        with pytest.raises(CapabilityMissing, match="names no model"):
            require_model(credential, unnamed)


async def test_a_flood_of_refused_requests_asks_nobody(rates: RedisRates) -> None:
    clock = Clock()
    use, credential = KeyUse(rates, clock), of(KeyLimits(requests_per_minute=1))
    assert await admitted([use], credential, 2) == 1
    for _ in range(3):
        with pytest.raises(RateLimited):
            use.begin(credential)
    raised = Credential(credential.tenant, credential.key_id, limits=KeyLimits(requests_per_minute=9))
    await use.admit(raised)  # what an operator allows holds at once


async def test_a_clock_that_was_turned_back_keeps_nobody_out(rates: RedisRates) -> None:
    clock = Clock()
    use, credential = KeyUse(rates, clock), of(KeyLimits(tokens_per_day=100))
    use.spend(credential, 100)
    await settled([use])
    with pytest.raises(RateLimited):
        await use.admit(credential)
    clock.now -= timedelta(days=1)
    await use.admit(credential)


# ---------------------------------------------------------------- what passes unread


class Told:
    """Counts what it is told."""

    def __init__(self) -> None:
        self.tokens = 0

    async def take(self, key_id: UUID, now: datetime, limits: KeyLimits) -> Used:
        return Used(True, 0, 0, self.tokens)

    async def spend(self, key_id: UUID, teller: UUID, now: datetime, tokens: int) -> None:
        self.tokens = tokens


class Opens:
    """A door that lets everybody in, with a day's tokens."""

    def __init__(self) -> None:
        self._credential = of(KeyLimits(tokens_per_day=1_000_000))

    def admit(self, request: web.Request) -> Credential:
        return self._credential


@pytest.mark.parametrize(("path", "counted"), [("/v1/responses/resp_1", True), ("/v1/models", False)])
async def test_a_response_that_is_fetched_later_is_counted(path: str, counted: bool) -> None:
    async def speaks(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 40000\r\n\r\n" + b"x" * 40_000)
        writer.close()

    told, metrics, unused = Told(), Metrics(), cast(Any, None)
    async with await asyncio.start_server(speaks, "127.0.0.1", 0) as server:
        there = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        upstream = Upstream(there, api_key=None, replace_auth=True, connect_timeout_s=5, keepalive_s=4)
        front = Front(
            door=Opens(),
            chat=unused,
            generation=unused,
            upstream=upstream,
            metrics=metrics,
            use=KeyUse(told),
            journal=unused,
            in_flight=InFlight(Limits()),
            passages=Passages(metrics, None),
        )
        runner = web.AppRunner(build_app(front, lambda app: None))
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        url = f"http://127.0.0.1:{runner.addresses[0][1]}{path}"
        async with aiohttp.ClientSession() as http, http.get(url) as answer:
            assert len(await answer.read()) == 40_000
        await asyncio.sleep(0.1)
        await runner.cleanup()
        await upstream.close()
    assert (told.tokens >= 10_000) == counted
