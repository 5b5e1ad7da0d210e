"""The recall report: a result by set in, an aligned table or a PNG plot out. No arithmetic but rounding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import matplotlib

from bench.recall.run import floor_of

matplotlib.use("Agg")
from matplotlib import pyplot

_SHOWN: Final = ("recall@1", "recall@5", "recall@10", "recall@20", "any@10", "all@10", "ndcg@10", "mrr")


def table(report: Mapping[str, Any]) -> str:
    """All sets as aligned text."""
    parts = []
    for name, result in report["sets"].items():
        head = f"== {name}: {result['scopes']} scopes, {result['turns']} turns, {result['answerable']} questions =="
        parts.append("\n".join([head, *_measure_rows(result), *_notes(name, result)]))
    parts.append(
        "by turn; [95 % interval over resampled scopes]; bm25: single turns of the same scope, same run;\n"
        "given something: share of questions for which anything is admitted, answerable against unanswerable."
    )
    return "\n\n".join(parts)


def failures(report: Mapping[str, Any]) -> list[str]:
    """What must not be: leaks, and floors that are not reached."""
    found = []
    for name, result in report["sets"].items():
        floor, reached = floor_of(name, result), result["ours"]["recall@10"]["mean"]
        if result["leaks"]:
            found.append(f"{name}: {result['leaks']} turns of another scope")
        if reached < floor:
            found.append(f"{name}: turn recall@10 {reached:.3f} is below {floor:.3f}")
    return found


def plot(report: Mapping[str, Any], path: Path) -> None:
    """Measures of each set beside BM25's, and turn recall@10 by type of question (PNG)."""
    sets = report["sets"]
    figure, grid = pyplot.subplots(2, len(sets), figsize=(5.2 * len(sets), 8), squeeze=False)
    for column, (name, result) in enumerate(sets.items()):
        _plot_measures(grid[0][column], name, result)
        _plot_kinds(grid[1][column], result["by_kind"])
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def _measure_rows(result: Mapping[str, Any]) -> list[str]:
    rows = [f"{'':10s}{'ours':>8s}  {'95 % interval':17s}{'bm25':>6s}"]
    for name in _SHOWN:
        ours, bm25 = result["ours"][name], result["bm25"][name]
        interval = f"[{ours['low']:.3f}, {ours['high']:.3f}]"
        rows.append(f"{name:10s}{ours['mean']:8.3f}  {interval:17s}{bm25['mean']:6.3f}")
    return rows


def _notes(name: str, result: Mapping[str, Any]) -> list[str]:
    floor, reached = floor_of(name, result), result["ours"]["recall@10"]["mean"]
    more = result["more_than_bm25"]["recall@10"]
    notes = [
        f"recall@10 over bm25 {more['mean']:+.3f} [{more['low']:+.3f}, {more['high']:+.3f}]; "
        f"floor {floor:.3f} {'reached' if reached >= floor else 'MISSED'}",
        "by type   " + "  ".join(_kind(kind, e) for kind, e in result["by_kind"].items()),
    ]
    if result["updates"]:
        updates = result["updates"]
        notes.append(
            f"updates   new above old {updates['new_above_old']}/{updates['questions']} (bm25 {updates['bm25']})"
        )
    notes.append("admission " + _admission(result["admission"]))
    notes.append(
        f"leaks {result['leaks']}; import {result['import']['turns_per_s']:.1f} turns/s "
        f"({result['import']['seconds']:.0f} s); search p50 {result['search_ms']['p50']:.1f} ms, "
        f"p99 {result['search_ms']['p99']:.1f} ms; rungs {result['rungs']}"
    )
    return notes


def _kind(kind: str, entry: Mapping[str, Any]) -> str:
    return f"{kind} {entry['recall@10']:.3f}/{entry['bm25']:.3f} ({entry['questions']})"


def _admission(admission: Mapping[str, Any]) -> str:
    said = [
        f"{group}: given something {admission[group]['given_something']:.3f}, "
        f"{admission[group]['admitted_mean']:.1f} of 20 admitted"
        for group in ("answerable", "unanswerable")
        if group in admission
    ]
    return "; ".join(said) + (f"; AUC {admission['auc']:.3f}" if admission["auc"] is not None else "")


def _plot_measures(axes: Any, name: str, result: Mapping[str, Any]) -> None:
    names = ("recall@1", "recall@5", "recall@10", "recall@20", "ndcg@10", "mrr")
    for number, who in enumerate(("ours", "bm25")):
        entries = [result[who][measure] for measure in names]
        means = [entry["mean"] for entry in entries]
        errors = [
            [max(0.0, entry["mean"] - entry["low"]) for entry in entries],
            [max(0.0, entry["high"] - entry["mean"]) for entry in entries],
        ]
        axes.bar([at + 0.4 * number for at in range(len(names))], means, 0.4, yerr=errors, label=who, capsize=2)
    axes.set_xticks([at + 0.2 for at in range(len(names))], names, rotation=30, fontsize=8)
    axes.set_ylim(0, 1.02)
    axes.axhline(floor_of(name, result), color="grey", linewidth=0.8, linestyle=":", label="floor of recall@10")
    axes.set_title(f"{name}: {result['answerable']} questions, leaks {result['leaks']}")
    axes.legend(fontsize=7)


def _plot_kinds(axes: Any, kinds: Mapping[str, Any]) -> None:
    labels: Sequence[str] = [f"{kind} ({entry['questions']})" for kind, entry in kinds.items()]
    places = range(len(labels))
    axes.barh([at - 0.2 for at in places], [e["recall@10"] for e in kinds.values()], 0.4, label="ours")
    axes.barh([at + 0.2 for at in places], [e["bm25"] for e in kinds.values()], 0.4, label="bm25")
    axes.set_yticks(list(places), labels, fontsize=7)
    axes.invert_yaxis()
    axes.set_xlim(0, 1.02)
    axes.set_title("turn recall@10 by type of question", fontsize=9)
    axes.legend(fontsize=7)
