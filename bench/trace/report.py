"""Samples and readings in; the report as JSON, by minute and as a whole, and what is kept of the bounds, out. Pure.

Times in milliseconds. `added` is paired: the service's time to the first byte less the baseline's, of the same arrival;
arrivals that either way failed are left out of it, and counted as errors.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from bench.figures import Line, at_most, told
from bench.stats import median, quantile, ratio
from bench.trace.replay import Sample
from bench.trace.watch import Reading

OURS: Final = "memory"
MINUTE_S: Final = 60.0
SHARES: Final = (("p50", 0.5), ("p95", 0.95), ("p99", 0.99))
RSS_GROWTH_MAX: Final = 1.05
SLOWER_MAX: Final = 1.2
# A service that passes through is fast and light: with more of it the other bounds say nothing.
DEGRADED_MAX: Final = 0.5
# The bounds of a soak: the last minutes against the first, memory against the first after the caches have filled.
WINDOW_MINUTES: Final = 10
RSS_FROM_MINUTE: Final = 5

Minutes = Sequence[Mapping[str, Any]]


def summary(samples: Sequence[Sample], baseline: str | None) -> dict[str, Any]:
    """Of some requests: how many, errors, times to the first byte, what was added, how they were answered."""
    times: dict[str, dict[int, float]] = {}
    for sample in samples:
        ways = times.setdefault(sample.way, {})
        if sample.timing is not None:
            ways[sample.arrival] = sample.timing.first_s * 1000
    ours = times.get(OURS, {})
    added: list[float] = []
    if baseline:
        base = times.get(baseline, {})
        added = [ours[arrival] - base[arrival] for arrival in ours.keys() & base.keys()]
    own = [sample for sample in samples if sample.way == OURS]
    whole = [sample.timing for sample in own if sample.timing is not None]
    return {
        "requests": dict(Counter(sample.way for sample in samples)),
        "errors": dict(Counter(sample.way for sample in samples if sample.timing is None)),
        "ttft_ms": {way: _quantiles(list(each.values())) for way, each in sorted(times.items())},
        "added_ms": _quantiles(added),
        "service_millis": _quantiles([one.memory_millis for one in whole if one.memory_millis is not None]),
        "late_ms": _quantiles([sample.late_s * 1000 for sample in samples]),
        "memory_status": dict(Counter(one.memory_status or "-" for one in whole).most_common()),
    }


def _quantiles(values: Sequence[float]) -> dict[str, float] | None:
    return {name: round(quantile(values, share), 3) for name, share in SHARES} if values else None


def minute_row(
    minute: int, samples: Sequence[Sample], readings: Sequence[Reading], baseline: str | None
) -> dict[str, Any]:
    """One minute of the run; CPU and memory where it was watched at both ends."""
    row: dict[str, Any] = {"minute": minute, **summary(samples, baseline)}
    if readings:
        first, last = readings[0], readings[-1]
        seconds = last.at_s - first.at_s
        row["rss_mib"] = {name: round(value, 1) for name, value in last.rss_mib.items()}
        row["rss_total_mib"] = round(median([sum(one.rss_mib.values()) for one in readings]), 1)
        row["hot_mib"] = round(last.hot_mib, 1)
        row["queue"] = dict(last.queue)
        if seconds > 0 and last.cpu_s:  # without a process id nothing is seen of them
            cpu = {kind: round(used - first.cpu_s.get(kind, 0.0), 2) for kind, used in last.cpu_s.items()}
            row["cpu_s"] = cpu
            row["cpu_share"] = round(sum(cpu.values()) / seconds, 3)
            row["plain_cpu_s"] = round(last.plain_cpu_s - first.plain_cpu_s, 2)
            asked = row["requests"].get(OURS, 0)
            row["cpu_ms_per_request"] = (
                round(sum(cpu.values()) * 1000 / asked * (MINUTE_S / seconds), 2) if asked else None
            )
    return row


def minutes_of(samples: Iterable[Sample], readings: Sequence[Reading], baseline: str | None) -> list[dict[str, Any]]:
    """All minutes so far, by when a request was due."""
    by_minute: dict[int, list[Sample]] = {}
    for sample in samples:
        by_minute.setdefault(int(sample.at_s // MINUTE_S), []).append(sample)
    return [minute_row(minute, by_minute[minute], _around(readings, minute), baseline) for minute in sorted(by_minute)]


def _around(readings: Sequence[Reading], minute: int) -> list[Reading]:
    """The readings of a minute, with the last one before it."""
    start, end = minute * MINUTE_S, (minute + 1) * MINUTE_S
    before = [one for one in readings if one.at_s < start][-1:]
    return before + [one for one in readings if start <= one.at_s < end]


def lines_of(whole: Mapping[str, Any], minutes: Minutes, name: str, baseline: str | None) -> list[Line]:
    """What any replay says."""
    asked, failed = whole["requests"].get(OURS, 0), whole["errors"].get(OURS, 0)
    lines = [Line(name, "requests that failed", "0", f"{failed} of {asked:,}", asked > 0 and not failed)]
    if baseline:
        base_failed = whole["errors"].get(baseline, 0)
        lines.append(told(name, f"the same by the baseline ({baseline})", f"{base_failed}"))
        lines.append(told(name, "added to the first byte, p50 / p95 / p99", _three(whole["added_ms"])))
    ours = whole["ttft_ms"].get(OURS)
    lines.append(told(name, "to the first byte, p50 / p95 / p99", _three(ours)))
    lines.append(told(name, "added as the service says, p50 / p95 / p99", _three(whole["service_millis"])))
    lines.append(told(name, "the client itself late, p50 / p95 / p99", _three(whole["late_ms"])))
    answered = sum(whole["memory_status"].values())
    shares = ", ".join(f"{status} {count / answered:.1%}" for status, count in list(whole["memory_status"].items())[:4])
    lines.append(told(name, "memory status", shares or "-"))
    watched = [row for row in minutes if "cpu_s" in row]
    if watched and asked:
        kinds = sorted({kind for row in watched for kind in row["cpu_s"]})
        requests = sum(row["requests"].get(OURS, 0) for row in watched)
        used = {kind: sum(row["cpu_s"].get(kind, 0.0) for row in watched) * 1000 / requests for kind in kinds}
        said = ", ".join(f"{kind} {millis:.1f}" for kind, millis in used.items())
        lines.append(told(name, "CPU ms a request", f"{sum(used.values()):.1f} ({said})"))
        last = watched[-1]
        lines.append(
            told(name, "MiB at the end", f"{last['rss_total_mib']:.0f}, hot scopes {last['hot_mib']:.0f} of it")
        )
    if looked := [row for row in minutes if row.get("queue")]:
        lines.append(told(name, "waiting in the queue at the end", f"{looked[-1]['queue'].get('pending', 0):.0f}"))
    return lines


def endurance(minutes: Minutes, name: str, *, bounded: bool = False) -> list[Line]:
    """The bounds of a soak; none is judged where the run is too short for two windows of ten minutes. `bounded`: with
    caches that are full from the first minutes on, memory alone is: fewer of the growing scopes fit, so more are read.
    """
    if len(minutes) < RSS_FROM_MINUTE + 2 * WINDOW_MINUTES or any("cpu_s" not in row for row in minutes[1:]):
        why = f"needs {RSS_FROM_MINUTE + 2 * WINDOW_MINUTES} minutes, all watched; there are {len(minutes)}"
        return [told(name, "memory, p50 and CPU, last ten minutes against first", why)]
    first, last = minutes[:WINDOW_MINUTES], minutes[-WINDOW_MINUTES:]
    settled = minutes[RSS_FROM_MINUTE : RSS_FROM_MINUTE + WINDOW_MINUTES]
    grown = _of(last, "rss_total_mib") / _of(settled, "rss_total_mib")
    before_ms, after_ms = _p50(first), _p50(last)
    slower = after_ms / before_ms if before_ms and after_ms else math.inf
    dearer = _of(last, "cpu_ms_per_request") / _of(first[1:], "cpu_ms_per_request")
    lines = [
        at_most(name, "memory of all processes, last ten minutes / minutes 5-15", grown, RSS_GROWTH_MAX),
        _slower(name, "p50 to the first byte, last ten minutes / first ten", slower, bounded),
        _slower(name, "CPU a request, last ten minutes / first ten", dearer, bounded),
        at_most(name, "answers that memory was kept out of, last ten minutes", _degraded(last), DEGRADED_MAX),
        told(name, "of the memory: hot scopes", f"{_of(settled, 'hot_mib'):.0f} -> {_of(last, 'hot_mib'):.0f} MiB"),
    ]
    before, after = _by_process(settled), _by_process(last)
    for process in sorted(before.keys() & after.keys()):
        share = ratio(after[process], before[process])
        said = f"{before[process]:.0f} -> {after[process]:.0f} MiB ({share:.3f})" if share else "-"
        lines.append(told(name, f"of the memory: {process}", said))
    return lines


def _slower(name: str, figure: str, measured: float, bounded: bool) -> Line:
    return told(name, figure, f"{measured:.3f}") if bounded else at_most(name, figure, measured, SLOWER_MAX)


def _p50(rows: Minutes) -> float | None:
    """None where no minute has an answer."""
    answered = [said["p50"] for row in rows if (said := row["ttft_ms"].get(OURS))]
    return median(answered) if answered else None


def _degraded(rows: Minutes) -> float:
    """The share of the answers that a fault left without memory."""
    statuses = sum((Counter(row["memory_status"]) for row in rows), Counter[str]())
    without = sum(count for status, count in statuses.items() if status.startswith("degraded"))
    return without / max(statuses.total(), 1)


def _of(rows: Minutes, member: str) -> float:
    return median([row[member] for row in rows if row.get(member) is not None])


def _by_process(rows: Minutes) -> dict[str, float]:
    names = {name for row in rows for name in row["rss_mib"]}
    return {name: median([row["rss_mib"][name] for row in rows if name in row["rss_mib"]]) for name in names}


def _three(quantiles: Mapping[str, float] | None) -> str:
    return "-" if quantiles is None else " / ".join(f"{quantiles[name]:.2f}" for name, _ in SHARES) + " ms"
