"""Answers with memory and without: a seeded sample of questions in; what was answered, scored, out. Pure.

Each question is asked twice with the same settings: once where memory is read, once without. Answerable ones are taken
where the known answer is of a few words (`answer_score.is_short`), since only those can be compared word by word; their
figures are means with intervals over resampled scopes, and the difference is taken question by question. Of
the unanswerable only a hint can be told: how often the answer says that it is not known.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from bench.recall.answer_score import declined, exact, is_short, token_f1
from bench.recall.chat import Said
from bench.recall.corpus import EvalSet, Question, group_of
from bench.recall.score import Figure, bootstrapped

UNANSWERABLE_SHARE: Final = 0.25
"""So many unanswerable questions for each answerable one, where a set has them; one at least."""
_SEED: Final = 20_260_101
_MEASURES: Final[Mapping[str, Callable[[str, str], float]]] = {"exact": exact, "f1": token_f1}


@dataclass(frozen=True, slots=True)
class Answered:
    """A question with what was answered, with memory and without."""

    question: Question
    remembering: Said
    bare: Said


@dataclass(frozen=True, slots=True)
class Probe:
    """All answers of one set, and the model that gave them."""

    model: str
    answered: tuple[Answered, ...]


def sampled(chosen: EvalSet, count: int) -> list[Question]:
    """`count` answerable questions with a short answer, then some unanswerable; always the same of a set."""
    short = [q for q in chosen.questions if q.answerable and is_short(q.answer)]
    absent = [q for q in chosen.questions if group_of(q) == "unanswerable"]
    draw = random.Random(_SEED)
    beside = max(1, round(count * UNANSWERABLE_SHARE))
    return draw.sample(short, min(count, len(short))) + draw.sample(absent, min(beside, len(absent)))


def answer_figures(probe: Probe) -> dict[str, Any]:
    """All figures of one set, ready for JSON, and the answers themselves to read."""
    answerable = [one for one in probe.answered if one.question.answerable]
    absent = [one for one in probe.answered if not one.question.answerable]
    reached = [one for one in answerable if _gold_placed(one)]
    return {
        "model": probe.model,
        "answerable": _group(answerable),
        "evidence_placed": _group(reached),
        "unanswerable": _declined(absent),
        "said": [_as_said(one) for one in probe.answered],
    }


def _group(answered: Sequence[Answered]) -> dict[str, Any] | None:
    """Scores of both sides and their difference, beside what `_declined` tells; None of no questions."""
    declining = _declined(answered)
    if declining is None:
        return None
    figures = {name: _compared(answered, measure) for name, measure in _MEASURES.items()}
    by_name = {name: {side: found.rounded() for side, found in sides.items()} for name, sides in figures.items()}
    return {**declining, **by_name}


def _compared(answered: Sequence[Answered], measure: Callable[[str, str], float]) -> dict[str, Figure]:
    scopes = [one.question.scope for one in answered]
    remembering = [measure(one.remembering.text, one.question.answer) for one in answered]
    bare = [measure(one.bare.text, one.question.answer) for one in answered]
    more = [mine - other for mine, other in zip(remembering, bare, strict=True)]
    sides = {"with": remembering, "without": bare, "more": more}
    return {side: bootstrapped(list(zip(scopes, values, strict=True))) for side, values in sides.items()}


def _declined(answered: Sequence[Answered]) -> dict[str, Any] | None:
    """How often an answer says that it is not known, and how often anything was placed."""
    if not answered:
        return None
    count = len(answered)
    return {
        "questions": count,
        "given_something": round(sum(one.remembering.given.placed > 0 for one in answered) / count, 4),
        "declined": {
            "with": round(sum(declined(one.remembering.text) for one in answered) / count, 4),
            "without": round(sum(declined(one.bare.text) for one in answered) / count, 4),
        },
    }


def _gold_placed(one: Answered) -> bool:
    return not one.question.gold.isdisjoint(one.remembering.given.source_ids)


def _as_said(one: Answered) -> dict[str, Any]:
    return {
        "question_id": one.question.question_id,
        "answerable": one.question.answerable,
        "evidence_placed": _gold_placed(one),
        "known": one.question.answer,
        "with": one.remembering.text,
        "without": one.bare.text,
    }
