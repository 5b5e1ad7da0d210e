"""`python -m bench.prefix_cache.plot FILE.json FILE.png`: a report as JSON in, a PNG out. Needs matplotlib.

A module of its own, run as a process of its own, because matplotlib is there for developers only. No arithmetic.
Exit 1: the report cannot be read or the plot not written.
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


def plot(report: Mapping[str, Any], path: Path) -> None:
    """A group of bars a scenario: the ratio on the client's own tokens by family, the raw one as a cross (PNG)."""
    figure, axes = pyplot.subplots(figsize=(11, 5))
    scenarios = _bars(report)
    families = list(dict.fromkeys(family for some in scenarios.values() for family in some))
    width = 0.8 / max(1, len(families))
    for number, family in enumerate(families):
        at = [place + number * width for place in range(len(scenarios))]
        own = [(some.get(family) or (None, None))[0] or 0.0 for some in scenarios.values()]
        raw = [(some.get(family) or (None, None))[1] or 0.0 for some in scenarios.values()]
        axes.bar(at, own, width * 0.9, label=family)
        axes.plot(at, raw, "kx", markersize=5, label="raw, memory's tokens counted" if not number else None)
    bound = float(report["settings"]["bound"])
    axes.axhline(bound, color="grey", linewidth=0.8, linestyle=":", label=f"bound {bound}")
    axes.set_xticks([place + 0.4 - width / 2 for place in range(len(scenarios))], list(scenarios))
    axes.set_ylabel("cached share with memory / without")
    axes.set_title("prefix cache kept, on the client's own tokens", fontsize=10)
    axes.grid(True, axis="y", linewidth=0.3)
    axes.legend(fontsize=7, ncols=7, loc="upper center", bbox_to_anchor=(0.5, -0.07))
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def _bars(report: Mapping[str, Any]) -> dict[str, dict[str, tuple[float | None, float | None]]]:
    """Own and raw ratio by scenario and family."""
    if "real" in report:
        return {one["scenario"]: {"vLLM": (one["ratio"], one["raw_ratio"])} for one in report["real"]}
    return {
        scenario: {family: (one["all"]["ratio"], one["all"]["raw_ratio"]) for family, one in some.items()}
        for scenario, some in report["scenarios"].items()
    }


def main(argv: Sequence[str]) -> int:
    """Draw one report."""
    return draw_file("bench.prefix_cache.plot", plot, argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
