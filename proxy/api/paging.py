"""Pages of a list: query parameters in, a Page out; the store's cursor in, ours out.

A cursor is a place, not a secret: it only says where in the caller's own list the next page begins. It carries the list
and the order it was given for. Refuses (400 memory_invalid, naming the parameter) a limit outside 1..1000, another
order than asc or desc, and a cursor that this list in this order did not give.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal
from uuid import UUID

from memory.errors import MemoryInvalid

LIMIT_DEFAULT: Final = 50
LIMIT_MAX: Final = 1000
# A conversation is read whole as far as it fits into one page.
TURNS_DEFAULT: Final = LIMIT_MAX
PARAMETERS: Final = frozenset({"limit", "cursor", "order"})
Order = Literal["asc", "desc"]


@dataclass(frozen=True, slots=True)
class Page:
    """What part of a list is asked for: at most `limit` rows behind `cursor`, which is the store's own."""

    what: str
    limit: int
    order: Order
    cursor: str | None

    def id_behind(self) -> UUID | None:
        """The cursor of a store whose cursors are ids; None without one. Raises MemoryInvalid."""
        try:
            return None if self.cursor is None else UUID(self.cursor)
        except ValueError:
            raise bad_cursor() from None

    def next_cursor(self, inner: str | None) -> str | None:
        """Our cursor for the store's."""
        return None if inner is None else _packed(self.what, self.order, inner)


def page_of(
    given: Mapping[str, str],
    what: str,
    *,
    default: Order = "desc",
    limit: int = LIMIT_DEFAULT,
    cursor: str = "cursor",
) -> Page:
    """The page of the list `what` that these parameters ask for; `cursor` names theirs. Raises MemoryInvalid."""
    order = _order(given.get("order", default))
    raw = given.get(cursor)
    inner = None if raw is None else _unpacked(raw, what, order, cursor)
    return Page(what, _limit(given.get("limit"), limit), order, inner)


def bad_cursor(parameter: str = "cursor") -> MemoryInvalid:
    """The refusal of a cursor."""
    return MemoryInvalid("this cursor is not of this list in this order; begin without one", param=parameter)


def _limit(raw: str | None, default: int) -> int:
    if raw is None:
        return default
    if not (raw.isascii() and raw.isdigit() and len(raw) <= 6 and 1 <= int(raw) <= LIMIT_MAX):
        raise MemoryInvalid(f"limit must be a whole number from 1 to {LIMIT_MAX}", param="limit")
    return int(raw)


def _order(raw: str) -> Order:
    if raw == "asc":
        return "asc"
    if raw == "desc":
        return "desc"
    raise MemoryInvalid("order must be asc or desc", param="order")


def _packed(what: str, order: Order, inner: str) -> str:
    raw = json.dumps([what, order, inner], separators=(",", ":")).encode()
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def _unpacked(raw: str, what: str, order: Order, parameter: str) -> str:
    try:
        padded = raw + "=" * (-len(raw) % 4)
        value = json.loads(base64.b64decode(padded.encode("ascii"), altchars=b"-_", validate=True))
    except (ValueError, binascii.Error, RecursionError) as exc:
        raise bad_cursor(parameter) from exc
    if not isinstance(value, list) or len(value) != 3 or value[:2] != [what, order] or not isinstance(value[2], str):
        raise bad_cursor(parameter)
    return value[2]
