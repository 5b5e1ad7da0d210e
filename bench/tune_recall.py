"""How good recall is, and where its numbers come from: conversation sets -> tables on stdout.

    python -m bench.tune_recall --data DIR            recall@1/5/10/20, nDCG@10, by type, updates, admission
    python -m bench.tune_recall --data DIR --ablate   recall@10 and nDCG@10 with one choice undone at a time
    python -m bench.tune_recall --data DIR --fit      the admission coefficients, to be copied to policies/admission.py

Everything is asked of the product's own ScopeIndex. No file of the project is written; refuses nothing.
"""

from __future__ import annotations

import argparse
import math
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import astuple, dataclass, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.recall_sets import SETS, Question, RecallSet, Variant, Vectors, read_set, read_strangers
from memory.adapters.embedder import OnnxEmbedder
from memory.adapters.model_files import prepare_model
from memory.adapters.model_registry import DEFAULT_MODEL, read_registry
from memory.read import index as index_module
from memory.read import lexical as lexical_module
from memory.read.index import Filter, Scored
from policies import admission, ranking

DATA = Path(__file__).resolve().parents[2] / "shared" / "evaldata"
DEPTHS = (1, 5, 10, 20)
NOW = datetime(2026, 1, 1, tzinfo=UTC)
# Share of answerable questions, among those with gold in the first ten, that must keep some of it.
KEPT_MIN = 0.97


@dataclass(frozen=True, slots=True)
class Answer:
    """A question with what recall gave for it."""

    question: Question
    found: tuple[Scored, ...]

    @property
    def ids(self) -> list[str]:
        """Turn ids, best first. A turn folded into one with the same words is not in it, and counts as missed."""
        return [hit.item.source_ids[0] for hit in self.found]


def ask(chosen: RecallSet, *, lexical_only: bool = False, k: int = DEPTHS[-1]) -> list[Answer]:
    """Every question of a set, asked of its own scope."""
    answers = []
    for question, vector in zip(chosen.questions, chosen.vectors, strict=True):
        index = chosen.indexes[question.scope]
        found = index.search(question.text, None if lexical_only else vector, k, now=NOW, where=Filter())
        answers.append(Answer(question, tuple(found)))
    return answers


# ---------------------------------------------------------------- quality of the ranking


def recall_at(answers: Iterable[Answer], depth: int) -> float:
    """Mean share of a question's gold turns among the first `depth`, over answerable questions."""
    asked = [a for a in answers if a.question.answerable]
    shares = [len(a.question.gold.intersection(a.ids[:depth])) / len(a.question.gold) for a in asked]
    return float(np.mean(shares)) if shares else math.nan


def ndcg_at(answers: Iterable[Answer], depth: int) -> float:
    """Mean normalised discounted gain, every gold turn worth 1."""
    gains = []
    for answer in answers:
        if answer.question.answerable:
            hits = (1 / math.log2(r + 2) for r, i in enumerate(answer.ids[:depth]) if i in answer.question.gold)
            best = sum(1 / math.log2(rank + 2) for rank in range(min(depth, len(answer.question.gold))))
            gains.append(sum(hits) / best)
    return float(np.mean(gains)) if gains else math.nan


def updated_above_stale(answers: Iterable[Answer]) -> tuple[int, int]:
    """Of the questions with an outdated turn: how often the best new one ranks above the best outdated one."""
    asked = [a for a in answers if a.question.stale]
    right = sum(_rank(a.ids, a.question.gold) < _rank(a.ids, a.question.stale) for a in asked)
    return right, len(asked)


def _rank(ids: Sequence[str], wanted: frozenset[str]) -> float:
    return min((rank for rank, turn_id in enumerate(ids) if turn_id in wanted), default=math.inf)


def row(answers: list[Answer]) -> str:
    """One line of the table."""
    recalls = "  ".join(f"{recall_at(answers, depth):.3f}" for depth in DEPTHS)
    right, asked = updated_above_stale(answers)
    return f"{recalls}   {ndcg_at(answers, 10):.3f}" + (f"   {right}/{asked}" if asked else "")


def by_type(answers: list[Answer]) -> str:
    """Recall@10 of each type of question."""
    groups: dict[str, list[Answer]] = defaultdict(list)
    for answer in answers:
        if answer.question.answerable:
            groups[answer.question.kind].append(answer)
    return "  ".join(f"{kind} {recall_at(group, 10):.3f}" for kind, group in sorted(groups.items()))


# ---------------------------------------------------------------- admission


@dataclass(frozen=True, slots=True)
class Judged:
    """Candidates of one question, the first ten: their features, and which are gold."""

    features: tuple[admission.Features, ...]
    gold: tuple[bool, ...]


def judged(answers: Iterable[Answer]) -> list[Judged]:
    """Each question's first ten candidates as admission sees them."""
    return [
        Judged(
            tuple(hit.features for hit in a.found[:10]),
            tuple(hit.item.source_ids[0] in a.question.gold for hit in a.found[:10]),
        )
        for a in answers
    ]


def strangers(
    chosen: RecallSet, texts: Sequence[str], vectors: NDArray[np.float32], lexical_only: bool
) -> list[Judged]:
    """Questions from elsewhere, each asked of one scope of this set in turn."""
    scopes = sorted(chosen.indexes)
    found = []
    for number, (text, vector) in enumerate(zip(texts, vectors, strict=True)):
        index = chosen.indexes[scopes[number % len(scopes)]]
        hits = index.search(text, None if lexical_only else vector, 10, now=NOW, where=Filter())
        found.append(Judged(tuple(hit.features for hit in hits), (False,) * len(hits)))
    return found


def matrix(features: Iterable[admission.Features]) -> NDArray[np.float64]:
    """Rows of features with a leading 1; an absent one is 0."""
    return np.array([[1.0, *(value or 0.0 for value in astuple(row))] for row in features])


def fit(
    rows: NDArray[np.float64], labels: NDArray[np.float64], weights: NDArray[np.float64], ridge: float = 1.0
) -> NDArray[np.float64]:
    """Logistic regression by Newton's method, 25 steps, with a ridge on the slopes."""
    beta = np.zeros(rows.shape[1])
    penalty = np.diag([0.0] + [ridge] * (rows.shape[1] - 1))
    for _ in range(25):
        chance = 1 / (1 + np.exp(-np.clip(rows @ beta, -30, 30)))
        gradient = rows.T @ (weights * (labels - chance)) - penalty @ beta
        curvature = (rows * (weights * chance * (1 - chance))[:, None]).T @ rows + penalty + 1e-9 * np.eye(len(beta))
        beta = beta + np.linalg.solve(curvature, gradient)
    return beta


def fit_rung(sets: Sequence[RecallSet], texts: Sequence[str], vectors: NDArray[np.float32], lexical_only: bool) -> None:
    """Print the coefficients of one rung: gold turns against the first ten of ShareGPT's openings, each set and
    class weighing the same, and the threshold that keeps `KEPT_MIN` of the answerable questions of the worst set."""
    rows, labels, weights, answered = [], [], [], []
    for chosen in sets:
        answers = [a for a in ask(chosen, lexical_only=lexical_only, k=10) if a.question.answerable]
        positive = [f for j in judged(answers) for f, gold in zip(j.features, j.gold, strict=True) if gold]
        negative = [f for j in strangers(chosen, texts, vectors, lexical_only) for f in j.features]
        answered.append(judged(answers))
        for group, label in ((positive, 1.0), (negative, 0.0)):
            rows.append(matrix(group))
            labels.append(np.full(len(group), label))
            weights.append(np.full(len(group), 1000.0 / len(group)))
    beta = fit(np.concatenate(rows), np.concatenate(labels), np.concatenate(weights))
    threshold = min(_threshold(group, beta) for group in answered)
    names = [field.name for field in fields(admission.Coefficients)]
    print(f"{'LEXICAL_ONLY' if lexical_only else 'FULL'}: threshold={threshold:.3f}")
    print("  " + ", ".join(f"{name}={value:.3f}" for name, value in zip(names, beta, strict=True)))


def _threshold(group: Sequence[Judged], beta: NDArray[np.float64]) -> float:
    best = []
    for one in group:
        gold = [f for f, is_gold in zip(one.features, one.gold, strict=True) if is_gold]
        if gold:
            best.append(float((1 / (1 + np.exp(-(matrix(gold) @ beta)))).max()))
    return float(np.quantile(best, 1 - KEPT_MIN))


def chances(group: Sequence[Judged]) -> list[float]:
    """The best candidate's probability for each question, 0 for none."""
    return [max((admission.admit(f)[1] for f in one.features), default=0.0) for one in group]


def auc(positive: Sequence[float], negative: Sequence[float]) -> float:
    """Chance that a positive scores above a negative."""
    low, high = np.array(negative), np.array(positive)
    if not len(low) or not len(high):
        return math.nan
    return float((high[:, None] > low).mean() + (high[:, None] == low).mean() / 2)


def admission_row(answers: list[Answer], foreign: list[Judged]) -> str:
    """What admission keeps and lets in."""
    answerable = judged(a for a in answers if a.question.answerable)
    hard = judged(a for a in answers if not a.question.answerable)
    reached = [one for one in answerable if any(one.gold)]
    kept = [any(g and admission.admit(f)[0] for f, g in zip(one.features, one.gold, strict=True)) for one in reached]
    golden = [f for one in reached for f, g in zip(one.features, one.gold, strict=True) if g]
    admitted = [sum(admission.admit(f)[0] for f in one.features) for one in foreign]
    own = [sum(admission.admit(f)[0] for f in one.features) for one in answerable]
    near = [sum(admission.admit(f)[0] for f in one.features) for one in hard]
    return (
        f"kept {np.mean(kept):.3f} (gold turns {np.mean([admission.admit(f)[0] for f in golden]):.3f})"
        f"  strangers given something {np.mean(np.array(admitted) > 0):.3f} ({np.mean(admitted):.1f} of 10)"
        f"  AUC strangers {auc(chances(answerable), chances(foreign)):.3f}"
        f"  admitted of ten: answerable {np.mean(own):.1f}"
        + (f", unanswerable {np.mean(near):.1f}  AUC {auc(chances(answerable), chances(hard)):.3f}" if hard else "")
    )


# ---------------------------------------------------------------- ablations


@contextmanager
def altered(module: Any, **values: object) -> Iterator[None]:
    """Constants of a module, changed for a while. An experiment needs what the product must not have."""
    before = {name: getattr(module, name) for name in values}
    for name, value in values.items():
        setattr(module, name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(module, name, value)


def ablations() -> Mapping[str, tuple[Any, dict[str, object], Variant]]:
    """Label -> module, constants to change, layout to change."""
    base = Variant()
    return {
        "as it is": (ranking, {}, base),
        "lexical weight .4": (ranking, {"FULL": ranking.Weights(0.6, 0.4, 0.4)}, base),
        "lexical weight .6": (ranking, {"FULL": ranking.Weights(0.4, 0.6, 0.4)}, base),
        "lexical only, demoted": (ranking, {"FULL": ranking.LEXICAL_ONLY}, base),
        "dense only, demoted": (ranking, {"FULL": ranking.Weights(1.0, 0.0, 0.4)}, base),
        "demotion 0": (ranking, {"FULL": replace(ranking.FULL, demotion=0.0)}, base),
        "demotion .2": (ranking, {"FULL": replace(ranking.FULL, demotion=0.2)}, base),
        "demotion .3": (ranking, {"FULL": replace(ranking.FULL, demotion=0.3)}, base),
        "demotion whatever the length": (ranking, {"LONG_REPLY_TERMS": 1}, base),
        "second speaker is assistant": (ranking, {}, Variant(second_speaker="assistant")),
        "same, demoted whatever the length": (ranking, {"LONG_REPLY_TERMS": 1}, Variant(second_speaker="assistant")),
        "no context": (ranking, {"QUESTION_CONTEXT": 0.0, "OTHER_CONTEXT": 0.0}, base),
        "one turn of context": (ranking, {}, Variant(context_turns=1)),
        "three turns of context": (ranking, {}, Variant(context_turns=3)),
        "context 1.0 without question": (ranking, {"OTHER_CONTEXT": 1.0}, base),
        "context 0 without question": (ranking, {"OTHER_CONTEXT": 0.0}, base),
        "short turn 10 terms": (ranking, {"SHORT_TURN_TERMS": 10}, base),
        "short turn 40 terms": (ranking, {"SHORT_TURN_TERMS": 40}, base),
        "context not thinned": (ranking, {"CONTEXT_TERMS": 10**9}, base),
        "no date among the words": (index_module, {"date_words": lambda _: ""}, base),
        "no stemming": (lexical_module, {"stem": lambda word: word}, base),
        "stopwords kept": (lexical_module, {"_STOPWORDS": frozenset()}, base),
        "k1 .9": (lexical_module, {"K1": 0.9}, base),
        "k1 1.6": (lexical_module, {"K1": 1.6}, base),
        "b .5": (lexical_module, {"B": 0.5}, base),
        "b .9": (lexical_module, {"B": 0.9}, base),
    }


def ablate(data: Path, vectors: Vectors, show: Callable[[str], None]) -> None:
    """Recall@10 and nDCG@10 of each set with one choice undone."""
    show(f"{'turn recall@10 / nDCG@10':36s}" + "".join(f"{name:16s}" for name in SETS))
    for label, (module, values, variant) in ablations().items():
        with altered(module, **values):
            answers = [ask(read_set(data, name, vectors, variant), k=10) for name in SETS]
        show(f"{label:36s}" + "".join(f"{recall_at(a, 10):.3f} / {ndcg_at(a, 10):.3f}   " for a in answers))


def report(sets: Sequence[RecallSet], texts: Sequence[str], vectors: NDArray[np.float32]) -> None:
    """The table of both rungs."""
    for lexical_only in (False, True):
        rung = "lexical only" if lexical_only else "full"
        print(f"\n{rung}: recall@{'/'.join(map(str, DEPTHS))}, nDCG@10, new above old")
        for chosen in sets:
            answers = ask(chosen, lexical_only=lexical_only)
            print(f"{chosen.name:12s}{row(answers)}\n    {by_type(answers)}")
            print(f"    {admission_row(answers, strangers(chosen, texts, vectors, lexical_only))}", flush=True)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir()) / "memory-proxy-recall")
    parser.add_argument("--ablate", action="store_true")
    parser.add_argument("--fit", action="store_true")
    options = parser.parse_args()
    embedder = OnnxEmbedder(prepare_model(read_registry()[DEFAULT_MODEL], options.cache, print))
    vectors = Vectors(embedder, options.cache / "vectors")
    try:
        if options.ablate:
            ablate(options.data, vectors, lambda line: print(line, flush=True))
            return
        sets = [read_set(options.data, name, vectors) for name in SETS]
        texts, stranger_vectors = read_strangers(options.data, vectors)
        if options.fit:
            for lexical_only in (False, True):
                fit_rung(sets, texts, stranger_vectors, lexical_only)
        else:
            report(sets, texts, stranger_vectors)
    finally:
        embedder.close()


if __name__ == "__main__":
    main()
