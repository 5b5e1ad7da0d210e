"""Facts that say the same in other words: facts in, pairs of one scope of which one may go, and one fact less, out.

`doubles` only reads, so it may see what changes a moment later; `still_doubles` is asked again in the transaction that
holds the scope and calls `merge`. The one that goes stands behind the other (superseded, reason "same meaning"): its
sayings and turns count for the other from now on, its own key is ruled on as before, and nothing of it is out of date.
It comes back by itself when it is said anew, when a person confirms it, or when something else takes its place
(memory/adapters/postgres/facts.py). Raises StoreUnavailable.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from memory.adapters.postgres import facts, outbox
from memory.adapters.postgres.database import Transaction
from memory.adapters.postgres.fact_rows import SAME_MEANING
from memory.adapters.postgres.facts import EmbeddingQueries
from memory.adapters.postgres.queries import Query
from memory.adapters.postgres.rows import Place
from policies.labels import Integrity
from policies.same_meaning import Grounds, Meant, better, kin_of, same_meaning, sense_of

STATEMENTS_OF_KEY_MAX: Final = 200
"""Of one subject and predicate the latest said are compared; of 1,000 likes the first 800 are not."""


@dataclass(frozen=True, slots=True)
class Double:
    """A fact that may go, and the one that says the same and stays."""

    gone: UUID
    kept: UUID


@dataclass(frozen=True, slots=True)
class _Known:
    """A fact with all that decides."""

    row: Any
    meant: Meant
    grounds: Grounds


async def doubles(tx: Transaction, tenant: UUID, memory_ids: Sequence[UUID], cosines: Query) -> list[Double]:
    """Those of these facts that say what another fact of their scope says."""
    asked = await tx.fetch("keys_in_force", tenant, memory_ids)
    keys = sorted({(row["scope_id"], row["subject"], kin) for row in asked for kin in kin_of(row["predicate"])})
    names = ([key[at] for key in keys] for at in range(3))
    found = await tx.fetch("statements_in_force", tenant, *names, STATEMENTS_OF_KEY_MAX) if keys else []
    alike = await asyncio.to_thread(_alike, found, {row["memory_id"] for row in asked})
    known = await _known(tx, tenant, [one for group in alike for one in group])
    pairs = [pair for group in alike for pair in _of_the_best([known[one] for one in group if one in known])]
    wanted = frozenset(memory_ids)
    return await _near(tx, tenant, known, [one for one in pairs if one.gone in wanted], cosines)


async def still_doubles(tx: Transaction, tenant: UUID, asked: Sequence[Double], cosines: Query) -> list[Double]:
    """Those of these pairs of which the one may still go for the other."""
    known = await _known(tx, tenant, [memory_id for one in asked for memory_id in (one.gone, one.kept)])
    there = [one for one in asked if one.gone in known and one.kept in known]
    pairs = [one for one in there if _may_go(known[one.gone], known[one.kept])]
    return await _near(tx, tenant, known, pairs, cosines)


async def merge(
    tx: Transaction, place: Place, pairs: Sequence[Double], *, changed_version: int, embeddings: EmbeddingQueries
) -> None:
    """Merge these pairs, of which each fact that goes is in one. The caller has raised the scope's version."""
    for one in pairs:
        known = await _known(tx, place.tenant, [one.gone, one.kept])
        await _stand_behind(tx, place, known[one.gone], known[one.kept], changed_version, embeddings)
    told: Mapping[UUID, outbox.Labels] = {
        one.gone: {"superseded_by": one.kept, "reason": SAME_MEANING.replace(" ", "_")} for one in pairs
    }
    await outbox.announce_events(tx, place, "superseded", told, metadata=told)
    kept = list({one.kept for one in pairs})
    await facts.resettle(tx, place, kept, changed_version=changed_version, embeddings=embeddings)


async def _stand_behind(
    tx: Transaction, place: Place, gone: _Known, kept: _Known, changed_version: int, embeddings: EmbeddingQueries
) -> None:
    """Write that one stands behind the other, and give the other all that it rests on."""
    row, tenant, gone_id, kept_id = gone.row, place.tenant, gone.grounds.memory_id, kept.grounds.memory_id
    await tx.run("copy_sayings", tenant, gone_id, kept_id)
    await tx.run("copy_evidence", tenant, gone_id, kept_id)
    await tx.run("outlive", tenant, kept_id, kept.row["version"], row["expires_at"])
    await tx.run("touch_memory", tenant, kept_id, changed_version)
    labels = (row["integrity"], row["sensitivity"], row["validation_status"])
    times = (row["occurred_at"], row["valid_from"], row["valid_to"])
    await tx.run("close_version", tenant, gone_id, place.now)
    await tx.run("next_fact_version", tenant, gone_id, row["version"], place.now, *labels, *times, kept_id)
    await tx.run("copy_provenance", tenant, gone_id, row["version"], place.now, "consolidate")
    await tx.run(embeddings.copy, tenant, gone_id, row["version"])
    by = (kept_id, SAME_MEANING, place.now)
    await tx.run("point_fact", tenant, gone_id, row["version"] + 1, changed_version, *by)


def _alike(found: Sequence[Any], asked: Set[UUID]) -> list[list[UUID]]:
    """Groups of what says the same by its words, each with one that was asked about. Work for a processor."""
    groups: dict[object, list[UUID]] = {}
    for row in found:
        sense = sense_of(_meant(row))
        if sense is not None:
            groups.setdefault((row["scope_id"], sense), []).append(row["memory_id"])
    return [group for group in groups.values() if len(group) > 1 and not asked.isdisjoint(group)]


def _of_the_best(group: Sequence[_Known]) -> list[Double]:
    """All but the best of a group, each with it; not those that may not go."""
    best = next(
        (one for one in group if not any(better(other.grounds, one.grounds) for other in group if other is not one)),
        None,
    )
    if best is None:
        return []
    others = (one for one in group if one is not best and _may_go(one, best))
    return [Double(one.grounds.memory_id, best.grounds.memory_id) for one in others]


def _may_go(gone: _Known, kept: _Known) -> bool:
    """Not one with another label than the one that stays, nor one of a time of its own: that is in no sentence."""
    dated = gone.row["dated"] or kept.row["dated"]
    return (
        not dated and gone.row["sensitivity"] == kept.row["sensitivity"] and better(kept.grounds, gone.grounds) is True
    )


async def _near(
    tx: Transaction, tenant: UUID, known: Mapping[UUID, _Known], pairs: Sequence[Double], cosines: Query
) -> list[Double]:
    """Those of these pairs that say the same also by their vectors. What has none stays."""
    if not pairs:
        return []
    found = await tx.fetch(cosines, tenant, [one.gone for one in pairs], [one.kept for one in pairs])
    cosine = {Double(row["one"], row["other"]): row["cosine"] for row in found}
    return [
        one
        for one in pairs
        if one in cosine and same_meaning(known[one.gone].meant, known[one.kept].meant, cosine[one])
    ]


async def _known(tx: Transaction, tenant: UUID, memory_ids: Sequence[UUID]) -> dict[UUID, _Known]:
    found = await tx.fetch("grounds_of_facts", tenant, list(dict.fromkeys(memory_ids))) if memory_ids else []
    return {row["memory_id"]: _Known(row, _meant(row), _grounds(row)) for row in found}


def _meant(row: Any) -> Meant:
    return Meant(**{name: row[name] for name in Meant.__slots__})


def _grounds(row: Any) -> Grounds:
    return Grounds(
        memory_id=row["memory_id"],
        kept=row["pinned"] or row["validation_status"] == "confirmed",
        holds_others=row["holds_others"],
        corrects=row["corrects"],
        integrity=Integrity(row["integrity"]),
        sayings=row["sayings"],
        confidence=row["confidence"],
        said_at=row["said_at"],
    )
