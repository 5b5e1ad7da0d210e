"""What the cascade of tiers costs and saves: the conversation sets, each dealt to two tiers -> a table on stdout.

    python -m bench.tune_cascade --data DIR

No set has documents or shared memories, so two are made of one: the sessions of a scope are dealt to a first and a
second tier by their id ("one subject"), or one tier has its LoCoMo conversation and the other its BEAM chat ("two
lives"). For each rule: the share of the evidence among what the block takes, by where the evidence lies; how many are
admitted, and how many characters the block has at most. No file of the project is written; refuses nothing.
"""

from __future__ import annotations

import argparse
import math
import tempfile
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal
from uuid import NAMESPACE_URL, uuid5

import numpy as np

from bench.recall_sets import MIXED, SETS, Question, RecallSet, Vectors, read_mixed, read_set
from bench.tune_recall import DATA, Answer, ask
from memory.adapters.embedder import OnnxEmbedder
from memory.adapters.model_files import prepare_model
from memory.adapters.model_registry import DEFAULT_MODEL, read_registry
from memory.config_sections import Recall as RecallSettings
from memory.model import Candidate
from memory.read.candidates import candidate_of
from memory.read.index import ScopeIndex, Scored
from memory.read.items import IndexItem
from memory.read.route import ByLength
from policies.admission import FULL
from policies.cascade import AHEAD, Found, Tier, exits

Deal = Callable[[IndexItem], Tier]
Side = Literal["first", "second", "both"]
# What is dropped, given what an index found.
Rule = Callable[[Sequence[Found]], frozenset[int]]


@dataclass(frozen=True, slots=True)
class Placed:
    """What one question's block would take: share of the evidence, admitted, characters at most."""

    share: float
    admitted: int
    chars: int


def bound(found: Sequence[Found], reached: float) -> frozenset[int]:
    """The rule not taken: a later tier adds nothing where an earlier one's best reaches this probability."""
    answered = [one.tier for one in found if one.admitted and not one.standing and one.probability >= reached]
    first = min(answered, default=max(Tier))
    return frozenset(at for at, one in enumerate(found) if one.admitted and not one.standing and one.tier > first)


def rules() -> dict[str, Rule]:
    """Label -> rule."""
    ahead = {f"likelier by {log_odds:g}": partial(exits, ahead=log_odds) for log_odds in (0, 2, 4, AHEAD, 8)}
    bounds = {f"best >= {reached:g}": partial(bound, reached=reached) for reached in (FULL.gate, 0.95, 0.999)}
    return {"no cascade": partial(exits, ahead=math.inf), **bounds, **ahead}


def by_session(item: IndexItem) -> Tier:
    """The tier of a turn by its session, as good as at random."""
    assert item.session_id is not None
    return (Tier.CONVERSATION, Tier.PROJECT)[zlib.crc32(item.session_id.bytes) & 1]


def by_life(item: IndexItem, *, first: str) -> Tier:
    """The first tier for the turns of the set whose scopes begin so."""
    return Tier.CONVERSATION if item.source_ids[0].startswith(first) else Tier.PROJECT


def found_of(hits: Sequence[Scored], deal: Deal) -> list[Found]:
    """The hits as the cascade sees them."""
    at = {hit.item.memory_id: place for place, hit in enumerate(hits)}
    return [
        Found(
            deal(hit.item),
            hit.admitted,
            hit.parts["admission"],
            hit.features.standing,
            at.get(hit.later) if hit.later else None,
        )
        for hit in hits
    ]


def placed(answer: Answer, rule: Rule, deal: Deal) -> Placed:
    """What the block takes of an answer under a rule, with the default limit of episodes."""
    left = rule(found_of(answer.found, deal))
    kept = [candidate_of(hit) for at, hit in enumerate(answer.found) if hit.admitted and at not in left]
    taken = kept[: RecallSettings().episodes_max]
    sources = {source for one in taken for source in one.source_ids}
    chars = sum(_chars(one, place) for place, one in enumerate(taken))
    return Placed(len(answer.question.gold & sources) / len(answer.question.gold), len(kept), chars)


def _chars(candidate: Candidate, place: int) -> int:
    most = ByLength().excerpt_chars(candidate, place, {})
    return len(candidate.content) if most is None else most


def side_of(question: Question, index: ScopeIndex, deal: Deal) -> Side:
    """In which tier a question's evidence lies."""
    of = {deal(item) for item in (index.held(uuid5(NAMESPACE_URL, turn)) for turn in question.gold) if item}
    return "both" if len(of) > 1 else "first" if of == {Tier.CONVERSATION} else "second"


def show(name: str, chosen: RecallSet, deal: Deal, *, lexical_only: bool) -> None:
    """The table of one set, dealt in one way."""
    k = RecallSettings().candidates_max
    answers = [one for one in ask(chosen, lexical_only=lexical_only, k=k) if one.question.answerable]
    sides = [side_of(one.question, chosen.indexes[one.question.scope], deal) for one in answers]
    print(f"\n{name}{', by words alone' if lexical_only else ''}: evidence placed / admitted / characters")
    for label, rule in rules().items():
        cells = []
        for side in ("first", "second", "both"):
            group = [placed(one, rule, deal) for one, of in zip(answers, sides, strict=True) if of == side]
            if group:
                means = (np.mean([getattr(one, part) for one in group]) for part in ("share", "admitted", "chars"))
                cells.append("{} ({}) {:.3f} / {:.1f} / {:.0f}".format(side, len(group), *means))
        print(f"    {label:16s}{'   '.join(cells)}", flush=True)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir()) / "memory-proxy-recall")
    options = parser.parse_args()
    embedder = OnnxEmbedder(prepare_model(read_registry()[DEFAULT_MODEL], options.cache, print))
    vectors = Vectors(embedder, options.cache / "vectors")
    try:
        subjects = [read_set(options.data, name, vectors) for name in SETS]
        mixed = read_mixed(options.data, vectors)
        for lexical_only in (False, True):
            for chosen in subjects:
                show(f"one subject, {chosen.name}", chosen, by_session, lexical_only=lexical_only)
            for name, first in MIXED.items():
                show(f"two lives, {name} first", mixed, partial(by_life, first=first), lexical_only=lexical_only)
    finally:
        embedder.close()


if __name__ == "__main__":
    main()
