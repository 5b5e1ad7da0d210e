"""What of a commit goes ahead of it: a Commit in, the same in parts out, each for a transaction of its own.

A conversation that is sent for the first time may have any number of messages, and a transaction has a bound, past
which its lane would try it again for ever. So its oldest turns go ahead, with the memories, facts and procedures that
rest on them; the exchange comes with the last. Killed in between, the next attempt finds the turns that are stored.
Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from memory.model import Commit, Committed
from memory.stored import Digests

TURNS_AT_ONCE: Final = 2_000
"""2 to 7 s of one slow core."""


def in_parts(commit: Commit, digests: Digests) -> Iterator[tuple[Commit, Digests]]:
    """The commit in the order of its turns, each part with the digests of its own."""
    last = max(0, len(commit.turns) - TURNS_AT_ONCE)
    for start in range(0, last, TURNS_AT_ONCE):
        part, own = _part(commit, digests, start, min(start + TURNS_AT_ONCE, last))
        yield replace(part, nodes=(), retrieval=None, ahead=True), own
    yield _part(commit, digests, last, len(commit.turns)) if last else (commit, digests)


def _part(commit: Commit, digests: Digests, start: int, end: int) -> tuple[Commit, Digests]:
    turns = commit.turns[start:end]
    ids = {turn.event_id for turn in turns}
    part = replace(
        commit,
        turns=turns,
        memories=tuple(one for one in commit.memories if not ids.isdisjoint(one.source_turns)),
        facts=tuple(one for one in commit.facts if one.event_id in ids),
        procedures=tuple(one for one in commit.procedures if one.event_id in ids),
    )
    return part, replace(digests, items={one: pairs for one, pairs in digests.items.items() if one in ids})


def together(parts: Sequence[Committed]) -> Committed:
    """What all parts of a commit changed."""
    last = parts[-1]
    return replace(
        last,
        scope_version=max(one.scope_version for one in parts),
        new_turns=sum(one.new_turns for one in parts),
        erased=sum(one.erased for one in parts),
        facts_new=sum(one.facts_new for one in parts),
        facts_dropped=sum(one.facts_dropped for one in parts),
        procedures_new=sum(one.procedures_new for one in parts),
        over_budget=sum(one.over_budget for one in parts),
    )
