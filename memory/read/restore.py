"""Restoring a checkpoint: its name in, what a prompt is given of it out, in the checkpoint's order.

Under the law of now, also where it is asked for as of another moment: what is hidden, held back, rejected, past its
end, above a ceiling or out of the caller's reach is left out, and in the place of a fact that something has superseded
comes what holds. Reads only; no model. Raises NotFound for a name that is not there, StoreUnavailable.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final, Protocol
from uuid import UUID

from memory.checkpoints import NamedPart, Restored, ToLoad
from memory.errors import NotFound
from memory.model import Candidate, IndexRow, Quoted, Scope, ScopeVersion
from memory.read.hot import item_of
from memory.read.items import Filter
from memory.read.recall import as_candidate
from policies.cascade import Visibility
from policies.checkpoint import IN_PROMPT, LABELS
from policies.labels import Sensitivity, within_ceiling

WHY: Final = "restored from a checkpoint"
# Facts that were superseded since are followed so far: a fact is seldom corrected oftener before it is asked for.
_SUCCESSORS_FOLLOWED: Final = 8


class RestoreStore(Protocol):
    """The store as it knows checkpoints. Every call raises StoreUnavailable."""

    async def checkpoint(self, scope: Scope, name: str, as_of: datetime | None) -> ToLoad | None:
        """What a checkpoint of this very scope names, now or as it was recorded at a moment; None for no such one."""

    async def standing(self, tenant: UUID, scope_ids: Sequence[int], memory_ids: Sequence[UUID]) -> list[Quoted]:
        """These memories as they are now, also what no prompt gets."""

    async def words(self, tenant: UUID, scope_ids: Sequence[int], versions: Mapping[UUID, int]) -> Mapping[UUID, str]:
        """What memories said in these versions."""

    async def visible_scopes(self, scope: Scope) -> tuple[ScopeVersion, ...]:
        """The scopes this identity may see."""


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
        in_prompt: UUID | None = None,
        without: frozenset[UUID] = frozenset(),
    ) -> Restored:
        """What a prompt is given of the checkpoint of this name. `in_prompt`: the conversation whose history the prompt
        holds whole, so that what that says itself is not said again. Raises NotFound, StoreUnavailable.
        """
        found = await self._store.checkpoint(scope, name, as_of)
        if found is None:
            raise NotFound("there is no such checkpoint in this scope", param="X-Memory-Checkpoint")
        visible = await self._store.visible_scopes(scope)
        why: Mapping[int, Visibility] = {one.scope_id: one.visibility for one in visible}
        where = where.among(why)
        scope_ids = [one.scope_id for one in visible]
        parts = [one for one in found.parts if not _is_said(one, found, in_prompt) and one.memory_id not in without]
        known = await self._standing(scope, scope_ids, parts, follow=as_of is None)
        then = {} if as_of is None else {one.memory_id: one.version for one in parts}
        words = await self._store.words(scope.tenant, scope_ids, then)
        candidates: dict[UUID, Candidate] = {}
        for part in parts:
            quoted = _holding(part, known) if as_of is None else known.get(part.memory_id)
            if quoted is None or quoted.hidden or not _may_be_given(quoted.row, where, now):
                continue
            row = replace(quoted.row, content=words.get(part.memory_id, quoted.row.content))
            made = self._candidate(part, row, len(candidates))
            candidates.setdefault(made.memory_id, made)
        seen = tuple(replace(one, visibility=why.get(one.scope_id, "own")) for one in candidates.values())
        return Restored(seen, None, found.checkpoint_id)

    async def _standing(
        self, scope: Scope, scope_ids: Sequence[int], parts: Sequence[NamedPart], *, follow: bool
    ) -> dict[UUID, Quoted]:
        """The memories of these parts as they are now, and what has taken their place."""
        known: dict[UUID, Quoted] = {}
        wanted = [part.memory_id for part in parts]
        for _ in range(_SUCCESSORS_FOLLOWED):
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
        kind = "checkpoint" if part.own else one.kind
        return replace(one, kind=kind, role=role, seq=place, section="checkpoint", why=f"{WHY}: {part.part}")


def _is_said(part: NamedPart, found: ToLoad, in_prompt: UUID | None) -> bool:
    """Whether the prompt says this by itself: it holds the conversation that it was taken from."""
    return in_prompt is not None and in_prompt == found.session_id and part.part in IN_PROMPT


def _holding(part: NamedPart, known: Mapping[UUID, Quoted]) -> Quoted | None:
    """The memory of a part, or what holds in its place now."""
    quoted = known.get(part.memory_id)
    for _ in range(_SUCCESSORS_FOLLOWED):
        if quoted is None or quoted.successor is None:
            break
        quoted = known.get(quoted.successor)
    return quoted


def _may_be_given(row: IndexRow, where: Filter, now: datetime) -> bool:
    if row.expires_at is not None and row.expires_at <= now:
        return False
    if where.ceiling is not None and not within_ceiling(Sensitivity(row.sensitivity), where.ceiling):
        return False
    return where.reaches(row.scope_id, row.session_id)
