"""What memory costs the prefix cache is counted from what vLLM says, and the estimate is the client's own prefix."""

from __future__ import annotations

import json
import urllib.request
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from bench.overhead.processes import free_port
from memory.chain import chain
from memory.config import Settings
from memory.model import SessionRef
from memory.read.conversation import Conversation
from memory.telemetry import Metrics
from proxy.cache_report import CONVERSATIONS_MAX, MESSAGES_MAX, CacheReport, CacheUse, cache_use, sent_of, shared_part
from proxy.cli.check_cache import cache_with_memory, finding_of
from proxy.wire.answer import Answer, parse_body
from proxy.wire.chat_request import ChatRequest
from tests.service_fixture import Service
from tests.test_cli_client import answering

KEY = bytes(32)
OPENING: list[dict[str, Any]] = [{"role": "user", "content": "Where is the boat?"}]
NEXT: list[dict[str, Any]] = [
    *OPENING,
    {"role": "assistant", "content": "Pier 9."},
    {"role": "user", "content": "Why?"},
]


def chat_of(messages: list[dict[str, Any]], **more: Any) -> ChatRequest:
    return ChatRequest.parse(json.dumps({"model": "m", "messages": messages, **more}).encode())


def conversation_of(messages: list[dict[str, Any]], session: int = 1) -> Conversation:
    ref = SessionRef(UUID(int=session), str(session))
    return Conversation(ref, tuple(chain(KEY, messages)), None, False, None, False)


def answer_of(prompt: object, cached: object) -> Answer:
    usage = {"prompt_tokens": prompt, "prompt_tokens_details": {"cached_tokens": cached}}
    return parse_body(json.dumps({"choices": [{"message": {"content": "a"}}], "usage": usage}).encode())


def part(before: list[dict[str, Any]], after: list[dict[str, Any]], **more: Any) -> float:
    one = sent_of(chat_of(before), conversation_of(before).digests)
    return shared_part(one, sent_of(chat_of(after, **more), conversation_of(after).digests))


def value(metrics: Metrics, name: str, **labels: str) -> float:
    return metrics.registry.get_sample_value(f"memory_proxy_{name}_total", labels) or 0.0


def test_the_request_before_and_its_answer_are_expected_to_be_cached() -> None:
    whole = sum(len(json.dumps(message)) for message in NEXT)
    own = sum(len(json.dumps(message)) for message in NEXT[:2])
    assert part(OPENING, NEXT) == pytest.approx(own / whole)
    assert part(NEXT, NEXT) == 1.0


def test_what_the_client_changed_is_not_expected_to_be_cached() -> None:
    other = [{"role": "user", "content": "Where is the ship?"}, *NEXT[1:]]
    system = {"role": "system", "content": "Be brief."}
    assert part(NEXT, other) == 0.0
    assert part([system, *OPENING], [{**system, "content": "Be long."}, *NEXT]) == 0.0
    assert part([system, *OPENING], [system, *NEXT]) > 0.5
    assert part(OPENING, NEXT, tools=[{"type": "function", "function": {"name": "look"}}]) == 0.0


def test_only_what_vllm_says_is_counted() -> None:
    assert cache_use(None, placed=0, kept=0) is None
    assert cache_use({"prompt_tokens": 100}, placed=0, kept=0) is None
    assert cache_use({"prompt_tokens": "100", "prompt_tokens_details": {"cached_tokens": 3}}, placed=0, kept=0) is None
    assert cache_use({"prompt_tokens": 100, "prompt_tokens_details": {"cached_tokens": "3"}}, placed=0, kept=0) is None
    for prompt, cached in ((10**400, 3), (100, 10**400), (100, -1)):
        usage = {"prompt_tokens": prompt, "prompt_tokens_details": {"cached_tokens": cached}}
        assert cache_use(usage, placed=0, kept=0) is None
    found = cache_use({"prompt_tokens": 100, "prompt_tokens_details": {"cached_tokens": None}}, placed=10, kept=5)
    assert found == CacheUse(100, 0, 10, 5)


@pytest.mark.parametrize(
    ("use", "client", "client_cached"),
    [(CacheUse(100, 80, 0, 0), 100, 80), (CacheUse(160, 120, 20, 40), 100, 80), (CacheUse(160, 16, 20, 40), 100, 0)],
    ids=["no memory", "memory kept", "memory lost the prefix"],
)
def test_kept_memory_is_not_taken_for_the_clients_own(use: CacheUse, client: int, client_cached: int) -> None:
    assert (use.client, use.client_cached) == (client, client_cached)


def test_a_later_request_is_counted_beside_what_was_expected() -> None:
    metrics = Metrics()
    report = CacheReport(metrics)
    report.count(chat_of(OPENING), conversation_of(OPENING), answer_of(50, 0), placed=10, kept=0)
    report.count(chat_of(NEXT), conversation_of(NEXT), answer_of(100, 64), placed=5, kept=10)
    expected = 85 * part(OPENING, NEXT)
    assert value(metrics, "prompt_cached_expected_tokens") == pytest.approx(expected)
    assert value(metrics, "prompt_tokens", part="client", request="first") == 40
    assert value(metrics, "prompt_tokens", part="client", request="later") == 85
    assert value(metrics, "prompt_tokens", part="memory", request="later") == 15
    assert value(metrics, "prompt_cached_tokens", part="client", request="later") == 54
    assert value(metrics, "prompt_cached_tokens", part="memory", request="later") == 10


def test_a_prompt_of_which_nothing_was_cached_counts_where_vllm_says_nothing_of_it() -> None:
    """In older versions: where memory lost the whole prefix, the report said nothing of it."""
    metrics, usage = Metrics(), b'"usage": {"prompt_tokens": 100, "prompt_tokens_details": null}}'
    report, choices = CacheReport(metrics), b'{"choices": [{"message": {"content": "a"}}], '
    report.count(chat_of(OPENING), conversation_of(OPENING), answer_of(50, 32), placed=0, kept=0)
    part_of_one = replace(parse_body(choices + usage), complete=False)
    report.count(chat_of(NEXT), conversation_of(NEXT), part_of_one, placed=0, kept=0)
    assert value(metrics, "prompt_tokens", part="client", request="later") == 0
    report.count(chat_of(NEXT), conversation_of(NEXT), parse_body(choices + usage), placed=0, kept=0)
    assert value(metrics, "prompt_tokens", part="client", request="later") == 100
    assert value(metrics, "prompt_cached_tokens", part="client", request="later") == 0
    assert value(metrics, "prompt_cached_expected_tokens") == pytest.approx(100 * part(OPENING, NEXT))


def test_a_server_that_says_nothing_costs_and_counts_nothing() -> None:
    metrics = Metrics()
    report = CacheReport(metrics)
    silent = parse_body(b'{"choices": [{"message": {"content": "a"}}], "usage": {"prompt_tokens": 5}}')
    report.count(chat_of(OPENING), conversation_of(OPENING), silent, placed=0, kept=0)
    report.count(chat_of(OPENING), conversation_of(OPENING), None, placed=0, kept=0)
    assert value(metrics, "prompt_tokens", part="client", request="first") == 0


def test_only_the_newest_conversations_are_remembered() -> None:
    metrics = Metrics()
    report = CacheReport(metrics)
    for session in range(CONVERSATIONS_MAX + 1):
        report.count(chat_of(OPENING), conversation_of(OPENING, session), answer_of(10, 0), placed=0, kept=0)
    report.count(chat_of(NEXT), conversation_of(NEXT, 0), answer_of(10, 0), placed=0, kept=0)
    assert value(metrics, "prompt_tokens", part="client", request="later") == 0
    report.count(chat_of(NEXT), conversation_of(NEXT, CONVERSATIONS_MAX), answer_of(10, 0), placed=0, kept=0)
    assert value(metrics, "prompt_tokens", part="client", request="later") == 10


def test_an_endless_conversation_is_not_remembered() -> None:
    metrics = Metrics()
    report = CacheReport(metrics)
    long = OPENING * MESSAGES_MAX
    for _ in range(2):
        report.count(chat_of(long), conversation_of(long), answer_of(10, 0), placed=0, kept=0)
    assert value(metrics, "prompt_tokens", part="client", request="later") == 0


def exposed(report: Metrics) -> str:
    return report.exposition().decode()


def test_the_doctor_says_what_was_counted_and_warns_of_lost_prefixes() -> None:
    metrics = Metrics()
    assert "nothing counted" in finding_of(exposed(metrics)).found
    metrics.prompt_cached_expected.inc(1_000)
    metrics.prompt_cached.labels("client", "later").inc(990)
    metrics.prompt_cached.labels("memory", "later").inc(500)
    told = finding_of(exposed(metrics))
    assert (told.level, "990" in told.found, "1,000" in told.found) == ("ok", True, True)
    metrics.prompt_cached_expected.inc(200)
    assert finding_of(exposed(metrics)).level == "warn"


def test_the_doctor_draws_nothing_from_a_first_conversation() -> None:
    metrics = Metrics()
    metrics.prompt_cached_expected.inc(71)
    metrics.prompt_cached.labels("client", "later").inc(48)
    told = finding_of(exposed(metrics))
    assert (told.level, told.mend) == ("ok", "")


async def test_the_doctor_says_that_no_service_answers() -> None:
    settings = Settings.model_validate({"listen": {"port": free_port()}})
    [told] = await cache_with_memory(settings)
    assert (told.level, "no service answers" in told.found) == ("ok", True)


async def test_the_doctor_draws_nothing_from_what_is_no_metrics() -> None:
    with answering(b"HTTP/1.1 503 Draining\r\nContent-Length: 0\r\n\r\n") as url:
        settings = Settings.model_validate({"listen": {"port": int(url.rpartition(":")[2])}})
        [told] = await cache_with_memory(settings)
    assert (told.level, told.found, told.mend) == ("ok", f"not seen: {url}/memory/metrics says 503", "")


def test_a_running_service_counts_what_vllm_says(service: Service, user: str) -> None:
    before = finding_of(_metrics(service)).found
    said: list[dict[str, Any]] = [{"role": "user", "content": f"say: The boat of {user} lies at pier nine. " * 8}]
    body = {"model": "fake-model", "messages": said}
    named = {"X_Memory_User": user, "Content_Type": "application/json"}
    answer = service.call("POST", "/v1/chat/completions", body, **named)
    said = [*said, answer["choices"][0]["message"], {"role": "user", "content": "say: Good."}]
    service.call("POST", "/v1/chat/completions", {"model": "fake-model", "messages": said}, **named)
    after = finding_of(_metrics(service)).found
    assert before != after
    assert "expected without memory" in after


def _metrics(service: Service) -> str:
    with urllib.request.urlopen(f"{service.url}/memory/metrics", timeout=10) as answer:
        return str(answer.read().decode())
