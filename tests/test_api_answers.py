"""Answers of the own API are made where they hold nobody up."""

from __future__ import annotations

import json
import threading

import pytest
from pydantic import BaseModel

from proxy.api.answers import listed


class Listed(BaseModel):
    data: list[str]


@pytest.mark.parametrize(("rows", "here"), [(0, True), (50, True), (1_000, False)])
async def test_a_long_list_is_made_beside_the_event_loop_and_a_short_one_at_once(rows: int, here: bool) -> None:
    ran: list[int] = []

    def make() -> Listed:
        ran.append(threading.get_ident())
        return Listed(data=["é"] * rows)

    answer = await listed(rows, make)
    assert (ran == [threading.get_ident()]) is here
    assert isinstance(answer.body, bytes) and json.loads(answer.body) == {"data": ["é"] * rows}
    assert answer.content_type == "application/json" and answer.body.decode().count("é") == rows
