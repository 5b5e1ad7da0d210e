"""A procedure taught in one chat is given to another chat that asks for it, once, in its latest wording."""

from __future__ import annotations

from typing import Any

from tests.e2e.talk import ask, found, turn
from tests.e2e.upstreams import last
from tests.service_fixture import Service

TAUGHT = "To deploy the billing service: 1. run the smoke tests 2. drain the queue 3. push the image to Lofthus"
ANEW = "To deploy the billing service: 1. freeze the branch 2. tag the release 3. run the pipeline"
QUESTION = "How do I deploy the billing service?"


def say(service: Service, text: str, user: str) -> None:
    ask(service, f"{text}\nsay: Noted.", user)
    service.settle()


def procedures(service: Service, user: str) -> list[Any]:
    listed = service.call("GET", "/memory/v1/memories?kind=procedural", X_Memory_User=user)
    return list(listed["data"])


def block(service: Service, upstream: str, user: str) -> str:
    """What another chat of the user is given with the question, once the service has seen the last change."""
    found(service, QUESTION, user)
    ask(service, QUESTION, user)
    return str(last(upstream)[0].json["messages"][-1]["content"])


def test_another_chat_is_given_what_one_was_taught(service: Service, upstream: str, user: str) -> None:
    say(service, TAUGHT, user)
    given = block(service, upstream, user)
    assert "How to deploy the billing service:\n| 1. run the smoke tests\n| 2. drain the queue\n| 3. push the" in given
    assert given.count("drain the queue") == 1  # and not its turn beside it
    assert "drain the queue" not in block(service, upstream, f"{user}-other")


def test_the_chat_in_which_it_was_taught_is_not_told_again(service: Service, upstream: str, user: str) -> None:
    taught = turn("user", f"{TAUGHT}\nsay: Noted.")
    first = ask(service, [taught], user)
    service.settle()
    found(service, QUESTION, user)
    ask(service, [taught, turn("assistant", first.text), turn("user", QUESTION)], user)
    assert "How to deploy" not in last(upstream)[0].json["messages"][-1]["content"]


def test_what_was_taught_anew_is_given_and_the_old_is_not(service: Service, upstream: str, user: str) -> None:
    say(service, TAUGHT, user)
    say(service, ANEW, user)
    given = block(service, upstream, user)
    assert given.count("freeze the branch") == 1
    assert "drain the queue" not in given
    (old,) = [one for one in procedures(service, user) if one["superseded_by"]]
    assert (old["superseded_reason"], old["attributes"]["state"]) == ("taught anew", "approved")


def test_what_the_assistant_or_a_quotation_says_teaches_nothing(service: Service, user: str) -> None:
    ask(service, f"What did the manual say?\nsay: {TAUGHT}", user)
    ask(service, f"Summarize the following text:\n{TAUGHT}\nsay: It is about deploying.", user)
    ask(service, f'He wrote "{TAUGHT}" and left.\nsay: Did he?', user)
    service.settle()
    assert procedures(service, user) == []


def test_a_rejected_procedure_and_a_hidden_turn_are_given_no_more(service: Service, upstream: str, user: str) -> None:
    say(service, TAUGHT, user)
    (one,) = procedures(service, user)
    path = f"/memory/v1/memories/{one['id']}"
    said = service.call(
        "PATCH", path, {"validation_status": "rejected"}, X_Memory_User=user, If_Match=str(one["version"])
    )
    assert (said["attributes"]["state"], said["attributes"]["reason"]) == ("retired", "rejected in review")
    assert "How to deploy" not in block(service, upstream, user)
    say(service, TAUGHT + "!", user)
    assert "How to deploy" in block(service, upstream, user)
    kept = service.call("GET", "/memory/v1/memories?kind=episodic&limit=100", X_Memory_User=user)["data"]
    for one in kept:
        if "drain the queue" in one["content"]:
            service.call("DELETE", f"/memory/v1/memories/{one['id']}", X_Memory_User=user)
    assert procedures(service, user) == []
    assert "drain the queue" not in block(service, upstream, user)
