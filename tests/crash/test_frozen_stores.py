"""A store that hangs instead of dying: the answer is not held for it, and what is kept keeps its place."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.raw_http import RawAnswer, send
from tests.e2e.talk import MODEL, Said, ask, tell, turn
from tests.e2e.upstreams import last
from tests.service_fixture import Service, frozen, serving
from tests.waiting import wait_until

pytestmark = pytest.mark.long  # a service of its own


@pytest.fixture(scope="module")
def frail(upstream: str) -> Iterator[Service]:
    with serving(upstream) as service:
        yield service


def turns_of(service: Service, user: str) -> list[dict[str, Any]]:
    """The user's turns as the export has them."""
    service.settle()
    request = urllib.request.Request(f"{service.url}/memory/v1/export", headers={"X-Memory-User": user})
    with urllib.request.urlopen(request, timeout=60) as answer:
        lines = [json.loads(line) for line in answer.read().splitlines()]
    return [line for line in lines if line["type"] == "turn"]


def conversation(said: list[tuple[str, Said]]) -> list[dict[str, Any]]:
    """What the client sends again."""
    return [message for text, answer in said for message in (turn("user", text), turn("assistant", answer.text))]


@pytest.mark.long
def test_a_conversation_goes_on_in_its_session_when_the_hot_state_hangs(frail: Service, user: str) -> None:
    """The proxy cannot recognise it then; the write path must, or its history would be stored a second time."""
    said: list[tuple[str, Said]] = [("one of four", ask(frail, "one of four", user))]
    with frozen(frail, r"valkey-server"):
        for text in ("two of four", "three of four"):
            said.append((text, ask(frail, [*conversation(said), turn("user", text)], user)))
    text = "four of four"
    said.append((text, ask(frail, [*conversation(said), turn("user", text)], user)))
    assert {answer.memory("capture") for _, answer in said} <= {"queue", "spool"}
    turns = turns_of(frail, user)
    asked = [each["content"] for each in turns if each["role"] == "user"]
    assert asked == ["one of four", "two of four", "three of four", "four of four"], "each once, in order"
    assert len({each["session"] for each in turns}) == 1


def test_words_are_kept_when_nobody_can_say_in_time_whose_conversation_it_is(frail: Service, user: str) -> None:
    """Both stores hang: the message has its chain position all the same, else it would never become a turn."""
    ask(frail, "first", user)
    frail.settle()
    with frozen(frail, r"valkey-server|postgres"):
        named = ask(frail, "said to a named session", user, session="named")
        found = ask(frail, [turn("user", "first"), turn("assistant", "unknown"), turn("user", "said later")], user)
    assert {named.memory("capture"), found.memory("capture")} <= {"queue", "spool"}
    asked = sorted(each["content"] for each in turns_of(frail, user) if each["role"] == "user")
    assert asked.count("said to a named session") == 1
    assert asked.count("said later") == 1


def test_a_worker_that_begins_while_the_queue_hangs_recalls_by_meaning(frail: Service, user: str) -> None:
    """It loaded its model behind the queue: for as long as that was away every recall went by words alone."""
    tell(frail, "My boat is called Petrel.", user)
    with frozen(frail, "valkey-server"):
        (before,) = frail.children(r"proxy\.worker")
        os.kill(before, signal.SIGKILL)
        wait_until(lambda: [before] != frail.children(r"proxy\.worker") != [], 30, "another worker")
        wait_until(lambda: parts(frail).get("embedder", {}).get("ok"), 30, "the model is loaded")
        assert not parts(frail)["queue"]["ok"]
        said = ask(frail, "What is my boat called?", user)
        assert said.verdict == "injected" and "reason=embedder" not in (said.memory("status") or ""), said


def parts(service: Service) -> dict[str, Any]:
    """What /memory/ready says of each dependency; nothing where it does not answer."""
    with contextlib.suppress(OSError):
        return service.call("GET", "/memory/ready")["dependencies"]  # type: ignore[no-any-return]
    return {}


def of_tenant(service: Service, tenant: str) -> bytes:
    """The secret of a new key of a tenant, known to the service."""
    argv = [sys.executable, "-m", "proxy", "key", "create", "a key", "--tenant", tenant, "--json", "--data-dir"]
    made = subprocess.run([*argv, str(service.data)], capture_output=True, text=True, timeout=60, check=True)
    time.sleep(1.2)
    return json.loads(made.stdout)["secret"].encode()  # type: ignore[no-any-return]


def asked_with(service: Service, secret: bytes, path: str) -> tuple[RawAnswer, float]:
    """An answer under a key, and the seconds it took."""
    pairs = [(b"Content-Type", b"application/json"), (b"Authorization", b"Bearer " + secret)]
    body = {"model": MODEL, "prompt": "x", "messages": [turn("user", "x")], "max_tokens": 2}
    began = time.monotonic()
    return send(service.url, "POST", path, pairs, json.dumps(body).encode()), time.monotonic() - began


@pytest.mark.long
def test_a_tenant_whose_salt_the_frozen_store_does_not_tell_is_refused_in_time(upstream: str) -> None:
    """Without its salt it would share the prefix cache of others. A tenant whose salt is known goes on."""
    env = {"MEMORY_PROXY_AUTH__MODE": "keys", "MEMORY_PROXY_RECALL__DEADLINE_MS": "400"}
    with serving(upstream, env=env) as service:
        known, unknown = of_tenant(service, "known"), of_tenant(service, "unknown")
        assert asked_with(service, known, "/v1/chat/completions")[0].status == 200
        before = last(upstream)[0].json["cache_salt"]
        with frozen(service, "postgres"):
            for path in ("/v1/chat/completions", "/v1/completions"):
                answer, seconds = asked_with(service, unknown, path)
                assert (answer.status, json.loads(answer.body)["error"]["code"]) == (503, "auth_unavailable")
                assert answer.text("retry-after") == "1" and seconds < 1.5
                answer, seconds = asked_with(service, known, path)
                assert answer.status == 200 and last(upstream)[0].json["cache_salt"] == before
        assert asked_with(service, unknown, "/v1/completions")[0].status == 200
