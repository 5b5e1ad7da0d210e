"""Whom to hit: the process tree of a service in, process ids by kind out; and the blows. Linux only.

Signals go to process ids found below the service's own supervisor, never by name.
"""

import asyncio
import os
import random
import signal
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

Kind = Literal["proxy worker", "memory worker", "valkey", "postmaster", "backend", "supervisor", "upstream"]
# How often each is hit, relative to the others.
WEIGHTS: Final[dict[Kind, int]] = {
    "proxy worker": 25,
    "memory worker": 20,
    "valkey": 25,
    "postmaster": 12,
    "backend": 8,
    "supervisor": 10,
    "upstream": 8,
}
_PAIR_SHARE: Final = 0.2  # of the blows hit a second process within 50 ms
_FREEZE_SHARE: Final = 0.4  # of the blows stop the process for a while first
_FREEZE_S: Final = (0.2, 3.0)
_WAKE_SHARE: Final = 0.5  # of the frozen ones are woken instead of killed
_LONG_FREEZE_SHARE: Final = 0.3  # of the memory workers that are woken have slept longer than their lease
_LEASE_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class Blow:
    """What is done to one process. `freeze_s` 0: no SIGSTOP before."""

    kind: Kind
    freeze_s: float
    kills: bool

    def __str__(self) -> str:
        frozen = f"frozen {self.freeze_s:.1f} s" if self.freeze_s else ""
        return f"{self.kind} {' '.join(word for word in (frozen, 'killed' if self.kills else 'woken') if word)}"


def kind_of(pid: int) -> Kind | None:
    """What a process of the service is; None for one that is not hit (or has ended)."""
    try:
        line = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return None
    program = line.split(" ", 1)[0]
    for kind, found in (
        ("proxy worker", "-m proxy.worker" in line),
        ("memory worker", "-m memory worker" in line),
        ("valkey", program.endswith("valkey-server")),
        ("postmaster", program.endswith("/postgres")),
        ("backend", line.startswith("postgres:") and "[local]" in line),
    ):
        if found:
            return kind  # type: ignore[return-value]  # one of Kind's literals
    return None


def process_tree(root: int) -> set[int]:
    """The process and all below it. What ends while it is looked at is left out."""
    found, todo = set[int](), [root]
    while todo:
        pid = todo.pop()
        found.add(pid)
        with suppress(OSError):  # of its threads, too, each may end while we look
            for thread in os.listdir(f"/proc/{pid}/task"):
                todo += _children(f"/proc/{pid}/task/{thread}/children")
    return found


def _children(listing: str) -> list[int]:
    try:
        return [int(child) for child in Path(listing).read_text().split()]
    except OSError:
        return []


def processes(supervisor: int) -> dict[Kind, list[int]]:
    """The service's processes by kind, the supervisor included."""
    found: dict[Kind, list[int]] = {"supervisor": [supervisor]}
    for pid in sorted(process_tree(supervisor) - {supervisor}):
        kind = kind_of(pid)
        if kind is not None:
            found.setdefault(kind, []).append(pid)
    return found


def choose(dice: random.Random, *, supervisor: bool) -> list[Blow]:
    """The blows of one round."""
    kinds = [kind for kind in WEIGHTS if supervisor or kind != "supervisor"]
    weights = [WEIGHTS[kind] for kind in kinds]
    number = 2 if dice.random() < _PAIR_SHARE else 1
    return [_blow(dice, kind) for kind in dict.fromkeys(dice.choices(kinds, weights, k=number))]


def _blow(dice: random.Random, kind: Kind) -> Blow:
    if dice.random() >= _FREEZE_SHARE:
        return Blow(kind, 0.0, True)
    kills = dice.random() >= _WAKE_SHARE
    if kind == "memory worker" and not kills and dice.random() < _LONG_FREEZE_SHARE:
        return Blow(kind, _LEASE_S + 1.5, False)
    return Blow(kind, dice.uniform(*_FREEZE_S), kills)


async def strike(blow: Blow, pid: int) -> None:
    """Do it. A process that has ended meanwhile is no error."""
    with suppress(ProcessLookupError):
        if blow.freeze_s:
            os.kill(pid, signal.SIGSTOP)
            await asyncio.sleep(blow.freeze_s)
        os.kill(pid, signal.SIGKILL if blow.kills else signal.SIGCONT)
