"""The body that goes upstream: a request, its ledger and what was recalled in, edited bytes and a record of them out.

Has the ledger's blocks stand where they stood, builds the new block in the room there is (`proxy/room.py`), and puts it
before the client's text in the newest user message (DESIGN section 5). Touches nothing else. Pure.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Final
from uuid import UUID

from memory.assemble import NO_ROOM, STYLE, Block, build_block
from memory.chain import Digest, message_text
from memory.checkpoints import Restored
from memory.config import Settings
from memory.ids import is_words
from memory.model import Candidate, Entry, Placed, Reason, Recall, Retrieval, Rung, Shown, Status, Withdrawn
from memory.ports import Compressor, ContextRouter, TokenCounter
from memory.read.entries import print_of
from memory.read.ledger import Kept
from memory.read.lexical import in_a_text
from memory.read.restore import GIVEN_CHUNKS_MAX
from memory.read.working_lines import LINES_MAX
from policies.labels import Sensitivity, derived_sensitivity
from proxy.cutting import Cut, is_cut
from proxy.made import Made, made_of
from proxy.room import Room
from proxy.wire.chat_request import ChatRequest

# A rolling summary has 8 sentences at most (summary.sentences_max); one that is longer is told in an excerpt.
SUMMARY_TOKENS_MAX: Final = 1000
# So many characters that stand in a message say there what they say as a memory; fewer may be a part of anything.
SAID_CHARS_MIN: Final = 40
# A persona by its name, and facets beside it.
PERSONA_ITEMS_MAX: Final = 2
NOTHING_RESTORED: Final = Restored()


@dataclass(frozen=True, slots=True)
class Prompt:
    """A body to send, its SHA-256, and what is to be said of it. `placed`: every block in it, `block`: the new one;
    `gave_way`: those that stood there before and have no room now."""

    body: bytes
    sha256: bytes
    status: Status
    reason: Reason | None
    rung: Rung
    block: Block | None
    candidates: tuple[Candidate, ...]
    placed: tuple[Placed, ...] = ()
    withdrawn: tuple[Withdrawn, ...] = ()
    cut: Cut | None = None
    cuts: bool = False  # from this request on
    cut_mark: bytes | None = None  # where the branches of the conversation are cut, this one among them
    restored: bytes | None = None  # the mark of the load that it was given
    gave_way: tuple[Placed, ...] = ()
    fits: bool = True  # else the request is too long by itself: what it was given says nothing of the next one
    made: Made | None = None  # what `block` and `candidates` are of, where something of the memory is in it

    @property
    def count(self) -> int:
        """Memories newly placed."""
        return sum(len(one.new_ids) for one in self.placed)

    @property
    def kept(self) -> int:
        """Memories that stand again."""
        return sum(len(one.memory_ids) for one in self.placed) - self.count

    @property
    def tokens(self) -> int:
        """Memory tokens in the whole prompt."""
        return sum(one.tokens for one in self.placed)

    @property
    def newly_placed(self) -> tuple[Placed, ...]:
        """The blocks that did not stand there before: one, and one more where a part of the conversation was cut."""
        return tuple(one for one in self.placed if not one.kept)


@dataclass(frozen=True, slots=True)
class Rules:
    """How a block is made, the same for every request of a process."""

    limits: Mapping[str, int]
    counter: TokenCounter
    router: ContextRouter
    compressor: Compressor

    def block(
        self,
        candidates: Sequence[Candidate],
        terms: Mapping[str, float],
        budget_tokens: int,
        standing: Set[UUID] = frozenset(),
    ) -> Block:
        """The block of these candidates; `standing` memories are in the conversation already."""
        return build_block(
            candidates,
            terms=terms,
            budget_tokens=budget_tokens,
            limits=self.limits,
            counter=self.counter,
            router=self.router,
            compressor=self.compressor,
            standing=standing,
            worded=in_a_text,
        )


def limits_of(settings: Settings) -> dict[str, int]:
    """The most items of each tier of a block."""
    return {
        "episodes": settings.recall.episodes_max,
        "facts": settings.recall.facts_max,
        "procedures": settings.recall.procedures_max,
        "tasks": settings.recall.tasks_max,
        "replay": settings.session.replay_turns,
        "working": LINES_MAX,
        "checkpoint": settings.checkpoint.parts_max,
        "given": GIVEN_CHUNKS_MAX,
        "persona": PERSONA_ITEMS_MAX,
    }


def edits_of(chat: ChatRequest, salt: str | None, blocks: Mapping[int, str], cut: Cut | None = None) -> bytes:
    """The body with our edits: blocks in, `memory` out, the tenant's salt set, what does not fit left out."""
    left_out = (cut.start, cut.upto) if cut else None
    return chat.edited(blocks, drop_memory=True, cache_salt=salt, left_out=left_out)


def assemble(
    chat: ChatRequest,
    recall: Recall,
    kept: Kept,
    room: Room,
    rules: Rules,
    *,
    chain: Digest | None,
    retrieval_id: UUID,
    salt: str | None,
    may_place: bool = True,
    opens: bool = False,
    cut: Cut | None = None,
    cuts: bool = False,
    restored: Restored = NOTHING_RESTORED,
) -> Prompt:
    """Have the ledger's blocks stand where they stood, and put the block of what was recalled into the newest user
    message, unless the ledger has decided about that one already. `chain` is that message's digest. `may_place` False:
    the model has gone on from that message without it. `opens`: there is no answer yet in the conversation, so what was
    decided at an earlier attempt gives way to what is known now, where that says more. `cut` does not fit and is not
    sent; `cuts`: from now on. `restored` comes before what is owed and what was recalled.
    """
    blocks = {at: one for at, one in kept.blocks.items() if at not in (*room.give_way, *room.left_out)}
    gone = (*kept.withdrawn, *(Withdrawn(kept.blocks[at].chain, "overflow") for at in room.give_way))
    position = chat.newest_user
    candidates = recall.candidates
    before = blocks.get(position) if position is not None else None
    open_to_new = may_place and chat.placeable and (opens or position not in kept.known)
    if open_to_new:
        candidates = each_once((*restored.candidates, *kept.owed, *candidates))
    others = (placed for at, placed in blocks.items() if not opens or at != position)
    standing = frozenset(one for placed in others for one in placed.memory_ids) - _outdated(candidates, blocks)
    standing |= _said(candidates, chat, cut) if open_to_new else frozenset()
    make = partial(rules.block, candidates, recall.terms, room.budget, standing)
    made = made_of(recall, candidates, room.budget, standing, make)
    block = made.block
    reason = "overflow" if cuts else _reason(recall, kept, room, block, restored)
    if block.text and open_to_new and position is not None and chain is not None and not _says_no_more(block, before):
        blocks[position] = Placed(position, chain, entry_of(block, retrieval_id), anew=opens)
    else:
        block = Block("", 0, (), block.left_out)
    if not blocks:
        status: Status = "degraded" if reason and not candidates else "empty"
        bare = bare_prompt(chat, candidates, status, reason, recall.rung, salt, cut)
        return replace(bare, withdrawn=gone, gave_way=_no_room(kept, room, blocks), cuts=cuts, fits=room.fits)
    placed = tuple(blocks[at] for at in sorted(blocks))
    renewed = {one.chain for one in placed if not one.kept}  # another block stands there from now on
    body = edits_of(chat, salt, {one.position: one.text for one in placed}, cut)
    return Prompt(
        body=body,
        sha256=hashlib.sha256(body).digest(),
        status="injected",
        reason=reason,
        rung=recall.rung if block.text or recall.rung != "none" else "ledger",
        block=block,
        candidates=made.candidates,
        placed=placed,
        withdrawn=tuple(one for one in gone if one.chain not in renewed),
        cut=cut,
        cuts=cuts,
        gave_way=_no_room(kept, room, blocks),
        fits=room.fits,
        made=made,
    )


def _no_room(kept: Kept, room: Room, blocks: Mapping[int, Placed]) -> tuple[Placed, ...]:
    """The blocks that stood and have to go, but for what another one stands for."""
    gone = (kept.blocks[at] for at in (*room.give_way, *room.left_out) if at not in blocks)
    return tuple(one for one in gone if one.kept)


def _said(candidates: Sequence[Candidate], chat: ChatRequest, cut: Cut | None) -> frozenset[UUID]:
    """What was recalled and is said by the request itself, word for word: told by another conversation of the same
    words, or by what its client sends otherwise than it was stored. A few words must be all of a message.
    """
    recalled = [(one.memory_id, one.content.strip()) for one in candidates if one.admitted and not one.section]
    if not recalled:
        return frozenset()
    sent = [view.value for at, view in enumerate(chat.messages) if not is_cut(chat, cut, at)]
    texts = frozenset(text for message in sent for text in _as_quoted(message))
    whole = "\n".join(texts)
    return frozenset(
        memory_id for memory_id, said in recalled if said in texts or (len(said) >= SAID_CHARS_MIN and said in whole)
    )


def _as_quoted(message: object) -> tuple[str, ...]:
    """The text of a message as memory would quote it: under the name of who spoke, too."""
    text = message_text(message).strip()
    name = message.get("name") if isinstance(message, Mapping) else None
    return (text, f"{name}: {text}") if isinstance(name, str) else (text,)


def _outdated(candidates: Sequence[Candidate], blocks: Mapping[int, Placed]) -> frozenset[UUID]:
    """What stands and is said again: the style asked for, where another was since, for the later holds; and what was
    worded otherwise since, where the ledger looked at an index of before that.
    """
    return _style_again(candidates, blocks) | _reworded(candidates, blocks)


def _reworded(candidates: Sequence[Candidate], blocks: Mapping[int, Placed]) -> frozenset[UUID]:
    """Those that stand in other words, of an earlier version; not summaries: what these told is as true as it was."""
    now = {one.memory_id: one for one in candidates if one.kind != "summary" and not is_words(one.memory_id)}
    earlier, same = set[UUID](), set[UUID]()
    for shown in (shown for placed in blocks.values() for shown in placed.entry.shown if shown.memory_id in now):
        one = now[shown.memory_id]
        is_same = shown.version >= one.version or shown.fingerprint == print_of(one.content)
        (same if is_same else earlier).add(one.memory_id)
    return frozenset(earlier - same)


def _style_again(candidates: Sequence[Candidate], blocks: Mapping[int, Placed]) -> frozenset[UUID]:
    style = frozenset(one.memory_id for one in candidates if one.section == "persona")
    styled = [at for at in sorted(blocks) if STYLE in blocks[at].text]
    if not style or not styled or style <= frozenset(blocks[styled[-1]].memory_ids):
        return frozenset()
    return style


def each_once(candidates: Sequence[Candidate]) -> tuple[Candidate, ...]:
    """The candidates, of each memory the first."""
    first: dict[UUID, Candidate] = {}
    for one in candidates:
        first.setdefault(one.memory_id, one)
    return tuple(first.values())


def _says_no_more(block: Block, before: Placed | None) -> bool:
    """Whether all that a block would say is said by the one of an earlier attempt."""
    return before is not None and set(block.memory_ids) <= set(before.memory_ids)


def entry_of(block: Block, retrieval_id: UUID) -> Entry:
    """A new block as the ledger keeps it."""
    return Entry(
        text=block.text,
        tokens=block.tokens,
        shown=tuple(Shown(one.memory_id, one.version, print_of(one.content)) for one in block.taken),
        sensitivity=derived_sensitivity(Sensitivity(one.sensitivity) for one in block.taken).value,
        retrieval_id=retrieval_id,
    )


def summed_up(
    position: int,
    chain: Digest,
    summary: Sequence[Candidate],
    before: Placed | None,
    rules: Rules,
    retrieval_id: UUID,
    tokens_max: int,
) -> Placed | None:
    """The block of a message that has become the first that is sent: what came before it, in so many tokens at most,
    then what stood there.
    """
    block = rules.block(summary, {}, tokens_max)
    if not block.text:
        return before
    entry = entry_of(block, retrieval_id)
    if before is None:
        return Placed(position, chain, entry, anew=True)
    old = before.entry
    both = Entry(
        text=entry.text + old.text,
        tokens=entry.tokens + old.tokens,
        shown=(*entry.shown, *old.shown),
        sensitivity=derived_sensitivity(map(Sensitivity, (entry.sensitivity, old.sensitivity))).value,
        retrieval_id=retrieval_id,
    )
    return Placed(position, chain, both, anew=True, stood=len(old.shown), stood_tokens=old.tokens)


def _reason(recall: Recall, kept: Kept, room: Room, block: Block, restored: Restored) -> Reason | None:
    """What kept this prompt from all that it might have had."""
    if restored.fault is not None:
        return restored.fault
    if any(block.left_out.get(one.memory_id) == NO_ROOM for one in restored.candidates):
        return "ledger"
    if kept.fault or room.give_way:
        return "ledger"
    if room.full and room.fits and not block.text and any(one.admitted for one in recall.candidates):
        return "ledger"
    return recall.reason


def bare_prompt(
    chat: ChatRequest,
    candidates: tuple[Candidate, ...],
    status: Status,
    reason: Reason | None,
    rung: Rung,
    salt: str | None,
    cut: Cut | None = None,
) -> Prompt:
    """The prompt without any block."""
    body = edits_of(chat, salt, {}, cut)
    return Prompt(body, hashlib.sha256(body).digest(), status, reason, rung, None, candidates, cut=cut)


def retrieval_record(
    prompt: Prompt,
    *,
    retrieval_id: UUID,
    query: str,
    config_digest: str,
    model: str,
    exact: bool,
    millis: float,
    now: datetime,
    apart: bool = False,
) -> Retrieval:
    """The record of what this request was given; `apart`: it was asked as of another moment."""
    made = prompt.made or Made(prompt.candidates, prompt.block or Block("", 0, (), {}))
    placed = frozenset(prompt.block.memory_ids if prompt.block else ())
    return Retrieval(
        retrieval_id=retrieval_id,
        status=prompt.status,
        reason=prompt.reason,
        rung=prompt.rung,
        config_digest=config_digest,
        embedding_model=model,
        query=query,
        candidates=made.records(placed),
        placed=prompt.placed,
        tokens=prompt.tokens,
        tokens_exact=exact,
        millis=millis,
        sha256_sent=prompt.sha256,
        created_at=now,
        withdrawn=prompt.withdrawn,
        left_out=(prompt.cut.start, prompt.cut.upto) if prompt.cut else None,
        cut=prompt.cut_mark,
        apart=apart,
        restored=prompt.restored,
    )
