"""How good rule-based extraction is: the shared conversation sets in, a table and a sample to read by eye out.

    python -m bench.facts --sets locomo,beam,sharegpt          facts per turn, categories, spans, duplicates, time
    python -m bench.facts --sets locomo,beam --show 50 --seed 7   a random sample, to be judged: statement | its words
    python -m bench.facts --sets beam_ku                       updates: does the new value get the key of the old one

User turns only; LoCoMo's speakers are users with a name. `--data` is the directory of the sets, as for bench.recall.
For updates, "found" is a question whose new value stands in a fact of a gold turn, "same key" one in which such a fact
has (subject, predicate) in common with a fact of a stale turn and another object, "may replace" one in which
`may_replace` says so too. "Collisions" are all such pairs in the set, asked about or not: the price
of a coarse key. Refuses (SetUnreadable) missing files. No model judges.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from bench.recall.corpus import SETS, SetUnreadable, read_objects, read_set
from policies.extraction import facts_in
from policies.fact import Fact, aspect_of

DATA: Final = Path(__file__).resolve().parents[2] / "shared" / "evaldata"
KNOWN: Final = ("locomo", "beam", "sharegpt", "beam_ku")
# Said when the set does not say when.
_UNDATED: Final = datetime(2024, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Turn:
    """One user turn of a set."""

    turn_id: str
    scope: str
    text: str
    speaker: str | None
    said_at: datetime


@dataclass(frozen=True, slots=True)
class Found:
    """A turn and the facts in it."""

    turn: Turn
    facts: tuple[Fact, ...]


@dataclass(frozen=True, slots=True)
class Update:
    """One question about an updated value: the question, what it asks for, and how far the keys go."""

    question: str
    value_found: bool
    same_key: bool
    may_replace: bool


def may_replace(newer: Fact, older: Fact) -> bool:
    """Whether two facts speak of the same thing, so that the newer value ends the older: one key, of cardinality one,
    and of one aspect.
    """
    same = (newer.subject, newer.predicate) == (older.subject, older.predicate) and newer.cardinality == "one"
    return same and aspect_of(newer).replaces(aspect_of(older))


def user_turns(data: Path, name: str) -> list[Turn]:
    """The user turns of a set by its short name. Raises SetUnreadable."""
    if name == "sharegpt":
        dialogues = read_objects(data / "sharegpt_300_multiturn.jsonl.xz")
        return [
            Turn(f"{one['id']}:{number}", str(one["id"]), str(message["content"]), None, _UNDATED)
            for one in dialogues
            for number, message in enumerate(one["messages"])
            if message["role"] == "user"
        ]
    read = read_set(data, name if name in SETS else "beam")
    return [_turn(scope, line) for scope, lines in read.lines.items() for line in lines if line["role"] == "user"]


def _turn(scope: str, line: Mapping[str, str]) -> Turn:
    at = datetime.fromisoformat(line["occurred_at"]) if "occurred_at" in line else _UNDATED
    return Turn(line["source_id"], scope, line["content"], line.get("name"), at)


def extracted(turns: Sequence[Turn]) -> list[Found]:
    """The facts of each turn."""
    return [Found(turn, tuple(facts_in(turn.text, said_at=turn.said_at, speaker=turn.speaker))) for turn in turns]


def rests_on_its_words(fact: Fact, text: str) -> bool:
    """Whether a fact's span is a range of the text, not empty, in which all words of its object stand."""
    start, end = fact.span
    if not 0 <= start < end <= len(text):
        return False
    said = " ".join(text[start:end].replace("’", "'").casefold().split())
    return all(word in said for word in re.findall(r"[\w.,:/]+", fact.object))


def summary(found: Sequence[Found], seconds: float) -> dict[str, Any]:
    """The figures of one set."""
    pairs = [(one.turn, fact) for one in found for fact in one.facts]
    keys = Counter((turn.scope, f.subject, f.predicate, f.object, f.negated) for turn, f in pairs)
    characters = sum(len(one.turn.text) for one in found)
    return {
        "user turns": len(found),
        "facts": len(pairs),
        "facts per turn": round(len(pairs) / max(1, len(found)), 3),
        "turns with a fact": f"{100 * sum(bool(one.facts) for one in found) / max(1, len(found)):.1f} %",
        "valid spans": f"{100 * sum(rests_on_its_words(f, t.text) for t, f in pairs) / max(1, len(pairs)):.1f} %",
        "exact duplicates": f"{100 * (len(pairs) - len(keys)) / max(1, len(pairs)):.1f} %",
        "categories": dict(Counter(f.category for _, f in pairs).most_common()),
        "predicates": dict(Counter(f.predicate for _, f in pairs).most_common(25)),
        "ms per 1,000 characters": round(1e6 * seconds / max(1, characters), 3),
    }


def collisions(found: Sequence[Found]) -> Iterator[tuple[Fact, Fact]]:
    """Consecutive facts of one scope and key, of cardinality one, of other values: the newer may replace the older."""
    newest: dict[tuple[str, str, str], Fact] = {}
    for one in found:
        for fact in one.facts:
            if fact.cardinality != "one":
                continue
            key = (one.turn.scope, fact.subject, fact.predicate)
            older = newest.get(key)
            if older is not None and may_replace(fact, older) and _value(older) != _value(fact):
                yield older, fact
            newest[key] = fact


def _value(fact: Fact) -> str:
    return fact.qualifiers.get("value", fact.object)


def updates(data: Path, found: Sequence[Found]) -> list[Update]:
    """How each update of `beam_ku_numeric` fares. Raises SetUnreadable."""
    by_turn = {one.turn.turn_id: one.facts for one in found}
    return [_update(query, by_turn) for query in read_objects(data / "beam_ku_numeric.jsonl.xz")]


def _update(query: Mapping[str, Any], by_turn: Mapping[str, Sequence[Fact]]) -> Update:
    new = [fact for turn in query["gold"] for fact in by_turn.get(turn, ())]
    old = [fact for turn in query["stale"] for fact in by_turn.get(turn, ())]
    must = [str(token) for token in query["must"]]
    holds = [fact for fact in new if any(_holds(fact.object, token) for token in must)]
    pairs = [
        (mine, theirs)
        for mine in holds
        for theirs in old
        if (mine.subject, mine.predicate) == (theirs.subject, theirs.predicate) and _value(mine) != _value(theirs)
    ]
    covered = all(any(_holds(fact.object, token) for fact in new) for token in must)
    return Update(str(query["q"]), covered, bool(pairs), any(may_replace(*pair) for pair in pairs))


def _holds(text: str, token: str) -> bool:
    return re.search(rf"(?<![\w.,]){re.escape(token.casefold())}(?!\w|[.,]\d)", text) is not None


def sample(found: Sequence[Found], count: int, seed: int) -> list[tuple[str, str]]:
    """A random sample of facts: statement and the words it rests on."""
    pairs = [(fact, one.turn) for one in found for fact in one.facts]
    chosen = random.Random(seed).sample(pairs, min(count, len(pairs)))
    return [(_shown(fact), " ".join(turn.text[fact.span[0] : fact.span[1]].split())) for fact, turn in chosen]


def _shown(fact: Fact) -> str:
    marks = f" [{fact.subject} {fact.predicate}]"
    days = "".join(f" {name} {day:%Y-%m-%d}" for name, day in (("from", fact.valid_from), ("to", fact.valid_to)) if day)
    return fact.statement + marks + days


def _report(name: str, data: Path, show: int, seed: int) -> None:
    turns = user_turns(data, name)
    began = time.process_time()
    found = extracted(turns)
    figures = summary(found, time.process_time() - began)
    print(f"\n## {name}")
    for title, value in figures.items():
        print(f"{title:<26}{value}")
    print(f"{'collisions':<26}{sum(1 for _ in collisions(found))}")
    for statement, words in sample(found, show, seed):
        print(f"- {statement} | {words}")


def _report_updates(data: Path, show: int) -> None:
    found = extracted(user_turns(data, "beam"))
    rows = updates(data, found)
    print(f"\n## beam_ku: {len(rows)} updates of a value")
    for row in rows:
        marks = " ".join("yes" if mark else " - " for mark in (row.value_found, row.same_key, row.may_replace))
        print(f"{marks}  {row.question}")
    print(
        f"new value in a fact {sum(r.value_found for r in rows)}, same key as the old"
        f" {sum(r.same_key for r in rows)}, may replace it {sum(r.may_replace for r in rows)}"
    )
    for older, newer in list(collisions(found))[:show]:
        print(f"- {older.statement} -> {newer.statement}")


def main(argv: list[str] | None = None) -> int:
    """Command line; 2 where a set cannot be read."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA, help=f"directory of the sets (default: {DATA})")
    parser.add_argument("--sets", default=",".join(KNOWN), help=f"of {', '.join(KNOWN)}, by comma")
    parser.add_argument("--show", type=int, default=0, metavar="N", help="print N facts of each set")
    parser.add_argument("--seed", type=int, default=0, help="of the sample")
    args = parser.parse_args(argv)
    names = [name for name in args.sets.split(",") if name]
    if unknown := set(names) - set(KNOWN):
        print(f"unknown sets: {', '.join(sorted(unknown))}", file=sys.stderr)
        return 2
    try:
        for name in names:
            if name == "beam_ku":
                _report_updates(args.data, args.show)
            else:
                _report(name, args.data, args.show, args.seed)
    except SetUnreadable as exc:
        print(exc, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
