"""kill -9 in the middle of what the law asks for: erasures end, a rotation is run again, nobody else loses a word."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from bench.security_forget import dumped
from tests.service_fixture import Service, serving
from tests.test_forget_e2e import forget, found, take_in

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]
GONE = [f"gone-{number}" for number in range(6)]
KEPT = [f"kept-{number}" for number in range(2)]
KILLS_AFTER_S = (0.3, 4.0, 3.0)  # in the first steps, and about when the one that follows has begun
ROTATE = [sys.executable, "-m", "proxy", "encryption", "rotate", "--older-days", "0"]


@pytest.fixture
def service(upstream: str) -> Iterator[Service]:
    with serving(upstream, "--workers", "2") as one:
        yield one


def word_of(user: str) -> str:
    """A word that nobody else says."""
    return f"Quillon{user.replace('-', '')}berg"


def talk_of(user: str, **label: str) -> list[dict[str, Any]]:
    said = (
        f"I keep the brass key of {word_of(user)} under the third step.",
        f"My sister works at {word_of(user)} since May.",
        f"The gate of {word_of(user)} opens at nine, and I walk there.",
    )
    return [{"session": f"s{at}", "role": "user", "content": text, **label} for at, text in enumerate(said)]


def memories(service: Service, user: str) -> dict[str, str]:
    listed = service.call("GET", "/memory/v1/memories?limit=100", X_Memory_User=user)["data"]
    return {one["id"]: one["content"] for one in listed}


def killed(service: Service, what: str) -> int:
    """SIGKILL to the service's processes of this kind; how many there were."""
    pids = service.children(what)
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    return len(pids)


@pytest.mark.long
def test_erasures_end_although_who_leads_them_is_killed_again_and_again(service: Service, tmp_path: Path) -> None:
    for user in (*GONE, *KEPT):
        take_in(service, user, *talk_of(user))
    before = {user: memories(service, user) for user in KEPT}
    assert all(len(kept) >= 3 for kept in before.values())
    with ThreadPoolExecutor(len(GONE)) as asking:
        asked = [asking.submit(forget, service, user, within_s=240, user=user) for user in GONE]
        kills = 0
        for after_s in KILLS_AFTER_S:
            time.sleep(after_s)
            kills += killed(service, "memory worker")
        receipts = [one.result() for one in asked]
    assert kills >= 2
    assert [(one["complete"], one["counts"]["turns"]) for one in receipts] == [(True, 3)] * len(GONE), receipts
    assert all(found(service, user, "the brass key") == [] for user in GONE)
    assert {user: memories(service, user) for user in KEPT} == before
    dumped(service.data, tmp_path)
    dump = b"".join(file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())
    assert all(word_of(user).encode() in dump for user in KEPT), "the dump is looked through"
    assert [user for user in GONE if word_of(user).encode() in dump] == []


@pytest.mark.long
def test_a_rotation_that_was_killed_is_run_again_and_every_row_reads_the_same(service: Service) -> None:
    for user in (*GONE, *KEPT):
        take_in(service, user, *talk_of(user, sensitivity="confidential"))
    before = {user: memories(service, user) for user in (*GONE, *KEPT)}
    beside = ["--data-dir", str(service.data)]
    rotating = subprocess.Popen([*ROTATE, *beside], stderr=subprocess.PIPE, text=True)
    assert rotating.stderr is not None
    line = next(line for line in rotating.stderr if "keys rotated" in line)
    rotating.kill()  # its keys are made; of its rows some are moved, or none
    rotating.wait()
    rotating.stderr.close()
    assert int(line.split()[1]) >= len(before)
    assert {user: memories(service, user) for user in before} == before
    again = subprocess.run(
        [*ROTATE[:-1], "1", "--json", *beside], capture_output=True, text=True, check=True, timeout=300
    )
    counts = json.loads(again.stdout)
    assert (counts["keys_rotated"], counts["old"], counts["unreadable"]) == (0, 0, 0)
    assert "waiting" in again.stderr, "others may seal under the old keys yet"
    assert {user: memories(service, user) for user in before} == before
