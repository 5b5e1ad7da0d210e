"""`memory-proxy hygiene` on a running service: a table with examples by id, and no word of what was said unasked."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from tests.service_fixture import Service

CLI = (str(Path(sys.executable).parent / "memory-proxy"), "hygiene")


def run(service: Service, *words: str) -> subprocess.CompletedProcess[str]:
    command = [*CLI, *words, "--data-dir", str(service.data)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def take_in(service: Service, user: str, *texts: str) -> None:
    lines = "".join(json.dumps({"role": "user", "content": text}) + "\n" for text in texts)
    with urlopen(Request(f"{service.url}/memory/v1/import", lines.encode(), headers={"X-Memory-User": user})) as answer:
        answer.read()


def report(service: Service, *words: str) -> Any:
    ran = run(service, "--json", *words)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def counts(told: Any) -> dict[str, int]:
    return {rate["rate"]: rate["count"] for rate in told["rates"] if rate["count"]}


@pytest.mark.long
def test_the_table_tells_what_is_wrong_and_names_examples_by_id(service: Service, user: str) -> None:
    take_in(service, user, "The crane comes on Monday.", "the CRANE comes on Monday", "I live in Lisbon.")
    told = report(service, "--user", user)
    assert counts(told) == {"duplicate": 1}
    assert told["facts"] == told["facts_with_a_valid_span"]["count"] >= 1
    table = run(service, "--user", user)
    assert table.returncode == 0, table.stderr
    (example,) = next(rate for rate in told["rates"] if rate["rate"] == "duplicate")["examples"]
    assert example["id"] in table.stdout
    assert "crane" not in (table.stdout + json.dumps(told)).lower(), "no text unless it is asked for"
    shown = run(service, "--user", user, "--show")
    assert "the CRANE comes on Monday" in shown.stdout


@pytest.mark.long
def test_a_greeting_or_an_emoji_makes_no_memory_and_its_turn_stays(service: Service, user: str) -> None:
    for text in ("👍", "Hello!", "Thank you so much!"):
        body = {"model": "fake-model", "messages": [{"role": "user", "content": text}]}
        head = {"X-Memory-User": user, "X-Memory-Session": "courtesies", "Content-Type": "application/json"}
        with urlopen(Request(f"{service.url}/v1/chat/completions", json.dumps(body).encode(), headers=head)) as answer:
            answer.read()
    take_in(service, user, "Take care, bye!", "Rex")
    service.settle()
    memories = service.call("GET", "/memory/v1/memories?kind=episodic", X_Memory_User=user)["data"]
    assert [one["content"] for one in memories if one["role"] == "user"] == ["Rex"]
    turns = service.call("GET", "/memory/v1/sessions/courtesies", X_Memory_User=user)["turns"]
    assert {"👍", "Hello!", "Thank you so much!"} <= {turn["content"] for turn in turns}
    assert "junk" not in counts(report(service, "--user", user))


@pytest.mark.long
def test_a_project_and_a_limit_narrow_what_is_looked_at(service: Service, user: str) -> None:
    take_in(service, user, "The crane comes on Monday.", "My boat is called Halcyon.")
    assert report(service, "--user", user, "--project", "none-such")["memories"] == 0
    assert report(service, "--user", user, "--project", "default")["memories"] >= 2
    assert report(service, "--limit", "1")["memories"] <= 200, "a page is the least that is read"


@pytest.mark.long
def test_without_a_running_service_it_says_how_to_go_on(tmp_path: Path) -> None:
    ran = subprocess.run([*CLI, "--data-dir", str(tmp_path)], capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 1
    assert "memory-proxy serve" in ran.stderr
    assert "--data-dir" in ran.stderr


@pytest.mark.long
def test_help_teaches_what_is_counted() -> None:
    ran = subprocess.run([*CLI, "--help"], capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 0
    for word in ("junk", "duplicate", "contradiction", "unsupported", "loop", "never_used", "secret", "examples"):
        assert word in ran.stdout
