"""How far down the ladder of recall a request begins: measured pressure and the time in, a rung out.

Pressure is a number: 1 is what the deadline just bears. At 1 or more one rung is gone down, again after `down_s` while
it lasts; below `calm` for `up_s` one is gone up. Between the two nothing moves, so that a load at the edge does not
swing. The last rung, where not even the ledger is kept, costs the upstream its prefix cache: only at `grave` pressure.
And whose turn it is when places are few: by tenant, the one that holds least first; one that has hardly any part in
the load keeps its rung. Pure: `now` is seconds of a clock.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeVar

Rung = Literal["full", "no-rerank", "lexical", "ledger", "none"]
LADDER: Final[tuple[Rung, ...]] = ("full", "no-rerank", "lexical", "ledger", "none")
_LEDGER: Final = LADDER.index("ledger")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Steps:
    """When the ladder is gone down and up; seconds, and pressures.

    A quarter of a second lets a step take effect before the next (a request of it has ended by then), two seconds of
    calm are many requests; half the pressure leaves room for what the rung above costs.
    """

    down_s: float = 0.25
    up_s: float = 2.0
    calm: float = 0.5
    grave: float = 4.0


@dataclass(frozen=True, slots=True)
class Place:
    """Where on the ladder: 0 is full. `moved_at`: when it last moved; `calm_since`: None while it is not calm."""

    at: int = 0
    moved_at: float = float("-inf")
    calm_since: float | None = None

    @property
    def rung(self) -> Rung:
        """The best rung that may be begun."""
        return LADDER[self.at]


def pressure(lag_s: float, embedding_s: float, deadline_s: float) -> float:
    """What the event loop's lag and the wait for an embedding are, measured by what the deadline bears of each.

    A request comes round to the loop about five times before it goes upstream; past .6 of the deadline recall no longer
    waits for a vector, and an average of .4 has a part of the requests beyond that.
    """
    return max(lag_s / (deadline_s * 0.2), embedding_s / (deadline_s * 0.4))


def moved(place: Place, now_pressure: float, now: float, steps: Steps) -> Place:
    """The place after a look."""
    if now_pressure >= 1:
        lowest = len(LADDER) - 1 if now_pressure >= steps.grave else max(_LEDGER, place.at)
        if place.at < lowest and now - place.moved_at >= steps.down_s:
            return Place(place.at + 1, now)
        return Place(place.at, place.moved_at)
    if now_pressure >= steps.calm or place.at == 0:
        return Place(place.at, place.moved_at)
    since = now if place.calm_since is None else place.calm_since
    if now - since >= steps.up_s:
        return Place(place.at - 1, now, now)
    return Place(place.at, place.moved_at, since)


def lower(one: Rung, other: Rung) -> Rung:
    """The lower of two rungs."""
    return LADDER[max(LADDER.index(one), LADDER.index(other))]


def fair_share(places: int, tenants: int) -> int:
    """The places that each of so many tenants may hold; one at least."""
    return max(1, places // max(1, tenants))


def may_wait(held: int, waiting: int, share: int) -> bool:
    """Whether a tenant that holds so many places, with so many more waiting, may wait for another when all are taken.

    One with more than its share may not, and nobody has more in the queue than its share: so the queue is bounded by
    the places, and a burst of one tenant does not stand before the first request of another.
    """
    return held <= share and waiting < share


def spared(held: int, taken: int, tenants: int) -> bool:
    """Whether the load is others': of the places taken a tenant holds at most half of what each would have.

    What it asks for changes little, and it would be without memory for as long as another floods. Where all hold alike
    nobody is spared.
    """
    return 2 * held * tenants <= taken


def next_of(waiting: Mapping[T, int]) -> T:
    """Who of the waiting (in the order they came) gets a place: whoever holds least."""
    return min(waiting, key=lambda one: waiting[one])
