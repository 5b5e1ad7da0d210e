"""Dead letters can be listed and tried again, by their own tenant alone. Real Valkey, real queue."""

import base64
import json
from collections.abc import AsyncIterator
from urllib.parse import quote
from uuid import UUID

import pytest

from memory.adapters.redis_queue import RedisQueue, lane_of
from memory.ids import new_id
from memory.ports import Entry
from tests.test_api_admission import Keyed, parts, serving
from tests.valkey_fixture import ValkeyServer

OURS, THEIRS = UUID(int=1), UUID(int=9)
KEY = {"Authorization": "Bearer x"}


@pytest.fixture
async def queue(valkey: ValkeyServer) -> AsyncIterator[RedisQueue]:
    made = RedisQueue(valkey.url)
    await made.prepare()
    yield made
    await made.close()


async def buried(queue: RedisQueue, tenant: UUID) -> Entry:
    """An entry that a worker has given up."""
    entry = Entry(new_id(), tenant, new_id(), "exchange", "live", b"sealed words")
    await queue.put(entry)
    lane = lane_of(tenant, entry.subject_id, "live")
    (delivery,) = await queue.take([lane], count=1, block_ms=1000)
    await queue.bury(delivery, "no key opens it")
    return entry


async def test_a_dead_letter_is_listed_without_content_and_tried_again(queue: RedisQueue) -> None:
    entry = await buried(queue, OURS)
    async with serving(parts(door=Keyed("memory:admin"), queue=queue)) as call:
        status, body = await call("GET", "/memory/v1/queue/dead", headers=KEY)
        assert status == 200
        (letter,) = body["data"]
        assert (letter["exchange_id"], letter["reason"]) == (str(entry.exchange_id), "no key opens it")
        assert "sealed words" not in str(body)
        path = f"/memory/v1/queue/dead/{quote(letter['id'], safe='')}/replay"
        assert await call("POST", path, headers=KEY) == (200, {"id": letter["id"], "replayed": True})
        assert (await call("POST", path, headers=KEY))[0] == 404
        assert (await call("GET", "/memory/v1/queue/dead", headers=KEY))[1]["data"] == []
    depth = await queue.depth()
    assert (depth.pending, depth.dead) == (1, 0)


async def test_another_tenants_dead_letter_is_not_there(queue: RedisQueue) -> None:
    await buried(queue, THEIRS)
    (letter,) = await queue.dead_letters(10)
    async with serving(parts(door=Keyed("memory:admin"), queue=queue)) as call:
        assert (await call("GET", "/memory/v1/queue/dead", headers=KEY))[1]["data"] == []
        path = f"/memory/v1/queue/dead/{quote(letter.dead_id, safe='')}/replay"
        assert (await call("POST", path, headers=KEY))[0] == 404
    assert (await queue.depth()).dead == 1


async def test_others_dead_letters_and_newer_ones_hide_none(queue: RedisQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proxy.api.queue.DEAD_LETTERS_MAX", 1)
    older, newer = await buried(queue, OURS), await buried(queue, OURS)
    first = {letter.exchange_id: letter.dead_id for letter in await queue.dead_letters(9)}[older.exchange_id]
    for _ in range(3):
        await buried(queue, THEIRS)
    async with serving(parts(door=Keyed("memory:admin"), queue=queue)) as call:
        listed = (await call("GET", "/memory/v1/queue/dead", headers=KEY))[1]["data"]
        assert [letter["exchange_id"] for letter in listed] == [str(newer.exchange_id)]
        path = f"/memory/v1/queue/dead/{quote(first, safe='')}/replay"
        assert (await call("POST", path, headers=KEY))[0] == 200
        for wrong in (f"{first}0", "live-00/x", "live-00/1-1", "x"):
            path = f"/memory/v1/queue/dead/{quote(wrong, safe='')}/replay"
            assert (await call("POST", path, headers=KEY))[0] == 404


async def test_dead_letters_are_walked_to_the_last_also_where_some_are_tried_again_meanwhile(queue: RedisQueue) -> None:
    buried_ids = [str((await buried(queue, OURS)).exchange_id) for _ in range(7)]
    await buried(queue, THEIRS)
    async with serving(parts(door=Keyed("memory:admin"), queue=queue)) as call:
        walked: list[str] = []
        path = "/memory/v1/queue/dead?limit=2"
        while path:
            page = (await call("GET", path, headers=KEY))[1]
            walked += [letter["exchange_id"] for letter in page["data"]]
            for letter in page["data"]:
                again = f"/memory/v1/queue/dead/{quote(letter['id'], safe='')}/replay"
                assert (await call("POST", again, headers=KEY))[0] == 200
            path = f"/memory/v1/queue/dead?limit=2&cursor={page['next_cursor']}" if page["next_cursor"] else ""
        assert walked == buried_ids[::-1]
        bad = page_cursor(["dead letters", "desc", "live-00/x"])
        status, body = await call("GET", f"/memory/v1/queue/dead?cursor={bad}", headers=KEY)
        assert (status, body["error"]["param"]) == (400, "cursor")


def page_cursor(inner: list[str]) -> str:
    return base64.urlsafe_b64encode(json.dumps(inner).encode()).decode().rstrip("=")


async def test_a_key_without_the_capability_sees_none(queue: RedisQueue) -> None:
    async with serving(parts(door=Keyed("memory:read:own"), queue=queue)) as call:
        status, body = await call("GET", "/memory/v1/queue/dead", headers=KEY)
        assert (status, body["error"]["code"]) == (403, "capability_missing")
