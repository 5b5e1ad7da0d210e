"""`keys` mode: the credential decides whose memory it is, whatever the client says; and the upstream sees our key."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import asyncpg
import pytest

from tests.e2e.raw_http import RawAnswer, send
from tests.e2e.talk import connected
from tests.e2e.upstreams import last
from tests.service_fixture import Service, serving
from tests.waiting import wait_until

FACT = "The vault is behind the painting of the herring fleet."
QUESTION = "Where is the vault?"
UPSTREAM_KEY = "sk-upstream-own"


@dataclass(frozen=True, slots=True)
class Keyed:
    """A service in `keys` mode and the secrets of its keys by name."""

    service: Service
    secrets: dict[str, str]

    def post(self, key: str | None, body: dict[str, Any], *headers: tuple[bytes, bytes]) -> RawAnswer:
        """A chat completion under a key."""
        pairs = [(b"Content-Type", b"application/json"), *headers]
        if key is not None:
            pairs.append((b"Authorization", b"Bearer " + self.secrets.get(key, key).encode()))
        return send(self.service.url, "POST", "/v1/chat/completions", pairs, json.dumps(body).encode())

    def ask(self, key: str | None, text: str, *headers: tuple[bytes, bytes], **more: Any) -> RawAnswer:
        """One question under a key."""
        return self.post(
            key, {"model": "fake-model", "messages": [{"role": "user", "content": text}], **more}, *headers
        )

    def own(self, key: str, method: str, path: str, body: Any = None) -> Any:
        """A call of the proxy's own API under a key."""
        return self.service.call(method, path, body, Authorization=f"Bearer {self.secrets[key]}")

    def settle(self, key: str) -> None:
        """Wait until nothing waits."""

        def empty() -> bool:
            queue = self.own(key, "GET", "/memory/v1/queue")
            return bool(queue["pending"] + queue["in_flight"] == 0)

        wait_until(empty, 60, "the queue is empty")


KEYS: dict[str, tuple[str, dict[str, str], list[str]]] = {
    "ann": ("default", {"user": "ann"}, ["memory:read:own", "memory:write"]),
    "bob": ("default", {"user": "bob"}, ["memory:read:own", "memory:write"]),
    "free": ("default", {}, ["memory:read:own", "memory:write", "act:any_user"]),
    "narrow": ("default", {}, ["memory:read:own", "memory:write"]),
    "other ann": ("other", {"user": "ann"}, ["memory:read:own", "memory:write"]),
}


async def issue(service: Service) -> dict[str, str]:
    """Put the keys into the table."""
    now, secrets = datetime.now(UTC), {name: f"mp-{uuid4().hex}" for name in KEYS}
    async with connected(service) as connection:
        await connection.execute("INSERT INTO tenants VALUES ($1, 'other', $2) ON CONFLICT DO NOTHING", uuid4(), now)
        for name, (tenant, fixed, capabilities) in KEYS.items():
            await _insert(connection, secrets[name], name, tenant, fixed, capabilities, now)
    return secrets


async def _insert(
    connection: asyncpg.Connection[Any],
    secret: str,
    name: str,
    tenant: str,
    fixed: dict[str, str],
    capabilities: list[str],
    now: datetime,
) -> None:
    await connection.execute(
        "INSERT INTO api_keys (key_id, tenant_id, prefix, secret_sha256, name, fixed, capabilities, created_at) "
        "SELECT $1, tenant_id, $2, $3, $4, $5, $6, $7 FROM tenants WHERE name = $8",
        uuid4(),
        secret[:6],
        hashlib.sha256(secret.encode()).digest(),
        name,
        json.dumps(fixed),
        capabilities,
        now,
        tenant,
    )


@pytest.fixture(scope="module")
def keyed(upstream: str) -> Iterator[Keyed]:
    """One service in `keys` mode for this module."""
    env = {"MEMORY_PROXY_AUTH__MODE": "keys", "MEMORY_PROXY_UPSTREAM__API_KEY": UPSTREAM_KEY}
    with serving(upstream, env=env) as service:
        made = Keyed(service, asyncio.run(issue(service)))
        wait_until(lambda: all(made.ask(name, "say: in").status != 401 for name in KEYS), 20, "keys are known")
        made.ask("ann", FACT + "\nsay: Noted.")
        made.settle("ann")
        yield made


def verdict(answer: RawAnswer) -> str:
    return (answer.text("x-memory-status") or "").partition(";")[0]


def code(answer: RawAnswer) -> tuple[int, str]:
    return answer.status, json.loads(answer.body)["error"]["code"]


@pytest.mark.parametrize("key", [None, "mp-unknown", ""])
@pytest.mark.parametrize("target", ["/v1/chat/completions", "/v1/models", "/memory/v1/sessions", "/echo/x"])
def test_caller_without_a_known_key_is_refused_everywhere(
    keyed: Keyed, upstream: str, key: str | None, target: str
) -> None:
    before = last(upstream)
    pairs = [] if key is None else [(b"Authorization", b"Bearer " + key.encode())]
    answer = send(keyed.service.url, "POST" if "chat" in target else "GET", target, pairs)
    assert code(answer) == (401, "invalid_api_key")
    assert last(upstream) == before


def test_health_needs_no_key(keyed: Keyed) -> None:
    assert send(keyed.service.url, "GET", "/memory/health").status == 200
    assert send(keyed.service.url, "GET", "/memory/ready").status == 200


def test_upstream_sees_our_key_and_never_the_clients(keyed: Keyed, upstream: str) -> None:
    assert keyed.ask("ann", "say: x").status == 200
    seen = last(upstream)[0]
    assert seen.value("authorization") == f"Bearer {UPSTREAM_KEY}"
    assert not [value for _, value in seen.headers if any(secret in value for secret in keyed.secrets.values())]


def test_key_remembers_for_its_own_user_alone(keyed: Keyed, upstream: str) -> None:
    assert verdict(keyed.ask("ann", QUESTION)) == "injected"
    assert b"herring" in last(upstream)[0].body
    for name in ("bob", "other ann", "free", "narrow"):
        assert verdict(keyed.ask(name, QUESTION)) == "empty", name
        assert b"herring" not in last(upstream)[0].body
        searched = keyed.own(name, "POST", "/memory/v1/search", {"query": QUESTION, "k": 200})["candidates"]
        assert not [candidate for candidate in searched if "herring" in candidate["content"]]


@pytest.mark.parametrize("name", ["bob", "other ann"])
def test_fixed_user_cannot_be_talked_out_of(keyed: Keyed, upstream: str, name: str) -> None:
    before = last(upstream)
    theirs = "ann" if name == "bob" else "bob"
    assert code(keyed.ask(name, QUESTION, (b"X-Memory-User", theirs.encode()))) == (403, "scope_denied")
    assert code(keyed.ask(name, QUESTION, memory={"user": theirs})) == (403, "scope_denied")
    assert last(upstream) == before
    keyed.ask(name, QUESTION, user=theirs, safety_identifier=theirs)
    assert b"herring" not in last(upstream)[0].body


def test_naming_a_user_needs_the_capability(keyed: Keyed) -> None:
    assert code(keyed.ask("narrow", QUESTION, (b"X-Memory-User", b"ann"))) == (403, "capability_missing")
    assert verdict(keyed.ask("free", QUESTION, (b"X-Memory-User", b"ann"))) == "injected"


@pytest.mark.parametrize("again", [b"X-Memory-User", b"x-memory-user", b"X-MEMORY-USER", b"x-mEMORY-uSER"])
def test_a_name_that_is_sent_twice_is_refused_in_any_spelling(keyed: Keyed, upstream: str, again: bytes) -> None:
    before = last(upstream)
    twice = ((b"X-Memory-User", b"ann"), (again, b"bob"))
    answer = keyed.ask("free", QUESTION, *twice)
    assert answer.status == 400 and b"was sent twice" in answer.body
    headers = [*twice, (b"Authorization", b"Bearer " + keyed.secrets["free"].encode())]
    assert send(keyed.service.url, "GET", "/memory/v1/memories", headers).status == 400
    assert last(upstream) == before


def test_foreign_session_retrieval_and_memory_do_not_exist(keyed: Keyed) -> None:
    asked = keyed.ask("ann", QUESTION, (b"X-Memory-Session", b"anns-own"))
    keyed.settle("ann")
    (memory, *_) = keyed.own("ann", "GET", "/memory/v1/memories?limit=5")["data"]
    paths = [
        "/memory/v1/sessions/anns-own",
        f"/memory/v1/retrievals/{asked.text('x-memory-retrieval')}",
        f"/memory/v1/memories/{memory['id']}",
    ]
    for path in paths:
        assert "error" not in keyed.own("ann", "GET", path), path
        for name in ("bob", "other ann"):
            assert keyed.own(name, "GET", path)["error"]["code"] == "not_found", (name, path)


def salt_of(upstream: str) -> str:
    return str(last(upstream)[0].json["cache_salt"])


@pytest.mark.parametrize("mode", [b"on", b"off", b"read", b"write"])
def test_cache_salt_is_the_tenants_in_every_mode(keyed: Keyed, upstream: str, mode: bytes) -> None:
    salts = {}
    for name in ("ann", "bob", "other ann"):
        for own in (None, "client's"):
            more = {} if own is None else {"cache_salt": own}
            assert keyed.ask(name, "say: x", (b"X-Memory-Mode", mode), **more).status == 200
            salts[name, own] = salt_of(upstream)
    assert salts["ann", None] == salts["bob", None]
    assert len({salts["ann", None], salts["other ann", None], salts["ann", "client's"]}) == 3
    assert "client's" not in salts.values()


@pytest.mark.parametrize("route", ["/v1/completions", "/v1/responses", "/v1/messages"])
def test_cache_salt_is_set_on_the_other_generation_routes(keyed: Keyed, upstream: str, route: str) -> None:
    body = {"prompt": "hi", "input": "hi", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 5}
    pairs = [
        (b"Content-Type", b"application/json"),
        (b"Authorization", b"Bearer " + keyed.secrets["ann"].encode()),
    ]
    assert send(keyed.service.url, "POST", route, pairs, json.dumps(body).encode()).status == 200
    through = salt_of(upstream)
    keyed.ask("ann", "say: x")
    assert through == salt_of(upstream)


DEEP = b"[" * 100_000 + b"]" * 100_000


@pytest.mark.parametrize(
    "body",
    [
        *(b"\xff\xfe{\x00", b"{broken", b"[]", b'{"a":1}{"b":2}', b"", b"\xef\xbb\xbf{}", '{"a":1}'.encode("utf-16")),
        *(
            b'{"model":"fake-model","messages":[{"role":"user","content":"x"}],"deep":' + deep + b"}"
            for deep in (DEEP, b"9" * 5_000)  # an integer of more digits than this Python reads
        ),
    ],
    ids=lambda body: repr(body[:20]),
)
def test_body_that_cannot_be_salted_is_never_forwarded_as_a_prompt(keyed: Keyed, upstream: str, body: bytes) -> None:
    """vLLM's own refusal is fine; an answer of the model would have used the cache of everybody."""
    pairs = [(b"Authorization", b"Bearer " + keyed.secrets["ann"].encode()), (b"Content-Type", b"application/json")]
    before = last(upstream)[0]
    answer = send(keyed.service.url, "POST", "/v1/chat/completions", pairs, body)
    assert answer.status == 400
    if b"memory_invalid" in answer.body:
        assert last(upstream)[0] == before
    elif b"deep" in body:
        raise AssertionError("what another Python can read went on without the salt")


def test_revoked_key_is_refused_soon(keyed: Keyed) -> None:
    async def revoke() -> None:
        async with connected(keyed.service) as connection:
            await connection.execute("UPDATE api_keys SET revoked_at = now() WHERE name = 'narrow'")

    assert keyed.ask("narrow", "say: x").status == 200
    asyncio.run(revoke())
    wait_until(lambda: keyed.ask("narrow", "say: x").status == 401, 10, "the key is refused")
