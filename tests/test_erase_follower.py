"""A process that did not hear of an erasure, against a real Valkey: it is waited for, and lets go of what it held."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from memory.adapters.redis_client import connect
from memory.adapters.redis_erase import RedisErase
from memory.chain import Digest, chain
from memory.erasure import loop as erase_loop
from memory.erasure.follower import Follower, HoldsIndexes, Word
from memory.errors import EnvelopeUnreadable, QueueUnavailable
from memory.ids import new_id
from memory.keys import KeyRing, WrappedKey
from memory.read.entries import EntryCache
from memory.read.tell import Tells
from memory.telemetry import Metrics
from memory.write.documents_loop import DocumentsLoop
from tests.key_table import Table
from tests.test_conversation import KEY, SCOPE, Client, said
from tests.valkey_fixture import ValkeyServer
from tests.waiting import until

TENANT = SCOPE.tenant


class Scopes:
    """No scopes."""

    def drop_ids(self, tenant: UUID, scope_ids: Sequence[int]) -> None:
        return


class Held:
    """What a proxy worker holds of conversations and their ledgers, as its wiring has it."""

    def __init__(self) -> None:
        self.client = Client()
        self.entries = EntryCache()

    def let_go(self, tenant: UUID, scope_ids: Sequence[int]) -> None:
        self.client.conversations.let_go(tenant, scope_ids)
        self.entries.let_go(tenant)

    def let_go_of_all(self) -> None:
        self.client.conversations.let_go_of_all()
        self.entries.let_go_of_all()

    def holding(self, tenant: UUID, memory_ids: Sequence[UUID]) -> int:
        return 0


class Vectors:
    """Counts how often it let go."""

    times = 0

    def let_go(self) -> None:
        self.times += 1


@pytest.fixture
async def erase(valkey: ValkeyServer) -> AsyncIterator[RedisErase]:
    erase = RedisErase(valkey.url, valkey.url)
    yield erase
    await erase.close()


@asynccontextmanager
async def following(
    signals: RedisErase, keys: KeyRing, held: HoldsIndexes | None, *more: Vectors
) -> AsyncIterator[None]:
    task = asyncio.create_task(Follower(signals, "tester", Scopes(), keys, held, more).follow())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


@pytest.fixture
async def admin(valkey: ValkeyServer) -> AsyncIterator[Any]:
    admin = connect(valkey.url)
    yield admin
    await admin.aclose()


async def test_what_was_missed_while_the_link_was_cut_is_let_go_of_when_it_stands_again(
    erase: RedisErase, admin: Any
) -> None:
    table, held, vectors = Table(), Held(), Vectors()
    keys, messages = KeyRing(table, bytes(32)), said("hi")
    async with following(erase, keys, held, vectors):
        await until(lambda: _listeners(admin))
        salt = await keys.salt_key(TENANT)
        begun = await held.client.conversations.find(SCOPE, KEY, "divorce", messages, tuple(chain(KEY, messages)), [7])
        held.entries.put(TENANT, new_id(), Digest(b"d" * 32), b"sealed", None)
        drops, times = held.entries.drops(TENANT), vectors.times
        await admin.execute_command("CLIENT", "KILL", "TYPE", "pubsub")
        table.generation = 1
        await erase.announce(Word(TENANT, new_id(), 2, (7,)).packed())  # nobody listens
        await until(lambda: _listeners(admin))
        await asyncio.sleep(0.1)
        await held.client.conversations.remember(SCOPE, KEY, begun, [Digest(b"a" * 32)], {})
        assert not held.client.hot.answers, "the name of a conversation that may be erased"
        assert held.entries.drops(TENANT) > drops and held.entries.holding(TENANT, frozenset()) == 0
        assert vectors.times > times
        assert await keys.salt_key(TENANT) != salt


async def test_a_key_that_was_shredded_while_the_link_was_cut_opens_nothing_when_it_stands_again(
    erase: RedisErase, admin: Any
) -> None:
    table = Table()
    keys = KeyRing(table, bytes(32))
    async with following(erase, keys, None):
        await until(lambda: _listeners(admin))
        key, ada = await keys.subject_key(TENANT, "ada"), await keys.subject_id(TENANT, "ada")
        assert await keys.by_id(TENANT, key.key_id) == key
        await admin.execute_command("CLIENT", "KILL", "TYPE", "pubsub")
        table.keys[ada] = WrappedKey(key.key_id, ada, None)
        await erase.announce(Word(TENANT, new_id(), 3, keys=(key.key_id,)).packed())  # nobody listens
        await until(lambda: _listeners(admin))
        await asyncio.sleep(0.1)
        with pytest.raises(EnvelopeUnreadable, match="shredded"):
            await keys.by_id(TENANT, key.key_id)
        table.keys.clear()  # the store is away: a tenant's key stays and seals meanwhile
        of_tenant = await keys.tenant_key(TENANT)
        assert await keys.by_id(TENANT, of_tenant.key_id) == of_tenant


async def _listeners(admin: Any) -> bool:
    (_, count) = await admin.execute_command("PUBSUB", "NUMSUB", "mp:h:erased")
    return bool(count)


async def test_a_process_that_lives_and_cannot_hear_yet_is_waited_for(erase: RedisErase, valkey: ValkeyServer) -> None:
    class Deaf(RedisErase):
        async def listen(self, ready: Callable[[], None]) -> AsyncIterator[bytes | None]:
            raise QueueUnavailable("no subscription to be had")
            yield None

    async def living() -> bool:
        return await erase.living() == {"tester"}

    deaf = Deaf(valkey.url, valkey.url)
    try:
        async with following(deaf, KeyRing(Table(), bytes(32)), None):
            await until(living)
    finally:
        await deaf.close()
    assert await erase.living() == set(), "and not once it has ended"


class Index(Held):
    """An index of one memory, which is read anew by who asks."""

    def __init__(self, memory: UUID) -> None:
        super().__init__()
        self.memories = {memory}

    def let_go(self, tenant: UUID, scope_ids: Sequence[int]) -> None:
        self.memories.clear()

    def holding(self, tenant: UUID, memory_ids: Sequence[UUID]) -> int:
        return len(self.memories.intersection(memory_ids))


@pytest.mark.parametrize("missed", [True, False])
async def test_only_who_heard_that_it_is_to_let_go_holds_what_it_should_not(
    erase: RedisErase, admin: Any, missed: bool
) -> None:
    """Who missed the second word, its link being cut then, lets go at the third, before it says what it holds."""
    memory, erasure = new_id(), new_id()
    index = Index(memory)

    async def confirmed(turn: int) -> bool:
        return "tester" in await erase.confirmed(erasure, turn)

    async with following(erase, KeyRing(Table(), bytes(32)), index):
        await until(lambda: _listeners(admin))
        await erase.announce(Word(TENANT, erasure, 1).packed())
        if not missed:
            await erase.announce(Word(TENANT, erasure, 2, (7,)).packed())
            await until(lambda: confirmed(2))
            index.memories.add(memory)  # read behind it, as it may not be
        await erase.announce(Word(TENANT, erasure, 3, (7,), memories=(memory,)).packed())
        await until(lambda: confirmed(3))
    assert await erase.confirmed(erasure, 3) == {"tester": 0 if missed else 1}
    assert not index.memories


async def test_who_goes_through_with_what_is_asked_for_is_woken_by_who_asks(erase: RedisErase, admin: Any) -> None:
    """And where it hears again, since it may have missed that somebody asked."""
    woken = asyncio.Event()
    follower = Follower(erase, "tester", Scopes(), KeyRing(Table(), bytes(32)), None, (), (woken,))
    task = asyncio.create_task(follower.follow())
    try:
        for _ in range(2):
            await until(lambda: _listeners(admin))
            await asyncio.wait_for(woken.wait(), 10)
            woken.clear()
            await Tells(cast(Any, None), cast(Any, None), erase).asked()
            await asyncio.wait_for(woken.wait(), 10)
            woken.clear()
            await admin.execute_command("CLIENT", "KILL", "TYPE", "pubsub")
    finally:
        task.cancel()
        await asyncio.wait([task])


@pytest.mark.parametrize("loop", ["erasures", "uploads"])
async def test_who_waits_for_work_looks_at_once_when_it_is_asked_for(
    loop: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where that is said while it looks, and has found nothing yet."""
    monkeypatch.setattr(erase_loop, "POLL_S", 60.0)
    asked, looks = asyncio.Event(), asyncio.Queue[None]()

    async def nothing(*_: object) -> Any:
        looks.put_nowait(None)
        await asyncio.sleep(0)
        return [] if loop == "erasures" else None

    metrics, store = Metrics(), cast(Any, SimpleNamespace(waiting=nothing, take=nothing))
    erasing = cast(Any, SimpleNamespace(parts=SimpleNamespace(metrics=metrics)))
    uploads = DocumentsLoop(store, cast(Any, None), metrics, lambda: datetime.now(UTC), asked, poll_s=60.0)
    run = uploads.run() if loop == "uploads" else erase_loop.keep_erasing(store, cast(Any, None), erasing, asked)
    task = asyncio.create_task(run)
    try:
        async with asyncio.timeout(10):
            for _ in range(3):
                await looks.get()
                asked.set()  # at once: it has not come to its rest
    finally:
        task.cancel()
        await asyncio.wait([task])
