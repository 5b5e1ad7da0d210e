"""Audit log, sharing and canaries on a running service with keys: two workers, two tenants, the same names in both."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from tests.service_fixture import Service
from tests.test_isolation_e2e import ALL, Caller, Keyed, last_body
from tests.waiting import wait_until

SAID = "The release train of Ostermoor leaves on Tuesdays at nine."
QUESTION = "When does the release train of Ostermoor leave?"
SHARES = (*ALL, "memory:share:project", "memory:share:tenant")


@pytest.fixture
def keyed(keyed_service: Service) -> Keyed:
    return Keyed(keyed_service)


def rows_of(admin: Caller, query: str = "") -> list[dict[str, Any]]:
    answer = admin.call("GET", f"/memory/v1/audit?limit=1000{query}")
    assert answer.status == 200, answer
    rows: list[dict[str, Any]] = answer.json["data"]
    return rows


def told(caller: Caller) -> str:
    """Say it; the id of the memory that it became."""
    caller.ask(SAID)
    caller.settle()
    found = [one for one in caller.call("GET", "/memory/v1/memories").json["data"] if SAID in one["content"]]
    memory: str = found[-1]["id"]
    return memory


def audit_command(keyed: Keyed, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "proxy", "audit", *words, "--data-dir", str(keyed.service.data)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


def sql(keyed: Keyed, statement: str) -> Any:
    """One statement as the owner."""

    async def run() -> Any:
        database = json.loads((keyed.service.data / "run" / "settings.json").read_text())["database"]
        connection = await asyncpg.connect(database["owner_url"])
        try:
            return await connection.fetchval(statement)
        finally:
            await connection.close()

    return asyncio.run(run())


def test_sharing_shows_a_memory_to_the_project_and_to_nobody_else_until_it_is_taken_back(
    keyed: Keyed, upstream: str
) -> None:
    tenant = "sharers"
    _, may = keyed.key(tenant, can=SHARES)
    _, may_not = keyed.key(tenant, can=(*ALL, "memory:read:project"))
    _, admin_key = keyed.key(tenant, can=("memory:admin",))
    _, foreign = keyed.key("others")
    ada = keyed.caller(may, user="ada", project="p")
    bob, stranger = keyed.caller(may_not, user="bob", project="p"), keyed.caller(may_not, user="bob", project="q")
    foreigner = keyed.caller(foreign, user="bob", project="p")
    memory = told(ada)
    path = f"/memory/v1/memories/{memory}/share"
    body = {"to": "project"}
    refused = keyed.caller(may_not, user="ada", project="p").call("POST", path, body)
    assert (refused.status, refused.json["error"]["code"]) == (403, "capability_missing")
    assert bob.call("POST", path, body).status == 403
    made = ada.call("POST", path, body)
    assert made.status == 200, made
    assert made.json["shared"] is True
    assert ada.call("POST", path, body).json["shared"] is False, "a second time it is there already"

    def recalled() -> bool:
        return SAID in bob.call("POST", "/memory/v1/search", {"query": QUESTION, "k": 5}).body.decode()

    wait_until(recalled, what="the project is shown it")
    candidate = next(
        one
        for one in bob.call("POST", "/memory/v1/search", {"query": QUESTION, "k": 5}).json["candidates"]
        if one["content"] == SAID
    )
    assert candidate["scope"] == {"user": "", "project": "p", "agent": "", "visibility": "project"}
    assert (candidate["kind"], candidate["integrity"]) == ("document", "user")
    bob.ask(QUESTION)
    assert SAID in last_body(upstream), "and so is the model, in a prompt of the project"
    for outsider in (stranger, foreigner):
        outsider.ask(QUESTION)
        assert SAID not in last_body(upstream)
        assert SAID not in outsider.call("POST", "/memory/v1/search", {"query": QUESTION, "k": 50}).body.decode()
        gone = outsider.call("GET", f"/memory/v1/memories/{made.json['id']}")
        assert gone.status == 404
    assert ada.call("POST", f"/memory/v1/memories/{memory}/unshare", body).json["ids"] == [made.json["id"]]
    wait_until(lambda: not recalled(), what="it is taken back")
    admin = keyed.caller(admin_key)
    # Two workers, each of which writes what it noted every half second.
    noted = {"read.shared", "refused"}
    wait_until(
        lambda: noted <= {row["action"] for row in rows_of(admin)},
        what="the read that crossed scopes is noted, and what was refused",
    )
    rows = rows_of(admin)
    by_action = {row["action"]: row for row in reversed(rows)}
    assert {"share.project", "unshare.project", "read.shared", "refused"} <= set(by_action)
    assert by_action["share.project"]["ids"] == [memory, made.json["id"]]
    assert made.json["id"] in by_action["read.shared"]["ids"]
    text = json.dumps(rows)
    for never in (SAID, may, may_not, admin_key, '"ada"', '"bob"'):
        assert never not in text


def test_changes_exports_imports_and_refusals_leave_rows_that_only_an_admin_of_the_tenant_reads(keyed: Keyed) -> None:
    key_id, may = keyed.key("acting")
    _, admin_key = keyed.key("acting", can=("memory:admin",))
    _, elsewhere = keyed.key("acting-elsewhere", can=("memory:admin",))
    ada = keyed.caller(may, user="ada")
    memory = told(ada)
    assert ada.call("PATCH", f"/memory/v1/memories/{memory}", {"pinned": True}, If_Match="1").status == 200
    verdict = {"validation_status": "confirmed"}
    assert ada.call("PATCH", f"/memory/v1/memories/{memory}", verdict, If_Match="2").status == 200
    assert ada.call("PATCH", f"/memory/v1/memories/{memory}", {"pinned": False}, If_Match="1").status == 409
    assert ada.call("GET", "/memory/v1/export").status == 200
    assert ada.call("DELETE", f"/memory/v1/memories/{memory}").status == 200
    assert ada.call("GET", "/memory/v1/audit").json["error"]["code"] == "capability_missing"
    admin = keyed.caller(admin_key)
    wait_until(lambda: [row for row in rows_of(admin) if row["action"] == "refused"], what="the refusal is noted")
    rows = rows_of(admin, "&order=asc")
    acts = [row["action"] for row in rows if row["action"] != "refused"]
    assert acts == ["memory.patch", "memory.review", "export", "memory.delete"], "what failed is no act"
    assert {row["actor"] for row in rows} == {str(key_id)}
    assert [row["seq"] for row in rows] == list(range(1, len(rows) + 1))
    assert [row["action"] for row in rows_of(admin, f"&id={memory}&action=memory.delete")] == ["memory.delete"]
    assert rows_of(keyed.caller(elsewhere)) == []
    for bad in ("&decision=perhaps", "&since=yesterday", "&nothing=1", "&action=" + "x" * 65, "&cursor=x"):
        assert admin.call("GET", f"/memory/v1/audit?limit=10{bad}").json["error"]["code"] == "memory_invalid", bad


@pytest.mark.long
def test_verify_says_whole_and_names_the_first_bad_row(keyed: Keyed) -> None:
    _, may = keyed.key("verified")
    ada = keyed.caller(may)
    for _ in range(4):
        assert ada.call("GET", "/memory/v1/export").status == 200
    whole = audit_command(keyed, "verify", "--tenant", "verified", "--json")
    assert whole.returncode == 0, whole.stderr
    (chain,) = json.loads(whole.stdout)["chains"]
    assert (chain["rows"], chain["whole"]) == (4, True)
    listed = audit_command(keyed, "list", "--tenant", "verified", "--action", "export", "--limit", "2")
    assert listed.returncode == 0
    assert listed.stdout.count("export") == 2
    tenant = UUID(chain["tenant_id"])
    sql(keyed, f"UPDATE audit_log SET actor = 'somebody' WHERE tenant_id = '{tenant}' AND seq = 3")
    broken = audit_command(keyed, "verify", "--tenant", "verified")
    assert broken.returncode == 1
    assert "BROKEN at row 3" in broken.stdout
    assert audit_command(keyed, "verify", "--tenant", "nobody").returncode == 2


def test_a_canary_is_shown_to_nobody_and_raises_an_alert_in_another_tenant(keyed: Keyed) -> None:
    _, ours = keyed.key("canary-owner", can=(*ALL, "memory:admin"))
    _, theirs = keyed.key("canary-thief", can=(*ALL, "memory:admin", "metrics:read"))
    owner, thief = keyed.caller(ours), keyed.caller(theirs)
    text = wait_until(
        lambda: sql(
            keyed,
            "SELECT v.content FROM memory_versions v JOIN scopes s USING (tenant_id, scope_id)"
            " JOIN tenants t USING (tenant_id) WHERE s.visibility = 'canary' AND t.name = 'canary-owner'",
        ),
        what="a canary is planted",
    )
    token = text.split()[-1].rstrip(".")
    assert token.startswith("mpcanary-")
    for answer in (
        owner.call("POST", "/memory/v1/search", {"query": text, "k": 200}),
        owner.call("GET", "/memory/v1/memories?limit=1000"),
        owner.call("GET", "/memory/v1/export"),
    ):
        assert answer.status == 200
        assert token not in answer.body.decode(), "not even the tenant's own users are shown it"

    def seen() -> float:
        page = thief.call("GET", "/memory/metrics").body.decode()
        found = [line for line in page.splitlines() if line.startswith("memory_proxy_canary_seen_total{")]
        return sum(float(line.rsplit(" ", 1)[1]) for line in found)

    made_up = token[:-1] + ("0" if token[-1] != "0" else "1")
    thief.ask(f"I made this up: {made_up}", X_Memory_Mode="read")
    owner.ask(f"This is mine: {token}", X_Memory_Mode="read")
    time.sleep(1.5)
    assert seen() == 0, "neither a forged canary nor a tenant's own raises anything"
    thief.ask(f"Look what I found: {token}", X_Memory_Mode="read")
    wait_until(seen, what="the alert is counted")
    log = wait_until(
        lambda: keyed.service.tail() if "canary_seen" in keyed.service.log.read_text() else "", what="a line"
    )
    assert token not in keyed.service.log.read_text(), log
    row = wait_until(lambda: rows_of(owner, "&action=canary.seen"), what="the owner's audit row")[0]
    assert (row["actor"], row["decision"]) == ("canary", "noted")
    assert token not in json.dumps(row)
