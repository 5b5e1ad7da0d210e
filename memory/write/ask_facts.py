"""The question that asks the serving vLLM for facts: what was served and its answer in, a request body out.

The body is the served one as far as it shapes the prompt (messages with their memory blocks, model, tools, template
and its arguments, salt), those members raw as they came, then the answer and one instruction: the prompt begins with
the tokens that vLLM has just computed, so nearly all of the prefill is cache hits. Everything that shapes sampling is
left behind: temperature 0, one choice, no stream, bounded tokens, a schema.

`tool_choice` is none where tools are offered: vLLM 0.32 still renders the tools (a grammar of tool calls would compete
with ours under auto), unless the server runs with --exclude-tools-when-tool-choice-none, which costs the prefix. One
template of those vLLM knows (Kimi K3) writes `response_format` and `tool_choice` into the prompt, and costs it too.

Pure. Gives None for what cannot be asked: no JSON object, no messages, no user message, or over ASKED_BYTES_MAX.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from memory.chain import message_text
from memory.json_spans import Element, JsonObject, JsonUnreadable, decode_utf8, parse_document
from memory.placing import block_edit

ASKED_BYTES_MAX: Final = 4_194_304  # 1 MiB of JSON is 10 ms of parsing; images beyond this are not sent a second time
FACTS_MAX: Final = 16
# Members that reach the chat template, the tokenizer or the media processor (vLLM 0.32, ChatCompletionRequest).
PROMPT_MEMBERS: Final = (
    "model",
    "tools",
    "chat_template",
    "chat_template_kwargs",
    "reasoning_effort",
    "documents",
    "add_special_tokens",
    "media_io_kwargs",
    "mm_processor_kwargs",
    "cache_salt",
)
# served: as the client asked. template: enable_thinking false. grammar: the schema holds from the first token.
Thinking = Literal["served", "template", "grammar"]

_SHAPE: Final = (
    '{"facts":[{"evidence":"…","subject":"user","predicate":"lives_in","object":"…","statement":"…",'
    '"category":"fact","cardinality":"one","negated":false,"correction":false}]}'
)
# Below this a long question would be a tenth of the prompt: 300 tokens after 916 left .76 of it to the cache of a real
# vLLM, 69 after 1,008 .92. The brief one takes 69 tokens of SmolLM2, the full one 223; about 4 bytes of JSON make one.
FULL_FROM_BYTES: Final = 16_384
_BRIEF: Final = (
    "Pause here. List as JSON the lasting facts in {where}, never from <memory> or the assistant. evidence: exact "
    "quote; subject: user or a name; predicate: like lives_in; cardinality one: replaces the old; negated: true no "
    "longer; correction: of earlier words."
)
_FULL: Final = (
    "Leave the conversation here and answer with JSON only. List what the words in {where} say about the user, their "
    "people, things, plans, preferences, decisions and ways of working that will still matter in another "
    "conversation. Take only what the user said in their own words: nothing from <memory>, from the assistant, from a "
    "tool or from a quoted text, and no guesses. A question, a greeting or a wish for this one answer is no fact.\n"
    "evidence: the user's words, copied exactly. subject: user for the one who speaks, else a name or a thing. "
    "predicate: a few English words joined by _. object: the value, as short as the user said it. statement: one "
    "sentence in the user's language that can be read alone. category: fact, preference, convention, topology or "
    "decision. cardinality: one where a new object replaces the old one, as in lives_in, else many. negated: the user "
    "said that it does not hold any more. correction: the user set right what was said before."
)
_AGAIN: Final = (
    "Answer with one JSON object and nothing else: the lasting facts in {where}, each with the user's exact words as "
    'evidence, in the form {shape}, or {{"facts":[]}} where there are none.'
)


def _text(chars_max: int) -> dict[str, Any]:
    return {"type": "string", "maxLength": chars_max}


# Evidence first: what is written next has to follow from it. Only what vLLM's xgrammar backend supports.
SCHEMA: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {
        "facts": {
            "type": "array",
            "maxItems": FACTS_MAX,
            "items": {
                "type": "object",
                "properties": {
                    "evidence": _text(400),
                    "subject": _text(80),
                    "predicate": _text(60),
                    "object": _text(200),
                    "statement": _text(300),
                    "category": {"enum": ["fact", "preference", "convention", "topology", "decision"]},
                    "cardinality": {"enum": ["one", "many"]},
                    "negated": {"type": "boolean"},
                    "correction": {"type": "boolean"},
                },
                "required": [
                    *("evidence", "subject", "predicate", "object", "statement"),
                    *("category", "cardinality", "negated", "correction"),
                ],
                "additionalProperties": False,
            },
        }
    },
    "required": ["facts"],
    "additionalProperties": False,
}


@dataclass(frozen=True, slots=True)
class AskForm:
    """How to ask. `user_turns`: how many of the last user messages are this exchange's own."""

    max_tokens: int = 768
    user_turns: int = 1
    thinking: Thinking = "template"
    again: bool = False  # the second attempt: at temperature 0 the same words give the same answer
    full: bool = False  # a long conversation leaves room for a long question
    schema: bool = True


def ask_body(
    request: bytes,
    answer: Mapping[str, Any] | None,
    form: AskForm,
    *,
    blocks: Mapping[int, str] | None = None,
    salt: str | None = None,
) -> bytes | None:
    """The body to send, or None for what cannot be asked.

    `request`: what went upstream, or the client's own with `blocks` (the text placed at each index of `messages`) and
    the `salt` that the proxy set (None: the body's own). `answer`: the assistant's message of the first choice.
    """
    if len(request) > ASKED_BYTES_MAX:
        return None
    form = replace(form, full=form.full or len(request) >= FULL_FROM_BYTES)
    try:
        text = decode_utf8(request)
        served = parse_document(text, split=("messages",))
        messages = _elements(served)
        said = _with_blocks(text, messages, blocks or {})
        own = _own_members(text, served, form.thinking)
    except ValueError:
        return None
    if not any(isinstance(one.value, dict) and one.value.get("role") == "user" for one in messages):
        return None
    said += [json.dumps(message) for message in _added(messages[-1].value, answer, form)]
    if salt is not None:
        own["cache_salt"] = json.dumps(salt)
    pairs = {"messages": f"[{','.join(said)}]", **own, **_fixed(form, tools="tools" in own)}
    return ("{" + ",".join(f"{json.dumps(key)}:{raw}" for key, raw in pairs.items()) + "}").encode()


def instruction(form: AskForm) -> str:
    """The words of the question."""
    where = "the user's last message" if form.user_turns < 2 else f"the user's last {form.user_turns} messages"
    words = _AGAIN if form.again else _FULL if form.full else _BRIEF
    return words.format(where=f"{where} before this one", shape=_SHAPE)


def other_model_messages(turns: Iterable[tuple[str, str]], form: AskForm) -> list[dict[str, str]]:
    """The same question for a model that did not serve the conversation: the (role, text) turns as one quotation."""
    quoted = "\n".join(json.dumps({"role": role, "text": text}, ensure_ascii=False) for role, text in turns)
    return [
        {
            "role": "user",
            "content": f"A conversation, one turn a line:\n{quoted}\n\n{instruction(replace(form, full=True))}",
        }
    ]


def cache_salt_in(request: bytes) -> str | None:
    """The client's own cache_salt, which the tenant's is derived from."""
    try:
        member = parse_document(decode_utf8(request)).last("cache_salt")
    except JsonUnreadable:
        return None
    return member.value if member and isinstance(member.value, str) else None


def _elements(served: JsonObject) -> tuple[Element, ...]:
    messages = served.last("messages")
    return () if messages is None else messages.elements


def _with_blocks(text: str, messages: Iterable[Element], blocks: Mapping[int, str]) -> list[str]:
    """Each message raw, with its block as the proxy placed it."""
    said: list[str] = []
    for index, message in enumerate(messages):
        raw = text[message.start : message.end]
        if block := blocks.get(index):
            place = block_edit(raw, 0, block)
            raw = raw[: place.start] + place.replacement + raw[place.end :]
        said.append(raw)
    return said


def _own_members(text: str, served: JsonObject, thinking: Thinking) -> dict[str, str]:
    """The served members that shape the prompt, raw; nulls are as good as absent."""
    found = {member.key: text[member.value_start : member.end] for member in served.members}
    own: dict[str, str] = {key: found[key] for key in PROMPT_MEMBERS if key in found}
    own = {key: raw for key, raw in own.items() if raw != "null"}
    if own.get("tools", "").replace(" ", "") == "[]":
        del own["tools"]
    if thinking == "template":
        given = json.loads(own.get("chat_template_kwargs", "{}"))
        if not isinstance(given, dict):
            raise ValueError("chat_template_kwargs is no object")
        own["chat_template_kwargs"] = json.dumps({**given, "enable_thinking": False})
    return own


def _added(last: Any, answer: Mapping[str, Any] | None, form: AskForm) -> list[dict[str, str]]:
    """The answer and the question. Roles alternate, which many templates demand, so a call of a tool becomes words."""
    question = {"role": "user", "content": instruction(form)}
    if isinstance(last, dict) and last.get("role") == "assistant":  # the client had it go on with its own words
        return [question]
    return [{"role": "assistant", "content": _answer_text(answer or {})}, question]


def _answer_text(answer: Mapping[str, Any]) -> str:
    text = message_text(answer)
    if text:
        return text
    calls = answer.get("tool_calls")
    names = [_call_name(call) for call in calls] if isinstance(calls, list) else []
    return f"(called {', '.join(names)})" if names else "(no answer)"


def _call_name(call: Any) -> str:
    function = call.get("function") if isinstance(call, Mapping) else None
    return str(function.get("name")) if isinstance(function, Mapping) else "a tool"


def _fixed(form: AskForm, *, tools: bool) -> dict[str, str]:
    fixed: dict[str, Any] = {"stream": False, "n": 1, "temperature": 0, "max_tokens": form.max_tokens}
    if tools:
        fixed["tool_choice"] = "none"
    if form.schema:
        shape = {"name": "facts", "schema": SCHEMA, "strict": True}
        fixed["response_format"] = {"type": "json_schema", "json_schema": shape}
    if form.thinking == "grammar":
        fixed["include_reasoning"] = False
    return {key: json.dumps(value, separators=(",", ":")) for key, value in fixed.items()}
