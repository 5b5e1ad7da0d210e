"""What the store costs on this machine: `python -m tests.postgres.measure`. fsync is on, all as mp_app, one client.

Prints milliseconds for a live commit (2 turns, 2 memories, 2 vectors), import throughput in chunks of 64 lines, the
rows of an index of 10,000 memories, and an exact scan over them.
"""

from __future__ import annotations

import asyncio
import shutil
import statistics
import time
from datetime import timedelta

from memory.ids import new_id
from memory.read.items import Filter
from tests.postgres.seed import LANE, SUBJECT, T0, Stores, chunk, exchange, stores, vectors
from tests.postgres_fixture import make_template, start_server


async def commits(store: Stores, number: int) -> None:
    scope, taken = store.scope(), []
    text = "a message of some length, as people write them when they ask for something " * 4
    for n in range(number):
        one = exchange(scope, f"s{n // 10}", 2 * (n % 10), (text, text))
        started = time.perf_counter()
        await store.write.commit(one, now=T0)
        taken.append((time.perf_counter() - started) * 1000)
    cut = sorted(taken)
    print(f"live commit: p50 {statistics.median(cut):.2f} ms, p95 {cut[int(0.95 * number)]:.2f} ms, {number} of them")


async def imports(store: Stores, chunks: int) -> None:
    scope, import_id = store.scope("bulk"), new_id()
    text = "a message of some length, as people write them when they ask for something " * 4
    made = [
        chunk(scope, [(f"s{n // 4}", f"{text}{n}-{m}", None) for m in range(64)], n, import_id=import_id, start=64 * n)
        for n in range(chunks)
    ]
    started = time.perf_counter()
    for one, items in made:
        await store.imports.commit_import(one, items, subject_id=SUBJECT, lane=LANE, fence=store.fence, now=T0)
    taken = time.perf_counter() - started
    print(f"import: {chunks * 64 / taken:.0f} lines/s, {taken / chunks * 1000:.1f} ms a chunk of 64")


async def reading(store: Stores) -> None:
    scope = store.scope("bulk")
    visible = await store.read.visible_scopes(scope)
    ids, rows = [one.scope_id for one in visible], 0
    for _ in range(3):
        started, rows = time.perf_counter(), 0
        async for batch in store.read.index_rows(store.tenant, ids):
            rows += len(batch)
        print(f"index of {rows} rows: {(time.perf_counter() - started) * 1000:.0f} ms")
    past, started = 0, time.perf_counter()
    async for batch in store.read.index_rows(store.tenant, ids, as_of=T0 + timedelta(days=1)):
        past += len(batch)
    print(f"the same as of a moment ({past}): {(time.perf_counter() - started) * 1000:.0f} ms")
    taken = []
    for _ in range(20):
        query = vectors(1)[0]
        started = time.perf_counter()
        await store.read.nearest(store.tenant, ids, query, 30, Filter())
        taken.append((time.perf_counter() - started) * 1000)
    print(f"nearest 30 of {rows}: p50 {statistics.median(taken):.1f} ms")
    taken = []
    for _ in range(100):
        started = time.perf_counter()
        await store.read.visible_scopes(scope)
        taken.append((time.perf_counter() - started) * 1000)
    print(f"visible scopes: p50 {statistics.median(taken):.2f} ms")


async def main() -> None:
    server = start_server(fsync=True)
    try:
        await asyncio.to_thread(make_template, server)
        async with stores(server.fresh()) as store:
            await commits(store, 300)
            await imports(store, 157)
            server.psql("VACUUM ANALYZE", "t0")
            await commits(store, 300)
            await reading(store)
    finally:
        server.stop()
        shutil.rmtree(server.root, ignore_errors=True)


if __name__ == "__main__":
    asyncio.run(main())
