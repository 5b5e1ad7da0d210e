"""Values of consolidation: which steps there are, what is due at a moment, how far a run is. Frozen, no I/O."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, Literal, get_args
from uuid import UUID

from memory.config import Settings
from memory.model import Kind
from policies.lifetime import UNDO_DAYS, DaysOf, ended_before, whole_months_before

Step = Literal[
    "expired",
    "superseded",
    "duplicates",
    "repeated",
    "evidence",
    "summaries",
    "episodes",
    "compressed",
    "unused",
    "bound",
    "pruned",
    "past",
    "review",
]

STEPS: Final[tuple[Step, ...]] = (
    "expired",  # what expired long ago is erased
    "superseded",  # facts that something took the place of long ago are erased
    "duplicates",  # facts that say the same in other words stand behind one of them
    "repeated",  # facts heard in three sessions or more gain by it
    "evidence",  # of a fact said very often, not every saying is kept
    "summaries",  # those with words of turns that are gone are made anew
    "episodes",  # those that tell what was superseded or hidden since are told anew
    "compressed",  # old ones become one of their month
    "unused",  # what was never placed in a prompt is hidden
    "bound",  # what is worth least is hidden while the tenant has too much
    "pruned",  # what the last two hid long ago is erased
    "past",  # months whose turns are gone from recall are recalled in their place
    "review",  # facts that may have gone stale are listed
)
ROWS_UNDER_LOCK: Final = 50
"""Memories changed while a scope is locked: 20-60 ms in which a live exchange of that scope waits to be stored."""


@dataclass(frozen=True, slots=True)
class Terms:
    """What is due, for one run. Each `…_before` is a moment; None: that step does nothing."""

    now: datetime
    expired_before: datetime
    superseded_before: datetime
    pruned_before: datetime
    unused_before: datetime | None
    rows_max: int | None
    bytes_max: int | None
    review_days: DaysOf
    compress_before: datetime | None

    def before(self, step: Step) -> datetime:
        """What must have happened before when, for this step to look at it."""
        by_step: dict[Step, datetime | None] = {
            "expired": self.expired_before,
            "superseded": self.superseded_before,
            "pruned": self.pruned_before,
            "unused": self.unused_before,
            "compressed": self.compress_before,
        }
        return by_step.get(step) or self.now

    @property
    def idle(self) -> frozenset[Step]:
        """Steps that nobody asked for."""
        bounded = self.rows_max is not None or self.bytes_max is not None
        off: dict[Step, bool] = {
            "unused": self.unused_before is None,
            "bound": not bounded,
            "compressed": self.compress_before is None,
            "review": all(days is None for days in self.review_days.values()),
        }
        return frozenset(step for step, is_off in off.items() if is_off)


def lives_of(settings: Settings) -> DaysOf:
    """Days that a memory is in answers, by kind."""
    return {kind: getattr(settings.retention, f"{kind}_days") for kind in get_args(Kind)}


def terms_of(settings: Settings, now: datetime) -> Terms:
    """What the settings make due now."""
    wanted, retention, replay = settings.consolidate, settings.retention, settings.replay.retention_days
    unused, compress = wanted.never_used_keep_days, wanted.compress_after_days
    categories = ("fact", "preference", "convention", "topology", "decision")
    return Terms(
        now=now,
        expired_before=ended_before(now, retention.expired_keep_days, replay),
        superseded_before=ended_before(now, wanted.superseded_keep_days, replay),
        pruned_before=ended_before(now, UNDO_DAYS, replay),
        unused_before=None if unused is None else now - timedelta(days=unused),
        rows_max=wanted.rows_max,
        bytes_max=wanted.bytes_max,
        review_days={one: getattr(retention, f"revalidate_{one}_days") for one in categories},
        compress_before=None if compress is None else whole_months_before(now, compress),
    )


@dataclass(frozen=True, slots=True)
class Place:
    """A row of a walk: `at` is a time, or the scope version at which it changed."""

    scope_id: int
    at: datetime | int
    memory_id: UUID


Stands = tuple[Place, list[Any]]
"""Where the step of the bound goes on from, and what its cut is by then."""


@dataclass(frozen=True, slots=True)
class Lead:
    """Who runs, by which right, and which run."""

    holder: str
    fence: int
    run_id: UUID


@dataclass(frozen=True, slots=True)
class Run:
    """One run over all tenants. `report`: the counts of each step, as `Counted.as_json`."""

    run_id: UUID
    started_at: datetime
    finished_at: datetime | None
    report: list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Counted:
    """What a step looked at and changed, in rows, and how long that took."""

    step: Step
    examined: int = 0
    changed: int = 0
    seconds: float = 0.0

    def __add__(self, other: Counted) -> Counted:
        return Counted(
            self.step, self.examined + other.examined, self.changed + other.changed, self.seconds + other.seconds
        )

    def as_json(self) -> dict[str, Any]:
        """Members of the report."""
        return {
            "step": self.step,
            "examined": self.examined,
            "changed": self.changed,
            "seconds": round(self.seconds, 3),
        }


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run is with one step of one tenant. `after` None: at its beginning. `cut`: what the step of the bound
    goes on from (policies.lifetime.Cut).
    """

    counted: Counted
    after: Place | None
    finished: bool
    cut: list[Any] | None = None


@dataclass(frozen=True, slots=True)
class Due:
    """A memory that a step wants to change. `review_at`: since when it is due for review, None: it is not any more."""

    memory_id: UUID
    review_at: datetime | None = None
    kept_id: UUID | None = None  # of a duplicate: what stays


@dataclass(frozen=True, slots=True)
class Window:
    """Some rows of one scope, in order, and which of them are due. `last` None: there were none."""

    examined: int
    due: tuple[Due, ...]
    last: Place | None


@dataclass(frozen=True, slots=True)
class Changed:
    """How many rows one transaction changed. `more`: the same memories are to be asked about again."""

    rows: int
    more: bool = False


@dataclass(frozen=True, slots=True)
class OldSummary:
    """A summary that is to be made anew, at this version, of its session's turns below `summarised_seq`."""

    memory_id: UUID
    scope_id: int
    session_id: UUID
    label: str
    version: int
    subject_id: UUID | None
    summarised_seq: int
    changed_version: int
