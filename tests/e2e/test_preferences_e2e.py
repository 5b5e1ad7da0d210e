"""Preferences through the service: learnt from the user's words, shown with strength and evidence, reset."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tests.e2e.talk import ask, tell
from tests.service_fixture import Service

BASE = "/memory/v1/preferences"


def listed(service: Service, user: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = service.call("GET", BASE, X_Memory_User=user)["data"]
    return found


def test_what_was_said_more_often_is_held_more_strongly_and_names_its_turns(service: Service, user: str) -> None:
    for at in range(3):
        tell(service, "I like green tea.", user, session=f"morning-{at}")
    tell(service, "I like raspberry jam.", user)
    tell(service, "My brother is called Matej.", user)
    first, second = listed(service, user)
    assert "green tea" in first["statement"] and "raspberry" in second["statement"], "and no other fact"
    assert (first["said"], first["sessions"]) == (3, 3) and (second["said"], second["sessions"]) == (1, 1)
    assert 0 < second["strength"] < first["strength"] <= 1
    assert len(first["evidence"]) == 3 and first["since"] <= first["last_said"]
    assert listed(service, user + "-not") == []


def test_one_that_is_pinned_is_held_wholly(service: Service, user: str) -> None:
    tell(service, "I like raspberry jam.", user)
    (one,) = listed(service, user)
    path = f"/memory/v1/memories/{one['memory_id']}"
    service.call("PATCH", path, {"pinned": True}, X_Memory_User=user, If_Match=str(one["version"]))
    assert listed(service, user)[0]["strength"] == 1.0


def test_a_reset_hides_and_can_be_undone(service: Service, user: str) -> None:
    tell(service, "I like green tea.", user)
    tell(service, "I like raspberry jam.", user)
    tea, jam = sorted(listed(service, user), key=lambda one: str(one["statement"]))
    gone = service.call("POST", f"{BASE}/reset", {"memories": [tea["memory_id"]]}, X_Memory_User=user)
    assert gone["memories"] == [tea["memory_id"]]
    assert [one["memory_id"] for one in listed(service, user)] == [jam["memory_id"]]
    twice = service.call("POST", f"{BASE}/reset", {"memories": [tea["memory_id"]]}, X_Memory_User=user)
    assert twice["error"]["code"] == "not_found"
    service.call("POST", f"/memory/v1/memories/{tea['memory_id']}/undelete", X_Memory_User=user)
    assert len(listed(service, user)) == 2
    assert len(service.call("POST", f"{BASE}/reset", {}, X_Memory_User=user)["memories"]) == 2
    assert listed(service, user) == []
    ask(service, "What do I like?", user)


def test_one_that_is_named_twice_is_reset_once(service: Service, user: str) -> None:
    tell(service, "I like green tea.", user)
    (tea,) = [one["memory_id"] for one in listed(service, user)]
    gone = service.call("POST", f"{BASE}/reset", {"memories": [tea, tea.upper()]}, X_Memory_User=user)
    assert gone.get("memories") == [tea], gone
    assert listed(service, user) == []


def test_the_command_shows_and_resets(service: Service, user: str) -> None:
    def run(*words: str) -> str:
        argv = [sys.executable, "-m", "proxy", "preferences", *words, "--url", service.url, "--user", user]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    tell(service, "I like green tea.", user)
    assert "green tea" in run() and "(1 x in 1)" in run()
    assert run("--reset-all").endswith("is hidden\n")
    assert run() == "none\n"


def test_one_that_is_past_its_end_is_not_listed(service: Service, user: str) -> None:
    tell(service, "I like green tea.", user)
    (tea,) = listed(service, user)
    path, past = f"/memory/v1/memories/{tea['memory_id']}", {"expires_at": "2020-01-01T00:00:00Z"}
    service.call("PATCH", path, past, X_Memory_User=user, If_Match=str(tea["version"]))
    assert listed(service, user) == []


def test_nothing_that_was_said_before_holds_again_after_a_reset_of_all(service: Service, user: str) -> None:
    for text in ("My favourite colour is blue.", "My favourite colour is green.", "I like green tea."):
        tell(service, text, user)
    tell(service, "I don't like green tea any more.", user)
    assert len(service.call("POST", f"{BASE}/reset", {}, X_Memory_User=user)["memories"]) == 4
    assert listed(service, user) == []


def test_two_who_reset_all_at_once_both_do(service: Service, user: str) -> None:
    for what in ("green tea", "raspberry jam", "old maps", "night trains"):
        tell(service, f"I like {what}.", user)
    with ThreadPoolExecutor(4) as pool:
        asked = [pool.submit(service.call, "POST", f"{BASE}/reset", {}, X_Memory_User=user) for _ in range(4)]
    assert all("memories" in one.result() for one in asked), [one.result() for one in asked]
    assert listed(service, user) == []
