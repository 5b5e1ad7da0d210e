"""A conversation that does not fit its model's window: a request in, which of its oldest messages are left out, out.

Only where `overflow`, of the key or the configuration, is `summarise` (DESIGN section 5): by default vLLM's own error
goes to the client, which agents that compact themselves rely on. One large step, so that the prompts after it share a
long prefix again: whole turns, oldest first, until about half the window is free; what stands for them is the
conversation's rolling summary.
Pure; leaves system messages and the newest user message where they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from proxy.wire.chat_request import ChatRequest

# Of what the window has beside the answer, the part that is still used after a cut.
KEPT_SHARE: Final = 0.5


@dataclass(frozen=True, slots=True)
class Cut:
    """Messages `start` to `upto`, which is a user's, `upto` itself excluded, are not sent, but for what instructs: of
    that the summary says nothing.
    """

    start: int
    upto: int


def is_cut(chat: ChatRequest, cut: Cut | None, at: int) -> bool:
    """Whether a message is not sent."""
    return cut is not None and cut.start <= at < cut.upto and not chat.messages[at].instructs


def first_turn(chat: ChatRequest) -> int:
    """The index of the first message behind the leading system and developer messages."""
    leading = (at for at, view in enumerate(chat.messages) if not view.instructs)
    return next(leading, len(chat.messages))


def cut_at(chat: ChatRequest, upto: int) -> Cut | None:
    """The cut that leaves everything before the message `upto` out; None where that is nothing."""
    start = first_turn(chat)
    return Cut(start, upto) if start < upto else None


def cut_for(chat: ChatRequest, counted: int, before: Cut | None, room: int) -> Cut | None:
    """The cut after which about half the room is used, `counted` being the tokens of what `before` leaves.

    None where there is nothing to leave out. The share of a message in the tokens is taken from its characters: the
    step is so large that an error of a third matters to nobody.
    """
    start, newest = first_turn(chat), chat.newest_user
    first = before.upto if before else start
    if newest is None or newest <= first:
        return before
    sizes = [view.end - view.start for view in chat.messages]
    sent = sum(size for at, size in enumerate(sizes) if not is_cut(chat, before, at))
    left = float(counted)
    for at in range(first, newest + 1):
        if at > first and chat.messages[at].takes_block and (left / KEPT_SHARE <= room or at == newest):
            return Cut(start, at)
        left -= 0 if chat.messages[at].instructs else counted * sizes[at] / max(sent, 1)
    return before


def members_of(chat: ChatRequest, cut: Cut | None) -> dict[str, Any]:
    """The body's members as they are counted, without what is cut out."""
    members = {member.key: member.value for member in chat.root.members}
    if cut is not None and isinstance(said := members.get("messages"), list):
        members["messages"] = [one for at, one in enumerate(said) if not is_cut(chat, cut, at)]
    return members


def bytes_of(chat: ChatRequest, cut: Cut | None) -> int:
    """Bytes of the body without what is cut out, about."""
    gone = [at for at in range(cut.start, cut.upto) if is_cut(chat, cut, at)] if cut else []
    return len(chat.body) - sum(chat.messages[at + 1].start - chat.messages[at].start for at in gone)
