"""Isolation on a running service: what one identity said is nowhere in what another one is answered.

Open mode: another user, project, agent. Keys mode: another tenant with the very same names, revoked keys, keys that fix
a user. And the second wall: with our own filter left out, the database shows the served role nothing of the other one.
"""

from __future__ import annotations

import asyncio
import base64
import http.client
import json
import time
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote, urlsplit
from uuid import UUID

import asyncpg
import pytest

from memory.adapters.postgres.database import Database
from memory.adapters.postgres.keys import KeyStore
from tests.service_fixture import Service
from tests.waiting import wait_until

SECRET = "The harbour master of Veldsteen keeps the brass lantern under the third step."
QUESTION = "Where does the harbour master of Veldsteen keep the brass lantern?"
TELLTALE = "brass lantern under the third step"
ALL = ("memory:read:own", "memory:write", "act:any_user")
CONTENT = (
    "sessions", "exchanges", "turns", "memories", "memory_versions", "memory_access", "provenance", "derivations",
    "retrievals", "ledger", "import_chunks", "outbox",
)  # fmt: skip
OUTSIDERS = {"user": {"X-Memory-User": "eve"}, "project": {"X-Memory-Project": "q"}, "agent": {"X-Memory-Agent": "b"}}


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer, read whole."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True, slots=True)
class Caller:
    """Somebody with an identity: headers sent with every call."""

    url: str
    identity: Mapping[str, str]

    def call(self, method: str, path: str, body: Any = None, **more: str) -> Answer:
        connection = http.client.HTTPConnection(urlsplit(self.url).netloc, timeout=60)
        headers = {
            "Content-Type": "application/json",
            **self.identity,
            **{name.replace("_", "-"): value for name, value in more.items()},
        }
        try:
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            answer = connection.getresponse()
            found = {name.lower(): value for name, value in answer.getheaders()}
            return Answer(answer.status, found, answer.read())
        finally:
            connection.close()

    def ask(self, text: str, **more: str) -> Answer:
        body = {"model": "fake-model", "max_tokens": 8, "messages": [{"role": "user", "content": text}]}
        return self.call("POST", "/v1/chat/completions", body, **more)

    def search(self, **more: str) -> Answer:
        return self.call("POST", "/memory/v1/search", {"query": QUESTION, "k": 50}, **more)

    def settle(self) -> None:
        """Wait until everything captured is stored."""
        wait_until(self._is_settled, what="the queue settles")

    def _is_settled(self) -> bool:
        answer = self.call("GET", "/memory/v1/queue")
        return answer.status == 200 and answer.json["pending"] + answer.json["in_flight"] == 0


@dataclass(frozen=True, slots=True)
class Told:
    """What the owner has, by the ids that an outsider may have got hold of."""

    owner: Caller
    memory: str
    session: str
    retrieval: str


def tell(owner: Caller, upstream: str) -> Told:
    """Let the owner tell the secret, and be given it back in another conversation."""
    session = owner.ask(SECRET).headers["x-memory-session"]
    owner.settle()
    found = owner.search()
    assert TELLTALE in found.body.decode(), "the owner finds it, or these tests prove nothing"
    reminded = owner.ask(QUESTION)
    assert reminded.headers["x-memory-status"].startswith("injected")
    assert TELLTALE in last_body(upstream)
    owner.settle()
    memories = [each for each in owner.call("GET", "/memory/v1/memories").json["data"] if TELLTALE in each["content"]]
    return Told(owner, memories[0]["id"], session, reminded.headers["x-memory-retrieval"])


def assert_nothing_seen(told: Told, outsider: Caller, upstream: str) -> None:
    """Every way of reading, by content and by id."""
    for answer in (
        outsider.search(),
        outsider.call("GET", "/memory/v1/memories?limit=1000"),
        outsider.call("GET", "/memory/v1/sessions?limit=1000"),
        outsider.call("GET", "/memory/v1/export"),
    ):
        assert answer.status == 200, answer
        text = answer.body.decode()
        assert TELLTALE not in text
        assert told.memory not in text
        assert told.session not in text
    for method, path, body in (
        ("GET", f"/memory/v1/memories/{told.memory}", None),
        ("PATCH", f"/memory/v1/memories/{told.memory}", {"pinned": True}),
        ("DELETE", f"/memory/v1/memories/{told.memory}", None),
        ("GET", f"/memory/v1/sessions/{quote(told.session, safe='')}", None),
        ("GET", f"/memory/v1/retrievals/{told.retrieval}", None),
    ):
        answer = outsider.call(method, path, body, If_Match="1")
        assert (answer.status, answer.json["error"]["code"]) == (404, "not_found"), (method, path, answer)
    asked = outsider.ask(QUESTION, X_Memory_Session=told.session)
    assert asked.status == 200
    assert TELLTALE not in last_body(upstream), "not even by the name of the owner's session"
    assert TELLTALE in told.owner.call("GET", f"/memory/v1/memories/{told.memory}").body.decode(), "and nothing changed"


def last_body(upstream: str) -> str:
    """The body that the stand-in was asked last."""
    return base64.b64decode(_last(upstream)["body"]).decode()


def _last(upstream: str) -> dict[str, Any]:
    with urllib.request.urlopen(f"{upstream}/__last?n=1", timeout=10) as answer:
        record: dict[str, Any] = json.loads(answer.read())["data"][0]
    return record


# ---------------------------------------------------------------- open mode: labels inside one trust domain


@pytest.fixture(scope="module")
def told(service: Service, upstream: str) -> Told:
    names = {"X-Memory-User": "ada", "X-Memory-Project": "p", "X-Memory-Agent": "a"}
    return tell(Caller(service.url, names), upstream)


@pytest.mark.parametrize("differs", OUTSIDERS)
def test_another_user_project_or_agent_is_told_nothing(
    service: Service, upstream: str, told: Told, differs: str
) -> None:
    outsider = Caller(service.url, {**told.owner.identity, **OUTSIDERS[differs]})
    outsider.ask(f"I am another {differs} and ask about a lantern too.")
    outsider.settle()
    assert_nothing_seen(told, outsider, upstream)


def test_the_database_itself_shows_one_scope_nothing_of_another(service: Service, told: Told) -> None:
    """Raw SQL as the served role, with the settings of another scope and no filter of ours."""
    other = Caller(service.url, {**told.owner.identity, "X-Memory-User": "second-wall"})
    other.ask("I have rows of my own.")
    other.settle()
    asyncio.run(_second_wall(service, told))


async def _second_wall(service: Service, told: Told) -> None:
    database = json.loads((service.data / "run" / "settings.json").read_text())["database"]
    owner, app = await asyncpg.connect(database["owner_url"]), await asyncpg.connect(database["url"])
    try:
        scopes = await owner.fetch("SELECT tenant_id, scope_id, user_name, project, agent FROM scopes")
        tenant = scopes[0]["tenant_id"]
        ids = {(row["user_name"], row["project"], row["agent"]): row["scope_id"] for row in scopes}
        own, foreign = ids["second-wall", "p", "a"], ids["ada", "p", "a"]
        tables = (
            *CONTENT,
            *[row["table_name"] for row in await owner.fetch("SELECT table_name FROM embedding_tables")],
        )
        settings = "SELECT set_config('mp.tenant', $1, false), set_config('mp.scopes', $2, false)"
        assert await app.fetchval("SELECT current_user") == "mp_app"
        await app.fetch(settings, str(tenant), f"{{{own}}}")
        seen = {
            table: {row["scope_id"] for row in await app.fetch(f"SELECT scope_id FROM {table}")} for table in tables
        }
        there = {
            table
            for table in tables
            if await owner.fetchval(f"SELECT count(*) FROM {table} WHERE scope_id = $1", foreign)
        }
        assert {"sessions", "exchanges", "turns", "memories", "memory_versions", "retrievals"} <= there
        assert all(found <= {own} for found in seen.values()), seen
        assert seen["turns"] == {own}, "its own rows are visible, or this proves nothing"
        assert await app.fetchval("SELECT count(*) FROM memory_versions WHERE content LIKE $1", f"%{TELLTALE}%") == 0
        assert await app.execute("UPDATE turns SET content = 'x' WHERE scope_id = $1", foreign) == "UPDATE 0"
        assert await app.execute("DELETE FROM memories WHERE scope_id = $1", foreign) == "DELETE 0"
        await app.fetch(settings, "", "{}")
        assert await app.fetch("SELECT 1 FROM turns LIMIT 1") == [], "no settings, no rows"
        # Another tenant that names the right scope ids.
        await app.fetch(settings, str(UUID(int=7)), f"{{{own},{foreign}}}")
        assert [table for table in tables if await app.fetchval(f"SELECT count(*) FROM {table}")] == []
    finally:
        await owner.close()
        await app.close()


# ---------------------------------------------------------------- keys mode: tenants


@dataclass(frozen=True, slots=True)
class Keyed:
    """A service in keys mode and a way to its key table."""

    service: Service

    def key(
        self, tenant: str, *, fixed: Mapping[str, str] | None = None, can: tuple[str, ...] = ALL
    ) -> tuple[UUID, str]:
        """A new key of a tenant: id and secret; known to every process when this returns."""

        async def create(store: KeyStore) -> tuple[UUID, str]:
            now = datetime.now(UTC)
            return await store.create_api_key(
                await store.ensure_tenant(tenant, now), "a key", now, fixed=fixed, capabilities=can
            )

        made: tuple[UUID, str] = asyncio.run(self._with_store(create))
        time.sleep(1.2)
        return made

    def revoke(self, tenant: str, key_id: UUID) -> None:
        """Revoke it."""

        async def revoke(store: KeyStore) -> bool:
            now = datetime.now(UTC)
            return await store.revoke_api_key(await store.ensure_tenant(tenant, now), key_id, now)

        assert asyncio.run(self._with_store(revoke))

    def caller(self, secret: str, **names: str) -> Caller:
        headers = {f"X-Memory-{name.capitalize()}": value for name, value in names.items()}
        return Caller(self.service.url, {"Authorization": f"Bearer {secret}", **headers})

    async def _with_store(self, work: Any) -> Any:
        settings = json.loads((self.service.data / "run" / "settings.json").read_text())
        database = await Database.open(settings["database"]["url"])
        try:
            return await work(KeyStore(database))
        finally:
            await database.close()


@pytest.fixture
def keyed(keyed_service: Service) -> Keyed:
    return Keyed(keyed_service)


def test_another_tenant_with_the_same_names_is_told_nothing(keyed: Keyed, upstream: str) -> None:
    _, ours = keyed.key("north")
    _, theirs = keyed.key("south")
    names = {"user": "ada", "project": "p", "agent": "a"}
    told = tell(keyed.caller(ours, **names), upstream)
    outsider = keyed.caller(theirs, **names)
    outsider.ask("I live in another house and ask about a lantern too.")
    outsider.settle()
    assert_nothing_seen(told, outsider, upstream)


def test_tenants_share_no_kv_cache_and_no_key_of_ours_reaches_the_upstream(keyed: Keyed, upstream: str) -> None:
    salts = []
    for tenant in ("east", "west"):
        _, secret = keyed.key(tenant)
        assert keyed.caller(secret).ask("The same words.").status == 200
        assert secret not in json.dumps(_last(upstream))
        salts.append(json.loads(last_body(upstream))["cache_salt"])
    assert salts[0] != salts[1]


def test_a_revoked_key_is_refused_by_every_process_within_a_second(keyed: Keyed) -> None:
    key_id, secret = keyed.key("north")
    caller = keyed.caller(secret)
    assert caller.ask("hello").status == 200
    keyed.revoke("north", key_id)
    time.sleep(1.0)
    answers = [caller.ask("hello") for _ in range(12)]  # new connections: both processes take some
    assert {(answer.status, answer.json["error"]["code"]) for answer in answers} == {(401, "invalid_api_key")}
    assert caller.search().status == 401


@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer mp-00000000-nothing"}, {"Authorization": "Basic x"}])
@pytest.mark.parametrize(
    "path", ["/v1/chat/completions", "/v1/models", "/v1/completions", "/memory/v1/export", "/memory/v1/queue"]
)
def test_without_a_known_key_nothing_is_served(keyed: Keyed, headers: dict[str, str], path: str) -> None:
    answer = Caller(keyed.service.url, headers).call("GET", path)
    assert (answer.status, answer.json["error"]["code"]) == (401, "invalid_api_key")


def test_a_key_that_fixes_the_user_acts_for_no_other(keyed: Keyed) -> None:
    _, secret = keyed.key("north", fixed={"user": "bob"})
    for refused in (
        keyed.caller(secret, user="ada").ask("hello"),
        keyed.caller(secret, user="ada").search(),
        keyed.caller(secret).call(
            "POST",
            "/v1/chat/completions",
            {"model": "m", "messages": [{"role": "user", "content": "x"}], "memory": {"user": "ada"}},
        ),
    ):
        assert (refused.status, refused.json["error"]["code"]) == (403, "scope_denied")
    assert keyed.caller(secret, user="bob").ask("hello").status == 200
    assert keyed.caller(secret).ask("hello").status == 200


def test_naming_a_user_needs_the_capability(keyed: Keyed) -> None:
    _, secret = keyed.key("north", can=("memory:read:own", "memory:write"))
    refused = keyed.caller(secret, user="ada").ask("hello")
    assert (refused.status, refused.json["error"]["code"]) == (403, "capability_missing")
    unread = keyed.key("north", can=("act:any_user",))[1]
    assert keyed.caller(unread).search().json["error"]["code"] == "capability_missing"
