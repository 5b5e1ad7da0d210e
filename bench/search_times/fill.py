"""Memories by COPY: how many in which scopes in, a store that the product reads as if it had written it out.

For each conversation of up to 20 turns: its session, the turns with their chain, for each turn one episodic memory with
one version, its derivation and one vector. Left out is what no search reads: exchanges, provenance, the feed. Texts are
marked as cleaned by the default rules, as those that the product writes are: else each load would clean them again.
Conversations of all scopes are mixed, and those of one batch go on turn by turn, so a scope's rows lie scattered over
the tables as they do where many users talk at once. Texts are `bench.overhead.fill.fact`, about 20 tokens. Vectors are
synthetic: real embeddings of 256 such texts, each with noise of its own (cosine to its base about .9), as halfvec. Text
and vector of a memory do not belong together: times mean something, what is found does not.
Refuses (StoreNotFilled) a role that row-level security binds, and a store without the default model's table.
"""

from __future__ import annotations

import hashlib
import random
import struct
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

import asyncpg
import numpy as np
from numpy.typing import NDArray

from bench.overhead.fill import FIRST_TURN, SESSION_TURNS, fact
from memory.adapters.model_registry import DEFAULT_MODEL
from memory.adapters.redaction import mark_of, policy_of
from memory.config import Settings
from memory.ids import derived_id, new_id
from memory.ports import Embedder
from memory.write.quoted import content_key
from memory.write.windows import dated

FILLER_MEMORIES: Final = 1_000
BASES: Final = 256
# Noise of this length at right angles to a unit vector gives a cosine of .9 to it.
_NOISE: Final = 0.48
# Conversations of one transaction: 10,000 memories, about 50 MB here and 20 MB in the server.
_CONVERSATIONS_AT_ONCE: Final = 500
_EXCHANGE_TURNS: Final = 2
_YEAR_MINUTES: Final = 365 * 24 * 60
_HALFVEC_HEAD: Final = struct.Struct(">HH")
_COLUMNS: Final = {
    "sessions": "tenant_id session_id scope_id label next_seq tip_chain created_at last_at",
    "turns": "tenant_id event_id scope_id session_id exchange_id seq chain parent_chain role content origin integrity "
    "sensitivity token_count occurred_at recorded_at",
    "memories": "tenant_id memory_id scope_id kind content_key session_id changed_version created_at",
    "memory_versions": "tenant_id memory_id version scope_id content role integrity sensitivity origin occurred_at "
    "recorded_from",
    "derivations": "tenant_id derived_id derived_kind source_id source_kind ordinal scope_id",
    "embeddings": "tenant_id scope_id memory_id version window_no span_start span_end embedding",
}
# What hangs on a scope, in an order that the foreign keys allow. Versions, access and provenance go with their memory.
_OF_SCOPE: Final = (
    "derivations",
    "memories",
    "ledger",
    "retrievals",
    "turns",
    "exchanges",
    "outbox",
    "import_chunks",
    "sessions",
    "scopes",
)
Say = Callable[[str], None]
Rows = dict[str, list[tuple[Any, ...]]]


class StoreNotFilled(RuntimeError):
    """The store did not take the memories; the text says what to do."""


@dataclass(frozen=True, slots=True)
class Lot:
    """One scope to fill: the user it belongs to (project and agent are `default`), and how many memories it gets."""

    user: str
    memories: int


@dataclass(frozen=True, slots=True)
class Place:
    """Where rows go: one tenant, the table of the model's vectors, the scope ids of all lots in their order."""

    tenant: UUID
    embeddings: str
    dim: int
    scope_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Conversation:
    """A session to write: the `number`-th of a scope; `first` is the number of its first turn in that scope."""

    scope_id: int
    number: int
    first: int
    turns: int


def lots_of(prefix: str, scopes: Mapping[int, int], store: int) -> list[Lot]:
    """Scopes of each size (size -> how many), then filler scopes until `store` memories are reached."""
    lots = [Lot(user_of(prefix, size, at), size) for size, number in scopes.items() for at in range(number)]
    left = store - sum(lot.memories for lot in lots)
    fillers = range(0, max(left, 0), FILLER_MEMORIES)
    return lots + [Lot(filler_of(prefix, at // FILLER_MEMORIES), min(FILLER_MEMORIES, left - at)) for at in fillers]


def user_of(prefix: str, size: int, at: int) -> str:
    """The user whose scope is the `at`-th of this size."""
    return f"{prefix}-{size}-{at}"


def filler_of(prefix: str, at: int) -> str:
    """The user of the `at`-th filler scope; there may be none."""
    return f"{prefix}-filler-{at}"


def conversations_of(lots: Sequence[Lot], scope_ids: Sequence[int]) -> list[Conversation]:
    """All conversations of all scopes, mixed."""
    found = [
        Conversation(scope_id, first // SESSION_TURNS, first, min(SESSION_TURNS, lot.memories - first))
        for lot, scope_id in zip(lots, scope_ids, strict=True)
        for first in range(0, lot.memories, SESSION_TURNS)
    ]
    random.Random(1).shuffle(found)
    return found


def halfvecs(vectors: NDArray[np.float32]) -> list[bytes]:
    """Each vector as Postgres takes a halfvec in binary: dimension, 2 unused bytes, big-endian halves."""
    head = _HALFVEC_HEAD.pack(vectors.shape[1], 0)
    return [head + row.tobytes() for row in vectors.astype(">f2")]


class VectorSource:
    """Vectors like those of short turns, without a model run for each."""

    def __init__(self, bases: NDArray[np.float32]) -> None:
        self._bases = bases
        self._random = np.random.default_rng(1)

    @classmethod
    async def of(cls, embedder: Embedder) -> VectorSource:
        """Around the real embeddings of some texts. Raises EmbedderUnavailable."""
        texts = [dated(fact(index), FIRST_TURN + timedelta(days=index)) for index in range(BASES)]
        return cls(await embedder.embed_documents(texts))

    def take(self, count: int) -> NDArray[np.float32]:
        """So many unit vectors, shape [count, dim]."""
        chosen = self._bases[self._random.integers(len(self._bases), size=count)]
        noise = self._random.standard_normal(chosen.shape, dtype=np.float32) * (_NOISE / chosen.shape[1] ** 0.5)
        near: NDArray[np.float32] = chosen + noise
        near /= np.linalg.norm(near, axis=1, keepdims=True)
        return near


def rows_of(place: Place, batch: Sequence[Conversation], vectors: VectorSource, number: int) -> Rows:
    """The rows of some conversations, in the order in which their exchanges would have come; `number` names the batch.

    Vectors come as bytes. A scope's memories change at versions 1 to as many as it has.
    """
    rows: Rows = {name: [] for name in _COLUMNS}
    windows = iter(halfvecs(vectors.take(sum(one.turns for one in batch))))
    sessions = [new_id() for _ in batch]
    tips: list[bytes | None] = [None for _ in batch]
    for start in range(0, SESSION_TURNS, _EXCHANGE_TURNS):
        for at, one in enumerate(batch):
            exchange_id = new_id()
            for seq in range(start, min(start + _EXCHANGE_TURNS, one.turns)):
                text = fact(number * _CONVERSATIONS_AT_ONCE * SESSION_TURNS + at * SESSION_TURNS + seq)
                tips[at] = _add_turn(rows, place, one, (sessions[at], exchange_id, tips[at]), seq, text, next(windows))
    for at, one in enumerate(batch):
        label, began = f"search-times-{one.number}", _occurred(one, 0)
        ended = _occurred(one, one.turns - 1)
        session = (place.tenant, sessions[at], one.scope_id, label, one.turns, tips[at], began, ended)
        rows["sessions"].append(session)
    return rows


def _add_turn(
    rows: Rows,
    place: Place,
    one: Conversation,
    where: tuple[UUID, UUID, bytes | None],
    seq: int,
    text: str,
    vector: bytes,
) -> bytes:
    """One turn with its memory; `where` is session, exchange and the chain before it. The chain digest of the turn."""
    session_id, exchange_id, parent = where
    tenant, scope_id, when = place.tenant, one.scope_id, _occurred(one, seq)
    event_id = new_id()
    memory_id = derived_id(event_id, "episodic")
    chain = hashlib.sha256((parent or session_id.bytes) + text.encode()).digest()
    role = "assistant" if seq % _EXCHANGE_TURNS else "user"
    kept = (role, text, "import", role, "internal", 20, when, when)
    rows["turns"].append((tenant, event_id, scope_id, session_id, exchange_id, seq, chain, parent, *kept))
    key, version = content_key(tenant, event_id), one.first + seq + 1
    rows["memories"].append((tenant, memory_id, scope_id, "episodic", key, session_id, version, when))
    rows["memory_versions"].append((tenant, memory_id, 1, scope_id, text, role, role, "internal", "import", when, when))
    rows["derivations"].append((tenant, memory_id, "memory", event_id, "turn", 0, scope_id))
    rows["embeddings"].append((tenant, scope_id, memory_id, 1, 0, 0, len(text), vector))
    return chain


def _occurred(one: Conversation, seq: int) -> Any:
    """When a turn was said: conversations are spread over a year, a turn each minute."""
    start = (one.number * 97 + one.scope_id * 13) * SESSION_TURNS % _YEAR_MINUTES
    return FIRST_TURN + timedelta(minutes=start + seq)


async def make_scopes(dsn: str, lots: Sequence[Lot]) -> Place:
    """The scopes of all lots, empty. Raises StoreNotFilled; nothing is written then."""
    async with _owning(dsn) as connection, connection.transaction():
        return await _place(connection, lots)


async def fill(dsn: str, lots: Sequence[Lot], vectors: VectorSource, say: Say, made: Place | None = None) -> Place:
    """Write all lots, then VACUUM (ANALYZE) and a checkpoint, so that neither falls into the measurement. `made`: their
    scopes, where these are there.

    Raises StoreNotFilled; what was written by then stays, except for the batch in hand.
    """
    async with _owning(dsn) as connection:
        await connection.set_type_codec("halfvec", schema="public", encoder=bytes, decoder=bytes, format="binary")
        place = made or await _place(connection, lots)
        batches = list(_batches(conversations_of(lots, place.scope_ids)))
        for number, batch in enumerate(batches):
            await _copy(connection, place, rows_of(place, batch, vectors, number))
            say(f"copied {(number + 1) * 100 // len(batches)} % of {sum(lot.memories for lot in lots):,} memories")
        for table in _tables(place):
            say(f"vacuum and analyze {table}")
            await connection.execute(f'VACUUM (ANALYZE) "{table}"')
        await connection.execute("CHECKPOINT")
    return place


@asynccontextmanager
async def _owning(dsn: str) -> AsyncIterator[Any]:
    """A connection of the store's owner. Raises StoreNotFilled for it and for what is refused on it."""
    try:
        connection = await asyncpg.connect(dsn, timeout=10)
    except (OSError, TimeoutError, ValueError, asyncpg.PostgresError, asyncpg.InterfaceError) as exc:
        raise StoreNotFilled(f"Postgres cannot be reached as --dsn says: {exc}") from exc
    try:
        yield connection
    except (OSError, ValueError, asyncpg.PostgresError, asyncpg.InterfaceError) as exc:
        raise StoreNotFilled(
            f"the store refused the memories: {exc}. --dsn must name an owner past row-level security (a superuser), "
            "of the database that the service uses, migrated by this version"
        ) from exc
    finally:
        await connection.close()


async def remove(dsn: str, place: Place) -> None:
    """Delete all that hangs on these scopes, for a store that is not ours. Raises asyncpg.PostgresError, OSError."""
    connection = await asyncpg.connect(dsn, timeout=10)
    try:
        for table in (place.embeddings, *_OF_SCOPE):
            await connection.execute(
                f'DELETE FROM "{table}" WHERE tenant_id = $1 AND scope_id = ANY ($2)',
                place.tenant,
                list(place.scope_ids),
            )
    finally:
        await connection.close()


def _batches(conversations: Sequence[Conversation]) -> Iterator[Sequence[Conversation]]:
    for start in range(0, len(conversations), _CONVERSATIONS_AT_ONCE):
        yield conversations[start : start + _CONVERSATIONS_AT_ONCE]


def _tables(place: Place) -> list[str]:
    return [place.embeddings if name == "embeddings" else name for name in _COLUMNS] + ["scopes", "scope_versions"]


async def _place(connection: Any, lots: Sequence[Lot]) -> Place:
    """Find tenant and table, make the scopes."""
    tenant = await connection.fetchval("SELECT tenant_id FROM tenants WHERE name = 'default'")
    table = await connection.fetchrow(
        "SELECT t.table_name, m.dim FROM embedding_tables t JOIN embedding_models m USING (model_id) WHERE m.name = $1 "
        "ORDER BY m.model_id DESC LIMIT 1",
        DEFAULT_MODEL,
    )
    if tenant is None or table is None:
        raise StoreNotFilled(
            f"the store has no tenant `default` or no table of {DEFAULT_MODEL}: start the service once"
        )
    made = await connection.fetch(
        "INSERT INTO scopes (tenant_id, user_name, project, agent) SELECT $1, u.name, 'default', 'default' "
        "FROM unnest($2::text[]) WITH ORDINALITY AS u (name, place) ORDER BY u.place RETURNING scope_id, user_name",
        tenant,
        [lot.user for lot in lots],
    )
    ids = {row["user_name"]: row["scope_id"] for row in made}
    await connection.executemany(
        "INSERT INTO scope_versions (tenant_id, scope_id, version) VALUES ($1, $2, $3)",
        [(tenant, ids[lot.user], lot.memories) for lot in lots],
    )
    return Place(tenant, table["table_name"], table["dim"], tuple(ids[lot.user] for lot in lots))


async def _copy(connection: Any, place: Place, rows: Rows) -> None:
    async with connection.transaction():
        await connection.execute("SELECT set_config('mp.rules', $1, true)", mark_of(policy_of(Settings())))
        for name, columns in _COLUMNS.items():
            table = place.embeddings if name == "embeddings" else name
            await connection.copy_records_to_table(table, records=rows[name], columns=columns.split())
