"""From measurements to what is read: Results -> JSON, an aligned table, a plot (PNG).

All times in milliseconds. `added` is paired with the direct request of the same round; `x` is a ratio
to the plain proxy. Nothing is dropped: errors and the noise control stand in the same table.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib

from bench.overhead.measure import Block, Latency
from bench.stats import Summary, median, median_interval, paired_differences, ratio

matplotlib.use("Agg")
from matplotlib import pyplot

BASELINE = "plain"
DIRECT = "direct"


@dataclass(frozen=True, slots=True)
class PaceResult:
    """Everything measured at one pace."""

    pace: str
    latency: Latency
    blocks: Sequence[Block]


def latency_json(latency: Latency) -> dict[str, Any]:
    """Per target: first byte, whole stream, and what was added over direct (ms)."""
    out: dict[str, Any] = {}
    for name, first in latency.first_s.items():
        if not first:
            out[name] = {"errors": latency.errors[name]}
            continue
        added = paired_differences(first, latency.first_s[DIRECT])
        low, high = median_interval(added)
        out[name] = {
            "ttft_ms": Summary.of(first, 1000).as_json(),
            "added_ms": Summary.of(added, 1000).as_json(),
            "added_p50_interval_ms": [low * 1000, high * 1000],
            "stream_ms": Summary.of(latency.total_s[name], 1000).as_json(),
            "memory_status": dict(latency.statuses[name]),
            "errors": latency.errors[name],
        }
    return out


def _cpu_ms(block: Block, used: Mapping[str, float]) -> dict[str, float]:
    return {kind: seconds * 1000 / max(block.streams, 1) for kind, seconds in used.items()}


def throughput_json(blocks: Iterable[Block], order: Iterable[str]) -> dict[str, Any]:
    """Per target (in this order) and number of clients: medians over the rounds."""
    grouped: dict[str, dict[int, list[Block]]] = {}
    for block in blocks:
        grouped.setdefault(block.target, {}).setdefault(block.clients, []).append(block)
    return {
        name: {str(clients): _level_json(level) for clients, level in grouped[name].items()}
        for name in order
        if name in grouped
    }


def _level_json(level: Sequence[Block]) -> dict[str, Any]:
    kinds = sorted({kind for block in level for kind in block.cpu_settled_s})
    times = [value for block in level for value in block.first_s]
    out: dict[str, Any] = {
        "streams": sum(block.streams for block in level),
        "streams_per_s": median([block.streams / block.seconds for block in level]),
        "errors": sum(block.errors for block in level),
        "ttft_ms": Summary.of(times, 1000).as_json() if times else None,
        "memory_status": dict(sum((Counter(block.statuses) for block in level), Counter[str]()).most_common()),
    }
    if kinds:
        path = [sum(_cpu_ms(block, block.cpu_s).values()) for block in level]
        whole = [sum(_cpu_ms(block, block.cpu_settled_s).values()) for block in level]
        out["cpu_ms_per_stream"] = median([_cpu_ms(block, block.cpu_s).get("proxy", 0.0) for block in level])
        out["cpu_ms_per_stream_all"] = median(path)
        out["cpu_ms_per_stream_settled"] = median(whole)
        out["cpu_ms_by_kind_settled"] = {
            kind: median([_cpu_ms(block, block.cpu_settled_s).get(kind, 0.0) for block in level]) for kind in kinds
        }
    return out


def result_json(result: PaceResult) -> dict[str, Any]:
    return {
        "latency": latency_json(result.latency),
        "throughput": throughput_json(result.blocks, result.latency.first_s),
    }


def _number(value: float | None, digits: int = 2) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def _aligned(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    )


def _latency_rows(found: Mapping[str, Any]) -> list[list[str]]:
    rows = [
        ["first byte, one client", "p10", "p50", "p99", "added p10", "p50", "(95 %)", "p99", "x", "errors", "status"]
    ]
    base = found.get(BASELINE, {}).get("added_ms", {}).get("p50", 0.0)
    for name, entry in found.items():
        if "added_ms" not in entry:
            rows.append([name, *["-"] * 8, str(entry["errors"]), "-"])
            continue
        ttft, added, (low, high) = entry["ttft_ms"], entry["added_ms"], entry["added_p50_interval_ms"]
        times = [_number(ttft["p10"]), _number(ttft["p50"]), _number(ttft["p99"])]
        extra = [_number(added["p10"]), _number(added["p50"]), f"{low:.2f}..{high:.2f}", _number(added["p99"])]
        share = "-" if name.startswith(DIRECT) else _number(ratio(added["p50"], base), 1)
        status = ", ".join(f"{key} {value}" for key, value in entry["memory_status"].items() if key) or "-"
        rows.append([name, *times, *extra, share, str(entry["errors"]), status])
    return rows


def _throughput_rows(found: Mapping[str, Any]) -> list[list[str]]:
    levels = list(next(iter(found.values()), {}))
    head = ["streams/s and CPU ms a stream"]
    for clients in levels:
        head += [f"{clients} cl.", "x", "cpu", "x"]
    rows = [[*head, "cpu settled", "errors"]]
    for name, entry in found.items():
        cells = [name]
        for clients in levels:
            here, base = entry[clients], found.get(BASELINE, entry)[clients]
            cells += [_number(here["streams_per_s"], 0), _number(ratio(here["streams_per_s"], base["streams_per_s"]))]
            cpu, base_cpu = here.get("cpu_ms_per_stream"), base.get("cpu_ms_per_stream")
            cells += [_number(cpu), _number(ratio(cpu, base_cpu) if cpu is not None and base_cpu else None, 1)]
        settled = entry[levels[-1]].get("cpu_ms_per_stream_settled")
        errors = sum(entry[clients]["errors"] for clients in levels)
        rows.append([*cells, _number(settled), str(errors)])
    return rows


def table(report: Mapping[str, Any]) -> str:
    """All paces as aligned text."""
    parts: list[str] = []
    for pace, found in report["paces"].items():
        parts.append(f"== {pace} ==\n{_aligned(_latency_rows(found['latency']))}")
        if found["throughput"]:
            parts.append(_aligned(_throughput_rows(found["throughput"])))
    parts.append(
        "ms; added = over direct in the same round; x = ratio to the plain proxy; `direct again` is the noise floor;\n"
        "cpu = the proxy's own processes; cpu settled = all of its processes until the work left behind is done."
    )
    return "\n\n".join(parts)


def error_count(report: Mapping[str, Any]) -> int:
    """Failed requests in the whole report."""
    total = 0
    for found in report["paces"].values():
        total += sum(entry["errors"] for entry in found["latency"].values())
        total += sum(level["errors"] for entry in found["throughput"].values() for level in entry.values())
    return total


def plot(report: Mapping[str, Any], path: Path) -> None:
    """One row for each pace: added time to first byte, streams per second, CPU of the proxy (PNG)."""
    paces = report["paces"]
    figure, grid = pyplot.subplots(len(paces), 3, figsize=(13, 3.6 * len(paces)), squeeze=False)
    for row, (pace, found) in zip(grid, paces.items(), strict=True):
        _plot_added(row[0], pace, found["latency"])
        _plot_levels(row[1], f"{pace}: streams/s", found["throughput"], "streams_per_s")
        _plot_levels(row[2], f"{pace}: CPU ms a stream", found["throughput"], "cpu_ms_per_stream")
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def _plot_added(axes: Any, pace: str, latency: Mapping[str, Any]) -> None:
    shown = [(name, e["added_ms"]) for name, e in latency.items() if name != DIRECT and "added_ms" in e]
    for place, (_, added) in enumerate(shown):
        axes.plot([added["p10"], added["p90"]], [place, place], color="tab:blue", linewidth=2)
        axes.plot(added["p50"], place, "o", color="tab:blue")
        axes.annotate(f"{added['p50']:.2f}", (added["p50"], place), textcoords="offset points", xytext=(0, 7))
    axes.set_yticks(range(len(shown)), [name for name, _ in shown])
    axes.set_ylim(-0.5, len(shown) - 0.2)
    axes.invert_yaxis()
    axes.axvline(0, color="grey", linewidth=0.8)
    axes.set_title(f"{pace}: added to first byte, ms (p10, p50, p90)")


def _plot_levels(axes: Any, title: str, throughput: Mapping[str, Any], member: str) -> None:
    shown = {name: levels for name, levels in throughput.items() if all(member in e for e in levels.values())}
    width = 0.8 / max(len(shown), 1)
    colours = {name: f"C{number}" for number, name in enumerate(throughput)}
    for number, (name, levels) in enumerate(shown.items()):
        places = [i + number * width for i in range(len(levels))]
        axes.bar(places, [entry[member] for entry in levels.values()], width, label=name, color=colours[name])
        axes.set_xticks([i + 0.4 - width / 2 for i in range(len(levels))], [f"{c} clients" for c in levels])
    axes.set_title(title)
    if shown:
        axes.legend(fontsize=7)
