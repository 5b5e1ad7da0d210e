"""kill -9 of `memory-proxy redact` and `reembed` that work on one store at once: both end, and agree on every text."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.service_fixture import Service, owner, serving
from tests.small_model_fixture import write_small_model
from tests.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(500)]
LINES = 1_200
MAIL = "bob@example.com"
KILLS = 3
MODELS = {"one": 32, "other": 48}
REDACT = ("redact", "--scan", "--apply")


@pytest.fixture
def service(upstream: str, tmp_path: Path) -> Iterator[Service]:
    """A service on a model that embeds at once, under a policy that older texts know nothing of."""
    for name, dim in MODELS.items():
        write_small_model(tmp_path / name, dim=dim)
    env = {
        "MEMORY_PROXY_EMBEDDING__MODEL": "one",
        "MEMORY_PROXY_EMBEDDING__DIRECTORY": str(tmp_path / "one"),
        "MEMORY_PROXY_PERSONAL__EMAIL": "tokenise",
    }
    with serving(upstream, env=env) as running:
        yield running


def count(service: Service, of: str) -> int:
    return int(owner(service, f"SELECT count(*) FROM {of}")[0][0])


def left_open(service: Service) -> int:
    return sum(count(service, f"{table} WHERE content LIKE '%{MAIL}%'") for table in ("turns", "memory_versions"))


def begun(service: Service, *words: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "proxy", *words, "--data-dir", str(service.data)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    said = process.communicate(timeout=200)[0]
    return process.returncode, said


def vectors(service: Service, table: str) -> set[tuple[str, ...]]:
    rows = owner(service, f"SELECT memory_id::text, version::text, window_no::text, embedding::text FROM {table}")
    return {tuple(row) for row in rows}


@pytest.mark.long
def test_a_sweep_and_a_fill_that_are_killed_again_and_again_end_and_agree(service: Service, tmp_path: Path) -> None:
    lines = [
        {"role": "user", "session": f"s{n // 20}", "content": f"{n}: write to BOB, he rows."} for n in range(LINES)
    ]
    body = "\n".join(json.dumps(line) for line in lines).encode()
    answer = subprocess.run(
        ["curl", "-sS", "--data-binary", "@-", f"{service.url}/memory/v1/import"], input=body, capture_output=True
    )
    assert json.loads(answer.stdout.splitlines()[-1])["done"] == LINES, answer
    letting_through = [
        f"UPDATE {table} SET content = replace(content, 'BOB', '{MAIL}'), cleaned_by = '1.keep'"
        for table in ("turns", "memory_versions")
    ]
    owner(service, *letting_through, "SELECT")
    versions = count(service, "memory_versions")
    fill = ("reembed", "--to", "other", "--directory", str(tmp_path / "other"), "--rest", "0")
    dice = random.Random(5)
    kills = 0
    for _ in range(KILLS):
        until = dice.uniform(0.4, 0.99) * left_open(service)
        running = [begun(service, *REDACT), begun(service, *fill)]
        wait_until(lambda: left_open(service) < until, timeout_s=100, what="texts are cut")  # noqa: B023
        time.sleep(dice.uniform(0, 0.5))
        for process in running:
            kills += process.poll() is None
            process.kill()
            ended(process)
        owner(service, "UPDATE lane_leases SET expires_at = now() WHERE lane = 'job:reembed' RETURNING 1")
    assert kills >= KILLS
    running = [begun(service, *REDACT), begun(service, *fill)]
    for process in running:
        code, said = ended(process)
        assert code == 0, said
    code, said = ended(begun(service, *fill))  # what the sweep has cut last is embedded too
    assert code == 0, said
    assert left_open(service) == 0
    assert (count(service, "turns"), count(service, "memory_versions")) == (LINES, versions)
    assert count(service, "pg_locks WHERE locktype = 'advisory'") == 0
    (table,) = owner(service, "SELECT table_name FROM embedding_tables WHERE table_name LIKE '%other%'")[0]
    filled = vectors(service, table)
    assert len({one[:2] for one in filled}) == versions
    assert ended(begun(service, "reembed", "--drop"))[0] == 0
    code, said = ended(begun(service, *fill))
    assert code == 0, said
    assert vectors(service, table) == filled, "vectors of words that were cut"
