"""What the names of people and things do to recall: the arm of entities against recall without it.

    python -m bench.recall_entities                   the shared sets and the made ones, about five minutes
    python -m bench.recall_entities --made            the made ones alone, half a minute

The shared sets say whether it costs anything: few of their questions call one otherwise than the turn does. The made
ones say whether it does what it is for: in each of 100 scopes ("My sister is called Anna.") eight people are named once
and spoken of elsewhere, half by name and half by what the user calls them; among them stand as many sentences of the
same kind about strangers. Each question calls its one otherwise than the turn that answers it: no word of it says whom.
The third set asks one tie further: "My sister works at Globex." is said once, and the question about my sister's firm
is answered by a turn about Globex, among as many about other companies.
"""

from __future__ import annotations

import argparse
import random
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from bench.recall_sets import SETS, Question, RecallSet, Turn, Vectors, indexed, items_of, read_set
from bench.tune_recall import DATA, DEPTHS, Answer, altered, ask, ndcg_at, recall_at
from memory.adapters.embedder import OnnxEmbedder
from memory.adapters.model_files import prepare_model
from memory.adapters.model_registry import DEFAULT_MODEL, read_registry
from memory.read.names import Names
from memory.read.ties import Ties

SCOPES: Final = 100
SEED: Final = 7
KIN: Final = ("sister", "brother", "boss", "cousin", "mentor", "landlord", "therapist", "roommate")
NAMES: Final = (
    "Anna", "Boris", "Carla", "Dmitri", "Elena", "Farid", "Greta", "Hugo", "Ines", "Jonas", "Kira", "Lukas", "Mara",
    "Nils", "Olga", "Pavel", "Rosa", "Stefan", "Tessa", "Viktor", "Wanda", "Yusuf", "Zora", "Emil", "Frida", "Ivan",
)  # fmt: skip
TOLD: Final = (
    ("{who} started to work as a {x}.", "What does {who} do for a living?",
     ("nurse", "welder", "notary", "pilot", "baker", "surveyor", "tailor", "joiner", "optician", "diver")),
    ("{who} is allergic to {x}.", "What is {who} allergic to?",
     ("walnuts", "penicillin", "shellfish", "pollen", "latex", "soy", "strawberries", "dust", "mustard", "celery")),
    ("{who} moved to {x} last spring.", "Where does {who} live now?",
     ("Porto", "Lyon", "Graz", "Turin", "Bergen", "Ghent", "Malmo", "Bilbao", "Trieste", "Aarhus")),
    ("{who} wants {x} for the birthday.", "What does {who} want for the birthday?",
     ("a telescope", "a kayak", "a loom", "a banjo", "an easel", "a drone", "a chess set", "a lamp", "a globe")),
)  # fmt: skip
COMPANIES: Final = (
    "Globex", "Initech", "Hooli", "Vandelay", "Umbra", "Tessel", "Norrland", "Quartz", "Halden", "Brixton", "Ostrava",
    "Meridian", "Kestrel", "Lumen", "Aurora", "Zephyr", "Cobalt", "Juniper", "Sable", "Onyx",
)  # fmt: skip
CALLED: Final = ("company", "employer", "firm")
OF_COMPANIES: Final = (
    ("{who} moved its laboratories to {x}.", "Where did {who} move its laboratories?",
     ("Porto", "Lyon", "Graz", "Turin", "Bergen", "Ghent", "Malmo", "Bilbao", "Trieste", "Aarhus")),
    ("{who} sells {x} to hospitals now.", "What does {who} sell to hospitals?",
     ("scanners", "beds", "gowns", "pumps", "lamps", "masks", "monitors", "gloves", "scales", "trolleys")),
    ("{who} was fined over {x}.", "What was {who} fined over?",
     ("its taxes", "a spill", "late wages", "a merger", "its adverts", "noise", "a leak", "its meters", "a recall")),
)  # fmt: skip
_FIRST: Final = datetime(2025, 3, 1, 9, tzinfo=UTC)


def without(_names: Names, asked: Mapping[str, tuple[str, ...]], _allowed: NDArray[np.bool_]) -> Mapping[str, Any]:
    """A question's terms as they are."""
    return asked


def untied(
    _ties: Ties, asked: Mapping[str, tuple[str, ...]], _raw: Mapping[str, Any], _allowed: NDArray[np.bool_]
) -> Mapping[str, Any]:
    """The same, of ties."""
    return asked


def made(vectors: Vectors, by: str) -> RecallSet:
    """Scopes of people who are named once. `by`: how the turn that answers names them, `name` or `kin`, or `tie`."""
    draw = random.Random(SEED)
    turns: dict[str, list[Turn]] = {}
    questions: list[Question] = []
    for number in range(SCOPES):
        scope = f"{by}-{number}"
        said, asked = _tied(scope, draw) if by == "tie" else _scope(scope, by, draw)
        turns[scope] = said
        questions += asked
    items = iter(items_of([turn for of_scope in turns.values() for turn in of_scope], vectors))
    indexes = {
        scope: indexed([next(items) for _ in of_scope], vectors, facts=True) for scope, of_scope in turns.items()
    }
    return RecallSet(f"made, by {by}", indexes, tuple(questions), vectors.of([one.text for one in questions]))


def _scope(scope: str, by: str, draw: random.Random) -> tuple[list[Turn], list[Question]]:
    names = draw.sample(NAMES, len(KIN) * 2)
    texts: list[str] = []
    gold: dict[str, str] = {}
    for kin, name, stranger in zip(KIN, names, names[len(KIN) :], strict=False):
        texts.append(f"My {kin} is called {name}.")
        told, asked, things = draw.choice(TOLD)
        mine, theirs = draw.sample(things, 2)
        texts.append(told.format(who=stranger, x=theirs))
        text = told.format(who=name if by == "name" else f"My {kin}", x=mine)
        texts.append(text)
        gold[asked.format(who=f"my {kin}" if by == "name" else name)] = text
    return _asked(scope, by, texts, gold, draw)


def _tied(scope: str, draw: random.Random) -> tuple[list[Turn], list[Question]]:
    companies = draw.sample(COMPANIES, len(KIN) * 2)
    texts: list[str] = []
    gold: dict[str, str] = {}
    for kin, company, stranger in zip(KIN, companies, companies[len(KIN) :], strict=False):
        texts.append(f"My {kin} works at {company}.")
        told, asked, things = draw.choice(OF_COMPANIES)
        theirs, others = draw.sample(things, 2)
        texts.append(told.format(who=stranger, x=others))
        text = told.format(who=company, x=theirs)
        texts.append(text)
        gold[asked.format(who=f"my {kin}'s {draw.choice(CALLED)}")] = text
    return _asked(scope, "tie", texts, gold, draw)


def _asked(
    scope: str, by: str, texts: list[str], gold: Mapping[str, str], draw: random.Random
) -> tuple[list[Turn], list[Question]]:
    """These sentences in any order, a turn each, and these questions with the sentence that answers each."""
    draw.shuffle(texts)
    turns = list(_turns(scope, texts))
    ids = {turn.text: turn.turn_id for turn in turns}
    questions = [
        Question(f"{scope}-{n}", scope, by, asked, frozenset({ids[text]}), frozenset(), answerable=True, answer="")
        for n, (asked, text) in enumerate(gold.items())
    ]
    return turns, questions


def _turns(scope: str, texts: Sequence[str]) -> Iterator[Turn]:
    for number, text in enumerate(texts):
        at = _FIRST + timedelta(days=number)
        yield Turn(f"{scope}-t{number}", scope, f"{scope}-s{number}", "user", text, "", at, None)


def row(answers: Sequence[Answer]) -> str:
    """Recall by depth, nDCG@10, and the share of questions whose answering turn was admitted."""
    recalls = "  ".join(f"{recall_at(answers, depth):.3f}" for depth in DEPTHS)
    known = [one for one in answers if one.question.answerable]
    admitted = sum(
        any(hit.admitted and hit.item.source_ids[0] in one.question.gold for hit in one.found) for one in known
    )
    return f"{recalls}   {ndcg_at(answers, 10):.3f}   {admitted / len(known):.3f}"


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir()) / "memory-proxy-recall")
    parser.add_argument("--made", action="store_true", help="leave out the shared sets")
    options = parser.parse_args()
    embedder = OnnxEmbedder(prepare_model(read_registry()[DEFAULT_MODEL], options.cache, print))
    vectors = Vectors(embedder, options.cache / "vectors")
    try:
        sets = [made(vectors, by) for by in ("name", "kin", "tie")]
        sets += [] if options.made else [read_set(options.data, name, vectors) for name in SETS]
        print(f"{'':24s}recall@{'/'.join(map(str, DEPTHS)):20s} nDCG@10  admitted", flush=True)
        for chosen in sets:
            for lexical_only in (False, True):
                rung = "words alone" if lexical_only else "full"
                with altered(Names, expanded=without), altered(Ties, expanded=untied):
                    print(f"{chosen.name:14s}without   {row(ask(chosen, lexical_only=lexical_only))}   {rung}")
                print(f"{'':14s}with      {row(ask(chosen, lexical_only=lexical_only))}", flush=True)
    finally:
        embedder.close()


if __name__ == "__main__":
    main()
