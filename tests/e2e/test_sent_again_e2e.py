"""What is sent again because its answer never came: done once, and answered as the first time."""

from __future__ import annotations

from typing import Any

import pytest

from tests.service_fixture import Service

CHANGES: tuple[tuple[str, dict[str, Any], dict[str, Any]], ...] = (
    ("tasks", {"notes": "Oak, 5 m."}, {"notes": "Oak, 6 m."}),
    ("tasks", {"status": "running"}, {"status": "blocked"}),
    ("tasks", {"needs": []}, {"needs": [], "title": "Saw the beams"}),
    ("entities", {"aliases": ["Annie"], "properties": {"age": 41}}, {"aliases": ["Anna"]}),
    ("personas", {"facets": {"tone": "warm"}, "sensitivity": "public"}, {"facets": {"tone": "dry"}}),
    ("personas", {"interests": ["boats"], "sensitivity": "confidential"}, {"interests": ["mills"]}),
    ("personas", {"description": "Answer in one line."}, {"description": "Answer in two lines."}),
    ("checkpoints", {"notes": "The mill is shut.", "goals": ["Oak.", "A jetty."]}, {"goals": ["A jetty."]}),
    ("artifacts", {"caption": "the yard at Bled", "metadata": {"floor": 1}}, {"caption": "the yard at Piran"}),
)
FORM = b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.bin"\r\n\r\n\x00\x01yard\r\n--x--\r\n'


def made(service: Service, user: str, kind: str) -> str:
    """A record of this kind at version 1; its path."""
    path = f"/memory/v1/{kind}"
    if kind == "artifacts":
        form = {"Content-Type": "multipart/form-data; boundary=x"}
        return f"{path}/{service.call('POST', path, FORM, X_Memory_User=user, **form)['id']}"
    bodies: dict[str, Any] = {
        "tasks": {"tasks": [{"title": "Order the timber"}]},
        "entities": {"name": "Ana Kovac", "type": "person"},
        "personas": {"name": "brief", "description": "Answer briefly."},
        "checkpoints": {"name": "monday", "notes": "The mill is open.", "goals": ["A jetty."]},
    }
    answer = service.call("POST", path, bodies[kind], X_Memory_User=user)
    named = answer["data"][0]["id"] if kind == "tasks" else answer["id"] if kind == "entities" else answer["name"]
    return f"{path}/{named}"


@pytest.mark.parametrize(("kind", "change", "other"), CHANGES)
def test_a_change_that_is_sent_again_is_done_once(
    service: Service, user: str, kind: str, change: dict[str, Any], other: dict[str, Any]
) -> None:
    path = made(service, user, kind)
    first = service.call("PATCH", path, change, X_Memory_User=user, If_Match="1")
    assert first["version"] == 2, first
    assert service.call("PATCH", path, change, X_Memory_User=user, If_Match="1") == first
    refused = service.call("PATCH", path, other, X_Memory_User=user, If_Match="1")
    assert refused["error"]["code"] == "conflict"
    assert service.call("GET", path, X_Memory_User=user)["version"] == 2
    again = service.call("PATCH", path, other, X_Memory_User=user, If_Match="2")
    assert again["version"] == 3
    refused = service.call("PATCH", path, change, X_Memory_User=user, If_Match="1")
    assert refused["error"]["code"] == "conflict"


def test_a_tie_and_a_merge_that_are_sent_again_are_done_once(service: Service, user: str) -> None:
    def call(method: str, path: str, body: Any = None) -> Any:
        return service.call(method, f"/memory/v1{path}", body, X_Memory_User=user)

    names = ("Ana Kovac", "Ana K.", "Mole works")
    ana, twin, works = [call("POST", "/entities", {"name": one, "type": "person"})["id"] for one in names]
    tie = {"source": ana, "type": "works_at", "target": works, "valid_from": "2026-03-01T00:00:00Z"}
    first = call("POST", "/relationships", tie)
    assert call("POST", "/relationships", tie) == first
    others: list[dict[str, Any]] = [
        {"valid_from": "2026-04-01T00:00:00Z"},
        {"sensitivity": "confidential"},
        {"properties": {"since": 9}},
    ]
    ids = {call("POST", "/relationships", {**tie, **more})["id"] for more in others}
    assert len(ids | {first["id"]}) == 4
    assert call("DELETE", f"/relationships/{first['id']}")["deleted"] is True
    assert call("POST", "/relationships", tie)["id"] not in {*ids, first["id"]}
    merged = call("POST", f"/entities/{twin}/merge", {"into": ana})
    assert call("POST", f"/entities/{twin}/merge", {"into": ana}) == merged
    assert call("POST", f"/entities/{twin}/merge", {"into": works})["error"]["code"] == "conflict"
