"""`/memory/v1/replay/{id}`: the id of X-Memory-Retrieval in, the body that went upstream out, byte for byte.

Rebuilt from stored parts by the live path's own edits (`proxy/rebuild.py`): the client's request from the exchange's
envelope and every block from the retrieval's. With `as_of`, `without` or `config` it is a what-if: the body that would
have gone (`proxy/what_if.py`), and how its block differs. Wants trace:read: the request is the client's own,
unredacted, with its tenant's cache_salt. What is gone is 410 with the digests and ids that are left; what lies in
another scope, or holds what the caller may not see, is 404. Raises NotFound, StoreUnavailable, TimedOut.
"""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final
from uuid import UUID

from aiohttp import web

from memory.chain import chain
from memory.errors import EnvelopeUnreadable, Gone, MemoryInvalid, NotFound
from memory.ids import is_words
from memory.kept import kept_exchange
from memory.model import Candidate, Captured, Scope
from memory.off_loop import off_loop
from memory.read.ledger import DROPPED, REPLACES
from memory.read.restore import parts_placed
from memory.stored import RetrievalRecord, SealedExchange
from policies.cascade import Visibility
from policies.gate import Holder, Item
from policies.labels import Sensitivity, derived_sensitivity
from proxy.api.answers import said
from proxy.api.asking import Caller, body_as, caller_of, holder_for, id_in_path, moment_in, parameters, require
from proxy.api.parts import OwnParts
from proxy.api.retrievals import KIND, Retrievals, Texts, opened
from proxy.api.schemas import ErrorBody
from proxy.api.schemas_replay import (
    IDS_MAX,
    DiffSaid,
    GoneMemory,
    GonePlaced,
    GoneSaid,
    ReplayAsked,
    ReplayedBlock,
    ReplaySaid,
)
from proxy.api.search_turns import SearchTurns
from proxy.api.tool_record import STATUS as TOOL_STATUS
from proxy.cutting import Cut, is_cut
from proxy.gated import require_readable
from proxy.identity import Ask, rfc3339
from proxy.prompt import edits_of
from proxy.rebuild import Placement, Rebuilt, Why, blocks_of, is_whole, placements_of, rebuilt, why_gone
from proxy.what_if import Asked, changed
from proxy.wire.chat_request import ChatRequest

NOT_IDENTICAL: Final = (
    "what was sent has another digest: its tenant's cache_salt was rotated more often since than is tried, or it was "
    "placed by another version of the proxy"
)
_NO_WORKING: Final = "the lines of the working context were of that moment and are not made again"
_NO_STYLE: Final = "the style that a header asked for in words of ours is not asked for again"
_NO_PROMPT: Final = "this was a tool's call: nothing was placed in a prompt, and nothing would be"
_NO_OWED: Final = (
    "what was said because something in the conversation had been replaced, or was not sent any more, is not said again"
)
_NO_LEDGER: Final = "a block of an earlier turn that holds a memory left out is left out whole"


@dataclass(frozen=True, slots=True)
class Kept:
    """An answer whose parts are all there, rebuilt."""

    record: RetrievalRecord
    captured: Captured
    chat: ChatRequest
    placed: tuple[Placement, ...]
    made: Rebuilt
    cut: Cut | None = None

    @property
    def identical(self) -> bool:
        """Whether the rebuilt bytes are those that went."""
        return self.made.sha256 == self.record.sha256_sent

    @property
    def cut_before(self) -> Cut | None:
        """What had been cut out of the conversation by an earlier request."""
        return None if self.record.reason == "overflow" and self.record.status != "degraded" else self.cut


@dataclass(frozen=True, slots=True)
class Lost:
    """An answer that cannot be rebuilt."""

    record: RetrievalRecord
    why: Why
    words: str


class Replay:
    """The handler of replays."""

    def __init__(self, parts: OwnParts, retrievals: Retrievals, turns: SearchTurns) -> None:
        self._parts = parts
        self._turns = turns
        self._retrievals = retrievals

    async def show(self, request: web.Request) -> web.Response:
        """The body of an answer, or what it would have been."""
        caller = self._caller(request)
        given = parameters(request, ("as_of", "without"))
        asked = ReplayAsked(as_of=moment_in(given, "as_of"), without=_ids(given.get("without"))) if given else None
        return await self._answer(request, caller, asked)

    async def ask(self, request: web.Request) -> web.Response:
        """What the body would have been, under another configuration too."""
        caller = self._caller(request)
        parameters(request, ())
        asked = await body_as(request, ReplayAsked)
        changed(self._parts.what_if.settings, asked.config)  # refused before anything is read
        return await self._answer(request, caller, asked)

    def _caller(self, request: web.Request) -> Caller:
        caller = caller_of(request, self._parts.door, "trace:read")
        require(caller.credential, "memory:read:own")
        return caller

    async def _answer(self, request: web.Request, caller: Caller, asked: ReplayAsked | None) -> web.Response:
        record = await self._retrievals.found(caller.scope, id_in_path(request, KIND), caller.now)
        holder = await holder_for(caller, self._parts.keys)
        require_readable(holder, Item(caller.scope.tenant, Sensitivity.PUBLIC, session_id=record.session_id), KIND)
        kept = await self._kept(caller, holder, record)
        if isinstance(kept, Lost):
            seen, _ = await self._retrievals.let_through(caller.scope, holder, record, Texts("expired"))
            return said(_gone(replace(kept, record=seen)), Gone.status)
        if asked is None:
            return said(_replayed(kept))
        return said(await self._what_if(caller, holder, kept, asked))

    async def _kept(self, caller: Caller, holder: Holder, record: RetrievalRecord) -> Kept | Lost:
        """The answer rebuilt, or why it cannot be. Raises NotFound for what the caller may not see."""
        scope, keys = caller.scope, self._parts.keys
        try:
            exchange = await self._parts.records.sealed_exchange(scope, record.exchange_id)
        except NotFound:
            return Lost(record, "erased", "its exchange was erased with what was forgotten")
        if (gone := why_gone(record, exchange, caller.now, self._parts.retention)) is not None:
            return Lost(record, *gone)
        texts = await opened(keys, scope, record)
        captured = await self._captured(scope, exchange, exchange.sealed or b"")
        if captured is None or texts.state != "available":
            return Lost(record, "key", "the key that seals its parts is gone")
        seen, _ = await self._retrievals.let_through(scope, holder, record, texts)
        await self._require_all(scope, holder, record, seen)
        await self._note_shared(caller, record)
        placed = placements_of(record, texts.blocks)
        salts = await keys.salt_keys(scope.tenant)
        cut = Cut(*texts.left_out) if texts.left_out else None

        def rebuild() -> Kept:
            chat = ChatRequest.parse(captured.request)
            made = rebuilt(chat, blocks_of(placed), salts, record.sha256_sent, cut)
            return Kept(record, captured, chat, placed, made, cut)

        try:
            made = await off_loop(len(captured.request), rebuild)
        except ValueError:  # a block at a message that takes none, or no JSON: these are not the bytes that came
            return Lost(record, "not_whole", "the kept request does not take the blocks that were placed in it")
        if not is_whole(captured, identical=made.identical):
            return Lost(record, "not_whole", "the request was too large to be kept whole: its data URLs are digests")
        return made

    async def _captured(self, scope: Scope, exchange: SealedExchange, sealed: bytes) -> Captured | None:
        """The exchange as it was captured; None where no key opens it."""
        keys = self._parts.keys
        try:
            return await kept_exchange(
                keys, scope.tenant, exchange.subject_id, exchange.exchange_id, sealed, exchange.base
            )
        except EnvelopeUnreadable:
            return None

    async def _require_all(self, scope: Scope, holder: Holder, record: RetrievalRecord, seen: RetrievalRecord) -> None:
        """A body is shown whole or not at all: every block of it, and the conversation that it quotes."""
        if holder.capabilities is None:
            return
        labels = await self._parts.records.session_labels(scope, record.session_id)
        highest = derived_sensitivity(map(Sensitivity, labels)) if labels else Sensitivity.PUBLIC
        require_readable(holder, Item(scope.tenant, highest, session_id=record.session_id), KIND)
        if len(seen.placements) != len(record.placements):
            raise NotFound("there is no such retrieval in this scope")

    async def _note_shared(self, caller: Caller, record: RetrievalRecord) -> None:
        """Leave an audit row of what is seen in a wider scope than the caller's own."""
        ids = [UUID(one) for placement in record.placements for one in placement["memory_ids"]]
        labels = await self._parts.records.memory_labels(caller.scope, ids) if ids else {}
        self._note(caller, {one: label.visibility for one, label in labels.items()})

    def _note(self, caller: Caller, seen: Mapping[UUID, Visibility]) -> None:
        crossed = [one for one, visibility in seen.items() if visibility in ("project", "tenant")]
        if crossed:
            self._parts.journal.note(caller.scope.tenant, caller.actor, "read.shared", why="replay", ids=crossed)

    async def _what_if(self, caller: Caller, holder: Holder, kept: Kept, asked: ReplayAsked) -> ReplaySaid:
        without = frozenset(UUID(one) for one in asked.without)
        position = kept.chat.newest_user
        stood = [one for one in kept.placed if one.kept or one.position != position]
        left = [one for one in stood if without.isdisjoint(map(UUID, one.memory_ids))]
        before = asked.in_prompt if asked.in_prompt is not None else [i for one in left for i in one.memory_ids]
        question = Asked(
            as_of=min(asked.as_of or _moment_of(kept), caller.now),
            without=without,
            config=asked.config,
            in_prompt=frozenset(map(UUID, before)),
            contained=await self._contained(caller, kept),
            cut=kept.cut,
            sent_from=kept.cut_before.upto if kept.cut_before else 0,
        )
        ask = replace(caller.ask, budget=_budget(caller.ask, kept.chat))
        restored = await self._restored(caller, holder, kept, question)
        async with self._turns.turn(caller.scope):
            recall, block = await self._parts.what_if.block(
                kept.captured, kept.chat, question, ask=ask, holder=holder, now=caller.now, restored=restored
            )
        seen = {one.memory_id: one.visibility for one in recall.candidates}
        self._note(caller, {one: seen[one] for one in block.memory_ids})
        placed = list(left)
        if block.text and position is not None and position not in {one.position for one in left}:
            placed.append(Placement(position, block.text, block.tokens, tuple(map(str, block.memory_ids)), kept=False))
        body = await off_loop(
            len(kept.captured.request), lambda: edits_of(kept.chat, kept.made.salt, blocks_of(placed), kept.cut)
        )
        made = replace(kept.made, body=body, sha256=_sha256(body))
        notes = [_NO_WORKING] if any(one["kind"] == "working" for one in kept.record.candidates) else []
        if any(one.get("injected") and one["why"] in (REPLACES, DROPPED) for one in kept.record.candidates):
            notes.append(_NO_OWED)
        if len(left) != len(stood):
            notes.append(_NO_LEDGER)
        if any(is_words(UUID(one["id"])) for one in kept.record.candidates):
            notes.append(_NO_STYLE)
        if kept.record.status == TOOL_STATUS:
            notes.append(_NO_PROMPT)
        answer = _replayed(replace(kept, placed=tuple(placed), made=made))
        return answer.model_copy(
            update={
                "missing": None,
                "tokens_exact": self._parts.what_if.exact,
                "diff": _difference(kept.placed, placed),
                "notes": notes,
            }
        )

    async def _contained(self, caller: Caller, kept: Kept) -> UUID | None:
        """The conversation that the prompt held whole; None where its client may have sent only a part of it."""
        captured = kept.captured
        if captured.named or kept.cut_before is not None:
            return None
        key = await self._parts.keys.chain_key(caller.scope.tenant)
        messages = [one.value for one in kept.chat.messages]
        digests = await off_loop(len(captured.request), lambda: tuple(chain(key, messages)))
        return captured.session.session_id if digests == captured.digests else None

    async def _restored(self, caller: Caller, holder: Holder, kept: Kept, asked: Asked) -> tuple[Candidate, ...]:
        """What of a checkpoint the request was given, less what is left out, in the words of the moment asked about."""
        named = parts_placed(kept.record.candidates)
        left = [one for one in named if one.memory_id not in asked.without]
        if not left:
            return ()
        where = self._parts.what_if.where(asked, holder, caller.now)
        restorer = self._parts.checkpoints.restorer
        return await restorer.again(caller.scope, left, where, now=caller.now, as_of=asked.as_of)


def _replayed(kept: Kept) -> ReplaySaid:
    record = kept.record
    fresh = [one for one in kept.placed if not one.kept]
    return ReplaySaid(
        id=str(record.retrieval_id),
        exchange_id=str(record.exchange_id),
        created_at=record.created_at,
        request=kept.made.body.decode("utf-8"),
        sha256_sent=record.sha256_sent.hex(),
        sha256_rebuilt=kept.made.sha256.hex(),
        identical=kept.identical,
        missing=None if kept.identical else NOT_IDENTICAL,
        placed=[
            ReplayedBlock(
                position=_sent_at(kept, one.position),
                text=one.text,
                tokens=one.tokens,
                memory_ids=list(one.memory_ids),
                kept=one.kept,
            )
            for one in kept.placed
        ],
        block="".join(one.text for one in fresh) or None,
        position=_sent_at(kept, fresh[-1].position) if fresh else None,
        tokens=sum(one.tokens for one in kept.placed),
        tokens_exact=record.tokens_exact,
        diff=None,
        notes=[],
    )


def _sent_at(kept: Kept, position: int) -> int:
    """Where a message of the client's stands in what was sent, of which the oldest may have been left out."""
    return position - sum(is_cut(kept.chat, kept.cut, at) for at in range(position))


def _difference(before: Sequence[Placement], after: Sequence[Placement]) -> DiffSaid:
    """Of what was, and would be, newly placed."""
    old, new = ([one for one in blocks if not one.kept] for blocks in (before, after))
    old_ids, new_ids = (list(dict.fromkeys(i for one in blocks for i in one.memory_ids)) for blocks in (old, new))
    old_lines, new_lines = ("".join(one.text for one in blocks).splitlines() for blocks in (old, new))
    text = difflib.unified_diff(old_lines, new_lines, "placed", "would be placed", lineterm="")
    return DiffSaid(
        added=[one for one in new_ids if one not in old_ids],
        removed=[one for one in old_ids if one not in new_ids],
        kept=[one for one in old_ids if one in new_ids],
        text="\n".join(text),
    )


def _gone(lost: Lost) -> GoneSaid:
    record = lost.record
    return GoneSaid(
        error=ErrorBody(
            message=f"this answer cannot be rebuilt: {lost.words}",
            type="memory_proxy_error",
            param=None,
            code=Gone.code,
        ),
        id=str(record.retrieval_id),
        exchange_id=str(record.exchange_id),
        created_at=record.created_at,
        why=lost.why,
        sha256_sent=record.sha256_sent.hex(),
        placed=[
            GonePlaced(
                position=one["position"],
                sha256=one.get("sha256"),
                tokens=one["tokens"],
                memory_ids=list(one["memory_ids"]),
            )
            for one in record.placements
        ],
        memories=[
            GoneMemory(
                id=one["id"],
                version=one["version"],
                kind=one["kind"],
                score=one["score"],
                injected=bool(one.get("injected")),
            )
            for one in record.candidates
        ],
    )


def _sha256(body: bytes) -> bytes:
    return hashlib.sha256(body).digest()


def _moment_of(kept: Kept) -> datetime:
    """When the request asked: as of what it said itself, else when it came. What a header said is not kept."""
    said_itself = (kept.chat.memory or {}).get("as_of")
    return (rfc3339(said_itself) if isinstance(said_itself, str) else None) or kept.captured.arrived_at


def _budget(ask: Ask, chat: ChatRequest) -> int | None:
    """The cap that the request set itself, or that this call says in its place."""
    in_body = (chat.memory or {}).get("budget")
    return in_body if ask.budget is None and isinstance(in_body, int) and not isinstance(in_body, bool) else ask.budget


def _ids(raw: str | None) -> list[str]:
    """Ids with commas between them. Raises MemoryInvalid."""
    ids = raw.split(",") if raw else []
    if len(ids) > IDS_MAX:
        raise MemoryInvalid(f"without may name {IDS_MAX} memories", param="without")
    try:
        return [str(UUID(one.strip())) for one in ids]
    except ValueError:
        raise MemoryInvalid("without must be ids of memories with commas between them", param="without") from None
