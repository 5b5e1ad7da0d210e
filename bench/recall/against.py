"""Two runs compared: two recall reports in, the headline figures of both and their differences out.

Only sets and figures that both have are compared: an older report without a figure, or a run without the chats, says
nothing of it. Refuses (ReportUnreadable) what is no report.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

# Name -> where it stands in a set's result.
_HEADLINES: Final[dict[str, tuple[str, ...]]] = {
    "recall@1": ("ours", "recall@1", "mean"),
    "recall@5": ("ours", "recall@5", "mean"),
    "recall@10": ("ours", "recall@10", "mean"),
    "recall@20": ("ours", "recall@20", "mean"),
    "ndcg@10": ("ours", "ndcg@10", "mean"),
    "mrr": ("ours", "mrr", "mean"),
    "injected fraction": ("injected", "fraction", "mean"),
    "injected any": ("injected", "any", "mean"),
    "injected gold dated": ("injected", "dated", "mean"),
    "recall@10, type temporal": ("temporal", "type temporal", "recall@10", "mean"),
    "recall@10, relative date": ("temporal", "relative date", "recall@10", "mean"),
    "injected, type temporal": ("temporal", "type temporal", "injected", "mean"),
    "injected, relative date": ("temporal", "relative date", "injected", "mean"),
    "tokens median": ("injected", "tokens", "median"),
    "updates new above old": ("updates", "new_above_old"),
    "updates old without new": ("injected", "updates", "old_without_new"),
    "admitted something, answerable": ("admission", "answerable", "given_something"),
    "admitted something, unanswerable": ("admission", "unanswerable", "given_something"),
    "given something, answerable": ("injected", "given_something", "answerable"),
    "given something, unanswerable": ("injected", "given_something", "unanswerable"),
    "given something, opening": ("injected", "given_something", "opening"),
    "AUC": ("admission", "auc"),
    "answers exact, with memory": ("answers", "answerable", "exact", "with", "mean"),
    "answers exact, without": ("answers", "answerable", "exact", "without", "mean"),
    "answers F1, with memory": ("answers", "answerable", "f1", "with", "mean"),
    "answers F1, without": ("answers", "answerable", "f1", "without", "mean"),
}


class ReportUnreadable(Exception):
    """A file that is no recall report; the text says which and why."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One figure of one set in both runs."""

    chosen: str
    name: str
    before: float
    after: float


def read_report(path: Path) -> dict[str, Any]:
    """A report that an earlier run wrote with --json. Raises ReportUnreadable."""
    try:
        report = json.loads(path.read_text())
    except (OSError, ValueError) as exc:
        raise ReportUnreadable(f"{path}: {exc}") from exc
    sets = report.get("sets") if isinstance(report, dict) else None
    if not isinstance(sets, dict):
        raise ReportUnreadable(f"{path}: no recall report, it has no sets")
    return {**report, "sets": sets}


def headlines(result: Mapping[str, Any]) -> dict[str, float]:
    """The headline figures that a set's result has."""
    found = {name: _at(result, path) for name, path in _HEADLINES.items()}
    budgets = result.get("budgets") or {}
    found |= {f"injected at {budget}": _at(budgets, (budget, "fraction", "mean")) for budget in budgets}
    return {name: value for name, value in found.items() if value is not None}


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Difference]:
    """Every headline figure that both reports have, in the order of the second."""
    found = []
    for chosen, result in after["sets"].items():
        earlier = headlines(before["sets"].get(chosen, {}))
        found += [
            Difference(chosen, name, earlier[name], value)
            for name, value in headlines(result).items()
            if name in earlier
        ]
    return found


def difference_table(found: Sequence[Difference]) -> str:
    """The differences as aligned text."""
    if not found:
        return "nothing to compare: the two reports share no set"
    rows = [f"{'set':8s}{'figure':34s}{'before':>10s}{'now':>10s}{'change':>10s}"]
    for one in found:
        change = one.after - one.before
        said = f"{change:+10.4g}" if round(change, 4) else f"{'=':>10s}"
        rows.append(f"{one.chosen:8s}{one.name:34s}{one.before:10.4g}{one.after:10.4g}{said}")
    return "\n".join(rows)


def _at(result: Any, path: Sequence[str]) -> float | None:
    for name in path:
        if not isinstance(result, Mapping) or result.get(name) is None:
            return None
        result = result[name]
    return float(result) if isinstance(result, int | float) else None
