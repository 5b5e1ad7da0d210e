"""What comes after what, and what is tied to what: a mapping in; a circle, an order, the ways between two out. Pure.

Circle and order are the standard library's `graphlib`, the circle given back rather than raised.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Mapping, Sequence, Set
from graphlib import CycleError, TopologicalSorter
from typing import TypeVar

K = TypeVar("K", bound=Hashable)
E = TypeVar("E")


def circle_in(after: Mapping[K, Set[K]]) -> list[K]:
    """Keys that come after one another in a circle, the first one again at the end; empty where there is no circle."""
    try:
        TopologicalSorter(after).prepare()
    except CycleError as found:
        return list(found.args[1])
    return []


def in_order(after: Mapping[K, Set[K]]) -> list[K]:
    """Every key behind those that it comes after. Raises CycleError."""
    return list(TopologicalSorter(after).static_order())


def ways(
    edges: Mapping[K, Sequence[tuple[K, E]]], start: K, end: K, *, hops_max: int, count_max: int
) -> list[tuple[E, ...]]:
    """The ways from one key to another by at most so many edges, shortest first; none passes a key twice."""
    if start == end:
        return []
    found: list[tuple[E, ...]] = []
    waiting: deque[tuple[K, tuple[E, ...], frozenset[K]]] = deque([(start, (), frozenset({start}))])
    while waiting and len(found) < count_max:
        at, way, passed = waiting.popleft()
        for next_, edge in edges.get(at, ()) if len(way) < hops_max else ():
            if next_ == end:
                found.append((*way, edge))
            elif next_ not in passed:
                waiting.append((next_, (*way, edge), passed | {next_}))
    return found[:count_max]
