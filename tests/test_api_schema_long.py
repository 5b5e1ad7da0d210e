"""The whole API as its description says it: thousands of requests made from the description, each answer held to it."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.talk import ask
from tests.e2e.test_artifacts_e2e import send
from tests.e2e.test_documents_e2e import upload
from tests.service_fixture import Service, serving, stand_in

# Not asked: a description cannot say which ids exist, which names are taken and what changed since it was read.
NOT_ASKED = "positive_data_acceptance,missing_required_header,ignored_auth"
EXAMPLES = 40
# An import takes what it can: a line that is none is told of in the answer, and fails by itself.
LINES_FAIL_BY_THEMSELVES = """
[[operations]]
include-name = "POST /memory/v1/import"
checks.negative_data_rejection.enabled = false
"""
WHO = {"X_Memory_User": "ada"}
NUMBERS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth")


def known(service: Service) -> dict[str, list[str]]:
    """Something of each kind, and its ids."""
    retrieval = ask(service, "My boat is called Halcyon.\nsay: Noted.", "ada", session="harbour").memory("retrieval")
    service.settle()
    document = upload(service, "ada", "# Piran\n\nA berth costs two hundred and forty euros.\n")["id"]
    service.call("POST", "/memory/v1/personas", {"name": "desk", "facets": {"tone": "dry"}}, **WHO)
    service.call("POST", "/memory/v1/checkpoints", {"name": "camp", "notes": "By the pier."}, **WHO)
    memories = [one["id"] for one in service.call("GET", "/memory/v1/memories", **WHO)["data"]]
    people = [made(service, "/memory/v1/entities", {"name": f"Ana {one}", "type": "person"}) for one in NUMBERS]
    ends = itertools.pairwise(people)
    ties = [made(service, "/memory/v1/relationships", {"source": a, "type": "knows", "target": b}) for a, b in ends]
    work = {"tasks": [{"title": f"Paint the {one} boat"} for one in NUMBERS]}
    tasks = [one["id"] for one in service.call("POST", "/memory/v1/tasks", work, **WHO)["data"]]
    files = [send(service, "ada", f"the log of the {one} day".encode())["id"] for one in NUMBERS]
    assert memories and retrieval and document
    return {
        "/memory/v1/memories/": memories,
        "/memory/v1/documents/": [document],
        "/memory/v1/personas/": ["desk"],
        "/memory/v1/checkpoints/": ["camp"],
        "/memory/v1/sessions/": ["harbour"],
        "/memory/v1/retrievals/": [retrieval],
        "/memory/v1/replay/": [retrieval],
        "/memory/v1/entities/": people,
        "/memory/v1/relationships/": ties,
        "/memory/v1/tasks/": tasks,
        "/memory/v1/artifacts/": files,
    }


def made(service: Service, path: str, body: dict[str, Any]) -> str:
    """The id of what is made there."""
    return str(service.call("POST", path, body, **WHO)["id"])


def checked(service: Service, *options: str) -> None:
    """Drive every operation, and hold each answer to the description."""
    environ = {
        **os.environ,
        "SCHEMATHESIS_HOOKS": "tests.api_schema_hooks",
        "API_SCHEMA_KNOWN": json.dumps(known(service)),
        "PYTHONPATH": str(Path(__file__).parents[1]),
    }
    config = service.data.parent / "schemathesis.toml"
    config.write_text(LINES_FAIL_BY_THEMSELVES)
    argv = [
        str(Path(sys.executable).parent / "schemathesis"), "--config-file", str(config), "run",
        f"{service.url}/memory/openapi.json",
        "--url", service.url, "--exclude-checks", NOT_ASKED, "--phases", "examples,coverage,fuzzing,stateful",
        "--seed", "7", "--max-examples", str(EXAMPLES), "--request-timeout", "60", "--workers", "2",
        "--continue-on-failure", "--no-color", *options,
    ]  # fmt: skip
    ran = subprocess.run(argv, capture_output=True, text=True, timeout=580, env=environ, cwd=config.parent)
    print(ran.stdout[-2_000:])
    log = service.log.read_text()
    broken = log[log.find("Traceback") :][:4_000] if "Traceback" in log else ""
    assert ran.returncode == 0, ran.stdout[-20_000:] + ran.stderr[-2_000:] + broken


def sound(service: Service) -> None:
    """Nothing broke: no process, no write, and the service still does its job."""
    service.settle()
    queue: dict[str, Any] = service.call("GET", "/memory/v1/queue")
    assert queue["dead"] == 0
    assert "Traceback" not in service.log.read_text()
    assert ask(service, "Are you there?", "grace").status == 200


@pytest.mark.long
@pytest.mark.timeout(600)
def test_every_answer_to_requests_made_from_the_description_is_as_it_says() -> None:
    with stand_in() as upstream, serving(upstream) as service:
        checked(service, "--header", "X-Memory-User: ada")
        sound(service)
