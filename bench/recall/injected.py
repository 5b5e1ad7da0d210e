"""What was really injected, judged by evidence: questions with what their chats were given in, figures out. Pure.

`fraction` is the share of a question's gold turns behind the memories that were placed, `any` and `all` whether one or
all of them are; a mean over answerable questions. Tokens count where any gold was placed, so that giving nothing does
not look cheap. An update went wrong where an outdated turn was placed and none of those that hold now. `dated` is the
share of the gold turns that were placed whose own day stands before their words in the block.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bench.recall.chat import Given
from bench.recall.corpus import Question, group_of
from bench.recall.dates import dated_share
from bench.recall.score import Figure, Ranked, bootstrapped, figure, share_of_gold
from bench.stats import median, quantile


@dataclass(frozen=True, slots=True)
class Injection:
    """A question with what its chat was given."""

    question: Question
    given: Given


def injected_figures(
    injections: Sequence[Injection], own: Mapping[str, frozenset[str]], dates: Mapping[str, str]
) -> dict[str, Any]:
    """All figures of one pass over a set, ready for JSON. `own`: the turns of each scope; `dates`: the day of each."""
    return {
        **gold_figures(injections),
        "dated": dated_gold(injections, dates),
        "given_something": given_something(injections),
        "tokens": tokens_of_answered(injections),
        "added_ms": added_ms(injections),
        "updates": updates_gone_wrong(injections),
        "leaks": leaked(injections, own),
        "statuses": dict(sorted(Counter(one.given.status for one in injections).items())),
    }


def gold_figures(injections: Sequence[Injection]) -> dict[str, Any]:
    """`gold_injected` by name, ready for JSON."""
    figures = zip(("fraction", "any", "all"), gold_injected(injections), strict=True)
    return {name: found.rounded() for name, found in figures}


def gold_injected(injections: Sequence[Injection]) -> tuple[Figure, Figure, Figure]:
    """Of the answerable questions: the mean share of gold that was injected, any of it, all of it."""
    rankings = rankings_of(injections)
    return (
        figure(rankings, share_of_gold),
        figure(rankings, lambda ranked: float(share_of_gold(ranked) > 0)),
        figure(rankings, lambda ranked: float(share_of_gold(ranked) == 1)),
    )


def rankings_of(injections: Sequence[Injection]) -> list[Ranked]:
    """The turns behind what was injected, of the answerable questions."""
    return [Ranked(one.question, one.given.source_ids) for one in injections if one.question.answerable]


def given_something(injections: Sequence[Injection]) -> dict[str, float]:
    """The share of questions for which anything was placed, by group."""
    groups: dict[str, list[bool]] = defaultdict(list)
    for one in injections:
        groups[group_of(one.question)].append(one.given.placed > 0)
    return {group: round(sum(placed) / len(placed), 4) for group, placed in sorted(groups.items())}


def dated_gold(injections: Sequence[Injection], dates: Mapping[str, str]) -> dict[str, float] | None:
    """Of the answerable questions with any dated gold placed: the mean share of it that stands under its own day.

    None where there is no such question, or the text of no block is to be had.
    """
    found = []
    for one in injections:
        if one.question.answerable and one.given.shown is not None:
            share = dated_share(one.question, frozenset(one.given.source_ids), one.given.shown, dates)
            if share is not None:
                found.append((one.question.scope, share))
    return {"questions": len(found), **bootstrapped(found).rounded()} if found else None


def tokens_of_answered(injections: Sequence[Injection]) -> dict[str, float] | None:
    """Memory tokens of the answerable questions with any gold injected; None where there is no such question."""
    tokens = [
        one.given.tokens
        for one in injections
        if one.question.answerable and not one.question.gold.isdisjoint(one.given.source_ids)
    ]
    if not tokens:
        return None
    return {"questions": len(tokens), "median": median(tokens), "p90": round(quantile(tokens, 0.9), 1)}


def added_ms(injections: Sequence[Injection]) -> dict[str, float]:
    """Milliseconds that the service says it added, all questions."""
    millis = [one.given.millis for one in injections]
    return {"p50": round(median(millis), 2), "p99": round(quantile(millis, 0.99), 2)}


def updates_gone_wrong(injections: Sequence[Injection]) -> dict[str, int] | None:
    """Of the questions with an outdated turn: how often one was injected and no gold; None where there are none."""
    asked = [one for one in injections if one.question.stale]
    wrong = sum(
        not one.question.stale.isdisjoint(one.given.source_ids) and one.question.gold.isdisjoint(one.given.source_ids)
        for one in asked
    )
    return {"old_without_new": wrong, "questions": len(asked)} if asked else None


def leaked(injections: Sequence[Injection], own: Mapping[str, frozenset[str]]) -> int:
    """Injected turns that are not of the asking scope. Anything but 0 is a defect of the highest severity."""
    return sum(turn_id not in own[one.question.scope] for one in injections for turn_id in one.given.source_ids)
