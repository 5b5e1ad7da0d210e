"""A request as understood, and what memory has for it: the values that the read path's steps hand on."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from uuid import UUID

from memory.checkpoints import Restored
from memory.ids import new_id
from memory.model import Recall
from memory.read.conversation import Conversation
from memory.read.ledger import Kept
from policies.gate import Holder
from proxy.gated import holder_of
from proxy.identity import Ask, Credential
from proxy.prompt import NOTHING_RESTORED
from proxy.wire.chat_request import ChatRequest


@dataclass(frozen=True, slots=True)
class Asked:
    """A request as understood: who asks what, the typed body, and the bytes as they came."""

    exchange_id: UUID
    arrived_at: datetime
    started: float
    body: bytes
    chat: ChatRequest | None  # None: nothing of ours can be in this body, it goes as it is
    ask: Ask
    salt: str | None
    credential: Credential
    retrieval_id: UUID = field(default_factory=new_id)

    @property
    def inserts_new(self) -> bool:
        """Whether anything may be newly placed at all, as far as the request and its key go."""
        return self.ask.inserts and self.placed_tokens_max != 0

    @property
    def placed_tokens_max(self) -> int | None:
        """The most tokens that may be newly placed as far as the request and its key go; None where neither says."""
        said = (self.ask.budget, self.credential.limits.injected_tokens_max)
        return min((one for one in said if one is not None), default=None)

    def holder(self, session_id: UUID) -> Holder:
        """For whom memory is read in this conversation."""
        return holder_of(self.credential, session_id if self.credential.session else None)

    def last_said(self, conversation: Conversation, before: int = 0) -> object:
        """The last message that is part of the chain, or one so many `before` it; None without one."""
        messages = zip(reversed(self.chat.said if self.chat else ()), reversed(conversation.digests), strict=False)
        chained = (message for message, digest in messages if digest is not None)
        return next(islice(chained, before, None), None)


@dataclass(frozen=True, slots=True)
class Remembered:
    """What memory has for one request: its conversation, what stands in it again, and what was recalled; and how often
    the ledgers had let go of something before that (`Ledgers.drops`).
    """

    conversation: Conversation
    kept: Kept
    recall: Recall
    restored: Restored = NOTHING_RESTORED
    drops: int | None = None
