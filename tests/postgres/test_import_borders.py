"""A secret that goes over the border of two chunks, or over lines that are known already: its second half is cut."""

from __future__ import annotations

from dataclasses import replace

import pytest

from memory import payload
from memory.adapters.redaction import borders
from memory.envelope import Binding, seal
from memory.ids import new_id
from memory.model import ImportChunk, ImportLine, Scope
from memory.ports import Delivery, Entry
from memory.write.pipeline import WritePath
from tests.postgres.seed import T0, digest
from tests.postgres.test_write_path import Life, Workshop, workshop
from tests.test_redact_across import GITHUB

__all__ = ["workshop"]
HALVES = GITHUB[:15], GITHUB[15:]


async def send(workshop: Workshop, *texts: str, session: str = "s") -> None:
    """One chunk of these lines, each known by its first word."""
    scope, exchange_id = Scope(workshop.store.tenant, "ada"), new_id()
    lines = tuple(
        ImportLine(at, session, "user", None, text, T0, text.split()[0], digest(session, text))
        for at, text in enumerate(texts, 1)
    )
    chunk = ImportChunk(exchange_id, new_id(), 0, scope, True, "error", T0, lines)
    subject = await workshop.keys.subject_id(scope.tenant, scope.user)
    binding = Binding(scope.tenant, subject, exchange_id, "import")
    key = await workshop.keys.subject_key(scope.tenant, scope.user)
    entry = Entry(exchange_id, scope.tenant, subject, "import", "bulk", seal(key, binding, payload.pack_import(chunk)))
    lane, fence = next(iter(workshop.fences.items()))
    path = WritePath(replace(workshop.path(Life(float("inf"))).parts, borders=borders()))
    await path.write_import(Delivery(entry, lane, "1", 1), fence)


async def said(workshop: Workshop) -> list[str]:
    rows = await workshop.eyes.fetch("SELECT content FROM turns ORDER BY session_id, seq")
    return [row["content"] for row in rows]


@pytest.mark.parametrize("between", [(), ("b Go on, please.",)], ids=["next", "one between"])
async def test_a_secret_over_the_border_of_two_chunks_loses_its_second_half(
    workshop: Workshop, between: tuple[str, ...]
) -> None:
    first, second = f"a the first half is {HALVES[0]}", f"c {HALVES[1]}"
    await send(workshop, first, *between)
    await send(workshop, second)
    assert (await said(workshop))[0] == first
    assert HALVES[1] not in "".join(await said(workshop))


async def test_lines_that_are_known_already_are_neighbours_too(workshop: Workshop) -> None:
    first, others = f"a the first half is {HALVES[0]}", [f"x{n} something else" for n in range(3)]
    await send(workshop, first, *others)
    await send(workshop, first, f"c {HALVES[1]}")
    assert HALVES[1] not in "".join(await said(workshop))


async def test_sessions_are_no_neighbours_and_what_is_no_secret_stays(workshop: Workshop) -> None:
    await send(workshop, f"a the first half is {HALVES[0]}")
    await send(workshop, f"c {HALVES[1]}", session="t")
    await send(workshop, "d Nothing secret here.", "e Nor here.")
    assert sorted(await said(workshop))[1:] == [f"c {HALVES[1]}", "d Nothing secret here.", "e Nor here."]
