"""Several erasures of a tenant that wait are taken out one by one and looked for in one pass; each proves its own."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from memory.adapters.postgres.erase_jobs import JOB
from memory.adapters.postgres.erase_probe import DatabaseProbe
from memory.adapters.postgres.erase_store import EraseStore
from memory.adapters.postgres.leadership import Leadership
from memory.erasure import journal, loop
from memory.erasure.job import Erasing
from memory.erasure.model import Target
from memory.erasure.receipt import is_genuine, public_key
from memory.errors import StoreUnavailable
from memory.model import Scope
from tests.postgres.test_erase import Bench, bench, rows
from tests.waiting import until

__all__ = ["bench"]
USERS = ("ada", "eve", "zoe")


class Gone(BaseException):
    """The process was killed: nothing in it is done any more, whatever it would pass over."""


class Counting(DatabaseProbe):
    """Notes of how many erasures each pass through the database looked for something."""

    passes: list[int]

    async def run(self, tenant: UUID, scopes: Sequence[int], wanted: Any) -> Any:
        self.passes.append(len(wanted) if hasattr(wanted, "__len__") else 1)
        return await super().run(tenant, scopes, wanted)


def words_of(user: str) -> tuple[str, str]:
    return (
        f"the brass key of {user} lies under {user}'s third step of the mill",
        f"and {user} is told by nobody where {user}'s mill stands",
    )


async def waiting(bench: Bench, users: Sequence[str] = USERS, tenant: UUID | None = None) -> dict[str, UUID]:
    """Users who said something and wait to be forgotten, by name."""
    asked = {}
    for user in users:
        scope = Scope(tenant or bench.stores.tenant, user, "p", "a")
        await bench.parts.keys.subject_key(scope.tenant, user)
        await bench.commit(scope, "s", words_of(user))
    for user in users:
        scope = Scope(tenant or bench.stores.tenant, user, "p", "a")
        asked[user] = await bench.asking.ask(Target("user", user, scope), datetime.now(UTC))
    return asked


def counting(bench: Bench) -> tuple[Bench, list[int]]:
    probe = Counting(bench.stores.database)
    probe.passes = []
    return replace(bench, parts=replace(bench.parts, probe=probe)), probe.passes


@asynccontextmanager
async def going_on(bench: Bench, erasing: Erasing | None = None) -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.create_task(
        loop.keep_erasing(bench.parts.store, bench.leader, erasing or Erasing(bench.parts), asyncio.Event())
    )
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait([task])


async def receipts(bench: Bench, asked: dict[str, UUID], tenant: UUID | None = None) -> dict[str, Any]:
    """Those there are by now."""
    jobs = {user: await bench.parts.store.get(tenant or bench.stores.tenant, one) for user, one in asked.items()}
    return {user: job.receipt for user, job in jobs.items() if job is not None and job.receipt is not None}


async def all_ended(bench: Bench) -> None:
    """Wait until they have."""

    async def ended() -> bool:
        return not await bench.parts.store.waiting()

    await until(ended, timeout_s=100)


async def test_those_that_wait_are_looked_for_in_one_pass_and_each_has_its_own_receipt(bench: Bench) -> None:
    """Each read all that its tenant has, 73 s of a processor at 125,000 memories, and the third of three came last."""
    bench, passes = counting(bench)
    asked = await waiting(bench)
    async with going_on(bench):
        await all_ended(bench)
    assert passes == [3]
    told = await receipts(bench, asked)
    assert {user: one["complete"] for user, one in told.items()} == dict.fromkeys(USERS, True), told
    key = public_key(await bench.parts.keys.receipt_seed())
    for user, one in told.items():
        assert is_genuine(one, key) and one["id"] == str(asked[user])
        assert one["probe"]["words_known"] and one["probe"]["word_runs"] > 0 and one["probe"]["ids"] == 4
        assert one["counts"].items() >= {"turns": 2, "memories": 2, "keys_shredded": 1}.items()
    assert len({one["ids"]["root"] for one in told.values()}) == 3
    assert {one.erasure for one in journal.entries(bench.parts.journal)} == set(asked.values())
    assert rows(bench, "turns") == rows(bench, "erasure_items") == 0


async def test_what_is_left_of_one_is_told_in_its_receipt_alone(bench: Bench) -> None:
    kept = bench.stores.scope("kept")
    await bench.commit(kept, "s", ("what is kept is quite another matter altogether", "and so is its answer"))
    asked = await waiting(bench)
    note = json.dumps({"note": words_of("eve")[0]}).replace("'", "''")
    bench.postgres.psql(
        f"UPDATE sessions SET attributes = '{note}' WHERE scope_id ="
        " (SELECT scope_id FROM scopes WHERE user_name = 'kept')"
    )
    async with going_on(bench):
        await all_ended(bench)
    told = {user: (one["complete"], one["probe"]["found"]) for user, one in (await receipts(bench, asked)).items()}
    assert told == {"ada": (True, {}), "eve": (False, {"sessions.attributes": 1}), "zoe": (True, {})}


@pytest.mark.parametrize("fails", ["probed", "end"])
async def test_one_that_cannot_be_proved_is_in_no_others_way(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, fails: str
) -> None:
    asked = await waiting(bench)
    stuck, tries = asked["eve"], Counter[str]()

    class Defective(Erasing):
        async def probed(self, tenant: UUID, taken: Any) -> Any:
            if fails == "probed" and stuck in [one.job.erasure_id for one in taken]:
                tries["failed"] += 1
                raise ValueError("a defect of ours")
            return await super().probed(tenant, taken)

        async def end(self, taken: Any, *args: Any) -> None:
            if fails == "end" and taken.job.erasure_id == stuck:
                tries["failed"] += 1
                raise ValueError("a defect of ours")
            await super().end(taken, *args)

    monkeypatch.setattr(loop, "_RESTED_S", 0.05)
    async with going_on(bench, Defective(bench.parts)) as task:
        await until(lambda: tries["failed"] >= 4, timeout_s=100)
        assert not task.done()
    told = await receipts(bench, asked)
    assert told.keys() == {"ada", "zoe"}
    assert all(one["complete"] and one["probe"]["words_known"] for one in told.values())
    job = await bench.parts.store.get(bench.stores.tenant, stuck)
    assert job is not None and job.step == "shredded", "taken out, and to be proved yet"
    assert bench.parts.metrics.erasures.labels("stopped")._value.get() >= 4


@pytest.mark.parametrize(
    ("dies_at", "nth", "proved"),
    [("mark", 2, 0), ("delete", 2, 0), ("delete", 3, 0), ("probe", 1, 0), ("end", 1, 1), ("end", 3, 3)],
)
async def test_killed_in_between_each_has_its_receipt_or_is_gone_on_with(
    bench: Bench, dies_at: str, nth: int, proved: int
) -> None:
    asked, done = await waiting(bench), Counter[str]()

    def step(name: str) -> None:
        done[name] += 1
        if name == dies_at and done[name] == nth:
            raise Gone

    class Dying(EraseStore):
        async def mark(self, *args: Any, **keywords: Any) -> None:
            await super().mark(*args, **keywords)
            step("mark")

        async def delete(self, *args: Any, **keywords: Any) -> Any:
            found = await super().delete(*args, **keywords)
            step("delete")
            return found

        async def end(self, *args: Any, **keywords: Any) -> None:
            await super().end(*args, **keywords)
            step("end")

    class DyingProbe(DatabaseProbe):
        async def run(self, *args: Any) -> Any:
            found = await super().run(*args)
            step("probe")
            return found

    database = bench.stores.database
    store, probe = Dying(database, bench.postgres.embeddings), DyingProbe(database)
    parts = replace(bench.parts, store=store, probe=probe)
    with pytest.raises(Gone):
        await loop.keep_erasing(store, bench.leader, Erasing(parts), asyncio.Event())
    before = await receipts(bench, asked)
    assert len(before) == proved and all(one["complete"] for one in before.values())
    assert len(await bench.parts.store.waiting()) == 3 - proved
    after = replace(bench, leader=Leadership(database, JOB, "another"))
    async with going_on(after):
        await all_ended(bench)
    told = await receipts(bench, asked)
    assert told.keys() == set(USERS) and {**told, **before} == told
    assert all(one["complete"] for one in told.values()), told
    assert rows(bench, "turns") == rows(bench, "memories") == rows(bench, "erasure_items") == 0
    assert {one.erasure for one in journal.entries(bench.parts.journal)} == set(asked.values())
    if dies_at == "mark":  # nothing of the second was gone yet, so its words are read again
        assert told["eve"]["probe"]["words_known"] and not told["ada"]["probe"]["words_known"]


async def test_another_tenants_does_not_wait_until_all_of_one_are_taken_out(bench: Bench) -> None:
    theirs, order = await bench.stores.keys.ensure_tenant("theirs", datetime.now(UTC)), list[str]()
    ours = await waiting(bench)
    other = await waiting(bench, ["ann"], theirs)
    names = {one: user for user, one in (*ours.items(), *other.items())}

    class Noting(Erasing):
        async def take_out(self, tenant: UUID, erasure_id: UUID, *args: Any, **keywords: Any) -> Any:
            order.append(f"take out {names[erasure_id]}")
            return await super().take_out(tenant, erasure_id, *args, **keywords)

        async def end(self, taken: Any, *args: Any) -> None:
            await super().end(taken, *args)
            order.append(f"end {names[taken.job.erasure_id]}")

    bench, passes = counting(bench)
    async with going_on(bench, Noting(bench.parts)):
        await all_ended(bench)
    taken, ended = [f"take out {user}" for user in USERS], [f"end {user}" for user in USERS]
    assert order == [taken[0], "take out ann", "end ann", *taken[1:], *ended]
    assert passes == [1, 3]
    told = {**await receipts(bench, ours), **await receipts(bench, other, theirs)}
    assert {user: (one["complete"], one["tenant"]) for user, one in told.items()} == {
        **dict.fromkeys(USERS, (True, str(bench.stores.tenant))),
        "ann": (True, str(theirs)),
    }


@pytest.mark.parametrize(("bound", "value"), [("TAKEN_OUT_MAX", 2), ("KEPT_MAX", 1)])
async def test_no_more_are_kept_unproved_than_may_be(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, bound: str, value: int
) -> None:
    monkeypatch.setattr(loop, bound, value)
    bench, passes = counting(bench)
    await waiting(bench)
    async with going_on(bench):
        await all_ended(bench)
    assert passes == ([2, 1] if bound == "TAKEN_OUT_MAX" else [1, 1, 1])


@pytest.mark.parametrize("is_away", [True, False])
async def test_a_store_that_cannot_say_what_waits_costs_nobody_the_words_nor_does_one_that_another_has_ended(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, is_away: bool
) -> None:
    """They are known to the process that has read them; asked again, it finds ids alone."""
    asked, asks = await waiting(bench), Counter[str]()

    class Away(EraseStore):
        async def waiting(self, *args: Any, **keywords: Any) -> Any:
            asks["waiting"] += 1
            if asks["waiting"] != 4:
                return await super().waiting(*args, **keywords)
            if is_away:  # behind the first that was taken out
                raise StoreUnavailable("away")
            return []

    monkeypatch.setattr(loop, "_RESTED_S", 0.05)
    store = Away(bench.stores.database, bench.postgres.embeddings)
    away = replace(bench, parts=replace(bench.parts, store=store))
    async with going_on(away):
        await all_ended(bench)
    told = await receipts(bench, asked)
    assert asks["waiting"] > 4
    assert {user: one["probe"]["words_known"] for user, one in told.items()} == dict.fromkeys(USERS, True)
