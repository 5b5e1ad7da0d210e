"""`extract.by: vllm` on the whole service: the stand-in is asked beside its users, and what it says is held to account.

One service and one stand-in for this file; the one whose upstream goes away is started by its test.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pytest

from tests.e2e.talk import ask, connected, rows
from tests.service_fixture import Service, serving, stand_in
from tests.waiting import wait_until

pytestmark = pytest.mark.long  # a service of its own

SAID = "I live in Oslo and I am learning the viola."
FACT = {
    "evidence": "I am learning the viola", "subject": "user", "predicate": "learns", "object": "viola",
    "statement": "The user is learning the viola.", "category": "fact", "cardinality": "many", "negated": False,
    "correction": False,
}  # fmt: skip
WHOLE = json.dumps({"facts": [FACT, {**FACT, "object": "trumpet"}]})
BY_VLLM = {"MEMORY_PROXY_EXTRACT__BY": "vllm"}
FACTS = (
    "SELECT v.content, substr(t.content, d.span_start + 1, d.span_end - d.span_start) AS words, p.extractor_version "
    "FROM memories m JOIN scopes s USING (tenant_id, scope_id) "
    "JOIN memory_versions v USING (tenant_id, memory_id, version) "
    "JOIN provenance p USING (tenant_id, memory_id, version) JOIN derivations d ON d.derived_id = m.memory_id "
    "JOIN turns t ON t.event_id = d.source_id WHERE m.kind = 'semantic' AND s.user_name = $1 ORDER BY t.event_id"
)


@dataclass(frozen=True)
class Asking:
    """A service that asks its upstream."""

    service: Service

    def tell(self, user: str, said: str = SAID, **headers: str) -> None:
        """One exchange, whose own answer is no JSON."""
        assert ask(self.service, said, user, x_fake_reply="Noted.", **headers).status == 200

    def background(self) -> int:
        return int(self.service.call("GET", "/memory/v1/queue")["background"])

    def done(self) -> None:
        """Wait until everything is stored and nothing waits for a model."""
        self.service.settle()
        wait_until(lambda: self.background() == 0)

    def facts(self, user: str) -> list[tuple[str, str, str]]:
        return [tuple(row) for row in asyncio.run(rows(self.service, FACTS, user))]


def control(url: str, **settings: Any) -> None:
    """How the stand-in answers from now on."""
    data = json.dumps({"reset": True, **settings}).encode()
    urllib.request.urlopen(urllib.request.Request(f"{url}/__control", data=data, method="POST")).close()


@pytest.fixture(scope="module")
def asking() -> Iterator[Asking]:
    with stand_in() as upstream, serving(upstream, env=BY_VLLM) as service:
        yield Asking(service)


def test_what_vllm_hears_is_remembered_with_the_words_it_rests_on(asking: Asking, user: str) -> None:
    control(asking.service.upstream, reply=WHOLE, first_ms=300)
    asking.tell(user)
    asking.service.settle()
    assert asking.background() == 1
    asking.done()
    assert asking.facts(user) == [("The user is learning the viola.", "I am learning the viola", "model-1")]
    metrics = urllib.request.urlopen(asking.service.url + "/memory/metrics").read().decode()
    assert 'memory_proxy_extractions_total{outcome="heard"} 1.0' in metrics
    assert 'memory_proxy_extraction_dropped_total{reason="unsupported"} 1.0' in metrics
    assert 'memory_proxy_queue_entries{state="background"} 0.0' in metrics


def test_an_answer_that_is_none_leaves_the_exchange_to_the_rules(asking: Asking, user: str) -> None:
    control(asking.service.upstream, reply='{"facts": "I shall')
    asking.tell(user)
    asking.done()
    assert asking.facts(user) == [("The user lives in Oslo.", "I live in Oslo", "rules-1")]


def test_ten_equal_exchanges_at_once_are_one_fact(asking: Asking, user: str) -> None:
    control(asking.service.upstream, reply=WHOLE)
    with ThreadPoolExecutor(10) as pool:
        list(pool.map(lambda number: asking.tell(user, session=f"s{number}"), range(10)))
    asking.done()
    found = asking.facts(user)
    assert len(found) == 10
    assert len(set(found)) == 1
    query = "SELECT count(*) FROM memories JOIN scopes s USING (tenant_id, scope_id) WHERE kind = 'semantic'"
    assert asyncio.run(rows(asking.service, f"{query} AND s.user_name = $1", user))[0][0] == 1


def test_a_worker_killed_while_it_asks_stores_the_facts_once(asking: Asking, user: str) -> None:
    control(asking.service.upstream, reply=WHOLE, next=[{}, {"first_ms": 60_000}])
    asking.tell(user)
    asking.service.settle()
    (worker,) = asking.service.children(r"-m memory worker")
    wait_until(lambda: asyncio.run(rows(asking.service, "SELECT FROM extraction_due WHERE takes = 1")))
    os.kill(worker, signal.SIGKILL)
    wait_until(lambda: asking.service.children(r"-m memory worker") not in ([], [worker]))

    async def lease_over() -> None:
        async with connected(asking.service) as connection:
            await connection.execute("UPDATE extraction_due SET taken_until = '-infinity'")

    asyncio.run(lease_over())
    asking.done()
    assert [words for _, words, _ in asking.facts(user)] == ["I am learning the viola"]


@pytest.mark.long
def test_what_waited_too_long_for_an_upstream_that_is_away_goes_to_the_rules(user: str) -> None:
    env = {**BY_VLLM, "MEMORY_PROXY_EXTRACT__DEFER_MAX_S": "4"}
    with stand_in() as upstream, serving(upstream, env=env) as service:
        asking = Asking(service)
        control(upstream, next=[{}, *[{"die": True}] * 20])
        asking.tell(user)
        asking.done()
        assert asking.facts(user) == [("The user lives in Oslo.", "I live in Oslo", "rules-1")]


@pytest.mark.long
def test_another_model_may_be_asked_instead(user: str) -> None:
    env = {"MEMORY_PROXY_EXTRACT__BY": "model", "MEMORY_PROXY_CHAT_MODEL__MODEL": "openai/fake-model"}
    with stand_in() as upstream, serving(upstream, env=env) as service:
        asking = Asking(service)
        control(upstream, reply=WHOLE)
        asking.tell(user)
        asking.done()
        assert asking.facts(user) == [("The user is learning the viola.", "I am learning the viola", "model-1")]
