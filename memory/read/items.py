"""What an index is given and asked: one memory as an item, and the filter of one request. Values only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from memory.artifacts import CARD
from policies.cascade import Visibility
from policies.labels import Sensitivity

INDEXED_KINDS: Final = ("episodic", "semantic", "procedural", "document", "summary")
"""The kinds that an index follows: of others a change is not told to it."""
PAST: Final = "past"
"""In a filter by kind: the collection of summaries that stand for turns which are not in recall (decision 0018)."""


@dataclass(frozen=True, slots=True)
class IndexItem:
    """One memory as the index holds it.

    `context` is the text of the (up to two) turns before it in its session, oldest first, "" if none.
    `windows` are character ranges of `content`, one for each row of `vectors` (shape [n_windows, dim], unit length).
    An index keeps both to itself: an item that it gives back has no vectors and no context. `source_ids` name the turns
    whose text it shows, primary first.
    """

    memory_id: UUID
    kind: str
    role: str
    content: str
    context: str
    occurred_at: datetime | None
    session_id: UUID | None
    seq: int
    integrity: str
    sensitivity: str
    importance: float
    expires_at: datetime | None
    scope_id: int
    source_ids: tuple[str, ...]
    event_ids: tuple[UUID, ...]
    windows: tuple[tuple[int, int], ...]
    vectors: NDArray[np.float32] = field(compare=False)
    version: int = 1
    created_at: datetime | None = None  # when it reached us: the order of what is said to have happened at one time
    speaker: str | None = None  # the name of who said it
    language: str | None = None  # decides how its words are stemmed
    attributes: Mapping[str, Any] = field(default_factory=dict)
    validation_status: str = "unreviewed"
    injected: int = 0  # how often it was placed in a prompt
    last_injected_at: datetime | None = None
    pinned: bool = False
    outdates: tuple[UUID, ...] = ()  # the events that this fact has taken the place of something said in
    entity: UUID | None = None  # whom it names, where the store knows who that is

    @property
    def of_session_alone(self) -> bool:
        """Whether no other conversation may see it than the one it was given to: a document of that conversation."""
        return self.kind == "document" and self.attributes.get("saved") == "session"

    @property
    def is_unsaid(self) -> bool:
        """Whether no message of its conversation says it: a document or a file that was given there."""
        return self.kind == "document" or CARD in self.attributes

    @property
    def recalled_as(self) -> str:
        """Its kind; of a month of episodes `past`, since sessions' own summaries are not recalled."""
        return PAST if self.kind == "summary" and "month" in self.attributes else self.kind


@dataclass(frozen=True, slots=True)
class Filter:
    """What one request may see. None: no restriction. Times are inclusive; an item without a time fails both."""

    kinds: frozenset[str] | None = None
    roles: frozenset[str] | None = None
    scope_ids: frozenset[int] | None = None
    session_id: UUID | None = None
    occurred_after: datetime | None = None
    occurred_before: datetime | None = None
    ceiling: Sensitivity | None = None
    attributes: Mapping[str, Any] | None = None  # members that an item must have, each a JSON scalar
    exclude_memory_ids: frozenset[UUID] = frozenset()
    exclude_event_ids: frozenset[UUID] = frozenset()
    exclude_session_id: UUID | None = None  # one that the prompt itself contains: all of it but its documents and files
    in_session_id: UUID | None = None  # the conversation that asks: it sees what is kept for it alone
    unexpired_at: datetime | None = None  # nor expired by then: what is asked of a past moment is under the law of now
    visibilities: frozenset[Visibility] | None = None  # only scopes that are seen for one of these reasons

    def among(self, seen: Mapping[int, Visibility]) -> Filter:
        """This filter with the ids of the scopes that it may look into; `seen` says why each is seen."""
        if self.visibilities is None:
            return self
        ids = frozenset(scope_id for scope_id, why in seen.items() if why in self.visibilities)
        return replace(self, scope_ids=ids if self.scope_ids is None else ids & self.scope_ids)

    @property
    def asking(self) -> frozenset[UUID]:
        """The conversations that ask: documents that are kept for one alone are seen by no other."""
        named = (self.session_id, self.in_session_id, self.exclude_session_id)
        return frozenset(one for one in named if one is not None)

    def reaches(self, scope_id: int, session_id: UUID | None) -> bool:
        """Whether a memory of this scope and session may be seen at all, whatever it says."""
        if self.scope_ids is not None and scope_id not in self.scope_ids:
            return False
        return self.session_id is None or session_id == self.session_id

    def without(self, memory_ids: Iterable[UUID]) -> Filter:
        """This filter, hiding these memories as well."""
        return replace(self, exclude_memory_ids=self.exclude_memory_ids.union(memory_ids))
