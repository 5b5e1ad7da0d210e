"""A conversation that does not fit its window: a request in, what of it is not sent and what stands for that, out.

Only where `overflow` is `summarise` (DESIGN section 5). Which messages are left out is said in `proxy/cutting.py`; this
asks vLLM to count, and the ledger for the cuts that were made before and for the summary of what is not sent any more.
Fails open: what cannot be counted or read in time is sent whole, and vLLM refuses it.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import Final

from memory.config import Settings
from memory.errors import MemoryProxyFault
from memory.read.conversation import CUT, Conversation, newest_cut, with_cut
from memory.read.items import Filter
from memory.read.ledger import Kept, Ledgers
from proxy.asked import Asked, Remembered
from proxy.cutting import Cut, bytes_of, cut_at, cut_for, is_cut, members_of
from proxy.gated import holder_of, within
from proxy.prompt import SUMMARY_TOKENS_MAX, Rules, summed_up
from proxy.room import ANSWER_TOKENS_RESERVED, COUNTED_BYTES_MAX, ServedModels
from proxy.wire.chat_request import ChatRequest

# What a conversation that may not fit is counted within: without the count it is sent whole, and vLLM refuses it.
CUT_COUNT_S: Final = 2.0
CUTS_COUNTED_MAX: Final = 4


@dataclass(frozen=True, slots=True)
class Cutting:
    """What of a conversation is not sent, and whether that begins with this request; `mark`: its cuts as the ledger is
    to have them.
    """

    cut: Cut | None = None
    is_new: bool = False
    mark: bytes | None = None


class Shortening:
    """Leaves the oldest turns out where the conversation does not fit. One per process."""

    def __init__(self, settings: Settings, models: ServedModels, ledgers: Ledgers, rules: Rules, where: Filter) -> None:
        self._overflow, self._where = settings.overflow, where
        self._models, self._ledgers, self._rules = models, ledgers, rules

    def wanted(self, asked: Asked) -> bool:
        """Whether the oldest turns give way where the conversation does not fit; without that all of it is sent, and
        where nothing may be put into the prompt: their summary is memory.
        """
        return asked.ask.inserts and (asked.credential.limits.overflow or self._overflow) == "summarise"

    async def cutting(self, asked: Asked, chat: ChatRequest, conversation: Conversation, kept: Kept) -> Cutting:
        """What of the conversation is not sent since it does not fit."""
        if not self.wanted(asked):
            return Cutting()
        window = self._models.window(chat.model) or 0
        room = window - min(chat.max_tokens or ANSWER_TOKENS_RESERVED, window // 2)  # vLLM clips a longer answer
        cuts = _known_cuts(conversation, kept) if asked.ask.as_of is None else b""
        before = _cut_at(chat, conversation, cuts)
        counted = await self._too_many(chat, before, room)
        if counted is not None and not conversation.is_new and CUT not in conversation.ledger:
            stored = await self._ledgers.stored_cuts(asked.ask.scope, conversation)
            if stored and stored != cuts:
                cuts, before = stored, _cut_at(chat, conversation, stored)
                counted = await self._too_many(chat, before, room)
        cut = before if counted is None else await self._cut_behind(chat, before, counted, room, window)
        first = conversation.digests[cut.upto] if cut is not None else None
        return Cutting(cut, cut != before, first and with_cut(cuts, first))

    async def _cut_behind(
        self, chat: ChatRequest, before: Cut | None, counted: int, room: int, window: int
    ) -> Cut | None:
        """The cut that leaves what fits; `before`, which leaves as much as was `counted`, where none does: vLLM says
        so. What is left is counted, too: by its characters an image is most of a conversation, by its tokens little.
        """
        cut = before
        for _ in range(CUTS_COUNTED_MAX):
            further = cut_for(chat, counted, cut, room)
            if further == cut:
                break
            cut, left = further, await self._too_many(chat, further, room)
            if left is None:
                return cut
            counted = left
        return cut if counted <= window else before

    async def _too_many(self, chat: ChatRequest, cut: Cut | None, room: int) -> int | None:
        """The tokens of what a cut leaves where they are known and more than there is room for."""
        size = bytes_of(chat, cut)
        if self._models.window(chat.model) is None or size // 2 <= room or size > COUNTED_BYTES_MAX:
            return None
        counted = await self._models.prompt_tokens(members_of(chat, cut), CUT_COUNT_S)
        return counted if counted is not None and counted > room else None

    async def behind(
        self,
        asked: Asked,
        chat: ChatRequest,
        has: Remembered,
        cutting: Cutting,
        *,
        open_to_new: bool,
        left_s: float,
    ) -> Kept:
        """What stands behind a cut, and where that is new the summary of what is not sent any more first of all; in the
        newest message where it was not made by then. `open_to_new`: something new may stand in that one, within
        `left_s` seconds.
        """
        conversation, cut = has.conversation, cutting.cut
        if cut is None:
            return has.kept
        kept = replace(has.kept, blocks={at: one for at, one in has.kept.blocks.items() if not is_cut(chat, cut, at)})
        open_to_new = open_to_new and (conversation.opens or chat.newest_user not in kept.known)
        if not cutting.is_new and (kept.is_summed_up or not kept.known or not open_to_new):
            return kept
        where = within(self._where, holder_of(asked.credential))
        try:
            async with asyncio.timeout(None if cutting.is_new else left_s):
                summary = await self._ledgers.summary(asked.ask.scope, conversation, where, asked.arrived_at)
        except (MemoryProxyFault, TimeoutError):
            summary = ()
        chain = conversation.digests[cut.upto]
        if chain is None or not cutting.is_new or (cut.upto == chat.newest_user and open_to_new):
            return replace(kept, owed=(*summary, *kept.owed))
        cap, before = asked.placed_tokens_max, kept.blocks.get(cut.upto)
        most = SUMMARY_TOKENS_MAX if cap is None else min(cap, SUMMARY_TOKENS_MAX)
        placed = summed_up(cut.upto, chain, summary, before, self._rules, asked.retrieval_id, most)
        return replace(kept, blocks={**kept.blocks, cut.upto: placed}) if placed else kept


def _known_cuts(conversation: Conversation, kept: Kept) -> bytes:
    """The cuts as they came with the conversation, also where its ledger was not read in time or is not read at this
    load (else another one would be made, and stay); else as they are at hand or stored.
    """
    return conversation.ledger.get(CUT) or kept.found.get(CUT) or b""


def _cut_at(chat: ChatRequest, conversation: Conversation, cuts: bytes) -> Cut | None:
    """The cut of this branch."""
    first = newest_cut(cuts, conversation.digests)
    return cut_at(chat, conversation.digests.index(first)) if first else None
