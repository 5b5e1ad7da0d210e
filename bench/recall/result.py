"""The figures of one set: an EvalSet and what was measured in, a mapping ready for JSON out. Pure.

Openings (see `corpus.group_of`) are a group of their own: they count neither as unanswerable nor in the AUC, which
tells what can be answered from what was asked beside it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from bench.recall.answers import answer_figures
from bench.recall.chat import Given
from bench.recall.corpus import OPENING, EvalSet, group_of
from bench.recall.dates import asks_when, has_relative_date
from bench.recall.injected import Injection, dated_gold, gold_figures, injected_figures, leaked, rankings_of
from bench.recall.run import Asked, Measured, Rankings
from bench.recall.score import (
    Ranked,
    auc_figure,
    by_kind,
    difference,
    figure,
    measures,
    recall_at,
    share_of_gold,
    updated_above,
)
from bench.stats import Summary

# What must hold on the shared sets: turn recall@10. None: not below BM25 of the same run.
FLOORS: Final[dict[str, float | None]] = {"locomo": 0.72, "beam": 0.54, "memsim": None, "mixed": None}
OPENINGS_GIVEN_MAX: Final = 0.05
"""Share of openings that may be given anything."""
BASELINES: Final = ("bm25", "dense", "rrf", "gold")
"""All lines beside ours, in the order shown; `gold` is the ceiling: every gold turn first."""


def set_result(chosen: EvalSet, measured: Measured) -> dict[str, Any]:
    """All figures of one set."""
    asked = measured.asked
    answerable = [at for at, one in enumerate(asked) if one.question.answerable]
    ours = [Ranked(asked[at].question, asked[at].found.ids) for at in answerable]
    others = {name: _ranked(asked, rankings) for name, rankings in measured.baselines.items()}
    others["gold"] = [Ranked(one.question, tuple(sorted(one.question.gold))) for one in ours]
    injections = _injections(asked, measured.given)
    millis = Summary.of([a.found.millis for a in asked])
    rungs = sorted({a.found.rung for a in asked})
    return {
        "scopes": len(chosen.lines),
        "turns": chosen.turn_count,
        "answerable": len(answerable),
        "unanswerable": sum(group_of(a.question) == "unanswerable" for a in asked),
        "ours": _figures(ours),
        **{name: _figures(rankings) for name, rankings in others.items()},
        "more_than_bm25": {"recall@10": difference(ours, others["bm25"], _recall_at_10).rounded()},
        "by_kind": _by_kind(ours, others["bm25"], rankings_of(injections)),
        "temporal": temporal_figures(ours, others["bm25"], injections, chosen.dates),
        "updates": _updates(ours, others["bm25"]),
        "admission": admission_figures(asked),
        "openings": openings_figures(asked, measured.given),
        "injected": injected_figures(injections, chosen.own, chosen.dates) if injections else None,
        "budgets": {
            str(budget): _at_budget(_injections(asked, given), chosen.own)
            for budget, given in sorted(measured.budgets.items())
        },
        "answers": answer_figures(measured.probe) if measured.probe else None,
        "leaks": leak_count(chosen, asked),
        "import": {
            "seconds": round(measured.import_s, 1),
            "turns_per_s": round(chosen.turn_count / measured.import_s, 1),
        },
        "search_ms": {name: round(value, 2) for name, value in millis.as_json().items()},
        "rungs": {rung: sum(a.found.rung == rung for a in asked) for rung in rungs},
    }


def leak_count(chosen: EvalSet, asked: Sequence[Asked]) -> int:
    """Turns among the answers that are not of the asking scope. Anything but 0 is a defect of the highest severity."""
    own = chosen.own
    return sum(turn_id not in own[a.question.scope] for a in asked for turn_id in a.found.ids)


def leaks_of(result: Mapping[str, Any]) -> int:
    """All leaks of one set: among what was searched and what was injected, at every budget."""
    passes = [result.get("injected"), *(result.get("budgets") or {}).values()]
    return int(result["leaks"]) + sum(int(one["leaks"]) for one in passes if one)


def floor_of(name: str, result: Mapping[str, Any]) -> float:
    """The least turn recall@10 that a set may have."""
    fixed = FLOORS[name]
    return float(result["bm25"]["recall@10"]["mean"]) if fixed is None else fixed


def admission_figures(asked: Sequence[Asked]) -> dict[str, Any]:
    """How often anything is let in, by whether there is anything to let in; AUC of the surest candidate's chance.

    `hit@10` of the answerable: any gold among the first ten turns, and any admitted gold among them.
    """
    groups: dict[str, list[Asked]] = {}
    for one in asked:
        groups.setdefault(group_of(one.question), []).append(one)
    said: dict[str, Any] = {}
    for name, members in groups.items():
        said[name] = {
            "given_something": round(sum(a.found.admitted > 0 for a in members) / len(members), 4),
            "admitted_mean": round(sum(a.found.admitted for a in members) / len(members), 2),
        }
    if "answerable" in groups:
        said["hit@10"] = hits_at_10(groups["answerable"])
    positive, negative = (
        [(a.question.scope, a.found.chance) for a in groups.get(name, ())] for name in ("answerable", "unanswerable")
    )
    area = auc_figure(positive, negative)
    interval = None if area is None else {"low": round(area.low, 4), "high": round(area.high, 4)}
    return {**said, "auc": None if area is None else round(area.mean, 4), "auc_interval": interval}


def hits_at_10(answerable: Sequence[Asked]) -> dict[str, float]:
    """Share of questions with gold among the first ten turns: ranked, and ranked and admitted."""
    ranked = [a.question.gold.intersection(a.found.ids[:10]) for a in answerable]
    let_in = [gold.intersection(a.found.admitted_ids) for gold, a in zip(ranked, answerable, strict=True)]
    before, after = (sum(map(bool, hits)) / len(answerable) for hits in (ranked, let_in))
    return {"before": round(before, 4), "after": round(after, 4)}


def openings_figures(asked: Sequence[Asked], given: Sequence[Given]) -> dict[str, Any] | None:
    """How often an opening is given anything: admitted by a search, injected in a chat. None without openings."""
    openings = [a for a in asked if group_of(a.question) == OPENING]
    if not openings:
        return None
    chats = [one.given for one in _injections(asked, given) if group_of(one.question) == OPENING]
    return {
        "questions": len(openings),
        "admitted": round(sum(a.found.admitted > 0 for a in openings) / len(openings), 4),
        "injected": round(sum(one.placed > 0 for one in chats) / len(chats), 4) if chats else None,
    }


def openings_given(result: Mapping[str, Any]) -> float | None:
    """The share that the limit is about: injected where chats were asked, else admitted. None without openings."""
    openings = result.get("openings")
    if not openings:
        return None
    return float(openings["admitted"] if openings["injected"] is None else openings["injected"])


def temporal_figures(
    ours: Sequence[Ranked], bm25: Sequence[Ranked], injections: Sequence[Injection], dates: Mapping[str, str]
) -> dict[str, Any]:
    """The answerable questions of time: by the set's own type, and by a relative date in their text; one may be both.

    A group without questions is left out.
    """
    found: dict[str, Any] = {}
    for name, belongs in {"type temporal": asks_when, "relative date": has_relative_date}.items():
        mine, theirs = ([r for r in rankings if belongs(r.question)] for rankings in (ours, bm25))
        if not mine:
            continue
        given = [one for one in injections if belongs(one.question)]
        found[name] = {
            "questions": len(mine),
            "recall@10": figure(mine, _recall_at_10).rounded(),
            "bm25": figure(theirs, _recall_at_10).rounded()["mean"],
            "injected": figure(rankings_of(given), share_of_gold).rounded() if given else None,
            "dated": dated_gold(given, dates),
        }
    return found


def _ranked(asked: Sequence[Asked], rankings: Rankings) -> list[Ranked]:
    pairs = zip(asked, rankings, strict=True)
    return [Ranked(one.question, ranking) for one, ranking in pairs if one.question.answerable]


def _injections(asked: Sequence[Asked], given: Sequence[Given]) -> list[Injection]:
    return [Injection(a.question, one) for a, one in zip(asked, given, strict=True)] if given else []


def _at_budget(injections: Sequence[Injection], own: Mapping[str, frozenset[str]]) -> dict[str, Any]:
    """Budget recall: how much of the gold fits."""
    return {
        **gold_figures(injections),
        "tokens_mean": round(sum(one.given.tokens for one in injections) / len(injections), 1),
        "leaks": leaked(injections, own),
    }


def _recall_at_10(ranked: Ranked) -> float:
    return recall_at(ranked, 10)


def _figures(rankings: Sequence[Ranked]) -> dict[str, Any]:
    return {name: figure(rankings, measure).rounded() for name, measure in measures().items()}


def _by_kind(ours: Sequence[Ranked], bm25: Sequence[Ranked], injected: Sequence[Ranked]) -> dict[str, Any]:
    mine, theirs = (by_kind(rankings, _recall_at_10) for rankings in (ours, bm25))
    placed = by_kind(injected, share_of_gold)
    return {
        kind: {
            "questions": count,
            "recall@10": round(mean, 4),
            "bm25": round(theirs[kind][0], 4),
            "injected": round(placed[kind][0], 4) if kind in placed else None,
        }
        for kind, (mean, count) in mine.items()
    }


def _updates(ours: Sequence[Ranked], bm25: Sequence[Ranked]) -> dict[str, int] | None:
    above, count = updated_above(ours)
    return {"new_above_old": above, "bm25": updated_above(bm25)[0], "questions": count} if count else None
