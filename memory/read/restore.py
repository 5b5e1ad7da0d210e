"""Restoring a checkpoint: its name or a mark of it in, what a prompt is given of it out, in the checkpoint's order.

Under the law of now, also where it is asked for as of another moment: what is hidden, held back, rejected, past its
end, above a ceiling or out of the caller's reach is left out, and in the place of a fact that something has superseded
comes what holds. Reads only; no model. Raises NotFound for a name that is not there, StoreUnavailable.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final, Protocol, TypeVar
from uuid import UUID

from memory.checkpoints import NamedPart, Restored, Said, ToLoad
from memory.errors import MemoryProxyFault, NotFound, StoreUnavailable
from memory.ids import is_words
from memory.model import SUCCESSORS_FOLLOWED, Candidate, IndexRow, Quoted, Reason, Scope, ScopeVersion
from memory.read.candidates import as_candidate
from memory.read.hot import item_of
from memory.read.items import Filter
from memory.telemetry import event
from policies.cascade import Visibility
from policies.checkpoint import IN_PROMPT, LABELS
from policies.inlining import whole_chars_max
from policies.labels import Sensitivity, derived_sensitivity, within_ceiling

log: Final = logging.getLogger("memory_proxy.restore")
T = TypeVar("T")
WHY: Final = "restored from a checkpoint"
WHY_GIVEN: Final = "given in this conversation"
GIVEN_CHUNKS_MAX: Final = 64
OWN: Final = "checkpoint"
"""The kind of a candidate that was made for a checkpoint: it is no memory that recall finds."""


class RestoreStore(Protocol):
    """The store as it knows checkpoints. Every call raises StoreUnavailable."""

    async def checkpoint(self, scope: Scope, name: str, as_of: datetime | None) -> ToLoad | None:
        """What a checkpoint of this very scope names, now or as it was recorded at a moment; None for no such one."""

    async def checkpoint_version(self, scope: Scope, checkpoint_id: UUID, version: int) -> ToLoad | None:
        """What a version of a checkpoint names; None where it is gone or deleted."""

    async def standing(self, tenant: UUID, scope_ids: Sequence[int], memory_ids: Sequence[UUID]) -> list[Quoted]:
        """These memories as they are now, also what no prompt gets."""

    async def words(self, tenant: UUID, scope_ids: Sequence[int], versions: Mapping[UUID, int]) -> Mapping[UUID, Said]:
        """What memories said in these versions."""

    async def quoted(self, scope: Scope, memory_ids: Sequence[UUID]) -> Mapping[UUID, frozenset[bytes]]:
        """Where in the chain the turns stand that these memories of this very scope quote; none of what quotes none."""

    async def given(self, scope: Scope, session_id: UUID, chars_max: int, limit: int) -> list[UUID]:
        """The chunks of the documents that a conversation of this very scope is given whole, in order: of those that
        are to be, and of those of at most `chars_max`. Where there are more, of those that were stored last.
        """

    async def visible_scopes(self, scope: Scope) -> tuple[ScopeVersion, ...]:
        """The scopes this identity may see."""


@dataclass(frozen=True, slots=True)
class InPrompt:
    """The conversation whose history a prompt holds whole, and where its messages stand in the chain."""

    session_id: UUID
    chains: frozenset[bytes]


class Restorer:
    """Reads checkpoints for prompts. `clean` is what every row passes before a prompt has it."""

    def __init__(self, store: RestoreStore, clean: Callable[[IndexRow], IndexRow]) -> None:
        self._store = store
        self._clean = clean

    async def of(
        self,
        scope: Scope,
        name: str,
        where: Filter,
        *,
        now: datetime,
        as_of: datetime | None = None,
        in_prompt: InPrompt | None = None,
    ) -> Restored:
        """What a prompt is given of the checkpoint of this name. `in_prompt`: what of the conversation that says itself
        is not said again. Raises NotFound, StoreUnavailable.
        """
        found = await self._store.checkpoint(scope, name, as_of)
        foreign = found is not None and where.session_id is not None and found.session_id != where.session_id
        if found is None or foreign:  # who is bound to one conversation is told of no other's, as by the API
            raise NotFound("there is no such checkpoint in this scope", param="X-Memory-Checkpoint")
        given = await self._given(scope, await self._unsaid(scope, found, in_prompt), where, now, as_of)
        return Restored(given, None, found.checkpoint_id)

    async def pending(
        self, scope: Scope, mark: bytes, where: Filter, *, now: datetime, in_prompt: InPrompt | None = None
    ) -> Restored:
        """What a load through the API has left for a conversation's next message; nothing where that is gone by now.
        Raises StoreUnavailable.
        """
        checkpoint_id, version = read_mark(mark)
        found = await self._store.checkpoint_version(scope, checkpoint_id, version)
        if found is None:
            return Restored(pending=True)
        given = await self._given(scope, await self._unsaid(scope, found, in_prompt), where, now, None)
        return Restored(given, None, found.checkpoint_id, pending=True)

    async def given(
        self, scope: Scope, session_id: UUID, where: Filter, *, now: datetime, budget_tokens: int
    ) -> tuple[Candidate, ...]:
        """What a prompt is given whole of the documents of its conversation: those that are small enough, and those
        that were to be whole. Raises StoreUnavailable.
        """
        found = await self._store.given(scope, session_id, whole_chars_max(budget_tokens), GIVEN_CHUNKS_MAX)
        parts = [NamedPart("given", one, 0, own=False) for one in found]
        return await self._given(scope, parts, where, now, None) if parts else ()

    async def again(
        self, scope: Scope, parts: Sequence[NamedPart], where: Filter, *, now: datetime, as_of: datetime
    ) -> tuple[Candidate, ...]:
        """These parts, which a prompt was given, in the words of a moment, under the law of now. StoreUnavailable."""
        return await self._given(scope, parts, where, now, as_of)

    async def _unsaid(self, scope: Scope, found: ToLoad, in_prompt: InPrompt | None) -> list[NamedPart]:
        """The parts but for what the prompt says by itself: what was quoted from a turn that it holds."""
        if in_prompt is None or in_prompt.session_id != found.session_id:
            return list(found.parts)
        may_be = [one.memory_id for one in found.parts if one.part in IN_PROMPT and one.own]
        quoted = await self._store.quoted(scope, may_be) if may_be else {}
        said = {one for one in may_be if not in_prompt.chains.isdisjoint(quoted.get(one, ()))}
        return [one for one in found.parts if one.memory_id not in said]

    async def _given(
        self, scope: Scope, parts: Sequence[NamedPart], where: Filter, now: datetime, as_of: datetime | None
    ) -> tuple[Candidate, ...]:
        visible = await self._store.visible_scopes(scope)
        why: Mapping[int, Visibility] = {one.scope_id: one.visibility for one in visible}
        where, scope_ids = where.among(why), [one.scope_id for one in visible]
        known = await self._standing(scope, scope_ids, parts, follow=as_of is None)
        then = {} if as_of is None else {one.memory_id: one.version for one in parts}
        words = await self._store.words(scope.tenant, scope_ids, then)
        given: dict[UUID, Candidate] = {}
        for part in parts:
            quoted = _holding(part, known) if as_of is None else known.get(part.memory_id)
            if quoted is None or quoted.hidden:
                continue
            row = _as_said(quoted.row, words.get(part.memory_id))
            if not may_be_given(row, where, now):
                continue
            made = replace(self._candidate(part, row, len(given)), visibility=why.get(row.scope_id, "own"))
            given.setdefault(made.memory_id, made)
        return tuple(given.values())

    async def _standing(
        self, scope: Scope, scope_ids: Sequence[int], parts: Sequence[NamedPart], *, follow: bool
    ) -> dict[UUID, Quoted]:
        """The memories of these parts as they are now, and what has taken their place."""
        known: dict[UUID, Quoted] = {}
        wanted = [part.memory_id for part in parts]
        for _ in range(SUCCESSORS_FOLLOWED):
            if not wanted:
                break
            rows = await self._store.standing(scope.tenant, scope_ids, wanted)
            known |= {one.row.memory_id: one for one in rows}
            wanted = [one.successor for one in rows if follow and one.successor and one.successor not in known]
        return known

    def _candidate(self, part: NamedPart, row: IndexRow, place: int) -> Candidate:
        one = as_candidate(item_of(self._clean(row)))
        label = LABELS[part.part]
        role = f"{one.role}, {label}" if label and label != one.role else one.role
        why = WHY_GIVEN if part.part == "given" else WHY
        kind = OWN if one.kind == "working" else one.kind
        said_at = None if part.part == "persona" else one.occurred_at  # a wish has no date
        return replace(one, kind=kind, role=role, occurred_at=said_at, seq=place, section=part.part, why=why)


def mark_of(checkpoint_id: UUID, version: int) -> bytes:
    """A load as a conversation's ledger holds it until its next message."""
    return checkpoint_id.bytes + version.to_bytes(4, "big")


def read_mark(mark: bytes) -> tuple[UUID, int]:
    """The checkpoint and the version of a load."""
    return UUID(bytes=mark[:16]), int.from_bytes(mark[16:], "big")


def parts_placed(candidates: Iterable[Mapping[str, Any]]) -> list[NamedPart]:
    """The restored parts that a retrieval's record says were placed, in their order."""
    placed = (one for one in candidates if one.get("section") and one.get("injected") and not is_words(UUID(one["id"])))
    return [NamedPart(one["section"], UUID(one["id"]), one["version"], one["kind"] == OWN) for one in placed]


def _holding(part: NamedPart, known: Mapping[UUID, Quoted]) -> Quoted | None:
    """The memory of a part, or what holds in its place now."""
    quoted = known.get(part.memory_id)
    for _ in range(SUCCESSORS_FOLLOWED):
        if quoted is None or quoted.successor is None:
            break
        quoted = known.get(quoted.successor)
    return quoted


def _as_said(row: IndexRow, said: Said | None) -> IndexRow:
    """A memory in the words of another version, as sensitive as the more sensitive of the two."""
    if said is None:
        return row
    label = derived_sensitivity(map(Sensitivity, (row.sensitivity, said.sensitivity))).value
    return replace(row, content=said.content, sensitivity=label, cleaned_by=said.cleaned_by)


def may_be_given(row: IndexRow, where: Filter, now: datetime) -> bool:
    """Whether a memory that is not hidden may go to this caller now."""
    if row.expires_at is not None and row.expires_at <= now:
        return False
    if where.ceiling is not None and not within_ceiling(Sensitivity(row.sensitivity), where.ceiling):
        return False
    return where.reaches(row.scope_id, row.session_id)


async def restored_in_time(reading: Coroutine[Any, Any, Restored], deadline_s: float) -> Restored:
    """What a reading gives in time. Raises NotFound; another fault, or no time, is said in it: the prompt goes on."""
    found, fault = await _in_time(reading, deadline_s, "checkpoint_not_read")
    return Restored(fault=fault) if found is None else found


async def given_in_time(
    restored: Restored, given: Coroutine[Any, Any, tuple[Candidate, ...]], deadline_s: float
) -> Restored:
    """What was restored, and behind it what the conversation's documents say, where that is read in time."""
    found, fault = await _in_time(given, deadline_s, "documents_not_read")
    if found is None:
        return replace(restored, fault=fault)
    said = {one.memory_id for one in restored.candidates}
    return replace(restored, candidates=(*restored.candidates, *(one for one in found if one.memory_id not in said)))


async def styled_in_time(
    restored: Restored, style: Coroutine[Any, Any, tuple[Candidate, ...]], deadline_s: float
) -> Restored:
    """What was restored with the style that the request asks for, which goes before that of a checkpoint. NotFound."""
    asked, fault = await _in_time(style, deadline_s, "persona_not_read")
    if asked is None:
        return replace(restored, fault=fault)
    others = (one for one in restored.candidates if one.section != "persona")
    return replace(restored, candidates=(*others, *asked))


async def _in_time(reading: Coroutine[Any, Any, T], deadline_s: float, unread: str) -> tuple[T | None, Reason | None]:
    """What a reading gives, or why not: the event `unread` is logged. Raises NotFound."""
    try:
        async with asyncio.timeout(deadline_s):  # wait_for of Python 3.11 can swallow a cancellation
            return await reading, None
    except NotFound:
        raise
    except (MemoryProxyFault, TimeoutError) as fault:
        event(log, unread, logging.WARNING, fault=type(fault).__name__)
        return None, "store" if isinstance(fault, StoreUnavailable) else "deadline"
