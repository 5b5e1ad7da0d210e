"""Commits for tests: small exchanges with their turns, memories and vectors, and stores that belong together."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import numpy as np

from memory.adapters.postgres.database import Bounds, Database
from memory.adapters.postgres.import_store import ImportStore
from memory.adapters.postgres.keys import KeyStore
from memory.adapters.postgres.leases import Leases
from memory.adapters.postgres.read_store import ReadStore
from memory.adapters.postgres.records import Records
from memory.adapters.postgres.scopes import Scopes
from memory.adapters.postgres.write_store import WriteStore
from memory.chain import Digest
from memory.ids import derived_id, new_id
from memory.model import (
    Commit,
    Entry,
    ImportChunk,
    ImportLine,
    Kind,
    LedgerNode,
    NewMemory,
    Placed,
    Retrieval,
    Scope,
    SealedRetrieval,
    SessionRef,
    Shown,
    StoredExchange,
    Turn,
)
from memory.stored import ImportItem
from policies.labels import Integrity, Sensitivity
from tests.postgres_fixture import DIM, TestDatabase

T0 = datetime(2026, 11, 21, 12, tzinfo=UTC)
LANE = "live-0"
SUBJECT = UUID(int=7)
_RANDOM = np.random.default_rng(5)


@dataclass(frozen=True)
class Stores:
    """Everything on one database, with a tenant and a held lane."""

    database: Database
    keys: KeyStore
    scopes: Scopes
    write: WriteStore
    imports: ImportStore
    read: ReadStore
    records: Records
    leases: Leases
    tenant: UUID
    fence: int

    def scope(self, user: str = "ada", project: str = "p", agent: str = "a") -> Scope:
        return Scope(self.tenant, user, project, agent)


@asynccontextmanager
async def stores(postgres: TestDatabase, bounds: Bounds | None = None) -> AsyncIterator[Stores]:
    """All stores as mp_app."""
    database = await Database.open(postgres.app, bounds)
    keys, scopes, leases = KeyStore(database), Scopes(database), Leases(database)
    tenant = await keys.ensure_tenant("default", T0)
    fences = await leases.acquire("worker", [LANE], 600)
    table = postgres.embeddings
    yield Stores(
        database,
        keys,
        scopes,
        WriteStore(database, scopes, table),
        ImportStore(database, scopes, table),
        ReadStore(database, scopes, table, dim=DIM),
        Records(database, scopes, table),
        leases,
        tenant,
        fences[LANE],
    )
    await database.close()


def digest(*names: object) -> Digest:
    return Digest(hashlib.sha256("\x00".join(map(str, names)).encode()).digest())


def vectors(count: int) -> Any:
    raw = _RANDOM.standard_normal((count, DIM), dtype=np.float32)
    return raw / np.linalg.norm(raw, axis=1, keepdims=True)


class Words:
    """Tokens are words, vectors are random: an embedder, its tokenizer and a language detector."""

    model = "test-model"
    dim = 384

    def offsets(self, text: str) -> Sequence[tuple[int, int]]:
        return [(at, at + 1) for at in range(len(text)) if not text[at].isspace()]

    async def embed_documents(self, texts: Sequence[str]) -> Any:
        return vectors(len(texts))

    async def embed_query(self, text: str) -> Any:
        return vectors(1)[0]

    def detect(self, text: str) -> str | None:
        return "en" if text else None


def turn(exchange_id: UUID, session: str, number: int, role: str, content: str, **more: Any) -> Turn:
    """The turn at position `number` of a session; the chain follows from session and position unless given."""
    fields: dict[str, Any] = {
        "event_id": derived_id(exchange_id, "turn", number),
        "exchange_id": exchange_id,
        "chain": digest(session, number),
        "parent_chain": digest(session, number - 1) if number else None,
        "role": role,
        "name": None,
        "content": content,
        "tool_calls": None,
        "tool_call_id": None,
        "source_id": None,
        "line_digest": None,
        "origin": "live",
        "integrity": Integrity.USER if role == "user" else Integrity.ASSISTANT,
        "sensitivity": Sensitivity.INTERNAL,
        "model": "m",
        "redactions": 0,
        "token_count": 5,
        "occurred_at": T0 + timedelta(seconds=number),
    }
    return Turn(**{**fields, **more})


def memory_of(one: Turn, **more: Any) -> NewMemory:
    """The episodic memory of a turn, with one window."""
    fields: dict[str, Any] = {
        "memory_id": derived_id(one.event_id, "memory"),
        "kind": "episodic",
        "content": one.content,
        "content_key": digest("key", one.event_id),
        "role": one.role,
        "integrity": one.integrity,
        "sensitivity": one.sensitivity,
        "origin": one.origin,
        "importance": 0.5,
        "confidence": 1.0,
        "occurred_at": one.occurred_at,
        "extractor_version": "1",
        "source_turns": (one.event_id,),
        "windows": ((0, len(one.content)),),
        "vectors": vectors(1),
    }
    return NewMemory(**{**fields, **more})


def session_of(scope: Scope, label: str) -> SessionRef:
    """The session that a scope has under a label: its id follows from both, as the proxy's does."""
    return SessionRef(derived_id(UUID(int=1), label, scope.user, scope.project), label)


def exchange(scope: Scope, session: str, at: int, texts: Sequence[str] = ("hello", "hi there"), **more: Any) -> Commit:
    """An exchange whose turns stand from position `at` on in the session; user and assistant take turns."""
    exchange_id = more.pop("exchange_id", None) or new_id()
    turns = tuple(
        turn(exchange_id, session, at + n, "user" if (at + n) % 2 == 0 else "assistant", text)
        for n, text in enumerate(texts)
    )
    fields: dict[str, Any] = {
        "scope": scope,
        "session": session_of(scope, session),
        "exchange": StoredExchange(
            exchange_id=exchange_id,
            subject_id=SUBJECT,
            origin="live",
            status="complete",
            reason=None,
            http_status=200,
            model="m",
            finish_reasons=("stop",),
            usage={"prompt_tokens": 3},
            arrived_at=T0,
            finished_at=T0,
            sealed=b"sealed",
        ),
        "turns": turns,
        "memories": tuple(memory_of(one) for one in turns),
        "nodes": (LedgerNode(turns[0].chain, at, 5, None, None, None, None),),
        "retrieval": retrieval(exchange_id),
        "lane": LANE,
        "fence": 1,
    }
    return Commit(**{**fields, **more})


def retrieval(exchange_id: UUID, *placed: UUID, at: datetime = T0) -> SealedRetrieval:
    """The record of a request that was given these memories, in one block."""
    retrieval_id = derived_id(exchange_id, "retrieval")
    entry = Entry("block", 3, tuple(Shown(one, 1, b"p" * 8) for one in placed), "internal", retrieval_id)
    record = Retrieval(
        retrieval_id=retrieval_id,
        status="injected",
        reason=None,
        rung="full",
        config_digest="c",
        embedding_model="test-model",
        query="what",
        candidates=({"id": "x", "score": 0.5},),
        placed=(Placed(0, digest("placed"), entry),) if placed else (),
        tokens=10,
        tokens_exact=True,
        millis=3.5,
        sha256_sent=digest("sent"),
        created_at=at,
    )
    return SealedRetrieval(record, "m", b"sealed")


def chunk(
    scope: Scope, lines: Sequence[tuple[str, str, str | None]], number: int = 0, **more: Any
) -> tuple[ImportChunk, list[ImportItem]]:
    """A chunk of (session, text, source id) lines with their items, all chained from position 0 of their session."""
    exchange_id, import_id = more.pop("exchange_id", None) or new_id(), more.pop("import_id", None) or new_id()
    start: int = more.pop("start", 0)
    items, imported = [], []
    for at, (session, text, source_id) in enumerate(lines):
        line_digest = digest("line", session, text, source_id)
        role = "user" if at % 2 == 0 else "assistant"
        imported.append(ImportLine(at + 1, session, role, None, text, T0, source_id, line_digest))
        one = turn(
            exchange_id, session, start + at, role, text, source_id=source_id, line_digest=line_digest, origin="import"
        )
        ref = session_of(scope, session)
        items.append(ImportItem(at + 1, ref, one, (memory_of(one),)))
    fields: dict[str, Any] = {"trusted": True, "on_conflict": "error", "arrived_at": T0}
    made = ImportChunk(
        exchange_id=exchange_id,
        import_id=import_id,
        chunk=number,
        scope=scope,
        lines=tuple(imported),
        **{**fields, **more},
    )
    return made, items


async def key_of(_tenant: UUID) -> bytes:
    """The key of every tenant's audit chain."""
    return bytes(32)


def record_memory(text: str, kind: Kind, origin: str, attributes: dict[str, Any] | None = None) -> NewMemory:
    """The memory of a record, in one window."""
    return NewMemory(
        memory_id=new_id(),
        kind=kind,
        content=text,
        content_key=b"",
        role="user",
        integrity=Integrity.USER,
        sensitivity=Sensitivity.INTERNAL,
        origin=origin,
        importance=0.5,
        confidence=1.0,
        occurred_at=T0,
        extractor_version="test",
        source_turns=(),
        windows=((0, len(text)),),
        vectors=np.full((1, DIM), 0.05, np.float32),
        attributes=attributes or {},
    )
