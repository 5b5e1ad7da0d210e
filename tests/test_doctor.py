"""The doctor: every part has a line, what is broken is named with its remedy, and the exit code says so."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import socket
import subprocess
import sys
import sysconfig
import tempfile
import threading
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from bench.fake_vllm.launch import running_fake_vllm
from memory.adapters.postgres.fitness import Fitness, fitness
from memory.adapters.redis_client import connect
from memory.adapters.redis_fitness import RedisFitness, redis_fitness
from memory.adapters.redis_queue import RedisQueue
from memory.config import Settings
from memory.config_sections import Database, Worker
from memory.errors import QueueUnavailable, StoreUnavailable
from memory.ports import QueueDepth
from proxy.cli import check_machine, check_model, check_start, check_stores, check_upstream
from proxy.cli.checks import Check, Finding, Findings, as_json, as_text, failed, findings_of
from proxy.cli.client import Client
from proxy.cli.examination import configuration
from tests.cluster_fixture import Cluster
from tests.pooler_fixture import forgetful_pooler
from tests.postgres_fixture import TestDatabase
from tests.service_fixture import Service
from tests.test_cli_client import answering
from tests.valkey_fixture import ValkeyServer

LINE = re.compile(r"^(ok  |warn|FAIL)  \S.*?  +\S.*$")
GOOD_POSTGRES = Fitness(180006, False, "0.8.6", "0.8.6", True, True, True, True, False, 100, True, "on", "UTF8")
GOOD_REDIS = RedisFitness("Redis", (7, 4), "master", 1, False, 0, "noeviction", True, "always", True)


def settings_with(**sections: dict[str, object]) -> Settings:
    return Settings.model_validate(sections)


def worst(findings: Findings) -> str:
    levels = [finding.level for finding in findings]
    return next((level for level in ("FAIL", "warn") if level in levels), "ok")


def named(findings: Findings, what: str) -> Finding:
    return next(finding for finding in findings if finding.what == what)


def doctor(*words: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-P", "-m", "proxy", "doctor", *words],
        capture_output=True,
        text=True,
        env={**os.environ, **(env or {})},
        timeout=100,
        check=False,
    )


@pytest.fixture
def used_port() -> Iterator[int]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener.getsockname()[1]


# --- the whole program -----------------------------------------------------------------------------------------------


async def test_a_healthy_installation_has_no_failure_and_exits_with_0() -> None:
    # Not below tmp_path, which the account that Postgres runs as under root may not enter.
    data = Path(tempfile.gettempdir()) / f"doctor-{uuid.uuid4().hex}"
    async with running_fake_vllm() as url:
        words = ("--upstream", url, "--data-dir", str(data), "--port", "0")
        ran = await asyncio.to_thread(doctor, *words)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    lines = ran.stdout.splitlines()[:-2]
    assert all(LINE.match(line) for line in lines), ran.stdout
    parts = (
        "configuration",
        "python",
        "disk",
        "embedded Postgres",
        "pgvector",
        "embedding model",
        "clock",
        "master key",
    )
    for part in (*parts, "clock", "erasure journal"):
        assert f"  {part}  " in ran.stdout
    assert not data.exists(), "the doctor makes nothing"


def test_an_absent_upstream_fails_with_a_remedy_and_exits_with_1(tmp_path: Path) -> None:
    ran = doctor("--json", "--upstream", "http://127.0.0.1:9", "--data-dir", str(tmp_path / "d"), "--port", "0")
    told = json.loads(ran.stdout)
    assert ran.returncode == 1
    assert told["ok"] is False
    upstream = next(finding for finding in told["findings"] if finding["what"] == "upstream")
    assert upstream["level"] == "fail"
    assert "vllm serve" in upstream["mend"]


def test_beside_a_service_its_own_upstream_is_looked_at(service: Service) -> None:
    """`memory-proxy serve --upstream URL`, or the command line of a container, which the doctor beside it has not."""
    ran = doctor("--json", "--data-dir", str(service.data), "--port", service.url.rpartition(":")[2])
    told = json.loads(ran.stdout)
    upstream = next(finding for finding in told["findings"] if finding["what"] == "upstream")
    assert (upstream["level"], service.upstream in upstream["found"]) == ("ok", True), upstream


def test_a_faulty_configuration_is_told_fault_by_fault_and_the_rest_still_checked(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("listen:\n  prot: 1\nrecall:\n  deadline_ms: soon\n")
    ran = doctor("--config", str(config))
    assert ran.returncode == 1
    assert "config.yaml:2" in ran.stdout
    assert "did you mean listen.port" in ran.stdout
    assert "config.yaml:4" in ran.stdout
    assert "  python  " in ran.stdout
    assert "Traceback" not in ran.stderr


def test_extraction_that_nothing_watches_is_told(tmp_path: Path) -> None:
    url = "http://127.0.0.1:8000"
    asking = check_upstream.paused_by(settings_with(upstream={"url": url}, extract={"by": "vllm"}))
    assert (asking.level, f"metrics_urls: [{url}/metrics]" in (asking.mend or "")) == ("warn", True)
    watched = settings_with(upstream={"url": url, "metrics_urls": [f"{url}/metrics"]}, extract={"by": "vllm"})
    assert check_upstream.paused_by(watched).level == "ok"
    model = settings_with(upstream={"url": url}, extract={"by": "model"}, chat_model={"model": "openai/x"})
    assert check_upstream.paused_by(model).level == "warn"
    rules = settings_with(upstream={"url": url, "metrics_urls": [f"{url}/metrics"]})
    assert "nothing watches it" in check_upstream.paused_by(rules).found
    assert check_upstream.paused_by(settings_with(upstream={"url": url})).level == "ok"


# --- running the checks ----------------------------------------------------------------------------------------------


async def test_a_part_that_hangs_or_breaks_costs_its_own_line_only() -> None:
    async def hangs() -> Findings:
        await asyncio.Event().wait()
        return []

    async def breaks() -> Findings:
        raise StoreUnavailable("gone")

    async def works() -> Findings:
        return [Finding("ok", "c", "fine")]

    found = [f async for f in findings_of([Check("a", hangs, 0.05), Check("b", breaks), Check("c", works)])]
    assert [(f.what, f.level) for f in found] == [("a", "FAIL"), ("b", "FAIL"), ("c", "ok")]
    assert failed(found)


@given(st.text(min_size=1), st.text())
def test_a_finding_is_one_line_whatever_was_found(found: str, mend: str) -> None:
    finding = Finding("warn", "part", found, mend)
    assert len(as_text(finding).splitlines()) <= 1
    assert not {chr(code) for code in (*range(32), *range(127, 160))} & set(as_text(finding))
    assert json.loads(as_json([finding]))["findings"][0]["found"] == found


# --- machine ---------------------------------------------------------------------------------------------------------


def test_a_directory_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").touch()
    finding = named(check_machine.data_directory(tmp_path, Settings()), "data directory")
    assert finding.level == "FAIL"
    assert "thesis.tex" in finding.found


@pytest.mark.parametrize(
    ("held", "mode", "given", "level", "says"),
    [
        (None, 0o600, None, "FAIL", "no DIR/master.key, and DIR holds a store"),
        (b"k" * 31, 0o600, None, "FAIL", "has 31 bytes"),
        (b"k" * 32, 0o644, None, "FAIL", "chmod 600"),
        (b"k" * 32, 0o600, None, "ok", "DIR/master.key"),
        (None, 0o600, "eHg=", "FAIL", "MEMORY_PROXY_MASTER_KEY holds 2 bytes"),
        (None, 0o600, "a2tra2tra2tra2tra2tra2tra2tra2tra2tra2tra2s=", "ok", "MEMORY_PROXY_MASTER_KEY"),
    ],
)
def test_a_master_key_that_no_start_takes_is_found_before_it(
    held: bytes | None, mode: int, given: str | None, level: str, says: str, tmp_path: Path
) -> None:
    (tmp_path / "pg").mkdir()
    (tmp_path / "pg" / "PG_VERSION").write_text("18\n")
    if held is not None:
        (tmp_path / "master.key").write_bytes(held)
        (tmp_path / "master.key").chmod(mode)
    environ = {} if given is None else {"MEMORY_PROXY_MASTER_KEY": given}
    (finding,) = check_start.master(tmp_path, Settings(), environ)
    assert finding.level == level and says.replace("DIR", str(tmp_path)) in finding.found
    assert (tmp_path / "master.key").exists() == (held is not None), "the doctor makes nothing"


def test_what_else_a_start_refuses_is_found_before_it(tmp_path: Path) -> None:
    nowhere = settings_with(encryption={"master_key_file": str(tmp_path / "none" / "key")})
    (finding,) = check_start.master(tmp_path, nowhere, {})
    assert (finding.level, "is no directory" in finding.found) == ("FAIL", True)
    (finding,) = check_start.erasures(tmp_path, settings_with(erasure={"journal": str(tmp_path)}))
    assert (finding.level, "Is a directory" in finding.found) == ("FAIL", True)
    assert check_start.cluster(tmp_path, Settings()) == []
    (tmp_path / "pg").mkdir()
    (tmp_path / "pg" / "PG_VERSION").write_text("17\n")
    (finding,) = check_start.cluster(tmp_path, Settings())
    assert (finding.level, "dump it" in finding.found) == ("FAIL", True)


@contextmanager
def held(root: Path) -> Iterator[None]:
    """The data directory is that of a service, process 4711."""
    script = "import fcntl,os,sys;f=open(sys.argv[1],'w');fcntl.flock(f,2);f.write('4711');f.flush();print();input()"
    with subprocess.Popen(
        [sys.executable, "-c", script, str(root / "lock")], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        yield
        holder.communicate(b"\n")


def test_the_holder_of_the_data_directory_is_named(tmp_path: Path) -> None:
    with held(tmp_path):
        assert check_machine.lock_holder(tmp_path) == "4711"
    assert check_machine.lock_holder(tmp_path) is None


def test_a_service_that_starts_is_not_taken_for_a_stranger_with_its_key_elsewhere(
    used_port: int, tmp_path: Path
) -> None:
    """`another process listens there: stop it`, it said of the very service, and of a key that was not made yet that it
    is in the environment.
    """
    with held(tmp_path):
        finding = check_machine.port(settings_with(listen={"port": used_port}), tmp_path)[0]
        (key,) = check_start.master(tmp_path, Settings(), {})
    assert (finding.level, "starting" in finding.mend, "stop it" in finding.found) == ("FAIL", True, False), finding
    assert (key.level, "makes it as it starts" in key.found) == ("ok", True), key


def test_a_port_that_a_stranger_holds_fails(used_port: int, tmp_path: Path) -> None:
    settings = settings_with(listen={"port": used_port})
    finding = check_machine.port(settings, tmp_path)[0]
    assert finding.level == "FAIL"
    assert str(used_port) in finding.mend


def test_the_port_is_looked_at_where_the_service_listens(
    used_port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name that stands for ::1 first, as `localhost` does on many machines: the service takes 127.0.0.1."""

    def both(*_: object, **__: object) -> list[object]:
        four = (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", used_port))
        return [(socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("::1", used_port, 0, 0)), four]

    monkeypatch.setattr(socket, "getaddrinfo", both)
    finding = check_machine.port(settings_with(listen={"host": "localhost", "port": used_port}), tmp_path)[0]
    assert (finding.level, "another process listens there" in finding.found) == ("FAIL", True), finding


def test_the_service_of_this_machine_is_not_asked_through_a_proxy(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "HTTP_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    port = int(service.url.rpartition(":")[2])
    finding = check_machine.port(settings_with(listen={"port": port}), tmp_path)[0]
    assert "memory-proxy is running" in finding.found
    options = argparse.Namespace(url=service.url, user=None, project=None, agent=None, key=None)
    assert Client(options).get("/memory/v1/queue")["dead"] == 0


def test_a_stranger_that_answers_every_path_with_json_is_not_taken_for_the_service(tmp_path: Path) -> None:
    class Stranger(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = b'{"timestamp": "2026-01-01", "status": 404, "error": "Not Found", "path": "/memory/health"}'
            self.send_response(404)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Stranger) as server:
        threading.Thread(target=server.serve_forever).start()
        finding = check_machine.port(settings_with(listen={"port": server.server_port}), tmp_path)[0]
        server.shutdown()
    assert finding.level == "FAIL", finding
    assert str(server.server_port) in finding.mend


@pytest.mark.parametrize(
    ("options", "prefix", "plain"),
    [
        ("'--prefix=/root/.pyenv/versions/3.11.7' '--enable-shared'", "/root/.pyenv/versions/3.11.7", True),
        (
            "'--prefix=/home/ada/.pyenv/versions/3.13.0' '--enable-optimizations' '--with-lto'",
            "/home/ada/.pyenv",
            False,
        ),
        (
            "'--build=x86_64-linux-gnu' '--enable-loadable-sqlite-extensions' '--enable-optimizations'",
            "/usr/local",
            False,
        ),
        ("'--enable-shared' '--prefix=/usr' '--with-system-ffi'", "/usr", False),  # Debian's says it elsewhere
        (None, "/opt/python", False),
        ("", "/opt/python", False),
    ],
)
def test_an_interpreter_that_was_compiled_without_profiles_is_told(
    options: str | None, prefix: str, plain: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sysconfig, "get_config_var", lambda _: options)
    monkeypatch.setattr(sys, "base_prefix", prefix)
    (found,) = check_machine.python()
    assert (found.level, "without optimisation" in found.found, bool(found.mend)) == (
        ("warn", True, True) if plain else ("ok", False, False)
    )


def test_little_memory_is_a_warning(tmp_path: Path) -> None:
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemTotal: 8000000 kB\nMemAvailable: 200000 kB\n")
    assert check_machine.free_memory(meminfo, tmp_path)[0].level == "warn"
    (tmp_path / "memory.max").write_text("max\n")
    meminfo.write_text("MemAvailable: 4000000 kB\n")
    assert check_machine.free_memory(meminfo, tmp_path)[0].level == "ok"


def test_files_that_were_read_take_no_memory_from_a_container(tmp_path: Path) -> None:
    """Beside a database most of a container's memory holds those, and they give way."""
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemAvailable: 64000000 kB\n")
    (tmp_path / "memory.max").write_text(f"{4 << 30}\n")
    (tmp_path / "memory.current").write_text(f"{(4 << 30) - 4096}\n")
    read, dirty = "inactive_file 2000000000\nactive_file 1000000000\n", "anon 900000000\nfile_dirty 4096\n"
    (tmp_path / "memory.stat").write_text(dirty + read)
    assert check_machine.free_memory(meminfo, tmp_path)[0].level == "ok"
    (tmp_path / "memory.stat").write_text(dirty)
    assert check_machine.free_memory(meminfo, tmp_path)[0].level == "warn"


def test_a_clock_turned_back_is_seen(tmp_path: Path) -> None:
    (tmp_path / "lock").touch()
    os.utime(tmp_path / "lock", (4e9, 4e9))
    assert check_machine.clock(tmp_path)[0].level == "warn"
    assert check_machine.clock(tmp_path / "absent")[0].level == "ok"


# --- model and tokenizer ---------------------------------------------------------------------------------------------


def test_an_unknown_model_and_a_wrong_dimension_fail(tmp_path: Path) -> None:
    wrong: list[dict[str, object]] = [{"model": "no-such-model"}, {"dim": 7}]
    for embedding in wrong:
        found = check_model.embedding_model(settings_with(embedding=embedding), {"HOME": str(tmp_path)})
        assert worst(found) == "FAIL"


def test_a_tokenizer_directory_without_tokenizer_fails(tmp_path: Path) -> None:
    assert worst(check_model.tokenizer(settings_with(tokenizer={"directory": tmp_path}))) == "FAIL"


# --- stores ----------------------------------------------------------------------------------------------------------


def test_the_embedded_programs_are_there_and_run() -> None:
    found = [*check_stores.embedded_postgres(), *check_stores.embedded_valkey()]
    assert [finding.level for finding in found] == ["ok", "ok", "ok"]


async def test_a_migrated_postgres_is_found_fit(postgres: TestDatabase) -> None:
    settings = settings_with(database={"url": SecretStr(postgres.app), "owner_url": SecretStr(postgres.owner)})
    found = await check_stores.postgres(settings)
    assert worst(found) != "FAIL", found
    assert named(found, "Postgres schema").found == "up to date"


async def test_the_model_that_the_store_is_searched_with_is_held_against_the_configured(postgres: TestDatabase) -> None:
    settings = settings_with(database={"url": SecretStr(postgres.app), "owner_url": SecretStr(postgres.owner)})
    assert "the first start settles it" in named(await check_stores.postgres(settings), "model of the store").found
    postgres.psql(
        "INSERT INTO embedding_serving (model_id, generation) SELECT model_id, 1 FROM embedding_models LIMIT 1"
    )
    found = named(await check_stores.postgres(settings), "model of the store")
    assert (found.level, found.found.split(",")[0]) == ("warn", "searched with test-model")
    assert f"reembed --to {settings.embedding.model}" in found.mend


async def test_a_schema_that_lacks_a_column_fails(postgres: TestDatabase) -> None:
    settings = settings_with(database={"url": SecretStr(postgres.app), "owner_url": SecretStr(postgres.owner)})
    postgres.psql("ALTER TABLE memories DROP COLUMN reviewed_at")
    schema = named(await check_stores.postgres(settings), "Postgres schema")
    assert (schema.level, "memories.reviewed_at" in schema.found) == ("FAIL", True)


async def test_a_pooler_that_loses_what_was_prepared_fails_with_the_remedy(postgres: TestDatabase) -> None:
    """All that it asked was done by one connection, and it found nothing wrong."""
    async with forgetful_pooler(postgres.server.root) as port:
        url = f"postgresql://mp_app@127.0.0.1:{port}/{postgres.name}?sslmode=disable"
        settings = settings_with(database={"url": SecretStr(url), "owner_url": SecretStr(postgres.owner)})
        (found,) = await check_stores.postgres(settings)
    assert (found.level, "pooler" in found.found, "max_prepared_statements" in found.mend) == ("FAIL", True, True)


async def test_an_absent_postgres_fails_without_its_password() -> None:
    settings = settings_with(database={"url": SecretStr("postgresql://me:hunter2@127.0.0.1:9/db")})
    found = await check_stores.postgres(settings)
    assert worst(found) == "FAIL"
    assert "hunter2" not in repr(found)


@pytest.mark.parametrize(
    ("change", "level", "says"),
    [
        ({}, "ok", ""),
        ({"version_num": 140012}, "FAIL", "15"),
        ({"in_recovery": True}, "FAIL", "primary"),
        ({"vector_installed": "0.7.4"}, "FAIL", "UPDATE"),
        ({"vector_installed": None, "vector_offered": None}, "FAIL", "install pgvector"),
        ({"owns_database": False}, "FAIL", "OWNER TO"),
        ({"has_roles": False, "makes_roles": False}, "FAIL", "CREATEROLE"),
        ({"may_become_app": False}, "FAIL", "GRANT mp_app"),
        ({"encoding": "LATIN1"}, "FAIL", "ENCODING 'UTF8'"),
        ({"bypasses_rls": True}, "warn", "owner_url"),
        ({"synchronous_commit": "off"}, "warn", "power cut"),
        ({"connections_max": 10}, "warn", "max_connections"),
    ],
)
def test_a_postgres_that_is_not_fit_is_told_how_to_become_so(change: dict[str, object], level: str, says: str) -> None:
    seen = replace(GOOD_POSTGRES, **change)  # type: ignore[arg-type]
    found = check_stores.judged_postgres(seen, seen, Settings())
    assert worst(found) == level
    assert any(says in finding.mend for finding in found)


def test_the_connections_of_memory_workers_are_counted_as_they_open_them() -> None:
    settings = Settings(database=Database(pool_size=2), worker=Worker(processes=6))
    seen = replace(GOOD_POSTGRES, connections_max=40)
    (found,) = [one for one in check_stores.judged_postgres(seen, seen, settings) if one.what == "Postgres connections"]
    assert (found.level, found.found) == ("warn", "63 may be opened, max_connections is 40")
    assert "max_prepared_statements" in found.mend


@pytest.mark.parametrize(
    ("durability", "change", "level", "says"),
    [
        ("fsync", {}, "ok", ""),
        ("fsync", {"appendfsync": "everysec"}, "FAIL", "appendfsync always"),
        ("fsync", {"appendfsync": None}, "warn", "CONFIG GET is refused"),
        ("fsync", {"appendonly": False}, "FAIL", "appendonly yes"),
        ("process", {"appendonly": False, "appendfsync": "no"}, "ok", ""),
        ("replicated", {}, "ok", ""),
        ("replicated", {"replicas": 0}, "FAIL", "connect one"),
        ("replicated", {"version": (7, 0)}, "FAIL", "7.2"),
        ("fsync", {"maxmemory_policy": "allkeys-lru"}, "FAIL", "noeviction"),
        ("fsync", {"maxmemory_policy": "volatile-lru"}, "warn", "noeviction"),
        ("fsync", {"version": (6, 2)}, "FAIL", "upgrade"),
        ("fsync", {"name": "Valkey", "version": (7, 2)}, "FAIL", "upgrade"),
        ("fsync", {"role": "slave"}, "FAIL", "primary"),
        ("fsync", {"cluster": True}, "FAIL", "redis+cluster://"),
        ("fsync", {"cluster": True, "address": "h:1"}, "ok", ""),
        ("fsync", {"last_write_ok": False}, "FAIL", "spool"),
    ],
)
def test_a_queue_server_that_keeps_less_than_promised_fails(
    durability: str, change: dict[str, object], level: str, says: str
) -> None:
    found = check_stores.judged_redis(replace(GOOD_REDIS, **change), durability)  # type: ignore[arg-type]
    assert worst(found) == level
    assert any(says in finding.mend for finding in found)


async def test_a_real_valkey_is_read_as_it_is_set(valkey: ValkeyServer) -> None:
    (seen,) = await redis_fitness(valkey.url)
    assert (seen.name, seen.role, seen.appendonly, seen.appendfsync) == ("Valkey", "master", True, "always")
    assert worst(await check_stores.redis(settings_with(redis={"url": SecretStr(valkey.url)}))) == "ok"


async def test_a_user_that_may_not_ask_for_info_is_not_said_to_be_wrong(valkey: ValkeyServer) -> None:
    """As rules of access usually have it: everything but what is dangerous. The service needs no more."""
    admin = connect(valkey.url)
    await admin.execute_command("ACL", "SETUSER", "ours", "on", ">pw", "~*", "&*", "+@all", "-@dangerous")
    await admin.aclose()
    url = valkey.url.replace("unix://", "unix://ours:pw@")
    queue = RedisQueue(url)
    await queue.prepare()
    await queue.ping_as_promised()
    await queue.close()
    found, waits = await check_stores.redis(settings_with(redis={"url": SecretStr(url)}))
    assert (found.level, "INFO" in found.found) == ("warn", True), found
    assert (waits.level, waits.found) == ("ok", "0 exchanges are not stored yet")


@pytest.mark.parametrize(
    ("depth", "level", "says"),
    [
        (QueueDepth(7, 1, 0, 0, 59.0), "ok", "8 exchanges are not stored yet"),
        (QueueDepth(7, 1, 0, 0, 61.0), "warn", "the oldest for 61 s"),
        (QueueDepth(0, 0, 0, 3, 0.0), "warn", "3 exchanges could not be stored"),
    ],
)
def test_exchanges_that_nobody_stores_are_told(depth: QueueDepth, level: str, says: str) -> None:
    """A memory worker that stands still is seen by nothing else: completions go on, and /memory/ready is well."""
    finding = check_stores.judged_depth(depth)
    assert finding.level == level and says in finding.found


async def test_a_node_of_a_cluster_is_no_server_for_the_queue(cluster: Cluster) -> None:
    """It takes the lanes of its own slots only, and no worker can read several."""
    alone = f"redis://127.0.0.1:{cluster.nodes[0].port}"
    queue = RedisQueue(alone, lanes=4)
    with pytest.raises(QueueUnavailable):
        await queue.take(await queue.prepare(), count=1, block_ms=0)
    await queue.close()
    found, *_ = await check_stores.redis(settings_with(redis={"url": SecretStr(alone)}))
    assert (found.level, "redis+cluster://HOST:PORT" in found.mend) == ("FAIL", True)


async def test_every_primary_of_a_cluster_is_held_against_what_is_promised(cluster: Cluster) -> None:
    settings = settings_with(redis={"url": SecretStr(cluster.url), "cache_url": SecretStr(f"{cluster.url}/")})
    found = await check_stores.redis(settings)
    assert worst(found) == "ok"
    assert all(one.found.startswith("all 3 primaries: ") for one in found if one.what != "what waits")
    weak = cluster.nodes[1]
    weak.ask("CONFIG", "SET", "appendfsync", "everysec")
    try:
        (bad,) = [one for one in await check_stores.redis(settings) if one.level != "ok"]
    finally:
        weak.ask("CONFIG", "SET", "appendfsync", "always")
    assert bad.found.startswith(f"127.0.0.1:{weak.port}: appendfsync is everysec")


async def test_the_catalogue_question_is_understood_by_a_real_postgres(postgres: TestDatabase) -> None:
    seen = await fitness(postgres.owner)
    assert seen.version_num >= 150_000
    assert seen.has_roles


# --- upstream --------------------------------------------------------------------------------------------------------


async def test_a_vllm_is_known_by_models_tokenizer_and_metrics() -> None:
    async with running_fake_vllm(max_model_len=512) as url:
        found = await check_upstream.upstream(settings_with(upstream={"url": url}), probe=True)
    assert worst(found) == "ok", found
    assert "(512)" in named(found, "upstream models").found
    assert "were cached" in named(found, "prompt token details").found


async def test_a_memory_proxy_is_not_taken_for_vllm(service: Service) -> None:
    """What it passes on looks as vLLM gives it."""
    found = await check_upstream.upstream(settings_with(upstream={"url": service.url}), probe=False)
    assert [(finding.level, "memory-proxy itself" in finding.found) for finding in found] == [("FAIL", True)], found


async def test_a_wanted_key_is_asked_for() -> None:
    async with running_fake_vllm(api_key="k") as url:
        without = await check_upstream.upstream(settings_with(upstream={"url": url}), probe=False)
        given_key = await check_upstream.upstream(
            settings_with(upstream={"url": url, "api_key": SecretStr("k")}), probe=False
        )
    assert "UPSTREAM__API_KEY" in named(without, "upstream models").mend
    assert worst(given_key) == "ok"


async def test_any_other_server_is_told_what_it_lacks(aiohttp_server_url: str) -> None:
    found = await check_upstream.upstream(settings_with(upstream={"url": aiohttp_server_url}), probe=True)
    assert worst(found) == "warn", found
    assert "tokenizer.directory" in named(found, "upstream /tokenize").mend
    assert named(found, "prompt token details").found == "off"
    assert "behind" in named(found, "clock and upstream").found


async def test_an_answer_that_no_stack_can_read_costs_its_own_line_only() -> None:
    nested = b"[" * 100_000
    with answering(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(nested), nested)) as url:
        found = await check_upstream.upstream(settings_with(upstream={"url": url}), probe=False)
    assert "names no model" in named(found, "upstream models").found


@pytest.fixture
async def aiohttp_server_url() -> AsyncIterator[str]:
    """A small OpenAI-compatible server that is no vLLM, and whose clock is ahead."""

    async def models(_: web.Request) -> web.Response:
        return web.json_response({"data": [{"id": "m"}]})

    async def chat(_: web.Request) -> web.Response:
        return web.json_response({"choices": [], "usage": {"prompt_tokens": 5}})

    async def health(_: web.Request) -> web.Response:
        return web.Response(headers={"Date": "Fri, 01 Jan 2100 00:00:00 GMT"})

    app = web.Application()
    app.add_routes([web.get("/v1/models", models), web.post("/v1/chat/completions", chat), web.get("/health", health)])
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    await runner.cleanup()


@pytest.mark.parametrize(
    ("text", "level"),
    [
        ("extract: {by: model}\nupstream: {api_key: hush}\n", "warn"),  # the model's name stands in the environment
        ("artifacts: {s3_access_key: a, s3_secret_key: hush}\n", "warn"),
        ("extract: {by: model}\nupstream: {api_key: null}\n", "ok"),
        ("database: {url: 'postgresql://mp:hush@db/mp'}\n", "warn"),
        ("database: {url: 'postgresql://db/mp?user=mp&password=hush'}\n", "warn"),
        ("redis: {url: 'rediss://:hush@cache/1'}\n", "warn"),
        ("database: {url: 'postgresql://mp@db/mp'}\nredis: {url: 'redis://cache/1'}\n", "ok"),
    ],
)
def test_a_secret_that_others_may_read_is_found_in_part_of_a_configuration(
    tmp_path: Path, text: str, level: str
) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(text)
    path.chmod(0o644)
    findings = configuration(Settings(), path)
    assert worst(findings) == level
    assert "hush" not in as_json(findings)
