"""Data keys and the master key change beside live traffic, and a run that was killed is simply run again."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from memory.adapters.postgres.rotation import Counts, Rotation
from memory.encryption_command import rotated, standing
from memory.errors import EnvelopeUnreadable
from memory.keys import KeyRing
from memory.master import LocalMaster
from memory.stored import MemoryChange
from tests.postgres.seed import T0, exchange
from tests.postgres.test_sealed_rows import WORD, Vaulted, confidential, loaded, vault

__all__ = ["vault"]
AT_ONCE = timedelta(days=-1)  # keys made up to tomorrow are old enough


async def not_at_all(_seconds: float) -> None:
    """A wait that does not wait."""


async def filled(vault: Vaulted, exchanges: int = 3) -> None:
    for n in range(exchanges):
        made = confidential(exchange(vault.stores.scope(), f"s{n}", 0, (f"{n} {WORD}", f"{WORD} {n}")))
        await vault.stores.write.commit(made, now=T0)


def rotation_of(vault: Vaulted, master: LocalMaster | bytes = bytes(32)) -> Rotation:
    return Rotation(vault.stores.database, KeyRing(vault.stores.keys, master))


async def test_after_a_rotation_every_row_is_under_the_new_key_and_reads_the_same(vault: Vaulted) -> None:
    await filled(vault)
    before = {row.memory_id: row.content for row in await loaded(vault)}
    old = await vault.keys.subject_key(vault.stores.tenant, "ada")
    counts = await rotated(rotation_of(vault), AT_ONCE, not_at_all)
    assert (counts.sealed, counts.moved, counts.unreadable) == (18, 18, 0)  # 6 turns, 6 versions, 6 windows
    assert {row.memory_id: row.content for row in await loaded(vault)} == before
    left = await standing(rotation_of(vault))
    assert (left.sealed, left.old, left.open) == (18, 0, 0)
    assert left.keys_retired == 1
    assert (counts.keys, counts.keys_retired, counts.keys_to_rewrap) == (left.keys, left.keys_retired, 0)
    fresh = KeyRing(vault.stores.keys, bytes(32))
    assert (await fresh.subject_key(vault.stores.tenant, "ada")).key_id != old.key_id
    assert (await fresh.by_id(vault.stores.tenant, old.key_id)).secret == old.secret  # what it sealed still opens


async def test_a_killed_rotation_goes_on_where_it_stood(vault: Vaulted) -> None:
    """Killed after the keys and before the rows; the second run makes no third key."""
    await filled(vault)
    now = datetime.now(UTC)
    rotation = rotation_of(vault)
    first = await rotation.rotate_keys(vault.stores.tenant, now + timedelta(days=1), now)
    assert first.keys_rotated == 1
    half = await standing(rotation_of(vault))
    assert (half.old, half.unreadable) == (18, 0)
    waited: list[float] = []

    async def rest(seconds: float) -> None:
        waited.append(seconds)

    again = await rotated(rotation_of(vault), timedelta(days=1), rest)
    assert (again.keys_rotated, again.moved) == (0, 18)
    assert len(waited) == 1 and 0 < waited[0] <= 70, "others may seal under the old key yet, whoever replaced it"
    assert vault.postgres.psql("SELECT count(*) FROM data_keys WHERE subject_id IS NOT NULL") == "2"


async def test_two_rotations_at_once_make_one_new_key_and_lose_no_row(vault: Vaulted) -> None:
    await filled(vault)
    await asyncio.gather(*(rotated(rotation_of(vault), AT_ONCE, not_at_all) for _ in range(2)))
    assert {row.content for row in await loaded(vault)} == {f"{n} {WORD}" for n in range(3)} | {
        f"{WORD} {n}" for n in range(3)
    }
    in_force = "SELECT count(*) FROM data_keys WHERE subject_id IS NOT NULL AND retired_at IS NULL"
    assert vault.postgres.psql(in_force) == "1"


async def test_writers_and_editors_beside_a_rotation_lose_nothing(vault: Vaulted) -> None:
    await filled(vault)
    scope = vault.stores.scope()
    ids = [row.memory_id for row in await loaded(vault)]

    async def edit() -> None:
        for one in ids:
            await vault.stores.records.patch_memory(
                scope, one, 1, MemoryChange(sensitivity="secret"), datetime.now(UTC)
            )

    async def write() -> None:
        for n in range(10, 20):
            await vault.stores.write.commit(confidential(exchange(scope, f"s{n}", 0, (f"{n} {WORD}",))), now=T0)

    await asyncio.gather(edit(), write(), rotated(rotation_of(vault), AT_ONCE, not_at_all))
    rows = {row.memory_id: row for row in await loaded(vault)}
    assert len(rows) == 16 and all(WORD in row.content for row in rows.values())
    assert {rows[one].sensitivity for one in ids} == {"secret"}
    assert WORD not in vault.raw()


async def test_a_row_that_does_not_open_is_counted_and_never_overwritten(vault: Vaulted) -> None:
    await filled(vault, 1)
    vault.postgres.psql("UPDATE turns SET content = (SELECT max(content) FROM turns)")
    before = vault.postgres.psql("SELECT content FROM turns ORDER BY event_id")
    counts = await rotated(rotation_of(vault), AT_ONCE, not_at_all)
    assert counts.unreadable == 1
    after = vault.postgres.psql("SELECT content FROM turns ORDER BY event_id").split("\n")
    assert len(set(before.split("\n")) & set(after)) == 1


async def test_rows_from_before_the_vault_are_sealed_by_a_rotation(vault: Vaulted) -> None:
    await filled(vault, 1)
    vault.postgres.psql(f"UPDATE turns SET content = 'open {WORD}'")
    vault.postgres.psql("UPDATE turns SET tool_calls = NULL")
    assert (await standing(rotation_of(vault))).open == 2
    await rotated(rotation_of(vault), AT_ONCE, not_at_all)
    assert WORD not in vault.raw()


async def test_vectors_from_before_the_vault_are_sealed_by_a_rotation_too(vault: Vaulted) -> None:
    """As the migration that brought the vault found them: labelled, and in the tables of the models."""
    await vault.stores.write.commit(exchange(vault.stores.scope(), "s", 0, (f"1 {WORD}", f"{WORD} 1")), now=T0)
    vault.postgres.psql("UPDATE memory_versions SET sensitivity = 'confidential'")
    in_the_open = f"SELECT count(*) FROM {vault.postgres.embeddings}"
    assert (await standing(rotation_of(vault))).open == 4  # 2 versions, 2 windows
    assert vault.postgres.psql(in_the_open) == "2"
    await rotated(rotation_of(vault), AT_ONCE, not_at_all)
    assert vault.postgres.psql(in_the_open) == "0"
    assert [bool(np.any(row.vectors)) for row in await loaded(vault)] == [True, True]
    left = await standing(rotation_of(vault))
    assert (left.sealed, left.open, left.old) == (4, 0, 0)


async def test_the_master_key_changes_without_a_stop(vault: Vaulted) -> None:
    await filled(vault, 1)
    before, after = bytes(32), bytes(range(32))
    both = LocalMaster(after, (before,))
    assert (await standing(rotation_of(vault, both))).keys_to_rewrap == 1
    counts = await standing(rotation_of(vault, both), rewrap=True)
    assert counts.keys_rewrapped == 1
    assert (await standing(rotation_of(vault, both), rewrap=True)).keys_to_rewrap == 0
    alone = KeyRing(vault.stores.keys, after)
    await alone.tenant_key(vault.stores.tenant)
    with pytest.raises(EnvelopeUnreadable):
        await KeyRing(vault.stores.keys, before).tenant_key(vault.stores.tenant)
    # A process that started before holds the tenant's key and goes on.
    assert {row.content for row in await loaded(vault)} == {f"0 {WORD}", f"{WORD} 0"}


async def test_a_process_notices_a_rotated_key_within_its_bound(vault: Vaulted) -> None:
    moments = [datetime(2026, 11, 22, tzinfo=UTC)]
    ring = KeyRing(vault.stores.keys, bytes(32), lambda: moments[-1])
    old = await ring.subject_key(vault.stores.tenant, "ada")
    await rotation_of(vault).rotate_keys(vault.stores.tenant, datetime.now(UTC) + timedelta(days=1), datetime.now(UTC))
    assert (await ring.subject_key(vault.stores.tenant, "ada")).key_id == old.key_id
    moments.append(moments[-1] + timedelta(seconds=61))
    assert (await ring.subject_key(vault.stores.tenant, "ada")).key_id != old.key_id


def test_counts_add_up() -> None:
    total = Counts(sealed=1)
    total.add(Counts(sealed=2, keys=1))
    assert total == Counts(sealed=3, keys=1)
