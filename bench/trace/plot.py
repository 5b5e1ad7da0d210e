"""Draw one report: `python -m bench.trace.plot REPORT PNG`."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot

from bench.drawing import draw_file


def plot(report: Mapping[str, Any], png: Path) -> None:
    """Minute by minute: first byte, CPU, memory, queue."""
    minutes = report["minutes"]
    figure, grid = pyplot.subplots(2, 2, figsize=(13, 7), squeeze=False)
    times, cpu, memory, queue = (axes for row in grid for axes in row)
    for way in sorted({way for row in minutes for way in row["ttft_ms"]}):
        for style, quantile in (("-", "p50"), ("--", "p99")):
            points = [(row["minute"], said[quantile]) for row in minutes if (said := row["ttft_ms"].get(way))]
            times.plot(*zip(*points, strict=True), style, label=f"{way} {quantile}")
    _lines(cpu, minutes, "cpu_s")
    _lines(memory, minutes, "rss_mib")
    _lines(queue, minutes, "queue")
    for axes, title in (
        (times, "to the first byte, ms"),
        (cpu, "CPU seconds a minute"),
        (memory, "MiB (Postgres: PSS)"),
        (queue, "queue"),
    ):
        axes.set_title(f"{report['settings']['trace']} x{report['settings']['speed']:g}: {title}", fontsize=9)
        axes.set_xlabel("minute")
        if axes.lines:
            axes.legend(fontsize=6)
    times.set_yscale("log")
    figure.tight_layout()
    figure.savefig(png, dpi=90)
    pyplot.close(figure)


def _lines(axes: Any, minutes: Sequence[Mapping[str, Any]], member: str) -> None:
    for name in sorted({name for row in minutes for name in row.get(member, {})}):
        points = [(row["minute"], row[member][name]) for row in minutes if name in row.get(member, {})]
        axes.plot(*zip(*points, strict=True), label=name)


def main(argv: Sequence[str]) -> int:
    """Draw one report."""
    return draw_file("bench.trace.plot", plot, argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
