"""`python -m bench.updates`: things of a life that changed, told in passing; is what holds put before what held?

Written for this bench, and the rules of extraction were then widened with it in view (10 of 24 before, 18 after): a
look, no benchmark. Each case is what was true, what was said later, and a question about now. No value is a number, so
nothing but the facts can tell which of two statements holds. All cases lie in one scope. Prints, for turns alone and
with facts: new above old, old given without the new, and the cases where that is not so.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final
from uuid import NAMESPACE_URL, uuid5

import numpy as np

from bench.recall_facts import facts_of
from bench.recall_sets import Vectors
from memory.adapters.embedder import OnnxEmbedder
from memory.adapters.model_files import prepare_model
from memory.adapters.model_registry import DEFAULT_MODEL, read_registry
from memory.read.index import ScopeIndex
from memory.read.items import Filter, IndexItem

_NONE: Final = np.empty((0, 0), np.float32)
NOW: Final = datetime(2026, 6, 1, 12, tzinfo=UTC)
CASES: Final[Sequence[tuple[str, str, str]]] = (
    ("I live in Lisbon, close to the river.", "We moved to Porto in March and I love it.", "Where do I live?"),
    ("I work as a nurse at Saint Mary's.", "I quit nursing; I work as a teacher now.", "What do I work as?"),
    ("My boss is called Karen.", "Karen left, my boss is Ahmed now.", "Who is my boss?"),
    ("I drive a Volvo.", "I sold the Volvo. I drive a Tesla now.", "What car do I drive?"),
    ("My favourite band is Radiohead.", "Actually my favourite band is Portishead now.", "What is my favourite band?"),
    ("I'm a vegetarian.", "I'm not a vegetarian any more, I'm vegan now.", "What is my diet?"),
    ("My dog is called Rex.", "Rex died last year. My dog is called Luna.", "What is my dog called?"),
    ("I'm dating Julia.", "Julia and I broke up. I'm dating Marta now.", "Who am I dating?"),
    ("Our staging database runs on db7.", "The staging database runs on db9 now.", "Where does the staging db run?"),
    ("We use tabs in this project.", "We decided to use spaces in this project.", "Do we use tabs or spaces?"),
    ("I study biology at Leeds.", "I switched, I study law at Leeds now.", "What do I study?"),
    ("My phone is a Pixel.", "My phone is an iPhone now.", "Which phone do I have?"),
    ("We deploy with Jenkins.", "We switched and we deploy with GitHub Actions now.", "What do we deploy with?"),
    ("My doctor is Dr. Lee.", "My doctor is Dr. Novak now.", "Who is my doctor?"),
    ("I prefer tea in the morning.", "I prefer coffee in the morning now.", "What do I prefer in the morning?"),
    ("My gym is Iron House.", "I changed gyms, my gym is Flex Factory now.", "Which gym do I go to?"),
    ("Our backend is written in Ruby.", "The backend is written in Go now.", "What is the backend written in?"),
    ("My sister lives in Berlin.", "My sister moved to Vienna.", "Where does my sister live?"),
    ("I play the guitar.", "I gave up the guitar; I play the cello now.", "Which instrument do I play?"),
    ("My manager is Tom.", "Tom was promoted and my manager is Priya.", "Who is my manager?"),
    ("I work at Siemens.", "I left Siemens and I work at Bosch.", "Where do I work?"),
    ("My wifi is from Vodafone.", "My wifi is from Telekom now.", "Who is my wifi from?"),
    ("My name on the team is Bob.", "Call me Robert, my name is Robert.", "What is my name?"),
    ("I'm allergic to cats.", "The test says I'm no longer allergic to cats.", "Am I allergic to cats?"),
)  # fmt: skip


def turns() -> list[IndexItem]:
    """Old statements over a spring, then the new ones over another, each in a session of its own."""
    said = [(old, NOW - timedelta(days=400 - at)) for at, (old, _, _) in enumerate(CASES)]
    said += [(new, NOW - timedelta(days=60 - at)) for at, (_, new, _) in enumerate(CASES)]
    return [_item(text, at, number) for number, (text, at) in enumerate(said)]


def _item(text: str, at: datetime, number: int) -> IndexItem:
    ident = uuid5(NAMESPACE_URL, f"{number} {text}")
    return IndexItem(
        memory_id=ident,
        kind="episodic",
        role="user",
        content=text,
        context="",
        occurred_at=at,
        session_id=uuid5(NAMESPACE_URL, f"session {number}"),
        seq=0,
        integrity="user",
        sensitivity="internal",
        importance=0.5,
        expires_at=None,
        scope_id=1,
        source_ids=(str(number),),
        event_ids=(ident,),
        windows=((0, len(text)),),
        vectors=_NONE,
        created_at=at,
    )


def index(vectors: Vectors, *, facts: bool) -> ScopeIndex:
    """All turns in one scope, with or without the facts they state."""
    made = ScopeIndex(vectors.embedder.dim)
    items = turns()
    rows = [(item, f"{item.occurred_at:%d %B %Y}: {item.content}") for item in items]
    rows += facts_of(items) if facts else []
    for (item, _), vector in zip(rows, vectors.of([text for _, text in rows]), strict=True):
        made.put(replace(item, vectors=vector[None]))
    return made


def report(vectors: Vectors) -> None:
    """Both tables."""
    asked = vectors.of([question for _, _, question in CASES])
    for facts in (False, True):
        made = index(vectors, facts=facts)
        above, alone, wrong = 0, 0, []
        for number, ((_, _, question), vector) in enumerate(zip(CASES, asked, strict=True)):
            found = made.search(question, vector, 20, now=NOW, where=Filter())
            ids = [hit.item.source_ids[0] for hit in found]
            given = {hit.item.source_ids[0] for hit in found if hit.admitted}
            old, new = str(number), str(number + len(CASES))
            right = new in ids and (old not in ids or ids.index(new) < ids.index(old))
            above += right
            alone += old in given and new not in given
            wrong += [] if right else [question]
        print(f"{'with facts' if facts else 'turns alone'}: new above old {above} of {len(CASES)}, old alone {alone}")
        for question in wrong:
            print(f"    {question}")


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.updates", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir()) / "memory-proxy-recall")
    cache = parser.parse_args().cache
    embedder = OnnxEmbedder(prepare_model(read_registry()[DEFAULT_MODEL], cache, print))
    try:
        report(Vectors(embedder, cache / "vectors"))
    finally:
        embedder.close()


if __name__ == "__main__":
    main()
