"""A conversation that rests for a while is told as one episode, listed and exported, and not recalled."""

from __future__ import annotations

import urllib.request
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest

from tests.e2e.talk import ask, found, turn
from tests.service_fixture import Service
from tests.waiting import wait_until

OwnService = Callable[..., AbstractContextManager[Service]]
SOON = {"MEMORY_PROXY_EPISODE__IDLE_S": "4", "MEMORY_PROXY_EPISODE__SWEEP_S": "0.1"}


def episodes(service: Service, user: str) -> list[Any]:
    """The episodes of a user, as the API lists them."""
    listed = service.call("GET", "/memory/v1/memories?kind=episodic&limit=200", X_Memory_User=user)["data"]
    return [one for one in listed if one["collection"] == "episode"]


def told(service: Service) -> bool:
    """Whether both conversations of the test were looked at, the one that leaves nothing too."""
    shown = urllib.request.urlopen(service.url + "/memory/metrics", timeout=30).read().decode()
    return all(f'memory_proxy_episodes_total{{what="{what}"}} 1.0' in shown for what in ("stored", "empty"))


@pytest.mark.long
def test_a_conversation_that_rests_is_told_once(own_service: OwnService, user: str) -> None:
    with own_service(env=SOON) as service:
        said = [turn("user", "My parser in src/parse.py crashes on empty files.\nsay: Check the length first.")]
        first = ask(service, said, user)
        said += [turn("assistant", first.text), turn("user", "That fixed it, thanks!\nsay: Good to hear.")]
        ask(service, said, user, session=first.session)
        ask(service, "hi", user, session="greeting")
        service.settle()
        wait_until(lambda: told(service), what="the episode is told")
        (one,) = episodes(service, user)
        about = one["attributes"]
        assert (about["outcome"], about["outcome_evidence"]["reason"]) == ("success", "user_confirmed")
        assert (about["task_type"], about["files"], about["turns"]) == ("coding", ["src/parse.py"], 4)
        assert about["tokens"]["total_tokens"] > 0 and about["duration_s"] >= 0
        assert one["content"] not in found(service, "Why does the parser crash on empty files?", user)
