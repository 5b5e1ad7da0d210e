"""Which conversation a request belongs to: messages in, a Conversation out (DESIGN section 5).

A session named by the client is that session. Otherwise the longest chain prefix that ends in our answer decides;
Redis knows it hot, Postgres knows it for good; of a history whose beginning was dropped, or whose messages are not as
they were sent, the pairs of a message and its answer that Redis knows (memory/read/dropped.py). A request without an
assistant message opens a new session, except that the same opening within the regenerate window, while nobody has gone
on from it, is another attempt. Never raises for a store that does not answer: then a new session is opened, and where
there was an answer before it, that one is not remembered: the next request asks again. Writes only through `remember`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Final, Protocol
from uuid import UUID

from memory.chain import DIGEST_BYTES, Digest, message_text
from memory.errors import MemoryProxyFault
from memory.ids import keyed_id, new_id
from memory.model import Scope, SessionRef
from memory.read.at_hand import AnswersAtHand
from memory.read.dropped import Joined, Joint, joined, line_pair_of, newest_pair, pairs_of, with_kept

CUT: Final = Digest(b"cut".ljust(32, b"\x00"))
"""The place in a conversation's ledger that says from which message on it is sent: that one's digest, and behind it
those of other branches, the newest first."""
RESTORE: Final = Digest(b"restore".ljust(32, b"\x00"))
"""The place in a conversation's ledger that says which checkpoint its next message is to be given."""
GIVEN: Final = Digest(b"given".ljust(32, b"\x00"))
"""The place in a conversation's ledger that says that it was given documents."""
MARKS: Final = (CUT, RESTORE, GIVEN)
"""The places that are no message's."""
WITHDRAWN: Final = b"-"
"""What the hot ledger has where a block was withdrawn; it has b"" where nothing was placed."""

# The answers to look a prefix up by, newest first: one round trip, and a client that edits goes back a few turns.
ANSWERS_LOOKED_UP_MAX: Final = 32
# The store is waited for so long where Redis knows a part of the history: half of what `ledger.deadline_ms` gives.
STORE_S: Final = 0.06
# A longer history that nobody knows is not looked for here among what was imported: to redact this takes some 15 ms.
COPIED_CHARACTERS_MAX: Final = 32_768
# Branches of a conversation of which it is known from which message on they are sent.
CUTS_KNOWN: Final = 8
# Erasures that are told apart: what began before them counts as erased.
ERASURES_KNOWN: Final = 256


@dataclass(frozen=True, slots=True)
class Marks:
    """What a conversation is to be given beside what recall finds: the mark of a load, and whether it has documents."""

    restore: bytes | None = None
    given: bool = False


@dataclass(frozen=True, slots=True)
class Asked:
    """What the hot state is asked: answers sent, oldest first; an opening; scopes; and a conversation's places that may
    hold a block: of this session, else of the one that the answers or the opening say.
    """

    answers: Sequence[Digest] = ()
    opening: Digest | None = None
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
    opening: Digest | None  # what the same request again is known by: the messages before the first answer, of a
    # history that nobody knows all of them
    opens: bool  # no assistant message yet
    announced: Mapping[int, int] | None
    fault: bool  # nobody could say in time: where an answer is sent, its session is a guess unless it is named, and
    # whether its client has dropped messages is not known
    is_new: bool = False  # nothing was ever said in it
    ledger: Mapping[bytes, bytes] = field(default_factory=dict)  # by digest, as far as the hot state has it
    dropped: bool = False  # the client has dropped messages of it since
    named: bool = False  # by its client, which may send only what is new
    scope_ids: Sequence[int] = ()  # what its scope could see, as far as it was known
    erasures: int = 0  # how many its process had heard of when it began
    sent_back: Sequence[Digest] = ()  # its newest answer as its client has it, where that is not as it was given
    sent_back_pairs: Mapping[Digest, Joint] = field(default_factory=dict)  # and where that stands

    @property
    def tip(self) -> Digest | None:
        """The digest of the last chained message."""
        return _tip(self.digests)

    @property
    def before_tip(self) -> Digest | None:
        """The digest of the one before it."""
        chained = [digest for digest in self.digests if digest is not None]
        return chained[-2] if len(chained) > 1 else None


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
        pairs: Mapping[Digest, Joint],
    ) -> None:
        """Remember which session these answers and this opening belong to, and where these pairs stand. Raises
        QueueUnavailable.
        """

    async def joints(self, scope: Scope, scope_key: bytes, pairs: Sequence[Digest]) -> Mapping[Digest, Joint]:
        """Where these pairs stand, as far as it is known. Raises QueueUnavailable."""


class ChainStore(Protocol):
    """The store as it knows sessions."""

    async def session_of_chains(self, scope: Scope, digests: Sequence[bytes]) -> Mapping[bytes, SessionRef]:
        """Sessions of this very scope by chain digest, the latest where several have it. Raises StoreUnavailable."""

    async def has_copies(self, scope: Scope) -> bool:
        """Whether anything was imported into this very scope. Raises StoreUnavailable."""


class CopiedChain(Protocol):
    """The chain of messages in the words that an export has of them."""

    def __call__(self, chain_key: bytes, messages: Sequence[object]) -> Sequence[Digest]:
        """A place for each of these messages, all of which are chained."""


class Conversations:
    """Finds and remembers conversations."""

    def __init__(self, hot: HotState, store: ChainStore, copied: CopiedChain | None = None) -> None:
        self._hot = hot
        self._store = store
        self._copied = copied
        self._answers = AnswersAtHand()
        self._erasures = 0
        self._erased: deque[tuple[UUID, frozenset[int]]] = deque(maxlen=ERASURES_KNOWN)

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
        erasures = self._erasures
        named = session_ref(chain_key, scope, label) if label is not None else None
        asked = _asked(messages, digests, named, scope_ids)
        hot = await self._ask_hot(scope, chain_key, asked)
        left = await self._joined(scope, chain_key, named, messages, digests, asked, hot) if hot else None
        if left is not None:
            asked = _asked(messages, left.digests, named, scope_ids)
            alone = [whole for whole, one in zip(digests, left.digests, strict=True) if whole and not one]
            hot = await self._ask_hot(scope, chain_key, replace(asked, marks=[*alone, *asked.marks]))
            digests = with_kept(digests, left.digests, hot.ledger if hot else {})
        unknown = named is None and hot is not None and hot.opening is None and _is_unknown(asked.answers, hot)
        session, fault = await self._choose(scope, scope_key(chain_key, scope), named, asked.answers, hot)
        if session is None and not fault and asked.answers:
            session, fault = await self._of_a_copy(scope, chain_key, messages, digests)
        if session is None and not fault and asked.answers:
            begun = await self._begun(scope, chain_key, messages, digests, asked)
            hot, session = (begun, begun.opening) if begun is not None else (hot, None)
        if session is not None and hot is not None and hot.ledger_of != session.session_id:  # Redis could not name it
            its = replace(asked, answers=(), opening=None, session_id=session.session_id)
            hot = await self._ask_hot(scope, chain_key, its) or hot
        known = session or session_ref(chain_key, scope, str(new_id()))
        changed = unknown and session is not None
        return Conversation(
            session=known,
            digests=digests,
            opening=asked.opening if session is None or named is not None else _opening_digest(messages, digests),
            named=named is not None,
            opens=not asked.answers,
            announced=hot.versions if hot else None,
            fault=fault,
            is_new=session is None and not fault,
            ledger=hot.ledger if hot and hot.ledger_of == known.session_id else {},
            dropped=left is not None and left.is_cut,
            scope_ids=scope_ids,
            erasures=erasures,
            sent_back=asked.answers[-1:] if changed else (),
            sent_back_pairs=newest_pair(chain_key, known, messages, digests) if changed else {},
        )

    def unrecognised(
        self,
        scope: Scope,
        chain_key: bytes,
        label: str | None,
        messages: Sequence[object],
        digests: tuple[Digest | None, ...],
        scope_ids: Sequence[int],
    ) -> Conversation:
        """The conversation where nobody could say in time: named, or a session of its own, which the write path mends.

        Its chain is known all the same: a message without a position would never become a turn. The opening of a named
        one is nobody else's.
        """
        return Conversation(
            session=session_ref(chain_key, scope, label if label is not None else str(new_id())),
            digests=digests,
            opening=_opening_digest(messages, digests) if label is None else None,
            opens=not _answer_digests(messages, digests),
            announced=None,
            fault=True,
            named=label is not None,
            scope_ids=scope_ids,
            erasures=self._erasures,
        )

    def let_go(self, tenant: UUID, scope_ids: Sequence[int]) -> None:
        """Have no session of an answer at hand: something of these scopes was erased. The store says which are left, of
        what is under way in these scopes, too.
        """
        self._answers.clear()
        self._erasures += 1
        self._erased.append((tenant, frozenset(scope_ids)))

    def let_go_of_all(self) -> None:
        """The same of all scopes: nobody knows what was erased."""
        self._answers.clear()
        self._erased.clear()
        self._erasures += 1

    def _was_erased(self, tenant: UUID, conversation: Conversation) -> bool:
        """Whether anything was erased that this conversation may be of, since it began."""
        since = self._erasures - conversation.erasures
        if since > len(self._erased):
            return True
        heard = islice(reversed(self._erased), since)
        ids = conversation.scope_ids
        return any(of == tenant and (not ids or not gone.isdisjoint(ids)) for of, gone in heard)

    async def remember(
        self,
        scope: Scope,
        chain_key: bytes,
        conversation: Conversation,
        answers: Sequence[Digest],
        pairs: Mapping[Digest, Joint],
    ) -> None:
        """Make the next request find this session by the answers it was given. Raises QueueUnavailable.

        A session that is a guess is not kept: the store is not asked for an answer that is known, so the conversation
        would be without its ledger from then on, however soon the write path brings it home. Nor is one that may have
        been erased since it began: its name would be in Redis for a day, behind the receipt.
        """
        if self._was_erased(scope.tenant, conversation):
            return
        if conversation.fault and not conversation.opens:
            if not conversation.named:
                return
            pairs = {}
        key, opens = scope_key(chain_key, scope), conversation.opens or conversation.is_new
        known_by = [*conversation.sent_back, *answers]
        for digest in known_by:
            self._answers.put(key, digest, conversation.session)
        pairs = {**conversation.sent_back_pairs, **pairs}
        await self._hot.keep(scope, key, known_by, conversation.opening, opens, conversation.session, pairs)

    async def _joined(
        self,
        scope: Scope,
        chain_key: bytes,
        named: SessionRef | None,
        messages: Sequence[object],
        digests: tuple[Digest | None, ...],
        asked: Asked,
        hot: Hot,
    ) -> Joined | None:
        """The chain joined to the conversation that the client has dropped a part of, or rewritten some of; None where
        it is whole, or nobody knows it.
        """
        if not asked.answers or asked.answers[-1] in hot.sessions:
            return None
        known = max((at for at, digest in enumerate(digests) if digest in hot.sessions), default=-1)
        pairs = pairs_of(chain_key, messages, digests, known)
        by_line = pairs_of(chain_key, messages, digests, known, line_pair_of)
        if not pairs and not by_line:
            return None
        whole = digests[known] if known >= 0 else None
        mine = named or (hot.sessions[whole] if whole is not None else None)
        try:
            wanted = [*pairs.values(), *by_line.values()]
            joints = await self._hot.joints(scope, scope_key(chain_key, scope), wanted)
        except MemoryProxyFault:
            return None
        found = tuple({at: joints[one] for at, one in by.items() if one in joints} for by in (pairs, by_line))
        return joined(chain_key, messages, digests, known, mine, *found)

    async def _begun(
        self,
        scope: Scope,
        chain_key: bytes,
        messages: Sequence[object],
        digests: tuple[Digest | None, ...],
        asked: Asked,
    ) -> Hot | None:
        """The conversation that the messages before the newest answer began, where nobody has gone on from them: a
        client that has stopped the first answer has less of it than was sent. None where there is none.
        """
        newest = max(at for at, message in enumerate(messages) if _role(message) == "assistant" and digests[at])
        opening = _tip(digests[:newest])
        begun = await self._ask_hot(scope, chain_key, replace(asked, answers=(), opening=opening))
        return begun if begun is not None and begun.opening is not None and not begun.opening_continued else None

    async def _of_a_copy(
        self, scope: Scope, chain_key: bytes, messages: Sequence[object], digests: Sequence[Digest | None]
    ) -> tuple[SessionRef | None, bool]:
        """The conversation that was imported with these answers, whose words an export had redacted; and whether that
        could not be known. Of one that is not found here the write path knows it.
        """
        sent = [message for message, digest in zip(messages, digests, strict=True) if digest is not None]
        if self._copied is None or sum(map(_characters, sent)) > COPIED_CHARACTERS_MAX:
            return None, False
        try:
            # Examples before each question would be redacted each time.
            if not await self._store.has_copies(scope):
                return None, False
        except MemoryProxyFault:
            return None, True
        chain = await asyncio.to_thread(self._copied, chain_key, sent)
        answers = [one for one, message in zip(chain, sent, strict=True) if _role(message) == "assistant"]
        known, fault = await self._ask_store(scope, answers[-ANSWERS_LOOKED_UP_MAX:], {}, None)
        found = _longest(answers, known)
        return (known[found] if found else None), fault

    async def _ask_hot(self, scope: Scope, chain_key: bytes, asked: Asked) -> Hot | None:
        try:
            return await self._hot.find(scope, scope_key(chain_key, scope), asked)
        except MemoryProxyFault:
            return None

    def _at_hand(self, key: bytes, answers: Sequence[Digest]) -> dict[bytes, SessionRef]:
        """The sessions of answers that this process gave: they are known where Redis is slow or away, too."""
        found = ((digest, self._answers.get(key, digest)) for digest in answers)
        return {digest: session for digest, session in found if session is not None}

    async def _choose(
        self, scope: Scope, key: bytes, named: SessionRef | None, answers: Sequence[Digest], hot: Hot | None
    ) -> tuple[SessionRef | None, bool]:
        """The session, None for a new one; and whether that could not be known: the store may be behind what Redis
        has.
        """
        if named is not None:
            return named, hot is None
        opened = hot.opening if hot and not hot.opening_continued else None
        if not answers:
            return opened, hot is None
        known: Mapping[bytes, SessionRef] = {**self._at_hand(key, answers), **(hot.sessions if hot else {})}
        found = _longest(answers, known)
        if found is None and opened is not None:
            return opened, False
        fault = False
        if found is None or found != answers[-1]:
            known, fault = await self._ask_store(scope, answers, known, STORE_S if found else None)
            found = _longest(answers, known)
        return (known[found], False) if found else (None, fault or hot is None)

    async def _ask_store(
        self, scope: Scope, answers: Sequence[Digest], known: Mapping[bytes, SessionRef], within_s: float | None
    ) -> tuple[Mapping[bytes, SessionRef], bool]:
        try:
            async with asyncio.timeout(within_s):
                return {**await self._store.session_of_chains(scope, answers), **known}, False
        except (MemoryProxyFault, TimeoutError):
            return known, True


def _asked(
    messages: Sequence[object], digests: Sequence[Digest | None], named: SessionRef | None, scope_ids: Sequence[int]
) -> Asked:
    answers = _answer_digests(messages, digests)
    return Asked(
        answers=answers[-1:] if named is not None else answers[-ANSWERS_LOOKED_UP_MAX:],
        opening=None if named is not None else _tip(digests) if answers else _opening_digest(messages, digests),
        scope_ids=scope_ids,
        session_id=named.session_id if named is not None else None,
        marks=[*user_digests(messages, digests).values(), *MARKS],  # of very many the first ones are left out
    )


def _is_unknown(answers: Sequence[Digest], hot: Hot) -> bool:
    """Whether the newest answer is none that was given: its client has changed it, or has less of it than was sent."""
    return bool(answers) and answers[-1] not in hot.sessions


def _tip(digests: Sequence[Digest | None]) -> Digest | None:
    return next((digest for digest in reversed(digests) if digest is not None), None)


def newest_cut(cuts: bytes, digests: Sequence[Digest | None]) -> Digest | None:
    """The message from which on this branch is sent; None where it is sent whole."""
    known = {cuts[at : at + DIGEST_BYTES] for at in range(0, len(cuts), DIGEST_BYTES)}
    return next((digest for digest in reversed(digests) if digest in known), None)


def with_cut(cuts: bytes, first: Digest) -> bytes:
    """The cuts with that of the branch that is sent from its message `first` on; those that are there already stay."""
    known = [cuts[at : at + DIGEST_BYTES] for at in range(0, len(cuts), DIGEST_BYTES)]
    return cuts if first in known else b"".join((first, *known[: CUTS_KNOWN - 1]))


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


def _characters(message: object) -> int:
    calls = message.get("tool_calls") if isinstance(message, dict) else None
    return len(message_text(message)) + (len(str(calls)) if calls else 0)


def _role(message: object) -> object:
    return message.get("role") if isinstance(message, dict) else None


def _longest(answers: Sequence[Digest], known: Mapping[bytes, SessionRef]) -> Digest | None:
    return next((digest for digest in reversed(answers) if digest in known), None)
