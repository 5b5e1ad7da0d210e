"""Whether a dependency is worth asking: what became of the last calls and the time in, asked or left alone out.

Closed: every call goes. Open, after `faults_max` faults in a row within `within_s`: none does, for `rest_s`. Then half
open: one call is a probe; its success closes, its fault opens again. A probe that is never heard of again counts as
lost after `rest_s`. Pure: `now` is the caller's clock, seconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

State = Literal["closed", "open", "half_open"]


@dataclass(frozen=True, slots=True)
class Rule:
    """When a dependency is left alone, and for how long.

    Five in a row are no chance even where one call in ten fails (1 in 100,000). A second's rest costs a store that is
    back at most that second of memory; a dead one is asked once a second.
    """

    faults_max: int = 5
    within_s: float = 10.0
    rest_s: float = 1.0


@dataclass(frozen=True, slots=True)
class Circuit:
    """Times of the last faults in a row, when it was opened and when a probe began; seconds."""

    faults: tuple[float, ...] = ()
    opened_at: float | None = None
    probing_since: float | None = None

    @property
    def state(self) -> State:
        """Of what it is now; an open one becomes half open with the next call after its rest."""
        if self.opened_at is None:
            return "closed"
        return "open" if self.probing_since is None else "half_open"


def asked(circuit: Circuit, now: float, rule: Rule) -> tuple[Circuit, bool]:
    """The circuit after somebody wants to call, and whether he may."""
    if circuit.opened_at is None:
        return circuit, True
    waited_since = circuit.opened_at if circuit.probing_since is None else circuit.probing_since
    if now - waited_since < rule.rest_s:
        return circuit, False
    return Circuit(circuit.faults, circuit.opened_at, now), True


def left_alone(circuit: Circuit, now: float, rule: Rule) -> bool:
    """Whether it is, as far as anybody knows: not one for which nobody has asked for so long that its faults would not
    count any more.
    """
    if circuit.opened_at is None:
        return False
    return now - max(circuit.opened_at, circuit.probing_since or circuit.opened_at) < rule.within_s


def succeeded(circuit: Circuit) -> Circuit:
    """After a call that was answered; also one that began before the circuit opened."""
    return circuit if circuit == _CLOSED else _CLOSED


def failed(circuit: Circuit, now: float, rule: Rule) -> Circuit:
    """After a fault or a call that took too long."""
    if circuit.opened_at is not None:
        return Circuit(circuit.faults, now, None)
    recent = (*(at for at in circuit.faults if now - at < rule.within_s), now)[-rule.faults_max :]
    return Circuit(recent, now if len(recent) >= rule.faults_max else None)


_CLOSED = Circuit()
