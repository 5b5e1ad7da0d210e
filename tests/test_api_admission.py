"""Who may call what: capabilities, keys, and a store that was not reached yet."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import fields, replace
from datetime import datetime
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest
from aiohttp import ClientError, web
from aiohttp.test_utils import TestClient, TestServer, make_mocked_request

from memory.audit import Journal, Note
from memory.canary import Canaries
from memory.errors import AuthUnavailable, InvalidApiKey, QueueUnavailable, StoreRefused, StoreUnavailable
from memory.key_table import OpenedKey
from memory.model import Scope
from memory.ports import QueueDepth
from memory.telemetry import Metrics
from policies.capability_token import Authority
from proxy.api.own import OwnApi, OwnParts
from proxy.auth import READ_S, REFRESH_S, KeyedDoor, OpenDoor
from proxy.identity import Credential
from proxy.passages import Passages
from proxy.readiness import Readiness

CALLS = [
    ("POST", "/memory/v1/import", "memory:write"),
    ("GET", "/memory/v1/export", "memory:read:own"),
    ("POST", "/memory/v1/search", "memory:read:own"),
    ("GET", "/memory/v1/memories", "memory:read:own"),
    ("GET", f"/memory/v1/memories/{UUID(int=7)}", "memory:read:own"),
    ("PATCH", f"/memory/v1/memories/{UUID(int=7)}", "memory:write"),
    ("DELETE", f"/memory/v1/memories/{UUID(int=7)}", "memory:write"),
    ("POST", f"/memory/v1/memories/{UUID(int=7)}/share", "memory:read:own"),
    ("POST", f"/memory/v1/memories/{UUID(int=7)}/unshare", "memory:read:own"),
    ("GET", "/memory/v1/audit", "memory:admin"),
    ("GET", "/memory/v1/sessions", "memory:read:own"),
    ("GET", "/memory/v1/sessions/s", "memory:read:own"),
    ("GET", "/memory/v1/retrievals", "memory:read:own"),
    ("GET", f"/memory/v1/retrievals/{UUID(int=7)}", "memory:read:own"),
    ("GET", f"/memory/v1/replay/{UUID(int=7)}", "trace:read"),
    ("POST", f"/memory/v1/replay/{UUID(int=7)}", "trace:read"),
    ("GET", "/memory/v1/queue", "memory:read:own"),
    ("GET", "/memory/metrics", "metrics:read"),
]


class Keyed:
    """A door with one key."""

    def __init__(self, *capabilities: str) -> None:
        self._credential = Credential(UUID(int=1), UUID(int=2), capabilities=frozenset(capabilities))

    def admit(self, request: web.Request) -> Credential:
        if "Authorization" not in request.headers:
            raise InvalidApiKey("send a key")
        return self._credential


class Depth:
    """A queue that says what it is told to, or nothing."""

    def __init__(self, depth: QueueDepth | None) -> None:
        self._depth = depth

    def held(self) -> int:
        return 1

    async def depth(self) -> QueueDepth:
        if self._depth is None:
            raise QueueUnavailable("away")
        return self._depth


class Written:
    """An audit log that keeps what it is given."""

    def __init__(self) -> None:
        self.notes: list[Note] = []

    async def record(self, notes: Sequence[Note]) -> None:
        self.notes += notes

    async def tenants(self) -> list[tuple[UUID, str]]:
        return []


async def _key(_tenant: UUID) -> bytes:
    return bytes(32)


def parts(**given: Any) -> OwnParts:
    nothing = OwnParts(**{one.name: cast(Any, None) for one in fields(OwnParts)})
    metrics, log = Metrics(), Written()
    journal = Journal(log, metrics)
    canaries = Canaries(_key, log, journal, metrics)
    own = replace(nothing, metrics=metrics, readiness=Readiness({}, metrics), journal=journal, canaries=canaries)
    own = replace(own, passages=Passages(metrics, None))
    own = replace(own, forgets=cast(Any, SimpleNamespace(store=SimpleNamespace(waiting=_nothing_waits))))
    return replace(own, **given)


async def _nothing_waits() -> list[UUID]:
    return []


@asynccontextmanager
async def serving(own: OwnParts) -> AsyncIterator[Callable[..., Awaitable[tuple[int, Any]]]]:
    app = web.Application(client_max_size=0)
    OwnApi(own).register(app)
    async with TestClient(TestServer(app)) as client:

        async def call(method: str, path: str, **keywords: Any) -> tuple[int, Any]:
            async with client.request(method, path, **keywords) as answer:
                return answer.status, await answer.json(content_type=None) if "json" in answer.content_type else None

        yield call


async def test_every_route_wants_a_key_and_a_capability_but_those_that_answer_anybody() -> None:
    own, asks = parts(door=Keyed()), {"Authorization": "Bearer x"}
    answered: dict[str, set[str]] = {"without a key": set(), "without a capability": set()}
    async with serving(own) as call:
        for route in OwnApi(own).routes:
            path = re.sub(r"\{(\w+)\}", lambda found: "7" if found[1] == "scope" else str(UUID(int=7)), route.path)
            for what, headers, refused in (
                ("without a key", {}, (401, "invalid_api_key")),
                ("without a capability", asks, (403, "capability_missing")),
            ):
                status, body = await call(route.method, path, headers=headers)
                told = body.get("error", {}).get("code") if isinstance(body, dict) else None
                if (status, told) != refused:
                    answered[what].add(route.path)
    anybody = {"/memory/health", "/memory/ready", "/memory/openapi.json", "/memory/links/{tenant}/{scope}/{id}"}
    assert answered["without a key"] == anybody
    assert answered["without a capability"] == anybody | {"/memory/v1/tokens", "/memory/v1/tools"}


@pytest.mark.parametrize(("method", "path", "capability"), CALLS)
async def test_a_key_without_the_capability_may_not_call(method: str, path: str, capability: str) -> None:
    every = {capability for _, _, capability in CALLS} - {"memory:admin"}
    async with serving(parts(door=Keyed(*(every - {capability})))) as call:
        status, body = await call(method, path, headers={"Authorization": "Bearer x"})
        assert (status, body["error"]["code"]) == (403, "capability_missing")
        assert capability in body["error"]["message"]


async def test_a_refusal_leaves_an_audit_row_with_the_key_and_without_its_secret() -> None:
    log = Written()
    journal = Journal(log, Metrics())
    async with serving(parts(door=Keyed(), journal=journal)) as call:
        for _ in range(3):
            await call("GET", "/memory/v1/memories", headers={"Authorization": "Bearer mp-secret"})
    await journal.write()
    (note,) = log.notes
    assert (note.tenant, note.actor, note.action, note.decision) == (
        UUID(int=1),
        str(UUID(int=2)),
        "refused",
        "refused",
    )
    assert note.why == "capability_missing at /memory/v1/memories"
    assert note.detail == {"times": 3}
    assert "secret" not in repr(note)


@pytest.mark.parametrize(("method", "path"), [(method, path) for method, path, _ in CALLS])
async def test_without_a_key_nothing_is_said(method: str, path: str) -> None:
    async with serving(parts(door=Keyed())) as call:
        status, body = await call(method, path)
        assert (status, body["error"]["code"]) == (401, "invalid_api_key")


@pytest.mark.parametrize(("method", "path"), [(m, p) for m, p, _ in CALLS if p.startswith("/memory/v1")])
async def test_before_the_store_was_reached_the_store_is_unavailable(method: str, path: str) -> None:
    async with serving(parts(door=OpenDoor())) as call:
        status, body = await call(method, path)
        assert (status, body["error"]["code"]) == (503, "store_unavailable")


OTHER_SITE = {"Origin": "https://evil.example", "Content-Type": "text/plain"}


@pytest.mark.parametrize("origin", ["https://evil.example", "http://127.0.0.1:1", "null", "", "http://["])
async def test_a_page_of_another_site_changes_nothing_where_no_key_is_asked_for(origin: str) -> None:
    """A browser sends such a request without asking first; that the page may not read the answer is no help."""
    door = OpenDoor()
    door.opens_to(UUID(int=1))
    async with serving(parts(door=door)) as call:
        for path in (
            "/memory/v1/forget",
            "/memory/v1/import",
            "/memory/v1/search",
            f"/memory/v1/tasks/{UUID(int=7)}/undelete",
        ):
            said = {**OTHER_SITE, "Origin": origin, "Sec-Fetch-Site": "cross-site"}
            status, body = await call("POST", path, data=b'{"user": "default"}', headers=said)
            assert (status, body["error"]["code"], body["error"]["param"]) == (403, "scope_denied", "Origin"), path


@pytest.mark.parametrize("said", [{}, {"Origin": "http://own.example:8080"}, {"Sec-Fetch-Site": "same-origin"}])
async def test_a_page_of_this_service_and_a_client_that_is_no_page_are_let_in(said: dict[str, str]) -> None:
    door = OpenDoor()
    door.opens_to(UUID(int=1))
    own = {"Host": "own.example:8080", "Content-Type": "application/json"}
    known = {**OTHER_SITE, **own, **said} if "Sec-Fetch-Site" in said else {**own, **said}
    async with serving(parts(door=door)) as call:
        assert (await call("POST", "/memory/v1/search", data=b"{}", headers=known))[0] == 422


async def test_a_key_is_what_a_page_of_another_site_lacks_so_who_has_one_is_let_in() -> None:
    async with serving(parts(door=Keyed("memory:read:own"))) as call:
        headers = {**OTHER_SITE, "Authorization": "Bearer x"}
        assert (await call("POST", "/memory/v1/search", data=b"{}", headers=headers))[0] == 422


async def test_health_readiness_and_description_need_no_key() -> None:
    async with serving(parts(door=Keyed())) as call:
        assert await call("GET", "/memory/health") == (200, {"status": "ok"})
        assert (await call("GET", "/memory/ready"))[0] == 503
        assert (await call("GET", "/memory/openapi.json"))[0] == 200


async def test_pending_counts_what_has_not_reached_the_queue() -> None:
    door = OpenDoor()
    door.opens_to(UUID(int=1))
    queue = Depth(QueueDepth(pending=2, in_flight=3, background=0, dead=4, oldest_seconds=1.25))
    own = parts(door=door, queue=queue, hand_off=queue, spooled=lambda: 10)
    async with serving(own) as call:
        said = {"pending": 13, "in_flight": 3, "background": 0, "dead": 4, "oldest_seconds": 1.25}
        assert await call("GET", "/memory/v1/queue") == (200, said)
        assert (await call("GET", "/memory/metrics"))[0] == 200
    assert own.metrics.registry.get_sample_value("memory_proxy_queue_entries", {"state": "dead"}) == 4


async def test_metrics_are_served_while_the_queue_is_away() -> None:
    queue = Depth(None)
    async with serving(parts(door=OpenDoor(), queue=queue, hand_off=queue, spooled=lambda: 0)) as call:
        assert (await call("GET", "/memory/metrics"))[0] == 200


class Broken(Depth):
    """A queue with a defect."""

    async def depth(self) -> QueueDepth:
        raise KeyError("what somebody said")


async def test_a_fault_of_ours_is_answered_in_our_form_and_its_place_is_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    door, queue = OpenDoor(), Broken(None)
    door.opens_to(UUID(int=1))
    async with serving(parts(door=door, queue=queue, hand_off=queue, spooled=lambda: 0)) as call:
        status, body = await call("GET", "/memory/v1/queue")
    assert (status, body["error"]["code"]) == (500, "internal_error")
    assert "somebody" not in body["error"]["message"]
    said = [record for record in caplog.records if record.name == "memory_proxy.http"]
    assert said and all(record.levelname == "ERROR" for record in said)
    assert any(record.exc_info for record in said)


class Faulty:
    """Records that none can be asked for."""

    def __init__(self, fault: Exception) -> None:
        self._fault = fault

    def __getattr__(self, name: str) -> Any:
        async def asked(*_: object, **__: object) -> None:
            raise self._fault

        return asked


@pytest.mark.parametrize("fault", [KeyError("unforeseen"), StoreRefused("forgotten meanwhile")])
@pytest.mark.parametrize("path", ["/memory/v1/sessions/ada-s-divorce", "/memory/v1/sessions/ada-s-divorce/end"])
async def test_the_log_says_where_a_fault_was_met_and_no_name_that_a_person_chose(
    caplog: pytest.LogCaptureFixture, fault: Exception, path: str
) -> None:
    door, records = OpenDoor(), Faulty(fault)
    door.opens_to(UUID(int=1))
    async with serving(parts(door=door, records=records)) as call:
        assert (await call("POST" if path.endswith("/end") else "GET", path))[0] in (409, 500)
    (said,) = [one.__dict__["fields"] for one in caplog.records if one.getMessage() in ("unforeseen", "store_refused")]
    assert said["route"] == path.replace("ada-s-divorce", "{id}")


class Half:
    """Records whose store goes away behind the first page."""

    async def export_turns(self, scope: Scope, *, limit: int, cursor: str | None, bytes_max: int) -> Any:
        if cursor is not None:
            raise StoreUnavailable("the store went away")
        return SimpleNamespace(rows=[], next_cursor="behind it")


async def test_an_export_that_breaks_off_is_said_to_have_failed_and_why(caplog: pytest.LogCaptureFixture) -> None:
    door, written = OpenDoor(), Written()
    door.opens_to(UUID(int=1))
    caplog.set_level(logging.INFO, "memory_proxy.request")
    async with serving(parts(door=door, records=Half(), audit=written)) as call:
        with pytest.raises(ClientError):
            await call("GET", "/memory/v1/export")
    (line,) = [one.__dict__["fields"] for one in caplog.records if one.getMessage() == "request"]
    assert (line["http"], line["outcome"]) == (200, "failed")
    (why,) = [one.__dict__["fields"] for one in caplog.records if one.getMessage() == "answer_broken_off"]
    assert why == {"route": "/memory/v1/export", "fault": "the store went away"}


async def test_keys_that_may_not_be_stale_hold_while_the_table_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    secret, clock = "mp-0000", [100.0]
    key = OpenedKey(UUID(int=2), UUID(int=1), secret, None, Authority())
    monkeypatch.setattr("proxy.auth.time.monotonic", lambda: clock[0])

    class Table:
        async def all_active(self, now: datetime) -> Mapping[bytes, OpenedKey]:
            return {hashlib.sha256(secret.encode()).digest(): key}

    door = KeyedDoor(Table(), stale_max_s=0)
    asks = make_mocked_request("GET", "/", headers={"Authorization": f"Bearer {secret}"})
    await door.read()
    clock[0] += REFRESH_S
    assert door.admit(asks).key_id == key.key_id
    clock[0] += READ_S
    with pytest.raises(AuthUnavailable):
        door.admit(asks)


async def test_a_key_that_was_revoked_does_not_come_back_with_a_reading_that_was_begun_before() -> None:
    """At the start two read the table; the store is slow for one of them."""
    secret, began, goes_on = "mp-0000", asyncio.Event(), asyncio.Event()
    key = OpenedKey(UUID(int=2), UUID(int=1), secret, None, Authority())

    class Table:
        keys: Mapping[bytes, OpenedKey] = {hashlib.sha256(secret.encode()).digest(): key}

        async def all_active(self, now: datetime) -> Mapping[bytes, OpenedKey]:
            found = self.keys
            if not began.is_set():
                began.set()
                await goes_on.wait()
            return found

    door, asks = KeyedDoor(table := Table(), stale_max_s=60), {"Authorization": f"Bearer {secret}"}
    reading = asyncio.create_task(door.read())
    await began.wait()
    await door.read()
    assert door.admit(make_mocked_request("GET", "/", headers=asks)).key_id == key.key_id
    table.keys = {}
    await door.read()
    goes_on.set()
    await reading
    with pytest.raises(InvalidApiKey):
        door.admit(make_mocked_request("GET", "/", headers=asks))
