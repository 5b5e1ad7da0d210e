"""Turns that an export of this very scope, or of a copy of it, brings back: lines with their place in, the stored turns
at these places out.

An exported line says its session and number, so a run of lines of one session is one read, where no two lie further
apart than GAP_MAX. Raises StoreUnavailable.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, Protocol
from uuid import UUID

from memory.errors import NotFound
from memory.model import ImportLine, Scope
from memory.stored import ExportedTurn, Page, SessionRecord, StoredTurn
from proxy.api.import_lines import Given

PLACES_MAX: Final = 1000  # of one read
GAP_MAX: Final = 64


class ReadsSessions(Protocol):
    """Sessions and their turns, as memory.adapters.postgres.records has them."""

    async def session(self, scope: Scope, name: str) -> SessionRecord:
        """A conversation by its label. Raises NotFound, StoreUnavailable."""

    async def session_turns(
        self, scope: Scope, session_id: UUID, *, limit: int, after_seq: int = -1
    ) -> Page[StoredTurn]:
        """Turns in order behind a number. Raises StoreUnavailable."""


async def stored_turns(sessions: ReadsSessions, scope: Scope, lines: Iterable[Given]) -> Mapping[str, ExportedTurn]:
    """The turns that stand where these lines say they stood, by their ids and by those that clients gave them."""
    places: dict[str, list[int]] = {}
    for line in lines:
        if line.event_id is not None and line.seq is not None and line.session is not None:
            places.setdefault(line.session, []).append(line.seq)
    found: dict[str, ExportedTurn] = {}
    for label, numbers in places.items():
        try:
            session = await sessions.session(scope, label)
        except NotFound:
            continue
        for first, last in _runs(numbers):
            limit = last - first + 1
            page = await sessions.session_turns(scope, session.session_id, limit=limit, after_seq=first - 1)
            for turn in page.rows:
                names = (str(turn.event_id), turn.source_id)
                found |= {name: ExportedTurn(session.label, turn) for name in names if name is not None}
    return found


def _runs(numbers: Iterable[int]) -> Iterator[tuple[int, int]]:
    """The first and the last of those that are read together."""
    first, *rest = sorted(numbers)
    last = first
    for number in rest:
        if number - last > GAP_MAX or number - first >= PLACES_MAX:
            yield first, last
            first = number
        last = number
    yield first, last


def stands_there(given: Given, line: ImportLine, stored: Mapping[str, ExportedTurn]) -> bool:
    """Whether the store has the turn of an exported line as the line says it: under the id that it had where it was
    exported, or, where that was a copy, under the id that the copy was made of or its client's own.
    """
    if given.event_id is None:
        return False
    named = (stored.get(name) for name in (str(given.event_id), given.source_id) if name is not None)
    return any(_says_the_same(line, one) for one in named if one is not None)


def _says_the_same(line: ImportLine, exported: ExportedTurn) -> bool:
    turn = exported.turn
    said = (turn.role, turn.name, turn.content, turn.occurred_at, exported.label)
    return said == (line.role, line.name, line.content, line.occurred_at, line.session_label)
