"""How long memories live: when they end, when they are looked at again, and what goes first under a bound."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.config import Settings, load_settings
from memory.consolidation import STEPS, lives_of, terms_of
from policies.lifetime import Cut, Use, ended_before, expires_at, latest_due, review_due_at, worth

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
DAY = timedelta(days=1)


def use(number: int = 1, **more: object) -> Use:
    fields: dict[str, object] = {
        "memory_id": UUID(int=number),
        "scope_id": 1,
        "bytes": 1_000,
        "importance": 0.5,
        "injected": 0,
        "born_at": NOW - 30 * DAY,
        "used_at": None,
    }
    return Use(**{**fields, **more})  # type: ignore[arg-type]


USES = st.builds(
    lambda number, importance, injected, life, last, size: use(
        number,
        importance=importance,
        injected=injected,
        born_at=NOW - timedelta(days=life),
        used_at=NOW - timedelta(days=life * last) if injected else None,
        bytes=size,
    ),
    st.integers(0, 2**64),
    st.floats(0, 1),
    st.integers(0, 10_000),
    st.floats(-1, 5_000),
    st.floats(0, 1),
    st.integers(0, 100_000),
)


@pytest.mark.parametrize(
    ("kind", "days_of", "ends"),
    [
        ("episodic", {"episodic": 30.0}, NOW + 30 * DAY),
        ("episodic", {"episodic": None}, None),
        ("episodic", {"semantic": 30.0}, None),
        ("semantic", {"semantic": 0.5}, NOW + DAY / 2),
        ("episodic", {}, None),
    ],
)
def test_a_memory_ends_as_long_after_its_birth_as_its_kind_says(
    kind: str, days_of: dict[str, float | None], ends: datetime | None
) -> None:
    assert expires_at(kind, NOW, days_of) == ends


def test_nothing_ends_by_default_and_every_kind_can() -> None:
    assert set(lives_of(Settings()).values()) == {None}
    kinds = ("working", "episodic", "semantic", "procedural", "summary", "document")
    for kind in kinds:
        settings = load_settings(None, {f"retention.{kind}_days": 2}, {})
        assert {name for name, days in lives_of(settings).items() if days == 2} == {kind}


@pytest.mark.parametrize(
    ("category", "days_of", "due"),
    [
        ("topology", {"topology": 90.0}, NOW + 90 * DAY),
        ("preference", {"topology": 90.0}, None),
        ("fact", {"fact": None}, None),
    ],
)
def test_a_fact_is_due_for_review_as_long_after_it_was_said_as_its_category_says(
    category: str, days_of: dict[str, float | None], due: datetime | None
) -> None:
    assert review_due_at(category, NOW, days_of) == due


@given(st.floats(0, 1_000), st.floats(0, 1_000))
def test_nothing_is_erased_that_a_request_which_can_be_rebuilt_was_able_to_see(keep: float, replay: float) -> None:
    before = ended_before(NOW, keep, replay)
    assert before <= NOW - timedelta(days=replay)
    assert before <= NOW - timedelta(days=keep)


def test_terms_keep_to_the_replay_retention_and_the_undo() -> None:
    short = {"retention.expired_keep_days": 0, "consolidate.superseded_keep_days": 1, "replay.retention_days": 40}
    terms = terms_of(load_settings(None, short, {}), NOW)
    replayed = NOW - 40 * DAY
    assert (terms.expired_before, terms.superseded_before, terms.pruned_before) == (replayed, replayed, replayed)
    assert terms_of(Settings(), NOW).pruned_before == NOW - 30 * DAY


def test_steps_that_nobody_asked_for_are_idle() -> None:
    assert terms_of(Settings(), NOW).idle == {"unused", "bound"}
    asked = {"consolidate.never_used_keep_days": 9, "consolidate.bytes_max": 9, "retention.revalidate_fact_days": None}
    assert terms_of(load_settings(None, asked, {}), NOW).idle == frozenset()
    categories = ("fact", "preference", "convention", "topology", "decision")
    unread = load_settings(
        None, {}, {f"MEMORY_PROXY_RETENTION__REVALIDATE_{c.upper()}_DAYS": "null" for c in categories}
    )
    assert "review" in terms_of(unread, NOW).idle
    assert len(set(STEPS)) == len(STEPS)


@pytest.mark.parametrize(
    ("at", "now", "struck"),
    [
        ("03:00", datetime(2026, 11, 21, 12, tzinfo=UTC), datetime(2026, 11, 21, 3, tzinfo=UTC)),
        ("03:00", datetime(2026, 11, 21, 3, tzinfo=UTC), datetime(2026, 11, 21, 3, tzinfo=UTC)),
        ("03:00", datetime(2026, 11, 21, 2, 59, 59, tzinfo=UTC), datetime(2026, 11, 20, 3, tzinfo=UTC)),
        ("00:00", datetime(2026, 3, 1, tzinfo=UTC), datetime(2026, 3, 1, tzinfo=UTC)),
        ("23:59", datetime(2026, 3, 1, 0, 0, tzinfo=UTC), datetime(2026, 2, 28, 23, 59, tzinfo=UTC)),
    ],
)
def test_the_daily_clock_last_struck(at: str, now: datetime, struck: datetime) -> None:
    assert latest_due(at, now) == struck


def test_a_time_of_day_is_held_to_its_form() -> None:
    for wrong in ("3:00", "24:00", "03:60", "03:00:00", "noon", "٠٣:٠٠"):
        with pytest.raises(Exception, match="a time of day from 00:00 to 23:59"):
            load_settings(None, {"consolidate.at": wrong}, {})
    assert load_settings(None, {}, {"MEMORY_PROXY_CONSOLIDATE__AT": "null"}).consolidate.at is None


# ---------------------------------------------------------------- worth


@given(USES, st.floats(0, 1))
def test_more_important_is_worth_no_less(one: Use, importance: float) -> None:
    low, high = sorted((one.importance, importance))
    assert worth(replace(one, importance=low), NOW) <= worth(replace(one, importance=high), NOW)


@given(USES, st.integers(0, 10_000))
def test_more_used_is_worth_no_less(one: Use, injected: int) -> None:
    low, high = sorted((one.injected, injected))
    assert worth(replace(one, injected=low), NOW) <= worth(replace(one, injected=high), NOW)


@given(USES, st.floats(0, 5_000))
def test_worth_never_grows_with_time_alone(one: Use, days: float) -> None:
    assert worth(one, NOW + timedelta(days=days)) <= worth(one, NOW) + 1e-9


def test_worth_by_example() -> None:
    """As people would order them: lately used, used long ago, never used, old, old and of no importance."""
    ranked = [
        use(used_at=NOW - DAY, injected=5),
        use(used_at=NOW - 20 * DAY, injected=5),
        use(),
        use(born_at=NOW - 900 * DAY),
        use(born_at=NOW - 900 * DAY, importance=0.1),
    ]
    values = [worth(one, NOW) for one in ranked]
    assert values == sorted(values, reverse=True)
    assert worth(use(born_at=NOW - 100 * DAY), NOW) == pytest.approx(-2.302585, abs=1e-6)  # ln(100^-.5), no prior
    often = use(born_at=NOW - 100 * DAY, used_at=NOW - 4 * DAY, injected=3)
    assert worth(often, NOW) == pytest.approx(0.0, abs=1e-6)  # ln(4^-.5 + 2 * 3 / (10 + 2)), no prior
    assert worth(replace(often, importance=0.9), NOW) == pytest.approx(math.log(9), abs=1e-6)
    before_its_birth = replace(often, used_at=NOW - 400 * DAY, injected=0)
    assert worth(before_its_birth, NOW) == worth(replace(often, used_at=None, injected=0), NOW)


# ---------------------------------------------------------------- bounds


def cut_of(uses: list[Use], rows: int, size: int) -> Cut:
    cut = Cut(NOW)
    for one in uses:
        cut.count(one, may_go=True)
        cut = Cut.of_json(json.loads(json.dumps(cut.as_json())))  # a run may be broken off anywhere
    assert cut.bytes == sum(one.bytes for one in uses)
    cut.settle(rows, size)
    return cut


@given(st.lists(USES, max_size=40, unique_by=lambda one: one.memory_id), st.integers(-5, 50), st.integers(-5, 10**6))
def test_what_goes_is_the_least_worth_and_no_more_than_it_takes(uses: list[Use], rows: int, size: int) -> None:
    cut = cut_of(uses, rows, size)
    gone: list[Use] = []
    for one in uses:
        gone += [one] if cut.takes(one) else []
        cut = Cut.of_json(json.loads(json.dumps(cut.as_json())))
    kept = [one for one in uses if one not in gone]
    if rows <= 0 and size <= 0:
        assert gone == []
    if gone and kept:
        most, least = (max(worth(one, NOW) for one in gone), min(worth(one, NOW) for one in kept))
        assert most <= least + 1 / 64
    assert (len(gone) >= rows and sum(one.bytes for one in gone) >= size) or kept == []
    if gone:
        top = math.floor(max(worth(one, NOW) for one in gone) * 64)
        last = next(one for one in reversed(gone) if math.floor(worth(one, NOW) * 64) == top)
        others = [one for one in gone if one is not last]
        assert len(others) < rows or sum(one.bytes for one in others) < size


def test_what_may_not_go_counts_in_bytes_and_stays() -> None:
    cut = Cut(NOW)
    cut.count(use(1, bytes=70), may_go=False)
    cut.count(use(2, bytes=30), may_go=True)
    cut.settle(5, 0)
    assert cut.bytes == 100
    assert cut.takes(use(2, bytes=30))
