"""Collections of a proxy worker are measured, and what was there at the start is not looked at again."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from memory.telemetry import Metrics
from proxy.collector import THRESHOLDS, warm, watched


@pytest.fixture
def collector() -> Iterator[None]:
    before, callbacks = gc.get_threshold(), list(gc.callbacks)
    yield
    gc.set_threshold(*before)
    gc.callbacks[:] = callbacks
    gc.unfreeze()


def test_each_pause_is_observed_by_its_generation() -> None:
    times, metrics = iter([1.0, 1.5, 2.0, 2.25]), Metrics()
    hear = watched(metrics, lambda: next(times))
    for generation in (2, 0):
        hear("start", {"generation": generation})
        hear("stop", {"generation": generation})
    value = metrics.registry.get_sample_value
    assert value("memory_proxy_gc_pause_seconds_sum", {"generation": "2"}) == 0.5
    assert value("memory_proxy_gc_pause_seconds_sum", {"generation": "0"}) == 0.25


@pytest.mark.usefixtures("collector")
def test_what_is_there_when_all_is_loaded_is_frozen() -> None:
    stays, metrics = [{} for _ in range(1000)], Metrics()
    warm(metrics)
    assert gc.get_freeze_count() > len(stays)
    assert gc.get_threshold() == THRESHOLDS
    gc.collect()
    assert metrics.registry.get_sample_value("memory_proxy_gc_pause_seconds_count", {"generation": "2"}) == 1
