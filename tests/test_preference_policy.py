"""How strongly a preference is held: more for more, less for older, never out of its bounds."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.preference import HALF_LIFE, ONCE, strength

counts = st.integers(1, 10_000)
ages = st.timedeltas(timedelta(0), timedelta(days=3_650))


@given(counts, counts, ages)
def test_more_sayings_and_conversations_never_weaken_and_time_never_strengthens(
    said: int, sessions: int, age: timedelta
) -> None:
    held = strength(said, sessions, age)
    assert 0 <= held <= 1
    assert strength(said + 1, sessions, age) >= held and strength(said, sessions + 1, age) >= held
    assert strength(said, sessions, age + timedelta(days=1)) <= held


def test_once_fades_by_half_in_its_half_life_and_what_is_vouched_for_does_not() -> None:
    assert strength(1, 1, timedelta(0)) == ONCE
    assert strength(1, 1, HALF_LIFE) == pytest.approx(ONCE / 2)
    assert strength(1, 1, 10 * HALF_LIFE, vouched=True) == 1.0
