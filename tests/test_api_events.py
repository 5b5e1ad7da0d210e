"""The lifecycle feed by the API: what became of memories, oldest first, to be polled by the last cursor."""

from __future__ import annotations

import json
import urllib.request
from typing import Any

import pytest

from tests.service_fixture import Service
from tests.test_api_e2e import TALK, Api


@pytest.fixture
def api(service: Service, user: str) -> Api:
    return Api(service.url, user)


def read(api: Api, **query: str) -> list[dict[str, Any]]:
    """Everything behind `after`, page by page."""
    rows: list[dict[str, Any]] = []
    while True:
        answer = api.get("/memory/v1/events", **query)
        assert answer.status == 200, answer.body
        rows += answer.json["data"]
        assert answer.json["missed"] == 0
        if answer.json["next_cursor"] is None:
            return rows
        query["after"] = answer.json["next_cursor"]


def test_every_change_is_in_the_feed_once_and_in_order(api: Api) -> None:
    assert api.get("/memory/v1/events").json == {"data": [], "next_cursor": None, "missed": 0}
    api.take_in(*TALK)
    made = read(api, limit="2")
    kinds = ["episodic"] * 3 + ["semantic"]  # what the three turns are, and that there is a sister called Ada
    assert [(one["what"], one["version"], one["kind"]) for one in made] == [("created", 1, kind) for kind in kinds]
    assert made == read(api)
    memory_id, fact_id = made[0]["memory_id"], made[3]["memory_id"]
    path = f"/memory/v1/memories/{memory_id}"
    assert api.call("PATCH", path, {"content": "Ada keeps goats.", "pinned": True}, If_Match="1").status == 200
    assert api.call("PATCH", path, {"validation_status": "confirmed"}, If_Match="2").status == 200
    assert api.call("DELETE", path).status == 200
    later = read(api, after=made[-1]["cursor"])
    assert [(one["what"], one["version"], one["by"]) for one in later] == [
        ("updated", 2, "api"),
        ("updated", 3, "api"),
        ("revalidated", 3, "api"),
        ("deleted", 3, "api"),
        ("deleted", 1, "api"),
    ]
    assert [one["memory_id"] for one in later] == [memory_id] * 4 + [fact_id]
    assert later[0]["metadata"] == {"integrity": "user", "sensitivity": "internal", "changed": ["content", "pinned"]}
    assert read(api, after=later[-1]["cursor"]) == []
    assert read(api) == made + later
    assert "goats" not in json.dumps(read(api)) and "bees" not in json.dumps(read(api))


def test_tool_calls_and_outputs_are_shown_and_travel(service: Service, user: str) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Lisbon"}'}}
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "iVBORw0KGgo=" * 2000}}
    messages = [
        {"role": "user", "content": [{"type": "text", "text": "How is it there?"}, picture]},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "Sun, 24 degrees. " + "row " * 1_000},
    ]
    body = {"model": "fake-model", "messages": messages}
    headers = {"X-Memory-User": user, "X-Memory-Session": "trip", "Content-Type": "application/json"}
    request = urllib.request.Request(f"{service.openai}/chat/completions", json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=60) as answer:
        answer.read()
    service.settle()
    api = Api(service.url, user)
    asked, called, output, _ = api.get("/memory/v1/sessions/trip").json["turns"]
    assert called["tool_calls"] == [call] and called["content"] == ""
    assert (output["name"], output["tool_call_id"], output["integrity"]) == ("weather", "c1", "tool")
    assert output["content"].count("row") == 1_000
    (part,) = asked["parts"]
    assert (part["type"], part["media_type"], len(part["sha256"])) == ("image_url", "image/png", 64)
    assert "iVBOR" not in json.dumps(api.get("/memory/v1/sessions/trip").json)
    exported = [line for line in api.get("/memory/v1/export").lines if line["type"] == "turn"]
    assert exported[0]["parts"] == [part] and exported[1]["tool_calls"] == [call]
    there = Api(service.url, user, project="elsewhere")
    assert there.take_in(*exported)[-1] == {"accepted": 4, "done": 4, "failed": 0, "complete": True}
    again = there.get("/memory/v1/sessions/trip").json["turns"]
    assert (again[1]["tool_calls"], again[2]["name"], again[2]["tool_call_id"]) == ([call], "weather", "c1")
    assert {one["kind"] for one in read(api)} == {"episodic"} and len(read(api)) == 2


def test_what_a_conversation_leaves_behind_is_told(service: Service, user: str) -> None:
    body = {"model": "fake-model", "messages": [{"role": "user", "content": "My cat is called Miso."}]}
    headers = {"X-Memory-User": user, "Content-Type": "application/json"}
    request = urllib.request.Request(f"{service.openai}/chat/completions", json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=60) as answer:
        answer.read()
    service.settle()
    told = read(Api(service.url, user))
    assert [one["what"] for one in told] == ["created"] * 3
    assert [one["metadata"]["integrity"] for one in told] == ["user", "assistant", "user"]
    assert len({one["by"] for one in told}) == 1


@pytest.mark.parametrize("after", ["", "x", "0", "WyJldmVudHMiLCJhc2MiLCIxLjEiXQ", "é", "a" * 5000])
def test_a_cursor_that_is_none_is_refused_by_name(api: Api, after: str) -> None:
    api.take_in(*TALK)
    refused = api.get("/memory/v1/events", after=after)
    assert (refused.status, refused.error["code"], refused.error["param"]) == (400, "memory_invalid", "after")


def test_a_cursor_of_another_scope_or_list_and_a_bad_limit_are_refused(api: Api, service: Service, user: str) -> None:
    api.take_in(*TALK)
    other = Api(service.url, user, project="other")
    other.take_in(*TALK)
    cursor = read(api)[0]["cursor"]
    assert other.get("/memory/v1/events", after=cursor).error["param"] == "after"
    listed = api.get("/memory/v1/memories", limit="1").json["next_cursor"]
    assert api.get("/memory/v1/events", after=listed).error["param"] == "after"
    assert api.get("/memory/v1/memories", cursor=cursor).error["param"] == "cursor"
    for limit in ("0", "1001", "x"):
        assert api.get("/memory/v1/events", limit=limit).error["param"] == "limit"
    assert api.get("/memory/v1/events", order="desc").error["param"] == "order"
    assert {one["memory_id"] for one in read(api)}.isdisjoint({one["memory_id"] for one in read(other)})
