"""One upload, from its sealed blocks to stored chunks.

`Documents.store` reads downwards: open, redact, cut, judge, embed what is new, store in one transaction, announce. The
text is redacted whole before it is cut, so no border hides a secret; every chunk is judged as foreign text, whoever
gave the file. A chunk's id follows from its document, its labels and its words, so what is in a later upload too keeps
its id and its vectors. Raises StoreUnavailable and EmbedderUnavailable (come again), EnvelopeUnreadable (never will).
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import pairwise
from typing import Any, Final, Protocol
from uuid import UUID

from memory import document_payload
from memory.documents import ORIGIN, ROLE, Cut, DocumentDue, Kept, Staged, StoredChunk
from memory.envelope import Binding, key_id_of, unseal
from memory.errors import QueueUnavailable
from memory.ids import derived_id
from memory.keys import KeyRing
from memory.model import NewMemory
from memory.parse.blocks import Block, goes_on
from memory.ports import Embedder, LanguageDetector
from memory.stored import Digests
from memory.telemetry import Metrics, event
from memory.write.embedding import embedded, ending
from memory.write.parts import Redacts
from memory.write.personal import Keeps, SubjectTokens
from memory.write.seams import Announcer
from memory.write.tombstones import digests_of, memory_marks
from memory.write.windows import TextTokenizer
from policies.chunking import Chunk, chunked
from policies.injection.judge import judge, rules_of
from policies.labels import Integrity, Sensitivity
from policies.lifetime import DaysOf
from policies.redaction import Redacted

log = logging.getLogger("memory_proxy.documents")
EXTRACTOR_VERSION: Final = "document-1"
EMBEDDED_AT_ONCE: Final = 16
"""Chunks: .3 s of one core, after which progress may be told and another's turn is embedded."""
NOTE_EACH_S: Final = 1.0


class StoresDocuments(Protocol):
    """Where uploads wait and documents lie. Every method may raise StoreUnavailable."""

    async def staged(self, due: DocumentDue) -> Staged | None:
        """What waits there; None where it is gone."""

    async def known(self, due: DocumentDue, memory_ids: Sequence[UUID]) -> frozenset[UUID]:
        """Those of these chunks that the store has."""

    async def note(self, due: DocumentDue, chunks: int, embedded: int) -> None:
        """Say how far it is."""

    async def finish(self, due: DocumentDue, staged: Staged, cut: Cut, now: datetime, digests: Digests) -> Kept | None:
        """Store it; None where another has, or it is gone."""


@dataclass(frozen=True, slots=True)
class DocumentParts:
    """What storing documents needs. `keeping`: where personal data is put behind tokens."""

    store: StoresDocuments
    keys: KeyRing
    embedder: Embedder
    windows: TextTokenizer
    redactor: Redacts
    keeping: Callable[[Keeps], Redacts] | None
    cleaned_by: str
    languages: LanguageDetector
    announcer: Announcer
    metrics: Metrics
    clock: Callable[[], datetime]
    lives: DaysOf = field(default_factory=dict)


class Documents:
    """Stores uploads."""

    def __init__(self, parts: DocumentParts) -> None:
        self._parts = parts

    async def store(self, due: DocumentDue) -> Kept | None:
        """Bring one upload to its end; None where it is gone, or another has done it."""
        parts, began_s = self._parts, time.monotonic()
        staged = await parts.store.staged(due)
        if staged is None:
            return None
        title, blocks = await self._opened(due, staged)
        cut = await self._cut(staged, title, blocks)
        cut = await self._embedded(due, cut)
        kept = await parts.store.finish(due, staged, cut, parts.clock(), await self._digests(staged, cut))
        if kept is None:
            return None
        parts.metrics.document_seconds.observe(time.monotonic() - began_s)
        self._count(cut, kept)
        await self._announce(due, kept)
        return kept

    async def _opened(self, due: DocumentDue, staged: Staged) -> tuple[str, tuple[Block, ...]]:
        key = await self._parts.keys.by_id(due.tenant, key_id_of(staged.sealed))
        binding = Binding(due.tenant, staged.subject_id, due.upload_id, "document")
        return await asyncio.to_thread(lambda: document_payload.unpacked(unseal(key, binding, staged.sealed)))

    async def _cut(self, staged: Staged, title: str, blocks: Sequence[Block]) -> Cut:
        parts, tenant = self._parts, staged.scope.tenant
        tokens: SubjectTokens | None = None
        redactor: Redacts = parts.redactor
        if parts.keeping is not None:
            key = await parts.keys.subject_key(tenant, staged.scope.user)
            tokens = SubjectTokens(key, tenant, staged.subject_id)
            redactor = parts.keeping(tokens)
        content_key = await parts.keys.content_key(tenant)
        chunks = await asyncio.to_thread(self._chunks, staged, title, blocks, redactor, content_key)
        return Cut(chunks, parts.cleaned_by, tuple(tokens.kept.values()) if tokens else ())

    def _chunks(
        self, staged: Staged, title: str, blocks: Sequence[Block], redactor: Redacts, content_key: bytes
    ) -> tuple[StoredChunk, ...]:
        """Work for a processor: some seconds for 5 MB, so off the event loop, which renews leases."""
        said = redactor.redact(title).text if title else ""
        cut, before = chunked(cleaned_blocks(blocks, redactor)), _before(staged)
        alike: Counter[str] = Counter()
        found = []
        for order, chunk in enumerate(cut):
            content = chunk.content
            key = chunk_key(content_key, staged, content, alike[content])
            was = _chunk_id(before, chunk_key(content_key, before, content, alike[content])) if before else None
            alike[content] += 1
            memory = self._memory(staged, chunk, content, key, said)
            place = (chunk.start, chunk.end, chunk.page, chunk.page_to)
            found.append(StoredChunk(replace(memory, order=order), *place, was))
        return tuple(found)

    def _memory(self, staged: Staged, chunk: Chunk, content: str, key: bytes, title: str) -> NewMemory:
        verdict = judge(content, "foreign")
        attributes: dict[str, Any] = {"document": str(staged.document_id), "name": staged.name}
        attributes |= {"title": title} if title else {}
        attributes |= {"heading": list(chunk.section)} if chunk.section else {}
        attributes |= {"saved": "session"} if staged.session_id else {}
        return NewMemory(
            memory_id=_chunk_id(staged, key),
            kind="document",
            content=content,
            content_key=key,
            role=ROLE,
            integrity=Integrity(staged.facts.integrity),
            sensitivity=Sensitivity(staged.facts.sensitivity),
            origin=ORIGIN,
            importance=0.5,
            confidence=1.0,
            occurred_at=staged.created_at if staged.facts.integrity == Integrity.WEB.value else None,
            extractor_version=EXTRACTOR_VERSION,
            source_turns=(),
            attributes=attributes,
            language=self._parts.languages.detect(chunk.text),
            quarantine=verdict.reason if verdict.quarantined else "",
        )

    async def _embedded(self, due: DocumentDue, cut: Cut) -> Cut:
        """The chunks as they are born: those that the store does not have with vectors, equal words embedded once."""
        parts, count = self._parts, len(cut.chunks)
        known = await parts.store.known(due, [one.memory.memory_id for one in cut.chunks])
        new = {one.memory.content: one.memory for one in cut.chunks if one.memory.memory_id not in known}
        await parts.store.note(due, count, count - len(new))
        done: dict[str, NewMemory] = {}
        waiting, noted_s = list(new.values()), time.monotonic()
        for at in range(0, len(waiting), EMBEDDED_AT_ONCE):
            for memory in await embedded(waiting[at : at + EMBEDDED_AT_ONCE], parts.embedder, parts.windows):
                done[memory.content] = memory
            if time.monotonic() - noted_s >= NOTE_EACH_S:
                await parts.store.note(due, count, count - len(new) + len(done))
                noted_s = time.monotonic()
        now = parts.clock()
        chunks = []
        for one in cut.chunks:
            born = one.memory
            if born.memory_id not in known:
                twin = done[born.content]
                born = replace(born, windows=twin.windows, vectors=twin.vectors)
            chunks.append(replace(one, memory=ending([born], now, parts.lives)[0]))
        return replace(cut, chunks=tuple(chunks))

    async def _digests(self, staged: Staged, cut: Cut) -> Digests:
        """What the tombstones are asked for: whose it is, and each chunk, which may have been forgotten by itself, also
        under the labels of until now.
        """
        content_key = await self._parts.keys.content_key(staged.scope.tenant)
        names = digests_of(content_key, staged.scope, [staged.session] if staged.session is not None else (), ())
        ids = {one.memory.memory_id: (one.memory.memory_id, *filter(None, (one.was,))) for one in cut.chunks}
        return Digests(names.scope, {one: tuple(memory_marks(content_key, of)) for one, of in ids.items()})

    def _count(self, cut: Cut, kept: Kept) -> None:
        metrics = self._parts.metrics
        metrics.documents.labels("stored").inc()
        metrics.memories.labels("document").inc(kept.new)
        for one in cut.chunks:
            if one.memory.vectors is not None:
                for rule in rules_of(one.memory.quarantine):
                    metrics.quarantined.labels(rule).inc()

    async def _announce(self, due: DocumentDue, kept: Kept) -> None:
        """Tell readers; one that is not told confirms with the store within `scope_staleness_max_ms`."""
        try:
            await self._parts.announcer.announce(due.tenant, due.scope_id, kept.scope_version)
        except QueueUnavailable as fault:
            event(log, "not_announced", logging.WARNING, fault=str(fault))


def _before(staged: Staged) -> Staged | None:
    """The upload under the labels that its document has had until now; None where they are its own."""
    facts = staged.facts
    if staged.labels is None or staged.labels == (facts.integrity, facts.sensitivity):
        return None
    integrity, sensitivity = staged.labels
    return replace(staged, facts=replace(facts, integrity=integrity, sensitivity=sensitivity))


def _chunk_id(staged: Staged, key: bytes) -> UUID:
    return derived_id(staged.document_id, "chunk", key.hex())


def chunk_key(content_key: bytes, staged: Staged, content: str, occurrence: int) -> bytes:
    """What a chunk is known by: its document, labels and words, and which of several that are alike it is."""
    facts = staged.facts
    labels = f"{facts.integrity}\x00{facts.sensitivity}\x00{occurrence}\x00".encode()
    words = content.encode("utf-8", "surrogatepass")
    return hmac.digest(content_key, b"chunk\x00" + staged.document_id.bytes + labels + words, "sha256")


def cleaned_blocks(blocks: Sequence[Block], redactor: Redacts) -> list[Block]:
    """The blocks without what redaction cuts, looked for in all of the text at once; those left empty are gone.

    A block that was cut into keeps its place, and what is taken from it points at the whole of it.
    """
    gaps = [*("" if goes_on(one, other) else "\n\n" for one, other in pairwise(blocks)), ""]
    said_of_all = "".join(block.text + gap for block, gap in zip(blocks, gaps, strict=False))
    redacted: Redacted = redactor.redact(said_of_all)
    if not redacted.findings:
        return list(blocks)
    found: list[Block] = []
    at, number, marked = 0, 0, -1
    for block, gap in zip(blocks, gaps, strict=False):
        end, text, last = at + len(block.text), [], at
        while number < len(redacted.findings) and redacted.findings[number].start < end:
            one = redacted.findings[number]
            if one.end > last:
                text.append(block.text[last - at : max(one.start - at, last - at)])
                text += [one.replacement] if marked != number else []  # once, where it is first seen
                marked = number
                last = min(one.end, end)
            if one.end > end:  # goes on in the next block
                break
            number += 1
        said = "".join(text) + block.text[last - at :]
        if said.strip():
            found.append(replace(block, text=said))
        at = end + len(gap)
    return found
