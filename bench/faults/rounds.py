"""Many rounds of kill -9 and SIGSTOP, in legs: how many in, what became of what was acknowledged out.

Each leg is a run of bench.crash on a service of its own, judged at its end, some of them with a slow disk under the
queue. A leg that is done is written to a file at once, so that a run that was cut off goes on with the next one.
"""

import json
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from bench.crash.rounds import Outcome, Plan, run
from bench.crash.service import Service, Shape
from bench.crash.slow_disk import NoCompiler
from bench.crash.upstream import KeptUpstream
from bench.faults.result import Finding, at_least, none, so
from bench.faults.scene import Place
from bench.stats import quantile

CLIENTS: Final = 12
PAUSE_S: Final = 0.5
SLOW_MS: Final = 200
SLOW_EACH: Final = 4  # one leg in so many has the slow disk; every second one where there are fewer


class OtherRun(ValueError):
    """The progress file is of another run."""


@dataclass(frozen=True, slots=True)
class Leg:
    """A part of the rounds."""

    number: int
    rounds: int
    seed: int
    slow_fsync_ms: int


def legs(rounds: int, size: int, seed: int) -> list[Leg]:
    """The rounds in legs of at most `size`, at least two where there are two rounds, some with a slow disk."""
    size = max(1, min(size, -(-rounds // 2)))
    number = -(-rounds // size)
    each = SLOW_EACH if number >= SLOW_EACH else 2
    return [
        Leg(n, min(size, rounds - n * size), seed * 1000 + n, SLOW_MS if n % each == each - 1 else 0)
        for n in range(number)
    ]


async def rounds(place: Place) -> tuple[list[Finding], dict[str, Any]]:
    """kill -9 and SIGSTOP of every kind of process at random moments: nothing lost, doubled or failed by memory."""
    planned = legs(place.rounds, place.leg, place.seed)
    done = read_progress(place.progress, planned)
    if done:
        place.say(f"{len(done)} of {len(planned)} legs are done already")
    for leg in planned[len(done) :]:
        slow = f", every fsync of the queue {leg.slow_fsync_ms} ms slower" if leg.slow_fsync_ms else ""
        place.say(f"leg {leg.number + 1} of {len(planned)}: {leg.rounds} rounds{slow}")
        done.append(await _run(place, leg))
        place.say(f"leg {leg.number + 1}: {summary(done[-1])}")
        if place.progress is not None:
            write_progress(place.progress, done)
    return judged(done), merged(done)


async def _run(place: Place, leg: Leg) -> dict[str, Any]:
    """One leg on a service of its own. Without a C compiler the disk is as it is, and the leg says so."""
    root = place.root / f"leg-{leg.number}"
    root.mkdir(mode=0o755)
    plan = Plan(leg.rounds, CLIENTS, PAUSE_S, leg.seed)
    try:
        return await _told(root, leg.slow_fsync_ms, plan, leg)
    except NoCompiler as absent:
        place.say(f"no slow disk: {absent}")
        shutil.rmtree(root)
        root.mkdir(mode=0o755)
        return await _told(root, 0, plan, leg)


async def _told(root: Path, slow_fsync_ms: int, plan: Plan, leg: Leg) -> dict[str, Any]:
    async with KeptUpstream() as upstream:
        service = Service(Shape(root, upstream.url, slow_fsync_ms=slow_fsync_ms), upstream)
        try:
            outcome = await run(service, plan, lambda _: None)
        finally:
            code = await service.stop()
    return told_leg(leg, slow_fsync_ms, outcome, code)


def told_leg(leg: Leg, slow_fsync_ms: int, outcome: Outcome, code: int) -> dict[str, Any]:
    """A leg as it is written down."""
    verdict = outcome.verdict
    return {
        "leg": asdict(leg),
        "slow_fsync_ms": slow_fsync_ms,
        "acknowledged": verdict.acknowledged,
        "lost": verdict.lost,
        "doubled": verdict.doubled,
        "gaps": len(verdict.gaps),
        "dead": verdict.dead,
        "sent": outcome.sent,
        "failed_by_memory": outcome.blame.of_memory,
        "failed_by_serving": outcome.blame.of_serving,
        "captures": outcome.captures,
        "statuses": outcome.statuses,
        "exit_code": code,
        "seconds": outcome.seconds,
        "settle_s": outcome.settle_s,
        "blows": [
            {
                "kind": blow.kind,
                "freeze_s": blow.freeze_s,
                "kills": blow.kills,
                "ready_s": each.ready_s,
                "whole_s": each.whole_s,
            }
            for each in outcome.rounds
            for blow in each.blows
        ],
    }


def summary(leg: Mapping[str, Any]) -> str:
    """One line."""
    return (
        f"acknowledged {leg['acknowledged']}, lost {leg['lost']}, doubled {leg['doubled']}, failed because of memory"
        f" {sum(leg['failed_by_memory'].values())}, because who serves was hit {sum(leg['failed_by_serving'].values())}"
    )


def judged(done: Sequence[Mapping[str, Any]]) -> list[Finding]:
    """The promises, over all legs."""
    failed = _summed(done, "failed_by_memory")
    return [
        at_least("acknowledged", sum(leg["acknowledged"] for leg in done), 20),
        none("acknowledged and lost", sum(leg["lost"] for leg in done)),
        none("acknowledged and stored twice", sum(leg["doubled"] for leg in done)),
        none("sessions with gaps", sum(leg["gaps"] for leg in done)),
        none("dead letters", sum(leg["dead"] for leg in done)),
        none("completions failed because of memory", sum(failed.values()), failed or ""),
        none("legs whose service did not end with 0", sum(leg["exit_code"] != 0 for leg in done)),
        so("a slow disk among them", any(leg["slow_fsync_ms"] for leg in done)),
    ]


def merged(done: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """All legs as one: sums, and seconds to recovery by victim."""
    kinds: dict[str, list[Mapping[str, Any]]] = {}
    for leg in done:
        for blow in leg["blows"]:
            kinds.setdefault(blow["kind"], []).append(blow)
    return {
        "rounds": sum(leg["leg"]["rounds"] for leg in done),
        **{name: sum(leg[name] for leg in done) for name in ("acknowledged", "lost", "doubled", "sent", "seconds")},
        **{name: _summed(done, name) for name in ("failed_by_memory", "failed_by_serving", "captures", "statuses")},
        "by_victim": {kind: _recovery(blows) for kind, blows in sorted(kinds.items())},
    }


def _recovery(blows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {
        "killed": sum(blow["kills"] for blow in blows),
        "frozen": sum(blow["freeze_s"] > 0 for blow in blows),
    }
    for name in ("ready_s", "whole_s"):
        seconds = [blow[name] for blow in blows]
        found[name] = {"p50": quantile(seconds, 0.5), "p95": quantile(seconds, 0.95), "max": max(seconds)}
    return found


def recovery_table(figures: Mapping[str, Any]) -> str:
    """Per victim: blows and seconds to recovery; then what the answers said."""
    lines = [f"{'victim':<16}{'killed':>8}{'frozen':>8}{'whole s p50':>13}{'p95':>8}{'max':>8}"]
    for kind, found in figures["by_victim"].items():
        whole = found["whole_s"]
        lines.append(
            f"{kind:<16}{found['killed']:>8}{found['frozen']:>8}"
            f"{whole['p50']:>13.2f}{whole['p95']:>8.2f}{whole['max']:>8.2f}"
        )
    lines.append(f"failed because who serves was hit: {figures['failed_by_serving']}")
    lines += [f"answers by {name}: {_shares(figures[name])}" for name in ("captures", "statuses")]
    return "\n".join(lines)


def _shares(counts: Mapping[str, int]) -> str:
    total = sum(counts.values()) or 1
    return ", ".join(f"{what} {100 * number / total:.1f} %" for what, number in counts.items())


def _summed(done: Sequence[Mapping[str, Any]], name: str) -> dict[str, int]:
    found: Counter[str] = Counter()
    for leg in done:
        found.update(leg[name])
    return dict(found.most_common())


def read_progress(progress: Path | None, planned: Sequence[Leg]) -> list[dict[str, Any]]:
    """The legs that are done. Raises OtherRun where they are of another plan."""
    if progress is None or not progress.exists():
        return []
    done: list[dict[str, Any]] = json.loads(progress.read_text())
    if [leg["leg"] for leg in done] != [asdict(leg) for leg in planned[: len(done)]]:
        raise OtherRun(f"{progress} is of another run (--rounds, --leg or --seed differ): name another file")
    return done


def write_progress(progress: Path, done: Sequence[Mapping[str, Any]]) -> None:
    scratch = progress.with_name(f"{progress.name}.new")
    scratch.write_text(json.dumps(done, indent=1) + "\n")
    scratch.replace(progress)
