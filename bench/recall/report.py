"""The recall report: a result by set in, an aligned table and what must not be out. No arithmetic but rounding."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from bench.recall.result import BASELINES, OPENINGS_GIVEN_MAX, floor_of, leaks_of, openings_given

_SHOWN: Final = ("recall@1", "recall@5", "recall@10", "recall@20", "any@10", "all@10", "ndcg@10", "mrr")
_GROUPS: Final = ("answerable", "unanswerable", "opening")
_LEGEND: Final = """\
by turn; [95 % interval over resampled scopes]; bm25, dense, rrf: single turns, same scope and run; gold: the ceiling;
admitted something: share of questions for which a search admits anything; given: for which a chat was given anything;
injected: gold turns behind what chats were given; dated: of the placed gold, under its own day in the block; tokens:
where any gold was placed; added: the service's own ms; answers: with memory / without, against the known answer."""


def table(report: Mapping[str, Any]) -> str:
    """All sets as aligned text."""
    parts = []
    for name, result in report["sets"].items():
        head = f"== {name}: {result['scopes']} scopes, {result['turns']} turns, {result['answerable']} questions =="
        parts.append("\n".join([head, *_measure_rows(result), *_notes(name, result)]))
    return "\n\n".join([*parts, _LEGEND])


def failures(report: Mapping[str, Any]) -> list[str]:
    """What must not be: leaks, floors that are not reached, openings that are given too much."""
    found = []
    for name, result in report["sets"].items():
        floor, reached = floor_of(name, result), result["ours"]["recall@10"]["mean"]
        if leaks := leaks_of(result):
            found.append(f"{name}: {leaks} turns of another scope")
        if reached < floor:
            found.append(f"{name}: turn recall@10 {reached:.3f} is below {floor:.3f}")
        given = openings_given(result)
        if given is not None and given > OPENINGS_GIVEN_MAX:
            found.append(f"{name}: {given:.3f} of the openings are given something, over {OPENINGS_GIVEN_MAX:.2f}")
    return found


def _measure_rows(result: Mapping[str, Any]) -> list[str]:
    others = [name for name in BASELINES if name in result]
    rows = [f"{'':10s}{'ours':>8s}  {'95 % interval':16s}" + "".join(f"{name:>7s}" for name in others)]
    for name in _SHOWN:
        ours = result["ours"][name]
        interval = f"[{ours['low']:.3f}, {ours['high']:.3f}]"
        beside = "".join(f"{result[other][name]['mean']:7.3f}" for other in others)
        rows.append(f"{name:10s}{ours['mean']:8.3f}  {interval:16s}{beside}")
    return rows


def _notes(name: str, result: Mapping[str, Any]) -> list[str]:
    floor, reached = floor_of(name, result), result["ours"]["recall@10"]["mean"]
    more = result["more_than_bm25"]["recall@10"]
    notes = [
        f"recall@10 over bm25 {more['mean']:+.3f} [{more['low']:+.3f}, {more['high']:+.3f}]; "
        f"floor {floor:.3f} {'reached' if reached >= floor else 'MISSED'}",
        "by type   " + "  ".join(_kind(kind, e) for kind, e in result["by_kind"].items()),
    ]
    notes += [_temporal(group, entry) for group, entry in result["temporal"].items()]
    if result["updates"]:
        updates = result["updates"]
        notes.append(
            f"updates   new above old {updates['new_above_old']}/{updates['questions']} (bm25 {updates['bm25']})"
        )
    notes.append("admission " + _admission(result["admission"]))
    if result["openings"]:
        notes.append(_openings(result))
    if result["injected"]:
        notes += _injected(result["injected"])
    if result["answers"]:
        notes += _answers(result["answers"])
    if result["budgets"]:
        notes.append("budgets   " + "; ".join(_budget(name, entry) for name, entry in result["budgets"].items()))
    notes.append(
        f"leaks {leaks_of(result)}; import {result['import']['turns_per_s']:.1f} turns/s "
        f"({result['import']['seconds']:.0f} s); search p50 {result['search_ms']['p50']:.1f} ms, "
        f"p99 {result['search_ms']['p99']:.1f} ms; rungs {result['rungs']}"
    )
    return notes


def _kind(kind: str, entry: Mapping[str, Any]) -> str:
    injected = "" if entry["injected"] is None else f", injected {entry['injected']:.3f}"
    return f"{kind} {entry['recall@10']:.3f}/{entry['bm25']:.3f}{injected} ({entry['questions']})"


def _admission(admission: Mapping[str, Any]) -> str:
    said = [
        f"{group}: admitted something {admission[group]['given_something']:.3f}, "
        f"{admission[group]['admitted_mean']:.1f} of 20"
        for group in _GROUPS
        if group in admission
    ]
    hits = admission["hit@10"]
    said.append(f"hit@10 {hits['before']:.3f} ranked, {hits['after']:.3f} admitted")
    if admission["auc"] is not None:
        interval = admission["auc_interval"]
        said.append(f"AUC {admission['auc']:.3f} [{interval['low']:.3f}, {interval['high']:.3f}]")
    return "; ".join(said)


def _openings(result: Mapping[str, Any]) -> str:
    openings, given = result["openings"], openings_given(result) or 0.0
    injected = "" if openings["injected"] is None else f", given something {openings['injected']:.3f}"
    return (
        f"openings  {openings['questions']}: admitted something {openings['admitted']:.3f}{injected}; "
        f"limit {OPENINGS_GIVEN_MAX:.2f} {'kept' if given <= OPENINGS_GIVEN_MAX else 'MISSED'}"
    )


def _injected(entry: Mapping[str, Any]) -> list[str]:
    fraction, tokens, updates = entry["fraction"], entry["tokens"], entry["updates"]
    said = [
        f"fraction {fraction['mean']:.3f} [{fraction['low']:.3f}, {fraction['high']:.3f}]",
        f"any {entry['any']['mean']:.3f}",
        f"all {entry['all']['mean']:.3f}",
        *([_dated(entry["dated"])] if entry["dated"] else []),
        "given something " + ", ".join(f"{group} {share:.3f}" for group, share in entry["given_something"].items()),
    ]
    more = []
    if tokens:
        more.append(
            f"tokens median {tokens['median']:.0f}, p90 {tokens['p90']:.0f} (of {tokens['questions']} answered)"
        )
    more.append(f"added p50 {entry['added_ms']['p50']:.1f} ms, p99 {entry['added_ms']['p99']:.1f} ms")
    if updates:
        more.append(f"old without new {updates['old_without_new']}/{updates['questions']}")
    more.append(f"statuses {entry['statuses']}")
    return ["injected  " + "; ".join(said), "          " + "; ".join(more)]


def _interval(found: Mapping[str, float]) -> str:
    return f"{found['mean']:.3f} [{found['low']:.3f}, {found['high']:.3f}]"


def _dated(entry: Mapping[str, float]) -> str:
    return f"dated {_interval(entry)} (of {entry['questions']})"


def _temporal(group: str, entry: Mapping[str, Any]) -> str:
    said = [f"recall@10 {_interval(entry['recall@10'])} (bm25 {entry['bm25']:.3f})"]
    if entry["injected"]:
        said.append(f"injected {_interval(entry['injected'])}")
    if entry["dated"]:
        said.append(_dated(entry["dated"]))
    return f"temporal  {group} ({entry['questions']}): " + "; ".join(said)


def _answers(entry: Mapping[str, Any]) -> list[str]:
    """With memory / without, of all, of those whose evidence was placed, of the unanswerable."""
    rows = []
    for name, group in (("answerable", entry["answerable"]), ("evidence placed", entry["evidence_placed"])):
        if group:
            said = [_compared(shown, group[measure]) for shown, measure in (("exact", "exact"), ("F1", "f1"))]
            rows.append(f"{name} ({group['questions']}): {'; '.join(said)}; {_declined(group)}")
    if group := entry["unanswerable"]:
        rows.append(f"unanswerable ({group['questions']}): {_declined(group)}")
    return [f"answers   by {entry['model']}, with memory / without", *(f"          {row}" for row in rows)]


def _compared(name: str, sides: Mapping[str, Mapping[str, float]]) -> str:
    more = sides["more"]
    change = f"{more['mean']:+.3f} [{more['low']:+.3f}, {more['high']:+.3f}]"
    return f"{name} {_interval(sides['with'])} / {_interval(sides['without'])}, {change}"


def _declined(group: Mapping[str, Any]) -> str:
    share = group["declined"]
    return f"says unknown {share['with']:.3f} / {share['without']:.3f}, given something {group['given_something']:.3f}"


def _budget(name: str, entry: Mapping[str, Any]) -> str:
    return f"{name} tokens: fraction {entry['fraction']['mean']:.3f}, {entry['tokens_mean']:.0f} used"
