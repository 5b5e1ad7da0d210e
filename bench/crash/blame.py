"""Whose fault a completion that failed was: failures and the rounds' windows in, who is to blame out. Pure.

A proxy worker, the supervisor or the upstream that is hit takes the completions under way with it; nothing else may
(promise 2). So a failure that ended while one of those three was down is theirs, and every other one is memory's.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

SERVING: Final = frozenset({"proxy worker", "supervisor", "upstream"})
# A client may hear of the end of a connection, or the proxy of the return of an upstream, a little later.
SLACK_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class Failure:
    """A completion that did not arrive whole. Times are monotonic seconds."""

    began_s: float
    ended_s: float
    why: str


class Window(Protocol):
    """A round: who was hit, and from when until all was back."""

    @property
    def kinds(self) -> frozenset[str]: ...
    @property
    def began_s(self) -> float: ...
    @property
    def ended_s(self) -> float: ...


@dataclass(frozen=True, slots=True)
class Blame:
    """Failures by whose they were, each with its reasons counted."""

    of_memory: dict[str, int]
    of_serving: dict[str, int]

    @property
    def memory(self) -> int:
        """Completions that failed because of memory: 0 is promised."""
        return sum(self.of_memory.values())


def blamed(failures: Iterable[Failure], windows: Sequence[Window]) -> Blame:
    """Sort the failures."""
    serving = [(window.began_s, window.ended_s + SLACK_S) for window in windows if window.kinds & SERVING]
    memory, others = Counter[str](), Counter[str]()
    for failure in failures:
        theirs = any(began <= failure.ended_s <= ended for began, ended in serving)
        (others if theirs else memory)[failure.why] += 1
    return Blame(dict(memory.most_common()), dict(others.most_common()))
