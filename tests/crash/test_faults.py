"""The fastest scenarios of the fault suite (`make faults` runs them all)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from bench.faults import restarts, slow
from bench.faults.result import Finding
from bench.faults.scene import Place

pytestmark = [pytest.mark.long, pytest.mark.timeout(240)]


@pytest.fixture
def place() -> Iterator[Place]:
    with TemporaryDirectory(prefix="mp-faults-", ignore_cleanup_errors=True) as name:
        root = Path(name)
        root.chmod(0o755)
        yield Place(root, lambda _: None)


def broken(findings: list[Finding]) -> list[Finding]:
    return [finding for finding in findings if not finding.kept]


async def test_streams_under_way_at_sigterm_are_heard_to_their_end_and_kept(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(restarts, "STREAMS", 8)
    findings, _ = await restarts.shutdown(place)
    assert findings
    assert not broken(findings)


async def test_an_upstream_of_one_byte_a_second_does_not_grow_the_proxy(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slow, "HOLD_S", 4.0)
    findings, _ = await slow.slow_upstream(place)
    assert findings
    assert not broken(findings)
