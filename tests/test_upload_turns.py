"""Files that come have places; a flood waits for its own, and what another sends is not refused."""

from __future__ import annotations

import asyncio
import contextlib
from uuid import UUID

import pytest

from memory.errors import RateLimited
from memory.model import Scope
from proxy.api import upload_turns
from proxy.api.upload_turns import AT_ONCE, UploadTurns

ADA = Scope(UUID(int=1), "ada")


@pytest.mark.parametrize("other", [Scope(UUID(int=1), "eve"), Scope(UUID(int=2), "ada")])
async def test_anothers_upload_beside_a_flood_has_the_next_place(other: Scope) -> None:
    turns, order, go_on = UploadTurns(), list[Scope](), asyncio.Semaphore(0)

    async def upload(scope: Scope) -> None:
        async with turns.turn(scope):
            order.append(scope)
            await go_on.acquire()

    async with asyncio.TaskGroup() as group:
        for scope in [*[ADA] * 3 * AT_ONCE, other]:
            group.create_task(upload(scope))
        await asyncio.sleep(0)
        assert order == [ADA] * AT_ONCE
        go_on.release()
        while len(order) == AT_ONCE:
            await asyncio.sleep(0)
        assert order[-1] == other
        for _ in range(3 * AT_ONCE):
            go_on.release()


async def test_who_waits_too_long_is_told_to_send_it_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upload_turns, "WAIT_S", 0.001)
    turns = UploadTurns()
    async with contextlib.AsyncExitStack() as stack:
        for _ in range(AT_ONCE):
            await stack.enter_async_context(turns.turn(ADA))
        with pytest.raises(RateLimited, match="16 uploads are under way"):
            await stack.enter_async_context(turns.turn(ADA))
