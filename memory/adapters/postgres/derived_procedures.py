"""What episodes say of procedures: an episode that is put in; a run more, a proposal or a retirement out, in the
transaction of the episode.

So a run is counted once, whoever is killed: with its episode or not at all. Counts are always taken anew from the runs
whose episodes are shown. The session is locked already; the scope comes next (the order of locks), so a review beside
it waits or is waited for. Raises StoreUnavailable.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from memory.adapters.postgres import batch
from memory.adapters.postgres.database import Transaction
from memory.adapters.postgres.facts import EmbeddingQueries
from memory.adapters.postgres.outbox import announce
from memory.adapters.postgres.procedures import WORDINGS_MAX
from memory.adapters.postgres.rows import Place
from memory.model import NewMemory
from memory.write.episodes import Episode
from memory.write.procedures import PastRun
from policies.labels import Integrity, Sensitivity, is_sealed
from policies.procedure_runs import RUNS_READ, Run, failed_reason, fails, is_a_way, pattern_of, succeeded

_AROUND: Final = timedelta(minutes=1)  # what an exchange's record may be off by from its turns
# Of an episode whose owner wrote its attributes.
_TOPICS_READ, _TOPIC_CHARS = 20, 64
WAITS: Final = "done alike in several conversations, waits for review"
APPROVED: Final = "done alike in several conversations"


async def past_runs(tx: Transaction, place: Place, pattern: str) -> tuple[PastRun, ...]:
    """The earlier runs of a pattern, the latest first; none where a procedure is there already."""
    if await tx.fetch("procedures_of_triggers", place.tenant, place.scope_id, [pattern], 1):
        return ()
    found = await tx.fetch("runs_of_pattern", place.tenant, place.scope_id, pattern, RUNS_READ)
    return tuple(
        PastRun(
            row["memory_id"],
            row["succeeded"],
            _topics(row["topics"]),
            Integrity(row["integrity"]),
            Sensitivity(row["sensitivity"]),
        )
        for row in found
    )


def _topics(written: Any) -> tuple[str, ...]:
    """An episode's own topics; attributes may be written by its owner, so anything may stand there."""
    if not isinstance(written, list):
        return ()
    return tuple(one[:_TOPIC_CHARS] for one in written[:_TOPICS_READ] if isinstance(one, str))


async def note_run(
    tx: Transaction, place: Place, episode: NewMemory, proposal: NewMemory | None, embeddings: EmbeddingQueries
) -> None:
    """Count the run that this episode is, and propose or retire the procedure of its pattern where that is due."""
    pattern, good = pattern_of(episode.attributes), succeeded(episode.attributes)
    if pattern is None or good is None or is_sealed(episode.sensitivity):  # a pattern lies open
        return
    await tx.run("add_run", place.tenant, episode.memory_id, place.scope_id, pattern, good, place.now)
    await tx.value("lock_scope", place.tenant, place.scope_id)
    known = await tx.row("procedures_of_triggers", place.tenant, place.scope_id, [pattern], 1)
    runs = await tx.fetch("runs_of_pattern", place.tenant, place.scope_id, pattern, RUNS_READ)
    if known is not None:
        await _count(tx, place, known, runs, embeddings)
    elif proposal is not None and is_a_way([Run(row["succeeded"]) for row in runs]):
        await _propose(tx, place, proposal, pattern, runs, embeddings)


async def note_given(tx: Transaction, place: Place, session_id: UUID, episode: Episode, memory: NewMemory) -> None:
    """Count this episode for the taught procedures that it was given: well or not. One that fails is put up for review
    and stays: whether it was followed nobody knows, and its user has taught it.
    """
    good, tenant, turns = succeeded(memory.attributes), place.tenant, episode.turns
    if good is None:
        return
    exchanges = list({turn.exchange_id for turn in turns})
    since, until = min(turn.occurred_at for turn in turns), max(turn.recorded_at for turn in turns)
    asked = (session_id, exchanges, since - _AROUND, max(since, until) + _AROUND)
    for row in await tx.fetch("procedures_given", tenant, *asked):
        pattern = f"taught {row['memory_id']}"
        await tx.run("add_run", tenant, memory.memory_id, place.scope_id, pattern, good, place.now)
        await tx.value("lock_scope", tenant, place.scope_id)
        wordings = await tx.fetch("procedures_of_triggers", tenant, place.scope_id, [row["trigger"]], WORDINGS_MAX)
        known = next((one for one in wordings if one["memory_id"] == row["memory_id"]), None)
        if known is None:  # erased meanwhile
            continue
        runs = await tx.fetch("runs_of_pattern", tenant, place.scope_id, pattern, RUNS_READ)
        since_ruled = await _counted(tx, place, known, runs)
        if known["holds"] and fails(since_ruled):
            reason = failed_reason(since_ruled)
            await tx.run("set_procedure", tenant, known["memory_id"], "approved", reason, True, known["ruled_at"])
            await tx.fetch("set_review", tenant, [known["memory_id"]], [place.now])
        await tx.run("show_procedures", tenant, [known["memory_id"]])


async def _counted(tx: Transaction, place: Place, known: Any, runs: Sequence[Any]) -> list[bool]:
    """Bring the counts up to date; returns how the runs ended since it was last judged, the latest first."""
    good = sum(row["succeeded"] for row in runs)
    await tx.run("count_runs", place.tenant, known["memory_id"], good, len(runs) - good)
    return [row["succeeded"] for row in runs if known["ruled_at"] is None or row["ended_at"] > known["ruled_at"]]


async def _count(tx: Transaction, place: Place, known: Any, runs: Sequence[Any], embeddings: EmbeddingQueries) -> None:
    """Bring the counts up to date; a procedure whose runs fail since it was last judged is retired."""
    tenant, memory_id = place.tenant, known["memory_id"]
    since = await _counted(tx, place, known, runs)
    if known["state"] != "retired" and known["deleted_at"] is None and fails(since):
        version, changed = known["version"], await tx.value("bump_scope", tenant, place.scope_id)
        labels = (known["integrity"], known["sensitivity"], "rejected", known["occurred_at"], None, None, None)
        await tx.run("set_procedure", tenant, memory_id, "retired", failed_reason(since), False, place.now)
        await tx.run("close_version", tenant, memory_id, place.now)
        await tx.run("next_fact_version", tenant, memory_id, version, place.now, *labels)
        await tx.run("copy_provenance", tenant, memory_id, version, place.now, "episodes")
        await tx.run(embeddings.copy, tenant, memory_id, version)
        await tx.run("point_memory", tenant, memory_id, version + 1, changed)
        await tx.run("mark_reviewed", tenant, memory_id, place.now)
        told = {memory_id: {"state": "retired", "reason": failed_reason(since).replace(" ", "_")}}
        await announce(
            tx, tenant, place.scope_id, "revalidated", [memory_id], by="episodes", at=place.now, metadata=told
        )
    await tx.run("show_procedures", tenant, [memory_id])


async def _propose(
    tx: Transaction,
    place: Place,
    proposal: NewMemory,
    pattern: str,
    runs: Sequence[Any],
    embeddings: EmbeddingQueries,
) -> None:
    tenant, memory_id = place.tenant, proposal.memory_id
    changed = await tx.value("bump_scope", tenant, place.scope_id)
    kept = await batch.store_memories(
        tx,
        place,
        [(None, proposal)],
        numbered=batch.Numbered((), {}),
        changed_version=changed,
        model=None,
        embeddings=embeddings.add,
    )
    if not kept:
        return
    approved = proposal.validation_status == "confirmed"
    state, reason = ("approved", APPROVED) if approved else ("proposed", WAITS)
    good = [row["memory_id"] for row in runs if row["succeeded"]]
    counts = (len(good), len(runs) - len(good))
    row = (tenant, memory_id, place.scope_id, pattern, "derived", 1, state, reason, approved, None, *counts)
    await tx.run("add_procedure", *row)
    # As of a summary: no turn is its own evidence, and what is hidden with a turn must not take all of this for it.
    edges = (
        (tenant, memory_id, "summary", source, "memory", ordinal, place.scope_id, None, None)
        for ordinal, source in enumerate(good)
    )
    await tx.run_many("add_derivation", edges)
    if not approved:
        await tx.fetch("set_review", tenant, [memory_id], [place.now])
    await tx.run("show_procedures", tenant, [memory_id])
