"""The hot session state against a real Valkey: found in one round trip, bounded in time, lost without harm."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import date
from itertools import count
from uuid import UUID, uuid4

import pytest

from memory.adapters import redis_hot
from memory.adapters.redis_client import connect
from memory.adapters.redis_hot import RedisHot
from memory.chain import Digest
from memory.errors import QueueUnavailable
from memory.model import Announcement, Scope, SessionRef
from memory.read.conversation import WITHDRAWN, Asked, HotState
from memory.read.dropped import Joint
from tests.cluster_fixture import Cluster
from tests.valkey_fixture import ValkeyServer

SCOPE = Scope(UUID(int=1))
KEY = b"k" * 16
ANSWERS = [Digest(bytes([number]) * 32) for number in range(3)]
OPENING = Digest(b"o" * 32)
PAIR, BEFORE = Digest(b"p" * 32), Digest(b"b" * 32)


def a_session(label: str = "wie geht’s") -> SessionRef:
    return SessionRef(uuid4(), label)


@pytest.fixture
async def hot(valkey: ValkeyServer) -> AsyncIterator[RedisHot]:
    hot = RedisHot(valkey.url, timeout_ms=2000, keep_timeout_ms=2000)
    yield hot
    await hot.close()


async def test_a_session_is_found_by_its_answers_and_others_are_not(hot: RedisHot) -> None:
    port: HotState = hot
    session = a_session()
    await port.keep(SCOPE, KEY, ANSWERS[:2], None, False, session, {})
    found = await port.find(SCOPE, KEY, Asked(ANSWERS, None, []))
    assert found.sessions == {ANSWERS[0]: session, ANSWERS[1]: session}
    assert (found.opening, found.versions) == (None, {})


@pytest.mark.parametrize("label", ["{}", "{}".upper(), "", "é", "urn:uuid:{}", "\xff"])
async def test_a_label_comes_back_as_it_was(hot: RedisHot, label: str) -> None:
    session = a_session(label.format("0190c0de-ab12-7000-8000-00000000abcd"))
    await hot.keep(SCOPE, KEY, ANSWERS[:1], OPENING, True, session, {PAIR: Joint(session, BEFORE, ANSWERS[0])})
    found = await hot.find(SCOPE, KEY, Asked(ANSWERS[:1], OPENING))
    assert (found.sessions, found.opening) == ({ANSWERS[0]: session}, session)
    assert await hot.joints(SCOPE, KEY, [PAIR]) == {PAIR: Joint(session, BEFORE, ANSWERS[0])}


async def test_without_a_window_no_opening_is_another_attempt(valkey: ValkeyServer) -> None:
    hot, session = RedisHot(valkey.url, opening_ttl_s=0, timeout_ms=2000, keep_timeout_ms=2000), a_session()
    await hot.keep(SCOPE, KEY, ANSWERS[:1], OPENING, True, session, {})
    found = await hot.find(SCOPE, KEY, Asked(ANSWERS[:1], OPENING))
    assert (found.sessions, found.opening) == ({ANSWERS[0]: session}, None)
    await hot.close()


async def test_another_scope_or_tenant_finds_nothing(hot: RedisHot) -> None:
    await hot.keep(SCOPE, KEY, ANSWERS, OPENING, True, a_session(), {})
    for scope, key in ((SCOPE, b"x" * 16), (Scope(UUID(int=2)), KEY)):
        found = await hot.find(scope, key, Asked(ANSWERS, OPENING, []))
        assert (found.sessions, found.opening) == ({}, None)


async def test_among_equal_answers_the_latest_session_wins(hot: RedisHot) -> None:
    later = a_session("later")
    await hot.keep(SCOPE, KEY, ANSWERS[:1], None, False, a_session("earlier"), {})
    await hot.keep(SCOPE, KEY, ANSWERS[:1], None, False, later, {})
    assert (await hot.find(SCOPE, KEY, Asked(ANSWERS[:1], None, []))).sessions == {ANSWERS[0]: later}


async def test_an_opening_is_another_attempt_until_somebody_goes_on_from_it(hot: RedisHot) -> None:
    session = a_session()
    await hot.keep(SCOPE, KEY, ANSWERS[:1], OPENING, True, session, {})
    found = await hot.find(SCOPE, KEY, Asked([], OPENING, []))
    assert (found.opening, found.opening_continued) == (session, False)
    await hot.keep(SCOPE, KEY, ANSWERS[1:2], OPENING, False, session, {})
    assert (await hot.find(SCOPE, KEY, Asked([], OPENING, []))).opening_continued
    await hot.keep(SCOPE, KEY, ANSWERS[2:], OPENING, True, session, {})  # an attempt that ends after that
    assert (await hot.find(SCOPE, KEY, Asked([], OPENING, []))).opening_continued
    other = a_session("a new one")
    await hot.keep(SCOPE, KEY, [], OPENING, True, other, {})
    found = await hot.find(SCOPE, KEY, Asked([], OPENING, []))
    assert (found.opening, found.opening_continued) == (other, False)
    await hot.keep(
        SCOPE, KEY, [], OPENING, False, session, {}
    )  # going on from the older one does not concern the newer
    assert not (await hot.find(SCOPE, KEY, Asked([], OPENING, []))).opening_continued


MARKS = [Digest(bytes([number]) * 32) for number in range(10, 13)]


async def test_the_ledger_is_read_in_the_same_trip_of_the_session_that_the_answers_say(hot: RedisHot) -> None:
    session = a_session()
    await hot.keep(SCOPE, KEY, ANSWERS[:1], OPENING, True, session, {})
    await hot.note(SCOPE, KEY, session.session_id, {MARKS[0]: b"sealed", MARKS[1]: b""}, [])
    for asked in (
        Asked(answers=ANSWERS, marks=MARKS),
        Asked(opening=OPENING, marks=MARKS),
        Asked(session_id=session.session_id, marks=MARKS),
    ):
        found = await hot.find(SCOPE, KEY, asked)
        assert (found.ledger_of, found.ledger) == (session.session_id, {MARKS[0]: b"sealed", MARKS[1]: b""})
    assert (await hot.find(SCOPE, KEY, Asked(session_id=uuid4(), marks=MARKS))).ledger == {}
    assert (await hot.find(SCOPE, KEY, Asked(marks=MARKS))).ledger_of is None


async def test_what_was_placed_once_stays_until_it_is_withdrawn(hot: RedisHot) -> None:
    session = a_session().session_id
    await hot.note(SCOPE, KEY, session, {MARKS[0]: b"first"}, [])
    await hot.note(SCOPE, KEY, session, {MARKS[0]: b"second"}, [])
    asked = Asked(session_id=session, marks=MARKS)
    assert (await hot.find(SCOPE, KEY, asked)).ledger == {MARKS[0]: b"first"}
    await hot.note(SCOPE, KEY, session, {}, [MARKS[0]])
    await hot.note(SCOPE, KEY, session, {MARKS[0]: b"third"}, [])
    assert (await hot.find(SCOPE, KEY, asked)).ledger == {MARKS[0]: WITHDRAWN}


async def test_announced_versions_never_go_backwards(hot: RedisHot) -> None:
    for version in (5, 7, 6, 2**52):
        await hot.announce(SCOPE.tenant, 42, version)
    await hot.announce(SCOPE.tenant, 42, 8)
    await hot.announce(SCOPE.tenant, 43, 1)
    found = await hot.find(SCOPE, KEY, Asked([], None, [41, 42, 43]))
    assert found.versions == {42: 2**52, 43: 1}


async def test_a_version_that_the_store_was_set_back_behind_ends_with_its_time(
    hot: RedisHot, valkey: ValkeyServer
) -> None:
    """Postgres restored from an older copy: what is announced from then on is lower, and keeps nothing alive."""
    await hot.announce(SCOPE.tenant, 42, 9)
    async with connect(valkey.url) as client:
        (key,) = await client.keys("mp:h:*:v:42")
        await client.expire(key, 100)
        for version in (5, 9):
            await hot.announce(SCOPE.tenant, 42, version)
            assert 0 < await client.ttl(key) <= 100
        await hot.announce(SCOPE.tenant, 42, 10)
        assert await client.ttl(key) > 100


async def heard(hot: RedisHot, speak: Callable[[], Awaitable[None]], wanted: int) -> list[Announcement]:
    """The first `wanted` of what is announced while `speak` is called again and again."""
    found: list[Announcement] = []

    async def listen() -> None:
        async for announced in hot.announcements():
            found.append(announced)
            if len(found) == wanted:
                return

    listening = asyncio.create_task(listen())
    async with asyncio.timeout(10):
        while not listening.done():
            await speak()
            await asyncio.sleep(0.01)
    await listening
    return found


async def test_who_listens_hears_each_version_that_is_new(hot: RedisHot) -> None:
    versions = count(1)

    async def speak() -> None:
        version = next(versions)
        await hot.announce(SCOPE.tenant, 42, version)
        await hot.announce(SCOPE.tenant, 42, version - 1)
        await hot.announce(SCOPE.tenant, 42, version)

    first, second, third = await heard(hot, speak, 3)
    assert (first.tenant, first.scope_id) == (SCOPE.tenant, 42)
    assert (second.version, third.version) == (first.version + 1, first.version + 2)


async def test_what_is_no_announcement_does_not_end_the_listening(
    hot: RedisHot, valkey: ValkeyServer, caplog: pytest.LogCaptureFixture
) -> None:
    versions = count(1)

    async def speak() -> None:
        async with connect(valkey.url) as client:
            for message in (b"", b"a b", b"\xff\xfe 1 2", b"not-a-uuid 1 2", f"{SCOPE.tenant.hex} one 2".encode()):
                await client.publish("mp:h:announced", message)
        await hot.announce(SCOPE.tenant, 42, next(versions))

    (found,) = await heard(hot, speak, 1)
    assert (found.tenant, found.scope_id) == (SCOPE.tenant, 42)
    assert "announcement_unreadable" in caplog.text


async def test_who_listens_is_told_that_the_server_is_gone(hot: RedisHot, valkey: ValkeyServer) -> None:
    async def listen() -> None:
        async for _ in hot.announcements():
            pass

    listening = asyncio.create_task(listen())
    await asyncio.sleep(0.2)
    valkey.kill()
    with pytest.raises(QueueUnavailable):
        await asyncio.wait_for(listening, 10)


async def test_a_connection_that_answers_no_ping_is_listened_on_no_longer(
    hot: RedisHot, valkey: ValkeyServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redis_hot, "_SILENCE_S", 0.2)

    async def listen() -> None:
        async for _ in hot.announcements():
            pass

    listening = asyncio.create_task(listen())
    await asyncio.sleep(1.0)
    assert not listening.done(), "a server that has nothing to say answers its pings"
    valkey.freeze()
    try:
        with pytest.raises(QueueUnavailable):
            await asyncio.wait_for(listening, 5)
    finally:
        valkey.thaw()


async def test_what_a_tenant_spends_on_a_day_is_summed(hot: RedisHot) -> None:
    ada, bob, day = UUID(int=1), UUID(int=2), date(2026, 3, 1)
    assert await hot.spend(ada, day, 5) == 5
    assert await hot.spend(ada, day, 2) == 7
    assert await hot.spend(bob, day, 0) == 0
    assert await hot.spend(ada, date(2026, 3, 2), 1) == 1


async def test_everything_comes_in_one_answer_in_its_place(hot: RedisHot) -> None:
    session = a_session()
    await hot.keep(SCOPE, KEY, ANSWERS[1:2], OPENING, True, session, {})
    await hot.announce(SCOPE.tenant, 2, 9)
    found = await hot.find(SCOPE, KEY, Asked(ANSWERS, OPENING, [1, 2]))
    assert (found.sessions, found.opening, found.versions) == ({ANSWERS[1]: session}, session, {2: 9})


async def test_every_key_dies_by_itself(hot: RedisHot, valkey: ValkeyServer) -> None:
    await hot.keep(SCOPE, KEY, ANSWERS, OPENING, True, a_session(), {})
    await hot.keep(SCOPE, KEY, ANSWERS, OPENING, False, a_session(), {})
    await hot.announce(SCOPE.tenant, 2, 9)
    await hot.announce(SCOPE.tenant, 2, 8)
    await hot.spend(SCOPE.tenant, date(2026, 3, 1), 1)
    client = connect(valkey.url)
    keys = await client.execute_command("KEYS", "*")
    assert len(keys) == 6
    for key in keys:
        assert 0 < await client.execute_command("TTL", key) <= 2 * 86_400
    await client.aclose()


async def test_a_server_that_hangs_holds_nobody_and_one_that_is_gone_is_a_named_fault(valkey: ValkeyServer) -> None:
    hot = RedisHot(valkey.url, timeout_ms=20, keep_timeout_ms=20)
    valkey.freeze()
    try:
        async with asyncio.timeout(10):
            with pytest.raises(QueueUnavailable):
                await hot.find(SCOPE, KEY, Asked(ANSWERS, OPENING, [1]))
            with pytest.raises(QueueUnavailable):
                await hot.keep(SCOPE, KEY, ANSWERS, OPENING, True, a_session(), {})
    finally:
        valkey.thaw()
    valkey.kill()
    with pytest.raises(QueueUnavailable):
        await hot.announce(SCOPE.tenant, 1, 1)
    await hot.close()


@pytest.mark.slow
async def test_a_cluster_serves_keys_of_several_slots(cluster: Cluster) -> None:
    hot = RedisHot(cluster.url, timeout_ms=5000, keep_timeout_ms=5000)
    session = a_session()
    await hot.keep(SCOPE, KEY, ANSWERS[:1], OPENING, True, session, {})
    await hot.announce(SCOPE.tenant, 2, 9)
    found = await hot.find(SCOPE, KEY, Asked(ANSWERS, OPENING, [1, 2]))
    assert (found.sessions, found.opening, found.versions) == ({ANSWERS[0]: session}, session, {2: 9})
    await hot.close()
