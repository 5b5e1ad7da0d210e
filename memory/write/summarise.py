"""The rolling summary: a session in, an extractive summary as a memory of kind `summary` out, every M turns.

It is made of the summary before it and the turns since, never of the whole conversation again, and names the turns
whose words it holds. Raises StoreUnavailable, LeaseLost. No model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

from memory.model import Scope, SessionRef
from policies.labels import Integrity, derived_integrity
from policies.summary import Sentence, extract, sentences_of


@dataclass(frozen=True, slots=True)
class Due:
    """What a session's next summary is made of: its last one, and the turns since."""

    summary: str
    summary_turns: tuple[UUID, ...]
    summary_integrity: Integrity | None
    turns: tuple[DueTurn, ...]
    last_seq: int


@dataclass(frozen=True, slots=True)
class DueTurn:
    """One turn since the last summary."""

    event_id: UUID
    role: str
    content: str
    integrity: Integrity


class SummaryStore(Protocol):
    """Where summaries are read from and kept."""

    async def summary_due(self, scope: Scope, session: SessionRef, every_turns: int) -> Due | None:
        """The material, or None while fewer than `every_turns` turns are new. Raises StoreUnavailable."""

    async def put_summary(
        self,
        scope: Scope,
        session: SessionRef,
        text: str,
        source_turns: Sequence[UUID],
        integrity: Integrity,
        last_seq: int,
        lane: str,
        fence: int,
    ) -> None:
        """Keep a new version of the session's summary. Raises StoreUnavailable, LeaseLost."""


class Summariser:
    """Keeps the rolling summaries of sessions."""

    def __init__(self, store: SummaryStore, *, every_turns: int, sentences_max: int) -> None:
        self._store = store
        self._every_turns = every_turns
        self._sentences_max = sentences_max

    async def summarise_if_due(self, scope: Scope, session: SessionRef, lane: str, fence: int) -> None:
        """Write the next summary when enough was said since the last."""
        due = await self._store.summary_due(scope, session, self._every_turns)
        if due is None:
            return
        text, used = summary_of(due, self._sentences_max)
        if not text:
            return
        labels = [turn.integrity for turn in due.turns]
        integrity = derived_integrity(labels + ([due.summary_integrity] if due.summary_integrity else []))
        await self._store.put_summary(scope, session, text, used, integrity, due.last_seq, lane, fence)


def summary_of(due: Due, sentences_max: int) -> tuple[str, tuple[UUID, ...]]:
    """The summary's text and the turns it rests on. Sentences of the last summary compete as the oldest turn (-1)."""
    read: list[Sentence] = sentences_of(due.summary, "user", -1)
    for index, turn in enumerate(due.turns):
        if turn.role in ("user", "assistant"):
            read += sentences_of(turn.content, turn.role, index)
    chosen = extract(read, sentences_max)
    fresh = dict.fromkeys(due.turns[s.turn].event_id for s in chosen if s.turn >= 0)
    kept = due.summary_turns if any(s.turn < 0 for s in chosen) else ()
    return "\n".join(s.text for s in chosen), tuple(dict.fromkeys([*kept, *fresh]))
