"""The benchmark of search times says what it measured, and the product reads what it copied into the store."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast
from uuid import UUID

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from bench.overhead.fill import SESSION_TURNS
from bench.recall.client import CallFailed, session
from bench.search_times import fill as fill_module
from bench.search_times.__main__ import Run, main, parse_arguments, scopes_of
from bench.search_times.calls import Timed, answered_by, held_in, search
from bench.search_times.fill import (
    Place,
    StoreNotFilled,
    VectorSource,
    conversations_of,
    fill,
    halfvecs,
    lots_of,
    remove,
    rows_of,
    user_of,
)
from bench.search_times.measure import First, Hot
from bench.search_times.plot import plot
from bench.search_times.report import promise, size_json, table
from memory.adapters.model_registry import DEFAULT_MODEL
from memory.adapters.postgres.migrate import ensure_embedding_table
from memory.adapters.postgres.read_store import ReadStore
from memory.adapters.redaction import again
from memory.config import Settings
from memory.model import Scope
from memory.ports import Embedder
from memory.read.items import Filter
from tests.postgres.seed import stores
from tests.postgres_fixture import DIM, TestDatabase

NOWHERE = "postgresql://nobody@127.0.0.1:1/none"


def silent(_: str) -> None:
    pass


def sources(count: int = 8) -> VectorSource:
    raw = np.random.default_rng(3).standard_normal((count, DIM), dtype=np.float32)
    return VectorSource(raw / np.linalg.norm(raw, axis=1, keepdims=True))


class Bases:
    """An embedder whose vectors mean nothing."""

    async def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        vectors: NDArray[np.float32] = np.ones((len(texts), DIM), np.float32)
        return vectors


def hot(over_ms: float) -> Hot:
    searches = [Timed(5 + over_ms + 1, 5 + over_ms, "full")] * 3
    return Hot([5.0] * 3, searches, [Timed(9, 6, "full"), Timed(260, 250, "deadline")], {"proxy": 7.0})


def report_of(over_ms: float) -> dict[str, Any]:
    firsts = [First(Timed(120, 100, "no-rerank"), 2.5, 2**20), First(Timed(260, 251, "deadline"), None, 0)]
    sizes = {
        "10000": size_json(hot(over_ms), firsts, [Timed(90, 80, "no-rerank")]),
        "100000": size_json(None, firsts[1:], []),
    }
    report: dict[str, Any] = json.loads(json.dumps({"store": 1_000_000, "sizes": sizes}))
    return report


def test_the_store_is_filled_to_the_number_asked_for() -> None:
    lots = lots_of("p", {1_000: 2, 10_000: 1}, 14_500)
    assert [lot.memories for lot in lots] == [1_000, 1_000, 10_000, 1_000, 1_000, 500]
    assert len({lot.user for lot in lots}) == len(lots)
    assert user_of("p", 1_000, 1) == lots[1].user
    assert lots_of("p", {100: 1}, 0) == lots_of("p", {100: 1}, 100)


@given(st.lists(st.integers(1, 95), min_size=1, max_size=6))
def test_conversations_cover_every_memory_of_every_scope_once(counts: list[int]) -> None:
    lots = lots_of("p", {count: 1 for count in counts}, 0)
    found = conversations_of(lots, range(len(lots)))
    for scope_id, lot in enumerate(lots):
        turns = sorted(one.first + seq for one in found if one.scope_id == scope_id for seq in range(one.turns))
        assert turns == list(range(lot.memories))


def test_exchanges_of_one_batch_alternate_between_its_conversations() -> None:
    lots = lots_of("p", {40: 2}, 0)
    place = Place(tenant=UUID(int=1), embeddings="e", dim=DIM, scope_ids=(1, 2))
    rows = rows_of(place, conversations_of(lots, place.scope_ids), sources(), 0)
    seqs = [row[5] for row in rows["turns"]]
    assert seqs == sorted(seqs, key=lambda seq: seq // 2)
    assert len(rows["embeddings"]) == len(rows["memories"]) == 80
    assert {row[4] for row in rows["sessions"]} == {SESSION_TURNS}


def test_vectors_are_of_length_one_and_near_their_base() -> None:
    taken = sources(1).take(200)
    assert np.linalg.norm(taken, axis=1) == pytest.approx(np.ones(200), abs=1e-5)
    cosines = taken @ sources(1)._bases[0]
    assert float(cosines.mean()) == pytest.approx(0.9, abs=0.02)


def test_a_halfvec_is_dimension_and_big_endian_halves() -> None:
    assert halfvecs(np.array([[1.0, -2.0]], np.float32)) == [bytes.fromhex("00020000 3c00 c000")]


async def test_the_product_reads_what_was_copied_and_nothing_stays_after_removal(postgres: TestDatabase) -> None:
    async with stores(postgres) as made:
        embeddings = await ensure_embedding_table(postgres.owner, DEFAULT_MODEL, "1" * 64, DIM)
        lots = lots_of("p", {50: 1}, 90)
        place = await fill(postgres.owner, lots, sources(), silent)
        read = ReadStore(made.database, made.scopes, embeddings, dim=DIM)
        own = Scope(made.tenant, lots[0].user, "default", "default")
        [visible] = await read.visible_scopes(own)
        rows = [row async for batch in read.index_rows(made.tenant, [visible.scope_id]) for row in batch]
        assert len(rows) == 50
        assert all(row.visible and row.vectors.shape == (1, DIM) and row.event_ids and row.chain for row in rows)
        assert {row.cleaned_by for row in rows} == {again(Settings()).mark}, "else it is cleaned at each load"
        assert all(row.context for row in rows if row.seq % SESSION_TURNS)
        assert max(row.changed_version for row in rows) <= visible.version
        nearest = await read.nearest(made.tenant, [visible.scope_id], rows[7].vectors[0], 3, Filter())
        assert nearest[0].memory_id == rows[7].memory_id
        await remove(postgres.owner, place)
        assert await read.visible_scopes(own) == ()
        for name in ("memories", "memory_versions", "turns", "derivations", "sessions", embeddings):
            assert postgres.psql(f"SELECT count(*) FROM {name}") == "0"


async def test_a_store_that_breaks_off_while_it_is_filled_is_left_as_it_was(
    postgres: TestDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    copied: list[int] = []

    async def full(connection: Any, place: Place, rows: Any) -> None:
        if copied:
            raise OSError("No space left on device")
        copied.append(len(rows["memories"]))
        await copy(connection, place, rows)

    copy = fill_module._copy
    monkeypatch.setattr(fill_module, "_copy", full)
    monkeypatch.setattr(fill_module, "_CONVERSATIONS_AT_ONCE", 2)
    words = ["--url", "http://127.0.0.1:1", "--dsn", postgres.owner, "--sizes", "50", "--scopes", "1", "--store", "150"]
    async with stores(postgres):
        await ensure_embedding_table(postgres.owner, DEFAULT_MODEL, "1" * 64, DIM)
        with pytest.raises(StoreNotFilled, match="No space left"):
            await Run(parse_arguments(words), cast(Embedder, Bases()), silent).given()
        assert len(copied) == 1
        for name in ("scopes", "memories", "turns", "sessions"):
            assert postgres.psql(f"SELECT count(*) FROM {name}") == "0", name


async def test_a_store_that_is_away_or_of_another_model_is_refused_with_a_remedy(postgres: TestDatabase) -> None:
    with pytest.raises(StoreNotFilled, match="--dsn"):
        await fill(NOWHERE, [], sources(), silent)
    with pytest.raises(StoreNotFilled, match="start the service"):
        await fill(postgres.owner, [], sources(), silent)


@pytest.mark.parametrize(
    ("status", "answered"),
    [
        ("injected", "full"),
        ("empty; rung=no-rerank", "no-rerank"),
        ("degraded; reason=deadline", "deadline"),
        ("injected; reason=embedder; rung=lexical", "lexical"),
    ],
)
def test_an_answer_is_counted_by_its_rung_or_its_reason(status: str, answered: str) -> None:
    assert answered_by(status) == answered


def test_bytes_of_hot_scopes_are_those_of_all_workers() -> None:
    text = '# HELP memory_proxy_hot_scope_bytes B\nmemory_proxy_hot_scope_bytes{pid="1"} 1e3\n'
    assert held_in(text + 'memory_proxy_hot_scope_bytes{pid="2"} 24.0\n') == 1_024
    assert held_in("") == 0


async def test_a_silent_service_is_an_error_and_not_a_figure() -> None:
    async with session() as http:
        with pytest.raises(CallFailed, match="search"):
            await search(http, "http://127.0.0.1:1", "ada", "where?")


def test_the_promise_is_judged_at_its_size_and_by_the_services_own_time() -> None:
    assert str(promise(report_of(1.9)["sizes"])).startswith("kept")
    assert str(promise(report_of(2.1)["sizes"])).startswith("MISSED")
    assert promise({}) is None


def test_the_table_names_what_was_not_measured() -> None:
    said = table(report_of(1.0))
    assert "never held" in said and "deadline:1 no-rerank:1" in said and "kept" in said
    widths = {len(line) for line in said.splitlines()[2:5]}
    assert len(widths) == 1


def test_a_report_without_some_figures_is_drawn(tmp_path: Path) -> None:
    plot(report_of(1.0), tmp_path / "times.png")
    assert (tmp_path / "times.png").read_bytes().startswith(b"\x89PNG")


def test_quick_is_small_and_sizes_are_sorted() -> None:
    assert parse_arguments(["--quick"]).store == 30_000
    assert parse_arguments(["--quick", "--questions", "7"]).questions == 7
    chosen = parse_arguments(["--sizes", "5000,100,100", "--store", "60000"])
    assert scopes_of(chosen) == {100: 8, 5_000: 8}


@pytest.mark.parametrize(
    ("argv", "remedy"),
    [
        (["--url", "http://127.0.0.1:1"], "go together"),
        (["--pid", "1"], "--url"),
        (["--store", "10"], "--scopes 1"),
        (["--sizes", "0"], "1 memory or more"),
        (["--questions", "0"], "1 or more"),
        (["--store", "1000000000000"], "--work"),
    ],
)
def test_what_cannot_be_done_is_refused_with_a_remedy(
    argv: list[str], remedy: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as refused:
        parse_arguments(argv)
    assert refused.value.code == 2
    assert remedy in capsys.readouterr().err


def test_a_store_that_cannot_be_reached_ends_with_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--quick", "--url", "http://127.0.0.1:1", "--dsn", NOWHERE, "--quiet"]) == 1
    assert capsys.readouterr().err.startswith("search_times: Postgres cannot be reached")
