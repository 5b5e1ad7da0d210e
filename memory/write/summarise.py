"""The rolling summary: a session in, an extractive summary as a memory of kind `summary` out.

Every M turns or N tokens, whichever is first. It is made of the summary before it and the turns since, piece by piece
where these are many, and names the turns whose words it holds; of the whole conversation only where the one before
holds words that are not to be told any more, and then with the next turn. Beside its sentences it keeps intent,
decisions, open questions and names as attributes (policies.summary_kept). Raises StoreUnavailable, LeaseLost. No model.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final, Protocol, Self
from uuid import UUID

from memory.chain import Digest
from memory.ids import derived_id
from memory.model import NewMemory, Scope, SessionRef
from memory.stored import StoredTurn, SummaryState
from policies.brought import own_words
from policies.episode import Said
from policies.fact_talk import told_in
from policies.labels import Integrity, Sensitivity, derived_integrity, derived_sensitivity
from policies.summary import Sentence, extract, in_prose, sentences_of
from policies.summary_kept import Kept, fitted, keep

EXTRACTOR_VERSION: Final = "sumbasic-3"
TURNS_READ_MAX: Final = 1_000


@dataclass(frozen=True, slots=True)
class Earlier:
    """A summary that the next is made of. Its labels go on with its words: whatever those were made of is in them."""

    content: str
    kept: Kept
    integrity: Integrity
    sensitivity: Sensitivity

    @classmethod
    def stored(cls, state: SummaryState) -> Self | None:
        """The session's; None where it has none."""
        if state.content is None:
            return None
        labels = Integrity(state.integrity), Sensitivity(state.sensitivity)
        return cls(state.content, Kept.of(state.attributes), *labels)

    @classmethod
    def made(cls, memory: NewMemory) -> Self:
        """One that is not stored yet."""
        return cls(memory.content, Kept.of(memory.attributes), memory.integrity, memory.sensitivity)


@dataclass(frozen=True, slots=True)
class DueSummary:
    """A summary to be kept; it covers the turns below `upto_seq`. `made_of`: the `changed_version` of the one before,
    whose words it may hold; None where there was none.
    """

    memory: NewMemory
    upto_seq: int
    made_of: int | None = None


class SummaryStore(Protocol):
    """Where summaries are read from and kept."""

    async def summary_state(self, scope: Scope, session_id: UUID) -> SummaryState | None:
        """The session's summary and how far it reaches. Raises StoreUnavailable."""

    async def turns_since(self, scope: Scope, session_id: UUID, seq: int, *, limit: int) -> tuple[StoredTurn, ...]:
        """The turns from number `seq` on, in order. Raises StoreUnavailable."""

    async def learnt(self, scope: Scope, event_ids: Sequence[UUID]) -> frozenset[UUID]:
        """Those of these turns that a memory of their own was made of. Raises StoreUnavailable."""

    async def untold(self, scope: Scope, event_ids: Sequence[UUID]) -> frozenset[UUID]:
        """Those of these turns whose words must not be told: held back, hidden, rejected. Raises StoreUnavailable."""

    async def put_summary(
        self,
        scope: Scope,
        session_id: UUID,
        memory: NewMemory,
        upto_seq: int,
        made_of: int | None,
        *,
        subject_id: UUID,
        now: datetime,
        lane: str,
        fence: int,
    ) -> int | None:
        """Keep a new version of the session's summary, unless that is another by now than the one it was made of.
        Raises StoreUnavailable, LeaseLost.
        """


class Summariser:
    """Keeps the rolling summaries of sessions."""

    def __init__(
        self,
        store: SummaryStore,
        *,
        every_turns: int,
        every_tokens: int,
        sentences_max: int,
        clock: Callable[[], datetime],
    ) -> None:
        self._store = store
        self._every_turns = every_turns
        self._every_tokens = every_tokens
        self._sentences_max = sentences_max
        self._clock = clock

    async def due(self, scope: Scope, session: SessionRef) -> DueSummary | None:
        """The next summary, when enough was said since the last. Raises StoreUnavailable."""
        state = await self._store.summary_state(scope, session.session_id)
        if state is None or not self._is_due(state):
            return None
        earlier, seq = (None, 0) if state.withdrawn else (Earlier.stored(state), state.summarised_seq)
        pieces: list[NewMemory] = []
        while turns := await self._store.turns_since(scope, session.session_id, seq, limit=TURNS_READ_MAX):
            said = await self._told(scope, turns)
            piece = await asyncio.to_thread(summary_of, session, earlier, said, self._sentences_max)
            if piece is not None:
                pieces.append(piece)
                earlier = Earlier.made(piece)
            seq = turns[-1].seq + 1
            if len(turns) < TURNS_READ_MAX:
                break
        return DueSummary(_as_one(pieces), seq, state.changed_version) if pieces else None

    def _is_due(self, state: SummaryState) -> bool:
        untold = state.next_seq - state.summarised_seq
        enough = untold >= self._every_turns or state.tokens_since >= self._every_tokens
        return untold > 0 and (enough or state.withdrawn)

    async def _told(self, scope: Scope, turns: Sequence[StoredTurn]) -> list[StoredTurn]:
        """Those of these turns whose words a summary may hold."""
        # An answer that only quoted memory made none: a summary must not learn it again either.
        learnt = await self._store.learnt(scope, [turn.event_id for turn in turns if turn.role == "assistant"])
        untold = await self._store.untold(scope, [turn.event_id for turn in turns])
        return [
            turn
            for turn in turns
            if turn.event_id not in untold and (turn.role != "assistant" or turn.event_id in learnt)
        ]

    async def keep(
        self, scope: Scope, session: SessionRef, due: DueSummary, subject_id: UUID, lane: str, fence: int
    ) -> None:
        """Store it as the next version. Raises StoreUnavailable, LeaseLost."""
        await self._store.put_summary(
            scope,
            session.session_id,
            due.memory,
            due.upto_seq,
            due.made_of,
            subject_id=subject_id,
            now=self._clock(),
            lane=lane,
            fence=fence,
        )


def summary_anew(session: SessionRef, turns: Sequence[StoredTurn], sentences_max: int) -> NewMemory | None:
    """The summary of a whole conversation, read piece by piece, each with the summary of those before it, as it grew in
    the first place.
    """
    pieces: list[NewMemory] = []
    for start in range(0, len(turns), TURNS_READ_MAX):
        earlier = Earlier.made(pieces[-1]) if pieces else None
        piece = summary_of(session, earlier, turns[start : start + TURNS_READ_MAX], sentences_max)
        pieces += [piece] if piece is not None else []
    return _as_one(pieces) if pieces else None


def _as_one(pieces: Sequence[NewMemory]) -> NewMemory:
    """The last of the summaries that were made one of the other; it rests on what any of them does."""
    sources = dict.fromkeys(turn for piece in pieces for turn in piece.source_turns)
    return replace(pieces[-1], source_turns=tuple(sources))


def newest_branch(turns: Sequence[StoredTurn]) -> list[StoredTurn]:
    """Without the answer in whose place another was given, and without a question that was edited and all behind it;
    where their places in the chain tell, and not where the other came late.
    """
    kept: list[StoredTurn] = []
    places: dict[tuple[str, Digest | None], int] = {}
    for turn in turns:
        key = (turn.role, turn.parent_chain)
        at = places.get(key, len(kept)) if turn.parent_chain is not None else len(kept)
        stands = at < len(kept) and (kept[at].role, kept[at].parent_chain) == key
        is_later = stands and kept[-1].occurred_at <= turn.occurred_at
        if is_later and (turn.role == "user" or (turn.role == "assistant" and at == len(kept) - 1)):
            del kept[at:]
        places[key] = len(kept)
        kept.append(turn)
    return kept


def summary_of(
    session: SessionRef, earlier: Earlier | None, turns: Sequence[StoredTurn], sentences_max: int
) -> NewMemory | None:
    """The summary memory of a session, or None where nothing was said in words.

    Sentences of the earlier summary compete with the new ones as what the user said, before the first turn; what it
    kept stays, and so do its labels. With its attributes it is never longer than what it is made of, words that stand
    in both counted once. The memory rests on the turns whose words it holds; edges of earlier versions are the store's
    to keep.
    """
    turns = newest_branch(turns)
    before, kept = (earlier.content, earlier.kept) if earlier is not None else ("", Kept())
    spoken = told_in([(turn.role, _own(turn)) for turn in turns])
    said = [Said(turn.event_id, turn.role, text) for turn, text in zip(turns, spoken, strict=True)]
    read: list[Sentence] = sentences_of(before, "user", -1)
    for index, one in enumerate(said):
        if one.role in ("user", "assistant"):
            read += sentences_of(one.text, one.role, index)
    chosen = extract(in_prose(read), sentences_max)
    chars_max = len(before) + sum(len(turn.content) for turn in turns)
    while len("\n".join(s.text for s in chosen)) > chars_max:
        chosen.pop()  # never longer than what it sums up: a line's end where there was no space between two sentences
    if not chosen or not turns:
        return None
    chars_max += kept.chars_beyond(before)
    kept = keep(kept, said)
    content = "\n".join(sentence.text for sentence in chosen)
    kept = fitted(kept, chars_max - len(content), content)
    used = dict.fromkeys(turns[s.turn].event_id for s in chosen if s.turn >= 0) | dict.fromkeys(kept.sources)
    sources: list[StoredTurn | Earlier] = [*turns, *([earlier] if earlier is not None else [])]
    return NewMemory(
        memory_id=derived_id(session.session_id, "summary"),
        kind="summary",
        content=content,
        content_key=hashlib.sha256(b"summary" + session.session_id.bytes).digest(),
        role="assistant",
        integrity=derived_integrity([Integrity(one.integrity) for one in sources]),
        sensitivity=derived_sensitivity([Sensitivity(one.sensitivity) for one in sources]),
        origin="summary",
        importance=0.5,
        confidence=1.0,
        occurred_at=turns[-1].occurred_at,
        extractor_version=EXTRACTOR_VERSION,
        source_turns=tuple(used) or (turns[-1].event_id,),
        attributes=kept.attributes(),
    )


def _own(turn: StoredTurn) -> str:
    """The words of a turn; of a user's without a tool's output and pages that a program brought into the message."""
    return own_words(turn.content) if turn.role == "user" else turn.content
