"""Places are given in turns: by tenant first, within it by user, and none of them twice in a row while others wait."""

from __future__ import annotations

import asyncio
from uuid import UUID

import pytest

from memory.places import Places

ADA, BOB, CY = (UUID(int=number) for number in (1, 2, 3))
Asked = tuple[UUID, str]


async def served(places: Places, asked: list[Asked]) -> list[Asked]:
    """Who had a place, in that order, of those that ask while all are taken."""
    order: list[Asked] = []

    async def work(tenant: UUID, user: str) -> None:
        async with places.turn(tenant, user) as taken:
            assert taken
            order.append((tenant, user))
            await asyncio.sleep(0)

    await asyncio.gather(*(work(*one) for one in asked))
    return order


@pytest.mark.parametrize("most", [1, 2])
async def test_a_tenant_of_many_users_has_one_turn_of_two_beside_a_tenant_of_one(most: int) -> None:
    crowd = [(ADA, f"user {number}") for number in range(20)]
    order = await served(Places(most, 60.0), [*crowd, *[(BOB, "bob")] * 3])
    late = [order.index((BOB, "bob")), *[at for at, one in enumerate(order) if one == (BOB, "bob")][1:]]
    assert late[0] <= 2 * most
    assert late[-1] <= 4 * most + 4


async def test_more_tenants_than_places_all_have_their_turns() -> None:
    asked = [(tenant, "user") for tenant in (ADA, BOB, CY) for _ in range(4)]
    order = await served(Places(1, 60.0), asked)
    assert {tenant for tenant, _ in order[1:4]} == {ADA, BOB, CY}


async def test_one_users_flood_leaves_every_other_turn_to_another_user_of_the_tenant() -> None:
    order = await served(Places(1, 60.0), [*[(ADA, "flood")] * 20, *[(ADA, "quiet")] * 2])
    assert [at for at, (_, user) in enumerate(order) if user == "quiet"] in ([1, 3], [2, 4])


async def test_who_has_found_no_place_in_time_leaves_nothing_behind() -> None:
    places = Places(1, 0.01)
    async with places.turn(ADA, "a"), places.turn(BOB, "b") as taken:
        assert not taken
    assert not places._waiting
    assert not places._held
    assert not places._held_by
