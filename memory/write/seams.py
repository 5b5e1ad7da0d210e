"""What the write path is wired to: its stores, who hears of what it stored, and all its steps need as one value."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, Protocol
from uuid import UUID

from memory.chain import Digest
from memory.keys import KeyRing
from memory.model import (
    Base,
    Captured,
    Commit,
    Committed,
    ImportChunk,
    LineConflict,
    NewProcedure,
    Scope,
    SealedToken,
    SessionRef,
    Turn,
)
from memory.ports import Embedder, LanguageDetector, TokenCounter
from memory.stored import Digests, ImportItem, KnownLines, SessionTail
from memory.telemetry import Metrics
from memory.write.copied import Copies
from memory.write.facts import FindsFacts
from memory.write.parts import Redacts
from memory.write.personal import Keeps
from memory.write.procedures import no_procedures
from memory.write.quarantine import held_back
from memory.write.redact_across import Borders
from memory.write.summarise import Summariser
from memory.write.windows import TextTokenizer
from policies.lifetime import DaysOf

BASE_SERVES: Final = timedelta(hours=1)
"""How long the bodies of a session are told from one that is kept whole, which stays as long as they do."""


class ExchangeStore(Copies, Protocol):
    """Where exchanges are written."""

    async def chains_elsewhere(self, scope: Scope, session_id: UUID, chains: Sequence[Digest]) -> Set[bytes]:
        """Which of these positions another session of this very scope has. Raises StoreUnavailable."""

    async def base(self, scope: Scope, session_id: UUID, subject_id: UUID, since: datetime, least: int) -> Base | None:
        """The latest sealed body of the session that arrived at `since` or later and is kept whole, of `least` bytes
        or more. Raises StoreUnavailable.
        """

    async def commit(self, commit: Commit, *, now: datetime, digests: Digests) -> Committed:
        """Write everything or nothing. Raises StoreUnavailable, LeaseLost."""


class LineStore(Protocol):
    """Where import lines are written."""

    async def known_lines(self, scope: Scope, source_ids: Sequence[str], line_digests: Sequence[bytes]) -> KnownLines:
        """Which of these lines the scope has. Raises StoreUnavailable."""

    async def session_tail(self, scope: Scope, ref: SessionRef, turns: int = 0) -> SessionTail:
        """Where the session ends, with so many of its last turns. Raises StoreUnavailable."""

    async def commit_import(
        self,
        chunk: ImportChunk,
        items: Sequence[ImportItem],
        *,
        subject_id: UUID,
        lane: str,
        fence: int,
        now: datetime,
        digests: Digests,
        cleaned_by: str = "",
        tokens: Sequence[SealedToken] = (),
    ) -> tuple[Committed, tuple[LineConflict, ...]]:
        """Write a chunk and its progress, or nothing. Raises StoreUnavailable, LeaseLost."""


class Announcer(Protocol):
    """Tells readers that a scope has changed."""

    async def announce(self, tenant: UUID, scope_id: int, version: int) -> None:
        """Best effort: readers confirm with the store anyway. Raises QueueUnavailable."""


class Follows(Protocol):
    """Keeps what conversations are about."""

    async def follow(self, scope: Scope, session_id: UUID) -> object:
        """Bring a session's working context up to date. Never raises a fault: who reads it next does the same."""

    def let_go(self) -> None:
        """Keep nothing that was read before: something was erased."""


@dataclass(frozen=True, slots=True)
class WriteParts:
    """What the write path needs."""

    store: ExchangeStore
    lines: LineStore
    keys: KeyRing
    embedder: Embedder
    windows: TextTokenizer
    redactor: Redacts
    counter: TokenCounter
    languages: LanguageDetector
    find_facts: FindsFacts
    facts_later: bool  # live exchanges wait for a model (memory.write.extraction)
    announcer: Announcer
    summariser: Summariser
    metrics: Metrics
    clock: Callable[[], datetime]
    lives: DaysOf = field(default_factory=dict)
    find_procedures: Callable[[Sequence[Turn]], list[NewProcedure]] = no_procedures
    working: Follows | None = None
    borders: Borders | None = None  # secrets that two messages hold together
    keeping: Callable[[Keeps], Redacts] | None = None  # where personal data is put behind tokens
    cleaned_by: str = ""  # the mark of what `redactor` does
    hold_back: Callable[[Sequence[Turn]], dict[UUID, str]] = held_back
    base_serves: timedelta = BASE_SERVES
    outside: Callable[[Captured, Sequence[Turn]], None] | None = None  # hears what is stored and free; never waits
