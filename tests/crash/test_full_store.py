"""An external Postgres whose disk is full: it answers and recalls, stores nothing, and everybody is told so."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import postgres_fixture
from tests.crash.test_frozen_stores import parts
from tests.e2e.talk import ask
from tests.scratch_place import scratch_place
from tests.service_fixture import Service, serving
from tests.waiting import wait_until

pytestmark = [pytest.mark.long, pytest.mark.timeout(400)]  # a service and a server of its own
MIB = 1 << 20


@pytest.fixture
def small_disk() -> Iterator[Path]:
    """A file system of its own, of 256 MiB."""
    place = Path(tempfile.mkdtemp(prefix="mp-full-", dir=scratch_place()))
    mounted = os.getuid() == 0 and subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256m,mode=755", "none", place], check=False
    )
    if not mounted or mounted.returncode != 0:
        pytest.skip("this machine lets nobody mount")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", place], check=True)
        shutil.rmtree(place, ignore_errors=True)


@contextlib.contextmanager
def filled_up(place: Path) -> Iterator[None]:
    """No block is left on a file system."""
    filler = place / "filler"
    with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while file.write(bytes(MIB)):
            pass
    with filler.open("ab", buffering=0) as file, contextlib.suppress(OSError):
        while file.write(bytes(4096)):
            pass
    try:
        yield
    finally:
        filler.unlink()


def doctor(service: Service) -> str:
    """What it says of a service that runs."""
    argv = [sys.executable, "-m", "proxy", "doctor", "--data-dir", str(service.data), "--upstream", service.upstream]
    environ = {**os.environ, **service.extra}
    return subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False, env=environ).stdout


def test_a_full_store_is_told_of_and_what_waits_is_stored_once_there_is_room(
    small_disk: Path, upstream: str, user: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its probe only reads: `ready` said that all was well while nothing could be stored."""
    monkeypatch.setattr(postgres_fixture, "scratch_place", lambda: small_disk)
    postgres = postgres_fixture.start_server()
    try:
        with serving(upstream, env={"MEMORY_PROXY_DATABASE__URL": postgres.dsn("postgres")}) as service:
            ask(service, "The boat lies in Faro.", user)
            service.settle()
            with filled_up(small_disk):
                said = [
                    ask(service, f"The crane number {n} stands in Porto. {'So it is. ' * 9}", user) for n in range(4)
                ]
                assert {one.memory("capture") for one in said} == {"queue"}
                wait_until(lambda: not parts(service)["postgres"]["ok"], 30, "it is told")
                assert "disk is full" in parts(service)["postgres"]["error"]
                assert "disk is full" in doctor(service)
            wait_until(lambda: parts(service)["postgres"]["ok"], 60, "it is well again")
            service.settle()
            stored = postgres.psql("SELECT count(*) FROM turns WHERE content LIKE 'The crane number%'")
            assert stored == "4"
    finally:
        postgres.stop()
