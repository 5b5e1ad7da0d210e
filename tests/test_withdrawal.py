"""What was quoted to a conversation is held against the law of now: what it takes back, why, and for how long."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, cast
from uuid import UUID

import pytest

from memory.chain import Digest
from memory.ids import new_id
from memory.model import Entry, IndexRow, Quoted, SessionRef, Shown, Withdrawn
from memory.read.conversation import Conversation
from memory.read.entries import print_of
from memory.read.hot import HotScope, as_stored, item_of
from memory.read.index import ScopeIndex
from memory.read.items import Filter
from memory.read.ledger import Kept, Ledgers
from memory.telemetry import Metrics
from policies.labels import Sensitivity
from policies.ledger import Standing, Withdrawal, is_final, withdrawal
from tests.product_ledger import NotHeld, Store, World
from tests.test_quoted_now import Held
from tests.test_recall import DIM, row, unit

NOW = datetime(2026, 11, 1, tzinfo=UTC)
SOON = timedelta(microseconds=1)
SAID = Standing(b"said", Sensitivity.INTERNAL, None)


@pytest.mark.parametrize(
    ("standing", "why"),
    [
        (SAID, None),
        (None, "gone"),
        (replace(SAID, hidden="hidden"), "hidden"),
        (replace(SAID, hidden="quarantined"), "quarantined"),
        (replace(SAID, hidden="rejected"), "rejected"),
        (replace(SAID, fingerprint=b"else"), "reworded"),
        (replace(SAID, expires_at=NOW + SOON), None),
        (replace(SAID, expires_at=NOW), "expired"),
        (replace(SAID, sensitivity=Sensitivity.PUBLIC), None),
        (replace(SAID, sensitivity=Sensitivity.CONFIDENTIAL), "reach"),
        (replace(SAID, sensitivity=Sensitivity.SECRET, expires_at=NOW), "expired"),
        (replace(SAID, sensitivity=Sensitivity.SECRET, fingerprint=b"else"), "reworded"),
    ],
)
def test_what_the_law_says_of_a_memory_that_was_quoted(standing: Standing | None, why: str | None) -> None:
    assert withdrawal(b"said", standing, now=NOW, ceiling=Sensitivity.INTERNAL) == why


def test_without_a_ceiling_whatever_was_quoted_may_be_said_again() -> None:
    secret = replace(SAID, sensitivity=Sensitivity.SECRET)
    assert withdrawal(b"said", secret, now=NOW, ceiling=None) is None


@pytest.mark.parametrize(
    ("why", "final"),
    [
        ("gone", True),
        ("hidden", True),
        ("quarantined", True),
        ("rejected", True),
        ("expired", True),
        ("reworded", True),
        ("reach", False),
        ("unreadable", False),
    ],
)
def test_what_one_caller_may_not_see_is_kept_for_the_others(why: Withdrawal, final: bool) -> None:
    assert is_final(why) is final


class Hides(Store):
    """A store in which one memory is hidden."""

    hides: Any = ""

    async def standing(self, *asked: Any) -> list[Quoted]:
        return [Quoted(one.row, self.hides, None) for one in await super().standing(*asked)]


async def judged(store: Store, said: list[IndexRow], where: Filter, *, indexed: bool = False, **more: Any) -> Kept:
    """What the ledger says of a block that quoted these memories as they were then, by the store or by an index."""
    world, session, place = World(), SessionRef(new_id(), "s"), Digest(bytes(32))
    clean, redact = more.get("clean", as_stored), more.get("redact", str)
    hot = HotScope(ScopeIndex(DIM), versions={1: 1}, visibility={1: "own"})
    for one in store.rows.values():
        hot.index.put(item_of(one))
    scopes = cast(Any, Held(hot) if indexed else NotHeld())
    ledgers = Ledgers(world.hot, store, scopes, world.keys, Metrics(), clean, redact)
    shown = tuple(Shown(one.memory_id, 1, print_of(one.content)) for one in said)
    entry = Entry("<memory>Halcyon</memory>", 4, shown, "internal", new_id())
    kept_there: dict[bytes, bytes] = {place: await ledgers.sealed(world.scope, session, entry)}
    conversation = Conversation(session, (place,), None, False, {}, False, ledger=kept_there)
    return await ledgers.kept(world.scope, conversation, {0: place}, None, where, NOW)


BY_EITHER = pytest.mark.parametrize("indexed", [False, True], ids=["store", "index"])
WORDS = replace(row("said by us", unit(0, 0, 1, 0)), memory_id=UUID(int=7))
BOAT = row("my boat is called Halcyon", unit(1, 0, 0, 0))
CAT = row("my cat is called Mo", unit(0, 1, 0, 0))


def holding(*rows: IndexRow) -> Store:
    return Hides(rows={one.memory_id: one for one in rows})


@BY_EITHER
@pytest.mark.parametrize(
    ("now", "why"),
    [
        ([BOAT, CAT], None),
        ([CAT], "gone"),
        ([BOAT], "gone"),
        ([replace(BOAT, content="my boat is called Tern"), CAT], "reworded"),
        ([BOAT, replace(CAT, expires_at=NOW)], "expired"),
    ],
    ids=["as it was", "the first erased", "the second erased", "the first reworded", "the second expired"],
)
async def test_a_block_is_withdrawn_for_good_with_the_first_of_its_memories_that_is(
    now: list[IndexRow], why: Any, indexed: bool
) -> None:
    kept = await judged(holding(*now), [BOAT, CAT], Filter(), indexed=indexed)
    assert set(kept.blocks) == (set() if why else {0}) and kept.known == {0}
    assert kept.withdrawn == ((Withdrawn(Digest(bytes(32)), why),) if why else ())


async def test_a_block_that_quotes_what_is_quarantined_now_is_withdrawn() -> None:
    store = cast(Hides, holding(BOAT))
    store.hides = "quarantined"
    kept = await judged(store, [BOAT], Filter())
    assert not kept.blocks and [one.reason for one in kept.withdrawn] == ["quarantined"]


@BY_EITHER
@pytest.mark.parametrize(
    ("now", "where"),
    [
        (replace(BOAT, sensitivity="confidential"), Filter(ceiling=Sensitivity.INTERNAL)),
        (BOAT, Filter(visibilities=frozenset({"tenant"}))),
        (BOAT, Filter(session_id=UUID(int=5))),
    ],
    ids=["above the ceiling", "of a scope that the key does not see", "of a conversation that it is not for"],
)
async def test_a_block_that_this_caller_may_not_see_is_left_out_and_not_withdrawn(
    now: IndexRow, where: Filter, indexed: bool
) -> None:
    kept = await judged(holding(now), [now], where, indexed=indexed)
    assert not kept.blocks and not kept.withdrawn and kept.known == {0}


@BY_EITHER
async def test_a_caller_is_told_again_what_is_of_its_own_conversation_and_under_its_ceiling(indexed: bool) -> None:
    where = Filter(session_id=BOAT.session_id, ceiling=Sensitivity.INTERNAL)
    assert (await judged(holding(BOAT), [BOAT], where, indexed=indexed)).blocks


async def test_no_law_speaks_of_words_of_ours_and_they_hide_nothing_that_stands_behind_them() -> None:
    assert (await judged(holding(), [WORDS], Filter())).blocks
    kept = await judged(holding(), [WORDS, BOAT], Filter())
    assert not kept.blocks and [one.reason for one in kept.withdrawn] == ["gone"]


async def test_a_block_is_withdrawn_where_a_memory_of_it_is_redacted_otherwise_now() -> None:
    def newly(one: IndexRow) -> IndexRow:
        return replace(one, content=one.content.replace("Halcyon", "[name]"))

    kept = await judged(holding(BOAT), [BOAT], Filter(), clean=newly)
    assert [one.reason for one in kept.withdrawn] == ["reworded"]


@pytest.mark.parametrize(("kind", "newly_redacted"), [("summary", False), ("summary", True), ("semantic", False)])
async def test_only_a_summary_is_told_anew_and_stands_unless_redaction_would_change_it(
    kind: str, newly_redacted: bool
) -> None:
    before = replace(BOAT, kind=kind)
    after = replace(before, content="the boat and its name")
    kept = await judged(holding(after), [before], Filter(), redact=(lambda text: "") if newly_redacted else str)
    assert bool(kept.blocks) is (kind == "summary" and not newly_redacted)


async def test_a_summary_that_has_ended_is_withdrawn_however_it_was_worded() -> None:
    summary = replace(BOAT, kind="summary")
    kept = await judged(holding(replace(summary, expires_at=NOW)), [summary], Filter())
    assert not kept.blocks and [one.reason for one in kept.withdrawn] == ["expired"]
