"""Why a candidate was given or not, in a table a person can read; on a running service."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from urllib.request import Request, urlopen

from tests.service_fixture import Service

CLI = (str(Path(sys.executable).parent / "memory-proxy"), "search")


def run(service: Service, user: str, *words: str) -> subprocess.CompletedProcess[str]:
    command = [*CLI, *words, "--url", service.url, "--user", user]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def taught(service: Service, user: str) -> str:
    """Import three turns and ask about one; the id of the retrieval, which is stored."""
    turns = ("My boat is called Halcyon.", "The cat sleeps all day.", "Always answer in metric units.")
    lines = "".join(json.dumps({"role": "user", "content": text}) + "\n" for text in turns)
    head = {"X-Memory-User": user}
    with urlopen(Request(f"{service.url}/memory/v1/import", lines.encode(), headers=head)) as answer:
        answer.read()
    body = {"model": "fake-model", "messages": [{"role": "user", "content": "What is my boat called?"}]}
    asked = Request(
        f"{service.url}/v1/chat/completions",
        json.dumps(body).encode(),
        headers={**head, "Content-Type": "application/json"},
    )
    with urlopen(asked) as answer:
        retrieval = str(answer.headers["X-Memory-Retrieval"])
        answer.read()
    service.settle(X_Memory_User=user)
    return retrieval


def test_a_search_and_a_retrieval_say_why(service: Service, user: str) -> None:
    retrieval = taught(service, user)
    found = run(service, user, "What is my boat called?", "--explain")
    assert found.returncode == 0, found.stderr
    assert "My boat is called Halcyon." in found.stdout
    assert "likely" in found.stdout
    assert "place" in found.stdout.splitlines()[0]
    given = run(service, user, "--retrieval", retrieval)
    assert given.returncode == 0, given.stderr
    assert "What is my boat called?" in given.stdout
    assert "<memory>" in given.stdout
    assert given.stdout.count("\n* ") >= 1


def test_neither_a_question_nor_a_retrieval_is_refused_with_how_to_go_on(service: Service, user: str) -> None:
    for words in ((), ("a question", "--retrieval", "x")):
        refused = run(service, user, *words)
        assert refused.returncode == 1
        assert "--retrieval" in refused.stderr
    unknown = run(service, user, "--retrieval", "01900000-0000-7000-8000-000000000000")
    assert unknown.returncode == 1
    assert "not_found" in unknown.stderr
