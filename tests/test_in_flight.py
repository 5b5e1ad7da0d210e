"""What is under way: one too many is refused, what ended counts no more, and no tenant can take it all."""

from __future__ import annotations

from contextlib import ExitStack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.config_sections import Limits
from memory.errors import RateLimited, TooLarge
from memory.ids import new_id
from proxy.in_flight import InFlight, Shared

HERE = new_id()


def test_one_too_many_is_refused_until_one_ends() -> None:
    gate = InFlight(Limits(requests_max=2))
    with gate.one(HERE), gate.one(HERE):
        with pytest.raises(RateLimited) as refused, gate.one(HERE):
            pass
        assert refused.value.retry_after_s == 1
    with gate.one(HERE):
        pass


def test_a_request_that_fails_gives_its_place_and_its_bytes_back() -> None:
    gate = InFlight(Limits(requests_max=1, bodies_bytes_max=1024))
    for _ in range(3):
        with pytest.raises(KeyError), gate.one(HERE) as body:
            body.hold(1024)
            raise KeyError
    assert gate.bytes.taken == gate.requests.taken == 0


def test_bodies_have_a_bound_in_all_and_what_ended_counts_no_more() -> None:
    gate = InFlight(Limits(bodies_bytes_max=2048))
    with gate.one(HERE) as first, gate.one(new_id()) as second:
        first.hold(1024)
        second.hold(1024)
        with pytest.raises(RateLimited, match="bodies_bytes_max"), gate.one(HERE) as third:
            third.hold(1)
    with gate.one(HERE) as fourth:
        fourth.hold(2048)


def test_a_body_that_fits_beside_nothing_is_too_large_and_not_too_much() -> None:
    with InFlight(Limits(bodies_bytes_max=2048)).one(HERE) as body, pytest.raises(TooLarge):
        body.hold(2049)


def test_a_body_that_one_tenant_can_never_have_is_too_large_and_not_too_much() -> None:
    gate = InFlight(Limits(bodies_bytes_max=16 * 1024, body_bytes_max=16 * 1024), tenants=True)
    with gate.one(HERE) as body, pytest.raises(TooLarge):
        for _ in range(15):
            body.hold(1024)
    assert body.bytes_max == 14 * 1024


def test_one_tenant_leaves_places_and_bytes_for_others_however_much_it_has() -> None:
    gate = InFlight(Limits(requests_max=16, bodies_bytes_max=16 * 1024, body_bytes_max=16 * 1024), tenants=True)
    with ExitStack() as held:
        for _ in range(14):
            held.enter_context(gate.one(HERE)).hold(1024)
        with pytest.raises(RateLimited), gate.one(HERE):
            pass
        held.enter_context(gate.one(new_id())).hold(1024)
        body = held.enter_context(gate.one(new_id()))
        with pytest.raises(RateLimited):
            body.hold(1025)
        body.hold(1024)


def test_where_there_is_one_tenant_it_may_have_all_places() -> None:
    gate = InFlight(Limits(requests_max=16))
    with ExitStack() as held:
        for _ in range(16):
            held.enter_context(gate.one(HERE))


@given(st.integers(1, 200), st.lists(st.tuples(st.integers(0, 4), st.booleans()), max_size=300), st.booleans())
def test_never_more_than_there_is_and_whoever_holds_nothing_gets_one_while_one_is_left(
    most: int, steps: list[tuple[int, bool]], tenants: bool
) -> None:
    shared, held = Shared(most, tenants=tenants), dict.fromkeys(range(5), 0)
    names = {number: new_id() for number in held}
    for number, takes in steps:
        if takes:
            taken = shared.take(names[number], 1)
            assert taken or held[number] or shared.taken == most
            held[number] += taken
        elif held[number]:
            shared.give_back(names[number], 1)
            held[number] -= 1
        assert shared.taken == sum(held.values()) <= most
