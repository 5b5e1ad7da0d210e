"""A store with one of everything, its copy, and a copy of that: all export the same, but for what must differ."""

from __future__ import annotations

import json
from typing import Any

from tests.e2e.talk import ask, tell, turn
from tests.e2e.test_copies_e2e import CALL, OTHER_PIXEL, PIXEL, SECRET, SIGNED, shown
from tests.e2e.test_edits_travel_e2e import change, hide, named
from tests.e2e.test_memories_travel_e2e import own
from tests.e2e.test_records_travel_e2e import furnished, make, send
from tests.service_fixture import Service
from tests.test_api_e2e import Api

Line = dict[str, Any]
# Of this store: its ids and its clock.
_OF_THE_STORE = ("event_id", "event_ids", "recorded_at", "id", "memory_id", "source", "target", "needs")


def everything(service: Service, user: str) -> Api:
    """One of everything that an export has."""
    api = Api(service.url, user)
    lines: list[Line] = [
        {"role": "system", "content": "You are terse.", "session": "diary"},
        {"role": "user", "name": "ada", "content": "I moved to Piran.", "session": "diary", "source_id": "d1",
         "occurred_at": "2026-03-01T08:00:00Z"},
        {"role": "assistant", "content": "Noted.", "session": "diary", "occurred_at": "2026-03-01T08:00:01Z"},
        {"role": "user", "content": "My blood group is B.", "session": "diary", "sensitivity": "confidential",
         "occurred_at": "2026-03-02T08:00:00Z"},
    ]  # fmt: skip
    assert send(api, lines)[0] == []
    for said in (SECRET, shown(PIXEL), shown(OTHER_PIXEL), shown(SIGNED)):
        assert ask(service, [turn("user", said)], user).status == 200
    errand = [
        turn("user", "Log me in, please."),
        turn("assistant", None, tool_calls=[CALL]),
        turn("tool", "You are in; the session ends at noon.", tool_call_id="c1"),
    ]
    assert ask(service, errand, user).status == 200
    opening = [turn("user", "I own a wooden boat called Petrel."), turn("assistant", "A fine boat.")]
    for words in ("Where is she moored?", "What does she draw?"):
        assert ask(service, [*opening, turn("user", words)], user, session="boat").status == 200
    for fact in ("I live in Ljubljana.", "My favourite tea is oolong.", "I own a grey cat called Tiger."):
        tell(service, fact, user)
    furnished(api)
    make(api, "POST", "checkpoints", {"name": "boat", "session": "boat", "notes": "She leaks.", "summary": True})
    change(api, named(api, "oolong"), importance=0.9, expires_at="2031-05-01T00:00:00Z")
    change(api, own(api, "Petrel"), pinned=True)
    hide(api, own(api, "Tiger"))
    service.settle()
    return api


def copied(service: Service, api: Api, user: str) -> Api:
    """A copy of all of it in the scope of another user."""
    other = Api(service.url, user)
    errors, end = send(other, [line for line in export(api) if line["type"] not in ("document", "artifact")])
    assert (errors, end["failed"]) == ([], 0)
    service.settle()
    return other


def export(api: Api) -> list[Line]:
    return api.get("/memory/v1/export").lines


def told(api: Api, *, origin: bool) -> dict[str, list[str]]:
    """What an export says, by the type of its lines, in the words of no store; `origin`: how it came there, too."""
    lines = export(api)
    words = {line["id"]: _words(line) for line in lines if line["type"] != "turn"}
    said: dict[str, list[str]] = {}
    for line in lines:
        if line["type"] == "memory" and (line["kind"] == "working" or line.get("edited", {}).get("hidden")):
            continue  # what a record says stands in its own line; of what was deleted there is nothing in a copy
        plain = {name: value for name, value in line.items() if name not in _OF_THE_STORE}
        if line["type"] == "turn":
            plain["source_id"] = line.get("source_id", line["event_id"])
        elif line["type"] == "memory":
            plain |= {"created_at": "", "superseded_by": words.get(line.get("superseded_by", ""))}
            plain |= {"edited": {**line["edited"], "at": ""}} if "edited" in line else {}
        else:
            plain |= {end: words[line[end]] for end in ("source", "target") if end in line}
            plain |= {"parts": [{**part, "memory_id": ""} for part in line.get("parts", ())]}
            plain |= {"needs": [words[one] for one in line.get("needs", ())]}
        plain |= {} if origin else {"origin": ""}
        said.setdefault(line["type"], []).append(json.dumps(plain, sort_keys=True))
    return {name: sorted(lines) for name, lines in said.items()}


def _words(line: Line) -> str:
    return str(next(line[name] for name in ("content", "name", "title", "tie") if name in line))


def test_a_copy_exports_what_it_was_made_of(service: Service, user: str) -> None:
    api = everything(service, user)
    other = copied(service, api, f"{user}-2")
    assert told(other, origin=False) == told(api, origin=False)
    third = copied(service, other, f"{user}-3")
    assert told(third, origin=True) == told(other, origin=True)
