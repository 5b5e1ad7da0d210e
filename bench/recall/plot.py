"""`python -m bench.recall.plot FILE.json FILE.png`: a recall report as JSON in, a PNG out. Needs matplotlib.

A module of its own, run as a process of its own, because matplotlib is there for developers only. No arithmetic.
Exit 1: the report cannot be read or the plot not written.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import matplotlib

from bench.drawing import draw_file
from bench.recall.result import BASELINES, floor_of, leaks_of

matplotlib.use("Agg")
from matplotlib import pyplot

_MEASURES: Final = ("recall@1", "recall@5", "recall@10", "recall@20", "ndcg@10", "mrr")
_BARS: Final = 0.85


def plot(report: Mapping[str, Any], path: Path) -> None:
    """Measures of each set beside the baselines', and turn recall@10 by type of question (PNG)."""
    sets = report["sets"]
    figure, grid = pyplot.subplots(2, len(sets), figsize=(5.8 * len(sets), 8), squeeze=False)
    for column, (name, result) in enumerate(sets.items()):
        _plot_measures(grid[0][column], name, result)
        _plot_kinds(grid[1][column], result["by_kind"])
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def _plot_measures(axes: Any, name: str, result: Mapping[str, Any]) -> None:
    lines = ["ours", *(line for line in BASELINES if line in result and line != "gold")]
    width = _BARS / len(lines)
    for number, who in enumerate(lines):
        entries = [result[who][measure] for measure in _MEASURES]
        means = [entry["mean"] for entry in entries]
        errors = [
            [max(0.0, entry["mean"] - entry["low"]) for entry in entries],
            [max(0.0, entry["high"] - entry["mean"]) for entry in entries],
        ]
        places = [at + width * number for at in range(len(_MEASURES))]
        axes.bar(places, means, width, yerr=errors, label=who, capsize=2, error_kw={"linewidth": 0.7})
    middle = [at + width * (len(lines) - 1) / 2 for at in range(len(_MEASURES))]
    if "gold" in result:
        ceilings = [result["gold"][measure]["mean"] for measure in _MEASURES]
        axes.scatter(middle, ceilings, marker="_", s=500, color="black", linewidth=1, label="gold (ceiling)")
    axes.set_xticks(middle, _MEASURES, rotation=30, fontsize=8)
    axes.set_ylim(0, 1.02)
    axes.axhline(floor_of(name, result), color="grey", linewidth=0.8, linestyle=":", label="floor of recall@10")
    axes.set_title(f"{name}: {result['answerable']} questions, leaks {leaks_of(result)}")
    axes.legend(fontsize=7)


def _plot_kinds(axes: Any, kinds: Mapping[str, Any]) -> None:
    labels: Sequence[str] = [f"{kind} ({entry['questions']})" for kind, entry in kinds.items()]
    series = {
        "ours": [entry["recall@10"] for entry in kinds.values()],
        "bm25": [entry["bm25"] for entry in kinds.values()],
        "injected (share of gold)": [entry.get("injected") for entry in kinds.values()],
    }
    shown = {label: values for label, values in series.items() if None not in values}
    height = _BARS / len(shown)
    for number, (label, values) in enumerate(shown.items()):
        axes.barh([at + height * number for at in range(len(labels))], values, height, label=label)
    axes.set_yticks([at + height * (len(shown) - 1) / 2 for at in range(len(labels))], labels, fontsize=7)
    axes.invert_yaxis()
    axes.set_xlim(0, 1.02)
    axes.set_title("turn recall@10 by type of question", fontsize=9)
    axes.legend(fontsize=7)


def main(argv: Sequence[str]) -> int:
    """Draw one report."""
    return draw_file("bench.recall.plot", plot, argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
