"""An older copy and the journal of later erasures: what was forgotten goes again, what is newer stays."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from memory.erasure.job import Erasing
from memory.erasure.reapply import reapply
from memory.model import Scope
from tests.postgres.test_erase import Bench, Dying, Killed, bench, rows

__all__ = ["bench"]
NAMES = [("user", "ada"), ("project", "p"), ("session", "s")]
LATER = ("the otter of Bohinj sleeps under the old mill wheel", "otters like mills and slow water very much")


async def cleaned(bench: Bench) -> int:
    """What `migrate` does before anybody is answered."""
    return await reapply(Erasing(bench.parts), bench.asking, bench.leader)


async def forgotten(bench: Bench, kind: Any, value: str, scope: Scope) -> UUID:
    erasure_id = await bench.ask(kind, value, scope)
    assert (await bench.run(erasure_id)).receipt["complete"]
    return erasure_id


def restored(bench: Bench, *scopes: Scope) -> None:
    """As an older copy is: no word of the erasure."""
    for table in ("tombstones", "erasure_items", "erasures"):
        bench.postgres.psql(f"DELETE FROM {table}")
    for scope in scopes:
        bench.stores.scopes.drop(scope)


def said(bench: Bench) -> list[str]:
    """All that the store says, sorted."""
    return bench.postgres.psql(
        "SELECT content FROM turns UNION SELECT content FROM memory_versions ORDER BY 1"
    ).splitlines()


def soon() -> datetime:
    return datetime.now(UTC) + timedelta(seconds=1)


@pytest.mark.parametrize(("kind", "name"), NAMES)
async def test_a_line_that_found_nothing_takes_nothing_of_who_comes_back(bench: Bench, kind: str, name: str) -> None:
    ada = bench.stores.scope("ada")
    await bench.commit(ada, "s")
    erasure_id = await forgotten(bench, kind, name, ada)
    restored(bench, ada)  # to before she was there
    assert await cleaned(bench) == 1
    await bench.commit(ada, "s", LATER, arrived_at=soon(), at=2)
    kept = said(bench)
    assert set(LATER) <= set(kept)
    assert await cleaned(bench) == 0
    assert said(bench) == kept
    job = await bench.asking.job(bench.stores.tenant, erasure_id)
    assert job is not None and job.step == "ended" and job.receipt is not None
    assert job.receipt["id"] == str(erasure_id) and job.receipt["complete"]


@pytest.mark.parametrize("step", ["add", "mark", "delete"])
async def test_killed_in_the_middle_the_next_start_goes_on_before_anybody_is_answered(bench: Bench, step: str) -> None:
    ada = bench.stores.scope("ada")
    await bench.commit(ada, "s")
    erasure_id = await forgotten(bench, "user", "ada", ada)
    restored(bench, ada)
    await bench.commit(ada, "s")
    dying = Dying(bench.stores.database, bench.postgres.embeddings)
    dying.dies_after = step
    parts = replace(bench.parts, store=dying)
    with pytest.raises(Killed):
        await reapply(Erasing(parts), replace(bench.asking, store=dying), bench.leader)
    assert rows(bench, "tombstones") > 0
    await cleaned(bench)
    assert rows(bench, "turns") == rows(bench, "memories") == 0
    assert (await bench.run(erasure_id)).receipt["complete"]
