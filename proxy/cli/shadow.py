"""A changed configuration over past turns, compared: turns with what each series placed in, figures out. Pure.

A series is what a configuration would have placed, turn by turn, under the ledger's rule: what was placed stays where
it was for the rest of its conversation, new memory comes at the tail (the ledger's ceiling is not simulated). So is the
prefix cache: chained hashes of full blocks of the prompt, none ever dropped, requests in the order in which they came.
The prompt is written by a template of ours: ratios compare with each other, not with vLLM's own counters.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

BLOCK_TOKENS: Final = 16  # vLLM's own block
BLOCK_CHARS: Final = 64  # about as much English
Units = Callable[[str], Sequence[Hashable]]


@dataclass(frozen=True, slots=True)
class Block:
    """What was, or would be, newly placed at a turn."""

    position: int
    text: str
    tokens: int
    memory_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Bare:
    """A request without memory: what its client said. `head`: model, salt and tools, which stand before all else."""

    session: str
    head: str
    messages: tuple[Mapping[str, Any], ...]

    def prompt(self, blocks: Mapping[int, str]) -> str:
        """The prompt with these blocks before the texts of their messages."""
        turns = (_rendered(one, blocks.get(at, "")) for at, one in enumerate(self.messages))
        return self.head + "".join(turns)

    def places(self) -> list[str]:
        """What each message is recognised by: it and all before it, of this conversation; instructions do not count."""
        chain, places = hashlib.sha256(self.session.encode()), []
        for one in self.messages:
            if one.get("role") not in ("system", "developer"):
                chain.update(_rendered(one, "").encode("utf-8", "surrogatepass"))
            places.append(chain.hexdigest())
        return places


@dataclass(slots=True)
class Ledger:
    """What a series has placed, by place. Mutable: it grows turn by turn."""

    placed: dict[str, Block] = field(default_factory=dict)

    def carried(self, bare: Bare) -> dict[int, Block]:
        """What stands in this request from earlier turns, by message."""
        return {at: self.placed[place] for at, place in enumerate(bare.places()) if place in self.placed}

    def place(self, bare: Bare, block: Block) -> None:
        """Keep what is newly placed. Something placed there before (another attempt at the turn) stays."""
        self.placed.setdefault(bare.places()[block.position], block)


@dataclass(slots=True)
class PrefixCache:
    """vLLM's prefix cache without a bound. Mutable: it holds what it was shown."""

    units: Units
    block: int
    seen: set[bytes] = field(default_factory=set)
    total: int = 0
    cached: int = 0

    def take(self, prompt: str) -> None:
        """Count one prompt and hold its blocks."""
        units = self.units(prompt)
        parent, hit = b"", True
        self.total += len(units)
        for start in range(0, len(units) - self.block + 1, self.block):
            said = repr(tuple(units[start : start + self.block])).encode("utf-8", "surrogatepass")
            parent = hashlib.sha256(parent + said).digest()
            hit = hit and parent in self.seen
            self.cached += self.block * hit
            self.seen.add(parent)

    @property
    def ratio(self) -> float:
        """The part of all units that was held already."""
        return self.cached / self.total if self.total else 0.0


@dataclass(slots=True)
class Series:
    """One configuration's figures, turn by turn. Mutable."""

    cache: PrefixCache
    ledger: Ledger = field(default_factory=Ledger)
    placed: int = 0
    tokens: int = 0
    common: int = 0
    then: int = 0
    overlaps: list[float] = field(default_factory=list)

    def take(self, prompt: str, fresh: Iterable[Block], then: Iterable[str]) -> None:
        """One turn: its prompt, what was newly placed in it, and the memories that were placed when it was answered."""
        blocks = list(fresh)
        ids, were = {one for block in blocks for one in block.memory_ids}, set(then)
        self.cache.take(prompt)
        self.placed += len(ids)
        self.tokens += sum(block.tokens for block in blocks)
        self.common += len(ids & were)
        self.then += len(were)
        if ids | were:
            self.overlaps.append(len(ids & were) / len(ids | were))

    def figures(self) -> dict[str, Any]:
        """What a report says of it. `of_then`: of the memories that were placed, how many are placed now."""
        return {
            "placed": self.placed,
            "tokens": self.tokens,
            "of_then": round(self.common / self.then, 4) if self.then else None,
            "jaccard": round(sum(self.overlaps) / len(self.overlaps), 4) if self.overlaps else None,
            "cache_ratio": round(self.cache.ratio, 4),
        }


def bare_of(session: str, request: str, placed: Iterable[Mapping[str, Any]]) -> Bare:
    """What the client said: a rebuilt request less its blocks."""
    body = json.loads(request)
    messages = list(body.get("messages") or ())
    for one in reversed(list(placed)):
        messages[one["position"]] = _without(messages[one["position"]], one["text"])
    head = json.dumps([body.get("model"), body.get("cache_salt"), body.get("tools")]) + "\n"
    return Bare(session, head, tuple(one for one in messages if isinstance(one, dict)))


def _without(message: Mapping[str, Any], text: str) -> dict[str, Any]:
    content = message["content"]
    if isinstance(content, str):
        return {**message, "content": content.removeprefix(text)}
    first = content[0] if content else None
    return {**message, "content": content[1:] if isinstance(first, dict) and first.get("text") == text else content}


def _rendered(message: Mapping[str, Any], block: str) -> str:
    """A message as a template writes it: its role, the block, its texts, whatever else it holds."""
    content = message.get("content")
    parts = content if isinstance(content, list) else [content]
    said = "\n".join(_said(part) for part in parts if part is not None)
    rest = {name: value for name, value in message.items() if name not in ("role", "content")}
    more = json.dumps(rest, sort_keys=True) if rest else ""
    return f"<|{message.get('role')}|>\n{block}{said}{more}\n"


def _said(part: Any) -> str:
    if isinstance(part, str):
        return part
    if isinstance(part, dict) and isinstance(part.get("text"), str):
        return str(part["text"])
    return json.dumps(part, sort_keys=True)
