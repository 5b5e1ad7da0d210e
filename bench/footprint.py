"""`python -m bench.footprint`: what a running service weighs and how fast it starts.

In: options. Out: a table of RSS and PSS (MiB) of every kind of process, when ready and after so many exchanges, and
the seconds from start to ready with a new data directory (cold) and with a used one (warm); JSON where asked. PSS
shares common pages out, so its sum is what the machine has less; RSS counts them in every process. Linux only. `cold`
is a new data directory, not a new machine: the model's files may have been prepared before.
"""

import argparse
import asyncio
import json
import platform
import re
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import aiohttp

from bench.crash.service import NotWhole, Service, Shape
from bench.crash.victims import kind_of, process_tree
from bench.fake_vllm.launch import fake_vllm_process
from bench.work_folder import work_folder
from proxy.cli.whole_file import file_to_write

AT_ONCE: Final = 8
USERS: Final = 20
REST_S: Final = 3.0
SETTLE_S: Final = 300.0
_FIELD: Final = re.compile(r"^(Rss|Pss):\s+(\d+) kB", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Weight:
    """All processes of one kind together, in MiB."""

    processes: int
    rss_mib: float
    pss_mib: float


@dataclass(frozen=True, slots=True)
class Footprint:
    """One measurement. Weights by kind of process, starts in seconds."""

    ready: Mapping[str, Weight]
    later: Mapping[str, Weight]
    exchanges: int
    cold_start_s: float
    warm_start_s: float


def weights(supervisor: int) -> dict[str, Weight]:
    """What each kind of process below the supervisor weighs now, the supervisor included."""
    found: dict[str, list[tuple[float, float]]] = {}
    for pid in process_tree(supervisor):
        kind = "supervisor" if pid == supervisor else _kind(pid)
        try:
            said = dict(_FIELD.findall(Path(f"/proc/{pid}/smaps_rollup").read_text()))
        except OSError:
            continue  # ended meanwhile
        found.setdefault(kind, []).append((int(said["Rss"]) / 1024, int(said["Pss"]) / 1024))
    return {
        kind: Weight(len(each), round(sum(rss for rss, _ in each), 1), round(sum(pss for _, pss in each), 1))
        for kind, each in sorted(found.items())
    }


def _kind(pid: int) -> str:
    kind = kind_of(pid)
    return "postgres" if kind in (None, "postmaster", "backend") else str(kind)


async def exchange(url: str, number: int) -> None:
    """Send so many questions of several users and wait until all are stored. Raises NotWhole."""
    todo = iter(range(number))

    async def ask(http: aiohttp.ClientSession) -> None:
        for index in todo:
            text = f"Question {index}: the shed number {index * 7} of this yard holds tool {index % 13} and rope."
            body = {"model": "fake-model", "max_tokens": 32, "messages": [{"role": "user", "content": text}]}
            headers = {"X-Memory-User": f"user-{index % USERS}"}
            async with http.post(f"{url}/v1/chat/completions", json=body, headers=headers) as answer:
                await answer.read()

    async with aiohttp.ClientSession() as http:
        await asyncio.gather(*(ask(http) for _ in range(AT_ONCE)))


async def settled(service: Service) -> None:
    """Wait until nothing waits. Raises NotWhole."""
    try:
        async with asyncio.timeout(SETTLE_S):
            while True:
                said = await service.waiting()
                if said is not None and said["pending"] + said["in_flight"] == 0:
                    return
                await asyncio.sleep(0.2)
    except TimeoutError:
        raise NotWhole(f"the queue does not settle in {SETTLE_S:.0f} s") from None


async def measure(root: Path, exchanges: int, proxy_workers: int, memory_workers: int) -> Footprint:
    """Start, weigh, talk, weigh, stop, start again. Raises NotWhole."""
    async with fake_vllm_process() as (upstream, _):
        service = Service(Shape(root, upstream, proxy_workers, memory_workers))
        try:
            cold_s, _ = await service.start()
            await asyncio.sleep(REST_S)
            ready = weights(service.pid)
            await exchange(service.url, exchanges)
            await settled(service)
            await asyncio.sleep(REST_S)
            later = weights(service.pid)
            await service.stop()
            warm_s, _ = await service.start()
        finally:
            await service.stop()
    return Footprint(ready, later, exchanges, round(cold_s, 2), round(warm_s, 2))


def table(found: Footprint) -> str:
    """For people."""
    head = f"{'MiB':<16}{'processes':>10}{'RSS ready':>12}{'PSS ready':>12}{'RSS later':>12}{'PSS later':>12}"
    lines = [head]
    nothing = Weight(0, 0.0, 0.0)
    for kind in sorted({*found.ready, *found.later}):
        before, after = found.ready.get(kind, nothing), found.later.get(kind, nothing)
        lines.append(
            f"{kind:<16}{after.processes:>10}{before.rss_mib:>12.1f}{before.pss_mib:>12.1f}"
            f"{after.rss_mib:>12.1f}{after.pss_mib:>12.1f}"
        )
    pss = [sum(weight.pss_mib for weight in at.values()) for at in (found.ready, found.later)]
    lines.append(f"{'together':<16}{'':>10}{'':>12}{pss[0]:>12.1f}{'':>12}{pss[1]:>12.1f}")
    lines.append(f"`later` is after {found.exchanges} exchanges, when all are stored")
    lines.append(f"start to ready: cold {found.cold_start_s:.2f} s, warm {found.warm_start_s:.2f} s")
    return "\n".join(lines)


def parser() -> argparse.ArgumentParser:
    """The options."""
    found = argparse.ArgumentParser(prog="python -m bench.footprint", description=__doc__)
    found.add_argument("--exchanges", type=int, default=1000, help="between the two weighings (default 1000)")
    found.add_argument("--workers", type=int, default=1, help="proxy workers (default 1)")
    found.add_argument("--memory-workers", type=int, default=1, help="memory workers (default 1)")
    found.add_argument("--json", type=file_to_write, help="write everything there")
    return found


def main() -> int:
    """Entry point."""
    options = parser().parse_args()
    try:
        with work_folder(prefix="mp-weight-") as root:
            found = asyncio.run(measure(root, options.exchanges, options.workers, options.memory_workers))
    except NotWhole as fault:
        print(f"bench.footprint: {fault}", file=sys.stderr)
        return 2
    print(table(found))
    if options.json is not None:
        setting: dict[str, Any] = {**vars(options), "json": str(options.json), "machine": platform.platform()}
        options.json.write_text(json.dumps({"setting": setting, **asdict(found)}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
