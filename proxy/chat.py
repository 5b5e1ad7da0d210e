"""`/v1/chat/completions`: a client's request in, vLLM's answer out, with memory before and capture after.

The read path is `ChatCompletions.__call__`, read downwards. Memory fails open: whatever goes wrong in recall, the
request goes on and the head says so. Identity fails closed. A body that is no JSON goes to vLLM as it is.
Refuses to retry, but for the one case where our own block made the prompt too long.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from time import perf_counter
from typing import Final
from urllib.parse import quote
from uuid import UUID

from aiohttp import web
from multidict import CIMultiDict

from memory.assemble import NO_ROOM
from memory.audit import Audit
from memory.canary import Canaries
from memory.chain import message_text
from memory.checkpoints import Restored
from memory.config import Settings
from memory.errors import AuthUnavailable, MemoryInvalid, MemoryProxyFault, NotFound, Refused, StoreUnavailable
from memory.ids import new_id
from memory.json_spans import JsonUnreadable
from memory.keys import KeyRing, tenant_salt
from memory.model import Captured, Retrieval, Rung, Withdrawn
from memory.off_loop import off_loop
from memory.passage import MODEL_CHARS_MAX, lap, note
from memory.read.conversation import Conversation
from memory.telemetry import Metrics, event
from proxy.answering import Answering, Outcome
from proxy.asked import Asked, Remembered
from proxy.bounds import UserLimits
from proxy.cache_report import CacheReport
from proxy.capture import Capture, Known
from proxy.copies import Copies
from proxy.gated import mode_within
from proxy.identity import Credential, identify, openai_user_of, require_clear
from proxy.in_flight import read_body
from proxy.limits import KeyUse, require_model, spent_by_size, tokens_used
from proxy.outside import Came, LooksOutside, before, require
from proxy.prompt import (
    Prompt,
    bare_prompt,
    edits_of,
    retrieval_record,
)
from proxy.relay import Upstream
from proxy.remembering import MemoryParts, Remembering
from proxy.shedding import MemoryPlaces
from proxy.wire.chat_request import ChatRequest, mentions_memory

log = logging.getLogger("memory_proxy.chat")
CREDENTIAL: Final = web.RequestKey("credential", Credential)
USE: Final = web.RequestKey("use", asyncio.Task[None])
# What vLLM says of a prompt that is too long (0.17 says it otherwise), of one whose images make it so (older versions),
# and of one that leaves no room.
_OVERFLOWS: Final = (
    b"maximum context length",
    b"model's context length is only",
    b"maximum model length",
    b"too long to fit into the model",
    b"max_tokens must be at least 1, got 0",
)
# What a session's label may hold as it is; the rest is percent-encoded, as the request header wants it.
_VISIBLE: Final = "!\"#$&'()*+,/:;<=>?@[\\]^`{|}"


@dataclass(frozen=True, slots=True)
class Parts:
    """What the read path needs; built where the program is wired."""

    settings: Settings
    config_digest: str
    keys: KeyRing
    upstream: Upstream
    memory: MemoryParts
    capture: Capture
    metrics: Metrics
    embedding_model: str
    salted: bool
    use: KeyUse | None  # None: nobody has limits (open mode)
    journal: Audit
    canaries: Canaries
    cache_report: CacheReport
    places: MemoryPlaces
    copies: Copies
    outside: LooksOutside | None  # None: it is off


@dataclass(frozen=True, slots=True)
class Ready:
    """A request that memory is done with, whatever is sent of it: `millis` is how long that took, `came` what came of
    the web, `noting` has the ledger say what stands in it.
    """

    asked: Asked
    chat: ChatRequest
    conversation: Conversation
    millis: float
    came: Came | None
    noting: Sequence[asyncio.Task[None]]


class ChatCompletions:
    """The handler. One per process."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        settings = parts.settings
        self._deadline_s = settings.recall.deadline_ms / 1000
        self._users = UserLimits(settings.limits)
        self._memory = Remembering(parts.memory)

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        """Identify, recall, assemble, forward, tee, capture."""
        body = await self.read(request)
        lap("read")
        if not self._users.counts_requests and self.is_plainly_off(request, body):
            return await self.without_memory(request, body, "off")
        asked = await self.understand(request, body)
        lap("identify")
        with self._users.request((asked.ask.scope.tenant, asked.ask.scope.user)):
            if asked.chat is None or asked.ask.mode == "off":
                return await self.without_memory(request, await ours_taken_off(asked), "off")
            return await self._with_memory(request, asked, asked.chat)

    async def _with_memory(self, request: web.Request, asked: Asked, chat: ChatRequest) -> web.StreamResponse:
        if not await self._has_keys(asked.ask.scope.tenant):
            return await self.without_memory(request, await ours_taken_off(asked), "degraded; reason=store")
        came: Came | None = None
        if asked.ask.outside and self._parts.outside is not None:
            asked, came = await before(self._parts.outside, asked, chat)
        async with self._parts.places.place(asked.ask.scope.tenant, asked.ask.scope.user) as rung:
            has = await self._remembered(asked, chat, rung)
        conversation = has.conversation
        self._users.session((asked.ask.scope.tenant, asked.ask.scope.user), conversation.session.session_id)
        lap("recall")
        prompt = await self._memory.assemble(asked, chat, has)
        noting = self._memory.note(asked, chat, has, prompt)
        lap("assemble")
        self._watch(asked, request[CREDENTIAL], prompt)
        self._note_restored(asked, has.restored, prompt)
        millis = (perf_counter() - asked.started) * 1000
        return await self._sent(request, Ready(asked, chat, conversation, millis, came, noting), prompt)

    async def _remembered(self, asked: Asked, chat: ChatRequest, rung: Rung) -> Remembered:
        """What memory has for this request. Raises NotFound for a checkpoint that is not there."""
        try:
            return await self._memory.remember(asked, chat, rung)
        except NotFound as missing:
            persona = missing.param == "X-Memory-Persona"
            (self._parts.metrics.personas if persona else self._parts.metrics.checkpoints).labels("missing").inc()
            raise

    def _note_restored(self, asked: Asked, restored: Restored, prompt: Prompt) -> None:
        """Count and note what of a checkpoint was placed now; what stands already was noted when it was."""
        if not restored.candidates or prompt.block is None:
            return
        ids = {one.memory_id for one in restored.candidates}
        if any(prompt.block.left_out.get(one) == NO_ROOM for one in ids):
            self._parts.metrics.checkpoints.labels("cut").inc()
        placed = ids.intersection(prompt.block.memory_ids)
        if any(one.section == "persona" and one.memory_id in placed for one in restored.candidates):
            self._parts.metrics.personas.labels("placed").inc()
        if placed and restored.checkpoint_id is not None:
            self._parts.metrics.checkpoints.labels("placed").inc()
            named, actor = [restored.checkpoint_id, *sorted(placed)], asked.credential.actor
            self._parts.journal.note(asked.ask.scope.tenant, actor, "checkpoint.load", why="chat", ids=named)

    async def read(self, request: web.Request) -> bytes:
        """The body. Raises TooLarge, TooSlow, EncodingRefused."""
        return await read_body(request, salted=self._parts.salted)

    def is_plainly_off(self, request: web.Request, body: bytes) -> bool:
        """Whether the head turns memory off and nothing of ours can be in the body, so that nobody need read it.

        Raises Refused: who asks must be clear even then.
        """
        if request.headers.get("X-Memory-Mode") != "off" or self._parts.salted or mentions_memory(body):
            return False
        if request[CREDENTIAL].limits.models is not None:
            return False
        require_clear(request.raw_headers, request[CREDENTIAL], datetime.now(UTC))
        return True

    async def understand(self, request: web.Request, body: bytes) -> Asked:
        """Who asks what. Raises Refused where that cannot be known."""
        started = perf_counter()
        now = datetime.now(UTC)
        credential = request[CREDENTIAL]
        salt_key = await self._salt_key(credential.tenant) if self._parts.salted else b""
        try:
            chat = await off_loop(len(body), partial(ChatRequest.parse, body))
        except JsonUnreadable:
            ask = identify(request.raw_headers, None, None, credential, now)
            if self._parts.salted and _is_json(body):
                raise MemoryInvalid("the body must be one JSON object in UTF-8", param="body") from None
            require_model(credential, None)
            return Asked(new_id(), now, started, body, None, ask, None, credential)
        require_model(credential, chat.model)
        self._users.messages(len(chat.messages))
        named = {member.key: member.value for member in chat.root.members}
        openai_user = openai_user_of(named) if self._parts.settings.identity.from_openai_user else None
        ask = mode_within(identify(request.raw_headers, chat.memory, openai_user, credential, now), credential)
        if chat.brings_tokens and ask.inserts:
            ask = replace(ask, mode="write" if ask.captures else "off", outside=False)
        require(self._parts.outside, ask, credential)
        salt = tenant_salt(salt_key, chat.cache_salt) if self._parts.salted else None
        note(model=chat.model[:MODEL_CHARS_MAX] if chat.model else None)
        return Asked(new_id(), now, started, body, chat, ask, salt, credential)

    async def _salt_key(self, tenant: UUID) -> bytes:
        """What the tenant's cache_salt is made of. Raises AuthUnavailable: without it the tenant would read what others
        have in the prefix cache.
        """
        try:
            return await self._parts.keys.salt_key(tenant, self._deadline_s)
        except StoreUnavailable as fault:
            raise AuthUnavailable("this tenant's cache_salt cannot be read now; try again", retry_after_s=1) from fault

    async def _has_keys(self, tenant: UUID) -> bool:
        """Whether the tenant's key is at hand: without it nothing can be recognised or sealed. Asks the store once."""
        try:
            async with asyncio.timeout(self._deadline_s):
                await self._parts.keys.chain_key(tenant)
        except (MemoryProxyFault, TimeoutError):
            return False
        return True

    async def without_memory(self, request: web.Request, body: bytes, status: str) -> web.StreamResponse:
        """Forward a body, carry the answer; the head says `status` and that nothing is kept."""
        await within_limits(request)
        lap("admit")
        capture = "off" if status == "off" else "none"
        note(memory=status.partition(";")[0], reason=None if status == "off" else "store", capture=capture)
        head = CIMultiDict({"X-Memory-Status": status, "X-Memory-Capture": capture})
        answering = Answering(self._parts.upstream, self._parts.metrics, copy_bytes_max=0)
        with spent_by_size(self._parts.use, request, request[CREDENTIAL]):
            outcome = await answering.send(request, body, head)
        if outcome.status != "complete":
            note(outcome=outcome.status)
        return outcome.response

    def _watch(self, asked: Asked, credential: Credential, prompt: Prompt) -> None:
        """Look for a foreign canary, and note what of others is in the prompt. Waits for nothing."""
        tenant = asked.ask.scope.tenant
        self._parts.canaries.look(tenant, "prompt", prompt.body)
        if prompt.block is None:
            return
        placed = frozenset(prompt.block.memory_ids)
        crossed = [
            one.memory_id
            for one in prompt.candidates
            if one.visibility in ("project", "tenant") and one.memory_id in placed
        ]
        if crossed:
            self._parts.journal.note(tenant, credential.actor, "read.shared", why="chat", ids=crossed)

    def _record(self, ready: Ready, prompt: Prompt) -> Retrieval | None:
        """The record that the head named; made when it is kept, so that no request waits for it. It has the question
        where that is kept anyway: not in `read` mode.
        """
        asked, conversation = ready.asked, ready.conversation
        if not asked.ask.inserts or conversation.tip is None:
            return None
        return retrieval_record(
            prompt,
            retrieval_id=asked.retrieval_id,
            query=ready.chat.query_text if asked.ask.captures else "",
            config_digest=self._parts.config_digest,
            model=self._parts.embedding_model,
            exact=self._parts.memory.rules.counter.exact,
            millis=ready.millis,
            now=asked.arrived_at,
            apart=asked.ask.as_of is not None,
        )

    async def _sent(self, request: web.Request, ready: Ready, prompt: Prompt) -> web.StreamResponse:
        """Send it; what was loaded for a message that gets no answer waits for the next one."""
        try:
            answer = await self._forward(request, ready, prompt)
        except Refused:
            self._memory.load_again(ready.asked, ready.conversation, prompt, ready.noting)
            raise
        if answer.status >= 300:
            self._memory.load_again(ready.asked, ready.conversation, prompt, ready.noting)
        return answer

    async def _forward(self, request: web.Request, ready: Ready, prompt: Prompt) -> web.StreamResponse:
        """Send, and when vLLM says that the prompt is too long with our blocks, send once more without them."""
        parts = self._parts
        share = parts.copies.of(ready.asked.ask.scope.tenant)
        answering = Answering(parts.upstream, parts.metrics, parts.capture.bounds.answer_bytes_max, share)
        await within_limits(request)
        lap("admit")
        keep = partial(self._keep_sent, ready, prompt)
        head = self._head(ready, prompt)
        parts.metrics.added_seconds.observe(ready.millis / 1000)
        refused = _overflowed if prompt.placed else None
        outcome = await answering.send(
            request, prompt.body, head, keep=keep, refused=refused, left=parts.capture.in_background
        )
        if not outcome.withdrawn:
            return _said(outcome)
        return await self._send_without(request, answering, ready, prompt)

    async def _send_without(
        self, request: web.Request, answering: Answering, ready: Ready, prompt: Prompt
    ) -> web.StreamResponse:
        """Send once more, without our blocks. They are withdrawn where that one is taken; where it is refused as well
        the request was too long by itself: the head does not blame memory, and the blocks stand in the next one.
        """
        parts, asked = self._parts, ready.asked
        parts.metrics.overflow_retries.inc()
        bare = bare_prompt(ready.chat, prompt.candidates, "degraded", "overflow", prompt.rung, asked.salt, prompt.cut)
        bare = replace(
            bare,
            withdrawn=prompt.withdrawn,
            gave_way=prompt.gave_way,
            cut_mark=prompt.cut_mark,
        )
        head = self._head(ready, bare)

        async def keep(outcome: Outcome) -> None:
            sent, tried = bare, ready
            if outcome.http_status < 400:
                gone = tuple(Withdrawn(one.chain, "overflow") for one in prompt.placed)
                stood = tuple(one for one in prompt.placed if one.kept)
                sent = replace(bare, withdrawn=(*bare.withdrawn, *gone), gave_way=(*bare.gave_way, *stood))
                withdrawing = self._memory.withdraw(asked, ready.conversation, gone)
                tried = replace(ready, noting=(*ready.noting, withdrawing))
            self._memory.load_again(asked, ready.conversation, prompt, tried.noting)
            await self._keep_sent(tried, sent, outcome)

        def refused(status: int, text: bytes) -> bool:
            by_itself = replace(bare, status="empty", reason=prompt.reason)
            head.update(self._head(ready, by_itself))
            return False

        left = parts.capture.in_background
        return _said(await answering.send(request, bare.body, head, keep=keep, refused=refused, left=left))

    def _head(self, ready: Ready, prompt: Prompt) -> CIMultiDict[str]:
        """The X-Memory-* headers of the answer (DESIGN section 2); the request's line says the same."""
        asked, conversation = ready.asked, ready.conversation
        exact, tokens = self._parts.memory.rules.counter.exact, prompt.tokens
        status = _status_header(prompt) if asked.ask.inserts else "off"
        note(
            exchange=str(asked.exchange_id) if asked.ask.captures else None,
            retrieval=str(asked.retrieval_id) if asked.ask.inserts and conversation.tip is not None else None,
            memory=prompt.status if asked.ask.inserts else "off",
            reason=prompt.reason,
            rung=prompt.rung,
            placed=prompt.count,
            kept=prompt.kept,
            tokens=tokens,
            added_ms=round(ready.millis, 3),
        )
        head = CIMultiDict(
            {
                "X-Memory-Status": status,
                "X-Memory-Capture": self._parts.capture.where() if asked.ask.captures else "off",
                "X-Memory-Session": quote(conversation.session.label, safe=_VISIBLE),
                "X-Memory-Count": str(prompt.count),
                "X-Memory-Kept": str(prompt.kept),
                "X-Memory-Tokens": str(tokens) if exact or tokens == 0 else f"~{tokens}",
                "X-Memory-Millis": f"{ready.millis:.1f}",
            }
        )
        if asked.ask.inserts and conversation.tip is not None:
            head["X-Memory-Retrieval"] = str(asked.retrieval_id)
        if ready.came is not None:
            head["X-Memory-Outside"] = str(ready.came)
        return head

    async def _keep_sent(self, ready: Ready, sent: Prompt, outcome: Outcome) -> None:
        """Count what was sent and answered, and capture it; what was loaded for it waits where no answer came. Never
        raises.
        """
        parts, asked, conversation = self._parts, ready.asked, ready.conversation
        if outcome.came_to_nothing:
            self._memory.load_again(asked, conversation, sent, ready.noting)
            sent = replace(sent, restored=None)
        count_sent(parts.metrics, sent)
        if parts.use is not None:
            parts.use.spend(asked.credential, tokens_used(len(sent.body), outcome.answer))
        retrieval = self._record(ready, sent)
        stands = sum(one.tokens for one in sent.placed if one.kept)
        parts.cache_report.count(ready.chat, conversation, outcome.answer, placed=sent.tokens - stands, kept=stands)
        parts.canaries.look_at_answer(asked.ask.scope.tenant, outcome.texts())
        await self._keep(ready, retrieval, outcome)

    async def _keep(self, ready: Ready, retrieval: Retrieval | None, outcome: Outcome) -> None:
        """Capture one exchange, or in `read` mode only the record of what was given. Never raises."""
        asked, conversation = ready.asked, ready.conversation
        if not asked.ask.captures and retrieval is None:
            return
        kept = asked.ask.captures
        captured = Captured(
            exchange_id=asked.exchange_id,
            scope=asked.ask.scope,
            session=conversation.session,
            mode=asked.ask.mode,
            status=outcome.status if kept else "refused",
            reason=outcome.reason if kept else "mode read",
            http_status=outcome.http_status,
            model=asked.chat.model if asked.chat else None,
            arrived_at=asked.arrived_at,
            finished_at=datetime.now(UTC),
            request=asked.body if kept else b"",
            answer=outcome.answer_record() if kept else {},
            digests=conversation.digests if kept else (),
            retrieval=retrieval,
            named=asked.ask.session is not None,
            looked=asked.ask.outside,
        )
        chain_key = await self._parts.keys.chain_key(asked.ask.scope.tenant)

        def known_by() -> Known:
            answers, said = outcome.digests(chain_key, conversation.tip), asked.last_said(conversation)
            pairs = outcome.pairs(chain_key, said, conversation, answers)
            if ready.chat.continue_final_message:
                begun = "" if ready.chat.echo else message_text(said)
                joined = outcome.joined(chain_key, conversation.before_tip, begun)
                pairs |= outcome.pairs(chain_key, asked.last_said(conversation, 1), conversation, joined, begun)
                answers += joined
            return answers, pairs

        try:
            await self._parts.capture.exchange(captured, conversation, known_by, ready.noting)
        except MemoryProxyFault as fault:
            self._parts.metrics.captures_lost.inc()
            event(log, "capture_lost", logging.ERROR, exchange=str(asked.exchange_id), fault=type(fault).__name__)


def count_sent(metrics: Metrics, sent: Prompt) -> None:
    """Count the memory of a prompt that went upstream. What the law withdrew was counted when it was read."""
    if sent.count:
        metrics.injected_memories.inc(sent.count)
        metrics.injected_tokens.inc(sum(one.new_tokens for one in sent.placed))
    for placed in sent.placed:
        metrics.ledger("kept" if placed.kept else "placed", 1, placed.tokens)
    for stood in sent.gave_way:
        metrics.ledger("withdrawn", 1, stood.tokens, "overflow")


def _overflowed(status: int, text: bytes) -> bool:
    return status == 400 and any(said in text for said in _OVERFLOWS)


def _said(outcome: Outcome) -> web.StreamResponse:
    note(outcome=outcome.status)
    return outcome.response


async def within_limits(request: web.Request) -> None:
    """Wait for what was asked of the key's limits when the request came. Raises RateLimited."""
    asked = request.get(USE)
    if asked is not None:
        await asked


def _status_header(prompt: Prompt) -> str:
    said: list[str] = [prompt.status]
    if prompt.reason:
        said.append(f"reason={prompt.reason}")
    if prompt.rung not in ("full", "none") or prompt.reason == "overload":
        said.append(f"rung={prompt.rung}")
    return "; ".join(said)


async def ours_taken_off(asked: Asked) -> bytes:
    """The body without its `memory` object, with the tenant's salt."""
    if asked.chat is None:
        return asked.body
    return await off_loop(len(asked.body), partial(edits_of, asked.chat, asked.salt, {}))


def _is_json(body: bytes) -> bool:
    """Whether vLLM may read it: nesting too deep or an integer too long for us need not be for another Python."""
    try:
        json.loads(body)
    except (json.JSONDecodeError, UnicodeDecodeError):
        return False
    except (RecursionError, ValueError):
        return True
    return True
