"""The second wall alone: the product's own read queries, their filters taken out, show a foreign identity nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from bench.leak_walls import Attack, attacked, read_queries, unfiltered
from memory.model import Scope
from tests.postgres.seed import SUBJECT, T0, Stores, chunk, exchange, stores
from tests.postgres_fixture import DIM, TestDatabase

THEIRS = "qzforeignmark"
# Of the 135 or so queries that ask by tenant or scope; the others want rows that no test here makes.
POWER_MIN = 40


@dataclass(frozen=True)
class Wall:
    """A store with somebody else's rows in it, and who would like to see them."""

    postgres: TestDatabase
    attacks: tuple[Attack, Attack]  # the same tenant's, another tenant's


@pytest.fixture
async def wall(postgres: TestDatabase) -> AsyncIterator[Wall]:
    async with stores(postgres) as made:
        await made.write.commit(exchange(made.scope(), "theirs", 0, (f"{THEIRS} hello", f"{THEIRS} hi")), now=T0)
        lines, items = chunk(made.scope(), [("imported", f"{THEIRS} past", "src")])
        await made.imports.commit_import(lines, items, subject_id=SUBJECT, lane="live-0", fence=made.fence, now=T0)
        other = await made.keys.ensure_tenant("other", T0)
        mine = (made.scope("eve"), Scope(other, "ada", "p", "a"))
        for number, scope in enumerate(mine):
            await made.write.commit(exchange(scope, f"mine-{number}", 0, ("mine", "own")), now=T0)
        attacks = [await _attack(postgres, made, scope) for scope in mine]
        yield Wall(postgres, (attacks[0], attacks[1]))


async def _attack(postgres: TestDatabase, made: Stores, mine: Scope) -> Attack:
    theirs = await made.scopes.ensure(made.scope())
    connection: Any = await asyncpg.connect(postgres.owner)
    ids: list[UUID] = []
    for table, column in (
        ("memories", "memory_id"), ("turns", "event_id"), ("sessions", "session_id"), ("exchanges", "exchange_id"),
        ("retrievals", "retrieval_id"), ("import_chunks", "import_id"),
    ):  # fmt: skip
        found = await connection.fetch(f"SELECT {column} AS id FROM {table} WHERE scope_id = $1 LIMIT 3", theirs)
        ids += [UUID(int=row["id"].int) for row in found]
    chains = await connection.fetch("SELECT chain FROM turns WHERE scope_id = $1", theirs)
    await connection.close()
    return Attack(
        tenant=mine.tenant,
        scope_ids=(await made.scopes.ensure(mine),),
        foreign_tenant=made.tenant,
        foreign_scopes=(theirs,),
        ids=tuple(ids),
        chains=tuple(row["chain"] for row in chains),
        words=(THEIRS.encode(),),
        label="theirs",
        names=("ada", "p", "a"),
    )


@pytest.mark.timeout(180)
async def test_no_read_query_without_its_filter_shows_a_foreign_row(wall: Wall) -> None:
    found = await attacked(wall.postgres.owner, wall.postgres.app, wall.postgres.embeddings, wall.attacks, DIM)
    assert found.foreign == []
    assert found.refused == {}, "a query that cannot be asked proves nothing"
    assert found.queries > 100
    assert len(found.with_power) >= POWER_MIN, sorted(found.with_power)


@pytest.mark.timeout(180)
@pytest.mark.parametrize("table", ["memory_versions", "sessions"])
async def test_a_table_without_its_policy_is_seen_at_once(wall: Wall, table: str) -> None:
    """Otherwise the test above would prove nothing."""
    wall.postgres.psql(f"ALTER TABLE {table} DISABLE ROW LEVEL SECURITY")
    found = await attacked(wall.postgres.owner, wall.postgres.app, wall.postgres.embeddings, wall.attacks[:1], DIM)
    assert found.foreign


def test_only_conditions_on_tenant_and_scope_are_taken_out() -> None:
    assert unfiltered("SELECT 1 FROM turns t WHERE t.tenant_id = $1 AND scope_id = ANY ($2) AND t.seq = $3") == (
        "SELECT 1 FROM turns t WHERE ($1::uuid IS NOT NULL) AND ($2::int8[] IS NOT NULL) AND t.seq = $3"
    )
    assert "changed_memories" in read_queries("memory_embeddings_x")
    assert "add_turn" not in read_queries("memory_embeddings_x"), "what writes is not run"
