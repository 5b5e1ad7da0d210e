"""`python -m bench.search_times.plot FILE.json FILE.png`: a report as JSON in, a PNG out. Needs matplotlib.

A module of its own, run as a process of its own, because matplotlib is there for developers only. No arithmetic.
Exit 1: the report cannot be read or the plot not written.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot

from bench.drawing import draw_file

# What is drawn -> where it stands in the report of one size.
_TIMES: Final[Mapping[str, tuple[str, ...]]] = {
    "hot search, service's own time": ("hot", "search", "service_ms"),
    "hot search, client": ("hot", "search", "client_ms"),
    "hot chat, added": ("hot", "chat", "service_ms"),
    "cold chat (never held), added": ("cold", "service_ms"),
}
_DEADLINE_MS: Final = 250


def plot(report: Mapping[str, Any], path: Path) -> None:
    """Times, CPU of a search and time of a load, each against the memories in scope (PNG)."""
    sizes = {int(size): one for size, one in report["sizes"].items()}
    figure, (times, costs, loads) = pyplot.subplots(1, 3, figsize=(18, 5.5), width_ratios=(2, 1, 1))
    _plot_times(times, sizes)
    times.set_title(f"{report['store']:,} memories in the store (solid p50, dashed p99)", fontsize=10)
    for kind in ("proxy", "postgres"):
        _line(costs, sizes, ("hot", "cpu_ms", kind), label=kind)
    costs.set_title("CPU of a hot search, ms", fontsize=10)
    for size, one in sizes.items():
        seconds = one["first_chat"]["loaded_after_s"]
        loads.scatter([size] * len(seconds), seconds, color="tab:purple")
    loads.set_yscale("log")
    loads.set_title("first chat of a scope to its index in process, s", fontsize=10)
    for axes in (times, costs, loads):
        axes.set_xscale("log")
        axes.set_xlabel("memories in scope")
        axes.grid(True, which="major", linewidth=0.3)
    for axes in (times, costs):
        axes.legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def _plot_times(axes: Any, sizes: Mapping[int, Any]) -> None:
    for number, (label, keys) in enumerate(_TIMES.items()):
        _line(axes, sizes, (*keys, "p50"), color=f"C{number}", label=label)
        _line(axes, sizes, (*keys, "p99"), color=f"C{number}", linestyle="--")
    _line(axes, sizes, ("hot", "embedding_ms", "p50"), color="black", label="embedding alone")
    firsts = [(size, millis) for size, one in sizes.items() for millis in one["first_chat"]["service_ms"]]
    axes.scatter(*zip(*firsts, strict=True), marker="x", color="tab:purple", label="first chat of a scope, added")
    axes.axhline(_DEADLINE_MS, color="grey", linewidth=0.8, linestyle=":", label="recall.deadline_ms (default)")
    axes.set_yscale("log")
    axes.set_ylabel("ms")


def _at(one: Mapping[str, Any], keys: Sequence[str]) -> Any:
    found: Any = one
    for key in keys:
        found = None if found is None else found.get(key)
    return found


def _line(axes: Any, sizes: Mapping[int, Any], keys: Sequence[str], **style: Any) -> None:
    """One figure by size, where it was measured."""
    points = [(size, found) for size, one in sizes.items() if (found := _at(one, keys)) is not None]
    if points:
        axes.plot(*zip(*points, strict=True), marker="o", **style)


def main(argv: Sequence[str]) -> int:
    """Draw one report."""
    return draw_file("bench.search_times.plot", plot, argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
