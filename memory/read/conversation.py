"""Which conversation a request belongs to: messages in, a Conversation out (DESIGN section 5).

A session named by the client is that session. Otherwise the longest chain prefix that ends in our answer decides;
Redis knows it hot, Postgres knows it for good. A request without an assistant message opens a new session, except that
the same opening within the regenerate window, while nobody has gone on from it, is another attempt. Never raises for a
store that does not answer: then a new session is opened. Writes only through `remember`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol
from uuid import UUID

from memory.chain import Digest
from memory.errors import MemoryProxyFault
from memory.ids import keyed_id, new_id
from memory.model import Scope, SessionRef

WITHDRAWN: Final = b"-"
"""What the hot ledger has where a block was withdrawn; it has b"" where nothing was placed."""

# The answers to look a prefix up by, newest first: one round trip, and a client that edits goes back a few turns.
ANSWERS_LOOKED_UP_MAX: Final = 32


@dataclass(frozen=True, slots=True)
class Asked:
    """What the hot state is asked: answers sent, oldest first; an opening; scopes; and a conversation's places that may
    hold a block: of this session, else of the one that the answers or the opening say.
    """

    answers: Sequence[bytes] = ()
    opening: bytes | None = None
    scope_ids: Sequence[int] = ()
    session_id: UUID | None = None
    marks: Sequence[bytes] = ()


@dataclass(frozen=True, slots=True)
class Hot:
    """What the hot state says: sessions by chain digest, the opening's session, versions announced by scope id, and
    the ledger of one session by digest, where it has anything there.
    """

    sessions: Mapping[bytes, SessionRef]
    opening: SessionRef | None
    opening_continued: bool
    versions: Mapping[int, int] | None
    ledger_of: UUID | None = None
    ledger: Mapping[bytes, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Conversation:
    """A request's place: its session, the digest at each message, and what was announced about its scopes."""

    session: SessionRef
    digests: tuple[Digest | None, ...]
    opening: Digest | None  # digest of the messages before the first answer; what a regenerated opening is known by
    opens: bool  # no assistant message yet
    announced: Mapping[int, int] | None
    fault: bool  # neither hot state nor store could say
    is_new: bool = False  # nothing was ever said in it
    ledger: Mapping[bytes, bytes] = field(default_factory=dict)  # by digest, as far as the hot state has it

    @property
    def tip(self) -> Digest | None:
        """The digest of the last chained message."""
        return next((digest for digest in reversed(self.digests) if digest is not None), None)


class HotState(Protocol):
    """Session state that may be lost."""

    async def find(self, scope: Scope, scope_key: bytes, asked: Asked) -> Hot:
        """One round trip. Raises QueueUnavailable."""

    async def keep(
        self,
        scope: Scope,
        scope_key: bytes,
        answers: Sequence[bytes],
        opening: bytes | None,
        opens: bool,
        ref: SessionRef,
    ) -> None:
        """Remember which session these answers and this opening belong to. Raises QueueUnavailable."""


class ChainStore(Protocol):
    """The store as it knows sessions."""

    async def session_of_chains(self, scope: Scope, digests: Sequence[bytes]) -> Mapping[bytes, SessionRef]:
        """Sessions of this very scope by chain digest, the latest where several have it. Raises StoreUnavailable."""


class Conversations:
    """Finds and remembers conversations."""

    def __init__(self, hot: HotState, store: ChainStore) -> None:
        self._hot = hot
        self._store = store

    async def find(
        self,
        scope: Scope,
        chain_key: bytes,
        label: str | None,
        messages: Sequence[object],
        digests: tuple[Digest | None, ...],
        scope_ids: Sequence[int],
    ) -> Conversation:
        """The conversation of these messages and their chain. `chain_key` is the tenant's."""
        answers = _answer_digests(messages, digests)
        opening = _opening_digest(messages, digests)
        opens = not answers
        looked_up = [] if label is not None else answers[-ANSWERS_LOOKED_UP_MAX:]
        asked = Asked(
            answers=looked_up,
            opening=opening if opens else None,
            scope_ids=scope_ids,
            session_id=session_ref(chain_key, scope, label).session_id if label is not None else None,
            marks=[digest for digest in user_digests(messages, digests).values()],
        )
        hot, fault = await self._ask_hot(scope, chain_key, asked)
        session, store_fault = await self._choose(scope, chain_key, label, looked_up, hot)
        known = session or session_ref(chain_key, scope, str(new_id()))
        return Conversation(
            session=known,
            digests=digests,
            opening=opening,
            opens=opens,
            announced=hot.versions if hot else None,
            fault=fault and store_fault,
            is_new=session is None and not store_fault,
            ledger=hot.ledger if hot and hot.ledger_of == known.session_id else {},
        )

    async def remember(
        self, scope: Scope, chain_key: bytes, conversation: Conversation, answers: Sequence[bytes]
    ) -> None:
        """Make the next request find this session by the answers it was given. Raises QueueUnavailable."""
        key = scope_key(chain_key, scope)
        await self._hot.keep(scope, key, answers, conversation.opening, conversation.opens, conversation.session)

    async def _ask_hot(self, scope: Scope, chain_key: bytes, asked: Asked) -> tuple[Hot | None, bool]:
        try:
            return await self._hot.find(scope, scope_key(chain_key, scope), asked), False
        except MemoryProxyFault:
            return None, True

    async def _choose(
        self, scope: Scope, chain_key: bytes, label: str | None, answers: Sequence[Digest], hot: Hot | None
    ) -> tuple[SessionRef | None, bool]:
        """The session, None for a new one; and whether that could not be known."""
        if label is not None:
            return session_ref(chain_key, scope, label), False
        if not answers:
            return (hot.opening if hot and not hot.opening_continued else None), hot is None
        known: Mapping[bytes, SessionRef] = hot.sessions if hot else {}
        found = _longest(answers, known)
        if found is None or found != answers[-1]:
            known, fault = await self._ask_store(scope, answers, known)
        else:
            fault = False
        found = _longest(answers, known)
        return (known[found] if found else None), fault

    async def _ask_store(
        self, scope: Scope, answers: Sequence[Digest], known: Mapping[bytes, SessionRef]
    ) -> tuple[Mapping[bytes, SessionRef], bool]:
        try:
            return {**await self._store.session_of_chains(scope, answers), **known}, False
        except MemoryProxyFault:
            return known, True


def unrecognised(
    scope: Scope, chain_key: bytes, label: str | None, messages: Sequence[object], digests: tuple[Digest | None, ...]
) -> Conversation:
    """The conversation where nobody could say in time: named, or a session of its own, which the write path mends.

    Its chain is known all the same: a message without a position would never become a turn.
    """
    return Conversation(
        session=session_ref(chain_key, scope, label or str(new_id())),
        digests=digests,
        opening=_opening_digest(messages, digests),
        opens=not _answer_digests(messages, digests),
        announced=None,
        fault=True,
    )


def session_ref(chain_key: bytes, scope: Scope, label: str) -> SessionRef:
    """The session of a label: unique per (tenant, user, project, agent), the same from every process, no look-up."""
    return SessionRef(keyed_id(chain_key, "session", scope.user, scope.project, scope.agent, label), label)


def scope_key(chain_key: bytes, scope: Scope) -> bytes:
    """16 bytes that stand for a scope in shared keys; nobody without the tenant's key can compute them."""
    return keyed_id(chain_key, "scope", scope.user, scope.project, scope.agent).bytes


def _answer_digests(messages: Sequence[object], digests: Sequence[Digest | None]) -> list[Digest]:
    return [d for m, d in zip(messages, digests, strict=True) if d is not None and _role(m) == "assistant"]


def user_digests(messages: Sequence[object], digests: Sequence[Digest | None]) -> dict[int, Digest]:
    """The places in `messages` where a block may stand, each with its digest."""
    both = enumerate(zip(messages, digests, strict=True))
    return {at: digest for at, (message, digest) in both if digest is not None and _role(message) == "user"}


def _opening_digest(messages: Sequence[object], digests: Sequence[Digest | None]) -> Digest | None:
    last: Digest | None = None
    for message, digest in zip(messages, digests, strict=True):
        if _role(message) == "assistant":
            break
        last = digest if digest is not None else last
    return last


def _role(message: object) -> object:
    return message.get("role") if isinstance(message, dict) else None


def _longest(answers: Sequence[Digest], known: Mapping[bytes, SessionRef]) -> Digest | None:
    return next((digest for digest in reversed(answers) if digest in known), None)
