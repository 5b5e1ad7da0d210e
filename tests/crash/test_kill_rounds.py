"""A few rounds of kill -9 under traffic: nothing acknowledged is lost or stored twice (`python -m bench.crash`)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from bench.crash.report import table
from bench.crash.rounds import Outcome, Plan, run
from bench.crash.service import Service, Shape
from bench.crash.slow_disk import NoCompiler
from bench.crash.victims import Kind

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]


@pytest.fixture
def root() -> Iterator[Path]:
    with TemporaryDirectory(prefix="mp-crash-", ignore_cleanup_errors=True) as name:
        path = Path(name)
        path.chmod(0o755)
        yield path


async def outcome_of(shape: Shape, plan: Plan) -> Outcome:
    """Run the rounds; the service's end must be clean."""
    service = Service(shape)
    try:
        outcome = await run(service, plan, lambda _: None)
    finally:
        code = await service.stop()
    assert code == 0
    return outcome


@pytest.mark.long
async def test_every_process_may_be_killed_and_nothing_acknowledged_is_lost_or_stored_twice(
    root: Path, upstream: str
) -> None:
    kinds: tuple[Kind, ...] = ("valkey", "proxy worker", "memory worker", "postmaster", "backend", "supervisor")
    plan = Plan(len(kinds), clients=8, pause_s=0.5, seed=5, calm_s=(0.2, 1.0), catch_up_s=2.0, kinds=kinds)
    outcome = await outcome_of(Shape(root, upstream), plan)
    verdict = outcome.verdict
    assert len(outcome.rounds) == len(kinds)
    assert verdict.acknowledged > 20, "too little traffic to prove anything"
    assert verdict.kept, table(outcome)
    assert not outcome.blame.of_memory, table(outcome)


@pytest.mark.long
async def test_a_slow_disk_under_the_queue_loses_nothing_when_it_is_killed(root: Path, upstream: str) -> None:
    plan = Plan(3, clients=8, pause_s=0.3, seed=6, calm_s=(0.5, 1.5), catch_up_s=2.0, kinds=("valkey",))
    try:
        outcome = await outcome_of(Shape(root, upstream, proxy_workers=1, memory_workers=1, slow_fsync_ms=200), plan)
    except NoCompiler as absent:
        pytest.skip(str(absent))
    assert outcome.captures.get("spool", 0) > 0, "the slow disk was not felt"
    assert outcome.verdict.kept, table(outcome)
