"""Answers that repeat what goes: what is meant and what was made of it in, the answers to who was given any of it out,
and those behind it in its own conversation.

Whether one repeats it is said by its words (shingles). Raises StoreUnavailable.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from uuid import UUID

from memory.erasure.model import ID_BYTES, Plan, Target
from memory.erasure.ports import EraseStore
from memory.erasure.shingles import Shingles
from memory.off_loop import off_loop


async def answers_given(
    store: EraseStore, plan: Plan, target: Target, made: Mapping[UUID, int], shown: set[UUID]
) -> Sequence[tuple[UUID, int, str]]:
    """Answers to requests that were given any of it: in its own scopes, where they do not go whole, and in all where
    others are shown a copy. `shown` takes in what goes of scopes of which nothing else does: copies.
    """
    tenant = target.scope.tenant
    if target.until is None:
        shown |= await off_loop(len(made) * ID_BYTES, lambda: _elsewhere(plan, made))
    asked = {one: made[one] for one in shown & made.keys()} if plan.scopes and not plan.stays else made
    if not asked:
        return ()
    see = await store.scope_ids(tenant) if shown else plan.touched
    return await store.answers_given(tenant, see, asked)


def _elsewhere(plan: Plan, made: Mapping[UUID, int]) -> set[UUID]:
    """Those that lie in scopes of which nothing else goes."""
    touched = frozenset(plan.touched)
    return {one for one, at in made.items() if at not in touched}


async def own_words(
    store: EraseStore, plan: Plan, tenant: UUID, made: Mapping[UUID, int], every: Shingles | None = None
) -> Shingles:
    """The words of what goes that its turns may not say: of what was named itself, of what was made of no turn, of
    edits. What was made of turns may quote others that stay, and is no proof. `every` takes in all that was ever said.
    """
    own, touched = Shingles(), frozenset(plan.touched)
    async for said in store.said_by(tenant, {one: at for one, at in made.items() if at in touched}):
        for memory_id, content, alone in said:
            if every is not None:
                every.add(content)
            if alone or memory_id in plan.memories:
                own.add(content)
        await asyncio.sleep(0)
    return own


async def said_again(store: EraseStore, plan: Plan, target: Target) -> dict[UUID, int]:
    """Answers that say again what goes of somebody's words before them, in a conversation that stays, by their scopes.
    What another turn of it that stays says too is no proof, nor are phrases of models. What came by an erasure, which
    is taken out of an older copy, is known by its tombstones.
    """
    if target.until is not None or not plan.turns:
        return {}
    tenant, words = target.scope.tenant, Shingles()
    async for page in store.turns(tenant, [], [], list(plan.turns), plan.touched):
        for one in page:
            if one.role != "assistant":
                words.add(one.content)
        await asyncio.sleep(0)
    beside = await store.said_beside(tenant, plan.touched, list(plan.turns))
    for event_id, _, text, answers in beside:
        if not answers and event_id not in plan.turns:
            words.said(text)
    return {one: at for one, at, text, answers in beside if answers and words.found_in(text)}
