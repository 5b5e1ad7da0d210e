"""A conversation as a chat client holds it: what was said so far in, the next request's body and headers out. Pure.

Every step gives a new value. What is sent is all of it, as chat clients do; the service knows the conversation by
its name (X-Memory-Session), which is ours from the first message on, so that two that begin alike stay two.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal
from urllib.parse import quote, unquote

Mode = Literal["on", "read", "write", "off"]
MODES: Final[tuple[Mode, ...]] = ("on", "read", "write", "off")


@dataclass(frozen=True, slots=True)
class Exchange:
    """A question and its answer, which may have been cut off. `question` None: the conversation begins with it."""

    question: str | None
    answer: str


@dataclass(frozen=True, slots=True)
class Conversation:
    """What is sent next, but for the question. `session` None: the service names it with its answer.

    `unanswered` is a question that got no word of an answer; `retrieval` and `memory` speak of the last answer.
    `checkpoint` goes with the next question and no other: from then on it stands in the conversation. `persona` goes
    with each. `outside`: the next question waits for pages of the web.
    """

    session: str | None = None
    exchanges: tuple[Exchange, ...] = ()
    mode: Mode = "on"
    model: str | None = None
    system: str | None = None
    unanswered: str | None = None
    retrieval: str | None = None
    checkpoint: str | None = None
    persona: str | None = None
    outside: bool = False

    def headers(self) -> dict[str, str]:
        """The X-Memory-* headers of the next request, but for whose memory it is."""
        said: dict[str, str] = {"X-Memory-Mode": self.mode}
        if self.session is not None:
            said["X-Memory-Session"] = quote(self.session, safe="")
        if self.checkpoint is not None:
            said["X-Memory-Checkpoint"] = quote(self.checkpoint, safe="")
        if self.persona is not None:
            said["X-Memory-Persona"] = quote(self.persona, safe="")
        if self.outside:
            said["X-Memory-Outside"] = "now"
        return said

    def body(self, question: str) -> dict[str, Any]:
        """The next request. The model must be known."""
        messages = [{"role": "system", "content": self.system}] if self.system else []
        for one in self.exchanges:
            if one.question is not None:
                messages.append({"role": "user", "content": one.question})
            messages.append({"role": "assistant", "content": one.answer})
        messages.append({"role": "user", "content": question})
        return {"model": self.model, "messages": messages, "stream": True}

    def answered(self, question: str, answer: str, memory: Mapping[str, str]) -> Conversation:
        """With another exchange, and the name that the service gave where there was none."""
        return replace(
            self,
            session=self.session or unquote(memory.get("session", "")) or None,
            exchanges=(*self.exchanges, Exchange(question, answer)),
            unanswered=None,
            retrieval=memory.get("retrieval"),
            checkpoint=None,
        )

    def failed(self, question: str) -> Conversation:
        """Nothing came: the question is not sent again by itself, and not forgotten."""
        return replace(self, unanswered=question)

    def undone(self) -> Conversation:
        """Without its last exchange, or without the question that got no answer."""
        if self.unanswered is not None:
            return replace(self, unanswered=None)
        return replace(self, exchanges=self.exchanges[:-1], retrieval=None)

    def last_question(self) -> str | None:
        """What /retry asks again."""
        if self.unanswered is not None:
            return self.unanswered
        return self.exchanges[-1].question if self.exchanges else None

    def begun(self, session: str | None, exchanges: tuple[Exchange, ...] = ()) -> Conversation:
        """Another conversation, in the same mode, with the same model and system message."""
        return replace(self, session=session, exchanges=exchanges, unanswered=None, retrieval=None)


def exchanges_of(turns: Iterable[Mapping[str, Any]]) -> tuple[Exchange, ...]:
    """Stored turns in their order as exchanges: what a client would send that had been there all the time.

    A turn that is a later attempt (`attempt` above 0) takes the place of the last one of its role. Turns of tools and
    system messages are left out: without the tools of then they say nothing to a model.
    """
    found: list[Exchange] = []
    question: str | None = None
    for turn in turns:
        text = turn.get("content") or ""
        if turn.get("role") == "user":
            if turn.get("attempt", 0) and question is None and found:
                found.pop()
            elif question is not None and not turn.get("attempt", 0):
                text = f"{question}\n\n{text}"
            question = text
        elif turn.get("role") == "assistant" and text:
            if question is None and found:
                last = found.pop()
                again = bool(turn.get("attempt", 0))
                found.append(Exchange(last.question, text if again else f"{last.answer}\n\n{text}"))
            else:
                found.append(Exchange(question, text))
            question = None
    return tuple(found)
