"""Cursors of lists that go by a time and an id: the last row of a page in, an opaque text out, and back.

A cursor is a place, not a secret. Raises MemoryInvalid for one that is none of ours.
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
_SEQ_MAX: Final = 2**63 - 1
_EDGE: Final = {
    "desc": (datetime(9999, 1, 1, tzinfo=UTC), UUID(int=2**128 - 1)),
    "asc": (datetime(1, 1, 2, tzinfo=UTC), UUID(int=0)),
}


def cursor_of(at: datetime, row_id: UUID) -> str:
    """The cursor that leads on behind this row."""
    return encoded([at.isoformat(), str(row_id)])


def read_cursor(cursor: str | None, order: Order) -> tuple[datetime, UUID]:
    """The row to go on behind; before the first one where there is no cursor. Raises MemoryInvalid."""
    if cursor is None:
        return _EDGE[order]
    try:
        at, row_id = decoded(cursor)
        moment = datetime.fromisoformat(at)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC), UUID(row_id)
    except (ValueError, TypeError, AttributeError, OverflowError) as exc:
        raise MemoryInvalid("not a cursor of this list", param="cursor") from exc


def read_position(cursor: str) -> tuple[UUID, int]:
    """A session and a number again. Raises MemoryInvalid."""
    try:
        session_id, seq = decoded(cursor)
        if type(seq) is not int or not 0 <= seq <= _SEQ_MAX:
            raise ValueError("no number of a turn")
        return UUID(session_id), seq
    except (ValueError, TypeError, AttributeError) as exc:
        raise MemoryInvalid("not a cursor of this list", param="cursor") from exc


def encoded(parts: Sequence[str | int]) -> str:
    """Some values as one opaque text."""
    return base64.urlsafe_b64encode(json.dumps(parts).encode()).rstrip(b"=").decode()


def decoded(cursor: str) -> Any:
    """The values again. Raises ValueError."""
    try:
        return json.loads(base64.urlsafe_b64decode(cursor.encode() + b"=" * (-len(cursor) % 4)))
    except (binascii.Error, RecursionError) as exc:
        raise ValueError("not base64 of such values") from exc
