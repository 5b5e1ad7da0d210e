"""A store with a past: memories of other users in, Postgres' shared buffers full of them.

Buffers fill up to a fixed size in the first quarter of an hour on an empty store, which a run's memory would count as
growth. Needs the extension pg_prewarm, which comes with Postgres. Raises StoreNotFilled, EmbedderUnavailable,
ModelFileInvalid, asyncpg.PostgresError.
"""

from __future__ import annotations

from typing import Final

import asyncpg

from bench.recall.__main__ import embedder_unless
from bench.search_times.fill import Say, VectorSource, fill, lots_of

PREFIX: Final = "bench-trace-past"


async def with_past(dsn: str, memories: int, say: Say) -> None:
    """Write so many memories of users that nobody asks for, and read their tables until no buffer is free."""
    with embedder_unless(False) as embedder:
        assert embedder is not None
        vectors = await VectorSource.of(embedder)
    place = await fill(dsn, lots_of(PREFIX, {}, memories), vectors, say)
    connection = await asyncpg.connect(dsn, timeout=10)
    try:
        await connection.execute("CREATE EXTENSION IF NOT EXISTS pg_prewarm")
        for table in (place.embeddings, "memory_versions", "turns"):
            blocks = await connection.fetchval("SELECT pg_prewarm($1::regclass)", table)
            say(f"Postgres read {blocks:,} blocks of {table}")
    finally:
        await connection.close()
