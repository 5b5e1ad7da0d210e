"""Figures by a number as lines: a report of bench.capture or growth in, a PNG out.

`python -m bench.series_plot REPORT PNG`
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot

from bench.drawing import draw_file

Series = Mapping[str, Sequence[tuple[float, float]]]


def growth_panels(report: Mapping[str, Any]) -> dict[str, Series]:
    """Milliseconds by memories in the store."""
    sizes = sorted((int(size), one) for size, one in report["sizes"].items())
    named = {"chat": "chat_ms", "search": "search_ms", "embedding alone": "embedding_ms"}
    return {
        f"one scope, {quantile}: ms by memories in the store": {
            label: [(size, one[member][quantile]) for size, one in sizes] for label, member in named.items()
        }
        for quantile in ("p50", "p99")
    }


def capture_panels(report: Mapping[str, Any]) -> dict[str, Series]:
    """Exchanges kept, and what one takes, by writers."""
    queues = {
        name: sorted((int(count), level) for count, level in one["written"].items())
        for name, one in report["queues"].items()
    }
    return {
        "kept a second, by writers": {
            name: [(count, level["per_s"]) for count, level in levels] for name, levels in queues.items()
        },
        "hand-off, p50: ms by writers": {
            name: [(count, level["ms"]["p50"]) for count, level in levels if level["ms"]]
            for name, levels in queues.items()
        },
    }


def plot(report: Mapping[str, Any], png: Path) -> None:
    """All panels beside each other."""
    panels = {"growth": growth_panels, "capture": capture_panels}[report["bench"]](report)
    figure, grid = pyplot.subplots(1, len(panels), figsize=(6 * len(panels), 3.6), squeeze=False)
    for axes, (title, series) in zip(grid[0], panels.items(), strict=True):
        for label, points in series.items():
            axes.plot(*zip(*points, strict=True), marker="o", label=label)
        axes.set_xscale("log")
        axes.set_ylim(bottom=0)
        axes.set_title(title, fontsize=9)
        axes.legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(png, dpi=90)
    pyplot.close(figure)


def main(argv: Sequence[str]) -> int:
    """Draw one report."""
    return draw_file("bench.series_plot", plot, argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
