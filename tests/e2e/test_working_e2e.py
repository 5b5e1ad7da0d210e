"""What a conversation is about, through the service: in its own page and its own prompts, and nowhere else."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest

from tests.e2e.talk import ask, found, turn
from tests.e2e.upstreams import last
from tests.service_fixture import Service

OwnService = Callable[..., AbstractContextManager[Service]]
GOAL = "Please build me a crawler for the Halcyon archive."
PLAN = "The plan:\n1. Read the catalogue\n2. Write the index"


def working(service: Service, user: str, session: str) -> Any:
    return service.call("GET", f"/memory/v1/sessions/{session}", X_Memory_User=user)["working"]


def prompt(upstream: str) -> str:
    return str(last(upstream)[0].json["messages"][-1]["content"])


def talk_about_it(service: Service, user: str) -> None:
    """Newest messages alone, in a session of a name."""
    for text in (
        f"{GOAL}\nsay: Gladly.",
        f"{PLAN}\nsay: Very well.",
        "Step 1 is done. Who owns the archive?\nsay: I don't know that.",
        "We shall see then.\nsay: Indeed we shall.",
    ):
        assert ask(service, text, user, session="work").status == 200
        service.settle()


@pytest.mark.long
def test_a_session_tells_what_it_is_about_and_its_next_prompt_too(
    own_service: OwnService, upstream: str, user: str
) -> None:
    with own_service(env={"MEMORY_PROXY_SESSION__REPLAY_TURNS": "2"}) as service:
        talk_about_it(service, user)
        said = working(service, user, "work")
        assert said["objective"]["text"] == GOAL and said["turns"] == 8
        assert [(step["text"], step["done"]) for step in said["plan"]["steps"]] == [
            ("Read the catalogue", True),
            ("Write the index", False),
        ]
        assert [one["text"] for one in said["open"]] == ["Who owns the archive?"]
        assert said["recent"][-1]["pieces"][0]["text"] == "Indeed we shall."
        turns = service.call("GET", "/memory/v1/sessions/work", X_Memory_User=user)["turns"]
        assert said["objective"]["event_id"] == turns[0]["event_id"]

        asked = ask(service, "So, what is next?", user, session="work")
        lines = prompt(upstream).partition("Earlier in this conversation:\n")[2].partition("</memory>")[0].splitlines()
        assert lines[:5] == [
            f"[user, goal] {GOAL}",
            "[user, plan] Done: 1",
            "| 2. Write the index",
            "[user, still open] Who owns the archive?",
            lines[4],
        ]
        assert [line.partition("] ")[2] for line in lines[4:] if line[0] == "["] == [
            "We shall see then.",
            "Indeed we shall.",
        ]
        service.settle()
        record = service.call("GET", f"/memory/v1/retrievals/{asked.memory('retrieval')}", X_Memory_User=user)
        named = [one for one in record["candidates"] if one["kind"] == "working"]
        assert all(one["injected"] for one in named) and len(named) == 3
        assert named[0]["event_ids"] == [turns[0]["event_id"]]

        # Another session, a client that sends its history, another user: nothing of it.
        for messages, headers in (
            ("So, what is next?", {"session": "other"}),
            ([turn("user", "Hello"), turn("assistant", "Hi."), turn("user", "What is next?")], {"session": "work"}),
        ):
            ask(service, messages, user, **headers)
            assert ", goal]" not in prompt(upstream) and "still open]" not in prompt(upstream)
        assert "error" in service.call("GET", "/memory/v1/sessions/work", X_Memory_User=user + "-not")
        answer = service.call(
            "POST", "/memory/v1/search", {"query": GOAL, "kinds": ["working"], "k": 9}, X_Memory_User=user
        )
        assert answer["candidates"] == []

        # Its owner hides the first turn: the next prompt and the page know it no more.
        memories = service.call("GET", "/memory/v1/memories?limit=100", X_Memory_User=user)["data"]
        (first,) = [one for one in memories if one["content"].startswith(GOAL)]
        service.call("DELETE", f"/memory/v1/memories/{first['id']}", X_Memory_User=user)
        ask(service, "And now what?", user, session="work")
        assert "Halcyon" not in prompt(upstream) and "| 2. Write the index" in prompt(upstream)
        assert "Halcyon" not in json.dumps(working(service, user, "work"))


def test_without_replay_a_prompt_has_no_working_context(service: Service, upstream: str, user: str) -> None:
    talk_about_it(service, user)
    assert working(service, user, "work")["objective"]["text"] == GOAL
    ask(service, "So, what is next?", user, session="work")
    assert ", goal]" not in prompt(upstream)
    assert GOAL in "\n".join(found(service, "the Halcyon archive", user))


@pytest.mark.long
def test_working_contexts_can_be_turned_off(own_service: OwnService, user: str) -> None:
    with own_service(env={"MEMORY_PROXY_SESSION__WORKING_TOKENS": "0"}) as service:
        ask(service, GOAL, user, session="work")
        service.settle()
        assert working(service, user, "work") is None
