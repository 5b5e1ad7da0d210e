"""A memory that a person writes anew: the change in, the same change with what the memory says now out.

A fact's triple is told from the new sentence (policies/restated.py) and counts as a correction, or it goes, and with it
what was said of it: a statement of the person's own stays a memory and is ruled on no more. A procedure is the wording
that it reads as now: who teaches the old one again teaches another. The turns that a memory rests on are out of date,
but for those that say what it says now. Runs in the transaction of the caller, which holds the scope; the caller rules
on it anew where it is still a fact. Raises StoreUnavailable.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final
from uuid import UUID

from memory.adapters.postgres.database import Transaction
from memory.adapters.postgres.fact_rows import SAME_MEANING
from memory.adapters.postgres.rows import Place, key_of_its_own
from memory.stored import MemoryChange
from policies.fact import Fact
from policies.reconcile import content_key
from policies.restated import as_words, restated
from policies.taught import content_key as procedure_key
from policies.text import storable

_TRIPLE: Final = ("subject", "predicate", "object", "category", "cardinality", "negated", "qualifiers")
_STEP: Final = re.compile(r"\s*+\d{1,3}[.)]\s++(.*\S)")


async def restate(tx: Transaction, place: Place, memory_id: UUID, change: MemoryChange) -> MemoryChange:
    """What is to be written. Attributes that the person gave stay as they are."""
    if change.content is None:
        return change
    text = storable(change.content)
    if text == await tx.value("content_of_memory", place.tenant, memory_id):
        return change
    if fact := await tx.row("fact_as_stated", place.tenant, memory_id):
        return await _restate_fact(tx, place, memory_id, change, fact, text)
    if taught := await tx.row("procedure_as_taught", place.tenant, memory_id):
        return await _restate_procedure(tx, place, memory_id, change, taught, text)
    await _correct_turns(tx, place, memory_id, lambda said: said == text)
    return change


async def _restate_fact(
    tx: Transaction, place: Place, memory_id: UUID, change: MemoryChange, row: Any, sentence: str
) -> MemoryChange:
    old = _fact(row, row["object"], row["content"])
    words = await asyncio.to_thread(restated, old, sentence)
    if words == old.object:
        return change
    key = None if words is None else content_key(replace(old, object=words))
    attributes: dict[str, Any] = dict(row["attributes"])
    taken = key and await tx.row("memory_of_content_key", place.tenant, place.scope_id, "semantic", key)
    if key is None or taken:
        if row["superseded_reason"] == SAME_MEANING:
            for name in ("take_sayings_back", "take_evidence_back"):
                await tx.run(name, place.tenant, row["superseded_by"], memory_id)
            await tx.run("stand_alone", place.tenant, memory_id)
        await tx.run("drop_fact", place.tenant, memory_id)
        key = key_of_its_own(b"edited", memory_id)
        attributes = {name: value for name, value in attributes.items() if name not in _TRIPLE}
    else:
        await tx.run("restate_fact", place.tenant, memory_id, words)
        await tx.run("correct_sayings", place.tenant, memory_id)
        attributes = {**attributes, "object": words}
        attributes.pop("qualifiers", None)
    await tx.run("rekey_memory", place.tenant, memory_id, key)
    await _correct_turns(tx, place, memory_id, lambda said: words is not None and _holds(said, words))
    if row["superseded_reason"] == SAME_MEANING and change.validation_status is None:
        change = replace(change, validation_status="confirmed")  # it stood behind another, and says something else now
    return change if change.attributes is not None else replace(change, attributes=attributes)


async def _restate_procedure(
    tx: Transaction, place: Place, memory_id: UUID, change: MemoryChange, row: Any, text: str
) -> MemoryChange:
    lead, *lines = text.strip().splitlines() or [""]
    steps = [found[1] for line in lines if (found := _STEP.match(line))]
    if row["origin"] == "taught":
        key = key_of_its_own(b"edited", memory_id)
        if lead == row["content"].split("\n", 1)[0] and len(steps) == len(lines) > 0:
            read = procedure_key(row["trigger"], steps)
            other = await tx.row("memory_of_content_key", place.tenant, place.scope_id, "procedural", read)
            key = read if other is None or other["memory_id"] == memory_id else key
        await tx.run("rekey_memory", place.tenant, memory_id, key)
    await _correct_turns(tx, place, memory_id, lambda _: False)
    if change.attributes is not None:
        return change
    return replace(change, attributes={**row["attributes"], "steps": [{"text": step} for step in steps]})


async def _correct_turns(tx: Transaction, place: Place, memory_id: UUID, says: Callable[[str], bool]) -> None:
    """The turns that it rests on say what it does not say any more, but for those whose text says it."""
    said = await tx.fetch("turns_of_memory", place.tenant, memory_id)
    gone = [row["event_id"] for row in said if not says(row["content"])]
    await tx.run("forget_corrected", place.tenant, memory_id)
    await tx.run("add_corrected", place.tenant, memory_id, gone, place.scope_id)


def _holds(text: str, words: str) -> bool:
    return re.search(as_words(words), " ".join(text.casefold().split())) is not None


def _fact(row: Any, words: str, sentence: str) -> Fact:
    return Fact(row["subject"], row["predicate"], words, sentence, (0, 1), negated=row["negated"])
