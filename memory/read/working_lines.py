"""What a conversation is about, in a few tokens of the block: a recall and a working context in, both in one out.

Objective, steps to do and open questions, in the words of their turns, as candidates of kind `working`: they stand in
front of the turns that are replayed, and like these only where the client sends its newest message alone. What is
quoted by a replayed turn anyway is not said twice. Pure but for `with_working`, which waits for its reading.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final
from uuid import UUID

from memory.ids import derived_id
from memory.model import Candidate, Recall
from policies.labels import Sensitivity
from policies.text import shortened
from policies.working import Plan, Quote, WorkingContext

LINES_MAX: Final = 4  # objective, plan, two questions
QUOTE_CHARS_MAX: Final = 200
STEPS_SHOWN_MAX: Final = 5
STEP_CHARS_MAX: Final = 80
SHARE_OF_BUDGET: Final = 5
"""All of it together takes at most this part of the block's tokens: one in five."""
_QUESTIONS_MAX: Final = 2


async def with_working(recall: Recall, reading: asyncio.Task[WorkingContext | None] | None, left_s: float) -> Recall:
    """The recall with what the conversation is about, where turns are replayed and the reading comes in time."""
    if reading is None:
        return recall
    replayed = [one for one in recall.candidates if one.replayed]
    done, _ = await asyncio.wait((reading,), timeout=left_s if replayed else 0)
    context = reading.result() if done and replayed and reading.exception() is None else None
    if context is None:
        return recall
    return replace(recall, candidates=(*lines_of(context, replayed), *recall.candidates))


def affordable(recall: Recall, budget_tokens: int, count: Callable[[str], int]) -> Recall:
    """The recall without the lines that are too much for a block of so many tokens, the last ones first."""
    left = budget_tokens // SHARE_OF_BUDGET
    kept: list[Candidate] = []
    for one in recall.candidates:
        if one.kind == "working":
            left -= count(f"[{one.role}] {one.content}") + 1
            if left < 0:
                continue
        kept.append(one)
    return recall if len(kept) == len(recall.candidates) else replace(recall, candidates=tuple(kept))


def lines_of(context: WorkingContext, replayed: Sequence[Candidate]) -> tuple[Candidate, ...]:
    """Objective, plan and open questions, but for what the replayed turns say themselves."""
    said = frozenset(event_id for one in replayed for event_id in one.event_ids)
    of = replayed[0]
    lines: list[Candidate] = []
    if context.objective is not None and context.objective.event_id not in said:
        lines.append(_line(of, "goal", "user", shortened(context.objective.text, QUOTE_CHARS_MAX), [context.objective]))
    if context.plan is not None and context.plan.steps[0].quote.event_id not in said and context.plan.to_do:
        quotes = [step.quote for step in context.plan.steps]
        lines.append(_line(of, "plan", context.plan.role, _steps(context.plan), quotes))
    asked = [one for one in context.open if one.is_left_open and one.quote.event_id not in said]
    lines += [
        _line(of, "still open", one.asked_by, shortened(one.quote.text, QUOTE_CHARS_MAX), [one.quote])
        for one in asked[-_QUESTIONS_MAX:]
    ]
    return tuple(replace(line, seq=place) for place, line in enumerate(lines))


def _steps(plan: Plan) -> str:
    """What is done by its numbers, what is to do in its words."""
    done = ", ".join(str(step.number) for step in plan.steps if step.done_by is not None)
    to_do = [f"{step.number}. {shortened(step.quote.text, STEP_CHARS_MAX)}" for step in plan.to_do[:STEPS_SHOWN_MAX]]
    return "\n".join([f"Done: {done}", *to_do] if done else to_do)


def _line(of: Candidate, what: str, role: str, content: str, quotes: Sequence[Quote]) -> Candidate:
    """A line as a candidate of the conversation that `of` is from; its id is that of the words it quotes."""
    events: tuple[UUID, ...] = tuple(dict.fromkeys(quote.event_id for quote in quotes))
    return Candidate(
        memory_id=derived_id(events[0], "working", what, quotes[0].start),
        version=1,
        kind="working",
        role=f"{role}, {what}",
        content=content,
        shown=(0, len(content)),
        score=0.0,
        parts={},
        admitted=True,
        occurred_at=None,
        session_id=of.session_id,
        seq=0,
        scope_id=of.scope_id,
        integrity=role,
        source_ids=tuple(str(event_id) for event_id in events),
        event_ids=events,
        why=f"what this conversation is about: {what}",
        sensitivity=Sensitivity.INTERNAL.value,  # what a working context holds at most, whatever `of` is
    )
