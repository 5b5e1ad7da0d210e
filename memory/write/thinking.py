"""How to keep a model from thinking before it answers us: a served body and the server's tokenizer in, a way out.

`enable_thinking: false` does it in most templates, and in most it changes only what stands behind the last message
(Qwen3 writes an empty thought there). Some write it at the head of the prompt or into every user message (SmolLM3,
GLM-4.5): there it would cost the whole prefix, and the grammar is made to hold from the first token instead
(`include_reasoning: false`, which vLLM reads so), the template left alone. Which of the two a model is, its own
/tokenize says: two small prompts, once per model and template arguments. What cannot be found out is taken for the
first kind: a slower answer is better than a thought in place of one.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final

from memory.errors import ExtractorRefused
from memory.json_spans import decode_utf8, parse_document
from memory.write.ask_facts import Thinking

KNOWN_MAX: Final = 256
_MESSAGES: Final = (
    {"role": "user", "content": "Where is the key?"},
    {"role": "assistant", "content": "Under the mat."},
    {"role": "user", "content": "Thanks."},
)
_ASKED: Final = ("model", "chat_template", "chat_template_kwargs", "reasoning_effort")
TokenIds = Callable[[Mapping[str, Any]], Awaitable[list[int]]]


@dataclass(frozen=True, slots=True)
class Probe:
    """Two questions to /tokenize whose tokens are equal where the flag stands behind the last message only."""

    served: Mapping[str, Any]
    without: Mapping[str, Any]

    @property
    def key(self) -> bytes:
        """What the finding is remembered by: none of its words, which are a client's, and may be many."""
        return blake2b(json.dumps(self.served, sort_keys=True).encode(), digest_size=16).digest()


def probe_of(request: bytes) -> Probe | None:
    """The probe of a served body; None where the client has turned thinking off itself. Raises ValueError."""
    served = parse_document(decode_utf8(request))
    values: dict[str, Any] = {one.key: one.value for one in served.members if one.key in _ASKED}
    given = values.get("chat_template_kwargs") or {}
    if not isinstance(given, dict):
        raise ValueError("chat_template_kwargs is no object")
    if given.get("enable_thinking") is False:
        return None
    effort = values.get("reasoning_effort")
    if effort is not None:  # as vLLM hands it to the template
        given = {"enable_thinking": effort != "none", **given, "reasoning_effort": effort}
    question = {key: values[key] for key in ("model", "chat_template") if values.get(key) is not None}
    question |= {"messages": list(_MESSAGES), "add_generation_prompt": False}
    return Probe(
        {**question, "chat_template_kwargs": given},
        {**question, "chat_template_kwargs": {**given, "enable_thinking": False}},
    )


class ThinkingOff:
    """Finds the way once per model and template arguments, and remembers KNOWN_MAX of them."""

    def __init__(self, token_ids: TokenIds) -> None:
        self._token_ids = token_ids
        self._known: OrderedDict[bytes, Thinking] = OrderedDict()

    async def way(self, request: bytes) -> Thinking:
        """How to ask. Raises ExtractorUnavailable, and ValueError for what is no JSON object."""
        probe = probe_of(request)
        if probe is None:
            return "served"
        known = self._known.get(probe.key)
        if known is None:
            known = await self._found(probe)
            self._keep(probe, known)
        return known

    def correct(self, request: bytes, way: Thinking) -> None:
        """Remember a way that a real answer has shown to be the right one."""
        probe = probe_of(request)
        if probe is not None:
            self._keep(probe, way)

    def _keep(self, probe: Probe, way: Thinking) -> None:
        self._known[probe.key] = way
        if len(self._known) > KNOWN_MAX:
            self._known.popitem(last=False)

    async def _found(self, probe: Probe) -> Thinking:
        try:
            same = await self._token_ids(probe.served) == await self._token_ids(probe.without)
        except ExtractorRefused:
            return "template"
        return "template" if same else "grammar"
