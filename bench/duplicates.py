"""How far facts may be merged by meaning: the shared sets and our own pairs in, counts and every merge to read out.

    python -m bench.duplicates --sets locomo,beam,sharegpt

Facts are those of bench.facts, once for each scope, key and object; their vectors those of the product (dated
sentences). Two ways are counted: `rule`, what policies/same_meaning.py merges, and `cosine`, what the nearness of two
facts of one subject would merge at each bound where their numbers, dates and negations agree. Whoever reads the list
judges; of our own pairs (bench/duplicate_pairs.py) it is known which are the same. Refuses (SetUnreadable) missing
files.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import numpy as np

from bench.duplicate_pairs import OTHER, SAME, meant
from bench.facts import DATA, KNOWN, extracted, user_turns
from bench.recall.__main__ import embedder_unless
from bench.recall.corpus import SetUnreadable
from memory.ports import Embedder
from memory.write.windows import dated
from policies.fact import Fact, aspect_of
from policies.reconcile import fact_key, statement_of
from policies.same_meaning import COSINE_MIN, Meant, same_meaning, sense_of

BOUNDS: Final = (0.6, 0.7, 0.8, 0.85, 0.9, 0.95)
SHOWN_FROM: Final = 0.85
SAID_AT: Final = datetime(2026, 3, 5, tzinfo=UTC)
SAID_LATER: Final = datetime(2026, 9, 21, tzinfo=UTC)
_VALUE: Final = re.compile(
    r"\d+(?:[.,:/-]\d+)*|[%$€£]|\b(?:not|no|never|dislikes|without|used|was|were|first|second|third|fourth)\b"
    r"|\b(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)(?:[a-z]*)\b|\b(?:mon|tues|wednes|thurs|fri|satur|sun)day\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Told:
    """A fact of a set with its vector's row."""

    scope: str
    meant: Meant
    said_at: datetime


def facts_of_set(name: str, data: Path) -> list[Told]:
    """Each statement of a set once for each scope. Raises SetUnreadable."""
    found: dict[tuple[Any, ...], Told] = {}
    for one in extracted(user_turns(data, name)):
        for fact in one.facts:
            what = _meant(fact)
            key = (one.turn.scope, what.subject, what.predicate, what.object, what.negated)
            found.setdefault(key, Told(one.turn.scope, what, one.turn.said_at))
    return list(found.values())


def _meant(fact: Fact) -> Meant:
    subject, predicate = fact_key(fact.subject, fact.predicate)
    aspect = aspect_of(fact)
    return Meant(subject, predicate, statement_of(fact).object, fact.statement, fact.negated, aspect.of, aspect.unit)


async def embedded(embedder: Embedder, told: Sequence[Told]) -> Any:
    """Unit vectors, shape [len(told), dim]."""
    texts = [dated(one.meant.statement, one.said_at) for one in told]
    parts = [await embedder.embed_documents(texts[at : at + 64]) for at in range(0, len(texts), 64)]
    return np.concatenate(parts) if parts else np.zeros((0, embedder.dim), np.float32)


def measured(told: Sequence[Told], vectors: Any) -> tuple[dict[str, int], list[tuple[float, str, str, str]]]:
    """Counts, and the merges: cosine, by which way, and both sentences."""
    piles: dict[tuple[str, str], list[int]] = {}
    for number, one in enumerate(told):
        piles.setdefault((one.scope, one.meant.subject), []).append(number)
    counts = {"facts": len(told), "pairs of one subject": 0, "rule": 0, **{f"cosine {b}": 0 for b in BOUNDS}}
    merges: list[tuple[float, str, str, str]] = []
    for pile in piles.values():
        near = vectors[pile] @ vectors[pile].T
        for i, number in enumerate(pile):
            for j in range(i):
                left, right, cosine = told[number].meant, told[pile[j]].meant, float(near[i, j])
                counts["pairs of one subject"] += 1
                if sense_of(left) is not None and sense_of(left) == sense_of(right):
                    counts["rule"] += same_meaning(left, right, cosine)
                    merges.append((cosine, "rule  ", left.statement, right.statement))
                if left.negated == right.negated and _values(left) == _values(right):
                    for bound in BOUNDS:
                        counts[f"cosine {bound}"] += cosine >= bound
                    if cosine >= SHOWN_FROM:
                        merges.append((cosine, "cosine", left.statement, right.statement))
    return counts, merges


def _values(one: Meant) -> list[str]:
    return _VALUE.findall(one.statement.casefold())


async def of_our_own(embedder: Embedder) -> dict[str, Any]:
    """How our own pairs fare, the two sides said half a year apart."""
    report: dict[str, Any] = {}
    for name, pairs in (("same", SAME), ("other", OTHER)):
        sides = [(meant(one), meant(other)) for one, other in pairs]
        told = [Told("", side, at) for pair in sides for side, at in zip(pair, (SAID_AT, SAID_LATER), strict=True)]
        vectors = await embedded(embedder, told)
        cosines = [float(vectors[2 * n] @ vectors[2 * n + 1]) for n in range(len(pairs))]
        near = list(zip(cosines, sides, strict=True))
        report[name] = {
            "pairs": len(pairs),
            "merged by the rule": sum(same_meaning(*pair, cosine) for cosine, pair in near),
            "alike by their words": sum(sense_of(a) == sense_of(b) for _, (a, b) in near),
            "cosine least, median, most": [round(float(q), 3) for q in np.quantile(cosines, (0, 0.5, 1))],
            **{
                f"cosine {bound} and values": sum(
                    c >= bound and a.negated == b.negated and _values(a) == _values(b) for c, (a, b) in near
                )
                for bound in BOUNDS
            },
        }
    return report


async def run(arguments: argparse.Namespace, embedder: Embedder) -> None:
    """Measure and print."""
    print(f"bound {COSINE_MIN}")
    for name, figures in (await of_our_own(embedder)).items():
        print(f"{name}: {figures}")
    for name in arguments.sets.split(","):
        told = facts_of_set(name, arguments.data)
        counts, merges = measured(told, await embedded(embedder, told))
        print(f"{name}: {counts}")
        for cosine, by, left, right in sorted(merges):
            print(f"  {by}  {cosine:.3f}  {left}  |  {right}")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.duplicates", description=__doc__)
    parser.add_argument("--sets", default="locomo,beam,sharegpt", help=f"of {', '.join(KNOWN)}")
    parser.add_argument("--data", type=Path, default=DATA)
    arguments = parser.parse_args()
    try:
        with embedder_unless(False) as embedder:
            if embedder is not None:
                asyncio.run(run(arguments, embedder))
    except SetUnreadable as exc:
        print(f"duplicates: {exc}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
