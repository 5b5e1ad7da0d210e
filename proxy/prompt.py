"""The body that goes upstream: a request, its Ask and what was recalled in, edited bytes and a record of them out.

Decides the token budget against the served model's window, builds the block, and puts it before the client's text in
the newest user message (DESIGN section 5). Touches nothing else. Pure but for the window's exact count, which is asked
for only when an upper bound of the prompt does not fit (bytes / 2: no tokenizer in FACTS makes more tokens than that).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Protocol
from uuid import UUID

from memory.assemble import Block, build_block
from memory.chain import Digest
from memory.model import Candidate, Placed, Reason, Recall, Retrieval, Rung, Status
from memory.ports import Compressor, ContextRouter, TokenCounter
from proxy.identity import Ask
from proxy.wire.chat_request import ChatRequest

# Room left for an answer when the client names no limit: memory must not squeeze the answer out of the window.
ANSWER_TOKENS_RESERVED: Final = 256
# A larger body is not sent a second time to be counted (200 MB of images held the event loop for 4 s): what then
# overflows is sent again without the block.
COUNTED_BYTES_MAX: Final = 1_048_576


class ServedModels(Protocol):
    """What is known of the models behind the proxy."""

    def window(self, model: str | None) -> int | None:
        """The context window in tokens, None while unknown. Never waits."""

    async def prompt_tokens(self, body: Mapping[str, Any]) -> int | None:
        """The exact token count of a chat body by the served template, None when it cannot be had."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """A body to send, its SHA-256, and what is to be said about it."""

    body: bytes
    sha256: bytes
    status: Status
    reason: Reason | None
    rung: Rung
    block: Block | None
    position: int | None
    candidates: tuple[Candidate, ...]

    @property
    def count(self) -> int:
        """Memories newly placed."""
        return len(self.block.memory_ids) if self.block else 0


def edits_of(chat: ChatRequest, salt: str | None, blocks: Mapping[int, str]) -> bytes:
    """The body with our edits: blocks in, `memory` out, the tenant's salt set."""
    return chat.edited(blocks, drop_memory=True, cache_salt=salt)


def assemble(
    chat: ChatRequest,
    recall: Recall,
    *,
    budget_tokens: int,
    limits: Mapping[str, int],
    counter: TokenCounter,
    router: ContextRouter,
    compressor: Compressor,
    salt: str | None,
) -> Prompt:
    """Put the block of what was recalled into the newest user message."""
    block = build_block(
        recall.candidates,
        terms=recall.terms,
        budget_tokens=budget_tokens,
        limits=limits,
        counter=counter,
        router=router,
        compressor=compressor,
    )
    position = chat.newest_user
    if not block.text or position is None:
        status: Status = "degraded" if recall.reason and not recall.candidates else "empty"
        return bare_prompt(chat, recall.candidates, status, recall.reason, recall.rung, salt)
    body = edits_of(chat, salt, {position: block.text})
    digest = hashlib.sha256(body).digest()
    return Prompt(body, digest, "injected", recall.reason, recall.rung, block, position, recall.candidates)


def bare_prompt(
    chat: ChatRequest,
    candidates: tuple[Candidate, ...],
    status: Status,
    reason: Reason | None,
    rung: Rung,
    salt: str | None,
) -> Prompt:
    """The prompt without a block."""
    body = edits_of(chat, salt, {})
    return Prompt(body, hashlib.sha256(body).digest(), status, reason, rung, None, None, candidates)


async def budget_for(chat: ChatRequest, ask: Ask, budget_max: int, models: ServedModels) -> int:
    """Tokens that may be newly placed: the smallest of what is asked, configured, and left in the window."""
    budget = budget_max if ask.budget is None else min(ask.budget, budget_max)
    window = models.window(chat.model)
    if window is None or budget == 0:
        return budget
    room = window - (chat.max_tokens or ANSWER_TOKENS_RESERVED)
    if len(chat.body) // 2 + budget <= room or len(chat.body) > COUNTED_BYTES_MAX:
        return budget
    counted = await models.prompt_tokens({member.key: member.value for member in chat.root.members})
    return budget if counted is None else max(0, min(budget, room - counted))


def retrieval_record(
    prompt: Prompt,
    *,
    retrieval_id: UUID,
    query: str,
    chain: Digest,
    config_digest: str,
    model: str,
    exact: bool,
    millis: float,
    now: datetime,
) -> Retrieval:
    """The record of what this request was given. `chain` is the digest of the message the block stands in."""
    placed: tuple[Placed, ...] = ()
    if prompt.block is not None and prompt.position is not None:
        placed = (Placed(prompt.position, chain, prompt.block.text, prompt.block.tokens, prompt.block.memory_ids),)
    left_out = prompt.block.left_out if prompt.block else {}
    return Retrieval(
        retrieval_id=retrieval_id,
        status=prompt.status,
        reason=prompt.reason,
        rung=prompt.rung,
        config_digest=config_digest,
        embedding_model=model,
        query=query,
        candidates=tuple(_candidate_record(c, prompt, left_out) for c in prompt.candidates),
        placed=placed,
        tokens=prompt.block.tokens if prompt.block else 0,
        tokens_exact=exact,
        millis=millis,
        sha256_sent=prompt.sha256,
        created_at=now,
    )


def _candidate_record(candidate: Candidate, prompt: Prompt, left_out: Mapping[UUID, str]) -> dict[str, Any]:
    placed: Sequence[UUID] = prompt.block.memory_ids if prompt.block else ()
    return {
        "id": str(candidate.memory_id),
        "version": candidate.version,
        "kind": candidate.kind,
        "sensitivity": candidate.sensitivity,
        "score": round(candidate.score, 6),
        "scores": {name: round(value, 6) for name, value in candidate.parts.items()},
        "admitted": candidate.admitted,
        "injected": candidate.memory_id in placed,
        "why": candidate.why,
        "later": str(candidate.later) if candidate.later else None,
        "why_not": left_out.get(candidate.memory_id) or (None if candidate.admitted else candidate.why),
        "source_ids": list(candidate.source_ids),
        "event_ids": [str(event_id) for event_id in candidate.event_ids],
    }
