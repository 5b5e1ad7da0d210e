"""The audit log: append-only for the served role, one chain for several writers, and tampering is found."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID, uuid4

import asyncpg
import pytest
from prometheus_client import CollectorRegistry

from memory import audit_command
from memory.adapters.postgres.audit import AuditLog
from memory.adapters.postgres.database import Database, Transaction
from memory.adapters.postgres.keys import KeyStore
from memory.adapters.postgres.migrate import migrate
from memory.audit import AuditFilter, Examination, Head, Journal, Note, name_digest, noted
from memory.audit_command import AuditAsked, audited
from memory.config import load_settings
from memory.errors import EnvelopeUnreadable, MemoryInvalid, StoreUnavailable
from memory.outside_wiring import Behind
from memory.telemetry import Metrics
from memory.write.outside import LooksBehind
from memory.write.retention import keep_audit_bounded
from tests.postgres_fixture import Server, TestDatabase

KEY = b"k" * 32
OLD = datetime(2020, 1, 1, tzinfo=UTC)


async def key_of(_tenant: UUID) -> bytes:
    return KEY


@dataclass(frozen=True)
class Chain:
    """One tenant's log on a database of the test's own."""

    postgres: TestDatabase
    database: Database
    log: AuditLog
    tenant: UUID

    def note(self, action: str = "memory.delete", at: datetime | None = None, **more: Any) -> Note:
        return noted(self.tenant, "key-1", action, at=at, **more)

    async def fault(self, tenant: UUID | None = None, kept: Head | None = None) -> tuple[int, str] | None:
        of = tenant or self.tenant
        examination = Examination(KEY, of, await self.log.head(of), kept)
        async for rows in self.log.chain(of):
            examination.look(rows)
        return examination.ended()

    async def seqs(self) -> list[int]:
        return [row.seq async for rows in self.log.chain(self.tenant) for row in rows]


@pytest.fixture
async def chain(postgres: TestDatabase) -> AsyncIterator[Chain]:
    database = await Database.open(postgres.app)
    tenant = await KeyStore(database).ensure_tenant("default", OLD)
    yield Chain(postgres, database, AuditLog(database, key_of), tenant)
    await database.close()


async def test_what_was_noted_is_read_back_in_order_and_the_chain_is_whole(chain: Chain) -> None:
    memory = uuid4()
    await chain.log.record([chain.note("share.project", why="asked", ids=[memory], names={"user": "ada@x"})])
    await chain.log.record([chain.note("export"), chain.note("memory.delete")])
    page = await chain.log.page(chain.tenant, limit=10, where=AuditFilter())
    assert [(row.seq, row.action) for row in page.rows] == [(3, "memory.delete"), (2, "export"), (1, "share.project")]
    first = page.rows[-1]
    assert (first.actor, first.why, first.ids) == ("key-1", "asked", (str(memory),))
    assert first.detail == {"user": name_digest(KEY, "user", "ada@x")}
    assert "ada@x" not in chain.postgres.psql("SELECT string_agg(audit_log::text, '') FROM audit_log")
    assert await chain.fault() is None


async def test_pages_follow_each_other_and_filters_narrow_them(chain: Chain) -> None:
    await chain.log.record([chain.note(f"act.{n % 3}", ids=[f"id-{n}"]) for n in range(10)])
    seen: list[int] = []
    cursor: str | None = None
    while True:
        page = await chain.log.page(chain.tenant, limit=4, cursor=cursor, where=AuditFilter())
        seen += [row.seq for row in page.rows]
        if (cursor := page.next_cursor) is None:
            break
    assert seen == list(range(10, 0, -1))
    for where, wanted in (
        (AuditFilter(action="act.1"), [8, 5, 2]),
        (AuditFilter(id="id-4"), [5]),
        (AuditFilter(actor="nobody"), []),
        (AuditFilter(decision="refused"), []),
        (AuditFilter(since=datetime.now(UTC) + timedelta(days=1)), []),
    ):
        found = await chain.log.page(chain.tenant, limit=100, where=where)
        assert [row.seq for row in found.rows] == wanted, where
    with pytest.raises(MemoryInvalid):
        await chain.log.page(chain.tenant, limit=1, cursor="x", where=AuditFilter())


@pytest.mark.parametrize("oldest_first", [False, True])
async def test_a_filter_that_few_rows_pass_is_held_against_some_rows_at_a_time(
    chain: Chain, oldest_first: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of tens of millions one statement looked through all for a page of 50, and was ended by its bound each time."""
    await chain.log.record([chain.note(f"act.{n}") for n in range(10)])
    monkeypatch.setattr("memory.adapters.postgres.audit.LOOKED_AT_ONCE", 3)
    where = AuditFilter(action="act.5")
    whole = await chain.log.page(chain.tenant, limit=2, oldest_first=oldest_first, where=where)
    assert ([row.seq for row in whole.rows], whole.next_cursor) == ([6], None)
    monkeypatch.setattr("memory.adapters.postgres.audit.LOOKS_S", 1e-9)
    pages, cursor = list[list[int]](), None
    while cursor is not None or not pages:
        page = await chain.log.page(chain.tenant, limit=2, cursor=cursor, oldest_first=oldest_first, where=where)
        pages.append([row.seq for row in page.rows])
        cursor = page.next_cursor
    assert pages == [[], [6], [], []]


@pytest.mark.parametrize(("as_json", "said"), [(False, "none\n"), (True, "")])
async def test_a_list_without_a_row_says_so(
    chain: Chain, as_json: bool, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    await chain.log.record([chain.note("act.1")])
    asked = AuditAsked("list", as_json=as_json, action="act.2")
    assert await audit_command._listed(chain.log, [(chain.tenant, "default")], asked) == 0
    assert capsys.readouterr().out == said


async def test_the_command_lists_what_a_page_had_no_time_to_look_for(
    chain: Chain, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    await chain.log.record([chain.note(f"act.{n % 5}") for n in range(10)])
    monkeypatch.setattr("memory.adapters.postgres.audit.LOOKED_AT_ONCE", 1)
    monkeypatch.setattr("memory.adapters.postgres.audit.LOOKS_S", 1e-9)
    for limit, seqs in ((1, ["9"]), (5, ["9", "4"])):
        await audit_command._listed(
            chain.log, [(chain.tenant, "default")], AuditAsked("list", action="act.3", limit=limit)
        )
        assert [line.split("  ")[1] for line in capsys.readouterr().out.splitlines()] == seqs


@pytest.mark.parametrize(
    "statement",
    ["UPDATE audit_log SET why = 'x'", "DELETE FROM audit_log", "TRUNCATE audit_log", "DELETE FROM audit_heads"],
)
async def test_the_served_role_can_neither_change_nor_delete_a_row(chain: Chain, statement: str) -> None:
    await chain.log.record([chain.note()])
    connection: Any = await asyncpg.connect(chain.postgres.app)
    await connection.fetch("SELECT set_config('mp.tenant', $1, false)", str(chain.tenant))
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await connection.execute(statement)
    await connection.close()
    assert await chain.seqs() == [1]


async def test_the_served_role_cannot_drop_rows_that_no_anchor_covers(chain: Chain) -> None:
    await chain.log.record([chain.note(at=OLD) for _ in range(3)])
    with pytest.raises(StoreUnavailable):
        async with chain.database.transaction(chain.tenant) as tx:
            await tx.value("drop_audited", 2)
    assert await chain.seqs() == [1, 2, 3]


async def test_another_tenants_rows_are_neither_seen_nor_added_to(chain: Chain) -> None:
    await chain.log.record([chain.note()])
    other = await KeyStore(chain.database).ensure_tenant("other", OLD)
    assert (await chain.log.page(other, limit=9, where=AuditFilter())).rows == ()
    assert await chain.log.head(other) is None
    connection: Any = await asyncpg.connect(chain.postgres.app)
    await connection.fetch("SELECT set_config('mp.tenant', $1, false)", str(other))
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await connection.execute(
            "INSERT INTO audit_log VALUES ($1, 2, now(), 'a', 'b', 'noted', '', '{}', '{}', $2, $2)", chain.tenant, KEY
        )
    await connection.close()


async def test_many_writers_make_one_chain_without_a_gap(chain: Chain) -> None:
    others = [await Database.open(chain.postgres.app) for _ in range(3)]
    logs = [AuditLog(database, key_of) for database in (*others, chain.database)]
    await asyncio.gather(*(log.record([chain.note(ids=[f"{n}"])]) for n in range(10) for log in logs))
    assert await chain.seqs() == list(range(1, 41))
    assert await chain.fault() is None
    for database in others:
        await database.close()


@pytest.mark.parametrize(
    ("tampering", "first_bad"),
    [
        ("UPDATE audit_log SET why = 'x' WHERE seq = 3", 3),
        ("UPDATE audit_log SET actor = 'somebody-else' WHERE seq = 3", 3),
        ("UPDATE audit_log SET at = at + interval '1 microsecond' WHERE seq = 3", 3),
        ("UPDATE audit_log SET detail = '{\"times\": 2}' WHERE seq = 3", 3),
        ("UPDATE audit_log SET ids = '{a}' WHERE seq = 3", 3),
        ("UPDATE audit_log SET decision = 'refused' WHERE seq = 3", 3),
        ("UPDATE audit_log SET digest = decode(repeat('00', 32), 'hex') WHERE seq = 3", 3),
        ("DELETE FROM audit_log WHERE seq = 3", 3),
        ("DELETE FROM audit_log WHERE seq <= 2", 3),
        ("DELETE FROM audit_log WHERE seq = 5", 5),
        ("DELETE FROM audit_log", 1),
        ("DELETE FROM audit_heads", 5),
        ("UPDATE audit_log SET seq = 9 WHERE seq = 5", 5),
        ("DELETE FROM audit_log WHERE seq = 3; UPDATE audit_log SET seq = seq - 1 WHERE seq > 3", 3),
    ],
)
async def test_a_changed_or_missing_row_is_found_with_its_number(chain: Chain, tampering: str, first_bad: int) -> None:
    for n in range(5):
        await chain.log.record([chain.note(ids=[f"{n}"])])
    assert await chain.fault() is None
    chain.postgres.psql(tampering)
    fault = await chain.fault()
    assert fault is not None
    assert fault[0] == first_bad


async def test_a_chain_cut_off_together_with_its_head_is_found_by_who_kept_the_head(chain: Chain) -> None:
    for _ in range(5):
        await chain.log.record([chain.note()])
    kept = await chain.log.head(chain.tenant)
    chain.postgres.psql("DELETE FROM audit_log WHERE seq > 3")
    chain.postgres.psql("UPDATE audit_heads SET seq = 3, digest = (SELECT digest FROM audit_log WHERE seq = 3)")
    assert await chain.fault() is None, "from inside nothing is to be seen"
    fault = await chain.fault(kept=kept)
    assert fault is not None
    assert fault[0] == 4


async def test_retention_drops_old_rows_and_the_chain_stays_verifiable(chain: Chain) -> None:
    now = datetime.now(UTC)
    for n in range(6):
        await chain.log.record([chain.note(at=OLD + timedelta(days=n))])
    await chain.log.record([chain.note(at=now)])
    assert await chain.log.drop_before(chain.tenant, OLD + timedelta(days=4), now) == 4
    assert await chain.seqs() == [5, 6, 7, 8]
    assert await chain.fault() is None
    assert await chain.log.drop_before(chain.tenant, OLD + timedelta(days=4), now) == 0, "nothing more is old"
    assert await chain.log.drop_before(chain.tenant, OLD + timedelta(days=100), now) == 2
    assert await chain.seqs() == [7, 8, 9]
    assert await chain.fault() is None
    chain.postgres.psql("DELETE FROM audit_log WHERE seq = 7")
    fault = await chain.fault()
    assert fault is not None, "a row taken out behind what retention took is still found"
    assert fault[0] == 8


async def test_old_rows_are_dropped_some_at_a_time_and_all_of_them(
    chain: Chain, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a log that was kept for ever until now: one statement for all is ended by its bound, each hour anew."""
    monkeypatch.setattr("memory.adapters.postgres.audit._DROPPED_AT_ONCE", 2)
    now = datetime.now(UTC)
    await chain.log.record([chain.note(at=OLD + timedelta(days=n)) for n in range(5)])
    await chain.log.record([chain.note(at=now)])
    assert await chain.log.drop_before(chain.tenant, OLD + timedelta(days=100), now) == 5
    assert await chain.seqs() == [6, 7, 8, 9], "an anchor for each time"
    assert await chain.fault() is None


async def test_a_chain_whose_old_rows_are_dropped_while_it_is_read_is_whole(
    chain: Chain, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memory.adapters.postgres.audit._PAGE_ROWS", 2)
    now = datetime.now(UTC)
    await chain.log.record([chain.note(at=OLD + timedelta(days=n)) for n in range(6)])
    await chain.log.record([chain.note(at=now), chain.note(at=now)])

    async def read(meanwhile: Callable[[], Any]) -> tuple[int, str] | None:
        examination = Examination(KEY, chain.tenant, await chain.log.head(chain.tenant))
        pages = chain.log.chain(chain.tenant)
        examination.look(await anext(pages))
        await meanwhile()
        async for rows in pages:
            examination.look(rows)
        return examination.ended()

    assert await read(lambda: chain.log.drop_before(chain.tenant, OLD + timedelta(days=5), now)) is None
    assert await chain.seqs() == [6, 7, 8, 9]
    gone = "DELETE FROM audit_log WHERE seq = 8"
    assert await read(lambda: asyncio.to_thread(chain.postgres.psql, gone)) == (8, "this row is gone")
    assert await chain.fault() == (8, "this row is gone")


async def test_retention_keeps_rows_of_the_last_day_whatever_is_asked(chain: Chain) -> None:
    now = datetime.now(UTC)
    await chain.log.record([chain.note(at=now - timedelta(hours=1))])
    with pytest.raises(StoreUnavailable):
        await chain.log.drop_before(chain.tenant, now + timedelta(days=1), now)
    assert await chain.seqs() == [1], "and the anchor that was to speak of it is not there either"
    assert await chain.fault() is None


async def test_anchors_alone_make_no_new_anchors(chain: Chain) -> None:
    await chain.log.record([chain.note(at=OLD)])
    later = OLD + timedelta(days=10)
    assert await chain.log.drop_before(chain.tenant, later, later) == 1
    for day in range(20, 25):
        assert await chain.log.drop_before(chain.tenant, OLD + timedelta(days=day), OLD + timedelta(days=day)) == 0
    assert await chain.seqs() == [2]
    assert await chain.fault() is None


async def test_an_act_that_is_rolled_back_leaves_no_row(chain: Chain) -> None:
    witness = await chain.log.witness(chain.note())
    with pytest.raises(MemoryInvalid):
        async with chain.database.transaction(chain.tenant) as tx:
            await witness(tx)
            raise MemoryInvalid("no")
    assert await chain.seqs() == []
    await chain.log.record([chain.note()])
    assert await chain.fault() is None


@pytest.mark.parametrize("bad", ["it lives in Berlin", "a" * 65, "", "line\nbreak", "ünïcode"])
def test_what_could_be_a_text_is_refused(bad: str) -> None:
    for make in _ways(bad):
        with pytest.raises(ValueError, match="ids and words"):
            make()


def _ways(bad: str) -> list[Callable[[], Note]]:
    tenant = UUID(int=1)
    return [
        lambda: noted(tenant, bad, "a"),
        lambda: noted(tenant, "a", bad),
        lambda: noted(tenant, "a", "a", ids=[bad]),
        lambda: noted(tenant, "a", "a", detail={"x": bad}),
        lambda: noted(tenant, "a", "a", names={bad: "x"}),
    ]


async def test_a_flood_of_alike_notes_is_one_row_that_counts_them(chain: Chain) -> None:
    journal = Journal(chain.log, Metrics(CollectorRegistry()))
    for n in range(500):
        journal.note(chain.tenant, "key-1", "refused", decision="refused", why="capability_missing", ids=[f"{n}"])
    journal.note(chain.tenant, "key-2", "refused", decision="refused", why="capability_missing")
    await journal.write()
    page = await chain.log.page(chain.tenant, limit=10, where=AuditFilter())
    assert [(row.actor, row.detail.get("times")) for row in page.rows] == [("key-2", None), ("key-1", 500)]
    assert page.rows[1].detail["ids_in_all"] == 500
    assert len(page.rows[1].ids) == 256


async def test_what_a_worker_has_let_out_is_noted_when_it_ends(chain: Chain) -> None:
    journal = Journal(chain.log, Metrics(CollectorRegistry()))
    behind = Behind(cast(LooksBehind, SimpleNamespace(run=None)), journal)
    noting = asyncio.create_task(behind.jobs["noting what left"]())
    await asyncio.sleep(0)
    journal.note(chain.tenant, "worker", "outside.search")
    noting.cancel()
    await asyncio.wait([noting])
    page = await chain.log.page(chain.tenant, limit=10, where=AuditFilter())
    assert [row.action for row in page.rows] == ["outside.search"]


async def test_notes_wait_while_the_store_is_away_and_none_is_written_twice(chain: Chain) -> None:
    away = True

    class Sometimes:
        async def record(self, notes: Any) -> None:
            if away:
                raise StoreUnavailable("away")
            await chain.log.record(notes)

    journal = Journal(Sometimes(), Metrics(CollectorRegistry()), notes_max=3)
    for n in range(5):
        journal.note(chain.tenant, f"key-{n}", "export")
    await journal.write()
    away = False
    await journal.write()
    await journal.write()
    page = await chain.log.page(chain.tenant, limit=10, oldest_first=True, where=AuditFilter())
    assert [row.actor for row in page.rows] == ["key-0", "key-1", "key-2"], "the bound holds, the first ones stay"
    assert await chain.fault() is None


@pytest.mark.parametrize("down", [1, 2], ids=["the connection", "the store for a moment"])
async def test_notes_whose_commit_was_not_heard_are_not_written_twice(
    chain: Chain, monkeypatch: pytest.MonkeyPatch, down: int
) -> None:
    monkeypatch.setattr("memory.adapters.postgres.audit.LOOKED_FOR_S", (0, 0, 0))

    class Dies:
        left = down

        @asynccontextmanager
        async def transaction(self, tenant: UUID) -> AsyncIterator[Transaction]:
            if self.left not in (0, down):
                self.left -= 1
                raise StoreUnavailable("away")
            async with chain.database.transaction(tenant) as tx:
                yield tx
            if self.left:
                self.left -= 1
                raise StoreUnavailable("Postgres: ConnectionDoesNotExistError")

    journal = Journal(AuditLog(cast(Any, Dies()), key_of), Metrics(CollectorRegistry()))
    for action in ("export", "import"):
        journal.note(chain.tenant, "key-1", action)
        await journal.write()
    await journal.write()
    assert [row.action async for rows in chain.log.chain(chain.tenant) for row in rows] == ["export", "import"]
    assert await chain.fault() is None


async def test_a_flood_does_not_push_out_what_else_is_noted(chain: Chain) -> None:
    journal = Journal(chain.log, Metrics(CollectorRegistry()), notes_max=50)
    for _ in range(1000):
        journal.note(chain.tenant, "flooder", "refused", decision="refused")
        if len(journal._notes) == 50:
            journal.note(chain.tenant, "key-1", "import")
    await journal.write()
    page = await chain.log.page(chain.tenant, limit=10, where=AuditFilter())
    assert "import" in {row.action for row in page.rows}
    assert len(page.rows) == 2


async def test_what_is_held_when_writing_is_cancelled_is_written_afterwards(chain: Chain) -> None:
    hanging = asyncio.Event()

    class Hangs:
        async def record(self, notes: Any) -> None:
            hanging.set()
            await asyncio.sleep(60)

    journal = Journal(Hangs(), Metrics(CollectorRegistry()))
    journal.note(chain.tenant, "key-1", "import")
    writing = asyncio.create_task(journal.write())
    await hanging.wait()
    writing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await writing
    assert [note.action for note in journal._notes] == ["import"]


async def test_what_is_committed_while_writing_is_cancelled_is_not_written_again(chain: Chain) -> None:
    committed, answered = asyncio.Event(), asyncio.Event()

    class AnswersLate:
        async def record(self, notes: Any) -> None:
            await chain.log.record(notes)
            committed.set()
            await answered.wait()

    journal = Journal(AnswersLate(), Metrics(CollectorRegistry()))
    journal.note(chain.tenant, "key-1", "import")
    writing = asyncio.create_task(journal.keep_writing(0))
    await committed.wait()
    writing.cancel()
    await asyncio.sleep(0)
    answered.set()
    with pytest.raises(asyncio.CancelledError):
        await writing
    await journal.write()
    assert await chain.seqs() == [1]


async def test_retention_runs_for_every_tenant_and_goes_on_where_one_fails(chain: Chain) -> None:
    other = await KeyStore(chain.database).ensure_tenant("other", OLD)
    for tenant in (chain.tenant, other):
        await chain.log.record([noted(tenant, "k", "export", at=OLD + timedelta(days=n)) for n in range(3)])
    await KeyStore(chain.database).ensure_tenant("another", OLD)

    async def not_for_all(tenant: UUID) -> bytes:
        if tenant not in (chain.tenant, other):
            raise EnvelopeUnreadable("its key was shredded")
        return KEY

    running = asyncio.create_task(keep_audit_bounded(AuditLog(chain.database, not_for_all), 30))
    until = asyncio.get_running_loop().time() + 20
    while await chain.seqs() != [4]:
        assert asyncio.get_running_loop().time() < until
        await asyncio.sleep(0.05)
    while (await chain.log.page(other, limit=9, where=AuditFilter())).rows[-1].seq != 4:
        await asyncio.sleep(0.05)
    running.cancel()
    assert await chain.fault() is None
    assert await chain.fault(other) is None
    await keep_audit_bounded(chain.log, None)


async def test_a_service_in_which_nobody_has_a_key_yet_has_no_broken_chain(
    postgres: TestDatabase, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = load_settings(None, {"database.url": postgres.app, "data.dir": str(tmp_path)}, {})
    assert await audited(settings, AuditAsked("verify", as_json=True)) == 0
    assert capsys.readouterr() == ('{\n  "chains": []\n}\n', "")
    assert await audited(settings, AuditAsked("verify", tenant="acme")) == 2
    assert capsys.readouterr() == ("", "there is no tenant acme\n")


async def test_rows_leave_behind_an_anchor_also_where_the_owner_is_no_superuser(postgres_server: Server) -> None:
    postgres_server.psql("CREATE ROLE mp_plain LOGIN CREATEROLE")
    postgres_server.psql("CREATE DATABASE plain OWNER mp_plain")
    postgres_server.psql("CREATE EXTENSION vector", "plain")
    for role in ("mp_app", "mp_backup"):
        postgres_server.psql(f"GRANT {role} TO mp_plain WITH ADMIN OPTION")
    await migrate(postgres_server.dsn("plain", "mp_plain"))
    database = await Database.open(postgres_server.dsn("plain", "mp_app"))
    tenants = [await KeyStore(database).ensure_tenant(name, OLD) for name in ("one", "two")]
    log = AuditLog(database, key_of)
    for tenant in tenants:
        await log.record([noted(tenant, "k", "export", at=OLD) for _ in range(3)])
    assert await log.drop_before(tenants[0], OLD + timedelta(days=1), datetime.now(UTC)) == 3
    kept = (await log.page(tenants[1], limit=9, where=AuditFilter())).rows
    assert [row.seq for row in kept] == [3, 2, 1], "another tenant's rows stay"
    await database.close()
