"""What memory costs in vLLM's prefix cache, as it serves: each kept answer's usage in, three counters out.

vLLM says how much of a prompt was cached (`usage.prompt_tokens_details`, flag --enable-prompt-tokens-details; else
nothing is counted). What would have been cached without memory is an estimate: the part of the client's own messages
that the conversation's previous request and its answer had too, by bytes, of the client's own tokens. It knows neither
the size of a cache block (so it expects up to one block too much), nor what the cache evicted, nor prefixes shared
between conversations; a conversation whose previous request another process served counts as `first`. No tokenizer, no
store, no text kept: a digest and a length for each message of the newest conversations. Refuses conversations of more
than MESSAGES_MAX messages: their requests count as `first`. Never raises.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from memory.chain import Digest
from memory.read.conversation import Conversation
from memory.telemetry import Metrics
from proxy.wire.answer import TOKENS_TOLD_MAX, Answer
from proxy.wire.chat_request import ChatRequest

# About 100 bytes a message: 2,000 conversations of 20 are 4 MB, and 100 MB is the most.
CONVERSATIONS_MAX: Final = 2_000
MESSAGES_MAX: Final = 500


@dataclass(frozen=True, slots=True)
class Sent:
    """A request as it is compared, tools and then messages: keys, lengths in bytes, and what the model had said."""

    keys: tuple[bytes, ...]
    lengths: tuple[int, ...]
    answers: tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class CacheUse:
    """One prompt, in tokens. `placed`: memory new in it; `kept`: memory that earlier requests had at the same place."""

    prompt: int
    cached: int
    placed: int
    kept: int

    @property
    def client(self) -> int:
        """The client's own tokens."""
        return max(0, self.prompt - self.placed - self.kept)

    @property
    def client_cached(self) -> int:
        """Cached tokens that are the client's, at least: all kept memory is taken to be among the cached."""
        return min(self.client, max(0, self.cached - self.kept))


def sent_of(chat: ChatRequest, digests: Sequence[Digest | None]) -> Sent:
    """What a request begins with. Messages outside the chain (system) and tools are known by their bytes."""
    tools = chat.tools
    raw = chat.text[tools.value_start : tools.end] if tools is not None else ""
    keys, lengths, answers = [_digest(raw)], [len(raw)], [False]
    for view, digest in zip(chat.messages, digests, strict=True):
        keys.append(digest or _digest(chat.text[view.start : view.end]))
        lengths.append(view.end - view.start)
        answers.append(view.role == "assistant")
    return Sent(tuple(keys), tuple(lengths), tuple(answers))


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def cache_use(usage: Mapping[str, object] | None, *, placed: int, kept: int, tells: bool = False) -> CacheUse | None:
    """What vLLM said of a prompt; None where it did not. `tells`: it does wherever something was cached; older versions
    leave it out where nothing was."""
    details = usage.get("prompt_tokens_details") if usage else None
    if details is None and tells:
        details = {}
    cached = details.get("cached_tokens") if isinstance(details, Mapping) else None
    prompt = usage.get("prompt_tokens") if usage else None
    if not isinstance(details, Mapping) or not isinstance(prompt, int) or not isinstance(cached, int | None):
        return None
    if not (0 < prompt <= TOKENS_TOLD_MAX and 0 <= (cached or 0) <= TOKENS_TOLD_MAX):
        return None
    return CacheUse(prompt, cached or 0, placed, kept)


class CacheReport:
    """Counts. One per process."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._before: OrderedDict[UUID, Sent] = OrderedDict()
        self._has_told = False  # vLLM, of any prompt

    def count(
        self, chat: ChatRequest, conversation: Conversation, answer: Answer | None, *, placed: int, kept: int
    ) -> None:
        """Count one answered request and remember it as the previous one of its conversation. `placed`, `kept`: tokens
        of memory that are new in this prompt, and that an earlier one had at the same place."""
        tells = self._has_told and answer is not None and answer.complete
        use = cache_use(answer.usage if answer else None, placed=placed, kept=kept, tells=tells)
        if use is None:
            return
        self._has_told = True
        sent, session = sent_of(chat, conversation.digests), conversation.session.session_id
        before = self._before.pop(session, None)
        if len(sent.keys) <= MESSAGES_MAX:
            self._before[session] = sent
        if len(self._before) > CONVERSATIONS_MAX:
            self._before.popitem(last=False)
        request = "later" if before else "first"
        metrics = self._metrics
        metrics.prompt_tokens.labels("client", request).inc(use.client)
        metrics.prompt_tokens.labels("memory", request).inc(use.placed + use.kept)
        metrics.prompt_cached.labels("client", request).inc(use.client_cached)
        metrics.prompt_cached.labels("memory", request).inc(max(0, use.cached - use.client_cached))
        if before is not None:
            metrics.prompt_cached_expected.inc(use.client * shared_part(before, sent))


def shared_part(before: Sent, sent: Sent) -> float:
    """The part of a request (0..1, by bytes) that the one before it had too, with the answer to that one."""
    known = len(before.keys)
    same = 0
    while same < min(known, len(sent.keys)) and before.keys[same] == sent.keys[same]:
        same += 1
    if same == known < len(sent.keys) and sent.answers[known]:
        same += 1
    return sum(sent.lengths[:same]) / (sum(sent.lengths) or 1)
