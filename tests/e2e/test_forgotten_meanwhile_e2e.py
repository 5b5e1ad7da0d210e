"""A write for a user whom another process has forgotten while this one still knew their scope."""

from __future__ import annotations

import asyncio

import pytest

from tests.e2e.talk import rows
from tests.service_fixture import Service

# As a process does that forgets, but for its word: that may be lost with Redis.
FORGET = """
WITH gone AS (SELECT tenant_id, scope_id FROM scopes WHERE user_name = $1),
     tasks_gone AS (DELETE FROM tasks USING gone WHERE tasks.scope_id = gone.scope_id),
     personas_gone AS (DELETE FROM personas USING gone WHERE personas.scope_id = gone.scope_id)
DELETE FROM memories USING gone WHERE memories.scope_id = gone.scope_id
"""
WAYS = (
    ("/memory/v1/personas", {"name": "desk", "facets": {"tone": "dry"}}),
    ("/memory/v1/tasks", {"tasks": [{"title": "Mend the net"}]}),
)


@pytest.mark.parametrize(("path", "body"), WAYS)
def test_it_is_a_conflict_and_sent_again_it_is_kept(
    service: Service, user: str, path: str, body: dict[str, object]
) -> None:
    assert "error" not in service.call("POST", path, body, X_Memory_User=user)
    asyncio.run(rows(service, FORGET, user))
    asyncio.run(rows(service, "DELETE FROM scopes WHERE user_name = $1", user))
    refused = service.call("POST", path, body, X_Memory_User=user)["error"]
    assert refused["code"] == "conflict" and "send it again" in refused["message"]
    assert "error" not in service.call("POST", path, body, X_Memory_User=user)
    assert len(service.call("GET", path, X_Memory_User=user)["data"]) >= 1
