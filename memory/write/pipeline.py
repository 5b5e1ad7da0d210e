"""The write path: a delivered envelope in, stored turns, memories, vectors and records out.

`WritePath.write_exchange` reads downwards: take, redact, embed, store, announce, summarise. Everything an exchange
leaves behind goes into one transaction, checked against the lane's fence. Raises StoreUnavailable and
EmbedderUnavailable (come again), EnvelopeUnreadable (never will), LeaseLost (not ours any more).
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final, Protocol
from uuid import UUID

from memory import payload
from memory.chain import Digest, extend, is_chained
from memory.envelope import Binding, key_id_of, seal, unseal
from memory.errors import QueueUnavailable
from memory.ids import derived_id
from memory.keys import KeyRing
from memory.model import (
    Captured,
    Commit,
    Committed,
    Entry,
    ImportChunk,
    ImportLine,
    LedgerNode,
    LineConflict,
    NewFact,
    NewMemory,
    NewProcedure,
    Scope,
    SealedRetrieval,
    SealedToken,
    SessionRef,
    Spoken,
    StoredExchange,
    Turn,
)
from memory.ports import Delivery, Embedder, LanguageDetector, TokenCounter
from memory.read.conversation import CUT, session_ref
from memory.read.entries import packed
from memory.seldom import Seldom
from memory.stored import Digests, ImportItem, KnownLines, SessionTail
from memory.telemetry import Metrics, event
from memory.write.embedding import embedded, ending
from memory.write.facts import FindsFacts
from memory.write.facts import spoken as spoken_of
from memory.write.homing import Homes, at_home
from memory.write.parts import Redacts, said_in
from memory.write.personal import Keeps, SubjectTokens
from memory.write.procedures import embedded_procedures, no_procedures
from memory.write.quarantine import free, held_back
from memory.write.redact_across import REACH_MESSAGES, Borders
from memory.write.summarise import Summariser
from memory.write.tombstones import digests_of, given_of
from memory.write.turns import (
    Message,
    as_sensitive_as_given,
    instructions_of,
    messages_of,
    turn_of,
    turn_of_line,
)
from memory.write.windows import TextTokenizer
from policies.brought import instructs_errand, is_errand, is_output, is_state
from policies.fact_talk import CHARS_MAX as TALK_CHARS_MAX
from policies.hygiene import is_junk, repeats
from policies.injection.judge import rules_of
from policies.labels import Integrity, derived_integrity, is_sealed
from policies.lifetime import DaysOf

log = logging.getLogger("memory_proxy.write")
EXTRACTOR_VERSION: Final = "episodic-1"
TALK_MESSAGES: Final = 40
"""So many of the messages before its new ones are read again for what these mean by them."""
Placed = tuple[ImportLine, SessionRef]
# A turn of the live path that is a tool's output or empty is kept as a turn and makes no memory of its own.
_REMEMBERED_ROLES: Final = frozenset({"user", "assistant"})


class ExchangeStore(Homes, Protocol):
    """Where exchanges are written."""

    async def chains_elsewhere(self, scope: Scope, session_id: UUID, chains: Sequence[Digest]) -> Set[bytes]:
        """Which of these positions another session of this very scope has. Raises StoreUnavailable."""

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
    outside: Callable[[Captured, Sequence[Turn]], None] | None = None  # hears what is stored and free; never waits


class WritePath:
    """Stores what was captured."""

    def __init__(self, parts: WriteParts) -> None:
        self._parts = parts
        self._said = Seldom()

    @property
    def parts(self) -> WriteParts:
        """What it is made of, for work beside the lanes."""
        return self._parts

    async def write(self, delivery: Delivery, fence: int) -> None:
        """Store one entry of the queue."""
        if delivery.entry.kind == "import":
            await self.write_import(delivery, fence)
        else:
            await self.write_exchange(delivery, fence)

    async def write_exchange(self, delivery: Delivery, fence: int) -> None:
        """One live exchange, from its envelope to its memories."""
        with self._parts.metrics.write_seconds.labels("open").time():
            captured = payload.unpack_captured(await self._opened(delivery))
            chain_key = await self._parts.keys.chain_key(captured.scope.tenant)
            captured = await at_home(self._parts.store, captured, chain_key)
        tokens = await self._tokens(captured.scope)
        fresh, earlier = await self._fresh_turns(captured, tokens)
        turns = as_sensitive_as_given(fresh, captured.retrieval)
        held = await self._held_back(turns)
        told = await self._told_before(captured, turns)
        said = await asyncio.to_thread(_worth_keeping, turns, held, captured)
        said = [turn for turn in said if turn.chain not in told]
        memories = await self._embedded(self._episodes(said, delivery.entry, held, live=True))
        teaching = [turn for turn in free(turns, held) if turn.chain not in told]
        facts = () if self._parts.facts_later else await self._facts(teaching, [*earlier, *map(spoken_of, turns)])
        commit = Commit(
            scope=captured.scope,
            session=captured.session,
            exchange=await self._exchange_row(captured, delivery),
            turns=turns,
            memories=memories,
            facts=facts,
            nodes=await self._ledger_nodes(captured, turns),
            retrieval=await self._sealed_retrieval(captured),
            lane=delivery.lane,
            fence=fence,
            facts_due=self._parts.facts_later,
            procedures=await self._procedures(teaching),
            cleaned_by=self._parts.cleaned_by,
            tokens=tuple(tokens.kept.values()) if tokens else (),
        )
        digests = await self._digests(captured, turns)
        with self._parts.metrics.write_seconds.labels("store").time():
            done = await self._parts.store.commit(commit, now=self._parts.clock(), digests=digests)
        lag = self._parts.clock() - captured.finished_at
        self._parts.metrics.searchable_seconds.observe(max(lag.total_seconds(), 0.0))
        self._count(turns, memories, done)
        await self._announce(captured.scope, done)
        if self._parts.working is not None and done.new_turns:
            with self._parts.metrics.write_seconds.labels("follow").time():
                await self._parts.working.follow(captured.scope, captured.session.session_id)
        with self._parts.metrics.write_seconds.labels("summarise").time():
            await self._summarise(captured.scope, captured.session, delivery, fence)
        if self._parts.outside is not None and done.new_turns:
            self._parts.outside(captured, teaching)

    async def write_import(self, delivery: Delivery, fence: int) -> None:
        """Some lines of an import."""
        chunk = payload.unpack_import(await self._opened(delivery))
        fresh = await self._fresh_lines(chunk)
        tokens = await self._tokens(chunk.scope)
        turns = await self._chained(chunk, fresh, tokens)
        # Lines of one day, or of no time at all, still came in an order, and the later of two statements holds.
        held = await self._held_back([turn for _, turn in turns])
        worth = [turn for turn in _without_errands([turn for _, turn in turns]) if not is_junk(turn.content)]
        episodes = self._episodes(worth, delivery.entry, held, live=False)
        memories = await self._embedded([replace(memory, order=order) for order, memory in enumerate(episodes)])
        of_turn = {memory.source_turns[0]: memory for memory in memories}
        teaching = free([turn for _, turn in turns], held)
        facts = await self._facts(teaching, [spoken_of(turn) for _, turn in turns])
        procedures = await self._procedures(teaching)
        items = [
            ImportItem(
                line.line,
                ref,
                turn,
                (of_turn[turn.event_id],) if turn.event_id in of_turn else (),
                tuple(fact for fact in facts if fact.event_id == turn.event_id),
                tuple(one for one in procedures if one.event_id == turn.event_id),
            )
            for (line, ref), turn in turns
        ]
        done, failed = await self._parts.lines.commit_import(
            chunk,
            items,
            subject_id=delivery.entry.subject_id,
            lane=delivery.lane,
            fence=fence,
            now=self._parts.clock(),
            digests=await self._line_digests(chunk.scope, items),
            cleaned_by=self._parts.cleaned_by,
            tokens=tuple(tokens.kept.values()) if tokens else (),
        )
        not_stored = {one.line for one in failed}
        kept = [item for item in items if item.line not in not_stored]
        self._count([item.turn for item in kept], [one for item in kept for one in item.memories], done)
        await self._announce(chunk.scope, done)

    async def _fresh_lines(self, chunk: ImportChunk) -> list[tuple[ImportLine, bool]]:
        """The lines that the store does not have exactly so, which must be embedded; and whether each is new."""
        sources = [line.source_id for line in chunk.lines if line.source_id is not None]
        known = await self._parts.lines.known_lines(chunk.scope, sources, [line.line_digest for line in chunk.lines])
        found = [(line, known.find(line.source_id, line.line_digest)) for line in chunk.lines]
        return [
            (line, stored is None) for line, stored in found if stored is None or stored.line_digest != line.line_digest
        ]

    async def _chained(
        self, chunk: ImportChunk, lines: Sequence[tuple[ImportLine, bool]], tokens: SubjectTokens | None
    ) -> list[tuple[Placed, Turn]]:
        """The turns of these lines, each new one chained behind the one before it in its session."""
        chain_key = await self._parts.keys.chain_key(chunk.scope.tenant)
        tails: dict[str, Digest | None] = {}
        turns: list[tuple[Placed, Turn]] = []
        redactors: dict[str, Redacts] = {}
        for line, is_new in lines:
            label = line.session_label
            ref = session_ref(chain_key, chunk.scope, label)
            if label not in tails:
                tail = await self._parts.lines.session_tail(chunk.scope, ref, REACH_MESSAGES)
                runs = _side_by_side(chunk, [one for one, _ in lines], label, tail.texts)
                redactors[label] = await asyncio.to_thread(self._redactor, runs, tokens)
                tails[label] = tail.tip_chain
            parent, digest = _place_of(line, chain_key, tails[label])
            if is_new and is_chained({"role": line.role}):
                tails[label] = digest
            parts = self._parts
            turn = await asyncio.to_thread(
                turn_of_line,
                line,
                chunk,
                digest,
                parent,
                redactor=redactors[label],
                counter=parts.counter,
                languages=parts.languages,
            )
            turns.append(((line, ref), turn))
        return turns

    async def _digests(self, captured: Captured, turns: Sequence[Turn]) -> Digests:
        content_key = await self._parts.keys.content_key(captured.scope.tenant)
        found = digests_of(content_key, captured.scope, [captured.session.label], turns)
        return replace(found, given=given_of(content_key, captured.retrieval, captured.digests, turns))

    async def _line_digests(self, scope: Scope, items: Sequence[ImportItem]) -> Digests:
        content_key = await self._parts.keys.content_key(scope.tenant)
        label_of = {item.turn.event_id: item.session.label for item in items}
        return digests_of(content_key, scope, (), [item.turn for item in items], label_of)

    async def _announce(self, scope: Scope, done: Committed) -> None:
        """Tell readers; one that is not told confirms with the store within `scope_staleness_max_ms`."""
        try:
            with self._parts.metrics.write_seconds.labels("announce").time():
                await self._parts.announcer.announce(scope.tenant, done.scope_id, done.scope_version)
        except QueueUnavailable as fault:
            if self._said.due(str(fault)):
                event(log, "not_announced", logging.WARNING, fault=str(fault))

    async def _summarise(self, scope: Scope, session: SessionRef, delivery: Delivery, fence: int) -> None:
        """Bring the session's rolling summary up to date when enough was said since the last."""
        due = await self._parts.summariser.due(scope, session)
        if due is None:
            return
        language = self._parts.languages.detect(due.memory.content)
        (memory,) = await self._embedded([replace(due.memory, language=language)])
        await self._parts.summariser.keep(
            scope, session, replace(due, memory=memory), delivery.entry.subject_id, delivery.lane, fence
        )

    async def _opened(self, delivery: Delivery) -> bytes:
        entry = delivery.entry
        key = await self._parts.keys.by_id(entry.tenant_id, key_id_of(entry.envelope))
        purpose: Any = entry.kind
        return unseal(key, Binding(entry.tenant_id, entry.subject_id, entry.exchange_id, purpose), entry.envelope)

    async def _tokens(self, scope: Scope) -> SubjectTokens | None:
        """What keeps personal data of the scope's user; None where none is put behind tokens."""
        keys = self._parts.keys
        if self._parts.keeping is None:
            return None
        key = await keys.subject_key(scope.tenant, scope.user)
        return SubjectTokens(key, scope.tenant, await keys.subject_id(scope.tenant, scope.user))

    def _redactor(self, runs: Iterable[Sequence[str]], tokens: SubjectTokens | None) -> Redacts:
        """What cleans the texts of these runs, in each of which they follow each other."""
        parts = self._parts
        redactor = parts.keeping(tokens) if parts.keeping and tokens else parts.redactor
        if parts.borders is not None:
            for texts in runs:
                redactor = parts.borders.beside(redactor, texts)
        return redactor

    async def _fresh_turns(
        self, captured: Captured, tokens: SubjectTokens | None
    ) -> tuple[tuple[Turn, ...], list[Spoken]]:
        """The turns this exchange adds, clean, and what was said last before them. A history that the client sent again
        adds nothing.
        """
        chain_key = await self._parts.keys.chain_key(captured.scope.tenant)
        messages = messages_of(captured, chain_key)
        chains = [message.chain for message in messages]
        known = await self._parts.store.known_chains(captured.scope, captured.session.session_id, chains)
        fresh = [message for message in messages if message.chain not in known]
        first = next((at for at, message in enumerate(messages) if message.chain not in known), 0)
        around = messages[max(0, first - REACH_MESSAGES) :]  # half a secret may stand in what was said before
        before = [message for message in messages[max(0, first - TALK_MESSAGES) : first] if message.chain in known]
        with self._parts.metrics.write_seconds.labels("redact").time():
            turns = await asyncio.to_thread(self._clean, fresh, around, captured, tokens)
            return turns, await asyncio.to_thread(self._earlier, before if turns else [], known, tokens)

    def _clean(
        self,
        messages: Sequence[Message],
        around: Sequence[Message],
        captured: Captured,
        tokens: SubjectTokens | None,
    ) -> tuple[Turn, ...]:
        """Redaction is work for a processor (1 s for 5 MB): off the event loop, which renews leases."""
        parts = self._parts
        redactor = self._redactor([[said_in(message.value) for message in around]], tokens)
        return tuple(
            turn_of(
                message,
                captured.exchange_id,
                model=captured.model,
                redactor=redactor,
                counter=parts.counter,
                languages=parts.languages,
            )
            for message in messages
        )

    def _earlier(
        self, messages: Sequence[Message], known: Mapping[Digest, UUID], tokens: SubjectTokens | None
    ) -> list[Spoken]:
        """What was said before, for what the next turns mean by it. Long messages bear on nothing."""
        redactor, said = self._redactor([], tokens), []
        for message in messages:
            text = said_in(message.value)
            is_short = message.value.get("role") == "user" and len(text) <= TALK_CHARS_MAX
            content = redactor.redact(text).text if is_short else text[-TALK_CHARS_MAX - 1 :]
            role, name = message.value.get("role"), message.value.get("name")
            said.append(
                Spoken(
                    known[message.chain],
                    message.chain,
                    message.parent,
                    role if isinstance(role, str) else "",
                    redactor.redact(name).text if isinstance(name, str) else None,
                    content,
                )
            )
        return said

    async def _told_before(self, captured: Captured, turns: Sequence[Turn]) -> Set[bytes]:
        """The positions of a history that its client brought along where another conversation has the same: examples
        for the model, which thousands of requests begin with. They stay in each, and are remembered of the first.
        """
        brought = _brought_along(captured, turns)
        if not brought:
            return frozenset()
        return await self._parts.store.chains_elsewhere(captured.scope, captured.session.session_id, brought)

    async def _held_back(self, turns: Sequence[Turn]) -> dict[UUID, str]:
        """Why which turns wait for a person. Work for a processor (.7 us a character), so off the event loop."""
        with self._parts.metrics.write_seconds.labels("hold_back").time():
            return await asyncio.to_thread(self._parts.hold_back, turns)

    def _episodes(self, turns: Sequence[Turn], entry: Any, held: Mapping[UUID, str], *, live: bool) -> list[NewMemory]:
        """One episodic memory for each turn worth one, in its own words; of what is held back for each that has any."""
        return [
            NewMemory(
                memory_id=derived_id(turn.event_id, "episodic"),
                kind="episodic",
                content=spoken(turn),
                content_key=content_key(entry.tenant_id, turn.event_id),
                role=said.role,
                integrity=said.integrity,
                sensitivity=turn.sensitivity,
                origin=turn.origin,
                importance=0.5,
                confidence=1.0,
                occurred_at=turn.occurred_at,
                extractor_version=EXTRACTOR_VERSION,
                source_turns=(turn.event_id,),
                language=turn.language,
                tool_name=turn.name if turn.role == "tool" else None,
                quarantine=held.get(turn.event_id, ""),
            )
            for turn, said in zip(turns, map(as_said, turns), strict=True)
            if turn.content.strip()
            and (not live or turn.event_id in held or (turn.role in _REMEMBERED_ROLES and not is_junk(turn.content)))
        ]

    async def _facts(self, turns: Sequence[Turn], talk: Sequence[Spoken]) -> tuple[NewFact, ...]:
        """What the turns state in their conversation, with vectors."""
        with self._parts.metrics.write_seconds.labels("extract").time():
            found = await asyncio.to_thread(self._parts.find_facts, _not_sealed(turns), talk)
        memories = await self._embedded([fact.memory for fact in found])
        return tuple(replace(fact, memory=memory) for fact, memory in zip(found, memories, strict=True))

    async def _procedures(self, turns: Sequence[Turn]) -> tuple[NewProcedure, ...]:
        """What the turns teach, with vectors. By rules, whoever takes the facts out."""
        with self._parts.metrics.write_seconds.labels("extract").time():
            found = await asyncio.to_thread(self._parts.find_procedures, _not_sealed(turns))
        made = await embedded_procedures([one.memory for one in found], self._parts.embedder, self._parts.windows)
        lasting = ending(made, self._parts.clock(), self._parts.lives)
        return tuple(replace(one, memory=memory) for one, memory in zip(found, lasting, strict=True))

    async def _embedded(self, memories: Sequence[NewMemory]) -> tuple[NewMemory, ...]:
        """The memories as they are born: with windows and vectors, embedded in one batch, and with their end."""
        if not memories:
            return ()
        with self._parts.metrics.write_seconds.labels("embed").time():
            made = await embedded(memories, self._parts.embedder, self._parts.windows)
        return ending(made, self._parts.clock(), self._parts.lives)

    async def _exchange_row(self, captured: Captured, delivery: Delivery) -> StoredExchange:
        choices = captured.answer.get("choices", [])
        return StoredExchange(
            exchange_id=captured.exchange_id,
            subject_id=delivery.entry.subject_id,
            origin="live",
            status=captured.status,
            reason=captured.reason,
            http_status=captured.http_status,
            model=captured.model,
            finish_reasons=tuple(c["finish_reason"] or "" for c in choices),
            usage=captured.answer.get("usage"),
            arrived_at=captured.arrived_at,
            finished_at=captured.finished_at,
            sealed=await self._under_subject_key(captured, delivery) if captured.request else None,
        )

    async def _under_subject_key(self, captured: Captured, delivery: Delivery) -> bytes:
        """The envelope as it came, or sealed again where the proxy had only the tenant's key at hand."""
        entry = delivery.entry
        key = await self._parts.keys.subject_key(captured.scope.tenant, captured.scope.user)
        if key_id_of(entry.envelope) == key.key_id:
            return entry.envelope
        binding = Binding(entry.tenant_id, entry.subject_id, entry.exchange_id, "exchange")
        return seal(key, binding, await self._opened(delivery))

    async def _sealed_retrieval(self, captured: Captured) -> SealedRetrieval | None:
        record = captured.retrieval
        if record is None:
            return None
        placed = [{"position": p.position, "text": p.text} for p in record.placed]
        texts = {"query": record.query, "placed": placed, "left_out": record.left_out}
        sealed = await self._sealed(captured, record.retrieval_id, "retrieval", json.dumps(texts).encode())
        return SealedRetrieval(record, captured.model, sealed)

    async def _ledger_nodes(self, captured: Captured, turns: Sequence[Turn]) -> tuple[LedgerNode, ...]:
        """A node for each new chain position, with what was placed at it, be it by an earlier request, which was not
        answered; in mode `read` for the block alone. Of what was asked as of another moment without it.
        """
        record = captured.retrieval if captured.retrieval and not captured.retrieval.apart else None
        tokens = {turn.chain: turn.token_count for turn in turns}
        reads = captured.mode == "read"
        placed = record.placed if record else ()
        blocks = {one.chain: one for one in placed if reads or not one.kept or one.chain in tokens}
        position = {digest: index for index, digest in enumerate(captured.digests) if digest is not None}
        nodes = []
        for chain in dict.fromkeys((*tokens, *blocks)):
            block = blocks.get(chain)
            at = block.position if block else len(captured.digests)
            nodes.append(
                LedgerNode(
                    chain=chain,
                    position=position.get(chain, at),
                    token_count=tokens.get(chain),
                    placed_sealed=await self._sealed_entry(captured, block.entry, record.retrieval_id)
                    if record and block
                    else None,
                    placed_sha256=hashlib.sha256(block.text.encode()).digest() if block else None,
                    placed_tokens=block.tokens if block else None,
                    retrieval_id=record.retrieval_id if record and block else None,
                    anew=block.anew if block else False,
                )
            )
        if record and (cut := record.cut) is not None:
            found = record.retrieval_id
            nodes.append(LedgerNode(CUT, -1, None, cut, hashlib.sha256(cut).digest(), 0, found, anew=True))
        return tuple(nodes)

    async def _sealed_entry(self, captured: Captured, entry: Entry, first: UUID) -> bytes:
        """An entry as the ledger reads it: bound to its conversation, and of the `first` record that there is of it."""
        plain = packed(replace(entry, retrieval_id=first))
        return await self._sealed(captured, captured.session.session_id, "ledger", plain)

    async def _sealed(self, captured: Captured, object_id: UUID, purpose: Any, plaintext: bytes) -> bytes:
        scope = captured.scope
        subject = await self._parts.keys.subject_id(scope.tenant, scope.user)
        key = await self._parts.keys.subject_key(scope.tenant, scope.user)
        return seal(key, Binding(scope.tenant, subject, object_id, purpose), plaintext)

    def _count(self, turns: Sequence[Turn], memories: Sequence[NewMemory], done: Committed) -> None:
        metrics = self._parts.metrics
        if done.erased and not done.new_turns:
            return  # all of it was forgotten: nothing is stored
        metrics.turns.inc(done.new_turns)
        metrics.redactions.inc(sum(turn.redactions for turn in turns))
        for memory in memories:
            metrics.memories.labels(memory.kind).inc()
            for rule in rules_of(memory.quarantine):
                metrics.quarantined.labels(rule).inc()
        metrics.memories.labels("semantic").inc(done.facts_new)
        metrics.memories.labels("procedural").inc(done.procedures_new)
        metrics.facts_dropped.inc(done.facts_dropped)
        metrics.over_budget.inc(done.over_budget)


def _side_by_side(chunk: ImportChunk, fresh: Sequence[ImportLine], label: str, last: Sequence[str]) -> list[list[str]]:
    """What stands beside what in a session: as it will be stored, behind its last turns, and as it was sent, where that
    is something else, since lines stand between that are known already.
    """
    stored = [*last, *(_said_in(line) for line in fresh if line.session_label == label)]
    sent = [_said_in(line) for line in chunk.lines if line.session_label == label]
    return [stored] if stored[len(last) :] == sent else [stored, sent]


def _place_of(line: ImportLine, chain_key: bytes, tail: Digest | None) -> tuple[Digest | None, Digest]:
    """What a line stands behind, and its own place in the chain: that of the message, when a client sends it again.
    Instructions, which have none, stand beside it.
    """
    message = {
        "role": line.role,
        "content": line.content,
        "tool_calls": line.tool_calls,
        "tool_call_id": line.tool_call_id,
    }
    if is_chained(message):
        return tail, extend(chain_key, tail, message)
    beside = extend(chain_key, tail, {"role": line.role, "content": line.line_digest.hex()})
    return beside, extend(chain_key, beside, message)


def _said_in(line: ImportLine) -> str:
    return said_in({"role": line.role, "content": line.content})


def _worth_keeping(turns: Sequence[Turn], held: Mapping[UUID, str], captured: Captured) -> list[Turn]:
    """The turns that memories may be made of: no answer that only quotes what was placed, none that was broken off, no
    errand of a front-end and its answer; and whatever is held back. A long history has many of all: work for a
    processor.
    """
    placed = [one.text for one in captured.retrieval.placed] if captured.retrieval else []
    said = _without_errands(turns)
    said = [turn for turn in said if turn.role != "assistant" or not repeats(turn.content, placed)]
    if captured.status != "complete" or any(map(instructs_errand, instructions_of(captured))):
        said = _without_answers(said, captured)
    known = {turn.event_id for turn in said}
    return said + [turn for turn in turns if turn.event_id in held and turn.event_id not in known]


def _brought_along(captured: Captured, turns: Sequence[Turn]) -> list[Digest]:
    """The positions of these turns that are history: up to the last answer that the request had already."""
    asked = set(captured.digests)
    history = [turn for turn in turns if turn.chain in asked]
    while history and history[-1].role != "assistant":
        history.pop()
    return [turn.chain for turn in history]


def _without_errands(turns: Sequence[Turn]) -> list[Turn]:
    """Without what a front-end asks for itself, and its answers; and what a program says of its own state with every
    message: they stay in their conversation.
    """
    errands = {turn.chain for turn in turns if turn.role == "user" and is_errand(turn.content)}
    said = [turn for turn in turns if errands.isdisjoint((turn.chain, turn.parent_chain))]
    return [turn for turn in said if turn.role != "user" or not is_state(turn.content)]


def _without_answers(turns: Sequence[Turn], captured: Captured) -> list[Turn]:
    """Without what the model said now: an answer whose end was never said, or to an errand. It stays in its
    conversation; half a sentence is recalled by nobody, least of all by whoever asks the same again. What a user said
    stays: many errands are given the question itself, which its own request says again.
    """
    asked = set(captured.digests)
    return [turn for turn in turns if turn.chain in asked]


def as_said(turn: Turn) -> Turn:
    """A turn by who it is of: a tool's output that a client sent as the user's message is the tool's."""
    if turn.role != "user" or not is_output(turn.content):
        return turn
    return replace(turn, role="tool", integrity=derived_integrity((turn.integrity, Integrity.TOOL)))


def spoken(turn: Turn) -> str:
    """A turn as memory quotes it: under the name of who spoke, where there is one."""
    return f"{turn.name}: {turn.content}" if turn.name else turn.content


def content_key(tenant: UUID, event_id: UUID) -> bytes:
    """The key of an episodic memory: one for each turn, so that equal words said twice stay two."""
    return hmac.digest(tenant.bytes, b"episodic" + event_id.bytes, "sha256")


def _not_sealed(turns: Sequence[Turn]) -> list[Turn]:
    """Turns that facts and procedures may be taken out of: what these state lies open, so nothing sealed states any."""
    return [turn for turn in turns if not is_sealed(turn.sensitivity)]
