"""The write path: a delivered envelope in, stored turns, memories, vectors and records out.

`WritePath.write_exchange` reads downwards: take, redact, embed, store, announce, summarise. Everything an exchange
leaves behind goes into one transaction, checked against the lane's fence. Raises StoreUnavailable and
EmbedderUnavailable (come again), EnvelopeUnreadable (never will), LeaseLost (not ours any more).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import replace
from typing import Final
from uuid import UUID

from memory import payload
from memory.chain import Digest, is_chained
from memory.errors import QueueUnavailable
from memory.model import (
    Base,
    Captured,
    Commit,
    Committed,
    ImportChunk,
    ImportLine,
    NewFact,
    NewMemory,
    NewProcedure,
    Scope,
    SessionRef,
    Spoken,
    Turn,
)
from memory.ports import Delivery
from memory.read.conversation import session_ref
from memory.seldom import Seldom
from memory.stored import Digests, ImportItem
from memory.telemetry import event
from memory.write.copied import Kept, chained, kept, recognised, unknown_history
from memory.write.embedding import embedded, ending
from memory.write.facts import spoken
from memory.write.homing import at_home
from memory.write.parts import Redacts, said_in
from memory.write.personal import SubjectTokens
from memory.write.procedures import embedded_procedures
from memory.write.quarantine import free
from memory.write.quoted import brought_along, episodic, without_errands, worth_keeping
from memory.write.records import BASE_BYTES_MIN, Records
from memory.write.redact_across import REACH_MESSAGES
from memory.write.seams import WriteParts
from memory.write.tombstones import digests_of, given_of
from memory.write.turns import (
    Message,
    as_copied,
    as_sensitive_as_given,
    body_of,
    messages_of,
    place_of_line,
    side_by_side,
    turn_of,
    turn_of_line,
)
from policies.fact_talk import CHARS_MAX as TALK_CHARS_MAX
from policies.hygiene import is_junk
from policies.injection.judge import rules_of
from policies.labels import is_sealed

log = logging.getLogger("memory_proxy.write")
TALK_MESSAGES: Final = 40
"""So many of the messages before its new ones are read again for what these mean by them."""
Placed = tuple[ImportLine, SessionRef, UUID | None]
"""A line, its session, and which session has what it stands behind, where that is stored."""
_Stored = tuple[Digest | None, UUID | None]
"""A place of the chain, and the session that has it in the store."""


class WritePath:
    """Stores what was captured."""

    def __init__(self, parts: WriteParts) -> None:
        self._parts = parts
        self._records = Records(parts.keys)
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
            captured = payload.unpack_captured(await self._records.opened(delivery))
            chain_key = await self._parts.keys.chain_key(captured.scope.tenant)
            body = body_of(captured)
            messages = messages_of(captured, body, chain_key)
            captured, known = await at_home(self._parts.store, captured, body, messages)
            captured, known, copied = await self._recognised(captured, messages, known, chain_key)
        tokens = await self._tokens(captured.scope)
        fresh, earlier = await self._fresh_turns(captured, messages, known, tokens)
        turns = as_sensitive_as_given(fresh, captured.retrieval)
        held = await self._held_back(turns)
        told = await self._told_before(captured, turns)
        said = await asyncio.to_thread(worth_keeping, turns, held, captured, body)
        said = [turn for turn in said if turn.chain not in told]
        memories = await self._embedded(episodic(said, delivery.entry.tenant_id, held, live=True))
        teaching = [turn for turn in free(turns, held) if turn.chain not in told]
        facts = () if self._parts.facts_later else await self._facts(teaching, [*earlier, *map(spoken, turns)])
        commit = Commit(
            scope=captured.scope,
            session=captured.session,
            exchange=await self._records.exchange(captured, delivery, await self._base(captured, delivery)),
            turns=turns,
            memories=memories,
            facts=facts,
            nodes=await self._records.ledger_nodes(captured, turns),
            retrieval=await self._records.retrieval(captured),
            lane=delivery.lane,
            fence=fence,
            facts_due=self._parts.facts_later,
            procedures=await self._procedures(teaching),
            cleaned_by=self._parts.cleaned_by,
            tokens=tuple(tokens.kept.values()) if tokens else (),
        )
        digests = await self._digests(captured, turns, {**as_copied(fresh, chain_key), **copied})
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

    async def _base(self, captured: Captured, delivery: Delivery) -> Base | None:
        """What the body may be kept as a difference from."""
        since = captured.arrived_at - self._parts.base_serves
        if len(delivery.entry.envelope) < BASE_BYTES_MIN or since == captured.arrived_at:
            return None
        session = captured.session.session_id
        return await self._parts.store.base(captured.scope, session, delivery.entry.subject_id, since, BASE_BYTES_MIN)

    async def write_import(self, delivery: Delivery, fence: int) -> None:
        """Some lines of an import."""
        chunk = payload.unpack_import(await self._records.opened(delivery))
        fresh = await self._fresh_lines(chunk)
        tokens = await self._tokens(chunk.scope)
        turns = await self._chained(chunk, fresh, tokens)
        # Lines of one day, or of no time at all, still came in an order, and the later of two statements holds.
        held = await self._held_back([turn for _, turn in turns])
        bare = {turn.event_id for (line, _, _), turn in turns if line.memory}
        worth = [
            turn
            for turn in without_errands([turn for _, turn in turns])
            if turn.event_id not in bare and not is_junk(turn.content)
        ]
        episodes = episodic(worth, delivery.entry.tenant_id, held, live=False)
        memories = await self._embedded([replace(memory, order=order) for order, memory in enumerate(episodes)])
        of_turn = {memory.source_turns[0]: memory for memory in memories}
        teaching = free([turn for _, turn in turns], held)
        facts = await self._facts(teaching, [spoken(turn) for _, turn in turns])
        procedures = await self._procedures(teaching)
        items = [
            ImportItem(
                line.line,
                ref,
                turn,
                (of_turn[turn.event_id],) if turn.event_id in of_turn else (),
                tuple(fact for fact in facts if fact.event_id == turn.event_id),
                tuple(one for one in procedures if one.event_id == turn.event_id),
                untold=line.memory == "hidden",
                behind=behind,
            )
            for (line, ref, behind), turn in turns
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
        stored = [item for item in items if item.line not in not_stored]
        self._count([item.turn for item in stored], [one for item in stored for one in item.memories], done)
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
        """The turns of these lines, each new one chained behind the one that it names, else the one before it in its
        session.
        """
        chain_key = await self._parts.keys.chain_key(chunk.scope.tenant)
        places: dict[str, _Stored] = {"": (None, None)}
        if named := list({line.parent for line, _ in lines if line.parent}):
            known = await self._parts.lines.known_lines(chunk.scope, named, [])
            places |= {source_id: (one.chain, one.session_id) for source_id, one in known.by_source.items()}
        tails: dict[str, _Stored] = {}
        turns: list[tuple[Placed, Turn]] = []
        redactors: dict[str, Redacts] = {}
        for line, is_new in lines:
            label = line.session_label
            ref = session_ref(chain_key, chunk.scope, label)
            if label not in tails:
                tail = await self._parts.lines.session_tail(chunk.scope, ref, REACH_MESSAGES)
                runs = side_by_side(chunk, [one for one, _ in lines], label, tail.texts)
                redactors[label] = await asyncio.to_thread(self._redactor, runs, tokens)
                tails[label] = tail.tip_chain, tail.session_id
            behind, of = tails[label] if line.parent is None else places.get(line.parent, tails[label])
            parent, digest = place_of_line(line, chain_key, behind)
            stands = parent is not None and parent == behind  # instructions stand beside it
            if is_new and is_chained({"role": line.role}):
                tails[label] = digest, None
                places |= {line.source_id: tails[label]} if line.source_id else {}
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
            turns.append(((line, ref, of if stands else None), turn))
        return turns

    async def _digests(self, captured: Captured, turns: Sequence[Turn], copied: Mapping[Digest, Digest]) -> Digests:
        content_key = await self._parts.keys.content_key(captured.scope.tenant)
        found = digests_of(content_key, captured.scope, [captured.session.label], turns, copied=copied)
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

    async def _recognised(
        self, captured: Captured, messages: Sequence[Message], known: Mapping[Digest, UUID], chain_key: bytes
    ) -> tuple[Captured, Mapping[Digest, UUID], Mapping[Digest, Digest]]:
        """The exchange, and which of its messages its session has, `known` as far as nobody looks for a copy: one that
        goes on in a copy is of that; and where those that nobody knows would stand there.
        """
        store, scope = self._parts.store, captured.scope
        sent = unknown_history(captured, messages, known)
        words = await asyncio.to_thread(self._as_kept, sent) if sent and await store.has_copies(scope) else ()
        session = await recognised(store, captured, sent, known, chain_key, words) if words else None
        if session is not None:
            captured = replace(captured, session=session)
            known = await store.known_chains(scope, session.session_id, [message.chain for message in messages])
        places = dict(zip((one.chain for one in sent), chained(chain_key, words), strict=True)) if words else {}
        return captured, known, places

    def _as_kept(self, messages: Sequence[Message]) -> list[Kept]:
        redactor = self._redactor([[said_in(message.value) for message in messages]], None)
        return kept([message.value for message in messages], redactor)

    async def _fresh_turns(
        self,
        captured: Captured,
        messages: Sequence[Message],
        known: Mapping[Digest, UUID],
        tokens: SubjectTokens | None,
    ) -> tuple[tuple[Turn, ...], list[Spoken]]:
        """The turns this exchange adds, clean, and what was said last before them. A history that the client sent again
        adds nothing.
        """
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
        brought = brought_along(captured, turns)
        if not brought:
            return frozenset()
        return await self._parts.store.chains_elsewhere(captured.scope, captured.session.session_id, brought)

    async def _held_back(self, turns: Sequence[Turn]) -> dict[UUID, str]:
        """Why which turns wait for a person. Work for a processor (.7 us a character), so off the event loop."""
        with self._parts.metrics.write_seconds.labels("hold_back").time():
            return await asyncio.to_thread(self._parts.hold_back, turns)

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


def _not_sealed(turns: Sequence[Turn]) -> list[Turn]:
    """Turns that facts and procedures may be taken out of: what these state lies open, so nothing sealed states any."""
    return [turn for turn in turns if not is_sealed(turn.sensitivity)]
