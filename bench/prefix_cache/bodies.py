"""A client's request beside what reached the model: two bodies in, what is memory's and what the client's out.

Knows neither the ledger nor the proxy's code, only the promise (DESIGN sections 1 and 5): nothing is changed but text
before the client's own in a user message, the `memory` object, the `cache_salt`. Anything else is Altered.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

OURS: Final = frozenset({"memory", "cache_salt", "messages"})


class Altered(Exception):
    """What reached the model differs from what the client sent by more than blocks; the text says where."""


@dataclass(frozen=True, slots=True)
class Said:
    """One message as a template sees it, parts joined; `block` is how many characters at its head are memory's."""

    message: Mapping[str, Any]
    block: int = 0

    @property
    def text(self) -> str:
        """Its content, "" where it has none."""
        content = self.message.get("content")
        return content if isinstance(content, str) else ""


@dataclass(frozen=True, slots=True)
class Body:
    """What a prompt is made of."""

    messages: tuple[Said, ...]
    tools: Any
    salt: str

    @property
    def blocks(self) -> tuple[str, ...]:
        """The block of each message, "" where there is none."""
        return tuple(said.text[: said.block] for said in self.messages)


def client_body(body: Mapping[str, Any]) -> Body:
    """A body as its client sent it: without any block."""
    messages = tuple(Said(_flat(message)) for message in body["messages"])
    return Body(messages, body.get("tools"), str(body.get("cache_salt") or ""))


def upstream_body(client: Mapping[str, Any], upstream: Mapping[str, Any]) -> Body:
    """A body as the model received it, its blocks marked by what the client sent. Raises Altered."""
    for key in sorted((client.keys() | upstream.keys()) - OURS):
        if client.get(key) != upstream.get(key) or (key in client) != (key in upstream):
            raise Altered(f"the member {key!r} was changed")
    sent, received = client["messages"], upstream["messages"]
    if len(sent) != len(received):
        raise Altered(f"{len(sent)} messages became {len(received)}")
    messages = tuple(_marked(at, own, got) for at, (own, got) in enumerate(zip(sent, received, strict=True)))
    return Body(messages, upstream.get("tools"), str(upstream.get("cache_salt") or ""))


def _marked(at: int, own: Mapping[str, Any], got: Mapping[str, Any]) -> Said:
    if own == got:
        return Said(_flat(got))
    rest = own.keys() | got.keys()
    if own.get("role") != "user" or any(own.get(key) != got.get(key) for key in rest - {"content"}):
        raise Altered(f"message {at} ({own.get('role')}) was changed")
    mine, theirs = own.get("content"), got.get("content")
    if isinstance(mine, list):
        if not isinstance(theirs, list) or not _only_led(mine, theirs):
            raise Altered(f"message {at}: its parts are not text of ours and then the client's own")
    elif not isinstance(mine, str) or not isinstance(theirs, str) or not theirs.endswith(mine):
        raise Altered(f"message {at} does not end with the client's own text")
    flat = _flat(got)
    return Said(flat, len(flat["content"]) - len(_flat(own)["content"]))


def _only_led(mine: Sequence[Any], theirs: Sequence[Any]) -> bool:
    """Whether the parts are the client's own behind one or more parts of text."""
    led = len(theirs) - len(mine)
    texts = (isinstance(part, dict) and part.get("type") == "text" for part in theirs[:led])
    return led > 0 and theirs[led:] == mine and all(texts)


def _flat(message: Mapping[str, Any]) -> dict[str, Any]:
    """The message with its text parts joined by line feeds, as vLLM gives them to a template that wants strings."""
    content = message.get("content")
    if not isinstance(content, list):
        return dict(message)
    return {**message, "content": "\n".join(_part(part) for part in content)}


def _part(part: Mapping[str, Any]) -> str:
    text = part.get("text")
    return text if isinstance(text, str) else f"<{part.get('type')}>"
