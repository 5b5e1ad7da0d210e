"""Talking to a running service about memory: messages in, the answer with its X-Memory-* headers out.

Also what the store holds of one user, read with the owner's eyes from the embedded Postgres of that service.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import asyncpg

from proxy.room import COUNTED_BYTES_MAX
from tests.e2e.raw_http import RawAnswer, send
from tests.service_fixture import Service

MODEL = "fake-model"
Message = dict[str, Any]
# Members of a body that is too large to be counted: vLLM says whether it fits.
UNCOUNTED = {"padding": "x" * COUNTED_BYTES_MAX}


@dataclass(frozen=True, slots=True)
class Said:
    """An answer of the chat route."""

    raw: RawAnswer

    @property
    def status(self) -> int:
        """HTTP status."""
        return self.raw.status

    @property
    def json(self) -> Any:
        """The body, parsed."""
        return json.loads(self.raw.body)

    @property
    def text(self) -> str:
        """What the first choice says."""
        return str(self.json["choices"][0]["message"]["content"])

    def memory(self, name: str) -> str | None:
        """The X-Memory-<name> header."""
        return self.raw.text(f"x-memory-{name}")

    @property
    def verdict(self) -> str:
        """The first word of X-Memory-Status: how far down recall had to go depends on the machine's load."""
        return (self.memory("status") or "").partition(";")[0]

    @property
    def session(self) -> str:
        """The conversation."""
        found = self.memory("session")
        assert found is not None, self.raw
        return found


def ask(service: Service, messages: list[Message] | str, user: str, *, body: Any = None, **headers: str) -> Said:
    """One chat completion. `headers` are X-Memory-* by their last word (`mode="off"`), or any with `_` for `-`."""
    said = [{"role": "user", "content": messages}] if isinstance(messages, str) else messages
    named = {"user": user, **headers}
    pairs = [(_header(name), value.encode()) for name, value in named.items()]
    pairs.append((b"Content-Type", b"application/json"))
    sent = {"model": MODEL, "messages": said, **(body or {})}
    raw = send(service.url, "POST", "/v1/chat/completions", pairs, json.dumps(sent).encode())
    return Said(raw)


_OURS = frozenset(
    ("user", "project", "agent", "session", "mode", "checkpoint", "persona", "as_of", "budget", "outside")
)


def _header(name: str) -> bytes:
    spelled = name.replace("_", "-")
    return f"X-Memory-{spelled}".encode() if name in _OURS else spelled.encode()


def turn(role: str, content: Any, **more: Any) -> Message:
    """One message."""
    return {"role": role, "content": content, **more}


def completion(*texts: str) -> dict[str, Any]:
    """An answer with one choice for each text."""
    choices = [
        {"index": i, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
        for i, text in enumerate(texts)
    ]
    return {"id": "x", "object": "chat.completion", "created": 1, "model": "fake-model", "choices": choices}


def tell(service: Service, fact: str, user: str, **headers: str) -> Said:
    """Tell a fact in a conversation of its own, and wait until it is stored and searchable."""
    said = ask(service, f"{fact}\nsay: Noted.", user, **headers)
    assert said.status == 200, said
    service.settle()
    return said


def found(service: Service, query: str, user: str, **headers: str) -> list[str]:
    """Contents of what a search finds."""
    named = {_header(name).decode(): value for name, value in {"user": user, **headers}.items()}
    answer = service.call("POST", "/memory/v1/search", {"query": query, "k": 50}, **named)
    return [candidate["content"] for candidate in answer["candidates"]]


def sessions(service: Service, user: str) -> dict[str, list[Message]]:
    """All conversations of a user with their turns, by label."""
    listed = service.call("GET", "/memory/v1/sessions?limit=1000", X_Memory_User=user)["data"]
    labels = [entry["id"] for entry in listed]
    paths = [f"/memory/v1/sessions/{quote(label, safe='')}?limit=1000" for label in labels]
    return {
        label: service.call("GET", path, X_Memory_User=user)["turns"] for label, path in zip(labels, paths, strict=True)
    }


@asynccontextmanager
async def connected(service: Service) -> AsyncIterator[asyncpg.Connection[Any]]:
    """The service's own Postgres, as the owner of its tables."""
    connection = await asyncpg.connect(user="mp_owner", database="memory_proxy", host=_pg_sockets(service))
    try:
        yield connection
    finally:
        await connection.close()


async def rows(service: Service, query: str, *arguments: Any) -> list[asyncpg.Record]:
    """Rows of the service's own Postgres."""
    async with connected(service) as connection:
        return await connection.fetch(query, *arguments)


def _pg_sockets(service: Service) -> str:
    for pid in service.children("postgres"):
        with open(f"/proc/{pid}/cmdline", "rb") as line:
            for word in line.read().split(b"\0"):
                if word.startswith(b"unix_socket_directories="):
                    return word.partition(b"=")[2].decode()
    raise AssertionError("no Postgres of this service")


async def exchanges(service: Service, user: str) -> list[asyncpg.Record]:
    """status, reason and http_status of what is stored of a user, oldest first."""
    return await rows(
        service,
        "SELECT e.status, e.reason, e.http_status, e.sealed IS NOT NULL AS sealed FROM exchanges e "
        "JOIN scopes s USING (tenant_id, scope_id) WHERE s.user_name = $1 ORDER BY e.arrived_at",
        user,
    )


async def kept(service: Service, user: str) -> list[asyncpg.Record]:
    """The same once there is one: a client that is cut hears of it before its exchange is handed off."""
    async with asyncio.timeout(60):
        while not await exchanges(service, user):
            await asyncio.sleep(0.05)
    await asyncio.to_thread(service.settle)
    return await exchanges(service, user)
