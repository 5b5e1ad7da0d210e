"""A delta gives back what it was made of, from its own base only, and is small where the base has most of it."""

import os
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.delta import delta_of, whole_of
from memory.errors import EnvelopeUnreadable

BASES = st.binary(min_size=8, max_size=2_000)


@given(st.binary(max_size=4_000), BASES)
def test_whatever_the_base_is_the_whole_comes_back(whole: bytes, base: bytes) -> None:
    assert whole_of(delta_of(whole, base), base) == whole


@given(BASES, st.lists(st.tuples(st.integers(0, 2_000), st.binary(max_size=40)), max_size=5))
def test_a_base_that_was_changed_in_places_gives_the_whole(base: bytes, inserted: list[tuple[int, bytes]]) -> None:
    whole = base * 3
    for at, said in inserted:
        whole = whole[:at] + said + whole[at + 3 :]
    assert whole_of(delta_of(whole, base), base) == whole


def test_another_base_is_told_and_gives_no_wrong_bytes() -> None:
    base = os.urandom(5_000)
    delta = delta_of(base[:2_000] + b"new" + base[2_000:], base)
    for other in (os.urandom(5_000), base[::-1], base + b"!", base[1:-1]):
        with pytest.raises(EnvelopeUnreadable):
            whole_of(delta, other)
    for broken in (b"", delta[:-1], b"no frame at all", delta[:20] + b"?" + delta[21:]):
        with pytest.raises(EnvelopeUnreadable):
            whole_of(broken, base)


@pytest.mark.parametrize("size", [20_000, 400_000, 6_000_000])
def test_what_the_base_has_takes_next_to_nothing_wherever_it_stands(size: int) -> None:
    base = random.Random(size).randbytes(size)
    whole = b"{" + base[: size // 3] + os.urandom(300) + base[size // 3 + 50 :] + os.urandom(500)
    delta = delta_of(whole, base)
    assert len(delta) < 1_500 + size / 200
    assert whole_of(delta, base) == whole
