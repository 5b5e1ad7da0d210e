"""A cursor that no list gave is refused by name, whatever it holds."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime
from typing import Any

import pytest

from memory.adapters.postgres.cursors import cursor_of, encoded, read_cursor, read_position
from memory.errors import MemoryInvalid
from memory.ids import new_id


def packed(value: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode()


ID = "01890a5d-ac96-774b-bcce-b302099a8057"  # fixed: it is in the names of tests, which all processes collect alike
ODD = [
    base64.urlsafe_b64encode(b"[" * 20_000).decode(),
    base64.urlsafe_b64encode(b"9" * 5_000).decode(),
    "\x00",
    packed([]),
    packed({"a": 1, "b": 2}),
    packed([None, ID]),
]


@pytest.mark.parametrize(
    "cursor",
    [*ODD, *(packed([at, ID]) for at in ("0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59", "noon"))],
)
def test_a_place_that_is_none_is_refused(cursor: str) -> None:
    with pytest.raises(MemoryInvalid):
        read_cursor(cursor, "desc")


@pytest.mark.parametrize("cursor", [*ODD, *(packed([ID, seq]) for seq in (10**30, -1, 1e999, 1.5, True, "1"))])
def test_a_position_that_is_none_is_refused(cursor: str) -> None:
    with pytest.raises(MemoryInvalid):
        read_position(cursor)


def test_a_place_comes_back_as_it_was_in_utc() -> None:
    at, row_id = datetime(2026, 5, 1, 12, tzinfo=UTC), new_id()
    assert read_cursor(cursor_of(at, row_id), "asc") == (at, row_id)
    assert read_cursor(packed(["2026-05-01T14:00:00+02:00", str(row_id)]), "asc")[0].utcoffset() == UTC.utcoffset(None)
    assert read_position(encoded([str(row_id), 7])) == (row_id, 7)
