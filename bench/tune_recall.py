"""How good recall is, and where its numbers come from: conversation sets -> tables on stdout.

    python -m bench.tune_recall --data DIR            recall@1/5/10/20, nDCG@10, by type, updates, admission
    python -m bench.tune_recall --data DIR --ablate   recall@10 and nDCG@10 with one choice undone at a time
    python -m bench.tune_recall --data DIR --block    what the block costs, and how much of the answers stands in it
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
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.recall_sets import (
    MIXED,
    SETS,
    Foreign,
    Question,
    RecallSet,
    Variant,
    Vectors,
    read_mixed,
    read_openings,
    read_set,
)
from memory.adapters.embedder import OnnxEmbedder
from memory.adapters.model_files import prepare_model
from memory.adapters.model_registry import DEFAULT_MODEL, read_registry
from memory.adapters.tokenizer import EstimatedTokens
from memory.assemble import build_block
from memory.config_sections import Recall as RecallSettings
from memory.read import index as index_module
from memory.read import lexical as lexical_module
from memory.read.candidates import candidate_of
from memory.read.extract import SentenceCompressor
from memory.read.index import Scored
from memory.read.items import Filter
from memory.read.route import ByLength
from policies import admission, newest, ranking

DATA = Path(__file__).resolve().parents[2] / "shared" / "evaldata"
DEPTHS = (1, 5, 10, 20)
NOW = datetime(2026, 1, 1, tzinfo=UTC)
# Share of answerable questions with gold in the first ten that may be lost at the gate, and at the threshold, on the
# worst of the sets. Fitted on half of the scopes, the other half of BEAM-100K keeps .981 / .965 of its questions
# (.96 with .02 / .01, .945 with .025 / .02).
LOST_AT_GATE = 0.01
LOST_AT_THRESHOLD = 0.01
# The features each rung uses. The count of terms adds nothing beside the vectors; alone with the coverage it does.
FULL_FEATURES = ("intercept", "dense", "dense_margin", "breadth", "machine", "personal")
LEXICAL_FEATURES = ("intercept", "coverage", "terms_held")


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


def strangers(chosen: RecallSet, foreign: Foreign, *, lexical_only: bool) -> list[Judged]:
    """Questions from elsewhere, each asked of one scope of this set in turn."""
    scopes = sorted(chosen.indexes)
    found = []
    for number, (text, vector) in enumerate(zip(foreign.texts, foreign.vectors, strict=True)):
        index = chosen.indexes[scopes[number % len(scopes)]]
        hits = index.search(text, None if lexical_only else vector, 10, now=NOW, where=Filter())
        found.append(Judged(tuple(hit.features for hit in hits), (False,) * len(hits)))
    return found


def crossed(chosen: RecallSet, sets: Sequence[RecallSet]) -> Foreign:
    """The English questions of the other sets: short, and about somebody else's life."""
    own = {chosen.name, *(MIXED if chosen.name == "mixed" else ["mixed"]), "memsim_zh"}
    others = [other for other in sets if other.name not in own]
    if not others:
        return Foreign((), np.zeros((0, chosen.vectors.shape[1]), np.float32))
    texts = tuple(question.text for other in others for question in other.questions)
    return Foreign(texts, np.concatenate([other.vectors for other in others]))


def matrix(features: Iterable[admission.Features], used: Sequence[str]) -> NDArray[np.float64]:
    """Rows of the features in use, with a leading 1 for the intercept."""
    return np.array([[1.0, *(float(getattr(row, name)) for name in used[1:])] for row in features])


def fit(rows: NDArray[np.float64], labels: NDArray[np.float64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Logistic regression by Newton's method, 25 steps, with a ridge of 1 on the slopes."""
    beta = np.zeros(rows.shape[1])
    penalty = np.diag([0.0] + [1.0] * (rows.shape[1] - 1))
    for _ in range(25):
        chance = 1 / (1 + np.exp(-np.clip(rows @ beta, -30, 30)))
        gradient = rows.T @ (weights * (labels - chance)) - penalty @ beta
        curvature = (rows * (weights * chance * (1 - chance))[:, None]).T @ rows + penalty + 1e-9 * np.eye(len(beta))
        beta = beta + np.linalg.solve(curvature, gradient)
    return beta


def fit_rung(sets: Sequence[RecallSet], openings: Foreign, *, lexical_only: bool) -> admission.Model:
    """One rung's model: gold turns against the first ten of ShareGPT's openings and of the other sets' questions.

    Each set weighs the same, and in it gold as much as both kinds of strangers together.
    """
    used = LEXICAL_FEATURES if lexical_only else FULL_FEATURES
    rows, labels, weights, answered = [], [], [], []
    for chosen in sets:
        answerable = judged(a for a in ask(chosen, lexical_only=lexical_only, k=10) if a.question.answerable)
        gold = [f for one in answerable for f, is_gold in zip(one.features, one.gold, strict=True) if is_gold]
        groups = [([f for f in gold if not f.standing], 1.0, 1.0)]
        for foreign in (openings, crossed(chosen, sets)):
            found = strangers(chosen, foreign, lexical_only=lexical_only)
            if found:
                groups.append(([f for one in found for f in one.features if not f.standing], 0.0, 0.5))
        for group, label, weight in groups:
            rows.append(matrix(group, used))
            labels.append(np.full(len(group), label))
            weights.append(np.full(len(group), 1000.0 * weight / len(group)))
        answered.append([one for one in answerable if _earned(one)])
    beta = fit(np.concatenate(rows), np.concatenate(labels), np.concatenate(weights))
    named = dict(zip(used, beta.round(3).tolist(), strict=True))
    coefficients = admission.Coefficients(**{field.name: 0.0 for field in fields(admission.Coefficients)} | named)
    gate = min(_quantile(group, coefficients, LOST_AT_GATE, gold_only=False) for group in answered)
    threshold = min(_quantile(group, coefficients, LOST_AT_THRESHOLD, gold_only=True) for group in answered)
    return admission.Model(coefficients, round(gate, 3), round(threshold, 3))


def _earned(one: Judged) -> bool:
    """Whether there is gold that its own words must get admitted."""
    return any(is_gold and not f.standing for f, is_gold in zip(one.features, one.gold, strict=True))


def _quantile(group: Sequence[Judged], model: admission.Coefficients, share: float, *, gold_only: bool) -> float:
    """The probability that the best (gold) candidate of all but `share` of the questions reaches."""
    best = [
        max(
            admission.probability(f, model)
            for f, is_gold in zip(one.features, one.gold, strict=True)
            if (is_gold and not f.standing) or not gold_only
        )
        for one in group
    ]
    return float(np.quantile(best, share))


def chances(group: Sequence[Judged]) -> list[float]:
    """The best candidate's probability for each question, 0 for none."""
    return [max((v.probability for v in admission.admit(one.features)), default=0.0) for one in group]


def auc(positive: Sequence[float], negative: Sequence[float]) -> float:
    """Chance that a positive scores above a negative."""
    low, high = np.array(negative), np.array(positive)
    if not len(low) or not len(high):
        return math.nan
    return float((high[:, None] > low).mean() + (high[:, None] == low).mean() / 2)


def admission_row(answers: list[Answer], foreign: Mapping[str, list[Judged]]) -> str:
    """What admission keeps and lets in."""
    answerable = judged(a for a in answers if a.question.answerable)
    near = judged(a for a in answers if not a.question.answerable)
    reached = [one for one in answerable if any(one.gold)]
    verdicts = [admission.admit(one.features) for one in reached]
    kept = [
        any(v.admitted and g for v, g in zip(vs, one.gold, strict=True))
        for vs, one in zip(verdicts, reached, strict=True)
    ]
    parts = [f"answerable: kept {np.mean(kept):.3f}, {_admitted(answerable)[1]:.1f} of ten"]
    for name, group in ({**foreign, "unanswerable": near}).items():
        if group:
            some, mean = _admitted(group)
            parts.append(
                f"{name}: given any {some:.3f}, {mean:.1f} of ten, AUC {auc(chances(answerable), chances(group)):.3f}"
            )
    return "\n    ".join(parts)


def _admitted(group: Sequence[Judged]) -> tuple[float, float]:
    """Share of questions with an admitted candidate, and the mean number of them."""
    counts = [sum(v.admitted for v in admission.admit(one.features)) for one in group]
    return float(np.mean([count > 0 for count in counts])), float(np.mean(counts))


# ---------------------------------------------------------------- the block


@dataclass(frozen=True, slots=True)
class Injected:
    """What one question's block would be: tokens (estimated), share of gold placed, share of the answer's own words."""

    tokens: int
    share: float
    answer: float | None


def blocks(chosen: RecallSet) -> list[Injected]:
    """The block of every answerable question, by the product's own assembly at its defaults."""
    found = []
    recall = RecallSettings()
    limits = {
        "episodes": recall.episodes_max,
        "facts": recall.facts_max,
        "procedures": recall.procedures_max,
        "tasks": recall.tasks_max,
    }
    for question, vector in zip(chosen.questions, chosen.vectors, strict=True):
        if not question.answerable:
            continue
        index = chosen.indexes[question.scope]
        prepared = index.prepare(question.text, now=NOW, where=Filter())
        ranked = [candidate_of(hit) for hit in index.rank(prepared, vector, recall.candidates_max)]
        block = build_block(
            ranked,
            terms=prepared.terms,
            budget_tokens=recall.budget_tokens_max,
            limits=limits,
            counter=EstimatedTokens(),
            router=ByLength(),
            compressor=SentenceCompressor(),
        )
        placed = {source for one in ranked if one.memory_id in block.memory_ids for source in one.source_ids}
        wanted = set(lexical_module.tokenise(question.answer)) - set(lexical_module.tokenise(question.text))
        said = wanted.intersection(lexical_module.tokenise(block.text))
        share = len(question.gold & placed) / len(question.gold)
        found.append(Injected(block.tokens, share, len(said) / len(wanted) if wanted else None))
    return found


def block_row(found: Sequence[Injected]) -> str:
    """Tokens where evidence was placed; shares over all."""
    tokens = [one.tokens for one in found if one.share]
    answers = [one.answer for one in found if one.answer is not None]
    return (
        f"tokens p50 {np.median(tokens):.0f} p90 {np.quantile(tokens, 0.9):.0f}   evidence placed "
        f"{np.mean([one.share for one in found]):.3f}   words of the answer {np.mean(answers):.3f}"
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


_PLAIN_BM25 = ranking.Weights(
    dense=0.0,
    lexical=1.0,
    demotion=0.0,
    speaker=0.0,
    standing=0.0,
    in_time=0.0,
    prior=0.0,
    said_next=0.0,
    session=0.0,
    reinforcement=0.0,
)


def ablations() -> Mapping[str, tuple[Any, dict[str, object], Variant]]:
    """Label -> module, constants to change, layout to change."""
    base = Variant()
    return {
        "as it is": (ranking, {}, base),
        "lexical weight .45": (ranking, {"FULL": replace(ranking.FULL, dense=0.55, lexical=0.45)}, base),
        "lexical weight .65": (ranking, {"FULL": replace(ranking.FULL, dense=0.35, lexical=0.65)}, base),
        "lexical only, demoted": (ranking, {"FULL": replace(ranking.FULL, dense=0.0, lexical=1.0)}, base),
        "dense only, demoted": (ranking, {"FULL": replace(ranking.FULL, dense=1.0, lexical=0.0)}, base),
        "demotion 0": (ranking, {"FULL": replace(ranking.FULL, demotion=0.0)}, base),
        "demotion .2": (ranking, {"FULL": replace(ranking.FULL, demotion=0.2)}, base),
        "demotion .3": (ranking, {"FULL": replace(ranking.FULL, demotion=0.3)}, base),
        "nobody is named": (ranking, {"FULL": replace(ranking.FULL, speaker=0.0)}, base),
        "no standing instructions": (ranking, {"FULL": replace(ranking.FULL, standing=0.0)}, base),
        "nothing from what is said next": (ranking, {"FULL": replace(ranking.FULL, said_next=0.0)}, base),
        "no time is named": (ranking, {"FULL": replace(ranking.FULL, in_time=0.0)}, base),
        "nothing from the session": (ranking, {"FULL": replace(ranking.FULL, session=0.0)}, base),
        "the newest value is not put first": (newest, {"kinds_asked": lambda _: frozenset()}, base),
        "demotion whatever the length": (ranking, {"LONG_REPLY_TERMS": 1}, base),
        "second speaker is assistant": (ranking, {}, Variant(second_speaker="assistant")),
        "same, demoted whatever the length": (ranking, {"LONG_REPLY_TERMS": 1}, Variant(second_speaker="assistant")),
        "plain BM25, single turns": (ranking, {"FULL": _PLAIN_BM25}, Variant(context_turns=0)),
        "no context": (ranking, {"QUESTION_CONTEXT": 0.0, "OTHER_CONTEXT": 0.0}, base),
        "one turn of context": (ranking, {}, Variant(context_turns=1)),
        "three turns of context": (ranking, {}, Variant(context_turns=3)),
        "context 1.0 without question": (ranking, {"OTHER_CONTEXT": 1.0}, base),
        "context 0 without question": (ranking, {"OTHER_CONTEXT": 0.0}, base),
        "short turn 10 terms": (ranking, {"SHORT_TURN_TERMS": 10}, base),
        "short turn 40 terms": (ranking, {"SHORT_TURN_TERMS": 40}, base),
        "context not thinned": (ranking, {"CONTEXT_TERMS": 10**9}, base),
        "no date among the words": (index_module, {"date_terms": lambda _: ()}, base),
        "no stemming": (lexical_module, {"stem": lambda word: word}, base),
        "stopwords kept": (lexical_module, {"STOPWORDS": frozenset()}, base),
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


def report(sets: Sequence[RecallSet], openings: Foreign) -> None:
    """The table of both rungs."""
    for lexical_only in (False, True):
        rung = "lexical only" if lexical_only else "full"
        print(f"\n{rung}: recall@{'/'.join(map(str, DEPTHS))}, nDCG@10, new above old")
        for chosen in sets:
            answers = ask(chosen, lexical_only=lexical_only)
            foreign = {
                "ShareGPT openings": strangers(chosen, openings, lexical_only=lexical_only),
                "other sets": strangers(chosen, crossed(chosen, sets), lexical_only=lexical_only),
            }
            print(f"{chosen.name:12s}{row(answers)}\n    {by_type(answers)}")
            print(f"    {admission_row(answers, foreign)}", flush=True)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir()) / "memory-proxy-recall")
    parser.add_argument("--ablate", action="store_true")
    parser.add_argument("--block", action="store_true")
    parser.add_argument("--fit", action="store_true")
    parser.add_argument("--no-facts", action="store_true", help="turns alone, as with extract.by off")
    options = parser.parse_args()
    embedder = OnnxEmbedder(prepare_model(read_registry()[DEFAULT_MODEL], options.cache, print))
    vectors = Vectors(embedder, options.cache / "vectors")
    try:
        if options.ablate:
            ablate(options.data, vectors, lambda line: print(line, flush=True))
            return
        facts = not options.no_facts
        sets = [read_set(options.data, name, vectors, facts=facts) for name in SETS]
        sets.append(read_mixed(options.data, vectors, facts=facts))
        openings = read_openings(options.data, vectors)
        if options.block:
            for chosen in sets:
                print(f"{chosen.name:12s}{block_row(blocks(chosen))}", flush=True)
        elif options.fit:
            for lexical_only in (False, True):
                print("LEXICAL_ONLY" if lexical_only else "FULL", fit_rung(sets, openings, lexical_only=lexical_only))
        else:
            report(sets, openings)
    finally:
        embedder.close()


if __name__ == "__main__":
    main()
