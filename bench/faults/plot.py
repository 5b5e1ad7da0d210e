"""`python -m bench.faults.plot FILE.json FILE.png`: a report as JSON in, a PNG out. Needs matplotlib.

A module of its own, run as a process of its own, because matplotlib is there for developers only. No arithmetic.
Exit 1: the report cannot be read or the plot not written.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot


def plot(report: Mapping[str, Any], path: Path) -> None:
    """Left: seconds of each scenario in the colour of its verdict. Right: recovery by victim, where rounds were run."""
    scenarios = report["scenarios"]
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(14, 5.5))
    colours = {"kept": "tab:green", "BROKEN": "tab:red", "skipped": "tab:gray"}
    names = [one["name"] for one in scenarios]
    left.barh(names, [one["seconds"] for one in scenarios], color=[colours[one["verdict"]] for one in scenarios])
    left.invert_yaxis()
    left.set_xlabel("seconds")
    left.set_title("scenarios (green kept, red broken, grey skipped)", fontsize=10)
    victims: Mapping[str, Any] = next(
        (one["figures"]["by_victim"] for one in scenarios if "by_victim" in one["figures"]), {}
    )
    for number, (share, marker) in enumerate((("p50", "o"), ("p95", "s"), ("max", "x"))):
        values = [found["whole_s"][share] for found in victims.values()]
        right.plot(values, list(victims), linestyle="", marker=marker, color=f"C{number}", label=share)
    right.set_xlabel("seconds until every part was back")
    right.set_title("recovery by victim", fontsize=10)
    if victims:
        right.legend(fontsize=8)
    right.grid(True, linewidth=0.3)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def main(argv: Sequence[str]) -> int:
    """Entry point."""
    try:
        source, png = argv
        plot(json.loads(Path(source).read_text()), Path(png))
    except (OSError, ValueError, KeyError) as fault:
        print(f"bench.faults.plot: {type(fault).__name__}: {fault}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
