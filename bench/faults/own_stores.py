"""External stores of our own: a directory and an address in, a Postgres and a Valkey on TCP out.

The embedded servers' own binaries and settings, listening on `host`, in a network namespace where one is named. They
are not started again when they die. Trusts whoever reaches them: for 127.0.0.1 and private namespaces only.
"""

import asyncio
import os
import signal
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from bench.overhead.processes import ended, free_port
from proxy.supervisor.data_dir import claimed, server_account
from proxy.supervisor.embedded_postgres import APP, DATABASE, OWNER, EmbeddedPostgres
from proxy.supervisor.embedded_valkey import SETTINGS
from proxy.supervisor.server_binaries import postgres_package, postgres_programs, valkey_package, valkey_program

START_S: Final = 30.0
STOP_S: Final = 15.0
Address = tuple[str, int]


class NoStores(RuntimeError):
    """The stores did not start."""


class OwnStores:
    """Use it as a context: `async with OwnStores(root) as stores`."""

    def __init__(self, root: Path, host: str = "127.0.0.1", namespace: str | None = None) -> None:
        self._root = root / "own-stores"
        self._namespace = namespace
        self.postgres: Address = (host, free_port())
        self.valkey: Address = (host, free_port())
        self._processes: list[tuple[asyncio.subprocess.Process, signal.Signals]] = []
        self._claim = ExitStack()

    async def __aenter__(self) -> "OwnStores":
        try:
            await self._start()
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        for process, number in reversed(self._processes):
            await ended(process, number, within_s=STOP_S)
        self._claim.close()

    def env(self, postgres: Address | None = None, valkey: Address | None = None) -> Mapping[str, str]:
        """What the service is started with; other addresses where a link stands before a store."""
        at, redis = postgres or self.postgres, valkey or self.valkey
        url = f"{at[0]}:{at[1]}/{DATABASE}?sslmode=disable"
        return {
            "MEMORY_PROXY_DATABASE__URL": f"postgresql://{APP}@{url}",
            "MEMORY_PROXY_DATABASE__OWNER_URL": f"postgresql://{OWNER}@{url}",
            "MEMORY_PROXY_REDIS__URL": f"redis://{redis[0]}:{redis[1]}",
        }

    async def _start(self) -> None:
        account = server_account()
        data = self._claim.enter_context(claimed(self._root, account, os.environ))
        postgres = EmbeddedPostgres(data, postgres_programs(data, postgres_package()))
        await postgres.prepare()
        with (data.pg / "pg_hba.conf").open("a") as access:
            access.write("host all all all trust\n")
        command = postgres.command()
        options = ("-c", f"listen_addresses={self.postgres[0]}", "-c", f"port={self.postgres[1]}")
        ids = (account.uid, account.gid) if account else None
        server = await self._spawn((*command.argv, *options), self._root / "logs" / "postgres.log", signal.SIGINT, ids)
        own = {"port": str(self.valkey[1]), "bind": self.valkey[0], "protected-mode": "no", "dir": str(data.valkey)}
        conf = data.run / "valkey.conf"
        conf.write_text("".join(f'{name} "{value}"\n' for name, value in {**dict(SETTINGS), **own}.items()))
        program = str(valkey_program(valkey_package()))
        await self._spawn((program, str(conf)), self._root / "logs" / "valkey.log", signal.SIGTERM, None)
        until_s = time.monotonic() + START_S
        while not postgres.is_ready(server.pid):
            if time.monotonic() > until_s or server.returncode is not None:
                raise NoStores(postgres.failure())
            await asyncio.sleep(0.05)

    async def _spawn(
        self, argv: Sequence[str], log: Path, stop: signal.Signals, ids: tuple[int, int] | None
    ) -> asyncio.subprocess.Process:
        more: dict[str, Any] = {}
        if self._namespace is not None:
            enter = ["nsenter", f"--net=/run/netns/{self._namespace}"]
            if ids is not None:
                enter += [f"--setuid={ids[0]}", f"--setgid={ids[1]}"]
            argv = (*enter, *argv)
        elif ids is not None:
            more = {"user": ids[0], "group": ids[1], "extra_groups": []}
        with log.open("ab") as sink:
            process = await asyncio.create_subprocess_exec(
                *argv, stdout=sink, stderr=sink, cwd=self._root, env={"PATH": os.environ["PATH"], "LC_ALL": "C"}, **more
            )
        self._processes.append((process, stop))
        return process
