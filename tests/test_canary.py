"""Canaries: found in what leaves, whatever is around them; nothing else raises an alert, and a flood is bounded."""

from __future__ import annotations

import asyncio
import logging
from typing import Any
from uuid import UUID

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from memory.audit import Journal, Note
from memory.canary import MARK, TOKENS_MAX, WAITING_MAX, Canaries, plant_missing, text_of, token_of
from memory.errors import EnvelopeUnreadable, StoreUnavailable
from memory.telemetry import Metrics

OURS, THEIRS = UUID(int=1), UUID(int=2)


async def key_of(tenant: UUID) -> bytes:
    return tenant.bytes * 2


class Known:
    """Two tenants and the notes that were written; away when told so."""

    def __init__(self) -> None:
        self.notes: list[Note] = []
        self.away = False
        self.asked = 0

    async def tenants(self) -> list[tuple[UUID, str]]:
        self.asked += 1
        if self.away:
            raise StoreUnavailable("away")
        return [(OURS, "ours"), (THEIRS, "theirs")]

    async def record(self, notes: Any) -> None:
        self.notes += notes


def watching() -> tuple[Canaries, Known, Journal, Metrics]:
    known, metrics = Known(), Metrics(CollectorRegistry())
    journal = Journal(known, metrics)
    return Canaries(key_of, known, journal, metrics), known, journal, metrics


def seen(metrics: Metrics) -> float:
    (family,) = metrics.canary_seen.collect()
    return sum(sample.value for sample in family.samples if sample.name.endswith("_total"))


CANARY = token_of(OURS.bytes * 2, OURS)


@given(before=st.binary(max_size=60), after=st.binary(max_size=60))
async def test_a_foreign_canary_is_found_whatever_is_around_it(before: bytes, after: bytes) -> None:
    canaries, _, _, metrics = watching()
    canaries.look(THEIRS, "prompt", before + CANARY.encode() + after)
    assert await canaries.examine() == 1
    assert seen(metrics) == 1


async def test_an_alert_is_a_count_a_line_without_content_and_a_row_for_each_tenant(
    caplog: pytest.LogCaptureFixture,
) -> None:
    canaries, known, journal, _ = watching()
    with caplog.at_level(logging.ERROR):
        canaries.look_at_answer(THEIRS, ["nothing here", f"it is {CANARY}."])
        await canaries.examine()
    await journal.write()
    (line,) = caplog.records
    assert (line.message, line.levelno) == ("canary_seen", logging.ERROR)
    assert CANARY not in repr(line.__dict__)
    assert [(note.tenant, note.action) for note in known.notes] == [(OURS, "canary.seen"), (THEIRS, "canary.foreign")]
    assert CANARY not in repr(known.notes)
    assert str(THEIRS) not in repr(known.notes[0]), "a tenant's log names no other tenant"


@pytest.mark.parametrize(
    "text",
    [
        f"mine: {token_of(THEIRS.bytes * 2, THEIRS)}",
        CANARY[:-1] + ("0" if CANARY[-1] != "0" else "1"),
        CANARY.upper(),
        CANARY[:40],
        "mpcanary-",
        token_of(b"k" * 32, UUID(int=3)),
        f"mpcanary-{OURS.hex}-{'0' * 32}",
    ],
)
async def test_ones_own_and_made_up_canaries_raise_nothing(text: str) -> None:
    canaries, _, _, metrics = watching()
    canaries.look(THEIRS, "api", text.encode())
    assert await canaries.examine() == 0
    assert seen(metrics) == 0


async def test_what_was_found_while_the_store_is_away_is_examined_later() -> None:
    canaries, known, _, metrics = watching()
    known.away = True
    canaries.look(THEIRS, "prompt", CANARY.encode())
    with pytest.raises(StoreUnavailable):
        await canaries.examine()
    known.away = False
    assert await canaries.examine() == 1
    assert seen(metrics) == 1


async def test_a_tenant_whose_key_was_shredded_holds_up_no_other() -> None:
    known, metrics = Known(), Metrics(CollectorRegistry())

    async def shredded(tenant: UUID) -> bytes:
        if tenant == THEIRS:
            raise EnvelopeUnreadable("shredded")
        return await key_of(tenant)

    canaries = Canaries(shredded, known, Journal(known, metrics), metrics)
    canaries.look(OURS, "prompt", token_of(THEIRS.bytes * 2, THEIRS).encode())
    canaries.look(THEIRS, "prompt", CANARY.encode())
    assert await canaries.examine() == 1


async def test_a_flood_of_made_up_canaries_is_bounded() -> None:
    canaries, known, _, _ = watching()
    flood = b" ".join(f"mpcanary-{n:032x}-{n:032x}".encode() for n in range(1000))
    for _ in range(10 * WAITING_MAX):
        canaries.look(THEIRS, "prompt", flood)
    assert len(canaries._waiting) == WAITING_MAX
    assert all(len(tokens) <= TOKENS_MAX for _, _, tokens in canaries._waiting)
    assert await canaries.examine() == 0
    assert known.asked == 1


async def test_what_is_found_while_a_full_list_is_examined_costs_the_oldest_and_no_other() -> None:
    """What is being examined has left the list: else its place would be another's by the time it is done."""
    known, metrics = Known(), Metrics(CollectorRegistry())
    asked, goes_on = asyncio.Event(), asyncio.Event()

    async def slow(tenant: UUID) -> bytes:
        asked.set()
        await goes_on.wait()
        return await key_of(tenant)

    canaries = Canaries(slow, known, Journal(known, metrics), metrics)
    for _ in range(WAITING_MAX):
        canaries.look(THEIRS, "prompt", CANARY.encode())
    examining = asyncio.create_task(canaries.examine())
    await asked.wait()
    canaries.look(THEIRS, "prompt", CANARY.encode())
    goes_on.set()
    assert await examining == WAITING_MAX + 1


async def test_an_alert_is_raised_once_where_the_store_goes_in_the_middle() -> None:
    known, metrics = Known(), Metrics(CollectorRegistry())
    third, away = UUID(int=3), [True]

    async def keys(tenant: UUID) -> bytes:
        if tenant == THEIRS and away[0]:
            raise StoreUnavailable("away")
        return await key_of(tenant)

    canaries = Canaries(keys, known, Journal(known, metrics), metrics)
    canaries.look(third, "prompt", f"{CANARY} {token_of(THEIRS.bytes * 2, THEIRS)}".encode())
    with pytest.raises(StoreUnavailable):
        await canaries.examine()
    away[0] = False
    await canaries.examine()
    assert seen(metrics) == 2


async def test_nothing_is_asked_where_nothing_was_found() -> None:
    canaries, known, _, _ = watching()
    canaries.look(THEIRS, "prompt", b"an ordinary prompt" * 1000)
    assert await canaries.examine() == 0
    assert known.asked == 0


async def test_each_tenant_gets_its_canary_once_and_a_lost_one_again() -> None:
    class Beds:
        def __init__(self) -> None:
            self.texts: dict[UUID, str] = {}
            self.planted_in_all = 0

        async def tenants(self) -> list[tuple[UUID, str]]:
            return [(OURS, "ours"), (THEIRS, "theirs")]

        async def planted(self, tenant: UUID) -> str | None:
            return self.texts.get(tenant)

        async def plant(self, tenant: UUID, text: str, vectors: Any) -> None:
            assert vectors.shape == (1, 4)
            self.texts[tenant] = text
            self.planted_in_all += 1

    class Embeds:
        async def embed_documents(self, texts: Any) -> Any:
            return np.ones((len(texts), 4), np.float32)

    beds, done = Beds(), set[UUID]()
    assert await plant_missing(beds, key_of, Embeds(), done) == 2
    assert await plant_missing(beds, key_of, Embeds(), done) == 0
    assert await plant_missing(beds, key_of, Embeds(), set()) == 0, "nor does another process plant it again"
    assert beds.texts[OURS] == text_of(OURS.bytes * 2, OURS)
    assert MARK.decode() in beds.texts[OURS]
    del beds.texts[OURS]
    assert await plant_missing(beds, key_of, Embeds(), set()) == 1
