"""What a run showed: an Outcome in, a table for people and JSON for programs out."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from bench.crash.rounds import Outcome, Round
from bench.crash.verdict import SHOWN_MAX
from bench.stats import quantile


def table(outcome: Outcome) -> str:
    """The result and, per kind of victim, blows and seconds to recovery."""
    verdict = outcome.verdict
    lines = [
        f"acknowledged {verdict.acknowledged}   lost {verdict.lost}   doubled {verdict.doubled}"
        f"   sessions with gaps {len(verdict.gaps)}   dead letters {verdict.dead}",
        f"sent {outcome.sent}, not acknowledged {sum(outcome.refusals.values())},"
        f" exchange rows {verdict.exchange_rows}, slowest answer {outcome.slowest_s:.2f} s,"
        f" settled in {outcome.settle_s:.1f} s, all in {outcome.seconds:.0f} s",
        f"why not acknowledged: {outcome.refusals}",
        f"completions failed because of memory {outcome.blame.memory} {outcome.blame.of_memory or ''}, because the"
        f" proxy or the upstream was hit {outcome.blame.of_serving}",
        f"answers by capture: {outcome.captures}",
        f"answers by status: {outcome.statuses}",
        f"conversations known by their chain that went on in a second session: {len(verdict.split)}",
        "",
        f"{'victim':<16}{'killed':>8}{'frozen':>8}{'ready s p50':>13}{'p95':>7}{'max':>7}"
        f"{'whole s p50':>13}{'p95':>7}{'max':>7}",
    ]
    for kind, rounds in _by_kind(outcome.rounds).items():
        hits = [blow for each in rounds for blow in each.blows if blow.kind == kind]
        ready, whole = [each.ready_s for each in rounds], [each.whole_s for each in rounds]
        lines.append(
            f"{kind:<16}{sum(b.kills for b in hits):>8}{sum(b.freeze_s > 0 for b in hits):>8}"
            f"{_three(ready)}{_three(whole)}"
        )
    return "\n".join([*lines, *_marks(outcome)])


def as_json(outcome: Outcome, setting: Mapping[str, Any]) -> dict[str, Any]:
    """Everything, with the setting it was measured in."""
    verdict = outcome.verdict
    result = {
        "lost": verdict.lost,
        "doubled": verdict.doubled,
        "kept": verdict.kept,
        "failed_because_of_memory": outcome.blame.memory,
    }
    return {"setting": dict(setting), "result": result, **asdict(outcome)}


def _three(seconds: Sequence[float]) -> str:
    return f"{quantile(seconds, 0.5):>13.2f}{quantile(seconds, 0.95):>7.2f}{max(seconds):>7.2f}"


def _by_kind(rounds: Sequence[Round]) -> dict[str, list[Round]]:
    found: dict[str, list[Round]] = {}
    for each in rounds:
        for blow in each.blows:
            found.setdefault(blow.kind, []).append(each)
    return dict(sorted(found.items()))


def _marks(outcome: Outcome) -> list[str]:
    """The marks that are not as they should be, the first few."""
    verdict = outcome.verdict
    named = {
        "turns": verdict.turns,
        "exchanges": verdict.exchanges,
        "memories": verdict.memories,
    }
    lines = []
    for where, compared in named.items():
        for what, marks in (("lost", compared.lost), ("doubled", compared.doubled)):
            if marks:
                lines.append(f"{what} in {where}: {len(marks)}, {', '.join(marks[:SHOWN_MAX])}")
    if verdict.gaps:
        lines.append(f"gaps in {', '.join(verdict.gaps[:SHOWN_MAX])}")
    return lines
