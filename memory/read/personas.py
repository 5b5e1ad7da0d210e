"""How answers are asked to be, for one prompt: a style in, what the prompt is given of it out.

A persona that was saved is a memory like any other, under the law of now; one that everybody has, and facets in a
header, are words of ours that the law has nothing to say about (`memory.ids.words_id`). Reads only. Raises NotFound for
a name that is not there, StoreUnavailable.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final, Protocol
from uuid import UUID

from memory.errors import NotFound
from memory.ids import words_id
from memory.model import Candidate, IndexRow, Quoted, Scope, ScopeVersion
from memory.read.candidates import as_candidate
from memory.read.hot import item_of
from memory.read.items import Filter
from memory.read.restore import may_be_given
from policies.checkpoint import LABELS
from policies.labels import Sensitivity
from policies.persona import BUILT_IN, Style, rendered

WHY: Final = "the style that the request asks for"
KIND: Final = "persona"


class PersonaReads(Protocol):
    """The store as it knows personas. Every call raises StoreUnavailable."""

    async def persona(self, scope: Scope, name: str) -> UUID | None:
        """The memory of the persona of this name in this very scope; None for no such one."""

    async def standing(self, tenant: UUID, scope_ids: Sequence[int], memory_ids: Sequence[UUID]) -> list[Quoted]:
        """These memories as they are now, also what no prompt gets."""

    async def visible_scopes(self, scope: Scope) -> tuple[ScopeVersion, ...]:
        """The scopes this identity may see."""


class Personas:
    """Reads personas for prompts. `clean` is what every row passes before a prompt has it."""

    def __init__(self, store: PersonaReads, clean: Callable[[IndexRow], IndexRow]) -> None:
        self._store = store
        self._clean = clean

    async def of(
        self,
        scope: Scope,
        style: Style,
        where: Filter,
        now: datetime,
        *,
        seen: Callable[[Sensitivity], bool] = lambda _: True,
    ) -> tuple[Candidate, ...]:
        """What a prompt is given: the persona named, then the facets. Raises NotFound, also for one that is not `seen`
        by whoever asks, StoreUnavailable.
        """
        given: list[Candidate] = []
        facets = dict(style.facets)
        if style.name in BUILT_IN:
            facets = {**BUILT_IN[style.name], **facets}
        elif style.name:
            given += await self._saved(scope, style.name, where, now, seen)
        if facets or style.name in BUILT_IN:
            given.append(words_of(rendered(facets)))
        return tuple(replace(one, seq=place) for place, one in enumerate(given))

    async def _saved(
        self, scope: Scope, name: str, where: Filter, now: datetime, seen: Callable[[Sensitivity], bool]
    ) -> list[Candidate]:
        memory_id = await self._store.persona(scope, name)
        if memory_id is None:
            raise _none()
        visible = await self._store.visible_scopes(scope)
        where = where.among({one.scope_id: one.visibility for one in visible})
        rows = await self._store.standing(scope.tenant, [one.scope_id for one in visible], [memory_id])
        if not all(seen(Sensitivity(one.row.sensitivity)) for one in rows):
            raise _none()
        shown = [one.row for one in rows if not one.hidden and may_be_given(one.row, where, now)]
        return [_candidate(self._clean(row)) for row in shown]


def _none() -> NotFound:
    return NotFound("there is no such persona in this scope", param="X-Memory-Persona")


def words_of(text: str) -> Candidate:
    """Words of ours as a candidate."""
    return Candidate(
        memory_id=words_id("style", text),
        version=1,
        kind=KIND,
        role=f"user, {LABELS['persona']}",
        content=text,
        shown=(0, len(text)),
        score=0.0,
        parts={},
        admitted=True,
        occurred_at=None,
        session_id=None,
        seq=0,
        scope_id=0,
        integrity="user",
        source_ids=(),
        event_ids=(),
        why=WHY,
        sensitivity="public",
        section="persona",
    )


def _candidate(row: IndexRow) -> Candidate:
    one = as_candidate(item_of(row))
    return replace(
        one, kind=KIND, role=f"{one.role}, {LABELS['persona']}", occurred_at=None, section="persona", why=WHY
    )
