"""Episodic memories: the clean turns of an exchange or an import in, those worth keeping in their own words out.

One memory for each turn. Errands of a front-end, answers that only quote memory or were broken off, and mere signs make
none; what is held back always does, so that the review has it. Pure; refuses nothing.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final
from uuid import UUID

from memory.chain import Digest
from memory.ids import derived_id
from memory.model import Captured, NewMemory, Turn
from memory.write.turns import Body, instructions_of
from policies.brought import instructs_errand, is_errand, is_output, is_state, unframed
from policies.hygiene import is_junk, repeats
from policies.labels import Integrity, derived_integrity

EXTRACTOR_VERSION: Final = "episodic-1"
# A turn of the live path that is a tool's output or empty is kept as a turn and makes no memory of its own.
_REMEMBERED_ROLES: Final = frozenset({"user", "assistant"})


def episodic(turns: Sequence[Turn], tenant: UUID, held: Mapping[UUID, str], *, live: bool) -> list[NewMemory]:
    """One episodic memory for each turn worth one, in its own words; of what is held back for each that has any, whole:
    a review sees why.
    """
    return [
        NewMemory(
            memory_id=derived_id(turn.event_id, "episodic"),
            kind="episodic",
            content=quoted(turn if turn.event_id in held else said),
            content_key=content_key(tenant, turn.event_id),
            role=said.role,
            integrity=said.integrity,
            sensitivity=turn.sensitivity,
            origin=turn.origin,
            importance=0.5,
            confidence=1.0,
            occurred_at=turn.occurred_at,
            extractor_version=EXTRACTOR_VERSION,
            source_turns=(turn.event_id,),
            language=turn.language,
            tool_name=turn.name if turn.role == "tool" else None,
            quarantine=held.get(turn.event_id, ""),
        )
        for turn, said in zip(turns, map(_as_said, turns), strict=True)
        if turn.content.strip()
        and (not live or turn.event_id in held or (turn.role in _REMEMBERED_ROLES and not is_junk(turn.content)))
    ]


def worth_keeping(turns: Sequence[Turn], held: Mapping[UUID, str], captured: Captured, body: Body) -> list[Turn]:
    """The turns that memories may be made of: no answer that only quotes what was placed, none that was broken off, no
    errand of a front-end and its answer; and whatever is held back. A long history has many of all: work for a
    processor.
    """
    placed = [one.text for one in captured.retrieval.placed] if captured.retrieval else []
    said = without_errands(turns)
    said = [turn for turn in said if turn.role != "assistant" or not repeats(turn.content, placed)]
    if captured.status != "complete" or any(map(instructs_errand, instructions_of(captured, body))):
        said = _without_answers(said, captured)
    known = {turn.event_id for turn in said}
    return said + [turn for turn in turns if turn.event_id in held and turn.event_id not in known]


def without_errands(turns: Sequence[Turn]) -> list[Turn]:
    """Without what a front-end asks for itself, and its answers; and what a program says of its own state with every
    message: they stay in their conversation.
    """
    errands = {turn.chain for turn in turns if turn.role == "user" and is_errand(turn.content)}
    said = [turn for turn in turns if errands.isdisjoint((turn.chain, turn.parent_chain))]
    return [turn for turn in said if turn.role != "user" or not is_state(turn.content)]


def brought_along(captured: Captured, turns: Sequence[Turn]) -> list[Digest]:
    """The positions of these turns that are history: up to the last answer that the request had already."""
    asked = set(captured.digests)
    history = [turn for turn in turns if turn.chain in asked]
    while history and history[-1].role != "assistant":
        history.pop()
    return [turn.chain for turn in history]


def _without_answers(turns: Sequence[Turn], captured: Captured) -> list[Turn]:
    """Without what the model said now: an answer whose end was never said, or to an errand. It stays in its
    conversation; half a sentence is recalled by nobody, least of all by whoever asks the same again. What a user said
    stays: many errands are given the question itself, which its own request says again.
    """
    asked = set(captured.digests)
    return [turn for turn in turns if turn.chain in asked]


def _as_said(turn: Turn) -> Turn:
    """A turn by who it is of: a tool's output that a client sent as the user's message is the tool's, and of what a
    program put around a question the question is the user's.
    """
    if turn.role != "user":
        return turn
    if is_output(turn.content):
        return replace(turn, role="tool", integrity=derived_integrity((turn.integrity, Integrity.TOOL)))
    return replace(turn, content=unframed(turn.content))


def quoted(turn: Turn) -> str:
    """A turn as memory quotes it: under the name of who spoke, where there is one."""
    return f"{turn.name}: {turn.content}" if turn.name else turn.content


def content_key(tenant: UUID, event_id: UUID) -> bytes:
    """The key of an episodic memory: one for each turn, so that equal words said twice stay two."""
    return hmac.digest(tenant.bytes, b"episodic" + event_id.bytes, "sha256")
