"""Admission where a scope is new: what the user told is given back, and nothing else is. Real embedder, real index."""

import asyncio
import os
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from memory.adapters.embedder import OnnxEmbedder
from memory.adapters.model_files import default_cache_dir, prepare_model
from memory.adapters.model_registry import DEFAULT_MODEL, read_registry
from memory.ids import new_id
from memory.read.index import ScopeIndex
from memory.read.items import Filter, IndexItem
from memory.write.windows import dated

NOW = datetime(2026, 11, 21, tzinfo=UTC)
TALK = [
    ("user", "My boat is called Halcyon and it lies in Marseille."),
    ("assistant", "What a lovely name! Marseille is a great place to sail from."),
    ("user", "I live in Lisbon."),
    ("assistant", "Lisbon is a beautiful city on the Tagus."),
    ("user", "My dog Biscuit is allergic to chicken."),
    ("assistant", "I'll keep in mind that Biscuit must not eat chicken."),
    ("user", "I work as a nurse on the night shift."),
    ("assistant", "That must be tiring; thank you for your work."),
    ("user", "I prefer answers in metric units, please."),
    ("assistant", "Sure, metric it is."),
]
ABOUT_IT = {
    "What is my boat called?": 0,
    "Where is my boat?": 0,
    "What is the weather like where I live?": 2,
    "Where is my home?": 2,
    "Which is my home town?": 2,
    "Where do I live?": 2,
    "What should I feed my dog?": 4,
    "What is my dog's name?": 4,
    "Can Biscuit have chicken nuggets?": 4,
    "What do I do for a living?": 6,
    "When do I sleep?": 6,
    "What is my job?": 6,
}
UNRELATED = [
    "Write a haiku about autumn.",
    "What is 2+2?",
    "Explain how TCP congestion control works.",
    "Write a python function that reverses a list.",
    "Who won the world cup in 1998?",
    "Translate 'good morning' to French.",
    "Hello!",
    "hi",
    "Thanks!",
    "Give me a recipe for pancakes.",
    "Summarize the plot of Hamlet.",
    "How do I center a div in CSS?",
    "What is the capital of Australia?",
    "Tell me a joke.",
]
SIZES = [(start, size) for size in (2, 4, 10) for start in range(0, 11 - size, 2)]


@pytest.fixture(scope="module")
def embedder() -> Iterator[OnnxEmbedder]:
    made = OnnxEmbedder(prepare_model(read_registry()[DEFAULT_MODEL], default_cache_dir(os.environ), lambda _: None))
    yield made
    made.close()


@pytest.fixture(scope="module", params=SIZES, ids=lambda at: f"{at[1]}-from-{at[0]}")
def scope(request: pytest.FixtureRequest, embedder: OnnxEmbedder) -> tuple[ScopeIndex, list[str]]:
    start, size = request.param
    index, session, said = ScopeIndex(embedder.dim), new_id(), TALK[start : start + size]
    vectors = asyncio.run(embedder.embed_documents([dated(text, NOW) for _, text in said]))
    for seq, (role, text) in enumerate(said):
        index.put(
            IndexItem(
                memory_id=new_id(),
                kind="episodic",
                role=role,
                content=text,
                context="\n".join(before for _, before in said[max(0, seq - 2) : seq]),
                occurred_at=NOW,
                session_id=session,
                seq=seq,
                integrity=role,
                sensitivity="internal",
                importance=0.5,
                expires_at=None,
                scope_id=1,
                source_ids=(text,),
                event_ids=(new_id(),),
                windows=((0, len(text)),),
                vectors=vectors[seq : seq + 1],
            )
        )
    return index, [text for _, text in said]


def admitted(index: ScopeIndex, embedder: OnnxEmbedder, question: str) -> set[str]:
    vector = asyncio.run(embedder.embed_query(question))
    return {hit.item.content for hit in index.search(question, vector, 10, now=NOW, where=Filter()) if hit.admitted}


def test_what_was_told_is_given_back(scope: tuple[ScopeIndex, list[str]], embedder: OnnxEmbedder) -> None:
    index, said = scope
    missed = [
        q for q, at in ABOUT_IT.items() if TALK[at][1] in said and TALK[at][1] not in admitted(index, embedder, q)
    ]
    assert not missed


def test_an_unrelated_question_gets_nothing(scope: tuple[ScopeIndex, list[str]], embedder: OnnxEmbedder) -> None:
    index, _ = scope
    given = {question: found for question in UNRELATED if (found := admitted(index, embedder, question))}
    assert not given
