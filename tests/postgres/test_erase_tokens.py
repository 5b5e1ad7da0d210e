"""What stands behind a token goes with the last text that holds it, and stays for any other of its person."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from memory.adapters.postgres import erase_store, erase_tokens
from memory.adapters.postgres.erase_store import EraseStore
from memory.adapters.postgres.redact_store import RedactStore
from memory.adapters.postgres.row_vault import vaulted
from memory.adapters.postgres.write_store import WriteStore
from memory.erasure.job import Erasing
from memory.erasure.model import Items, Job, Named, Target, TargetKind
from memory.model import Commit, Scope
from memory.write.personal import SubjectTokens
from memory.write.tombstones import digests_of
from policies.labels import Sensitivity
from tests.postgres.seed import T0, exchange, memory_of
from tests.postgres.test_erase import Bench, Dying, Killed, bench, rows
from tests.postgres_fixture import TestDatabase

__all__ = ["bench"]
GONE, SAID, CALLED, DEEP, OTHER = (f"{name}@example.com" for name in ("gone", "said", "called", "deep", "other"))


async def keeper(bench: Bench, user: str = "ada") -> SubjectTokens:
    keys, tenant = bench.parts.keys, bench.stores.tenant
    return SubjectTokens(await keys.subject_key(tenant, user), tenant, await keys.subject_id(tenant, user))


async def spoken(
    bench: Bench,
    scope: Scope,
    session: str,
    *values: str,
    label: Sensitivity = Sensitivity.INTERNAL,
    called: Sequence[str] = (),
    at: int = 0,
) -> Commit:
    """An exchange in which these addresses stand as tokens, those `called` in a tool's call only."""
    tokens = await keeper(bench, scope.user)
    said = " and ".join(tokens.token("email", value) for value in values)
    calls = [{"function": {"arguments": {"to": tokens.token("email", value)}}} for value in called]
    made = exchange(scope, session, at, (f"write to {said}, please", "it was written as you wished for it"))
    turns = tuple(replace(one, sensitivity=label) for one in made.turns)
    turns = (replace(turns[0], tool_calls=calls or None, source_id=f"source {session}"), *turns[1:])
    memories = tuple(memory_of(one) for one in turns)
    made = replace(made, turns=turns, memories=memories, tokens=tuple(tokens.kept.values()), cleaned_by="2.x")
    key = await bench.parts.keys.content_key(scope.tenant)
    database = vaulted(bench.stores.database, bench.parts.keys)
    write = WriteStore(database, bench.stores.scopes, bench.postgres.embeddings)
    await write.commit(made, now=T0, digests=digests_of(key, scope, [session], turns))
    return made


async def kept(bench: Bench) -> set[str]:
    """The addresses that can be shown."""
    read, found = RedactStore(bench.stores.database, bench.postgres.embeddings), set()
    keepers = {user: await keeper(bench, user) for user in ("ada", "eve")}
    async for scope in read.scopes():
        for value in (GONE, SAID, CALLED, DEEP, OTHER):
            if await read.token(scope, keepers[scope.user_name].token("email", value)) is not None:
                found.add(f"{scope.user_name} {value.partition('@')[0]}")
    return found


def with_vault(bench: Bench) -> Bench:
    """The same, whose erasures can open what is confidential."""
    store = EraseStore(vaulted(bench.stores.database, bench.parts.keys), bench.postgres.embeddings)
    return replace(bench, parts=replace(bench.parts, store=store))


async def some_talks(bench: Bench) -> Commit:
    """A conversation of ada's that goes, others that hold some of the same, and one of eve's."""
    ada, far, eve = bench.stores.scope("ada"), bench.stores.scope("ada", "q"), bench.stores.scope("eve")
    made = await spoken(bench, ada, "s", GONE, SAID, CALLED, DEEP)
    await spoken(bench, ada, "t", SAID)
    await spoken(bench, far, "u", OTHER, called=[CALLED])
    await spoken(bench, far, "v", DEEP, label=Sensitivity.CONFIDENTIAL)
    await spoken(bench, eve, "s", GONE)
    return made


ALL = {"ada gone", "ada said", "ada called", "ada deep", "ada other", "eve gone"}


@pytest.mark.parametrize("kind", ["session", "memory", "source_id", "query"])
async def test_what_no_text_holds_any_more_cannot_be_shown(bench: Bench, kind: TargetKind) -> None:
    bench = with_vault(bench)
    made = await some_talks(bench)
    assert await kept(bench) == ALL
    memory = made.memories[0].memory_id
    value = {"session": "s", "source_id": "source s", "memory": str(memory), "query": ""}[kind]
    target = Target(kind, value, made.scope, (memory,) if kind == "query" else ())
    receipt = (await bench.run(await bench.asking.ask(target, bench.parts.clock()))).receipt
    assert receipt["complete"], receipt
    assert await kept(bench) == ALL - {"ada gone"}
    assert receipt["counts"]["personal_tokens"] == 1


async def test_what_is_said_of_an_address_in_memories_only_keeps_it(bench: Bench, postgres: TestDatabase) -> None:
    """A version that was replaced is shown by as_of."""
    bench = with_vault(bench)
    await some_talks(bench)
    token = (await keeper(bench)).token("email", GONE)
    postgres.psql(
        f'UPDATE memory_versions SET attributes = \'{{"who": "{token}"}}\' WHERE memory_id ='
        " (SELECT memory_id FROM memories JOIN sessions s USING (tenant_id, session_id) WHERE s.label = 'u' LIMIT 1)"
    )
    receipt = (await bench.run(await bench.ask("session", "s", bench.stores.scope("ada")))).receipt
    assert await kept(bench) == ALL and "personal_tokens" not in receipt["counts"]


@pytest.mark.parametrize("step", ["delete", "advance:deleted", "advance:rebuilt", "drop_unsaid_tokens"])
async def test_killed_before_or_behind_it_the_next_one_finds_what_is_unsaid(bench: Bench, step: str) -> None:
    bench = with_vault(bench)
    made = await some_talks(bench)
    erasure_id = await bench.ask("session", "s", made.scope)
    dying = Dying(vaulted(bench.stores.database, bench.parts.keys), bench.postgres.embeddings)
    dying.dies_after = step
    fence = await bench.leader.lead(60)
    assert fence is not None
    with pytest.raises(Killed):
        await Erasing(replace(bench.parts, store=dying)).run(bench.stores.tenant, erasure_id, fence)
    assert (await bench.run(erasure_id)).receipt["complete"]
    assert await kept(bench) == ALL - {"ada gone"}


async def test_a_project_or_a_user_that_goes_takes_its_own_along(bench: Bench) -> None:
    bench = with_vault(bench)
    await some_talks(bench)
    await bench.run(await bench.ask("project", "q", bench.stores.scope("ada", "q")))
    assert await kept(bench) == ALL - {"ada other"}, "what stands in the project that stays has a row there"
    await bench.run(await bench.ask("user", "ada", bench.stores.scope("ada")))
    assert await kept(bench) == {"eve gone"} and rows(bench, "personal_tokens") == 1


async def test_an_older_copy_gives_them_up_as_well(bench: Bench) -> None:
    bench = with_vault(bench)
    made = await some_talks(bench)
    erasure_id = await bench.ask("session", "s", made.scope)
    fence = await bench.leader.lead(60)
    assert fence is not None
    await Erasing(bench.parts).take_out(bench.stores.tenant, erasure_id, fence, removal_only=True)
    assert await kept(bench) == ALL - {"ada gone"}


async def test_texts_are_read_in_pages(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(erase_tokens, "PAGE_ROWS", 1)
    bench = with_vault(bench)
    await some_talks(bench)
    receipt = (await bench.run(await bench.ask("session", "s", bench.stores.scope("ada")))).receipt
    assert await kept(bench) == ALL - {"ada gone"} and receipt["counts"]["personal_tokens"] == 1


async def test_who_says_it_again_meanwhile_keeps_it(bench: Bench) -> None:
    """An exchange that is being stored has found its value there, and is not to be seen yet."""
    ada = bench.stores.scope("ada")
    await spoken(bench, ada, "s", GONE)
    bench.postgres.psql("DELETE FROM memories; DELETE FROM turns")
    (scope_id,) = [one.scope_id for one in await bench.parts.store.scopes(ada.tenant)]
    tokens = await keeper(bench)
    token = tokens.token("email", GONE)
    async with bench.stores.database.transaction(ada.tenant, [scope_id]) as writing:
        row = (ada.tenant, scope_id, token, tokens.subject, "email", tokens.kept[token].sealed, T0)
        await writing.run("keep_token", *row)
        dropping = asyncio.create_task(erase_tokens.drop_unsaid(bench.stores.database, ada.tenant, [scope_id]))
        while bench.postgres.psql("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'") == "0":
            assert not dropping.done()
            await asyncio.sleep(0.01)
        session = bench.postgres.psql("SELECT session_id FROM sessions")
        await writing._connection.execute(
            "INSERT INTO turns (tenant_id, event_id, scope_id, session_id, exchange_id, seq, chain, role, content,"
            " origin, integrity, sensitivity, occurred_at, recorded_at) VALUES ($1, gen_random_uuid(), $2, $3,"
            " gen_random_uuid(), 90, sha256('x'), 'user', $4, 'live', 'user', 'internal', now(), now())",
            ada.tenant, scope_id, session, f"again {token}",
        )  # fmt: skip
    assert await dropping == 0
    assert await kept(bench) == {"ada gone"}


async def test_the_scopes_of_a_tenant_are_gone_through_once_however_many_of_its_users_are_touched(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A project of 50,000 users that stays with what is newer: they were gone through for each of its users."""
    looked, asked = list[int](), list[list[int]]()

    class Scopes(list[Named]):
        def __iter__(self) -> Iterator[Named]:
            looked.append(len(self))
            return super().__iter__()

    class Store(EraseStore):
        def __init__(self) -> None:
            """Without a database."""
            self._database: Any = None

        async def scopes(self, tenant: UUID) -> list[Named]:
            return Scopes(Named(n, f"u{n % 20}", "p", "a", "own") for n in range(40))

        async def items(self, job: Job) -> Items:
            return Items({"turn": {str(n): n for n in range(1, 19)}})

    async def dropped(database: Any, tenant: UUID, scope_ids: Sequence[int]) -> int:
        asked.append(list(scope_ids))
        return 1

    monkeypatch.setattr(erase_store, "drop_unsaid", dropped)
    job = Job(UUID(int=1), UUID(int=2), "project", None, b"", "deleted", T0, {}, None, None)
    assert await Store().drop_unsaid_tokens(job) == 18
    assert sorted(asked) == [[n, n + 20] for n in range(1, 19)]
    assert len(looked) <= 2
