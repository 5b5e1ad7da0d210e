"""What a conversation says of itself, as parts of a checkpoint: a working context in, words with their turns out.

Goal, the steps of the plan that are not done, questions that nobody answered, and calls whose output has not come.
Pure; labels are those of the turns, and are put in by who can read them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from policies.checkpoint import Part
from policies.labels import Integrity, Sensitivity
from policies.working import Quote, WorkingContext


@dataclass(frozen=True, slots=True)
class Words:
    """A part that is to become a memory. `sources`: the turns that it is quoted from."""

    part: Part
    text: str
    role: str
    integrity: Integrity
    sensitivity: Sensitivity
    sources: tuple[UUID, ...]
    occurred_at: datetime | None


def words_of(context: WorkingContext) -> list[Words]:
    """What there is to keep of it; labels are the least trusted until somebody has read the turns'."""
    found = [_quoted("goal", "user", [context.objective])] if context.objective is not None else []
    if context.plan is not None and (steps := context.plan.to_do):
        numbers = [f"{step.number}. " for step in steps]
        found.append(_quoted("plan", context.plan.role, [step.quote for step in steps], numbers))
    found += [_quoted("open", one.asked_by, [one.quote]) for one in context.open if one.is_left_open]
    for waiting in context.waiting:
        said = f"{waiting.call.name} {waiting.call.arguments}".strip()
        found.append(_words("task", said, "assistant", (waiting.event_id,)))
    return found


def _quoted(part: Part, role: str, quotes: Sequence[Quote], marks: Sequence[str] = ()) -> Words:
    lines = [mark + quote.text for mark, quote in zip(marks or [""] * len(quotes), quotes, strict=True)]
    return _words(part, "\n".join(lines), role, tuple(dict.fromkeys(quote.event_id for quote in quotes)))


def _words(part: Part, text: str, role: str, sources: tuple[UUID, ...]) -> Words:
    return Words(part, text, role, Integrity.IMPORTED, Sensitivity.SECRET, sources, None)
