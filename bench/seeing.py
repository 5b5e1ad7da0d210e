"""What seeing costs a request: metrics, log line and spans of one chat completion, in microseconds of CPU time.

Metrics as in a worker: prometheus_client's multiprocess mode, files on disk. Prints one JSON object: the median over
rounds of the time of one request's twelve stages, two counters and its line, each alone. `--otlp` adds spans that are
begun and dropped (nobody listens), which is the most that they can cost the event loop.

    python -m bench.seeing [--rounds 50] [--requests 1000] [--otlp]
"""

from __future__ import annotations

import argparse
import itertools
import json
import logging
import os
import statistics
import sys
import tempfile
from collections.abc import Callable
from time import process_time
from typing import Any, get_args


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m bench.seeing", description=__doc__)
    parser.add_argument("--rounds", type=int, default=50, help="measurements of which the median is taken")
    parser.add_argument("--requests", type=int, default=1000, help="requests of one measurement")
    parser.add_argument("--otlp", action="store_true", help="with spans too; needs the extra `otel`")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        os.environ["PROMETHEUS_MULTIPROC_DIR"] = directory  # read when prometheus_client is imported
        found = measured(asked.rounds, asked.requests, otlp=asked.otlp)
    print(json.dumps(found, indent=2))
    return 0


def measured(rounds: int, requests: int, *, otlp: bool) -> dict[str, float]:
    """Microseconds a request."""
    from memory.catalogue import Stage  # noqa: PLC0415  after the directory is named
    from memory.config_sections import Telemetry  # noqa: PLC0415
    from memory.passage import Passage, Trace, log  # noqa: PLC0415
    from memory.telemetry import Metrics, configure_logging  # noqa: PLC0415

    stages, number = get_args(Stage), itertools.count()
    metrics = Metrics()

    def passage(trace: Callable[[], Trace] | None, *, counted: bool) -> Passage:
        here = Passage(metrics.stages if counted else None, trace() if trace else None, {"route": "chat", "http": 200})
        for stage in stages:
            here.lap(stage)
        return here

    def line() -> None:
        here = passage(None, counted=False)
        here.facts.update({"exchange": "0" * 36, "memory": "injected", "rung": "full", "placed": 3, "tokens": 200})
        here.finish(logging.INFO)

    def counts() -> None:
        passage(None, counted=True)
        metrics.requests.inc("chat", "2xx")
        metrics.statuses.inc("injected", "")
        metrics.scope_staleness_seconds.observe(0.2)
        if next(number) % 100 == 0:  # a hundred requests a second
            metrics.write()

    with open(os.devnull, "w") as nowhere:
        sys.stderr, before = nowhere, sys.stderr
        configure_logging("info", "json")
        sys.stderr = before
        found = {
            "stages_not_counted_us": _median_us(lambda: passage(None, counted=False), rounds, requests),
            "stages_counted_us": _median_us(counts, rounds, requests),
            "stages_and_line_us": _median_us(line, rounds, requests),
        }
        if otlp:
            from memory.adapters.otlp import OtlpTraces  # noqa: PLC0415

            traces: Any = OtlpTraces(Telemetry(otlp_endpoint="http://127.0.0.1:9"), metrics.spans)
            log.setLevel(logging.CRITICAL)

            def spans() -> None:
                here = passage(lambda: traces.begin({}), counted=False)
                here.outgoing()
                here.finish(logging.INFO)

            found["stages_and_spans_us"] = _median_us(spans, rounds, requests)
    return {name: round(value, 2) for name, value in found.items()}


def _median_us(work: Callable[[], Any], rounds: int, requests: int) -> float:
    times = []
    for _ in range(rounds):
        started = process_time()
        for _ in range(requests):
            work()
        times.append((process_time() - started) / requests * 1e6)
    return statistics.median(times)


if __name__ == "__main__":
    sys.exit(main())
