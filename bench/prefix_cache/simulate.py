"""vLLM's prefix cache with memory and without: Exchanges and a family in, cached tokens of both arms out.

Two caches of the kind that bench.fake_vllm has (chained full blocks, the salt before the first, the last token always
computed again; FACTS) see the same requests in the same order: one the clients' own bodies, the other the bodies that
reached the model. Both keep what was answered, as vLLM does, and never evict. Counted are the client's own tokens; what
lies in a block of memory is not the client's. A violation of the ledger's promise between two requests of one
conversation is counted too.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import jinja2

from bench.fake_vllm.prefix_cache import PrefixCache
from bench.prefix_cache.bodies import Altered, Body, client_body, upstream_body
from bench.prefix_cache.dialogues import Message
from bench.prefix_cache.exchange import Exchange
from bench.prefix_cache.families import Family
from bench.prefix_cache.prompts import Prompt, prompt_of
from bench.prefix_cache.sharing import Violation, compared

BLOCK_TOKENS: Final = 16
EXAMPLES_MAX: Final = 5
# Behind an answer: its end marker, which templates write in other ways than models do, and the token not yet computed.
_NOT_STORED: Final = 2


@dataclass(slots=True)
class Sums:
    """Requests and prompt tokens; `off` without memory, `on` with it, `own` the client's among these; mutable."""

    requests: int = 0
    with_block: int = 0
    off_tokens: int = 0
    off_cached: int = 0
    on_tokens: int = 0
    on_cached: int = 0
    own_tokens: int = 0
    own_cached: int = 0

    def add(self, off: tuple[Prompt, int], on: tuple[Prompt, int]) -> None:
        """One request: its prompts and how many tokens of each were cached."""
        (without, off_cached), (with_memory, on_cached) = off, on
        self.requests += 1
        self.with_block += 0 in with_memory.own
        self.off_tokens += len(without.ids)
        self.off_cached += off_cached
        self.on_tokens += len(with_memory.ids)
        self.on_cached += on_cached
        self.own_tokens += with_memory.own_tokens
        self.own_cached += sum(with_memory.own[:on_cached])

    @property
    def ratio(self) -> float | None:
        """Cached share of the client's own tokens with memory, against without. None where nothing was cached."""
        return _against(self.own_cached, self.own_tokens, self.off_cached, self.off_tokens)

    @property
    def raw_ratio(self) -> float | None:
        """The same with all tokens of the prompts, memory's among them."""
        return _against(self.on_cached, self.on_tokens, self.off_cached, self.off_tokens)


def _against(cached: int, tokens: int, off_cached: int, off_tokens: int) -> float | None:
    if not off_cached or not tokens:
        return None
    return (cached / tokens) / (off_cached / off_tokens)


@dataclass(slots=True)
class Result:
    """What a family's cache had to say of a run; mutable."""

    family: str
    kinds: dict[str, Sums] = field(default_factory=lambda: defaultdict(Sums))
    violations: Counter[str] = field(default_factory=Counter)
    examples: list[str] = field(default_factory=list)
    unfit: int = 0  # requests that the chat template refuses, with memory and without

    @property
    def whole(self) -> Sums:
        """All kinds together."""
        total = Sums()
        for one in self.kinds.values():
            for name in Sums.__slots__:
                setattr(total, name, getattr(total, name) + getattr(one, name))
        return total


def simulate(exchanges: Sequence[Exchange], family: Family, *, block_tokens: int = BLOCK_TOKENS) -> Result:
    """Run both arms. Raises TemplateUnfit where whose tokens are whose cannot be told."""
    result = Result(family.name)
    off, on = _cache(block_tokens), _cache(block_tokens)
    earlier: dict[str, list[tuple[Prompt, Prompt]]] = defaultdict(list)
    for exchange in exchanges:
        client = client_body(exchange.client)
        try:
            received = upstream_body(exchange.client, exchange.upstream)
        except Altered as altered:
            _note(result, exchange, Violation("altered", str(altered)))
            continue
        try:
            without, with_memory = prompt_of(client, family), prompt_of(received, family)
        except jinja2.TemplateError:
            result.unfit += 1
            continue
        cached = _used(off, without, client, exchange.answer, family)
        cached_with = _used(on, with_memory, received, exchange.answer, family)
        result.kinds[exchange.kind].add((without, cached), (with_memory, cached_with))
        for one, other in earlier[exchange.script]:
            if (violation := compared(one, without, other, with_memory)) is not None:
                _note(result, exchange, violation)
                break
        earlier[exchange.script].append((without, with_memory))
    return result


def _cache(block_tokens: int) -> PrefixCache:
    return PrefixCache(block_tokens, blocks_max=1 << 60)


def _used(cache: PrefixCache, prompt: Prompt, body: Body, answer: Message, family: Family) -> int:
    """Cached tokens of a prompt, which then is cached itself, with its answer."""
    cached = cache.use(prompt.ids, prompt.salt).cached
    messages: list[Mapping[str, Any]] = [*(said.message for said in body.messages), answer]
    ids = family.ids_of(family.render(messages, body.tools, add_generation_prompt=False))
    if list(prompt.ids) == list(ids[: len(prompt.ids)]):
        cache.store(ids[:-_NOT_STORED], prompt.salt)
    return cached


def _note(result: Result, exchange: Exchange, violation: Violation) -> None:
    result.violations[violation.kind] += 1
    if len(result.examples) < EXAMPLES_MAX:
        result.examples.append(f"{exchange.script} ({exchange.kind}): {violation.said}")
