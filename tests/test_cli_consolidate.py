"""`memory-proxy consolidate` and `memories review` on a running service; and what retention gives a memory at birth."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from proxy.__main__ import main
from proxy.cli.beside import run_beside
from tests.e2e.talk import rows
from tests.service_fixture import Service, serving

pytestmark = pytest.mark.long  # a service of its own

CLI = str(Path(sys.executable).parent / "memory-proxy")
USER = {"X_Memory_User": "ada"}


@pytest.fixture(scope="module")
def kept(upstream: str) -> Iterator[Service]:
    """A service whose memories of turns live for 30 days, and whose facts are looked at after one."""
    lives = {"EPISODIC_DAYS": "30", "REVALIDATE_FACT_DAYS": "1", "REVALIDATE_PREFERENCE_DAYS": "1"}
    with serving(upstream, env={f"MEMORY_PROXY_RETENTION__{name}": days for name, days in lives.items()}) as running:
        yield running


def told(service: Service) -> None:
    lines = [
        {"role": "user", "content": "I live in Lisbon.", "occurred_at": "2025-01-31T09:00:00Z"},
        {"role": "user", "content": "My boat is called Halcyon.", "occurred_at": "2025-01-31T09:01:00Z"},
    ]
    body = "".join(json.dumps(line) + "\n" for line in lines).encode()
    with urlopen(Request(f"{service.url}/memory/v1/import", body, headers={"X-Memory-User": "ada"})) as answer:
        answer.read()


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([CLI, *words], capture_output=True, text=True, timeout=120, check=False)


def consolidate(service: Service, *words: str) -> subprocess.CompletedProcess[str]:
    return run("consolidate", *words, "--data-dir", str(service.data))


def memories(service: Service, query: str = "") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = service.call("GET", f"/memory/v1/memories{query}", **USER)["data"]
    return found


def test_a_memory_is_born_with_the_end_that_its_kind_has(kept: Service) -> None:
    told(kept)
    for one in memories(kept):
        if one["kind"] == "episodic":
            lives = datetime.fromisoformat(one["expires_at"]) - datetime.fromisoformat(one["created_at"])
            assert timedelta(days=30) - lives < timedelta(minutes=5)
        else:
            assert one["expires_at"] is None
    assert {one["kind"] for one in memories(kept)} == {"episodic", "semantic"}


def test_a_memory_whose_end_has_come_is_gone_from_the_api(kept: Service) -> None:
    told(kept)
    boat = next(one for one in memories(kept, "?kind=episodic") if "Halcyon" in one["content"])
    path = f"/memory/v1/memories/{boat['id']}"
    changed = kept.call("PATCH", path, {"expires_at": "2025-02-01T00:00:00Z"}, **USER, If_Match=str(boat["version"]))
    assert changed["id"] == boat["id"]
    assert kept.call("GET", path, **USER)["error"]["code"] == "not_found"
    assert boat["id"] not in {one["id"] for one in memories(kept)}
    found = kept.call("POST", "/memory/v1/search", {"query": "What is my boat called?"}, **USER)
    assert boat["id"] not in {one["id"] for one in found["candidates"]}


@pytest.mark.long
def test_consolidation_says_what_it_would_do_does_it_and_says_what_it_did(kept: Service) -> None:
    told(kept)
    none_yet = consolidate(kept)
    assert (none_yet.returncode, none_yet.stdout) == (0, "no run yet\n"), none_yet.stderr
    would = consolidate(kept, "--now", "--dry-run", "--json")
    assert would.returncode == 0, would.stderr
    steps = {one["step"]: one["changed"] for one in json.loads(would.stdout)["steps"]}
    assert steps["review"] >= 1
    assert memories(kept, "?due=review") == []
    done = consolidate(kept, "--now")
    assert done.returncode == 0, done.stderr
    assert "review" in done.stdout
    assert "looked at" in done.stderr
    last = json.loads(consolidate(kept, "--json").stdout)
    assert last["finished_at"]
    assert {one["step"]: one["changed"] for one in last["steps"]} == steps
    with urlopen(f"{kept.url}/memory/metrics") as answer:
        page = answer.read().decode()
    assert re.search(r'^memory_proxy_consolidated_total{step="review"} [1-9]', page, re.MULTILINE)


def test_facts_to_review_are_listed_and_judged(kept: Service) -> None:
    told(kept)
    assert consolidate(kept, "--now").returncode == 0
    due = memories(kept, "?due=review")
    assert [one["content"] for one in due]
    assert all(one["review_due_at"] for one in due)
    here = ("--url", kept.url, "--user", "ada")
    listed = run("memories", "review", *here)
    assert listed.returncode == 0, listed.stderr
    assert due[0]["id"] in listed.stdout
    assert run("memories", due[0]["id"], "--confirm", *here).returncode == 0
    assert due[0]["id"] not in {one["id"] for one in memories(kept, "?due=review")}
    assert kept.call("GET", f"/memory/v1/memories/{due[0]['id']}", **USER)["validation_status"] == "confirmed"
    events = kept.call("GET", "/memory/v1/events", **USER)["data"]
    assert [one["memory_id"] for one in events if one["what"] == "revalidated"] == [due[0]["id"]]


@pytest.mark.parametrize("query", ["?due=soon", "?due=review&order=desc", "?due="])
def test_another_list_of_what_is_due_is_refused(kept: Service, query: str) -> None:
    assert kept.call("GET", f"/memory/v1/memories{query}", **USER)["error"]["code"] == "memory_invalid"


@pytest.mark.long
def test_the_schema_of_a_running_service_is_compared_and_migrated_again(kept: Service) -> None:
    here = ("--data-dir", str(kept.data))
    same = run("migrate", "--check", *here)
    assert (same.returncode, same.stdout) == (0, "the schema is this version's\n"), same.stderr
    asyncio.run(rows(kept, "CREATE INDEX mine ON turns (name)"))
    differs = run("migrate", "--check", *here)
    assert (differs.returncode, "+ index CREATE INDEX mine ON" in differs.stdout) == (1, True), differs
    again = run("migrate", *here)
    assert again.returncode == 0, again.stderr


@pytest.mark.parametrize("command", [("consolidate", "--now"), ("migrate", "--check"), ("reembed", "--status")])
def test_without_a_service_the_command_says_so(command: tuple[str, ...], tmp_path: Path) -> None:
    said = run(*command, "--data-dir", str(tmp_path))
    assert said.returncode == 1
    assert "no service runs" in said.stderr


@pytest.mark.parametrize(
    "command",
    (
        *("consolidate --now", "migrate", "reembed", "audit verify", "encryption", "redact --scan"),
        *("key list", "key create laptop", "key rotate laptop", "key revoke laptop"),
    ),
)
def test_a_command_beside_the_service_reads_the_configuration_it_is_given(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(f"data:\n  dir: {tmp_path / 'elsewhere'}\n")
    assert main([*command.split(), "--config", str(config)]) == 1
    assert f"no service runs on {tmp_path / 'elsewhere'}" in capsys.readouterr().err


def test_a_service_of_another_account_is_not_said_to_be_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "lock").touch()
    (tmp_path / "lock").chmod(0)
    given = argparse.Namespace(config=None, upstream=None, host=None, port=None, data_dir=str(tmp_path))
    ours = os.geteuid()
    if ours == 0:
        os.seteuid(65_534)
    try:
        assert run_beside(given, ()) == 1
    finally:
        if ours == 0:
            os.seteuid(0)
    assert f"{tmp_path} is closed to this account" in capsys.readouterr().err
