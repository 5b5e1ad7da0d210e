"""What is confidential: on no disk in the clear, recalled where it may be, and never sent to an upstream below it."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.talk import ask, found, tell
from tests.e2e.upstreams import last
from tests.service_fixture import Service, serving

pytestmark = pytest.mark.long  # a service of its own

WORD = "Kaiserschmarrn"
FACT = f"The code name of the merger is {WORD}."
QUESTION = "What is the code name of the merger?"


@pytest.fixture(scope="module")
def not_cleared(upstream: str) -> Iterator[Service]:
    """A service whose upstream may see what is internal at most."""
    with serving(upstream, env={"MEMORY_PROXY_UPSTREAM__SENSITIVITY_MAX": "internal"}) as service:
        yield service


def put(service: Service, user: str, *lines: dict[str, str]) -> dict[str, object]:
    """Import lines as this user; the last line of the answer."""
    body = "".join(json.dumps(line) + "\n" for line in lines).encode()
    asked = urllib.request.Request(
        f"{service.url}/memory/v1/import", data=body, method="POST", headers={"X-Memory-User": user}
    )
    with urllib.request.urlopen(asked) as answer:
        said = [json.loads(line) for line in answer]
    return dict(said[-1])


def sent(upstream: str) -> str:
    """The body of the last request that reached the upstream."""
    return repr(last(upstream))


def line(sensitivity: str = "confidential") -> dict[str, str]:
    return {"role": "user", "content": FACT, "session": "board", "sensitivity": sensitivity}


def files_with(directory: Path, word: str) -> list[str]:
    """Every file below that holds the word, in UTF-8."""
    needle, found = word.encode(), []
    for path in directory.rglob("*"):
        with contextlib.suppress(FileNotFoundError):  # a log that Postgres has done with
            if path.is_file() and needle in path.read_bytes():
                found.append(str(path))
    return found


def test_a_confidential_line_is_recalled_and_in_no_file_of_the_service(
    service: Service, upstream: str, user: str
) -> None:
    """Database, its write-ahead log, the queue's file, spool, log: none has the word once it is stored."""
    assert put(service, user, line())["failed"] == 0
    assert found(service, QUESTION, user) == [FACT]
    said = ask(service, QUESTION, user, mode="read")
    assert said.verdict == "injected" and WORD in sent(upstream)
    service.settle()
    assert files_with(service.data, WORD) == []
    assert WORD not in service.log.read_text(errors="replace")


def test_a_word_that_is_internal_is_found_in_the_files(service: Service, user: str) -> None:
    """The search of the files has power."""
    put(service, user, {"role": "user", "content": "The canteen serves Germknoedel.", "session": "s"})
    assert files_with(service.data, "Germknoedel")


def test_what_is_above_the_ceiling_never_goes_upstream_and_is_found_by_search(
    not_cleared: Service, upstream: str, user: str
) -> None:
    put(not_cleared, user, line("secret"))
    said = ask(not_cleared, QUESTION, user, mode="read")
    assert said.status == 200 and said.verdict == "empty"
    assert WORD not in sent(upstream)
    assert found(not_cleared, QUESTION, user) == [FACT]


def test_what_is_internal_still_goes_where_the_ceiling_is_internal(
    not_cleared: Service, upstream: str, user: str
) -> None:
    put(not_cleared, user, line("internal"))
    assert ask(not_cleared, QUESTION, user, mode="read").verdict == "injected"
    assert WORD in sent(upstream)


def test_what_a_person_makes_confidential_is_withheld_from_the_next_request(
    not_cleared: Service, upstream: str, user: str
) -> None:
    tell(not_cleared, FACT, user)
    before = ask(not_cleared, QUESTION, user, mode="read")
    assert before.verdict == "injected"
    listed = not_cleared.call("GET", "/memory/v1/memories", X_Memory_User=user)["data"]
    one = next(entry for entry in listed if WORD in entry["content"])
    changed = not_cleared.call(
        "PATCH",
        f"/memory/v1/memories/{one['id']}",
        {"sensitivity": "confidential"},
        X_Memory_User=user,
        If_Match=f'"{one["version"]}"',
    )
    assert changed["sensitivity"] == "confidential" and WORD in changed["content"]
    time.sleep(1.2)  # a hot scope may be used for recall.scope_staleness_max_ms after it was last confirmed
    after = ask(not_cleared, QUESTION, user, mode="read")
    assert after.status == 200 and WORD not in sent(upstream)
    labels = {
        entry["sensitivity"]
        for entry in not_cleared.call("GET", "/memory/v1/memories", X_Memory_User=user)["data"]
        if WORD in entry["content"]
    }
    assert labels == {"confidential"}


def command(service: Service, *words: str) -> dict[str, int]:
    """`memory-proxy encryption …` beside the service."""
    argv = [sys.executable, "-m", "proxy", "encryption", *words, "--json", "--data-dir", str(service.data)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=100)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


@pytest.mark.long
def test_the_command_says_what_is_sealed_beside_a_running_service(service: Service, user: str) -> None:
    before = command(service, "status")
    put(service, user, {**line(), "content": f"{FACT} Twice."})
    after = command(service, "status")
    assert after["sealed"] >= before["sealed"] + 3  # the turn, its memory, the memory's vector
    assert (after["old"], after["open"], after["unreadable"], after["keys_to_rewrap"]) == (0, 0, 0, 0)
    assert command(service, "rewrap")["keys_rewrapped"] == 0
    assert command(service, "rotate")["keys_rotated"] == 0  # made within the last day


def test_export_and_import_carry_the_label(service: Service, user: str) -> None:
    put(service, user, line())
    with urllib.request.urlopen(
        urllib.request.Request(f"{service.url}/memory/v1/export", headers={"X-Memory-User": user})
    ) as answer:
        lines = [json.loads(one) for one in answer]
    turns = [one for one in lines if one["type"] == "turn"]
    assert [one["sensitivity"] for one in turns] == ["confidential"]
    other = f"{user}-other"
    assert put(service, other, *turns)["failed"] == 0
    listed = service.call("GET", "/memory/v1/memories", X_Memory_User=other)["data"]
    assert {entry["sensitivity"] for entry in listed} == {"confidential"}


def test_a_label_that_is_none_is_an_error_line(service: Service, user: str) -> None:
    assert put(service, user, line("top secret"))["failed"] == 1


def test_what_is_confidential_states_no_facts_that_lie_open(service: Service, user: str) -> None:
    told = {"role": "user", "content": "I live in Reykjavik and I prefer green tea.", "session": "s"}
    put(service, user, {**told, "sensitivity": "confidential"})
    semantic = "/memory/v1/memories?kind=semantic"
    assert service.call("GET", semantic, X_Memory_User=user)["data"] == []
    other = f"{user}-open"
    put(service, other, told)
    assert service.call("GET", semantic, X_Memory_User=other)["data"]
