"""Clients and ledgers for tests of the prefix promise: moves in, the requests of one conversation out; right and wrong
ways to place blocks.

`Place` is what a ledger does: (messages of a request, what it remembers) -> the block of each message by its index. It
may write into what it remembers. Nothing of the product is used here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hypothesis import strategies as st

from bench.fake_vllm.tokens import ids_of, pieces_of
from bench.prefix_cache.families import TEMPLATES, Family, family, template_of

Message = dict[str, Any]
Remembered = dict[str, Any]
Place = Callable[[Sequence[Message], Remembered], Mapping[int, str]]

SYSTEM: Message = {"role": "system", "content": "Be brief. Answer in the language of the question."}
MOVES = ("on", "on", "again", "fork", "back", "edit", "tool", "parts", "cut")

texts = st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Co")), min_size=1, max_size=60).filter(
    lambda text: bool(text.strip())
)
moves = st.lists(st.tuples(st.sampled_from(MOVES), st.integers(0, 5), texts), min_size=1, max_size=8)


def requests_of(moves: Sequence[tuple[str, int, str]], *, system: bool) -> list[list[Message]]:
    """The messages of each request of one client that makes these moves; each ends with a user's or a tool's."""
    said: list[Message] = [SYSTEM] if system else []
    sent: list[list[Message]] = []
    branches: list[list[Message]] = []
    for number, (move, where, text) in enumerate(moves):
        users = [at for at, message in enumerate(said) if message["role"] == "user"]
        if move == "again" and sent:
            said = list(sent[-1])
        elif move in ("fork", "edit") and len(users) > 1:
            branches.append(said)
            at = users[1 + where % (len(users) - 1)]  # another opening would be another conversation
            said = [*said[:at], {"role": "user", "content": f"{number} {text}"}]
        elif move == "back" and branches:
            said = [*branches[where % len(branches)], {"role": "user", "content": f"{number} {text}"}]
        elif move == "cut" and len(users) > 2:
            said = [*said[: users[0]], *said[users[1] :], {"role": "user", "content": text}]
        elif move == "parts":
            said = [*said, {"role": "user", "content": [{"type": "text", "text": text}, {"type": "text", "text": "!"}]}]
        else:
            said = [*said, {"role": "user", "content": text}]
        sent.append(said)
        if move == "tool":
            function = {"name": "look", "arguments": json.dumps({"q": number})}
            call = {"id": f"call{number:05}", "type": "function", "function": function}
            said = [*said, {"role": "assistant", "content": None, "tool_calls": [call]}]
            said = [*said, {"role": "tool", "tool_call_id": call["id"], "content": f"found {text}"}]
            sent.append(said)
        said = [*said, {"role": "assistant", "content": f"{number}: {text}"}]
    return sent


def newest_user(messages: Sequence[Message]) -> int:
    """The index of the last user message."""
    return max(at for at, message in enumerate(messages) if message["role"] == "user")


def _key(messages: Sequence[Message]) -> str:
    return json.dumps([message for message in messages if message["role"] != "system"])


def keeps_all(messages: Sequence[Message], remembered: Remembered) -> Mapping[int, str]:
    """A right ledger: what was placed behind the same messages stays; the newest user message is given one block."""
    newest = newest_user(messages)
    if messages[-1]["role"] == "user":
        block = f"<memory>\n[one] fact number {len(remembered)}\n</memory>\n\n"
        remembered.setdefault(_key(messages[: newest + 1]), block)
    kept = {at: remembered.get(_key(messages[: at + 1]), "") for at in range(len(messages))}
    return {at: block for at, block in kept.items() if block}


def forgets(messages: Sequence[Message], remembered: Remembered) -> Mapping[int, str]:
    """Wrong: only the newest block is there."""
    newest = newest_user(messages)
    return {at: block for at, block in keeps_all(messages, remembered).items() if at == newest}


def moves_up(messages: Sequence[Message], remembered: Remembered) -> Mapping[int, str]:
    """Wrong: all blocks move to the newest user message."""
    return {newest_user(messages): "".join(keeps_all(messages, remembered).values()) or "<memory></memory>"}


def renders_again(messages: Sequence[Message], remembered: Remembered) -> Mapping[int, str]:
    """Wrong: what was placed stays where it was, in other words."""
    blocks = keeps_all(messages, remembered)
    return {at: block.replace("fact", f"fact as of {len(messages)}") for at, block in blocks.items()}


def placed(messages: Sequence[Message], blocks: Mapping[int, str]) -> dict[str, Any]:
    """The upstream body of a client's messages with their blocks."""
    return {"messages": [_led(message, blocks.get(at, "")) for at, message in enumerate(messages)]}


def _led(message: Message, block: str) -> Message:
    if not block:
        return message
    content = message["content"]
    led = block + content if isinstance(content, str) else [{"type": "text", "text": block}, *content]
    return {**message, "content": led}


def family_of(name: str) -> Family:
    """A family that needs no network: its own tokenizer where that is installed, else a toy one; its own template."""
    if name in ("gpt-oss", "phi-4"):
        return family(name)
    source = (TEMPLATES / f"{name}.jinja").read_text(encoding="utf-8").rstrip("\n")
    sizes: dict[int, int] = {}

    def cut(text: str) -> Sequence[int]:
        pieces = pieces_of(text)
        ids = ids_of(pieces)
        sizes.update(zip(ids, map(len, pieces), strict=True))
        return ids

    return Family(name, template_of(source), cut, sizes.__getitem__)


FAMILIES = ("gpt-oss", "phi-4", "mistral-v7", "smollm2")
