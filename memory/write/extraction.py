"""One exchange that waits for a model: taken in, its facts stored and its mark gone out.

Unseals the exchange, asks about it, and stores what was heard; everything that stands in the way (sealed bytes that
no key opens, no answer in time, an answer without a fact that holds) sends it to the rules instead, over its stored
turns, and is counted under its reason. What a model wrote is redacted again, and a fact is dropped that tells a
secret of anything the model could read, or that addresses a model: it may have been told what to write. Raises
ExtractorUnavailable, StoreUnavailable, EmbedderUnavailable: then nothing was stored, come again.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any, Final, Literal, Protocol

from memory.errors import EnvelopeUnreadable, QueueUnavailable
from memory.kept import kept_exchange
from memory.keys import KeyRing, tenant_salt
from memory.model import Captured, Committed, NewFact, Turn
from memory.ports import Embedder
from memory.telemetry import Metrics, event
from memory.write.ask_facts import cache_salt_in
from memory.write.due import Due, DueExchange
from memory.write.embedding import embedded, ending
from memory.write.facts import new_fact
from memory.write.parts import Redacts
from memory.write.read_facts import Heard, UserTurn
from memory.write.seams import Announcer
from memory.write.turns import body_of, instructions_of, served_texts
from memory.write.vllm_facts import Exchange, Outcome, Why
from memory.write.windows import TextTokenizer
from policies.brought import brought_in, instructs_errand
from policies.fact import Fact
from policies.injection.judge import judge
from policies.lifetime import DaysOf

log = logging.getLogger("memory_proxy.extract")
EXTRACTOR_VERSION: Final = "model-1"
# Taken so often and never given back, it may be what kills the worker: the rules alone, then nobody.
TAKES_WITH_MODEL_MAX: Final = 3
TAKES_MAX: Final = 6
SECRET_CHARS_MIN: Final = 4
_NOT_BARE: Final = re.compile(r"[\W_]+")
# rules: no model is asked. unfounded: of all that a model named nothing holds. unreadable: its sealed body is gone or
# no key opens it. gone: its turns are, or made no memory. given_up: nothing can be had of it.
Done = Literal[Why, "rules", "unfounded", "unreadable", "gone", "given_up"]


class DueStore(Protocol):
    """Where marked exchanges and their facts lie. Raises StoreUnavailable."""

    async def exchange(self, due: Due) -> DueExchange | None:
        """What is stored of it; None when it is gone."""

    async def finish(
        self, due: Due, stored: DueExchange | None, facts: Sequence[NewFact], now: datetime
    ) -> Committed | None:
        """Store the facts and take the mark away; None when another has done it."""


class Asks(Protocol):
    """A model that is asked about an exchange."""

    def ask(self, exchange: Exchange) -> Awaitable[Outcome]:
        """Waits for its turn. Raises ExtractorUnavailable."""


@dataclass(frozen=True, slots=True)
class ExtractionParts:
    """What it needs. `ask` None: the rules take what is left of another configuration. `salted`: by tenant."""

    store: DueStore
    keys: KeyRing
    ask: Asks | None
    find_facts: Callable[[Sequence[Turn]], list[NewFact]]
    embedder: Embedder
    windows: TextTokenizer
    redactor: Redacts
    announcer: Announcer
    metrics: Metrics
    clock: Callable[[], datetime]
    lives: DaysOf
    salted: bool


class Extraction:
    """Takes the facts out of marked exchanges."""

    def __init__(self, parts: ExtractionParts) -> None:
        self._parts = parts

    async def take_out(self, due: Due) -> Done:
        """Bring one exchange to its end, and say which."""
        parts = self._parts
        stored = await parts.store.exchange(due)
        done, facts = await self._found(due, stored)
        memories = await embedded([fact.memory for fact in facts], parts.embedder, parts.windows)
        memories = ending(memories, parts.clock(), parts.lives)
        facts = [replace(fact, memory=memory) for fact, memory in zip(facts, memories, strict=True)]
        committed = await parts.store.finish(due, stored, facts, parts.clock())
        parts.metrics.extractions.labels(done).inc()
        if committed is not None and facts:
            parts.metrics.memories.labels("semantic").inc(committed.facts_new)
            parts.metrics.facts_dropped.inc(committed.facts_dropped)
            await self._announce(due, committed)
        return done

    async def _found(self, due: Due, stored: DueExchange | None) -> tuple[Done, list[NewFact]]:
        """What the model said, else what the rules say."""
        if stored is None or not stored.turns:
            return "gone", []
        if due.takes > TAKES_MAX:
            event(log, "extraction_given_up", logging.ERROR, exchange=due.exchange_id, takes=due.takes)
            return "given_up", []
        done: Done = "rules"
        if self._parts.ask is not None and due.takes <= TAKES_WITH_MODEL_MAX:
            done, facts = await self._asked(self._parts.ask, due, stored)
            if done == "heard":
                return done, facts
        return done, await asyncio.to_thread(self._parts.find_facts, stored.turns)

    async def _asked(self, ask: Asks, due: Due, stored: DueExchange) -> tuple[Done, list[NewFact]]:
        try:
            captured = await self._opened(due, stored)
        except EnvelopeUnreadable:
            return "unreadable", []
        if any(map(instructs_errand, instructions_of(captured, body_of(captured)))):
            return "rules", []
        outcome = await ask.ask(await self._exchange(due, captured, stored.turns))
        metrics = self._parts.metrics
        metrics.extraction_tokens.labels("prompt").inc(outcome.prompt_tokens)
        if outcome.tells_cached:
            metrics.extraction_tokens.labels("cached").inc(outcome.cached_tokens)
        metrics.extraction_yields.inc(outcome.yielded)
        if outcome.heard is None:
            return outcome.why, []
        clean = partial(told, outcome.heard, stored.turns, captured, self._parts.redactor)
        facts, dropped = await asyncio.to_thread(clean)
        for reason, count in dropped.items():
            metrics.extraction_dropped.labels(reason).inc(count)
        return ("unfounded" if dropped and not facts else outcome.why), facts

    async def _opened(self, due: Due, stored: DueExchange) -> Captured:
        """The exchange as it was captured. Raises EnvelopeUnreadable."""
        if stored.sealed is None:
            raise EnvelopeUnreadable("its retention is over")
        keys = self._parts.keys
        return await kept_exchange(keys, due.tenant, stored.subject_id, due.exchange_id, stored.sealed, stored.base)

    async def _exchange(self, due: Due, captured: Captured, turns: Sequence[Turn]) -> Exchange:
        salt = None
        if self._parts.salted:
            salt = tenant_salt(await self._parts.keys.salt_key(due.tenant), cache_salt_in(captured.request))
        placed = captured.retrieval.placed if captured.retrieval else ()
        return Exchange(
            tenant=due.tenant,
            finished_at=due.since,
            request=captured.request,
            answer=_first_message(captured.answer),
            turns=[UserTurn(one.content, tuple(brought_in(one.content)), one.language) for one in turns],
            blocks={one.position: one.text for one in placed},
            salt=salt,
        )

    async def _announce(self, due: Due, done: Committed) -> None:
        try:
            await self._parts.announcer.announce(due.tenant, done.scope_id, done.scope_version)
        except QueueUnavailable as fault:
            event(log, "not_announced", logging.WARNING, fault=str(fault))


def told(
    heard: Heard, turns: Sequence[Turn], captured: Captured, redactor: Redacts
) -> tuple[list[NewFact], Mapping[str, int]]:
    """What was heard as facts to store, and how many were dropped for which reason, `secret` and `injection` among
    them.
    """
    dropped = Counter(heard.dropped)
    hidden = _secrets(captured, redactor) if heard.found else frozenset()
    facts: list[NewFact] = []
    for number, found in enumerate(heard.found):
        turn = turns[found.turn]
        fact = _clean(found.fact, hidden - _read_in(turn.content, hidden), redactor)
        if isinstance(fact, str):
            dropped[fact] += 1
        else:
            facts.append(new_fact(turn, number, fact, extractor=EXTRACTOR_VERSION))
    return facts, dropped


def _clean(fact: Fact, hidden: frozenset[str], redactor: Redacts) -> Fact | Literal["secret", "injection"]:
    """The fact with its sentence redacted; or why it is dropped: its thing itself is secret, or it addresses a model.

    Judged as strictly as what a tool says, for it is no person's wording. Not held back, as a turn would be: what rests
    on a turn and is held back keeps the turn's own words from being told.
    """
    sentence = redactor.redact(fact.statement).text
    parts = (fact.subject, fact.predicate.replace("_", " "), fact.object)
    if _read_in("\n".join((*parts, sentence)), hidden) or any(redactor.redact(part).text != part for part in parts):
        return "secret"
    if judge(f"{' '.join(parts)}\n{sentence}", "foreign").quarantined:
        return "injection"
    return replace(fact, statement=sentence)


def _secrets(captured: Captured, redactor: Redacts) -> frozenset[str]:
    """What redaction takes out of all that the model has read: it may write it where no detector knows it."""
    cut = (text[found.start : found.end] for text in served_texts(captured) for found in redactor.redact(text).findings)
    return frozenset(one for one in map(_bare, cut) if len(one) >= SECRET_CHARS_MIN)


def _read_in(text: str, secrets: frozenset[str]) -> frozenset[str]:
    """Those of these secrets that a text says, whatever stands between their characters."""
    bare = _bare(text) if secrets else ""
    return frozenset(one for one in secrets if one in bare)


def _bare(text: str) -> str:
    """Letters and figures alone: a predicate has nothing else."""
    return _NOT_BARE.sub("", text.casefold())


def _first_message(answer: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """What the assistant said; None where there was no answer."""
    choices = answer.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    message = first.get("message") if isinstance(first, Mapping) else None
    return message if isinstance(message, Mapping) else None
