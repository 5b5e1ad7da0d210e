"""How much room a prompt has for memory: a request, its ledger and the served model's window in, tokens out.

The client's own words and the answer it asks for go before memory. The prompt's exact count is asked for only when an
upper bound of it does not fit (bytes / 2: no tokenizer in FACTS makes more tokens than that). Changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

from memory.config import Settings
from memory.model import Candidate
from memory.read.ledger import Kept
from proxy.cutting import Cut, bytes_of, members_of
from proxy.identity import Ask
from proxy.wire.chat_request import ChatRequest

# A ledger that has less than this left of its ceiling is full: no item of any use is shorter.
FULL_BELOW_TOKENS: Final = 48
# Room left for an answer when the client names no limit: memory must not squeeze the answer out of the window.
ANSWER_TOKENS_RESERVED: Final = 256
# A larger body is not sent a second time to be counted (200 MB of images held the event loop for 4 s): what then
# overflows is sent again without the block.
COUNTED_BYTES_MAX: Final = 1_048_576
# Room for these beside what is recalled: a description has 500 characters.
PERSONA_TOKENS_MAX: Final = 300


class ServedModels(Protocol):
    """What is known of the models behind the proxy."""

    def window(self, model: str | None) -> int | None:
        """The context window in tokens, None while unknown. Never waits."""

    async def prompt_tokens(self, body: Mapping[str, Any], within_s: float | None = None) -> int | None:
        """The exact token count of a chat body by the served template, None when it cannot be had in time."""


@dataclass(frozen=True, slots=True)
class Room:
    """Tokens that may be newly placed, and the places whose blocks have to give way first, oldest first: for good, or
    (`left_out`) this once.
    """

    budget: int
    give_way: tuple[int, ...] = ()
    full: bool = False  # the ledger's ceiling leaves none
    fits: bool = True  # else the client's own words with the answer it asks for are too long, whatever memory does
    left_out: tuple[int, ...] = ()


async def room_for(
    chat: ChatRequest, wanted: int, kept: Kept, ceiling_share: float, models: ServedModels, cut: Cut | None = None
) -> Room:
    """Tokens that may be newly placed, at most `wanted`: within the ledger's ceiling, a share of the served model's
    window, and within what is left of the window. What the ledger has already gives way to the client's own words.

    A conversation that does not fit without memory, with the answer it asks for, is refused whatever memory does, or
    the answer is clipped: nothing gives way for good, since the client may ask for less, and nothing new is placed.
    What would take the room of a short answer is left out.
    """
    window, cut_to = models.window(chat.model), chat.truncated_to
    if not (wanted or kept.blocks) or (window is None and cut_to is None):
        return Room(wanted)
    left = wanted if window is None else max(0, int(window * ceiling_share) - kept.tokens)
    budget, full = min(wanted, left), window is not None and left < FULL_BELOW_TOKENS
    room = None if window is None else window - (chat.max_tokens or ANSWER_TOKENS_RESERVED)
    if window is None or room is None or cut_to is not None:
        return await _room_where_cut(chat, Room(budget, full=full), kept, room, models, cut)
    size = bytes_of(chat, cut)
    if size // 2 + kept.tokens + budget <= room or size > COUNTED_BYTES_MAX:
        return Room(budget, full=full)
    counted = await models.prompt_tokens(members_of(chat, cut))
    if counted is None:
        return Room(budget, full=full)
    if counted > room:
        left_out, _ = _oldest(kept, counted + kept.tokens - (window - ANSWER_TOKENS_RESERVED))
        return Room(0, (), full, fits=False, left_out=left_out)
    give_way, over = _oldest(kept, counted + kept.tokens - room)
    return Room(max(0, min(budget, -over)), give_way, full)


async def _room_where_cut(
    chat: ChatRequest, most: Room, kept: Kept, room: int | None, models: ServedModels, cut: Cut | None
) -> Room:
    """The same where the client has vLLM cut its prompt (`truncate_prompt_tokens`): nobody is told what was lost, so
    memory has what its own words surely leave, and what has no room there is left out this once.
    """
    if (cut_to := chat.truncated_to) is not None and cut_to >= 0:
        room = cut_to if room is None else min(room, cut_to)
    size = bytes_of(chat, cut)
    counted: int | None = size // 2
    if room is not None and size // 2 + kept.tokens + most.budget > room and size <= COUNTED_BYTES_MAX:
        counted = await models.prompt_tokens(members_of(chat, cut))
    left = 0 if room is None or counted is None else max(0, room - counted)
    left_out, over = _oldest(kept, kept.tokens - left)
    return replace(most, budget=max(0, min(most.budget, -over)), fits=left > 0, left_out=left_out)


def _oldest(kept: Kept, over: int) -> tuple[tuple[int, ...], int]:
    """The places of the oldest blocks that have to go where it is so many tokens `over`; what it is over then."""
    found: list[int] = []
    for at in sorted(kept.blocks):
        if over <= 0:
            break
        over -= kept.blocks[at].tokens
        found.append(at)
    return tuple(found), over


def block_max(settings: Settings, restored: Sequence[Candidate]) -> int:
    """The most tokens of a block: those of what is recalled, and beside them what is `restored` has its own."""
    sections = {one.section for one in restored}
    most = settings.recall.budget_tokens_max
    most += PERSONA_TOKENS_MAX if "persona" in sections else 0
    return most + (settings.checkpoint.tokens_max if sections - {"persona", "given"} else 0)


def wanted_tokens(ask: Ask, budget_max: int) -> int:
    """Tokens that may be newly placed as far as the request and the configuration go."""
    return budget_max if ask.budget is None else min(ask.budget, budget_max)
