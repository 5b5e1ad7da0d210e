"""Conversations out of one scope and into another: what is not to be recalled there is not made again here, and several
ways on of one stay several.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.e2e.talk import ask, found, tell, turn
from tests.e2e.test_records_travel_e2e import send
from tests.service_fixture import Service
from tests.test_api_e2e import Api

CAT, BOAT = "I own a grey cat called Momo.", "I own a wooden boat called Petrel."


@pytest.fixture
def api(service: Service, user: str) -> Api:
    return Api(service.url, user)


@pytest.fixture
def other(service: Service, user: str) -> Api:
    return Api(service.url, f"{user}-2")


def memories(api: Api) -> list[dict[str, Any]]:
    data: list[dict[str, Any]] = api.get("/memory/v1/memories", limit="1000").json["data"]
    return data


def said(api: Api) -> list[str]:
    return sorted(one["content"] for one in memories(api))


def turns(api: Api) -> list[dict[str, Any]]:
    return [line for line in api.get("/memory/v1/export").lines if line["type"] == "turn"]


def own(api: Api, words: str) -> dict[str, Any]:
    """The memory of a turn in its own words."""
    return next(one for one in memories(api) if one["kind"] == "episodic" and words in one["content"])


def moved(api: Api, other: Api) -> None:
    assert send(other, api.get("/memory/v1/export").lines)[0] == []


def test_what_was_deleted_is_in_no_copy_and_is_said_by_no_copy_of_it(
    service: Service, user: str, api: Api, other: Api
) -> None:
    tell(service, CAT, user)
    tell(service, BOAT, user)
    assert api.call("DELETE", f"/memory/v1/memories/{own(api, 'Momo')['id']}").status == 200
    moved(api, other)
    assert said(other) == said(api)
    assert any("Petrel" in one for one in said(other)) and not any("Momo" in one for one in said(other))
    assert found(service, "What is my cat called?", f"{user}-2") == found(service, "What is my cat called?", user)
    marks = {line["content"].partition("\n")[0]: line.get("memory") for line in turns(other)}
    assert (marks[CAT], marks[BOAT]) == ("hidden", None)
    again = Api(service.url, f"{user}-3")
    moved(other, again)
    assert said(again) == said(api)


def test_what_was_rejected_is_in_no_copy_and_what_was_shown_again_is(
    service: Service, user: str, api: Api, other: Api
) -> None:
    tell(service, CAT, user)
    tell(service, BOAT, user)
    cat, boat = own(api, "Momo"), own(api, "Petrel")
    change = {"validation_status": "rejected"}
    path = f"/memory/v1/memories/{cat['id']}"
    assert api.call("PATCH", path, change, If_Match=str(cat["version"])).status == 200
    api.call("DELETE", f"/memory/v1/memories/{boat['id']}")
    assert api.call("POST", f"/memory/v1/memories/{boat['id']}/undelete").status == 200
    moved(api, other)
    assert any("Petrel" in one for one in said(other)) and not any("Momo" in one for one in said(other))


def test_what_no_memory_was_made_of_makes_none_in_a_copy(service: Service, user: str, api: Api, other: Api) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "forecast", "arguments": "{}"}}
    asked = [
        turn("user", "How windy does it get at the western pier today?"),
        turn("assistant", None, tool_calls=[call]),
        turn("tool", "Gusts of 31 knots at the western pier, waves of four metres.", tool_call_id="c1"),
    ]
    assert ask(service, asked, user).status == 200
    service.settle()
    moved(api, other)
    assert {line["role"]: line.get("memory") for line in turns(api)}["tool"] == "none"
    assert said(other) == said(api)
    assert [line["content"] for line in turns(other)] == [line["content"] for line in turns(api)]


def test_a_conversation_with_several_ways_on_goes_on_in_a_copy_and_nothing_of_it_is_kept_twice(
    service: Service, user: str, api: Api, other: Api
) -> None:
    """A question asked again, one reworded, and an opening reworded: a copy chained all lines one behind the other, so
    that the history which a client sent was known to no position of it and was stored once more.
    """
    opening = [turn("user", CAT), turn("assistant", "Noted, Momo.")]
    ways = [
        [*opening, turn("user", "What does a cat eat?"), turn("assistant", "Fish.")],
        [*opening, turn("user", "What does a cat eat?"), turn("assistant", "Mostly meat.")],
        [*opening, turn("user", "Where does a cat sleep?"), turn("assistant", "On the warm side.")],
        [turn("user", BOAT), turn("assistant", "A fine boat.")],
    ]
    for way in ways:
        assert ask(service, [*way, turn("user", "Go on.")], user, session="talk").status == 200
    service.settle()
    moved(api, other)
    assert [line["content"] for line in turns(other)] == [line["content"] for line in turns(api)]
    before = len(turns(other))
    for way in ways:
        assert ask(service, [*way, turn("user", "And then?")], f"{user}-2", session="talk").status == 200
    service.settle()
    assert len(turns(other)) == before + 2 * len(ways)
    again = Api(service.url, f"{user}-3")
    moved(other, again)
    parents = [[line["content"] for line in turns(one) if line["parent"] is None] for one in (other, again)]
    assert parents[0] == parents[1] == [CAT, BOAT]
