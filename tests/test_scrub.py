"""What a scrub sets for as long as it lasts does not outlast it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from memory import migrate_command
from memory.adapters.postgres import scrub as module
from memory.adapters.postgres.scrub import after_a_killed_one, data_directory, keep_as_before, left_over, scrub
from memory.config import Settings, load_settings
from memory.errors import StoreUnavailable
from tests.postgres_fixture import TestDatabase


class Server:
    """Hears what is said over each connection; one of them is cut at a word."""

    def __init__(self, cut_at: str) -> None:
        self.heard: list[str] = []
        self.cut_at: str | None = cut_at

    async def connect(self, _dsn: str, **_: Any) -> Connection:
        return Connection(self)


class Connection:
    """One link to it."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._is_cut = False

    async def fetch(self, _asked: str) -> list[dict[str, str]]:
        return [{"relname": "turns"}]

    async def execute(self, said: str, *_given: int) -> None:
        if self._is_cut or said == self._server.cut_at:
            self._is_cut, self._server.cut_at = True, None
            raise asyncpg.ConnectionDoesNotExistError("connection was closed in the middle of operation")
        self._server.heard.append(said)

    def terminate(self) -> None:
        """Nothing is held."""


@pytest.mark.parametrize("cut_at", ["CHECKPOINT", "SELECT pg_switch_wal()", "SELECT pg_reload_conf()"])
async def test_a_scrub_that_loses_its_connection_leaves_the_log_as_it_was_kept(
    monkeypatch: pytest.MonkeyPatch, cut_at: str
) -> None:
    server = Server(cut_at)
    monkeypatch.setattr(asyncpg, "connect", server.connect)
    with pytest.raises(StoreUnavailable):
        await scrub("postgresql://")
    assert server.heard[-2:] == ["ALTER SYSTEM RESET wal_recycle", "SELECT pg_reload_conf()"]


async def test_what_a_killed_scrub_set_is_taken_back_at_the_next_start(
    postgres: TestDatabase, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async def nothing(settings: Settings, url: str) -> None:
        """The model is not what is looked at here."""

    async def here(_url: str) -> Path:
        return tmp_path / "pg"

    monkeypatch.setattr(migrate_command, "settle", nothing)
    monkeypatch.setattr(migrate_command, "data_directory", here)
    given = {"database.url": postgres.app, "database.owner_url": postgres.owner, "data.dir": str(tmp_path)}
    postgres.psql("ALTER SYSTEM SET wal_recycle = off")
    await migrate_command.migrated(load_settings(None, given, {}))
    assert "wal_recycle" not in postgres.psql("SELECT pg_read_file('postgresql.auto.conf')")


async def test_a_service_that_runs_takes_back_what_a_killed_scrub_set(
    postgres: TestDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not in a server of other files: what is set there is its administrator's."""

    def said() -> str:
        return postgres.psql("SELECT pg_read_file('postgresql.auto.conf')")

    monkeypatch.setattr(module, "LOOK_S", 0.05)
    files = postgres.server.root / "data"
    postgres.psql("ALTER SYSTEM SET wal_recycle = off")
    for own, is_off in ((files.parent, True), (files, False)):
        keeping = asyncio.create_task(keep_as_before(postgres.owner, own))
        await asyncio.sleep(1)
        assert ("wal_recycle" in await asyncio.to_thread(said)) is is_off
        keeping.cancel()
    postgres.psql("SELECT pg_reload_conf()")
    assert postgres.psql("SHOW wal_recycle").strip() == "on"


async def test_a_start_leaves_the_log_to_a_scrub_that_is_at_work(
    postgres: TestDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Old files that are recycled while it turns the log keep the words that it drops them for."""

    def said() -> str:
        return postgres.psql("SELECT pg_read_file('postgresql.auto.conf')")

    monkeypatch.setattr(module, "_LOG_TURNS", 10_000)
    scrubbing = asyncio.create_task(scrub(postgres.owner))
    while "wal_recycle" not in await asyncio.to_thread(said):
        assert not scrubbing.done()
        await asyncio.sleep(0.05)
    await after_a_killed_one(postgres.owner)
    assert "wal_recycle = 'off'" in said()
    scrubbing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await scrubbing
    assert "wal_recycle" not in said()


async def test_a_server_that_does_not_tell_its_files_is_no_embedded_one(postgres: TestDatabase) -> None:
    """One of somebody else's, whose owner is no superuser: an erasure with --scrub ended without its receipt."""
    postgres.psql("CREATE ROLE plain_owner LOGIN")
    assert await data_directory(postgres.server.dsn(postgres.name, "plain_owner")) is None
    assert await data_directory(postgres.owner) == postgres.server.root / "data"


async def test_files_that_a_crash_left_are_told_from_those_of_who_is_at_work(postgres: TestDatabase) -> None:
    """A server that is killed while it rewrites a table leaves what it had written, with the words of everybody."""
    connection = await asyncpg.connect(postgres.owner)
    at_work = connection.transaction()
    await at_work.start()
    await connection.execute("CREATE TABLE coming (n int)")
    own = await connection.fetchval("SELECT pg_relation_filepath('coming')")
    folder = postgres.server.root / "data" / own.rpartition("/")[0]
    for name in ("4000000001", "4000000001.1", "4000000001_fsm", "PG_OTHER"):
        (folder / name).write_text("whisper")
    looking = asyncio.create_task(left_over(postgres.owner))
    await asyncio.sleep(0.5)
    assert not looking.done()
    await at_work.commit()
    found = await looking
    assert [path.rpartition("/")[2] for path in found] == ["4000000001", "4000000001.1", "4000000001_fsm"]
    await connection.close()
