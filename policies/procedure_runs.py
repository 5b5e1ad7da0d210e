"""Procedures that nobody taught: what was called in which order in conversations, and how these ended, in; whether that
is a way of doing things, and whether a known way fails, out.

A pattern is a task type with the ordered names of the tools, repeats in a row counted once. Three successes with at
most a third of failures give a proposal; three failures among the last five runs retire it. The numbers are set by
hand: no labelled sessions are at hand to fit them. Pure; refuses nothing.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

CALLS_MIN: Final = 3
"""Distinct tools of a pattern, or calls of at least two: one tool called again and again is no way of doing things."""
CALLS_MAX: Final = 24
"""A longer sequence is that one conversation's and comes no second time."""
SUCCESSES_MIN: Final = 3
FAILED_SHARE_MAX: Final = 1 / 3
RECENT_RUNS: Final = 5
RECENT_FAILURES_MAX: Final = 2
RUNS_READ: Final = 200
"""Of one pattern; counts stop there."""
TOPICS_MAX: Final = 3
_NAME_CHARS: Final = 64
_NOT_NAME: Final = re.compile(r"[^a-z0-9_.-]+")


@dataclass(frozen=True, slots=True)
class Run:
    """One conversation that ended: whether well, and what it was about."""

    succeeded: bool
    topics: tuple[str, ...] = ()


def sequence_of(names: Iterable[str]) -> list[str]:
    """The tools in the order of their calls, in plain small letters, repeats in a row once; [] when too many."""
    called: list[str] = []
    for name in names:
        plain = _NOT_NAME.sub("_", name.casefold()).strip("_.-")[:_NAME_CHARS]
        if plain and (not called or called[-1] != plain):
            called.append(plain)
        if len(called) > CALLS_MAX:
            return []
    return called


def pattern_of(attributes: Mapping[str, Any]) -> str | None:
    """The pattern of an episode by its attributes; None where it has none."""
    called, task = attributes.get("tool_sequence"), attributes.get("task_type")
    if not isinstance(called, list) or not isinstance(task, str) or not all(isinstance(one, str) for one in called):
        return None
    if len(called) < CALLS_MIN or len(set(called)) < 2:
        return None
    return f"{task}: {' > '.join(called)}"


def succeeded(attributes: Mapping[str, Any]) -> bool | None:
    """Whether an episode ended well; None where nobody knows."""
    return {"success": True, "failure": False}.get(str(attributes.get("outcome")))


def is_a_way(runs: Sequence[Run]) -> bool:
    """Whether these runs of one pattern show a way of doing things."""
    good = sum(run.succeeded for run in runs)
    return good >= SUCCESSES_MIN and len(runs) - good <= len(runs) * FAILED_SHARE_MAX


def fails(latest_first: Sequence[bool]) -> bool:
    """Whether a way of doing things fails by now, by how its runs ended."""
    return sum(not good for good in latest_first[:RECENT_RUNS]) > RECENT_FAILURES_MAX


def failed_reason(latest_first: Sequence[bool]) -> str:
    """Why it was retired."""
    recent = latest_first[:RECENT_RUNS]
    return f"failed {sum(not good for good in recent)} of its last {len(recent)} runs"


def common_topics(runs: Iterable[Run]) -> list[str]:
    """What at least two of those that ended well were about, the commonest first."""
    counts = Counter(topic for run in runs if run.succeeded for topic in dict.fromkeys(run.topics))
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return [topic for topic, count in ranked if count > 1][:TOPICS_MAX]


def lead_of(task: str, topics: Sequence[str]) -> str:
    """How a derived procedure opens: what it is found by."""
    about = f" about {', '.join(topics)}" if topics else ""
    return f"Procedure for {'tasks' if task in ('other', 'chat') else f'{task} tasks'}{about}:"


def statement_of(task: str, topics: Sequence[str], called: Sequence[str]) -> str:
    """A derived procedure as a memory shows it."""
    return "\n".join((lead_of(task, topics), *(f"{number}. call {name}" for number, name in enumerate(called, 1))))
