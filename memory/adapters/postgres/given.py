"""What an exchange leaves behind whose prompt held a memory, or whose request a turn, that was forgotten before it
could be stored: a Commit in, one without that out.

The words that were forgotten are not known any more, so nobody can tell whether the answer repeats them: what the model
said behind the block that quotes them is not stored (batch.forgotten names it). Of the record goes what goes of one
that is stored already: the memory's id, the block that quotes it, all that is sealed. Pure.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Set
from dataclasses import replace
from typing import Any, Final
from uuid import UUID

from memory.model import Commit, LedgerNode, SealedRetrieval, SealedToken, Turn, Withdrawn

_WHY: Final = "erased"


def without_given(commit: Commit, memories: Set[str], unsaid: Set[UUID]) -> Commit:
    """The commit without these memories. `unsaid`: the turns that are not stored with it."""
    if not memories:
        return commit
    places = {turn.chain for turn in commit.turns if turn.event_id in unsaid}
    retrieval = commit.retrieval and _unnamed(commit.retrieval, memories)
    blocks = {one.chain for one in retrieval.record.withdrawn} if retrieval else set()
    nodes = (_bare(node) if node.chain in blocks else node for node in commit.nodes if node.chain not in places)
    left = [turn for turn in commit.turns if turn.event_id not in unsaid]
    return replace(
        commit,
        exchange=commit.exchange.unsealed(),
        nodes=tuple(nodes),
        retrieval=retrieval,
        tokens=tuple(one for one in commit.tokens if _stands_in(one, left)),
    )


def unsealed(commit: Commit) -> Commit:
    """The commit without its request and question, which hold a turn that was forgotten: a history that came again."""
    retrieval = commit.retrieval and replace(commit.retrieval, sealed=None)
    return replace(commit, exchange=commit.exchange.unsealed(), retrieval=retrieval)


def _unnamed(sealed: SealedRetrieval, memories: Set[str]) -> SealedRetrieval:
    """The record without them; a block that quotes one is withdrawn whole."""
    record = sealed.record
    gone = [one for one in record.placed if not memories.isdisjoint(map(str, one.memory_ids))]
    left = replace(
        record,
        candidates=tuple(_without_later(one, memories) for one in record.candidates if one["id"] not in memories),
        placed=tuple(one for one in record.placed if one not in gone),
        withdrawn=(*record.withdrawn, *(Withdrawn(one.chain, _WHY) for one in gone)),
    )
    return replace(sealed, record=left, sealed=None)


def _without_later(candidate: Mapping[str, Any], memories: Set[str]) -> dict[str, Any]:
    """What says it otherwise is named no more."""
    return {**candidate, "later": None} if candidate.get("later") in memories else dict(candidate)


def _bare(node: LedgerNode) -> LedgerNode:
    return replace(node, placed_sealed=None, placed_sha256=None)


def _stands_in(token: SealedToken, turns: list[Turn]) -> bool:
    """Whether one of these turns names a piece of personal data by its token."""
    said = (json.dumps((one.name, one.content, one.tool_calls, one.tool_call_id, one.parts)) for one in turns)
    return any(token.token in one for one in said)
