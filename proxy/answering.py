"""Sending a body upstream and carrying the answer back, with a copy on the side.

A prepared body and our headers in; the client's answer out, chunk by chunk as it arrives; an Outcome for capture. Only
the final event of a stream, or the last byte of another body, waits for `keep` (DESIGN section 3). An upstream that
dies midway cuts the client and is kept as `failed`; a client that leaves frees the upstream at once and is kept as
`partial`. Fails open: what cannot be read or kept is logged and counted, and the answer goes on. Nothing here knows of
memory.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal
from uuid import UUID

from aiohttp import web
from multidict import CIMultiDict

from memory.chain import Digest, extend
from memory.errors import UpstreamUnreachable
from memory.model import ExchangeStatus
from memory.off_loop import off_loop
from memory.passage import CLIENT_LEFT, lap, note, note_answer
from memory.read.conversation import Conversation
from memory.read.dropped import Joint, known_by
from memory.telemetry import Metrics, event
from proxy.connection import AnswerBroken, UpstreamAnswer
from proxy.copies import Copies, Copy, Share
from proxy.passages import ENDED
from proxy.relay import RelayResponse, Upstream, begin, break_off, open_to, raw_target
from proxy.wire.answer import Answer, AnswerUnreadable, assemble_stream, decompress, parse_body
from proxy.wire.sse import FinalEventHold, LastByteHold

log: Final = logging.getLogger("memory_proxy.answering")
# Behind a final event comes the end of the body, at once. Where something between us and vLLM keeps that to itself the
# client waits no longer for the event.
FINAL_EVENT_HOLD_S: Final = 1.0
# A vLLM that is shut down or paused ends its answers so, in the middle of a sentence and with a final event.
_BROKEN_OFF: Final = frozenset({"abort", "error"})
# An error answer of vLLM is a few hundred bytes; more than this is none that we need to read.
_ERROR_BYTES_MAX: Final = 65_536
_FAULT_CHARS_MAX: Final = 128  # it names the answer's own coding
UPSTREAM_DIED: Final = "upstream_died"


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one send ended. `withdrawn`: `refused` recognised the answer, nothing has reached the client."""

    response: web.StreamResponse
    http_status: int
    status: ExchangeStatus = "complete"
    reason: str | None = None
    answer: Answer | None = None
    withdrawn: bool = False

    @property
    def came_to_nothing(self) -> bool:
        """Whether its client has no answer: it left before the first word, or the upstream broke off."""
        is_wordless = self.status == "partial" and self.answer is not None and not self.texts()
        return is_wordless or self.http_status == CLIENT_LEFT or self.reason == UPSTREAM_DIED

    def digests(self, chain_key: bytes, tip: Digest | None) -> list[Digest]:
        """The chain digests of the answers behind `tip`: what the next request is recognised by."""
        return [extend(chain_key, tip, message) for message in self._messages(None)]

    def joined(self, chain_key: bytes, before: Digest | None, begun: str) -> list[Digest]:
        """The same where the answers go on from what their client had `begun`, a message behind `before`: it sends both
        again as one message.
        """
        return [extend(chain_key, before, message) for message in self._messages(begun)]

    def pairs(
        self,
        chain_key: bytes,
        before: object,
        conversation: Conversation,
        digests: Sequence[Digest],
        begun: str | None = None,
    ) -> dict[Digest, Joint]:
        """What the answers, of these digests, are known by behind the message they answer, where the chain before them
        is dropped; as one message with what their client had `begun`, behind the message before that.
        """
        tip = conversation.tip if begun is None else conversation.before_tip
        if tip is None:
            return {}
        both = zip(self._messages(begun), digests, strict=True)
        return {
            pair: Joint(conversation.session, tip, digest)
            for message, digest in both
            for pair in known_by(chain_key, before, message)
        }

    def _messages(self, begun: str | None) -> list[dict[str, object]]:
        choices = self.answer.choices if self.answer is not None else ()
        if begun is None:
            return [choice.as_message() for choice in choices]
        return [{**choice.as_message(), "content": begun + (choice.content or "")} for choice in choices]

    def texts(self) -> list[str]:
        """What the answer says, in any of its parts."""
        if self.answer is None:
            return []
        said = [text for choice in self.answer.choices for text in (choice.content, choice.thought) if text]
        return [*said, *(call.arguments for choice in self.answer.choices for call in choice.tool_calls)]

    def answer_record(self) -> dict[str, Any]:
        """The answer as capture stores it. `index` is a choice's place: turns are numbered by it, and an upstream's
        own index may be anything (a negative one took the number of a message: the entry could never be stored)."""
        if self.answer is None:
            return {}
        choices = [
            {
                "index": place,
                "message": {**choice.as_message(), **({"refusal": choice.refusal} if choice.refusal else {})},
                "reasoning": choice.thought,
                "finish_reason": choice.finish_reason,
            }
            for place, choice in enumerate(self.answer.choices)
        ]
        return {"id": self.answer.id, "model": self.answer.model, "choices": choices, "usage": self.answer.usage}


End = Literal["ended", "died", "open"]
Keep = Callable[[Outcome], Coroutine[Any, Any, None]]
Refuses = Callable[[int, bytes], bool]
InBackground = Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]]


class Answering:
    """Sends one request. `copy_bytes_max` 0 keeps no copy and holds nothing back."""

    def __init__(self, upstream: Upstream, metrics: Metrics, copy_bytes_max: int, share: Share | None = None) -> None:
        self._upstream = upstream
        self._share = share or Copies(copy_bytes_max, metrics).of(UUID(int=0))
        self._metrics = metrics
        self._copy_bytes_max = copy_bytes_max

    async def send(
        self,
        request: web.Request,
        body: bytes,
        head: CIMultiDict[str],
        *,
        keep: Keep | None = None,
        refused: Refuses | None = None,
        left: InBackground | None = None,
    ) -> Outcome:
        """Send and answer. Raises UpstreamUnreachable before the first byte, CancelledError when the client leaves."""
        headers = self._upstream.headers(request.raw_headers, body_is_ours=True)
        try:
            answer = await self._upstream.send(request.method, raw_target(request), headers, body)
        except asyncio.CancelledError:
            if keep is not None and left is not None:
                left(self._kept(keep, Outcome(web.StreamResponse(), CLIENT_LEFT, "partial", _why_left(request))))
            raise
        try:
            if refused is not None and answer.status >= 400:
                text = await _beginning(answer, _ERROR_BYTES_MAX)
                lap("upstream")
                if refused(answer.status, _plain(text, answer.header(b"content-encoding") or "")):
                    return Outcome(web.StreamResponse(), answer.status, withdrawn=True)
                return await self._short(request, answer, head, text)
            if answer.status >= 300:
                _say_nothing_is_kept(head)
                return await self._carry(request, answer, head, None, None)
            return await self._carry(request, answer, head, keep, left)
        finally:
            answer.close()

    async def _short(
        self, request: web.Request, answer: UpstreamAnswer, head: CIMultiDict[str], text: bytes
    ) -> Outcome:
        """An error answer whose beginning was read already."""
        _say_nothing_is_kept(head)
        response = begin(answer, head)
        note(http=answer.status)
        await response.prepare(request)
        await response.write(text)
        if await self._pump(answer, response, None, Copy(0, self._share)) == "died":
            self._metrics.upstream_failures.labels("midstream").inc()
            break_off(request)
            return Outcome(response, answer.status, "failed")
        return Outcome(response, answer.status)

    async def _carry(
        self,
        request: web.Request,
        answer: UpstreamAnswer,
        head: CIMultiDict[str],
        keep: Keep | None,
        left: InBackground | None,
    ) -> Outcome:
        streamed = answer.content_type == "text/event-stream"
        encoded = (answer.header(b"content-encoding") or "identity") != "identity"  # hides the final event
        hold = None if keep is None else FinalEventHold() if streamed and not encoded else LastByteHold()
        copy = Copy(self._copy_bytes_max if keep else 0, self._share)
        response = begin(answer, head)
        note(http=answer.status)
        try:
            await open_to(request, answer, response)
            end = await self._pump(answer, response, hold, copy)
            lap("stream")
            died = end == "died" and not (hold is not None and hold.final_seen)
            outcome = await self._outcome(response, answer, streamed, copy, died=died)
            if (said := outcome.answer) is not None:
                note_answer(said.id, said.usage, [one.finish_reason for one in said.choices if one.finish_reason])
        except (asyncio.CancelledError, ConnectionError):
            answer.close()
            note(bytes_out=copy.passed)
            if keep is not None and left is not None:
                kept = self._keep_partial(keep, response, answer, streamed, copy.taken_over(), _why_left(request))
                left(kept)
            raise
        finally:
            copy.release()
        note(bytes_out=copy.passed)  # who leaves from now on has had so much
        if keep is not None:
            await asyncio.shield((left or asyncio.create_task)(self._kept(keep, outcome)))
            lap("hold")
        if hold is not None and end == "open":
            await response.write(hold.held)
            end, hold = await self._pump(answer, response, None, copy, waiting=False), None
        if end == "died":
            self._metrics.upstream_failures.labels("midstream").inc()
            if hold is not None:
                await response.write(hold.held)
            break_off(request)
            return outcome
        if hold is not None:
            await response.write_eof(hold.held)
        return outcome

    async def _pump(
        self,
        answer: UpstreamAnswer,
        response: RelayResponse,
        hold: FinalEventHold | LastByteHold | None,
        copy: Copy,
        *,
        waiting: bool = True,
    ) -> End:
        """Carry the pieces, to the end where none is held; says whether the upstream died before its end, or has said
        its final event and not ended. `waiting`: for its first piece."""
        ended, until = False, None
        while not ended:
            try:
                piece = await (answer.read() if until is None else _read_until(answer, until))
            except AnswerBroken:
                return "died"
            if piece is None:
                return "open"
            if waiting:
                waiting = False
                lap("upstream")
            ended = answer.at_eof()
            if hold is not None:
                copy.add(piece)
                await response.write(hold.feed(piece))  # where all of it is held, the head goes
                if until is None and hold.final_seen:
                    until = asyncio.get_running_loop().time() + FINAL_EVENT_HOLD_S
            else:
                copy.passed += len(piece)
                await (response.write_eof if ended else response.write)(piece)
        return "ended"

    async def _kept(self, keep: Keep, outcome: Outcome) -> None:
        """Keep it. What is not foreseen there costs the answer nothing."""
        try:
            await keep(outcome)
        except Exception as fault:
            self._metrics.captures_lost.inc()
            note(capture="none")
            event(log, "capture_lost", logging.ERROR, fault=type(fault).__name__)
            log.exception("unforeseen fault")

    async def _keep_partial(
        self, keep: Keep, response: RelayResponse, answer: UpstreamAnswer, streamed: bool, copy: Copy, why: str
    ) -> None:
        try:
            outcome = await self._outcome(response, answer, streamed, copy, died=False, left=why)
        finally:
            copy.release()
        await self._kept(keep, outcome)

    async def _outcome(
        self,
        response: web.StreamResponse,
        answer: UpstreamAnswer,
        streamed: bool,
        copy: Copy,
        *,
        died: bool,
        left: str | None = None,
    ) -> Outcome:
        if self._copy_bytes_max == 0:
            return Outcome(response, answer.status, "failed" if died else "complete")
        if copy.bytes_max == 0:  # nobody keeps it: it is an error of the upstream
            return Outcome(response, answer.status, "failed")
        if copy.refused is not None:
            return Outcome(response, answer.status, "partial" if left else "refused", copy.refused)
        read, reason = await _read_answer(
            copy.chunks, answer.header(b"content-encoding") or "", streamed, copy.bytes_max
        )
        if left:
            return Outcome(response, answer.status, "partial", left, read)
        if died:
            return Outcome(response, answer.status, "failed", UPSTREAM_DIED, read)
        if read is None or read.error is not None or not read.complete:
            return Outcome(response, answer.status, "failed", reason or "error_or_no_final_event", read)
        if any(one.finish_reason in _BROKEN_OFF for one in read.choices):
            return Outcome(response, answer.status, "failed", "upstream_aborted", read)
        return Outcome(response, answer.status, "complete", None, read)


def _why_left(request: web.Request) -> str:
    """Whose doing it is that nobody waits for the answer."""
    return "stopped" if request.get(ENDED) else "client_left"


def _say_nothing_is_kept(head: CIMultiDict[str]) -> None:
    """Of an error answer and a redirect there will be no exchange and no record to ask for."""
    head["X-Memory-Capture"] = "off"
    head.popall("X-Memory-Retrieval", None)
    note(capture="off", exchange=None, retrieval=None)


async def _beginning(answer: UpstreamAnswer, bytes_max: int) -> bytes:
    """The first `bytes_max` bytes of a body and what came with them, or all of it. Raises UpstreamUnreachable."""
    text = b""
    try:
        while len(text) < bytes_max and not answer.at_eof():
            text += await answer.read()
    except AnswerBroken as exc:
        raise UpstreamUnreachable(f"vLLM broke off in the middle of an error answer ({exc})") from exc
    return text


def _plain(text: bytes, encoding: str) -> bytes:
    """An error answer as it can be read, or as it came where we know no way."""
    try:
        return decompress(text, encoding, bytes_max=_ERROR_BYTES_MAX)
    except AnswerUnreadable:
        return text


async def _read_answer(
    chunks: Sequence[bytes], encoding: str, streamed: bool, bytes_max: int
) -> tuple[Answer | None, str | None]:
    """The answer read from its copy, or why it cannot be."""

    def read() -> Answer:
        raw = b"".join(chunks)
        plain = decompress(raw, encoding, bytes_max=bytes_max) if encoding else raw
        return assemble_stream(plain) if streamed else parse_body(plain)

    try:
        return await off_loop(bytes_max if encoding else sum(map(len, chunks)), read), None
    except AnswerUnreadable as exc:
        event(log, "answer_not_read", logging.WARNING, fault=str(exc)[:_FAULT_CHARS_MAX])
        return None, f"answer unreadable: {exc}"
    except Exception as fault:
        event(log, "answer_not_read", logging.ERROR, fault=type(fault).__name__)
        log.exception("unforeseen fault")
        return None, f"answer unreadable: {type(fault).__name__}"


async def _read_until(answer: UpstreamAnswer, until: float) -> bytes | None:
    """The next piece of a body; None where there is none by `until`, on the loop's clock."""
    try:
        async with asyncio.timeout_at(until):
            return await answer.read()
    except TimeoutError:
        return None
