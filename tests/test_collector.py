"""Collections of a proxy worker are measured, and what was there at the start is not looked at again."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

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
    metrics.write()
    value = metrics.registry.get_sample_value
    assert value("memory_proxy_gc_pause_seconds_sum", {"generation": "2"}) == 0.5
    assert value("memory_proxy_gc_pause_seconds_sum", {"generation": "0"}) == 0.25


@pytest.mark.usefixtures("collector")
def test_what_is_there_when_all_is_loaded_is_frozen() -> None:
    stays: list[dict[str, int]] = [{} for _ in range(1000)]
    metrics = Metrics()
    warm(metrics)
    assert gc.get_freeze_count() > len(stays)
    assert gc.get_threshold() == THRESHOLDS
    gc.collect()
    metrics.write()
    assert metrics.registry.get_sample_value("memory_proxy_gc_pause_seconds_count", {"generation": "2"}) == 1


_WITHIN_THE_LOCK = """
import gc, json, sys
from memory.telemetry import Metrics
from proxy.collector import watched

metrics = Metrics()
gc.callbacks.append(watched(metrics))
encode, asked = json.JSONEncoder.encode, []


def collecting(self, value):
    asked.append(gc.collect())
    return encode(self, value)


json.JSONEncoder.encode = collecting
metrics.query_embeddings.inc("hit")
metrics.write()
assert asked, "prometheus_client names a series without encoding JSON now: collect elsewhere within its lock"
sys.stdout.write("went on")
"""


def test_a_collection_within_the_lock_of_the_metrics_holds_nothing_up(tmp_path: Path) -> None:
    environ = {**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(tmp_path)}
    command = [sys.executable, "-c", _WITHIN_THE_LOCK]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "went on"
