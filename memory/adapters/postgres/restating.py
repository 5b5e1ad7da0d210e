"""A fact whose sentence a person writes anew: the change in, the same change with what the fact says now out.

Its triple is told from the new sentence (policies/restated.py) and counts as a correction, or it goes, and with it what
was said of it: a statement of the person's own stays a memory and is ruled on no more. Runs in the transaction of the
caller, which holds the scope; the caller rules on it anew where it is still a fact. Raises StoreUnavailable.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Any, Final
from uuid import UUID

from memory.adapters.postgres.database import Transaction
from memory.adapters.postgres.fact_rows import SAME_MEANING
from memory.adapters.postgres.rows import Place
from memory.stored import MemoryChange
from policies.fact import Fact
from policies.reconcile import content_key
from policies.restated import restated
from policies.text import storable

_TRIPLE: Final = ("subject", "predicate", "object", "category", "cardinality", "negated", "qualifiers")


async def restate(tx: Transaction, place: Place, memory_id: UUID, change: MemoryChange) -> MemoryChange:
    """What is to be written. Attributes that the person gave stay as they are."""
    row = None if change.content is None else await tx.row("fact_as_stated", place.tenant, memory_id)
    if change.content is None or row is None or storable(change.content) == row["content"]:
        return change
    old = _fact(row, row["object"], row["content"])
    words = restated(old, change.content)
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
        key = hashlib.sha256(b"edited" + memory_id.bytes).digest()
        attributes = {name: value for name, value in attributes.items() if name not in _TRIPLE}
    else:
        await tx.run("restate_fact", place.tenant, memory_id, words)
        await tx.run("correct_sayings", place.tenant, memory_id)
        attributes = {**attributes, "object": words}
        attributes.pop("qualifiers", None)
    await tx.run("rekey_memory", place.tenant, memory_id, key)
    if row["superseded_reason"] == SAME_MEANING and change.validation_status is None:
        change = replace(change, validation_status="confirmed")  # it stood behind another, and says something else now
    return change if change.attributes is not None else replace(change, attributes=attributes)


def _fact(row: Any, words: str, sentence: str) -> Fact:
    return Fact(row["subject"], row["predicate"], words, sentence, (0, 1), negated=row["negated"])
