"""The garbage collector of a proxy worker: pauses measured, thresholds set, what stays for good taken out of its way.

A full collection looks at every object that is not frozen, and the event loop stands still meanwhile. What is there
after the start, and what hot scopes hold, is frozen (`gc.freeze`), so only requests' own objects are looked at. Numbers
and choice: docs/decisions/0025-garbage-collector.md.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping
from time import perf_counter
from typing import Final, get_args

from memory.catalogue import Generation
from memory.telemetry import Metrics

# Of the three generations. A request leaves some hundred objects that only the collector ends (tasks with their
# exceptions, timeouts); the youngest is looked through every half dozen requests, the oldest after thousands.
THRESHOLDS: Final = (2_000, 20, 20)


def watched(metrics: Metrics, clock: Callable[[], float] = perf_counter) -> Callable[[str, Mapping[str, int]], None]:
    """What `gc.callbacks` calls: observes how long each collection stops the process, by generation.

    A collection begins wherever something is made, within prometheus_client's lock too, which is not reentrant: a
    worker whose collector made a series there stood still for ever. So nothing is called here that takes a lock.
    """
    began, generations = 0.0, get_args(Generation)

    def collection(phase: str, info: Mapping[str, int]) -> None:
        nonlocal began
        if phase == "start":
            began = clock()
        else:
            metrics.gc_pauses.observe(generations[info["generation"]], clock() - began)

    return collection


def warm(metrics: Metrics) -> None:
    """Called once, when everything is loaded: what is garbage by now goes, what is left stays for good."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
    gc.callbacks.append(watched(metrics))
