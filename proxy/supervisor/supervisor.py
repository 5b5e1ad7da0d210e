"""`memory-proxy serve`: settings -> a running service, and 0 once it was asked to stop and everything has ended.

Order of start: data directory, socket, proxy workers (they answer /memory/health at once), then stores and model side
by side, migrations, memory workers. Order of stop: proxy workers drain, memory workers, Valkey, Postgres.
SIGTERM and SIGINT stop, a second one hurries, SIGHUP replaces the proxy workers one by one.

Children are told by the environment: MEMORY_PROXY_SETTINGS (file with the resolved settings), MEMORY_PROXY_SLOT,
PROMETHEUS_MULTIPROC_DIR, and proxy workers MEMORY_PROXY_LISTEN_FD; each may write a byte to MEMORY_PROXY_READY_FD once
it serves, and one more once it has its stores and model. `migrate` and `prepare-model` run to their end: 0 is done, 75
(EX_TEMPFAIL) or a signal means try again, all else is final. Returns 1 when the start fails. Refuses to import the
serving or remembering side: it starts processes.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Coroutine, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from socket import socket
from typing import TextIO

from memory.config import ENV_PREFIX, Settings, data_dir_of, write_private
from memory.errors import TRY_AGAIN, StartFailed
from proxy.supervisor.children import Child, Command, describe_exit, run_to_end
from proxy.supervisor.data_dir import DataDir, claimed, server_account, written
from proxy.supervisor.fleet import DRAIN_MARGIN_S, LISTEN_FD, WORKER_PATIENCE_S, Pool
from proxy.supervisor.journal import Journal
from proxy.supervisor.leftovers import Record, buried, stop_leftovers
from proxy.supervisor.listener import http_origin, local_address, open_listener
from proxy.supervisor.metrics_dir import MetricsDir
from proxy.supervisor.stores import Stores, resolved

RETRY_FIRST_S = 0.2
RETRY_MAX_S = 5.0
READY_POLL_S = 0.1
READY_PATIENCE_S = 5.0
HOUSEKEEPING_S = 10.0

# In DIR/run, once the service has been complete: a proxy worker that is started again looks for it.
BEGUN = "begun"
# As memory.master calls it, which nothing here has to load.
_MASTER_KEY = f"{ENV_PREFIX}MASTER_KEY"


def _python(*words: str) -> tuple[str, ...]:
    # -P: a directory called `memory` or `proxy` where the service is started must not take the place of ours.
    return (sys.executable, "-P", "-m", *words)


@dataclass(frozen=True, slots=True)
class ChildCommands:
    """What is executed for each part; tests put small stand-ins here. An empty one is left out."""

    proxy_worker: tuple[str, ...] = _python("proxy.worker")
    memory_worker: tuple[str, ...] = _python("memory", "worker")
    migrate: tuple[str, ...] = _python("memory", "migrate", "--mode", "start")
    prepare_model: tuple[str, ...] = _python("memory", "prepare-model")


DEFAULT_COMMANDS = ChildCommands()


@dataclass(frozen=True, slots=True)
class Orders:
    """What the signals have asked for."""

    stop: asyncio.Event
    hurry: asyncio.Event
    roll: asyncio.Event


def run_supervisor(
    settings: Settings,
    environ: Mapping[str, str],
    *,
    commands: ChildCommands = DEFAULT_COMMANDS,
    out: TextIO = sys.stdout,
    err: TextIO = sys.stderr,
) -> int:
    """Serve until a signal says stop. The ready line goes to `out`, the log to `err`; returns the exit code."""
    journal = Journal(err, settings.log.format, settings.log.level)
    root = data_dir_of(settings)
    try:
        account = server_account() if settings.database.url is None else None
        with claimed(root, account, environ) as data:
            return asyncio.run(_supervise(settings, environ, commands, data, journal, Journal(out, "text")))
    except StartFailed as error:
        journal.tell(f"cannot start: {error}", "cannot_start", level="error", reason=str(error))
        return 1


async def _supervise(
    settings: Settings,
    environ: Mapping[str, str],
    commands: ChildCommands,
    data: DataDir,
    journal: Journal,
    out: Journal,
) -> int:
    orders = _take_orders()
    await stop_leftovers(data, journal)
    service = Service(settings, environ, commands, data, journal, orders)
    try:
        with service.listener, service.housekeeping():
            await service.start()
            if not orders.stop.is_set():
                origin = http_origin(service.listener)
                out.say(f"memory-proxy ready on {origin} (upstream {settings.upstream.url}, data {data.root})")
            await service.serve()
    finally:
        await service.stop()
    return 0


class Service:
    """Everything that runs, from the first child to the last."""

    def __init__(
        self,
        settings: Settings,
        environ: Mapping[str, str],
        commands: ChildCommands,
        data: DataDir,
        journal: Journal,
        orders: Orders,
    ) -> None:
        self.listener: socket = open_listener(settings.listen.host, settings.listen.port)
        self._settings = settings
        self._commands = commands
        self._journal = journal
        self._orders = orders
        self._record = Record(data.run / "children.json")
        self._metrics = MetricsDir(data.run / "metrics")
        self._begun = data.run / BEGUN
        with written(data.run):
            self._begun.unlink(missing_ok=True)
            self._metrics.clear()
            write_private(resolved(settings, data), data.run / "settings.json")
        self._env = _child_environment(environ, data)
        self._stores = Stores(settings, data, journal, self._record)
        self._proxies = self._pool(
            "proxy worker", commands.proxy_worker, settings.listen.drain_s + DRAIN_MARGIN_S, self.listener
        )
        self._workers = self._pool("memory worker", commands.memory_worker, WORKER_PATIENCE_S, None)

    async def start(self) -> None:
        """Start all parts and wait until the service says it is ready, or stop is asked for. Raises StartFailed."""
        self._proxies.start(self._settings.listen.workers if self._commands.proxy_worker else 0)
        await self._unless_stopped(self._start_behind())

    @contextmanager
    def housekeeping(self) -> Iterator[None]:
        """Logs and metrics files are kept within their bounds while the block runs: a start that waits for a store, or
        a roll for its streams, may take hours.
        """
        task = asyncio.create_task(self._keep_house())
        task.add_done_callback(self._house_left)
        try:
            yield
        finally:
            task.cancel()

    async def _keep_house(self) -> None:
        ended = set[int]()
        while True:
            await asyncio.sleep(HOUSEKEEPING_S)
            self._stores.bound_logs()
            self._metrics.tidy()
            if os.getpid() == 1:
                ended = buried(ended)

    def _house_left(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (fault := task.exception()) is not None:
            self._journal.note("housekeeping_ended", level="error", fault=f"{type(fault).__name__}: {fault}")

    async def serve(self) -> None:
        """Replace the proxy workers as often as it is asked for, until stop is."""
        while not self._orders.stop.is_set():
            await _first(self._orders.stop.wait(), self._orders.roll.wait())
            if self._orders.roll.is_set() and not self._orders.stop.is_set():
                self._orders.roll.clear()
                await self._unless_stopped(self._proxies.roll())

    async def stop(self) -> None:
        """Stop all parts, front to back."""
        self._journal.note("stopping")
        self.listener.close()
        async with self._journal.step("finishing streams"):
            await self._proxies.stop(self._orders.hurry)
        async with self._journal.step("stopping the memory workers"):
            await self._workers.stop(self._orders.hurry)
        async with self._journal.step("stopping the stores"):
            await self._stores.stop(self._orders.hurry)
        self._journal.note("stopped")

    async def _start_behind(self) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._start_stores())
                group.create_task(self._run_once("preparing the model", self._commands.prepare_model, needed=False))
        except ExceptionGroup as group_error:
            failed, rest = group_error.split(StartFailed)
            if failed is None or rest is not None:
                raise
            raise _first_leaf(failed) from group_error
        self._workers.start(self._settings.worker.processes if self._commands.memory_worker else 0)
        async with self._journal.step("waiting for the service to be ready"):
            await self._until_ready()
        with suppress(OSError):  # a full disk costs what it says, never the service
            self._begun.touch()

    async def _until_ready(self) -> None:
        """Ask /memory/ready until it says 200, and wait for the proxy workers that did not answer it.

        Raises StartFailed when the proxy workers only die.
        """
        while not (await _is_ready(*local_address(self.listener)) and self._proxies.complete):
            if (name := self._proxies.hopeless) is not None:
                raise StartFailed(f"{name} dies at every start; the reason is above")
            await asyncio.sleep(READY_POLL_S)

    async def _start_stores(self) -> None:
        await self._stores.start()
        await self._run_once("migrating the database", self._commands.migrate, needed=True)

    async def _run_once(self, what: str, argv: tuple[str, ...], *, needed: bool) -> None:
        """Run a command until it has succeeded. Raises StartFailed when it fails for good and is needed."""
        pause_s = RETRY_FIRST_S
        while argv:
            async with self._journal.step(what):
                code = await run_to_end(Command(what, argv, self._env))
            if code == 0:
                return
            if code > 0 and code != TRY_AGAIN:
                if needed:
                    raise StartFailed(f"{what} failed ({describe_exit(code)}); the reason is above")
                self._journal.note("failed", level="error", what=what, reason=describe_exit(code))
                return
            self._journal.note(
                "retry", level="warning", what=what, reason=describe_exit(code), again_in_s=round(pause_s, 1)
            )
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 2, RETRY_MAX_S)

    async def _unless_stopped(self, work: Coroutine[None, None, None]) -> None:
        """Do the work; give it up when stop is asked for."""
        task = asyncio.create_task(work)
        stop = asyncio.create_task(self._orders.stop.wait())
        try:
            await asyncio.wait([task, stop], return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        finally:
            stop.cancel()
            task.cancel()
            await asyncio.wait([task, stop])

    def _pool(self, name: str, argv: tuple[str, ...], patience_s: float, listener: socket | None) -> Pool:
        env, fds = self._env, tuple[int, ...]()
        if listener is not None:
            env, fds = {**env, LISTEN_FD: str(listener.fileno())}, (listener.fileno(),)
        return Pool(name, argv, env, fds, patience_s, self._journal, self._began, self._ended)

    def _began(self, child: Child) -> None:
        self._record.add(child.pid)
        self._journal.note("started", level="debug", child=child.command.name, pid=child.pid)

    def _ended(self, pid: int) -> None:
        self._record.discard(pid)
        self._metrics.reap(pid)


def _take_orders() -> Orders:
    orders = Orders(asyncio.Event(), asyncio.Event(), asyncio.Event())
    loop = asyncio.get_running_loop()

    def stop() -> None:
        (orders.hurry if orders.stop.is_set() else orders.stop).set()

    loop.add_signal_handler(signal.SIGTERM, stop)
    loop.add_signal_handler(signal.SIGINT, stop)
    loop.add_signal_handler(signal.SIGHUP, orders.roll.set)
    return orders


def _child_environment(environ: Mapping[str, str], data: DataDir) -> dict[str, str]:
    """The caller's environment without our own settings, which are resolved and in the file; the master key is in no
    file where it is given by the environment.
    """
    kept = {name: value for name, value in environ.items() if not name.startswith(ENV_PREFIX) or name == _MASTER_KEY}
    # One product of a question with a scope's vectors takes 2 ms on one thread; on several, OpenBLAS's threads wait for
    # each other in a busy loop: 48 ms of CPU for a request in place of 12.
    threads = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    return {
        **threads,
        **kept,
        f"{ENV_PREFIX}SETTINGS": str(data.run / "settings.json"),
        "PROMETHEUS_MULTIPROC_DIR": str(data.run / "metrics"),
    }


async def _first(*works: Coroutine[None, None, object]) -> None:
    """Return when one of the works is done; the others are cancelled."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


async def _is_ready(host: str, port: int) -> bool:
    request = f"GET /memory/ready HTTP/1.1\r\nHost: {host}:{port}\r\nConnection: close\r\n\r\n".encode()
    try:
        async with asyncio.timeout(READY_PATIENCE_S):
            reader, writer = await asyncio.open_connection(host, port)
            try:
                writer.write(request)
                return (await reader.readline()).split(b" ")[1:2] == [b"200"]
            finally:
                writer.close()
                with suppress(OSError):
                    await writer.wait_closed()
    except (OSError, TimeoutError):
        return False


def _first_leaf(group: ExceptionGroup[StartFailed]) -> StartFailed:
    error: StartFailed | ExceptionGroup[StartFailed] = group
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return error
