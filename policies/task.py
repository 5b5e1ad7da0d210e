"""Tasks: where one stands, where it may go from there, and the sentence that says it. Pure.

Refuses (ValueError, in words for whoever asked) a move that is none.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final, Literal

from policies.text import shortened

Status = Literal["queued", "running", "blocked", "validating", "done", "failed", "cancelled"]

MOVES: Final[Mapping[Status, tuple[Status, ...]]] = {
    "queued": ("running", "blocked", "done", "cancelled"),
    "running": ("queued", "blocked", "validating", "done", "failed", "cancelled"),
    "blocked": ("queued", "running", "failed", "cancelled"),
    "validating": ("running", "done", "failed", "cancelled"),
    "done": ("queued", "running"),
    "failed": ("queued", "running", "cancelled"),
    "cancelled": ("queued",),
}
"""Where a task may go; what is over is taken up again by queueing it."""
STATUSES: Final[tuple[Status, ...]] = tuple(MOVES)
OPEN: Final[frozenset[Status]] = frozenset({"queued", "running", "blocked", "validating"})
_NEEDS_WHAT_IT_WAITS_FOR: Final[frozenset[Status]] = frozenset({"running", "validating", "done"})
TITLE_CHARS_MAX: Final = 200
WORDS_CHARS_MAX: Final = 8_000
"""Of notes, input and output each."""
SHOWN_CHARS_MAX: Final = 400
"""Of notes and output each, in the sentence that a prompt is given."""


def checked_move(was: Status, to: Status, waits_for: Sequence[str]) -> None:
    """Whether a task may go there. `waits_for`: titles of what it needs and is not done. Raises ValueError."""
    if to != was and to not in MOVES[was]:
        raise ValueError(f"a task that is {was} may become {', '.join(MOVES[was])}, not {to}")
    if to in _NEEDS_WHAT_IT_WAITS_FOR and waits_for:
        raise ValueError(f"it cannot be {to} before what it needs is done: {', '.join(waits_for)}")


_TOLD: Final = re.compile(rf"Task \((?:{'|'.join(MOVES)})\): ")


def is_told(text: str) -> bool:
    """Whether a text is a task as a prompt is given it; who writes his words so has them counted among the tasks."""
    return _TOLD.match(text) is not None


def told(status: Status, title: str, notes: str = "", output: str = "") -> str:
    """A task as a prompt is given it: a statement of how it stands."""
    said = [f"Task ({status}): {title}"]
    said += [shortened(notes, SHOWN_CHARS_MAX)] if notes else []
    said += [f"Output: {shortened(output, SHOWN_CHARS_MAX)}"] if output else []
    return "\n".join(said)
