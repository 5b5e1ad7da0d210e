"""How a user likes answers to be, as it was learnt: told to a new conversation once, and reset with the preference."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest

from tests.e2e.talk import ask, turn
from tests.e2e.upstreams import last
from tests.service_fixture import Service

HEADING = "Style asked for:"


def content(upstream: str, at: int = -1) -> str:
    return str(last(upstream)[0].json["messages"][at]["content"])


def taught(service: Service, user: str, *words: str) -> None:
    for number, said in enumerate(words):
        ask(service, f"{said}\nsay: Noted.", user, session=f"s{number}")
        service.settle()


def test_a_new_conversation_is_told_once_how_answers_are_liked(service: Service, upstream: str, user: str) -> None:
    taught(service, user, "I prefer tables over prose.", "I prefer short answers.", "I like detailed answers.")
    first = turn("user", "What is the capital of Mongolia?\nsay: Ulaanbaatar.")
    ask(service, [first], user)
    block, _, question = content(upstream).partition("What is the capital")
    assert question and block.count(HEADING) == 1
    assert "The user likes detailed answers." in block and "The user prefers tables over prose." in block
    assert "short answers" not in block, "of each facet the wish that was said last"
    ask(service, [first, turn("assistant", "Ulaanbaatar."), turn("user", "And of Chile?")], user)
    assert HEADING in content(upstream, 0) and HEADING not in content(upstream)


def test_a_wish_that_was_said_often_is_told_before_newer_ones_and_a_pinned_one_before_all(
    service: Service, upstream: str, user: str
) -> None:
    taught(service, user, *["I prefer short answers."] * 3, "I prefer tables over prose.", "I like a friendly tone.")
    ask(service, "What is the capital of Chile?", user)
    assert "short answers" in content(upstream) and "a friendly tone" in content(upstream)
    assert "tables over prose" not in content(upstream), "two, and this is neither said often nor last"
    data = service.call("GET", "/memory/v1/preferences", X_Memory_User=user)["data"]
    tables = next(one for one in data if "tables" in one["statement"])
    path, version = f"/memory/v1/memories/{tables['memory_id']}", str(tables["version"])
    assert service.call("PATCH", path, {"pinned": True}, X_Memory_User=user, If_Match=version)["pinned"]
    ask(service, "What is the capital of Peru?", user)
    assert "tables over prose" in content(upstream) and "short answers" in content(upstream)


def test_a_style_that_is_asked_for_comes_in_its_place_and_a_reset_takes_it_away(
    service: Service, upstream: str, user: str
) -> None:
    taught(service, user, "I prefer short answers.")
    ask(service, "What is the capital of Chile?", user, persona="formal")
    assert "short answers" not in content(upstream) and HEADING in content(upstream)
    ask(service, "What is the capital of Peru?", user + "-b")
    assert HEADING not in content(upstream)
    service.call("POST", "/memory/v1/preferences/reset", {}, X_Memory_User=user)
    ask(service, "What is the capital of Bolivia?", user)
    assert HEADING not in content(upstream)


@pytest.mark.long
def test_a_taste_is_no_style_and_none_is_told_where_that_is_off(
    service: Service, own_service: Callable[..., AbstractContextManager[Service]], upstream: str, user: str
) -> None:
    taught(service, user, "I prefer short films.")
    ask(service, "What is the capital of Chile?", user)
    assert HEADING not in content(upstream)
    with own_service(env={"MEMORY_PROXY_PREFERENCES__STYLE_NOTES_MAX": "0"}) as quiet:
        taught(quiet, user, "I prefer short answers.")
        ask(quiet, "What is the capital of Chile?", user)
        assert HEADING not in content(upstream)
