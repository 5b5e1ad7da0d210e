"""The serving processes: proxy workers in front, memory workers behind, and how they are replaced and stopped.

Every process has a slot number that no other living process of its kind has. A rolling restart starts the new one,
waits until it serves, and only then lets the old one drain; so for a moment there is one more than configured. A new
one that does not serve ends the roll, and the old ones go on.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import count

from proxy.supervisor.children import Child, Command
from proxy.supervisor.journal import Journal
from proxy.supervisor.keeper import READY_SILENT_S, Keeper

SLOT = "MEMORY_PROXY_SLOT"
# Said to one that begins while another serves: it takes no request from that before it has all it serves with.
REPLACES = "MEMORY_PROXY_REPLACES"
LISTEN_FD = "MEMORY_PROXY_LISTEN_FD"
WORKER_PATIENCE_S = 30.0
DRAIN_MARGIN_S = 5.0
DEATHS_MAX = 8
REFUSALS_MAX = 2


@dataclass(slots=True)
class Pool:
    """Processes of one kind. `began` and `ended` are told of each life; `patience_s` is what a stop waits."""

    name: str
    argv: tuple[str, ...]
    env: Mapping[str, str]
    fds: tuple[int, ...]
    patience_s: float
    journal: Journal
    began: Callable[[Child], None]
    ended: Callable[[int], None]
    _keepers: dict[int, Keeper] = field(default_factory=dict)

    def start(self, number: int) -> None:
        """Start so many."""
        for _ in range(number):
            self._add()

    async def roll(self) -> None:
        """Replace every process, one at a time, the new one first. The others stay where one does not serve."""
        for former in list(self._keepers.values()):
            fresh = self._add()
            names = {"child": former.command.name, "by": fresh.command.name}
            if not await fresh.until_serving(READY_SILENT_S * 2):
                self.journal.note("not_rolled", level="error", **names, reason="the new one does not serve")
                await self._remove(fresh)
                return
            self.journal.note("rolled", **names)
            await self._remove(former)

    @property
    def complete(self) -> bool:
        """Whether every process has all that it serves with."""
        return all(keeper.complete.is_set() for keeper in self._keepers.values())

    @property
    def hopeless(self) -> str | None:
        """The name of a process that has never served, and has said `REFUSALS_MAX` times why it will not or has died
        `DEATHS_MAX` times (half a minute and more); None: there is hope.
        """
        silent = (keeper for keeper in self._keepers.values() if not keeper.has_served)
        lost = (one for one in silent if one.refusals >= REFUSALS_MAX or one.deaths >= DEATHS_MAX)
        return next((one.command.name for one in lost), None)

    async def stop(self, hurry: asyncio.Event) -> None:
        """Stop all of them together."""
        keepers = list(self._keepers.values())
        self._keepers.clear()
        await asyncio.gather(*(keeper.stop((signal.SIGTERM, self.patience_s), hurry=hurry) for keeper in keepers))

    async def _remove(self, keeper: Keeper) -> None:
        await keeper.stop((signal.SIGTERM, self.patience_s))
        self._keepers = {slot: kept for slot, kept in self._keepers.items() if kept is not keeper}

    def _add(self) -> Keeper:
        slot = next(number for number in count() if number not in self._keepers)
        command = Command(
            f"{self.name} {slot}", self.argv, {**self.env, SLOT: str(slot)}, fds=self.fds, death_signal=signal.SIGTERM
        )
        speaks = LISTEN_FD in self.env
        keeper = Keeper(command, self.journal, began=self.began, ended=self.ended, env_now=self._beside, speaks=speaks)
        self._keepers[slot] = keeper
        keeper.start()
        return keeper

    def _beside(self) -> Mapping[str, str]:
        """Tells a process that begins, at a roll or behind one that died, that another serves meanwhile."""
        return {REPLACES: "1"} if any(keeper.serving.is_set() for keeper in self._keepers.values()) else {}
