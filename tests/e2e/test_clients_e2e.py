"""Requests as agents and libraries make them: what is learnt of them is what a person said. docs/clients.md runs as it
stands.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.talk import Message, ask, sessions, turn
from tests.e2e.upstreams import last
from tests.service_fixture import Service

PAGE = (Path(__file__).parent.parent.parent / "docs" / "clients.md").read_text("utf-8")
PAGES_WORDS = "My name is Bob and I live in Oslo."
RULES = "To suggest changes to a file you MUST return the entire content of the updated file.\nNEVER skip a line."
ANSWER = "A fine name for a cat, and one that she will hear from afar when her supper is ready."
FILES = "I have *added these files to the chat* so you can go ahead and edit them.\n\nNOTES.md\n```\n{}\n```\n"

Conversation = list[list[Message]]


def grown(*said: Message) -> Conversation:
    """The requests of a conversation: one for each user's message that is not answered from the client's side."""
    return [list(said[: at + 1]) for at, one in enumerate(said) if one["role"] == "user"]


AUTOGEN = grown(
    turn("user", "My cat is called Mina.\nsay: A fine name.", name="user"),
    turn("assistant", "A fine name.", name="helper"),
    turn("user", "Where does she live?\nsay: In Whitby.", name="user"),
)
INSTRUCTOR = grown(
    turn("user", 'My cat is called Mina.\nsay: {"cat": 1}'),
    turn("assistant", '{"cat": 1}'),
    turn(
        "user",
        "Correct your JSON ONLY RESPONSE, based on the following errors:\n1 validation error for Cat\nname\n"
        '  Field required\nsay: {"cat": 1, "name": "Mina"}',
    ),
)
AIDER = [
    [
        turn("user", FILES.format(PAGES_WORDS)),
        turn("assistant", "Ok, any changes I propose will be to those files."),
        turn("user", f"My cat is called Mina.\nsay: {ANSWER}\n\n{RULES}"),
    ],
    [
        turn("user", f"My cat is called Mina.\nsay: {ANSWER}"),
        turn("assistant", ANSWER),
        turn("user", f"I ran this command:\n\ncat NOTES.md\n\nAnd got this output:\n\n{PAGES_WORDS}\n"),
        turn("assistant", "Ok."),
        turn("user", FILES.format(PAGES_WORDS)),
        turn("assistant", "Ok, any changes I propose will be to those files."),
        turn("user", f"Where does she live?\nsay: In Whitby.\n\n{RULES}"),
    ],
]
LLAMAINDEX = [
    [
        turn("system", "You are an expert Q&A system that is trusted around the world."),
        turn(
            "user",
            f"Context information is below.\n-----\n{PAGES_WORDS}\n-----\nGiven the context information and not prior"
            " knowledge, answer the query.\nQuery: My cat is called Mina. Where does she live?\nAnswer: ",
        ),
    ],
    [
        turn(
            "user",
            "You are an expert Q&A system that strictly operates in two modes when refining existing answers:\n1."
            f" **Rewrite** an original answer.\nNew Context: {PAGES_WORDS}\nQuery: My cat is called Mina. Where does"
            f" it lie?\nOriginal Answer: {PAGES_WORDS}\nNew Answer: ",
        )
    ],
]
REACT = [
    [
        turn(
            "user",
            "Answer the following questions as best you can. You have access to the following tools:\n\n"
            "search: finds\n\nQuestion: the input question you must answer\nObservation: the result of the action\n\n"
            "Begin!\n\nQuestion: My cat is called Mina. Where does she live?\nThought: I search.\nAction: search\n"
            f"Observation: {PAGES_WORDS}\nThought:",
        )
    ]
]


def memories(service: Service, user: str, **of: str) -> list[str]:
    """The contents of a user's memories that have these members."""
    listed = service.call("GET", "/memory/v1/memories?limit=1000", X_Memory_User=user)["data"]
    return [one["content"] for one in listed if of.items() <= one.items()]


@pytest.mark.parametrize(
    ("requests", "conversations"),
    [(AUTOGEN, 1), (INSTRUCTOR, 1), (AIDER, 1), (LLAMAINDEX, 2), (REACT, 1)],
    ids=["autogen", "instructor", "aider", "llamaindex", "react"],
)
def test_what_a_person_said_through_a_library_is_learnt_and_nothing_else(
    service: Service, user: str, requests: Conversation, conversations: int
) -> None:
    for messages in requests:
        assert ask(service, messages, user).status == 200
        service.settle()
    assert memories(service, user, kind="semantic") == ["The user's cat is called Mina."]
    said = "\n".join(memories(service, user, kind="episodic", role="user"))
    assert "My cat is called Mina." in said
    assert not any(one in said for one in ("Oslo", "MUST", "RESPONSE", "user: ", "strictly", "best you can"))
    assert len(sessions(service, user)) == conversations


def test_a_title_that_a_client_asks_for_behind_the_talk_is_given_no_memory_and_leaves_none(
    service: Service, upstream: str, user: str
) -> None:
    ask(service, "My grandmother's cottage is in Lofthus.\nsay: Noted.", user)
    service.settle()
    talk = [turn("user", "Where is my grandmother's cottage?\nsay: In Lofthus."), turn("assistant", "In Lofthus.")]
    ask(service, talk[:1], user)
    title = "Please generate a four to five word title summarizing our conversation without any lead-in.\nsay: T"
    ask(service, [*talk, turn("user", title)], user)
    assert last(upstream)[0].json["messages"][-1]["content"] == title
    service.settle()
    assert not any("title" in one or one == "T" for one in memories(service, user, kind="episodic"))


def test_the_page_runs(service: Service, user: str) -> None:
    (block,) = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    block = block.replace("http://127.0.0.1:8080", service.url).replace("your-model", "fake-model").replace("ada", user)
    names: dict[str, Any] = {}
    exec(compile(block, "docs/clients.md", "exec"), names)
    names["client"].close()
    service.settle()
    assert memories(service, user, kind="semantic") == ["The user's cat is called Mina."]
    assert len(sessions(service, user)) == 1
