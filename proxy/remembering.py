"""Memory for one request: what is asked in, its conversation, its ledger, what was recalled and the prompt out.

`remember` reads, inside the deadline and from a rung of the ladder down; `assemble` makes the body that goes upstream;
`note` has the ledger say what stands where. Memory fails open: none of them raises for a store, an embedder or a queue
that is away. Forwards nothing and keeps no exchange.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from time import perf_counter
from typing import Any, Final
from uuid import UUID

from memory.bounded import bounded_at, unheard
from memory.chain import Digest
from memory.checkpoints import Restored
from memory.config import Settings
from memory.keys import KeyRing
from memory.model import Entry, Recall, Rung, Vector, Withdrawn
from memory.off_loop import off_loop
from memory.passage import lap
from memory.read.chains import ChainsAtHand
from memory.read.conversation import (
    CUT,
    GIVEN,
    RESTORE,
    Conversation,
    Conversations,
    Marks,
    newest_cut,
)
from memory.read.hot import HotScopes
from memory.read.items import PAST, Filter
from memory.read.ledger import Kept, Ledgers
from memory.read.personas import Personas
from memory.read.recall import Question, Recaller
from memory.read.restore import WHY, InPrompt, Restorer, given_in_time, restored_in_time, styled_in_time
from memory.read.working import WorkingContexts
from memory.read.working_lines import affordable, with_working
from policies.labels import Sensitivity
from proxy.asked import Asked, Remembered
from proxy.capture import Capture
from proxy.gated import let_through, sees, within
from proxy.prompt import NOTHING_RESTORED, Prompt, Rules, assemble
from proxy.room import ServedModels, block_max, room_for
from proxy.shortening import Shortening
from proxy.wire.chat_request import ChatRequest

RECALLED_KINDS: Final = frozenset({"episodic", "semantic", "procedural", "document", PAST})


@dataclass(frozen=True, slots=True)
class MemoryParts:
    """What memory is read with; built where the program is wired."""

    settings: Settings
    keys: KeyRing
    conversations: Conversations
    hot: HotScopes
    recaller: Recaller
    restorer: Restorer
    personas: Personas
    ledgers: Ledgers
    rules: Rules
    models: ServedModels
    working: WorkingContexts | None
    capture: Capture


class Remembering:
    """Reads memory for requests. One per process."""

    def __init__(self, parts: MemoryParts) -> None:
        self._parts = parts
        settings = parts.settings
        self._deadline_s = settings.recall.deadline_ms / 1000
        self._look_up_s = min(settings.ledger.deadline_ms / 1000, self._deadline_s / 2)
        ceiling = settings.upstream.sensitivity_max
        self._where = Filter(kinds=RECALLED_KINDS, ceiling=Sensitivity(ceiling) if ceiling else None)
        self._chains = ChainsAtHand()
        self._shortening = Shortening(settings, parts.models, parts.ledgers, parts.rules, self._where)

    async def remember(self, asked: Asked, chat: ChatRequest, rung: Rung) -> Remembered:
        """The conversation, what its ledger keeps, what a checkpoint restores and what memory has to say, all inside
        the deadline and from `rung` down. Raises NotFound for a checkpoint that is not there, and nothing else. What
        was begun for it and is not done ends with it, also where its client leaves.
        """
        under_way: list[asyncio.Future[Any]] = []
        try:
            return await self._remembered(asked, chat, rung, under_way)
        finally:
            for one in under_way:
                one.cancel()

    async def _remembered(
        self, asked: Asked, chat: ChatRequest, rung: Rung, under_way: list[asyncio.Future[Any]]
    ) -> Remembered:
        parts, scope = self._parts, asked.ask.scope
        drops = parts.ledgers.drops(scope.tenant)
        query = chat.query_text if asked.inserts_new and chat.placeable else ""
        searches = bool(query) and rung not in ("ledger", "none")
        finding = asyncio.create_task(self._conversation(asked, chat))
        under_way.append(finding)
        await asyncio.sleep(0)  # Redis is asked, and answers, before the vector takes a processor for some ms
        searched = parts.recaller.searched_by(query, chat.earlier_texts) if query else ""
        embedding = await self._embedding(searched, rung) if searches else None
        if embedding is not None:
            under_way.append(embedding)
        if searches and asked.ask.as_of is None:
            parts.hot.confirm(scope)
        conversation = await finding
        lap("find")
        restored = await self._restored(asked, chat, conversation, marks_of(conversation), rung)
        keeping = self._keeping(asked, chat, conversation) if rung != "none" else None
        if keeping is not None:
            under_way.append(keeping)
        shed = rung == "none" and self._reads_ledger(asked) and not conversation.opens
        has = Remembered(conversation, Kept(), Recall(reason="overload" if shed else None), restored, drops)
        if not query or self._has_decided(asked, chat, conversation):
            return await self._kept_too(asked, chat, has, keeping, rung)
        holder = asked.holder(conversation.session.session_id)
        replay = self._replay(asked, conversation)
        where = within(self._where, holder)
        working = None if where.ceiling is Sensitivity.PUBLIC else parts.working  # what it tells is internal
        reading = working.start(scope, replay[0]) if replay and working else None
        summarises = self._shortening.wanted(asked)
        question = Question(
            scope=scope,
            text=query,
            searched=searched,
            k=parts.settings.recall.candidates_max,
            now=asked.arrived_at,
            where=replace(where, exclude_session_id=_contained(conversation, summarises)),
            known_chains=_sent(conversation, summarises),
            announced=conversation.announced,
            as_of=asked.ask.as_of,
            skip_repeats=True,
            replay=replay,
            rung=rung,
        )
        if rung in ("ledger", "none"):
            known = parts.recaller.known(question)
            recall = Recall(rung=rung, reason="overload") if known is None else let_through(known, holder)
            return await self._kept_too(asked, chat, replace(has, recall=recall), keeping, rung)
        if embedding is not None:
            under_way.remove(embedding)  # its search ends it, which others may share
        recall = await parts.recaller.recall(question, embedding, self._left_s(asked))
        recall = await with_working(recall, reading, self._left_s(asked))
        recall = let_through(recall, holder)
        restored = await self._styled(asked, conversation, question, restored)
        return await self._kept_too(asked, chat, replace(has, recall=recall, restored=restored), keeping, rung)

    async def _embedding(self, searched: str, rung: Rung) -> asyncio.Future[Vector] | None:
        """The question's vector, under way; by words alone only where it is at hand, since that costs nothing."""
        recaller = self._parts.recaller
        return recaller.at_hand(searched) if rung == "lexical" else await recaller.embed(searched)

    async def _styled(
        self, asked: Asked, conversation: Conversation, question: Question, restored: Restored
    ) -> Restored:
        """With how the user likes answers to be, where a conversation opens and no style is asked for."""
        named = asked.ask.persona is not None or any(one.section == "persona" for one in restored.candidates)
        begins = conversation.opens or conversation.is_new  # a front-end may open with words of the assistant's
        if named or not begins or asked.ask.as_of is not None:
            return restored
        most = self._parts.settings.preferences.style_notes_max
        styles = await self._parts.recaller.styles(question, most, self._left_s(asked))
        return replace(restored, candidates=(*restored.candidates, *styles)) if styles else restored

    async def _kept_too(
        self, asked: Asked, chat: ChatRequest, has: Remembered, keeping: asyncio.Task[Kept] | None, rung: Rung
    ) -> Remembered:
        """With what the ledger keeps; where Redis has lost it, the store may know of a checkpoint that was loaded. Of a
        conversation that nobody could name in time it is not known what is to stand in it.
        """
        found, restored = has.conversation, has.restored
        kept = await self._parts.ledgers.in_time(keeping, self._left_s(asked))
        if found.fault and not found.named and not found.opens and self._reads_ledger(asked):
            kept = replace(kept, fault=True)
        marks = marks_of(found)
        known = asked.ask.checkpoint is not None or RESTORE in found.ledger
        lost = Marks(marks.restore if known else kept.restore, marks.given or kept.given)
        if lost != marks:
            restored = _styled_as(restored, await self._restored(asked, chat, found, lost, rung))
        return replace(has, kept=kept, restored=restored)

    async def _restored(
        self, asked: Asked, chat: ChatRequest, conversation: Conversation, marks: Marks, rung: Rung
    ) -> Restored:
        """What the checkpoint that is named, else the one loaded for this message, gives this prompt, and the documents
        that its conversation was given. NotFound.
        """
        ask, name = asked.ask, asked.ask.checkpoint
        mark, given = (marks.restore, marks.given) if ask.as_of is None else (None, False)
        if not (name or mark or given or ask.persona) or not asked.inserts_new or rung == "none" or not chat.placeable:
            return NOTHING_RESTORED
        if self._has_decided(asked, chat, conversation):
            return NOTHING_RESTORED
        session = conversation.session.session_id
        holder = asked.holder(session)
        where, whole = within(self._where, holder), _in_prompt(conversation, self._shortening.wanted(asked))
        restorer, now, restored = self._parts.restorer, asked.arrived_at, NOTHING_RESTORED
        if name is not None:
            reading = restorer.of(ask.scope, name, where, now=now, as_of=ask.as_of, in_prompt=whole)
            restored = await restored_in_time(reading, self._left_s(asked))
        elif mark:
            reading = restorer.pending(ask.scope, mark, where, now=now, in_prompt=whole)
            restored = await restored_in_time(reading, self._left_s(asked))
        if given:
            budget = self._parts.settings.recall.budget_tokens_max
            found = restorer.given(ask.scope, session, where, now=now, budget_tokens=budget)
            restored = await given_in_time(restored, found, self._left_s(asked))
        if ask.persona is None:
            return restored
        style = self._parts.personas.of(ask.scope, ask.persona, where, now, seen=partial(sees, holder))
        return await styled_in_time(restored, style, self._left_s(asked))

    def _left_s(self, asked: Asked) -> float:
        """Seconds until the deadline; a moment for what is there already."""
        return max(self._deadline_s - (perf_counter() - asked.started), 0.001)

    def _keeping(self, asked: Asked, chat: ChatRequest, conversation: Conversation) -> asyncio.Task[Kept] | None:
        """The reading of the conversation's ledger, under way; None where this request has none to do with it."""
        if not self._reads_ledger(asked):
            return None
        places = chat.places(conversation.digests)
        if conversation.named and conversation.opens:  # the same words again are another turn, not another attempt
            places = {}
        where = within(self._where, asked.holder(conversation.session.session_id))
        newest = None if chat.has_gone_on else chat.newest_user
        work = self._parts.ledgers.kept(asked.ask.scope, conversation, places, newest, where, asked.arrived_at)
        keeping = asyncio.create_task(work)
        keeping.add_done_callback(unheard)
        return keeping

    @staticmethod
    def _reads_ledger(asked: Asked) -> bool:
        """Whether what was placed before is to stand in the prompt again."""
        return asked.ask.inserts and asked.ask.as_of is None

    def _has_decided(self, asked: Asked, chat: ChatRequest, conversation: Conversation) -> bool:
        """Whether it is known already what stands in the newest user message: it was sent before, or the model went on
        from it, and what would be placed there now would change what it has read. That it was sent before, `as_of`
        does not read.
        """
        newest = chat.newest_user
        if newest is None:
            return False
        if chat.has_gone_on and not conversation.is_new:
            return True
        if conversation.opens or asked.ask.as_of is not None:
            return False
        return conversation.digests[newest] in conversation.ledger

    def _replay(self, asked: Asked, conversation: Conversation) -> tuple[UUID, int] | None:
        """The session whose last turns are to be quoted, and how many: its client named it and sent no answer of it."""
        turns = self._parts.settings.session.replay_turns
        if not turns or asked.ask.session is None or not conversation.opens or asked.ask.as_of is not None:
            return None
        if self._where.ceiling is Sensitivity.PUBLIC:  # what a working context holds is internal; never more
            return None
        return conversation.session.session_id, turns

    async def _conversation(self, asked: Asked, chat: ChatRequest) -> Conversation:
        parts, scope = self._parts, asked.ask.scope
        chain_key = await parts.keys.chain_key(scope.tenant)
        digests = tuple(await off_loop(len(asked.body), partial(self._chain, chain_key, chat)))
        known = (scope, chain_key, asked.ask.session, chat.said, digests, parts.hot.known_scope_ids(scope))
        try:
            async with bounded_at(asyncio.get_running_loop().time() + self._look_up_s):
                return await parts.conversations.find(*known)
        except TimeoutError:
            return parts.conversations.unrecognised(*known)

    def _chain(self, chain_key: bytes, chat: ChatRequest) -> list[Digest | None]:
        places = [(view.start, view.end) for view in chat.messages]
        return self._chains.of(chain_key, chat.text, places, chat.said)

    async def assemble(self, asked: Asked, chat: ChatRequest, has: Remembered) -> Prompt:
        """The body that goes upstream, with what stands and what is new in it."""
        parts, wanted = self._parts, 0
        conversation, recall = has.conversation, has.recall
        may_place = not self._has_decided(asked, chat, conversation)
        cutting = await self._shortening.cutting(asked, chat, conversation, has.kept)
        open_to_new, left_s = chat.placeable and may_place, self._left_s(asked)
        kept = await self._shortening.behind(asked, chat, has, cutting, open_to_new=open_to_new, left_s=left_s)
        cut, restored = cutting.cut, has.restored
        if kept.owed or restored.candidates or any(candidate.admitted for candidate in recall.candidates):
            most, cap = block_max(parts.settings, restored.candidates), asked.placed_tokens_max
            new = sum(one.new_tokens for one in kept.blocks.values())
            wanted = most if cap is None else max(0, min(most, cap - new))
        room = await room_for(chat, wanted, kept, parts.settings.ledger.tokens_max_share, parts.models, cut)
        newest = chat.newest_user
        work = partial(
            assemble,
            chat,
            affordable(recall, room.budget, parts.rules.counter.count),
            kept,
            room,
            parts.rules,
            chain=conversation.digests[newest] if newest is not None else None,
            retrieval_id=asked.retrieval_id,
            salt=asked.salt,
            may_place=may_place,
            opens=conversation.opens,
            cut=cut,
            cuts=cutting.is_new,
            restored=restored,
        )
        prompt = await off_loop(len(asked.body), work)
        given = self._given_now(has, prompt)
        if cutting.mark is None and given is None:
            return prompt
        return replace(prompt, cut_mark=cutting.mark, restored=given)

    def note(self, asked: Asked, chat: ChatRequest, has: Remembered, prompt: Prompt) -> list[asyncio.Task[None]]:
        """Have the ledger say what stands where: begun before the prompt goes upstream, done before the last byte."""
        conversation, kept, capture = has.conversation, has.kept, self._parts.capture
        noting: list[asyncio.Task[None]] = []
        if conversation.is_new:
            noting.append(capture.in_background(self._parts.ledgers.noted(self._opened(asked, conversation))))
        if not asked.ask.inserts or asked.ask.as_of is not None:
            return noting
        newest = chat.newest_user
        chain = conversation.digests[newest] if newest is not None else None
        entries: dict[Digest, Entry | None] = {one.chain: one.entry for one in prompt.newly_placed}
        undecided = chain is not None and chain not in entries and newest not in kept.known
        whole = prompt.reason is None and prompt.fits and asked.ask.budget != 0 and not chat.is_errand
        if chain is not None and undecided and whole and not self._has_decided(asked, chat, conversation):
            entries[chain] = None
        if has.restored.pending and self._is_placed(conversation, has.restored, prompt):
            work = self._parts.ledgers.mark_restore(asked.ask.scope, conversation.session.session_id, b"")
            noting.append(capture.in_background(self._parts.ledgers.noted(work)))
        if entries or kept.found or prompt.withdrawn or prompt.cuts:
            anew, cut = conversation.opens or prompt.cuts, prompt.cut_mark if prompt.cuts else None
            noting.append(self._say(asked, has, entries, prompt.withdrawn, anew=anew, cut=cut))
        return noting

    def _given_now(self, has: Remembered, prompt: Prompt) -> bytes | None:
        """The mark of a load that needs no placing any more, for the store to know, too: Redis forgets it was done."""
        if not has.restored.pending or not self._is_placed(has.conversation, has.restored, prompt):
            return None
        return has.conversation.ledger.get(RESTORE) or has.kept.restore

    @staticmethod
    def _is_placed(conversation: Conversation, restored: Restored, prompt: Prompt) -> bool:
        """Whether a checkpoint that was loaded needs no placing any more: what of it had no room is left out. At an
        opening what was decided may still give way to another attempt's block, unless the client names its session:
        then each message opens anew.
        """
        parts = {one.memory_id for one in restored.candidates if one.why == WHY}
        said = not parts or any(not parts.isdisjoint(one.memory_ids) for one in prompt.placed)
        return said and (conversation.named or not conversation.opens)

    async def _opened(self, asked: Asked, conversation: Conversation) -> None:
        """Have the same opening recognised while this one is not answered yet: an impatient client sends it again."""
        chain_key = await self._parts.keys.chain_key(asked.ask.scope.tenant)
        await self._parts.conversations.remember(asked.ask.scope, chain_key, conversation, [], {})

    def withdraw(self, asked: Asked, conversation: Conversation, withdrawn: Sequence[Withdrawn]) -> asyncio.Task[None]:
        """Have the ledger say what is never sent again."""
        return self._say(asked, Remembered(conversation, Kept(), Recall()), {}, withdrawn)

    def load_again(
        self, asked: Asked, conversation: Conversation, prompt: Prompt, noting: Sequence[asyncio.Task[None]]
    ) -> None:
        """Have what was loaded for this message wait for the next one, as soon as it is noted that it was given."""
        mark = prompt.restored
        if mark is None:
            return

        async def say() -> None:
            await asyncio.gather(*noting)
            await self._parts.ledgers.mark_restore(asked.ask.scope, conversation.session.session_id, mark)

        self._parts.capture.in_background(self._parts.ledgers.noted(say()))

    def _say(
        self,
        asked: Asked,
        has: Remembered,
        entries: Mapping[Digest, Entry | None],
        withdrawn: Sequence[Withdrawn],
        *,
        anew: bool = False,
        cut: bytes | None = None,
    ) -> asyncio.Task[None]:
        scope, session, found = asked.ask.scope, has.conversation.session, has.kept.found
        work = self._parts.ledgers.note(scope, session, entries, found, withdrawn, anew=anew, cut=cut, drops=has.drops)
        return self._parts.capture.in_background(self._parts.ledgers.noted(work))


def marks_of(conversation: Conversation) -> Marks:
    """What Redis says the conversation is to be given."""
    return Marks(conversation.ledger.get(RESTORE), bool(conversation.ledger.get(GIVEN)))


def _styled_as(before: Restored, restored: Restored) -> Restored:
    """What is restored with the style of before, unless it brings one."""
    if any(one.section == "persona" for one in restored.candidates):
        return restored
    style = (one for one in before.candidates if one.section == "persona")
    return replace(restored, candidates=(*restored.candidates, *style))


def _contained(conversation: Conversation, summarises: bool) -> UUID | None:
    """The conversation that the prompt contains whole: what was said in it, in other attempts too, is not recalled.
    None where its client may have sent only a part of it.
    """
    cut = summarises and bool(conversation.ledger.get(CUT))
    partly = conversation.named or conversation.dropped or cut
    return None if partly else conversation.session.session_id


def _in_prompt(conversation: Conversation, summarises: bool) -> InPrompt | None:
    """The same, with the messages of it."""
    whole = _contained(conversation, summarises)
    return InPrompt(whole, frozenset(filter(None, conversation.digests))) if whole is not None else None


def _sent(conversation: Conversation, summarises: bool) -> list[bytes]:
    """The turns that the prompt contains: what was cut out of it before may be recalled."""
    digests = conversation.digests
    first = newest_cut(conversation.ledger.get(CUT, b""), digests) if summarises else None
    from_here = digests.index(first) if first else 0
    return [digest for digest in digests[from_here:] if digest is not None]
