"""A sweep through stored open text with the rules of now: a store in, counts by rule out, and cleaner rows.

Turns (text, names, tool calls, parts), every version of every memory (summaries are memories; text and attributes),
what facts state, what procedures are for, and the labels of sessions. A rehearsal counts and changes nothing; `apply`
rewrites a page at a time, embeds anew what changed, and marks what it has looked at, so that a sweep that was killed
goes on where it stood. Beside live traffic: what is written meanwhile was cleaned by its writer.
Refuses: to say what it found; to rename users, projects and agents (counted as `left`: `forget` is for those).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final, Protocol
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from memory.model import SealedToken
from memory.ports import Embedder
from memory.write.parts import Redacts, cleaned_value
from memory.write.personal import SubjectTokens
from memory.write.windows import TextTokenizer, dated, split_windows
from policies.redaction import Finding, Redacted
from policies.taught import trigger_key

HIDDEN_CHARS_MIN: Final = 4
LABEL_BYTES_MAX: Final = 256  # of UTF-8, as X-Memory-Session may have
_NOBODY: Final = UUID(int=0)


@dataclass(frozen=True, slots=True)
class ScopeNames:
    """A scope and whose it is."""

    tenant: UUID
    scope_id: int
    user_name: str
    project: str
    agent: str
    subject_id: UUID = _NOBODY


@dataclass(frozen=True, slots=True)
class TurnText:
    """What a turn says."""

    event_id: UUID
    name: str | None
    content: str
    tool_calls: Any
    parts: Any


@dataclass(frozen=True, slots=True)
class CleanTurn:
    """What it says by the rules of now. `before` is the text that was read, `found` how many cuts there were, `cuts`
    those in the text, by where they were made in `before`.
    """

    event_id: UUID
    name: str | None
    content: str
    tool_calls: Any
    parts: Any
    before: str
    found: int
    cuts: tuple[Finding, ...] = ()

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Where a range of the text that was read is in the one that is left; with a cut in it, all of that."""
        moved = [start, end]
        for cut in self.cuts:
            more = len(cut.replacement) - (cut.end - cut.start)
            for at, place in enumerate((start, end)):
                if place >= cut.end:
                    moved[at] += more
                elif place > cut.start:
                    moved[at] += cut.start - place + (len(cut.replacement) if at else 0)
        return moved[0], max(moved[1], moved[0])


@dataclass(frozen=True, slots=True)
class VersionText:
    """One version of a memory."""

    number: int
    content: str
    attributes: dict[str, Any]
    occurred_at: datetime | None


@dataclass(frozen=True, slots=True)
class MemoryText:
    """A memory with its versions, oldest first; what it states (subject, object), and what it is for."""

    memory_id: UUID
    kind: str
    versions: tuple[VersionText, ...]
    stated: tuple[str, str] | None
    trigger: str | None


@dataclass(frozen=True, slots=True)
class CleanVersion:
    """A version to be written. `vectors` None: its text has not changed."""

    number: int
    content: str
    attributes: dict[str, Any]
    occurred_at: datetime | None
    is_new_text: bool
    windows: tuple[tuple[int, int], ...] = ()
    vectors: NDArray[np.float32] | None = None


@dataclass(frozen=True, slots=True)
class CleanMemory:
    """The versions of a memory that change, and what it states and is for where that changes."""

    memory_id: UUID
    versions: tuple[CleanVersion, ...]
    stated: tuple[str, str] | None
    trigger: str | None


@dataclass(frozen=True, slots=True)
class SessionText:
    """A conversation's label, and what is noted of it."""

    session_id: UUID
    label: str
    attributes: dict[str, Any]


@dataclass(frozen=True, slots=True)
class CleanSession:
    """The same by the rules of now."""

    session_id: UUID
    label: str
    attributes: dict[str, Any]


class SweptStore(Protocol):
    """What is swept; every method raises StoreUnavailable."""

    def scopes(self) -> AsyncIterator[ScopeNames]:
        """Every scope."""

    def turns(self, scope: ScopeNames, mark: str, *, again: bool) -> AsyncIterator[list[TurnText]]:
        """Pages of turns that were not cleaned by `mark`; `again`: of all."""

    def memories(self, scope: ScopeNames, mark: str, *, again: bool) -> AsyncIterator[list[MemoryText]]:
        """Pages of memories with such a version."""

    def sessions(self, scope: ScopeNames) -> AsyncIterator[list[SessionText]]:
        """Pages of sessions."""

    async def put_turns(
        self,
        scope: ScopeNames,
        turns: Sequence[CleanTurn],
        clean: Sequence[UUID],
        mark: str,
        tokens: Sequence[SealedToken],
        now: datetime,
    ) -> None:
        """Write a page of turns."""

    async def put_memories(
        self,
        scope: ScopeNames,
        memories: Sequence[CleanMemory],
        clean: Sequence[tuple[UUID, int]],
        mark: str,
        tokens: Sequence[SealedToken],
        now: datetime,
    ) -> None:
        """Write a page of memories."""

    async def put_sessions(self, scope: ScopeNames, sessions: Sequence[CleanSession]) -> None:
        """Write a page of sessions."""


@dataclass(slots=True)
class Swept:
    """What a sweep has come to. `rules` counts cuts by rule, `changed` rows by kind, `left` names of scopes."""

    scopes: int = 0
    looked_at: Counter[str] = field(default_factory=Counter)
    changed: Counter[str] = field(default_factory=Counter)
    rules: Counter[str] = field(default_factory=Counter)
    left: int = 0

    def as_json(self) -> dict[str, Any]:
        """As one JSON object."""
        return {
            "scopes": self.scopes,
            "looked_at": dict(self.looked_at),
            "changed": dict(self.changed),
            "rules": dict(sorted(self.rules.items())),
            "scope_names_left": self.left,
        }


@dataclass(frozen=True, slots=True)
class Counting:
    """A redactor that counts what it cuts."""

    inner: Redacts
    rules: Counter[str]

    def redact(self, text: str) -> Redacted:
        """As the one inside."""
        done = self.inner.redact(text)
        for found in done.findings:
            self.rules[found.rule] += 1
        return done


@dataclass(frozen=True, slots=True)
class SweepParts:
    """What a sweep needs. `apply` False: it is a rehearsal. `again`: look also at what these rules have cleaned."""

    store: SweptStore
    redactor: Redacts
    keeper: Callable[[ScopeNames], Awaitable[SubjectTokens]] | None
    keeping: Callable[[SubjectTokens], Redacts]
    embedder: Embedder | None
    windows: TextTokenizer | None
    mark: str
    apply: bool
    again: bool
    clock: Callable[[], datetime]
    stop: asyncio.Event
    say: Callable[[Swept], None]


class Sweep:
    """One walk through the store."""

    def __init__(self, parts: SweepParts) -> None:
        self._parts = parts
        self.swept = Swept()

    async def run(self) -> bool:
        """Walk. False: it was asked to stop; what is done is kept, and the next one goes on there."""
        async for scope in self._parts.store.scopes():
            if self._parts.stop.is_set():
                return False
            await self._scope(scope)
            self.swept.scopes += 1
            self._parts.say(self.swept)
        return not self._parts.stop.is_set()

    async def _scope(self, scope: ScopeNames) -> None:
        parts = self._parts
        names = Counting(parts.redactor, Counter())
        self.swept.left += sum(
            bool(names.redact(name).findings) for name in (scope.user_name, scope.project, scope.agent)
        )
        async for turns in parts.store.turns(scope, parts.mark, again=parts.again):
            await self._turns(scope, turns)
            if parts.stop.is_set():
                return
        async for memories in parts.store.memories(scope, parts.mark, again=parts.again):
            await self._memories(scope, memories)
            if parts.stop.is_set():
                return
        async for sessions in parts.store.sessions(scope):
            await self._sessions(scope, sessions)

    async def _redactor(self, scope: ScopeNames) -> tuple[ScopeNames, Redacts, SubjectTokens | None]:
        """What cleans this scope's texts, who keeps what it puts behind tokens, and the scope with its subject."""
        parts = self._parts
        if not parts.apply or parts.keeper is None:
            return scope, parts.redactor, None
        tokens = await parts.keeper(scope)
        return replace(scope, subject_id=tokens.subject), parts.keeping(tokens), tokens

    async def _turns(self, scope: ScopeNames, turns: Sequence[TurnText]) -> None:
        self.swept.looked_at["turns"] += len(turns)
        if not turns:
            return
        scope, redactor, tokens = await self._redactor(scope)
        done = await asyncio.to_thread(lambda: [clean_turn(t, Counting(redactor, self.swept.rules)) for t in turns])
        changed = [one for one in done if one.found]
        self.swept.changed["turns"] += len(changed)
        if self._parts.apply:
            clean = [one.event_id for one in done if not one.found]
            kept = tuple(tokens.kept.values()) if tokens else ()
            await self._parts.store.put_turns(scope, changed, clean, self._parts.mark, kept, self._parts.clock())
        self._parts.say(self.swept)

    async def _memories(self, scope: ScopeNames, memories: Sequence[MemoryText]) -> None:
        self.swept.looked_at["memories"] += len(memories)
        if not memories:
            return
        scope, redactor, tokens = await self._redactor(scope)
        done = await asyncio.to_thread(
            lambda: [clean_memory(m, Counting(redactor, self.swept.rules)) for m in memories]
        )
        changed = [one for one in done if one.versions or one.stated or one.trigger]
        self.swept.changed["memories"] += len(changed)
        self.swept.changed["versions"] += sum(len(one.versions) for one in changed)
        if self._parts.apply:
            written = {(one.memory_id, version.number) for one in changed for version in one.versions}
            every = [(one.memory_id, version.number) for one in memories for version in one.versions]
            clean = [one for one in every if one not in written]
            embedded = [await self._embedded(one) for one in changed]
            kept = tuple(tokens.kept.values()) if tokens else ()
            await self._parts.store.put_memories(scope, embedded, clean, self._parts.mark, kept, self._parts.clock())
        self._parts.say(self.swept)

    async def _embedded(self, memory: CleanMemory) -> CleanMemory:
        """The memory with vectors for the texts that changed. Raises EmbedderUnavailable."""
        embedder, tokenizer = self._parts.embedder, self._parts.windows
        if embedder is None or tokenizer is None:
            return memory
        versions = []
        for version in memory.versions:
            if version.is_new_text and version.content.strip():
                ranges = tuple(split_windows(version.content, tokenizer))
                texts = [dated(version.content[start:end], version.occurred_at) for start, end in ranges]
                version = replace(version, windows=ranges, vectors=await embedder.embed_documents(texts))
            versions.append(version)
        return replace(memory, versions=tuple(versions))

    async def _sessions(self, scope: ScopeNames, sessions: Sequence[SessionText]) -> None:
        self.swept.looked_at["sessions"] += len(sessions)
        done = [clean_session(one, Counting(self._parts.redactor, self.swept.rules)) for one in sessions]
        changed = [one for one in done if one is not None]
        self.swept.changed["sessions"] += len(changed)
        if self._parts.apply and changed:
            await self._parts.store.put_sessions(scope, changed)


def clean_turn(turn: TurnText, redactor: Redacts) -> CleanTurn:
    """A turn as the rules leave it."""
    text = redactor.redact(turn.content)
    name = None if turn.name is None else redactor.redact(turn.name)
    calls, in_calls = cleaned_value(turn.tool_calls, redactor)
    parts, in_parts = cleaned_value(turn.parts, redactor)
    found = len(text.findings) + (len(name.findings) if name else 0) + in_calls + in_parts
    who = name.text if name else None
    return CleanTurn(turn.event_id, who, text.text, calls, parts, turn.content, found, text.findings)


def clean_memory(memory: MemoryText, redactor: Redacts) -> CleanMemory:
    """The parts of a memory that the rules change. What a sentence gives away is cut in what it states too."""
    versions, hidden = [], dict[str, str]()
    for version in memory.versions:
        text = redactor.redact(version.content)
        for found in text.findings:
            word = version.content[found.start : found.end]
            if len(word) >= HIDDEN_CHARS_MIN:
                hidden |= {word: found.replacement, " ".join(word.casefold().split()): found.replacement}
        attributes, in_attributes = cleaned_value(version.attributes, _Also(redactor, hidden))
        if text.findings or in_attributes:
            changed = bool(text.findings)
            versions.append(CleanVersion(version.number, text.text, attributes, version.occurred_at, changed))
    also = _Also(redactor, hidden)
    stated, trigger = memory.stated, memory.trigger
    clean = None if stated is None else (_as_stated(also, stated[0]), _as_stated(also, stated[1]))
    purpose = None if trigger is None else _purpose(memory, trigger, also)
    return CleanMemory(
        memory.memory_id,
        tuple(versions),
        clean if clean != stated else None,
        purpose if purpose != trigger else None,
    )


def _as_stated(redactor: Redacts, words: str) -> str:
    """Words as facts are compared by: small letters, a space between each two."""
    done = redactor.redact(words)
    return " ".join(done.text.casefold().split()) if done.findings else words


def _purpose(memory: MemoryText, trigger: str, redactor: Redacts) -> str:
    """What a procedure is for by the rules of now. A key of words that were stemmed and sorted is told from the words
    as they were said: what the rules cut there need not be a secret's shape in it.
    """
    said = memory.versions[-1].attributes.get("trigger")
    if isinstance(said, str) and trigger_key(said) == trigger:
        done = redactor.redact(said)
        return (trigger_key(done.text) or trigger) if done.findings else trigger
    return redactor.redact(trigger).text


def clean_session(session: SessionText, redactor: Redacts) -> CleanSession | None:
    """A session under another label; None where nothing changes. The id keeps two labels apart that look alike now."""
    label = redactor.redact(session.label)
    attributes, found = cleaned_value(session.attributes, redactor)
    if not label.findings and not found:
        return None
    tail = f"~{session.session_id.hex[-8:]}" if label.findings else ""
    head = label.text.encode()[: LABEL_BYTES_MAX - len(tail)].decode(errors="ignore")
    return CleanSession(session.session_id, head + tail, attributes)


@dataclass(frozen=True, slots=True)
class _Also:
    """A redactor that cuts some words more, wherever they stand."""

    inner: Redacts
    words: dict[str, str]

    def redact(self, text: str) -> Redacted:
        done = self.inner.redact(text)
        clean, more = done.text, 0
        for word, instead in self.words.items():
            if word in clean:
                clean, more = clean.replace(word, instead), more + 1
        return done if not more else Redacted(clean, done.findings or (Finding(0, 1, "high-entropy/stated"),))
