"""A store that hangs instead of dying: the answer is not held for it, and what is kept keeps its place."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.talk import Said, ask, turn
from tests.service_fixture import Service, frozen, serving


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
