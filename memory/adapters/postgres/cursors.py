"""Cursors of lists that go by key: a place out as text, and the text in as the place again.

Raises MemoryInvalid for a text that is none of ours.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final, Literal
from uuid import UUID

from memory.errors import MemoryInvalid

Order = Literal["desc", "asc"]
_EDGE: Final = {
    "desc": (datetime(9999, 1, 1, tzinfo=UTC), UUID(int=2**128 - 1)),
    "asc": (datetime(1, 1, 2, tzinfo=UTC), UUID(int=0)),
}


def written_cursor(at: datetime, row_id: UUID) -> str:
    """The place of a row in a list by time."""
    return encoded([at.isoformat(), str(row_id)])


def read_cursor(cursor: str | None, order: Order) -> tuple[datetime, UUID]:
    """A place again; before the first row without a cursor. Raises MemoryInvalid."""
    if cursor is None:
        return _EDGE[order]
    try:
        at, row_id = _decode(cursor)
        moment = datetime.fromisoformat(at)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)), UUID(row_id)
    except (ValueError, TypeError, AttributeError) as exc:
        raise MemoryInvalid("not a cursor of this list", param="cursor") from exc


def read_position(cursor: str) -> tuple[UUID, int]:
    """A session and a number again. Raises MemoryInvalid."""
    try:
        session_id, seq = _decode(cursor)
        return UUID(session_id), int(seq)
    except (ValueError, TypeError, AttributeError) as exc:
        raise MemoryInvalid("not a cursor of this list", param="cursor") from exc


def encoded(parts: Sequence[str | int]) -> str:
    """A place as text."""
    return base64.urlsafe_b64encode(json.dumps(parts).encode()).rstrip(b"=").decode()


def _decode(cursor: str) -> Any:
    """Raises ValueError."""
    try:
        return json.loads(base64.urlsafe_b64decode(cursor.encode() + b"=" * (-len(cursor) % 4)))
    except binascii.Error as exc:
        raise ValueError("not base64") from exc
