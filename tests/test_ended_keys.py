"""A secret that was ended is refused by a process that cannot read the table of keys, as long as Redis answers."""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from aiohttp.test_utils import make_mocked_request
from pydantic import SecretStr

from memory.adapters.redis_ended import RedisEnded
from memory.config import Settings
from memory.config_sections import Data, Redis
from memory.errors import InvalidApiKey, QueueUnavailable, StoreUnavailable
from memory.key_table import OpenedKey, Secret, ended
from memory.stored import ApiKey
from memory.telemetry import Metrics
from policies.capability_token import Authority
from proxy.auth import KeyedDoor
from proxy.wiring.stores import open_queued
from tests.valkey_fixture import ValkeyServer

NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)
LAPTOP, DESK = UUID(int=1), UUID(int=2)
KEY = ApiKey(LAPTOP, UUID(int=9), "new", b"n" * 32, "laptop", {}, {}, (), "internal", NOW, None, None)


@pytest.fixture
async def told(valkey: ValkeyServer) -> AsyncIterator[RedisEnded]:
    found = RedisEnded(valkey.url, timeout_s=2)
    yield found
    await found.close()


class Table:
    """The table of keys, which may be out of reach."""

    def __init__(self, *keys: OpenedKey) -> None:
        self.keys = {hashlib.sha256(f"mp-{key.prefix}".encode()).digest(): key for key in keys}
        self.is_away = False
        self.asked, self._answers = asyncio.Event(), asyncio.Event()
        self._answers.set()

    def hold(self) -> asyncio.Event:
        """Answer no more before this is set."""
        self._answers.clear()
        self.asked.clear()
        return self._answers

    async def all_active(self, now: datetime) -> Mapping[bytes, OpenedKey]:
        if self.is_away:
            raise StoreUnavailable("cut off")
        self.asked.set()
        await self._answers.wait()
        return self.keys


def opened(key_id: UUID, prefix: str) -> OpenedKey:
    return OpenedKey(key_id, UUID(int=9), prefix, None, Authority())


def asks(prefix: str) -> Any:
    return make_mocked_request("GET", "/", headers={"Authorization": f"Bearer mp-{prefix}"})


async def test_a_process_that_is_cut_off_from_postgres_hears_of_it_and_lets_others_in(told: RedisEnded) -> None:
    table = Table(opened(LAPTOP, "aaaa"), opened(LAPTOP, "bbbb"), opened(DESK, "cccc"))
    door = KeyedDoor(table, stale_max_s=60, told=told)
    await door.read()
    table.is_away = True
    await door.read()
    await door.hear()
    assert [door.admit(asks(one)).key_id for one in ("aaaa", "bbbb", "cccc")] == [LAPTOP, LAPTOP, DESK]
    in_an_hour = Secret(LAPTOP, "bbbb"), NOW + timedelta(hours=1)
    await told.tell(dict([(Secret(LAPTOP, "aaaa"), NOW), in_an_hour]), NOW)
    await door.hear()
    with pytest.raises(InvalidApiKey, match="revoked or rotated"):
        door.admit(asks("aaaa"))
    assert door.admit(asks("bbbb")).key_id == LAPTOP
    assert door.admit(asks("cccc")).key_id == DESK


async def test_the_table_is_believed_again_once_it_is_read(told: RedisEnded) -> None:
    table = Table(opened(LAPTOP, "aaaa"))
    door = KeyedDoor(table, stale_max_s=60, told=told)
    await door.read()
    await told.tell({Secret(LAPTOP, "aaaa"): NOW}, NOW)
    await door.hear()
    with pytest.raises(InvalidApiKey):
        door.admit(asks("aaaa"))
    await door.read()
    assert door.admit(asks("aaaa")).key_id == LAPTOP


async def test_where_neither_store_answers_what_was_heard_stays(told: RedisEnded) -> None:
    door = KeyedDoor(Table(opened(LAPTOP, "aaaa"), opened(DESK, "cccc")), stale_max_s=60, told=told)
    await door.read()
    await told.tell({Secret(LAPTOP, "aaaa"): NOW}, NOW)
    await door.hear()

    class Away(RedisEnded):
        async def known(self) -> frozenset[Secret]:
            raise QueueUnavailable("cut off, too")

    door._told = Away("redis://127.0.0.1:1", timeout_s=1)
    await door.hear()
    with pytest.raises(InvalidApiKey):
        door.admit(asks("aaaa"))
    assert door.admit(asks("cccc")).key_id == DESK


def test_what_a_change_of_a_key_ends_and_when() -> None:
    rotated = replace(KEY, prefix="newer", former_prefix="new", former_until=NOW + timedelta(hours=1))
    redone = replace(rotated, prefix="newest")
    said = {
        "revoked": ended(rotated, replace(rotated, revoked_at=NOW), NOW),
        "rotated": ended(KEY, rotated, NOW),
        "redone": ended(rotated, redone, NOW),
        "both at once": ended(rotated, replace(redone, former_prefix="newer", former_until=NOW), NOW),
    }
    assert {act: {one.prefix: at - NOW for one, at in ends.items()} for act, ends in said.items()} == {
        "revoked": {"newer": timedelta(0), "new": timedelta(0)},
        "rotated": {"new": timedelta(hours=1)},
        "redone": {"newer": timedelta(0), "new": timedelta(hours=1)},
        "both at once": {"newer": timedelta(0), "new": timedelta(0)},
    }


async def test_a_table_that_was_asked_for_before_a_secret_was_ended_does_not_let_it_in_again(told: RedisEnded) -> None:
    table = Table(opened(LAPTOP, "aaaa"))
    door = KeyedDoor(table, stale_max_s=60, told=told)
    await door.read()
    answers = table.hold()
    reading = asyncio.create_task(door.read())
    await table.asked.wait()
    await told.tell({Secret(LAPTOP, "aaaa"): NOW}, NOW)
    await door.hear()
    answers.set()  # as the table was before
    await reading
    with pytest.raises(InvalidApiKey, match="revoked or rotated"):
        door.admit(asks("aaaa"))
    await door.read()
    assert door.admit(asks("aaaa")).key_id == LAPTOP


async def test_what_is_heard_while_an_older_table_comes_holds(told: RedisEnded) -> None:
    table = Table(opened(LAPTOP, "aaaa"))
    answers = table.hold()

    class Slow(RedisEnded):
        async def known(self) -> frozenset[Secret]:
            answers.set()  # the table, as it was before
            await reading
            return await told.known()

    door = KeyedDoor(table, stale_max_s=60, told=Slow("redis://127.0.0.1:1", timeout_s=1))
    reading = asyncio.create_task(door.read())
    await table.asked.wait()
    await told.tell({Secret(LAPTOP, "aaaa"): NOW}, NOW)
    await door.hear()
    with pytest.raises(InvalidApiKey, match="revoked or rotated"):
        door.admit(asks("aaaa"))


async def test_it_is_kept_beside_the_queue_for_caches_may_be_evicted(valkey: ValkeyServer, tmp_path: Path) -> None:
    (tmp_path / "spool").mkdir()
    redis = Redis(url=SecretStr(valkey.url), cache_url=SecretStr("redis://127.0.0.1:1"))
    queued = await open_queued(Settings(data=Data(dir=tmp_path), redis=redis), Metrics())
    try:
        await queued.ended.tell({Secret(LAPTOP, "aaaa"): NOW}, NOW)
        assert await queued.ended.known() == {Secret(LAPTOP, "aaaa")}
    finally:
        await queued.hand_off.close()
        for one in (queued.queue, queued.hot_state, queued.rates, queued.ended):
            await one.close()
