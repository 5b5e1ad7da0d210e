"""The supervisor: starts, says when it is ready, restarts, rolls, stops in order. Real processes, tiny stand-ins."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import json
import os
import resource
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from http.client import HTTPConnection
from io import StringIO
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.mmap_dict import MmapedDict, mmap_key
from prometheus_client.multiprocess import MultiProcessCollector

from bench.overhead.processes import free_port
from memory.config import load_settings
from memory.errors import StartFailed
from memory.metric_files import reading
from memory.telemetry import merged_exposition
from proxy.supervisor.children import Child, Command
from proxy.supervisor.data_dir import claimed
from proxy.supervisor.fleet import DEATHS_MAX, LISTEN_FD, Pool
from proxy.supervisor.journal import Journal
from proxy.supervisor.keeper import Keeper
from proxy.supervisor.leftovers import buried, started_at
from proxy.supervisor.listener import http_origin, local_address, open_listener
from proxy.supervisor.metrics_dir import ARCHIVE, DEAD_MAX, MetricsDir
from proxy.supervisor.supervisor import run_supervisor
from tests.waiting import wait_until

REPOSITORY = Path(__file__).parents[1]

# Runs the supervisor; argv: overrides of the settings, the commands of the children.
RUN = """
import json, os, sys
from memory.config import load_settings
from proxy.supervisor.supervisor import ChildCommands, run_supervisor
overrides, commands = (json.loads(word) for word in sys.argv[1:3])
commands = ChildCommands(**{name: tuple(words) for name, words in commands.items()})
sys.exit(run_supervisor(load_settings(None, overrides, {}), os.environ, commands=commands))
"""

# Serves one request a connection: /memory/ready says 200 once DIR/ready exists; the answer names process and slot. It
# has all that it serves with unless DIR/hold-SLOT exists. SIGTERM ends it between two requests, as it does a real one:
# a connection that it has accepted is answered first.
PROXY_WORKER = """
import json, os, select, signal, socket, sys, threading, time
directory, stubborn = sys.argv[1], len(sys.argv) > 2
asked, ask = os.pipe()
signal.signal(signal.SIGTERM, lambda *_: os.write(ask, b"1"))
listener = socket.socket(fileno=int(os.environ["MEMORY_PROXY_LISTEN_FD"]))
listener.setblocking(False)
os.write(int(os.environ["MEMORY_PROXY_READY_FD"]), b"1")
def complete():
    while os.path.exists(directory + "/hold-" + os.environ["MEMORY_PROXY_SLOT"]):
        time.sleep(0.02)
    os.write(int(os.environ["MEMORY_PROXY_READY_FD"]), b"2")
threading.Thread(target=complete, daemon=True).start()
names = ("MEMORY_PROXY_SETTINGS", "PROMETHEUS_MULTIPROC_DIR", "MEMORY_PROXY_SLOT", "MEMORY_PROXY_LISTEN__PORT",
         "MEMORY_PROXY_MASTER_KEY")
while True:
    waiting, _, _ = select.select([listener, asked], [], [])
    if asked in waiting:
        os.read(asked, 1)
        open(directory + "/order", "a").write("ignored\\n" if stubborn else "proxy\\n")
        if not stubborn:
            sys.exit(0)
        continue
    try:
        connection, _ = listener.accept()
    except BlockingIOError:  # another worker took it
        continue
    connection.setblocking(True)
    path = connection.recv(65536).split(b" ")[1]
    status = 503 if path == b"/memory/ready" and not os.path.exists(directory + "/ready") else 200
    body = json.dumps({"pid": os.getpid(), "env": {name: os.environ.get(name) for name in names}}).encode()
    head = b"HTTP/1.1 %d x\\r\\nContent-Length: %d\\r\\nConnection: close\\r\\n\\r\\n" % (status, len(body))
    connection.sendall(head + body)
    connection.close()
"""

MEMORY_WORKER = """
import os, signal, sys
directory = sys.argv[1]
signal.signal(signal.SIGTERM, lambda *_: (open(directory + "/order", "a").write("memory\\n"), sys.exit(0)))
open(directory + "/workers", "a").write(f"{os.getpid()} {os.environ['MEMORY_PROXY_SLOT']}\\n")
while True:
    signal.pause()
"""


class Running:
    """A supervisor process with its directory; `data` is its data directory."""

    def __init__(self, place: Path, process: subprocess.Popen[str]) -> None:
        self.place = place
        self.data = place / "data"
        self.process = process
        self.origin = ""

    @property
    def log(self) -> str:
        return (self.place / "log").read_text()

    def until_ready(self) -> None:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line.startswith("memory-proxy ready on http://127.0.0.1:"), line + self.log
        self.origin = line.split()[3].removeprefix("http://")

    def ask(self, path: str = "/") -> dict[str, Any]:
        connection = HTTPConnection(self.origin, timeout=20)
        connection.request("GET", path)
        answer: dict[str, Any] = json.loads(connection.getresponse().read())
        connection.close()
        return answer

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)


@pytest.fixture
def place() -> Iterator[Path]:
    with TemporaryDirectory(prefix="mp-", dir="/tmp") as path:
        Path(path).chmod(0o755)
        (Path(path) / "ready").touch()
        yield Path(path)


def python(script: str, *words: object) -> list[str]:
    return [sys.executable, "-c", script, *map(str, words)]


@contextmanager
def supervised(
    place: Path,
    *,
    overrides: Mapping[str, object] | None = None,
    commands: Mapping[str, list[str]] | None = None,
    embedded: bool = False,
) -> Iterator[Running]:
    """A running supervisor; at the end nothing it started may be left."""
    external = {"database.url": "postgresql://h/d", "redis.url": "redis://h"}
    settings = {"listen.port": 0, "data.dir": str(place / "data"), "log.level": "debug", "log.format": "text"}
    children = {
        "proxy_worker": python(PROXY_WORKER, place),
        "memory_worker": python(MEMORY_WORKER, place),
        "migrate": ["/bin/true"],
        "prepare_model": ["/bin/true"],
    }
    given = {**({} if embedded else external), **settings, **(overrides or {})}
    words = (json.dumps(given), json.dumps({**children, **(commands or {})}))
    with (place / "log").open("a") as log:
        process = subprocess.Popen(
            [sys.executable, "-c", RUN, *words],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env={
                **os.environ,
                "PYTHONPATH": str(REPOSITORY),
                "MEMORY_PROXY_LISTEN__PORT": "1",
                "MEMORY_PROXY_MASTER_KEY": "of the operator",
            },
        )
    try:
        yield Running(place, process)
    finally:
        process.kill()
        process.wait(10)
        assert process.stdout is not None
        process.stdout.close()
        wait_until(lambda: not alive_below(place / "data"))


def recorded(data: Path) -> set[int]:
    try:
        return {int(pid) for pid in json.loads((data / "run" / "children.json").read_text())}
    except (OSError, ValueError):
        return set()


def alive_below(data: Path) -> set[int]:
    """The processes whose environment or command line names this data directory."""
    found = set()
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
        except OSError:
            continue
        if os.fsencode(data) + b"/" in words and int(entry.name) != os.getpid():
            found.add(int(entry.name))
    return found


def test_it_says_once_that_it_is_ready_and_exits_0_on_sigterm(place: Path) -> None:
    with supervised(place) as service:
        service.until_ready()
        wait_until(lambda: (place / "workers").exists())
        assert service.stop() == 0
        assert service.process.stdout is not None
        assert service.process.stdout.read() == ""
        assert not alive_below(service.data)
        assert (place / "order").read_text().split() == ["proxy", "memory"]


def test_it_listens_before_stores_and_model_are_there(place: Path) -> None:
    migrate = ["/bin/sh", "-c", f"until test -e {place}/go; do sleep 0.05; done"]
    with supervised(place, overrides={"listen.port": (port := free_port())}, commands={"migrate": migrate}) as service:
        service.origin = f"127.0.0.1:{port}"
        wait_until(lambda: answers(service))
        assert not (place / "workers").exists()
        (place / "go").touch()
        service.until_ready()
        wait_until(lambda: (place / "workers").exists())


def answers(service: Running) -> bool:
    try:
        return bool(service.ask("/memory/health"))
    except OSError:
        return False


def test_it_is_ready_only_when_the_worker_says_so(place: Path) -> None:
    (place / "ready").unlink()
    with supervised(place) as service:
        wait_until(lambda: (place / "workers").exists())
        (place / "ready").touch()
        service.until_ready()


def test_it_is_ready_only_when_every_worker_is_whichever_of_them_was_asked(place: Path) -> None:
    (place / "hold-1").touch()
    with supervised(place, overrides={"listen.workers": 2}) as service:
        wait_until(lambda: (place / "workers").exists())
        assert service.process.stdout is not None
        early, _, _ = select.select([service.process.stdout], [], [], 1.5)
        assert not early, "one of two workers has no store yet"
        (place / "hold-1").unlink()
        service.until_ready()


def test_children_get_resolved_settings_and_of_our_variables_the_master_key_alone(place: Path) -> None:
    with supervised(place, overrides={"database.url": None, "listen.workers": 2}, embedded=True) as service:
        service.until_ready()
        env = service.ask()["env"]
        settings = json.loads(Path(env["MEMORY_PROXY_SETTINGS"]).read_text())
        assert settings["database"]["url"].startswith("postgresql://mp_app@/memory_proxy?host=")
        assert settings["database"]["owner_url"].startswith("postgresql://mp_owner@/memory_proxy?host=")
        assert settings["redis"]["url"] == f"unix://{service.data}/sockets/valkey.sock"
        assert settings["data"]["dir"] == str(service.data)
        assert env["PROMETHEUS_MULTIPROC_DIR"] == str(service.data / "run" / "metrics")
        assert env["MEMORY_PROXY_SLOT"] in ("0", "1")
        assert env["MEMORY_PROXY_LISTEN__PORT"] is None
        assert env["MEMORY_PROXY_MASTER_KEY"] == "of the operator", "it is in no file"
        assert "of the operator" not in Path(env["MEMORY_PROXY_SETTINGS"]).read_text()
        assert service.stop() == 0
        assert "database system is shut down" in (service.data / "logs" / "postgres.log").read_text()


def is_dead(pid: int) -> bool:
    """Whether the kernel has ended a process, its parent having noticed or not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except (FileNotFoundError, ProcessLookupError):  # reaped before it was opened, or before it was read
        return True


def test_a_dead_worker_is_replaced_and_no_connection_is_refused(place: Path) -> None:
    with supervised(place) as service:
        service.until_ready()
        first = service.ask()["pid"]
        os.kill(first, signal.SIGKILL)
        wait_until(lambda: is_dead(first))  # until then it may still take a connection, which dies with it
        assert service.ask()["pid"] != first  # waits in the socket's queue for the next worker
        assert "reason=killed by SIGKILL" in service.log
        (worker, _), *_ = [line.split() for line in (place / "workers").read_text().splitlines()]
        os.kill(int(worker), signal.SIGKILL)
        wait_until(lambda: len((place / "workers").read_text().splitlines()) == 2)
        assert service.stop() == 0


def test_a_rolling_restart_replaces_all_workers_without_a_refused_request(place: Path) -> None:
    with supervised(place, overrides={"listen.workers": 2}) as service:
        service.until_ready()
        before = recorded(service.data)
        service.process.send_signal(signal.SIGHUP)
        wait_until(lambda: (service.ask(), service.log.count("rolled") == 2)[1])
        wait_until(lambda: (place / "order").read_text().split() == ["proxy", "proxy"])
        answer = service.ask()
        assert answer["pid"] not in before
        assert answer["env"]["MEMORY_PROXY_SLOT"] in ("0", "1", "2", "3")
        assert service.stop() == 0


@pytest.mark.long
def test_a_worker_whose_successor_does_not_serve_stays(place: Path) -> None:
    script = f'if test -e {place}/broken; then exit 1; fi; exec "$0" "$@"'
    workers = ["/bin/sh", "-c", script, *python(PROXY_WORKER, place)]
    with supervised(place, overrides={"listen.workers": 2}, commands={"proxy_worker": workers}) as service:
        service.until_ready()
        (place / "broken").touch()
        service.process.send_signal(signal.SIGHUP)
        wait_until(lambda: "rolled" in service.log)
        assert not (place / "order").exists(), "the ones that serve were stopped"
        wait_until(lambda: len(recorded(service.data)) == 3)
        (place / "broken").unlink()
        service.process.send_signal(signal.SIGHUP)
        wait_until(lambda: service.log.count("supervisor: rolled") == 2)
        assert service.ask()
        assert service.stop() == 0


def test_a_migration_is_told_that_the_service_stops(place: Path) -> None:
    """What it has started goes on else, and migrates a database of one's own behind a service that has ended with 0."""
    script = "trap 'echo told >> $0/order; exit 1' TERM; touch $0/begun; while :; do sleep 0.05; done"
    with supervised(place, commands={"migrate": ["/bin/sh", "-c", script, str(place)]}) as service:
        wait_until(lambda: (place / "begun").exists())
        assert service.stop() == 0
        assert "told" in (place / "order").read_text().split()


def test_a_second_sigterm_hurries(place: Path) -> None:
    overrides = {"listen.drain_s": 600}
    with supervised(place, overrides=overrides, commands={"proxy_worker": python(PROXY_WORKER, place, 1)}) as service:
        service.until_ready()
        service.process.send_signal(signal.SIGTERM)
        wait_until(lambda: (place / "order").exists())
        assert service.stop() == 0
        assert not alive_below(service.data)


@pytest.mark.long
def test_a_supervisor_killed_with_9_leaves_nothing_that_hinders_the_next(place: Path) -> None:
    pids: set[int] = set()
    for _ in range(2):
        with supervised(place, embedded=True) as service:
            service.until_ready()
            assert len(recorded(service.data)) == 4
            pids |= recorded(service.data)
            service.process.kill()
            service.process.wait(10)
            with supervised(place, embedded=True) as again:
                again.until_ready()
                assert pids.isdisjoint(recorded(again.data))
                assert not [pid for pid in pids if started_at(pid)]
                assert again.stop() == 0


@pytest.mark.long
def test_leftovers_that_ignore_their_signal_are_killed(place: Path) -> None:
    orphan = subprocess.Popen(["/bin/sh", "-c", "trap '' TERM; while :; do sleep 0.1; done"])
    try:
        with supervised(place) as service:
            service.until_ready()
            assert service.stop() == 0
        (place / "data" / "run" / "children.json").write_text(json.dumps({str(orphan.pid): started_at(orphan.pid)}))
        with supervised(place) as service:
            service.until_ready()
            assert orphan.wait(10) == -signal.SIGKILL
    finally:
        orphan.kill()
        orphan.wait(10)


def test_what_nobody_waits_for_is_waited_for_by_the_first_process() -> None:
    ended = os.posix_spawn("/bin/true", ["true"], {})  # as one whose parent died comes to process 1 of a container
    wait_until(lambda: ended in buried(set()))
    assert ended not in buried({ended})
    with pytest.raises(ChildProcessError):
        os.waitpid(ended, os.WNOHANG)


def test_a_data_directory_in_use_is_refused_with_the_holders_pid(place: Path) -> None:
    with supervised(place) as service:
        service.until_ready()
        with supervised_once(place) as refused:
            assert refused.wait(30) == 1
        assert f"in use by process {service.process.pid}" in service.log
        assert service.ask()
        assert service.stop() == 0


def test_a_command_that_looks_whether_a_service_runs_keeps_none_from_its_start(tmp_path: Path) -> None:
    """`doctor`, and whatever works beside a service, have the lock for a moment."""
    (tmp_path / "lock").touch()
    with (tmp_path / "lock").open() as looking:
        fcntl.flock(looking, fcntl.LOCK_SH)
        ends = threading.Timer(0.05, fcntl.flock, (looking, fcntl.LOCK_UN))
        ends.start()
        with claimed(tmp_path, None, {}) as data:
            assert data.root == tmp_path
        ends.join()


@contextmanager
def supervised_once(place: Path) -> Iterator[subprocess.Popen[str]]:
    """A second supervisor on the same directory."""
    words = (json.dumps({"listen.port": 0, "data.dir": str(place / "data")}), json.dumps({}))
    with (place / "log").open("a") as log:
        process = subprocess.Popen([sys.executable, "-c", RUN, *words], stderr=log, text=True, cwd=REPOSITORY)
    try:
        yield process
    finally:
        process.kill()
        process.wait(10)


def test_a_taken_port_is_named_and_nothing_is_left(place: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with supervised(place, overrides={"listen.port": port}) as service:
            assert service.process.wait(30) == 1
            assert f"cannot listen on port {port} of 127.0.0.1: another process listens there" in service.log
            assert not alive_below(service.data)


@pytest.mark.parametrize("of", ["bytes", "files"])
def test_a_full_disk_at_a_start_is_named_with_the_remedy(place: Path, of: str) -> None:
    with small_disk(place / "data") as data:
        with supervised(place) as service:
            service.until_ready()
            assert service.stop() == 0
        fill_up(data / "run", of)
        with supervised(place) as service:
            assert service.process.wait(30) == 1
            assert "cannot be written: No space left on device; free some space" in service.log
            assert "Traceback" not in service.log


@contextmanager
def small_disk(place: Path) -> Iterator[Path]:
    """A disk of 32 MiB and 1,024 files for the data directory."""
    place.mkdir(mode=0o700)
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=32m,nr_inodes=1k,mode=700", "none", place], check=False
    )
    if mounted.returncode != 0:
        pytest.skip("this machine lets nobody mount")
    try:
        yield place
    finally:
        subprocess.run(["umount", place], check=True)


def fill_up(directory: Path, of: str) -> None:
    with suppress(OSError):
        for number in count():
            (directory / f"filler-{number}").write_bytes(bytes(65_536) if of == "bytes" else b"")
    if of == "bytes":
        with suppress(OSError), (directory / "filler").open("wb", buffering=0) as filler:
            while True:
                filler.write(bytes(4096))


def test_a_migration_that_fails_for_good_ends_the_start(place: Path) -> None:
    with supervised(place, commands={"migrate": ["/bin/sh", "-c", "exit 3"]}) as service:
        assert service.process.wait(30) == 1
        assert "cannot start: migrating the database failed (exit code 3)" in service.log
        assert not alive_below(service.data)


def test_a_store_that_is_not_there_yet_is_waited_for(place: Path) -> None:
    script = f"echo x >> {place}/tries; test $(wc -l < {place}/tries) -gt 2 || exit 75"
    with supervised(place, commands={"migrate": ["/bin/sh", "-c", script]}) as service:
        service.until_ready()
        assert service.log.count("retry") == 2


@pytest.mark.long
def test_house_is_kept_while_a_start_waits(place: Path) -> None:
    (place / "ready").unlink()
    with supervised(place) as service:
        wait_until(lambda: recorded(service.data))
        left = service.data / "run" / "metrics" / "gauge_livesum_4194304.db"  # above every process id
        left.touch()
        wait_until(lambda: not left.exists())
        assert service.process.poll() is None


def test_a_model_that_cannot_be_prepared_does_not_stop_the_service(place: Path) -> None:
    with supervised(place, commands={"prepare_model": ["/bin/false"]}) as service:
        service.until_ready()
        assert "failed what=preparing the model reason=exit code 1" in service.log


@pytest.mark.long
def test_proxy_workers_that_only_die_end_the_start(place: Path) -> None:
    with supervised(place, commands={"proxy_worker": ["/bin/false"]}) as service:
        assert service.process.wait(60) == 1
        assert "cannot start: proxy worker 0 dies at every start" in service.log


def test_a_proxy_worker_that_says_why_it_will_not_serve_is_heard(place: Path) -> None:
    """Of a tokenizer that is not there it said so eight times in half a minute, before the start was given up."""
    with supervised(place, commands={"proxy_worker": ["/bin/sh", "-c", "exit 2"]}) as service:
        assert service.process.wait(60) == 1
        assert "cannot start: proxy worker 0 dies at every start" in service.log
        assert service.log.count("reason=exit code 2") < DEATHS_MAX


def test_sigterm_while_starting_ends_with_0(place: Path) -> None:
    with supervised(place, commands={"migrate": ["/bin/sleep", "600"]}, embedded=True) as service:
        wait_until(lambda: "starting Postgres" in service.log)
        assert service.stop() == 0
        assert not alive_below(service.data)


def test_a_wildcard_address_is_reached_by_loopback() -> None:
    for host, expected in (("0.0.0.0", "127.0.0.1"), ("127.0.0.1", "127.0.0.1"), ("localhost", "127.0.0.1")):
        with open_listener(host, 0) as listener:
            assert local_address(listener)[0] == expected
            socket.create_connection(local_address(listener), 5).close()


def test_ipv6_takes_both_families_and_is_written_in_brackets() -> None:
    try:
        listener = open_listener("::", 0)
    except StartFailed:
        pytest.skip("this machine has no IPv6")
    with listener:
        assert http_origin(listener).startswith("http://[::1]:")
        socket.create_connection(("127.0.0.1", listener.getsockname()[1]), 5).close()


@pytest.mark.parametrize(
    ("host", "said"), [("192.0.2.1", "no address of this machine"), ("no such host", "cannot listen on no such host")]
)
def test_an_impossible_address_is_named_with_the_remedy(host: str, said: str) -> None:
    with pytest.raises(StartFailed, match=said):
        open_listener(host, 0)


def test_a_machine_without_ipv6_is_told_so_and_not_by_a_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: object) -> socket.socket:
        raise OSError(errno.EAFNOSUPPORT, os.strerror(errno.EAFNOSUPPORT))

    monkeypatch.setattr("proxy.supervisor.listener.socket.socket", none)
    with pytest.raises(StartFailed, match=r"cannot listen on port 0 of ::: .*choose another --host"):
        open_listener("::", 0)


async def test_a_child_that_is_dead_before_anybody_looks_leaves_no_descriptor(tmp_path: Path) -> None:
    def until_dead(child: Child) -> None:
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)

    command = Command("child", ("/bin/false",), {}, log=tmp_path / "log")
    keeper = Keeper(command, Journal(StringIO(), "json"), began=until_dead)
    before = len(os.listdir("/proc/self/fd"))
    keeper.start()
    while keeper.deaths < 3:
        await asyncio.sleep(0.02)
    await keeper.stop((signal.SIGTERM, 1.0))
    assert len(os.listdir("/proc/self/fd")) == before


async def test_a_child_that_keeps_dying_is_restarted_with_growing_pauses(tmp_path: Path) -> None:
    log = StringIO()
    keeper = Keeper(Command("child", ("/bin/false",), {}, log=tmp_path / "log"), Journal(log, "json"))
    keeper.start()
    while keeper.deaths < 4:
        await asyncio.sleep(0.02)
    await keeper.stop((signal.SIGTERM, 1.0))
    lines = [json.loads(line) for line in log.getvalue().splitlines()]
    assert [line["restart_in_s"] for line in lines][:4] == [0.1, 0.2, 0.4, 0.8]
    assert lines[0]["reason"] == "exit code 1"


@pytest.mark.parametrize("speaks", [False, True])
async def test_a_child_that_speaks_does_not_serve_before_it_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, speaks: bool
) -> None:
    """Else a roll on a busy machine stops the old worker, while the new one is still being loaded or about to fail."""
    monkeypatch.setattr("proxy.supervisor.keeper.READY_SILENT_S", 0.05)
    script = f'while ! test -e {tmp_path}/loaded; do sleep .05; done; echo 1 >&"$MEMORY_PROXY_READY_FD"; exec sleep 60'
    env = {"PATH": os.environ["PATH"]}
    command = Command("child", ("/bin/bash", "-c", script), env, log=tmp_path / "log")
    keeper = Keeper(command, Journal(StringIO(), "json"), speaks=speaks)
    keeper.start()
    assert await keeper.until_serving(0.5 if speaks else 10) is not speaks
    assert keeper.has_served is not speaks
    (tmp_path / "loaded").touch()
    assert await keeper.until_serving(10)
    await keeper.stop((signal.SIGTERM, 1.0))


@pytest.mark.parametrize("number", [1, 2])
async def test_one_that_begins_again_leaves_requests_to_those_that_serve(tmp_path: Path, number: int) -> None:
    """Else it takes some before it knows a key: chats were refused while another worker could have answered them."""
    says = f'echo "${{MEMORY_PROXY_REPLACES:-alone}}" >> {tmp_path}/said'
    script = says + '; echo 1 >&"$MEMORY_PROXY_READY_FD"; exec sleep 60'
    began: list[int] = []
    env = {"PATH": os.environ["PATH"], LISTEN_FD: "0"}
    journal = Journal(StringIO(), "json")
    argv = ("/bin/bash", "-c", script)
    pool = Pool("child", argv, env, (), 1.0, journal, lambda child: began.append(child.pid), lambda _: None)

    async def said(lives: int) -> list[str]:
        while len(lines := (tmp_path / "said").read_text().split()) < lives or not all(
            keeper.serving.is_set() for keeper in pool._keepers.values()
        ):
            await asyncio.sleep(0.02)
        return lines

    (tmp_path / "said").touch()
    pool.start(number)
    assert await said(number) == ["alone"] * number
    os.kill(began[0], signal.SIGKILL)
    assert (await said(number + 1))[number:] == (["alone"] if number == 1 else ["1"])
    await pool.stop(asyncio.Event())


async def test_a_command_that_cannot_be_executed_is_tried_again_with_the_reason(tmp_path: Path) -> None:
    log = StringIO()
    keeper = Keeper(Command("child", ("/no/such/program",), {}, log=tmp_path / "log"), Journal(log, "text"))
    keeper.start()
    while keeper.deaths < 2:
        await asyncio.sleep(0.02)
    await keeper.stop((signal.SIGTERM, 1.0))
    assert "cannot execute /no/such/program" in log.getvalue()


@pytest.mark.parametrize("left", [0, 2])
async def test_a_child_is_started_again_when_there_are_descriptors_again(tmp_path: Path, left: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)

    def ended(_pid: int) -> None:
        if not keeper.deaths:
            free = [os.dup(0) for _ in range(left + 1)]
            for descriptor in free:
                os.close(descriptor)
            resource.setrlimit(resource.RLIMIT_NOFILE, (free[-1], hard))

    log = StringIO()
    keeper = Keeper(Command("child", ("/bin/false",), {}, log=tmp_path / "log"), Journal(log, "json"), ended=ended)
    keeper.start()
    try:
        async with asyncio.timeout(5):
            while keeper.deaths < 2:
                await asyncio.sleep(0.02)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    while keeper.deaths < 3:
        await asyncio.sleep(0.02)
    await keeper.stop((signal.SIGTERM, 1.0))
    reasons = [json.loads(line)["reason"] for line in log.getvalue().splitlines()]
    assert "Too many open files" in reasons[1]
    assert reasons[2] == "exit code 1"


def test_sums_survive_any_number_of_dead_workers_and_their_files_do_not(tmp_path: Path) -> None:
    metrics = MetricsDir(tmp_path / "metrics")
    metrics.clear()
    for pid in range(5_000_000, 5_000_000 + 3 * DEAD_MAX):
        write_metric(metrics.path / f"counter_{pid}.db", "requests_total", 2.0)
        write_metric(metrics.path / f"gauge_livesum_{pid}.db", "busy", 1.0)
        metrics.reap(pid)
        assert len(list(metrics.path.glob("*.db"))) <= DEAD_MAX + 1
    samples = {
        sample.name: sample.value
        for metric in MultiProcessCollector(CollectorRegistry(), str(metrics.path)).collect()  # type: ignore[no-untyped-call]
        for sample in metric.samples
    }
    assert samples == {"requests_total": 2.0 * 3 * DEAD_MAX}
    metrics.clear()
    assert list(metrics.path.iterdir()) == []


def test_files_of_commands_that_ended_are_folded_and_those_of_running_ones_stay(tmp_path: Path) -> None:
    metrics = MetricsDir(tmp_path / "metrics")
    metrics.clear()
    ended = [subprocess.Popen([sys.executable, "-c", ""]) for _ in range(DEAD_MAX + 1)]
    for one in ended:
        one.wait()
        write_metric(metrics.path / f"counter_{one.pid}.db", "requests_total", 2.0)
        write_metric(metrics.path / f"gauge_livesum_{one.pid}.db", "busy", 1.0)
    write_metric(metrics.path / f"counter_{os.getpid()}.db", "requests_total", 1.0)
    metrics.tidy()
    metrics.tidy()
    assert {file.name for file in metrics.path.iterdir()} == {f"counter_{ARCHIVE}.db", f"counter_{os.getpid()}.db"}
    samples = MultiProcessCollector(CollectorRegistry(), str(metrics.path)).collect()  # type: ignore[no-untyped-call]
    assert [sample.value for metric in samples for sample in metric.samples] == [2.0 * len(ended) + 1.0]


def test_a_process_whose_end_is_noticed_twice_counts_once(tmp_path: Path) -> None:
    metrics = MetricsDir(tmp_path / "metrics")
    metrics.clear()
    for pid in range(5_000_000, 5_000_000 + DEAD_MAX + 1):
        write_metric(metrics.path / f"counter_{pid}.db", "requests_total", 2.0)
        metrics.tidy()
        metrics.reap(pid)
    samples = MultiProcessCollector(CollectorRegistry(), str(metrics.path)).collect()  # type: ignore[no-untyped-call]
    assert [sample.value for metric in samples for sample in metric.samples] == [2.0 * (DEAD_MAX + 1)]


def test_a_scrape_while_files_are_folded_counts_nothing_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a counter would fall at the next scrape, which to Prometheus is a restart: the whole sum once more."""
    metrics, scraped = MetricsDir(tmp_path / "metrics"), list[bytes]()
    metrics.clear()
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(metrics.path))
    for pid in range(5_000_000, 5_000_000 + DEAD_MAX + 1):
        write_metric(metrics.path / f"counter_{pid}.db", "requests_total", 2.0)
    scrapes: list[threading.Thread] = []
    remove = Path.unlink

    def slowly(path: Path, missing_ok: bool = False) -> None:
        if not scrapes and path.suffix == ".db":
            scrapes.append(threading.Thread(target=lambda: scraped.append(merged_exposition())))
            scrapes[0].start()
            scrapes[0].join(0.2)
        remove(path, missing_ok)

    monkeypatch.setattr(Path, "unlink", slowly)
    metrics.tidy()
    scrapes[0].join()
    assert f"requests_total {2.0 * (DEAD_MAX + 1)}" in scraped[0].decode()


def test_the_files_of_a_process_that_has_the_number_of_a_dead_one_are_not_folded(tmp_path: Path) -> None:
    metrics, mine = MetricsDir(tmp_path / "metrics"), os.getpid()
    metrics.clear()
    write_metric(metrics.path / f"counter_{mine}.db", "requests_total", 1.0)
    metrics.reap(mine)  # of whoever had this number before
    for pid in range(5_000_000, 5_000_000 + DEAD_MAX):
        write_metric(metrics.path / f"counter_{pid}.db", "requests_total", 2.0)
        metrics.reap(pid)
    assert (metrics.path / f"counter_{mine}.db").exists(), "what it counts from now on would be in no file"


def test_files_are_folded_once_nobody_reads_them(tmp_path: Path) -> None:
    """A process that hangs in a scrape holds the supervisor up in nothing."""
    metrics = MetricsDir(tmp_path / "metrics")
    metrics.clear()
    for pid in range(5_000_000, 5_000_000 + DEAD_MAX + 1):
        write_metric(metrics.path / f"counter_{pid}.db", "requests_total", 2.0)
    with reading(metrics.path):
        metrics.tidy()
        assert len(list(metrics.path.iterdir())) == DEAD_MAX + 1
    metrics.tidy()
    assert [file.name for file in metrics.path.iterdir()] == [f"counter_{ARCHIVE}.db"]


def test_an_end_is_taken_note_of_on_a_disk_that_has_become_read_only(place: Path) -> None:
    with small_disk(place / "data") as data:
        metrics = MetricsDir(data / "metrics")
        metrics.clear()
        for pid in range(5_000_000, 5_000_000 + DEAD_MAX + 1):
            write_metric(metrics.path / f"counter_{pid}.db", "requests_total", 2.0)
            write_metric(metrics.path / f"gauge_livesum_{pid}.db", "busy", 1.0)
        subprocess.run(["mount", "-o", "remount,ro", data], check=True)
        metrics.tidy()
        subprocess.run(["mount", "-o", "remount,rw", data], check=True)
        metrics.tidy()
        assert {file.name for file in metrics.path.iterdir()} == {f"counter_{ARCHIVE}.db"}


def test_the_empty_file_of_a_worker_that_was_killed_at_its_start_spoils_no_sum(tmp_path: Path) -> None:
    metrics = MetricsDir(tmp_path / "metrics")
    metrics.clear()
    (metrics.path / "counter_999.db").touch()
    for pid in range(999, 1000 + DEAD_MAX):
        if pid > 999:
            write_metric(metrics.path / f"counter_{pid}.db", "requests_total", 2.0)
        metrics.reap(pid)
    samples = MultiProcessCollector(CollectorRegistry(), str(metrics.path)).collect()  # type: ignore[no-untyped-call]
    assert [sample.value for metric in samples for sample in metric.samples] == [2.0 * DEAD_MAX]


def write_metric(path: Path, name: str, value: float) -> None:
    file = MmapedDict(str(path))  # type: ignore[no-untyped-call]
    file.write_value(mmap_key(name, name, [], [], "help"), value, 0.0)  # type: ignore[no-untyped-call]
    file.close()  # type: ignore[no-untyped-call]


async def test_progress_is_told_only_of_what_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    log = StringIO()
    journal = Journal(log, "text")
    async with journal.step("short"):
        pass
    assert log.getvalue() == ""
    monkeypatch.setattr("proxy.supervisor.journal.PROGRESS_FIRST_S", 0.0)
    async with journal.step("long"):
        await asyncio.sleep(0.05)
    assert "memory-proxy: long (0 s)" in log.getvalue()


async def test_in_a_log_of_json_what_people_are_told_is_json_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proxy.supervisor.journal.PROGRESS_FIRST_S", 0.0)
    log = StringIO()
    async with Journal(log, "json").step("long"):
        await asyncio.sleep(0.05)
    settings = load_settings(None, {"data.dir": "/proc/no/such"}, {})
    assert run_supervisor(settings, {}, err=log) == 1
    assert '"event":"waiting"' in log.getvalue()  # as the other processes write theirs: one search finds all of them
    waiting, cannot = map(json.loads, log.getvalue().splitlines())
    assert (waiting["event"], waiting["what"], waiting["seconds"]) == ("waiting", "long", 0)
    assert (cannot["event"], cannot["level"]) == ("cannot_start", "error")
    assert "/proc/no/such" in cannot["reason"]
    monkeypatch.setattr(log, "isatty", lambda: True)
    Journal(log, "json").tell("long (2 s)", "waiting")
    assert log.getvalue().endswith("memory-proxy: long (2 s)\n")


def test_the_supervisor_loads_neither_the_serving_nor_the_remembering_side() -> None:
    script = "import sys, proxy.supervisor.supervisor; print(*sorted(sys.modules))"
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=REPOSITORY)
    loaded = set(shown.stdout.split())
    assert {
        name for name in loaded if name.split(".")[0] in ("aiohttp", "asyncpg", "redis", "onnxruntime", "numpy")
    } == set()
    ours = {name for name in loaded if name.split(".")[0] in ("proxy", "memory", "policies")}
    assert {name for name in ours if not name.startswith(("proxy.supervisor", "memory.config"))} == {
        "proxy",
        "memory",
        "memory.errors",
        "memory.home",  # where the defaults lie below
        "memory.metric_files",
        "memory.unwaited",
        "policies",
        "policies.web_address",  # the form of the names in outside.allow and outside.deny
    }


def test_a_host_that_is_no_name_is_said_to_be_so() -> None:
    with pytest.raises(StartFailed, match="no name of a host; choose another --host"):
        open_listener("proxy..local", 0)


def test_what_nobody_reads_is_not_taken_from_the_one_who_writes() -> None:
    """A slow client's answer waits at its source, not in buffers here and in the copy that is captured."""
    with open_listener("127.0.0.1", 0) as listener, socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(local_address(listener))
        listener.setblocking(True)
        served, _ = listener.accept()
        with served:
            served.setblocking(False)
            taken = 0
            with pytest.raises(BlockingIOError):
                while True:
                    taken += served.send(bytes(4096))
    assert taken < 1 << 20


def test_who_has_closed_what_is_written_to_is_served_all_the_same(place: Path) -> None:
    """As a script that wants no output does. The socket must not get the number of what children write to either."""
    script = """
import os, socket, sys
from memory.at_terminal import at_terminal
def work():
    with socket.socket() as one, open(sys.argv[1], "w") as file:
        print("said", file=sys.stderr)
        file.write(str(one.fileno() > 2 and file.fileno() > 2))
    print("said")
    return 0
sys.exit(at_terminal(work))
"""
    words = [sys.executable, "-c", script, str(place / "found")]
    for closed in ("", ">&-", "2>&-", "<&- >&- 2>&-"):
        subprocess.run(["sh", "-c", f'exec "$@" {closed}', "sh", *words], check=True, cwd=REPOSITORY)
        assert (place / "found").read_text() == "True", closed


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_command_that_is_told_to_end_leaves_no_half_of_its_file(place: Path, number: signal.Signals) -> None:
    """And ends by that signal: who started it, as a start does a migration, knows that it did not fail by itself."""
    script = """
import asyncio, sys
from pathlib import Path
import uvloop
from memory.at_terminal import at_terminal
from proxy.cli.whole_file import whole_file
async def waiting():
    print("begun", flush=True)
    await asyncio.sleep(60)
def work():
    with whole_file(Path(sys.argv[1]) / "mine.ndjson"):
        uvloop.run(waiting())
sys.exit(at_terminal(work))
"""
    words = [sys.executable, "-c", script, str(place)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=REPOSITORY) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == b"begun\n"
        process.send_signal(number)
        assert process.wait(20) == -number
        assert process.stderr.read() == b""
    assert not list(place.glob("mine*"))


def test_a_migration_loads_nothing_of_what_a_worker_works_with() -> None:
    """Between the stores and the first memory worker: a start waits for it."""
    script = "import sys, memory.migrate_command; print(*sorted(sys.modules))"
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=REPOSITORY)
    heavy = {"memory.wiring", "memory.forget_command", "memory.write.pipeline", "redis", "onnxruntime", "aiohttp"}
    heavy |= {"policies.procedure", "policies.fact_patterns_prose"}
    assert heavy & set(shown.stdout.split()) == set()
