"""A small document is placed whole in the conversation that it was given in, once, and nowhere else."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest

from tests.e2e.talk import Message, ask, turn
from tests.e2e.test_documents_e2e import call, upload
from tests.e2e.upstreams import last
from tests.service_fixture import Service

HEADING = "From a document that this conversation was given:\n"
BERTH = "A berth on the east pier costs two hundred and forty euros a month."
PIRAN = "The harbour master of Piran is called Halcyon Vidmar."
GUIDE = f"# Piran\n\n{PIRAN}\n\n## Berths\n\n{BERTH}\n"
FIRST = [turn("user", "Good morning to you.\nsay: Good morning.")]
SECOND: list[Message] = [*FIRST, turn("assistant", "Good morning."), turn("user", "Sing something.\nsay: La.")]
THIRD: list[Message] = [*SECOND, turn("assistant", "La."), turn("user", "And louder!")]


def content(upstream: str, at: int = -1) -> str:
    """A message of the request that went upstream last."""
    said: str = last(upstream)[0].json["messages"][at]["content"]
    return said


def test_it_stands_whole_in_its_conversation_once_and_in_no_other(service: Service, upstream: str, user: str) -> None:
    upload(service, user, GUIDE, session="harbour")
    asked = ask(service, FIRST, user, session="harbour")
    block = content(upstream)
    assert block.count(HEADING) == 1 and PIRAN in block and BERTH in block, "whatever was asked"
    service.settle()
    ask(service, SECOND, user, session="harbour")
    assert content(upstream, 0) == block and HEADING not in content(upstream), "it stands, and is not said again"
    ask(service, FIRST, user, session="another")
    assert BERTH not in content(upstream)
    record = call(service, "GET", f"/memory/v1/retrievals/{asked.memory('retrieval')}", user)[1]
    assert all(one["section"] == "given" for one in record["candidates"] if one["injected"])
    replayed = call(service, "GET", f"/memory/v1/replay/{asked.memory('retrieval')}", user)[1]
    assert replayed["identical"] is True


def test_one_given_in_the_middle_stands_from_the_next_message_on(service: Service, upstream: str, user: str) -> None:
    session = ask(service, FIRST, user).session
    service.settle()
    upload(service, user, GUIDE, session=session)
    ask(service, SECOND, user)
    assert HEADING in content(upstream) and BERTH in content(upstream)


def test_its_next_version_is_said_as_far_as_it_differs_and_a_deleted_one_is_taken_out(
    service: Service, upstream: str, user: str
) -> None:
    said = upload(service, user, GUIDE, session="harbour")
    ask(service, FIRST, user, session="harbour")
    service.settle()
    upload(service, user, GUIDE.replace("forty", "fifty"), session="harbour")
    ask(service, SECOND, user, session="harbour")
    assert "two hundred and fifty euros" in content(upstream)
    service.settle()
    assert call(service, "DELETE", f"/memory/v1/documents/{said['id']}", user)[0] == 200
    ask(service, THIRD, user, session="harbour")
    assert "euros" not in json.dumps(last(upstream)[0].json)


def test_a_large_one_and_one_that_is_never_to_be_whole_are_found_by_what_is_asked(
    service: Service, upstream: str, user: str
) -> None:
    large = GUIDE + "\n\n".join(
        f"The boat of pier {n} is painted in colour number {n} of the chart." for n in range(400)
    )
    assert upload(service, user, large, "large.md", session="harbour")["given"] == "retrieved"
    assert upload(service, user, GUIDE, "never.md", session="harbour", inline="never")["given"] == "retrieved"
    ask(service, FIRST, user, session="harbour")
    assert HEADING not in content(upstream)
    ask(service, "What does a berth on the east pier cost?", user, session="harbour")
    assert BERTH in content(upstream) and HEADING not in content(upstream)


@pytest.mark.long
def test_it_stands_after_a_restart_that_lost_redis(
    own_service: Callable[..., AbstractContextManager[Service]], upstream: str, user: str
) -> None:
    with own_service() as service:
        session = ask(service, FIRST, user).session
        service.settle()
        upload(service, user, GUIDE, session=session)
        service.stop()
        shutil.rmtree(service.data / "valkey")
        service.restart()
        ask(service, SECOND, user, session=session)
        assert HEADING in content(upstream) and BERTH in content(upstream)


def test_a_forgotten_conversation_leaves_the_document_and_no_trace_of_itself(service: Service, user: str) -> None:
    said = upload(service, user, GUIDE, session="harbour")
    ask(service, FIRST, user, session="harbour")
    service.settle()
    receipt = service.forget({"session": "harbour"}, X_Memory_User=user)
    assert receipt["complete"] is True, receipt
    status, document = call(service, "GET", f"/memory/v1/documents/{said['id']}", user)
    assert status == 200 and document["session"] is None
