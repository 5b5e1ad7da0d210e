"""The ledger's promise as a check: two client requests and what reached the model for each in, a Violation or None.

"Wherever two requests share a token prefix without memory, they share at least that prefix, plus the blocks inside it,
with memory" (DESIGN promise 4), up to the last message that ends inside what the two clients share. Meant for requests
of one conversation: two conversations that happen to begin alike may have been given different memories. Says nothing
about how it was done.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Literal

from bench.prefix_cache.bodies import Altered, client_body, upstream_body
from bench.prefix_cache.families import Family
from bench.prefix_cache.prompts import Prompt, prompt_of


@dataclass(frozen=True, slots=True)
class Violation:
    """How the promise was broken. Tokens; `message` is the last one whose end both clients share."""

    kind: Literal["altered", "shorter"]
    said: str
    message: int | None = None
    owed: int = 0
    shared_with: int = 0


def shares_prefix(
    client_a: Mapping[str, Any],
    client_b: Mapping[str, Any],
    upstream_a: Mapping[str, Any],
    upstream_b: Mapping[str, Any],
    family: Family,
) -> Violation | None:
    """Whether the upstream prompts share what they owe; bodies as parsed JSON.

    Raises TemplateUnfit, jinja2.TemplateError where the family cannot render these messages.
    """
    try:
        with_a, with_b = upstream_body(client_a, upstream_a), upstream_body(client_b, upstream_b)
    except Altered as altered:
        return Violation("altered", str(altered))
    clients = prompt_of(client_body(client_a), family), prompt_of(client_body(client_b), family)
    return compared(*clients, prompt_of(with_a, family), prompt_of(with_b, family))


def violations(exchanges: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]], family: Family) -> list[Violation]:
    """What is wrong between any two requests of one conversation, each (client's body, upstream body).

    The same as `shares_prefix` on every pair, with each body rendered once. Raises as that does.
    """
    found: list[Violation] = []
    prompts: list[tuple[Prompt, Prompt]] = []
    for client, upstream in exchanges:
        try:
            with_memory = prompt_of(upstream_body(client, upstream), family)
        except Altered as altered:
            found.append(Violation("altered", str(altered)))
            continue
        prompts.append((prompt_of(client_body(client), family), with_memory))
    pairs = (compared(a, b, with_a, with_b) for (a, with_a), (b, with_b) in combinations(prompts, 2))
    return found + [violation for violation in pairs if violation is not None]


def compared(client_a: Prompt, client_b: Prompt, upstream_a: Prompt, upstream_b: Prompt) -> Violation | None:
    """The same on prompts. A difference of salts between the two clients leaves nothing owed."""
    if client_a.salt != client_b.salt:
        return None
    shared = common_prefix(client_a.ids, client_b.ids)
    last = _last_shared(client_a, client_b, shared)
    if last is None:
        return None
    owed = upstream_a.ends[last] or 0
    found = common_prefix(upstream_a.ids, upstream_b.ids) if upstream_a.salt == upstream_b.salt else 0
    if found >= owed:
        return None
    own = client_a.ends[last] or 0
    said = f"the clients share {own} tokens up to the end of message {last}, the prompts {found} of the {owed} owed"
    return Violation("shorter", said, last, owed, found)


def _last_shared(a: Prompt, b: Prompt, shared: int) -> int | None:
    """The last message that ends at the same token in both, inside what they share."""
    ends = [
        at
        for at, (one, other) in enumerate(zip(a.ends, b.ends, strict=False))
        if one is not None and one == other and one <= shared
    ]
    return ends[-1] if ends else None


def common_prefix(a: array[int], b: array[int]) -> int:
    """Tokens that two prompts begin with alike."""
    low, high = 0, min(len(a), len(b))
    while low < high:  # a[:low] == b[:low]; slices are compared faster than a token at a time
        middle = (low + high + 1) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
