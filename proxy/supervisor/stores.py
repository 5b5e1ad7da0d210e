"""The embedded servers as a pair: (settings, data directory) -> URLs known at once, servers kept running.

A server whose URL is configured is not started. Starting waits for crash recovery and for memory that an earlier
server has not given back yet; it fails when a server has died again and again for `GIVE_UP_S`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import SecretStr

from memory.config import Settings
from memory.errors import StartFailed
from proxy.supervisor import embedded_postgres, embedded_valkey
from proxy.supervisor.children import Child, Command, bound_log
from proxy.supervisor.data_dir import DataDir, written
from proxy.supervisor.embedded_postgres import APP, CONNECTIONS_MIN, OWNER, EmbeddedPostgres, postgres_url
from proxy.supervisor.embedded_valkey import EmbeddedValkey, valkey_url
from proxy.supervisor.journal import Journal
from proxy.supervisor.keeper import Keeper
from proxy.supervisor.leftovers import Record, quit_backends
from proxy.supervisor.server_binaries import postgres_package, postgres_programs, valkey_package, valkey_program

GIVE_UP_S = 20.0
POLL_FIRST_S = 0.01
POLL_MAX_S = 0.2
LOG_BYTES_MAX = 16_777_216
WORKER_CONNECTIONS = 9  # of a memory worker's two pools
COMMAND_CONNECTIONS = 16  # of commands beside the service, and what Postgres keeps for its superuser


def resolved(settings: Settings, data: DataDir) -> Settings:
    """The settings with what was left open filled in: server URLs and the data directory."""
    database, redis = settings.database, settings.redis
    if database.url is None:
        urls = {"url": SecretStr(postgres_url(data, APP)), "owner_url": SecretStr(postgres_url(data, OWNER))}
        database = database.model_copy(update=urls)
    if redis.url is None:
        redis = redis.model_copy(update={"url": SecretStr(valkey_url(data))})
    return settings.model_copy(
        update={"database": database, "redis": redis, "data": settings.data.model_copy(update={"dir": data.root})}
    )


def connections(settings: Settings) -> int:
    """What the embedded Postgres has room for: all pools, and commands beside."""
    return max(CONNECTIONS_MIN, pooled(settings) + COMMAND_CONNECTIONS)


def pooled(settings: Settings) -> int:
    """What all pools may open at once, with one proxy worker more while another is replaced."""
    proxies = (settings.listen.workers + 1) * settings.database.pool_size
    return proxies + settings.worker.processes * WORKER_CONNECTIONS


@dataclass(slots=True)
class Stores:
    """The embedded servers that run. `settings` are the configured ones, not the resolved."""

    settings: Settings
    data: DataDir
    journal: Journal
    record: Record
    _postgres: Keeper | None = None
    _valkey: Keeper | None = None
    _logs: list[Path] = field(default_factory=list)

    async def start(self) -> None:
        """Start what is not configured elsewhere and wait until it serves. Raises StartFailed."""
        async with asyncio.TaskGroup() as group:
            if self.settings.database.url is None:
                group.create_task(self._start_postgres())
            if self.settings.redis.url is None:
                group.create_task(self._start_valkey())

    async def stop(self, hurry: asyncio.Event) -> None:
        """Stop Valkey, then Postgres."""
        if self._valkey is not None:
            await self._valkey.stop(*embedded_valkey.STOP, hurry=hurry)
        if self._postgres is not None:
            await self._postgres.stop(*embedded_postgres.STOP, hurry=hurry)

    def bound_logs(self) -> None:
        """Keep the servers' logs within their bound; call it now and then."""
        for log in self._logs:
            bound_log(log, LOG_BYTES_MAX)

    async def _start_postgres(self) -> None:
        programs = await asyncio.to_thread(postgres_programs, self.data, postgres_package())
        postgres = EmbeddedPostgres(self.data, programs, connections(self.settings))
        first = not (self.data.pg / "PG_VERSION").exists()
        async with self.journal.step("making the database" if first else "checking the database"):
            with written(self.data.pg):
                await postgres.prepare()
        self._logs.append(postgres.log)
        self._postgres = self._keeper(postgres.command(), ended=lambda: quit_backends(self.data.pg))

        async def ready(child: Child) -> bool:
            return postgres.is_ready(child.pid)

        async with self.journal.step("starting Postgres"):
            await _until(self._postgres, ready, postgres.failure)

    async def _start_valkey(self) -> None:
        valkey = EmbeddedValkey(self.data, valkey_program(valkey_package()))
        self._logs.append(valkey.log)
        with written(self.data.run):
            command = valkey.command()
        self._valkey = self._keeper(command, began=valkey.clear_away)

        async def ready(child: Child) -> bool:
            return await valkey.is_ready()

        async with self.journal.step("starting Valkey"):
            await _until(self._valkey, ready, valkey.failure)

    def _keeper(
        self, command: Command, *, began: Callable[[], None] = lambda: None, ended: Callable[[], None] = lambda: None
    ) -> Keeper:
        """`began` and `ended`: what is done whenever it has."""

        def has_begun(child: Child) -> None:
            self.record.add(child.pid)
            began()

        def has_ended(pid: int) -> None:
            self.record.discard(pid)
            ended()

        keeper = Keeper(command, self.journal, began=has_begun, ended=has_ended)
        keeper.start()
        return keeper


async def _until(keeper: Keeper, ready: Callable[[Child], Awaitable[bool]], failure: Callable[[], str]) -> None:
    """Wait for readiness as long as the child lives; give up when it keeps dying."""
    pause_s = POLL_FIRST_S
    first_death: float | None = None
    while True:
        child = keeper.child
        if child is not None and await ready(child):
            return
        if keeper.deaths and first_death is None:
            first_death = time.monotonic()
        if child is None and first_death is not None and time.monotonic() - first_death > GIVE_UP_S:
            raise StartFailed(failure())
        await asyncio.sleep(pause_s)
        pause_s = min(pause_s * 1.5, POLL_MAX_S)
