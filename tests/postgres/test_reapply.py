"""An older copy and the journal of later erasures: what was forgotten goes again, what is newer stays."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from memory.adapters.postgres.database import Database
from memory.adapters.postgres.own_memory import add_own_memory
from memory.adapters.postgres.rows import Place
from memory.adapters.postgres.scopes import Scopes
from memory.erasure import journal
from memory.erasure.job import Erasing
from memory.erasure.model import Target
from memory.erasure.reapply import reapply
from memory.ids import new_id
from memory.model import Scope
from tests.postgres.seed import SUBJECT, T0, memory_of, turn
from tests.postgres.test_erase import WORDS, Bench, Dying, Killed, bench, rows

__all__ = ["bench"]
NAMES = [("user", "ada"), ("project", "p"), ("session", "s")]
LATER = ("the otter of Bohinj sleeps under the old mill wheel", "otters like mills and slow water very much")


async def cleaned(bench: Bench) -> int:
    """What `migrate` does before anybody is answered."""
    return await reapply(Erasing(bench.parts), bench.asking, bench.leader)


async def forgotten(bench: Bench, kind: Any, value: str, scope: Scope) -> UUID:
    erasure_id = await bench.ask(kind, value, scope)
    assert (await bench.run(erasure_id)).receipt["complete"]
    return erasure_id


def restored(bench: Bench, *scopes: Scope) -> None:
    """As an older copy is: no word of the erasure."""
    for table in ("tombstones", "erasure_items", "erasures"):
        bench.postgres.psql(f"DELETE FROM {table}")
    for scope in scopes:
        bench.stores.scopes.drop(scope)


async def record(bench: Bench, scope: Scope, text: str, at: datetime = T0) -> UUID:
    """A memory that rests on no turn, as tasks, personas, cards, files and pieces of documents are."""
    scope_id = await Scopes(bench.stores.database).ensure(scope)
    memory = memory_of(turn(new_id(), text, 0, "user", text), source_turns=())
    async with bench.stores.database.transaction(bench.stores.tenant, [scope_id]) as tx:
        changed = await tx.value("bump_scope", bench.stores.tenant, scope_id)
        add = bench.stores.database.queries["add_embedding"].of_table(bench.postgres.embeddings)
        place = Place(bench.stores.tenant, scope_id, SUBJECT, new_id(), at)
        await add_own_memory(tx, place, memory, "persona", session_id=None, changed=changed, add_embedding=add)
    return memory.memory_id


def said(bench: Bench) -> list[str]:
    """All that the store says, sorted."""
    return bench.postgres.psql(
        "SELECT content FROM turns UNION SELECT content FROM memory_versions ORDER BY 1"
    ).splitlines()


def soon() -> datetime:
    return datetime.now(UTC) + timedelta(seconds=1)


@pytest.mark.parametrize(("kind", "name"), NAMES)
async def test_a_line_that_found_nothing_takes_nothing_of_who_comes_back(bench: Bench, kind: str, name: str) -> None:
    ada = bench.stores.scope("ada")
    await bench.commit(ada, "s")
    erasure_id = await forgotten(bench, kind, name, ada)
    restored(bench, ada)  # to before she was there
    assert await cleaned(bench) == 1
    await bench.commit(ada, "s", LATER, arrived_at=soon(), at=2)
    kept = said(bench)
    assert set(LATER) <= set(kept)
    assert await cleaned(bench) == 0
    assert said(bench) == kept
    job = await bench.asking.job(bench.stores.tenant, erasure_id)
    assert job is not None and job.step == "ended" and job.receipt is not None
    assert job.receipt["id"] == str(erasure_id) and job.receipt["complete"]


@pytest.mark.parametrize(("kind", "name"), NAMES)
async def test_what_came_behind_the_erasure_stays_where_the_journal_comes_late(
    bench: Bench, kind: str, name: str
) -> None:
    """The copy was in use before its journal lay there: what is old goes, what is newer does not."""
    ada, key = bench.stores.scope("ada"), await bench.parts.keys.subject_key(bench.stores.tenant, "ada")
    await bench.commit(ada, "s")
    erasure_id = await forgotten(bench, kind, name, ada)
    restored(bench, ada)
    bench.postgres.psql("UPDATE data_keys SET shredded_at = NULL, retired_at = NULL, wrapped = 'x'")
    await bench.commit(ada, "s")
    if kind != "session":
        await record(bench, ada, "a record from before")
    at = soon()
    await bench.commit(ada, "s", LATER, arrived_at=at, at=2)
    await record(bench, ada, "a record of later", at)
    assert await cleaned(bench) == 1
    assert said(bench) == sorted([*LATER, "a record of later"])
    assert rows(bench, "sessions") == rows(bench, "exchanges") == 1
    keys = bench.postgres.psql(
        "SELECT count(*) FROM data_keys WHERE subject_id IS NOT NULL AND shredded_at IS NOT NULL"
    )
    assert keys == "0", key
    assert (await bench.run(erasure_id)).receipt["complete"]
    assert await cleaned(bench) == 0
    assert said(bench) == sorted([*LATER, "a record of later"])


async def test_of_a_scope_that_stays_no_name_of_an_older_record_is_left(bench: Bench) -> None:
    ada = bench.stores.scope("ada")
    await bench.commit(ada, "s")
    await forgotten(bench, "user", "ada", ada)
    restored(bench, ada)
    await bench.commit(ada, "s")
    scope_id, at = bench.postgres.psql("SELECT scope_id FROM scopes"), soon()
    for name, made in (("a name from before", T0), ("a name of later", at)):
        bench.postgres.psql(
            "INSERT INTO checkpoints (tenant_id, checkpoint_id, scope_id, name, created_at, changed_at) "
            f"VALUES ('{bench.stores.tenant}', '{new_id()}', {scope_id}, '{name}', '{made}', '{made}')"
        )
        bench.postgres.psql(
            "INSERT INTO import_chunks (tenant_id, import_id, chunk, exchange_id, scope_id, done, failed, created_at) "
            f"VALUES ('{bench.stores.tenant}', '{new_id()}', 0, '{new_id()}', {scope_id}, 1, 0, '{made}')"
        )
    assert await cleaned(bench) == 1
    assert rows(bench, "turns") == 0 and rows(bench, "import_chunks") == 1
    assert bench.postgres.psql("SELECT name FROM checkpoints") == "a name of later"


async def test_conversations_and_scopes_without_anything_newer_go_whole(bench: Bench) -> None:
    old, ada = bench.stores.scope("ada", "q"), bench.stores.scope("ada")
    await bench.commit(ada, "s")
    await forgotten(bench, "user", "ada", ada)
    restored(bench, ada)
    await bench.commit(ada, "s")
    await bench.commit(old, "t", ("what was said in another project long ago", "and its answer, just as old"))
    await bench.commit(ada, "u", LATER, arrived_at=soon())
    assert await cleaned(bench) == 1
    assert said(bench) == sorted(LATER)
    assert bench.postgres.psql("SELECT project FROM scopes") == "p"
    assert bench.postgres.psql("SELECT label FROM sessions") == "u"


@pytest.mark.parametrize(("kind", "name"), NAMES)
async def test_the_forgotten_words_go_although_a_client_has_sent_them_again(bench: Bench, kind: str, name: str) -> None:
    """As a history that comes again is refused where the tombstones stand."""
    ada = bench.stores.scope("ada")
    await bench.commit(ada, "s")
    await forgotten(bench, kind, name, ada)
    restored(bench, ada)
    await bench.commit(ada, "s", (*WORDS, *LATER), arrived_at=soon())
    assert await cleaned(bench) == 1
    assert said(bench) == sorted(LATER)


async def test_a_memory_without_turns_is_taken_out_of_an_older_copy(bench: Bench) -> None:
    ada, eve = bench.stores.scope("ada"), bench.stores.scope("eve")
    await bench.commit(ada, "s", LATER)
    gone, kept = await record(bench, ada, "a page on herons"), await record(bench, ada, "a page on otters")
    other = await record(bench, eve, "a page of somebody else")
    erasure_id = await forgotten(bench, "memory", str(gone), ada)
    restored(bench)
    scope_id = bench.postgres.psql("SELECT scope_id FROM scopes WHERE user_name = 'ada'")
    bench.postgres.psql(
        "INSERT INTO memories (tenant_id, memory_id, scope_id, kind, content_key, changed_version, created_at) "
        f"VALUES ('{bench.stores.tenant}', '{gone}', {scope_id}, 'document', sha256('x'), 1, '{T0}')"
    )
    assert await cleaned(bench) == 1
    left = set(bench.postgres.psql("SELECT memory_id FROM memories").splitlines())
    assert str(gone) not in left and {str(kept), str(other)} < left
    assert rows(bench, "turns") == 2
    job = await bench.run(erasure_id)
    assert job.receipt["complete"] and job.kind == "memory"
    first, again = journal.entries(bench.parts.journal)
    assert again == first
    assert await cleaned(bench) == 0


async def test_what_was_found_by_a_query_goes_out_of_every_scope_of_its_user(bench: Bench) -> None:
    here, there = bench.stores.scope("ada"), bench.stores.scope("ada", "q")
    for scope in (here, there):
        await bench.commit(scope, "s")
    turns = bench.postgres.psql("SELECT event_id FROM turns ORDER BY 1").splitlines()
    ids = tuple(UUID(one) for one in turns)
    target = Target("query", "herons", here, (), ids)
    await bench.run(await bench.asking.ask(target, datetime.now(UTC)))
    restored(bench)
    for scope in (here, there):
        bench.stores.scopes.drop(scope)
        await bench.commit(scope, "s")
    assert rows(bench, "turns") == 4
    assert await cleaned(bench) == 1
    assert rows(bench, "turns") == rows(bench, "memories") == 0


async def test_a_line_with_a_date_to_come_is_no_newer_than_it_was_stored(bench: Bench) -> None:
    ada = bench.stores.scope("ada")
    await bench.commit(ada, "s")
    await forgotten(bench, "user", "ada", ada)
    restored(bench, ada)
    await bench.commit(ada, "s")
    bench.postgres.psql("UPDATE turns SET occurred_at = now() + interval '1 year', origin = 'import'")
    assert await cleaned(bench) == 1
    assert rows(bench, "turns") == rows(bench, "scopes") == 0


def test_what_an_older_version_has_asked_for_is_read() -> None:
    scope = Scope(UUID(int=1), "ada", "p", "a")
    before = b'["query", "herons", ["ada", "p", "a"], ["%s"], []]' % str(UUID(int=2)).encode()
    assert Target.unpacked(before, scope.tenant) == Target("query", "herons", scope, (UUID(int=2),))
    target = Target("user", "ada", scope, (), (UUID(int=3),), T0)
    assert Target.unpacked(target.packed(), scope.tenant) == target


@pytest.mark.parametrize("step", ["add", "mark", "delete"])
async def test_killed_in_the_middle_the_next_start_goes_on_before_anybody_is_answered(bench: Bench, step: str) -> None:
    ada = bench.stores.scope("ada")
    await bench.commit(ada, "s")
    erasure_id = await forgotten(bench, "user", "ada", ada)
    restored(bench, ada)
    await bench.commit(ada, "s")
    dying = Dying(bench.stores.database, bench.postgres.embeddings)
    dying.dies_after = step
    parts = replace(bench.parts, store=dying)
    with pytest.raises(Killed):
        await reapply(Erasing(parts), replace(bench.asking, store=dying), bench.leader)
    assert rows(bench, "tombstones") > 0
    await cleaned(bench)
    assert rows(bench, "turns") == rows(bench, "memories") == 0
    assert (await bench.run(erasure_id)).receipt["complete"]


async def test_a_start_asks_for_all_lines_of_a_journal_at_once(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """A start after years of requests to be forgotten took milliseconds for each of them, and had all of their
    tombstones in memory at once.
    """
    await forgotten(bench, "user", "ada", bench.stores.scope("ada"))
    (line,) = journal.entries(bench.parts.journal)
    for _ in range(50):
        later = replace(line, erasure=new_id())
        journal.append(bench.parts.journal, later, {})
        await bench.asking.note_done(later, T0)
    begun, transaction = list[object](), Database.transaction
    monkeypatch.setattr(journal, "_unpacked", lambda _: pytest.fail("nothing is to be done for any line"))

    def counted(*of: Any, **how: Any) -> Any:
        begun.append(of)
        return transaction(*of, **how)

    monkeypatch.setattr(Database, "transaction", counted)
    assert await cleaned(bench) == 0
    assert len(begun) <= 4
