"""What keys cost a request, in process: admission by no key, by key and by token, and the gate over a recall.

`python -m bench.keys` prints microseconds, the median of ROUNDS rounds of CALLS calls each; no store, no network.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Final, cast
from uuid import UUID, uuid4

from aiohttp import web
from multidict import CIMultiDict

from memory.key_table import OpenedKey
from memory.model import Candidate, Recall
from memory.read.items import Filter
from policies.api_key import secret_of
from policies.capabilities import USUAL
from policies.capability_token import NONCE_BYTES, Authority, Caveat, attenuated, minted, root_of
from policies.labels import Sensitivity
from proxy.auth import KeyedDoor, OpenDoor
from proxy.gated import holder_of, let_through, within
from proxy.identity import Credential

ROUNDS: Final = 15
CALLS: Final = 2_000
KEYS: Final = 1_000
CANDIDATES: Final = 35
SECRET: Final = secret_of(b"\x00\x01\x02\x03", b"\x05" * 32)


class Request:
    """As much of a request as a door looks at."""

    def __init__(self, bearer: str) -> None:
        self.headers = CIMultiDict({"Authorization": f"Bearer {bearer}", "Host": "h", "Content-Type": "x/y"})


class Table:
    """A table of many keys."""

    async def all_active(self, now: datetime) -> Mapping[bytes, OpenedKey]:
        """KEYS of them, one of which is ours."""
        keys = {f"other {number}".encode(): opened(f"{number + 16:08x}", None) for number in range(KEYS - 1)}
        return {**keys, hashlib.sha256(SECRET.encode()).digest(): opened("00010203", root_of(SECRET))}


def opened(prefix: str, root: bytes | None) -> OpenedKey:
    """A key that may read and write."""
    return OpenedKey(uuid4(), UUID(int=1), prefix, None, Authority(capabilities=frozenset(USUAL)), root)


def micros(work: Callable[[], object]) -> float:
    """Median microseconds of one call."""
    rounds = []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        for _ in range(CALLS):
            work()
        rounds.append((time.perf_counter() - started) / CALLS * 1e6)
    return statistics.median(rounds)


def recalled() -> Recall:
    """As many candidates as a recall has."""
    one = Candidate(
        uuid4(),
        1,
        "episodic",
        "user",
        "x",
        (0, 1),
        1.0,
        {},
        True,
        None,
        None,
        0,
        1,
        "user",
        source_ids=(),
        event_ids=(),
    )
    return Recall(tuple(replace(one, memory_id=uuid4()) for _ in range(CANDIDATES)))


def gated(credential: Credential, recall: Recall) -> Callable[[], object]:
    """The gate before and behind one recall."""

    def pass_it() -> None:
        holder = holder_of(credential)
        within(Filter(), holder)
        let_through(recall, holder)

    return pass_it


def main() -> None:
    """Measure and print."""
    argparse.ArgumentParser(prog="python -m bench.keys", description=__doc__).parse_args()
    door = KeyedDoor(Table(), stale_max_s=3600)
    asyncio.run(door.read())
    token = minted("00010203", root_of(SECRET), b"\x07" * NONCE_BYTES, Caveat(until=4_000_000_000))
    longer = attenuated(attenuated(token, Caveat(session="s")), Caveat(capabilities=frozenset(USUAL)))
    key, recall = Credential(UUID(int=1), UUID(int=2), capabilities=frozenset(USUAL)), recalled()
    cleared = Credential(
        UUID(int=1), UUID(int=2), capabilities=frozenset(USUAL), ceiling=Sensitivity.INTERNAL, token="t"
    )
    bearers = {"by key": SECRET, "by token": token, "by a token narrowed twice": longer}
    found = {"admitted in open mode": micros(lambda: OpenDoor().admit(cast(web.Request, None)))}
    for name, bearer in bearers.items():
        request = cast(web.Request, Request(bearer))
        found[f"admitted {name}"] = micros(lambda request=request: door.admit(request))  # type: ignore[misc]
    found["gate in open mode"] = micros(gated(Credential(UUID(int=1)), recall))
    found[f"gate, {CANDIDATES} candidates, a key"] = micros(gated(key, recall))
    found[f"gate, {CANDIDATES} candidates, a token"] = micros(gated(cleared, recall))
    for name, value in found.items():
        print(f"{name:32} {value:8.2f} us")


if __name__ == "__main__":
    main()
