"""Questions to the serving vLLM over real HTTP: bad answers, faults, load, priorities and the prefix cache."""

from __future__ import annotations

import asyncio
import base64
import json
import pickle
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import aiohttp
import pytest

from bench.fake_vllm.launch import running_fake_vllm
from memory.adapters.vllm_client import VllmClient
from memory.adapters.vllm_load import VllmLoad, read_metrics
from memory.errors import ExtractorRefused, ExtractorUnavailable
from memory.write.ask_facts import AskForm, ask_body, instruction
from memory.write.pace import Limits, Pace, SpentHere
from memory.write.read_facts import UserTurn
from memory.write.thinking import KNOWN_MAX, ThinkingOff, probe_of
from memory.write.vllm_facts import Exchange, VllmFacts

TENANT = UUID(int=1)
SAID = "I live in Oslo."
FACT = {
    "evidence": "I live in Oslo",
    "subject": "user",
    "predicate": "lives_in",
    "object": "Oslo",
    "statement": "The user lives in Oslo.",
    "category": "fact",
    "cardinality": "one",
    "negated": False,
    "correction": False,
}
REPLY = json.dumps({"facts": [FACT]})
REQUEST = json.dumps({"model": "fake-model", "messages": [{"role": "user", "content": SAID}]}).encode()
ANSWER = {"role": "assistant", "content": "Noted."}


def body_of(request: bytes = REQUEST, **form: Any) -> bytes:
    body = ask_body(request, ANSWER, AskForm(**form))
    assert body is not None
    return body


@asynccontextmanager
async def client_of(url: str, **settings: Any) -> AsyncIterator[VllmClient]:
    client = VllmClient(url, **settings)
    try:
        yield client
    finally:
        await client.close()


async def control(url: str, **settings: Any) -> None:
    async with aiohttp.ClientSession() as session, session.post(f"{url}/__control", json=settings) as answer:
        assert answer.status == 200, await answer.text()


async def bodies(url: str, count: int = 64) -> list[dict[str, Any]]:
    async with aiohttp.ClientSession() as session, session.get(f"{url}/__last", params={"n": count}) as answer:
        return [json.loads(base64.b64decode(record["body"])) for record in (await answer.json())["data"]]


class Bench:
    """Everything wired as the worker wires it."""

    def __init__(self, url: str, client: VllmClient, load: VllmLoad, **limits: Any) -> None:
        self.url, self.client, self.spends = url, client, SpentHere()
        self.pace = Pace(Limits(**limits), load, self.spends, lambda: datetime.now(UTC), poll_s=0.01)
        self.facts = VllmFacts(client, self.pace, ThinkingOff(client.token_ids), max_tokens=400)

    async def spent(self) -> int:
        return await self.spends.add(TENANT, datetime.now(UTC).date(), 0)


@asynccontextmanager
async def bench_of(
    settings: dict[str, Any] | None = None, client: dict[str, Any] | None = None, **limits: Any
) -> AsyncIterator[Bench]:
    async with running_fake_vllm(**(settings or {})) as url, client_of(url, **(client or {})) as asker:
        load = VllmLoad([f"{url}/metrics"], interval_s=0.01)
        try:
            yield Bench(url, asker, load, **limits)
        finally:
            await load.close()


def exchange(request: bytes = REQUEST, said: str = SAID, **more: Any) -> Exchange:
    return Exchange(TENANT, datetime.now(UTC), request, ANSWER, [UserTurn(said)], **more)


# ------------------------------------------------------------------ the client


async def test_priority_is_found_out_once_and_not_sent_again_where_it_is_refused() -> None:
    async with running_fake_vllm(reply=REPLY) as url, client_of(url) as client:
        assert client.priority_taken is None
        for _ in range(3):
            assert (await client.complete(body_of())).text == REPLY
        assert client.priority_taken is False
        assert ["priority" in body for body in await bodies(url)] == [True, False, False, False]


async def test_priority_is_sent_where_the_server_schedules_by_it() -> None:
    async with running_fake_vllm(scheduling_policy="priority") as url, client_of(url, priority=7) as client:
        await client.complete(body_of())
        await client.complete(body_of())
        assert client.priority_taken is True
        assert [body["priority"] for body in await bodies(url)] == [7, 7]


async def test_no_priority_is_sent_where_none_is_configured() -> None:
    async with running_fake_vllm() as url, client_of(url, priority=0) as client:
        await client.complete(body_of())
        assert ["priority" in body for body in await bodies(url)] == [False]


async def test_a_refusal_of_the_question_itself_says_nothing_about_priority() -> None:
    async with running_fake_vllm(scheduling_policy="priority", max_model_len=64) as url, client_of(url) as client:
        with pytest.raises(ExtractorRefused, match="400"):
            await client.complete(body_of())
        assert client.priority_taken is None


@pytest.mark.parametrize(
    ("fault", "raised"),
    [
        ({"status": 500}, ExtractorUnavailable),
        ({"status": 503}, ExtractorUnavailable),
        ({"status": 429}, ExtractorUnavailable),
        ({"status": 401}, ExtractorRefused),
        ({"status": 404}, ExtractorRefused),
        ({"die": True}, ExtractorUnavailable),
        ({"die_after": 1}, ExtractorUnavailable),
        ({"endless": True}, ExtractorRefused),
        ({"first_ms": 60_000}, ExtractorUnavailable),
    ],
)
async def test_every_fault_of_the_server_has_one_of_two_names(fault: dict[str, Any], raised: type[Exception]) -> None:
    async with running_fake_vllm(**fault) as url, client_of(url, priority=0, wall_s=1.0) as client:
        with pytest.raises(raised):
            await client.complete(body_of())


async def test_an_endless_answer_is_left_and_the_model_freed() -> None:
    async with running_fake_vllm(endless=True) as url, client_of(url, priority=0) as client:
        with pytest.raises(ExtractorRefused, match="more than"):
            await client.complete(body_of())
        async with aiohttp.ClientSession() as session, asyncio.timeout(10):
            running = 1
            while running:
                async with session.get(f"{url}/__counters") as answer:
                    running = (await answer.json())["running"]


async def test_a_server_that_is_not_there_is_unavailable() -> None:
    async with client_of("http://127.0.0.1:9") as client:
        with pytest.raises(ExtractorUnavailable):
            await client.complete(body_of())


async def test_the_key_of_the_upstream_is_sent() -> None:
    async with running_fake_vllm(api_key="k") as url:
        async with client_of(url, api_key="k") as client:
            assert (await client.complete(body_of())).text == '{"facts": []}'
        async with client_of(url) as client:
            with pytest.raises(ExtractorRefused, match="401"):
                await client.complete(body_of())


async def test_reasoning_stands_in_for_an_answer_without_content() -> None:
    async with running_fake_vllm(reasoning=5, tokens=0) as url, client_of(url) as client:
        assert (await client.complete(body_of(schema=False))).text.startswith("The quick")


# ------------------------------------------------------------------ thinking


@pytest.mark.parametrize(("template", "way"), [("none", "template"), ("tail", "template"), ("head", "grammar")])
async def test_thinking_is_turned_off_where_it_keeps_the_prefix(template: str, way: str) -> None:
    async with running_fake_vllm(thinking_template=template) as url, client_of(url) as client:
        thinking = ThinkingOff(client.token_ids)
        assert await thinking.way(REQUEST) == way
        await control(url, status=500)
        assert await thinking.way(REQUEST) == way


async def test_a_server_without_a_tokenizer_route_is_asked_by_the_template() -> None:
    async def refuses(_: Any) -> list[int]:
        raise ExtractorRefused("404")

    assert await ThinkingOff(refuses).way(REQUEST) == "template"


async def test_what_a_client_sends_in_a_template_is_not_kept_by_what_is_known_of_it() -> None:
    """256 templates of 4 MB would be a gigabyte, and the words in their arguments would outlive who is forgotten."""

    async def ids(_: Any) -> list[int]:
        return [1]

    thinking = ThinkingOff(ids)
    asked = {"model": "m", "messages": [], "chat_template": "{{ words }}" * 200}
    for number in range(KNOWN_MAX + 9):
        request = json.dumps({**asked, "chat_template_kwargs": {"words": f"Ada is ill {number}"}}).encode()
        assert await thinking.way(request) == "template"
        thinking.correct(request, "grammar")
        assert await thinking.way(request) == "grammar"
    for number in range(9):
        thinking.correct(json.dumps({**asked, "reasoning_effort": str(number)}).encode(), "grammar")
    assert len(thinking._known) <= KNOWN_MAX
    assert len(pickle.dumps(thinking._known)) < 100 * KNOWN_MAX


def test_the_probe_asks_about_the_arguments_that_were_served() -> None:
    request = {"model": "m", "messages": [], "reasoning_effort": "low", "chat_template_kwargs": {"x": 1}}
    probe = probe_of(json.dumps(request).encode())
    assert probe is not None
    assert probe.served["chat_template_kwargs"] == {"enable_thinking": True, "x": 1, "reasoning_effort": "low"}
    assert probe.without["chat_template_kwargs"]["enable_thinking"] is False
    assert probe.served["add_generation_prompt"] is False
    request["chat_template_kwargs"] = {"enable_thinking": False}
    assert probe_of(json.dumps(request).encode()) is None


# ------------------------------------------------------------------ an exchange


@pytest.mark.parametrize(
    "reply",
    [
        REPLY,
        f"```json\n{REPLY}\n```",
        f"Here you are:\n{REPLY}\nAnything else?",
        f"<think>They live {{somewhere}}.</think>\n{REPLY}",
        REPLY[:-1],
    ],
)
async def test_facts_are_heard_through_whatever_surrounds_them(reply: str) -> None:
    async with bench_of({"reply": reply}) as bench:
        outcome = await bench.facts.ask(exchange())
        assert outcome.why == "heard"
        assert outcome.heard is not None
        (found,) = outcome.heard.found
        assert SAID[slice(*found.fact.span)] == "I live in Oslo"
        assert outcome.questions == 1
        assert 0 < await bench.spent() <= outcome.prompt_tokens + 100


@pytest.mark.parametrize("reply", ["I would rather not.", '{"facts": [', "", "<think>so"])
async def test_a_useless_answer_is_asked_for_once_more_in_other_words(reply: str) -> None:
    async with bench_of({"reply": reply}) as bench:
        outcome = await bench.facts.ask(exchange())
        assert (outcome.why, outcome.heard, outcome.questions) == ("unusable", None, 2)
        first, second = [body["messages"][-1]["content"] for body in await bodies(bench.url, 2)]
        assert first == instruction(AskForm())
        assert second == instruction(AskForm(again=True))


async def test_a_second_answer_that_is_one_is_taken() -> None:
    async with bench_of(client={"priority": 0}) as bench:
        await control(bench.url, next=[{"reply": "Hm."}, {"reply": REPLY}])
        outcome = await bench.facts.ask(exchange())
        assert (outcome.why, outcome.questions) == ("heard", 2)


async def test_a_way_that_gives_no_answer_is_left_for_the_other_and_that_is_remembered() -> None:
    async with bench_of({"thinking_template": "head"}, {"priority": 0}) as bench:
        await control(bench.url, next=[{"reply": ""}, {"reply": REPLY}, {"reply": REPLY}])
        assert (await bench.facts.ask(exchange())).questions == 2
        assert (await bench.facts.ask(exchange())).questions == 1
        ways = [body.get("include_reasoning") for body in await bodies(bench.url)]
        assert ways == [False, None, None]


async def test_a_guess_of_the_model_is_no_fact() -> None:
    guessed = json.dumps({"facts": [{**FACT, "evidence": "You must be a carpenter", "object": "carpenter"}]})
    async with bench_of({"reply": guessed}) as bench:
        outcome = await bench.facts.ask(exchange())
        assert outcome.heard is not None
        assert outcome.heard.dropped == {"not_said": 1}


async def test_a_refused_question_is_left_to_the_heuristic_path_at_once() -> None:
    async with bench_of({"max_model_len": 64}) as bench:
        assert (await bench.facts.ask(exchange())).why == "refused"
        assert (await bench.facts.ask(exchange(request=b"{}"))).why == "not_askable"
        assert (await bench.facts.ask(exchange(request=b"no"))).why == "not_askable"
        assert bench.pace.running == 0


async def test_a_server_that_is_away_lets_the_exchange_come_again_and_costs_the_budget() -> None:
    async with bench_of({"status": 500}) as bench:
        with pytest.raises(ExtractorUnavailable):
            await bench.facts.ask(exchange())
        assert await bench.spent() == 400
        assert bench.pace.running == 0


async def test_the_day_of_a_tenant_ends_with_its_tokens() -> None:
    async with bench_of({"reply": REPLY}, tokens_per_day=10) as bench:
        assert (await bench.facts.ask(exchange())).why == "heard"
        now = datetime.now(UTC)
        if (now.hour, now.minute) < (23, 44):
            assert (await bench.facts.ask(exchange())).why == "late"


async def test_nearly_all_of_the_prompt_of_a_long_conversation_comes_from_the_cache() -> None:
    async with bench_of({"reply": REPLY, "thinking_template": "tail"}) as bench:
        words = " ".join(f"word{n}" for n in range(1800))
        served = {
            "model": "fake-model",
            "cache_salt": "tenant",
            "tools": [{"type": "function", "function": {"name": "weather", "parameters": {}}}],
            "messages": [{"role": "system", "content": words}, {"role": "user", "content": SAID}],
            "temperature": 0.7,
            "max_tokens": 5,
        }
        raw = json.dumps(served).encode()
        chat = f"{bench.url}/v1/chat/completions"
        async with aiohttp.ClientSession() as session, session.post(chat, json=served) as answer:
            message = (await answer.json())["choices"][0]["message"]
        outcome = await bench.facts.ask(Exchange(TENANT, datetime.now(UTC), raw, message, [UserTurn(SAID)]))
        assert outcome.prompt_tokens > 1000
        assert outcome.cached_tokens >= 0.9 * outcome.prompt_tokens
        without_salt = await bench.facts.ask(
            Exchange(TENANT, datetime.now(UTC), raw, message, [UserTurn(SAID)], salt="another")
        )
        assert without_salt.cached_tokens == 0


# ------------------------------------------------------------------ the load


async def test_questions_pause_while_requests_wait() -> None:
    async with bench_of({"reply": REPLY}) as bench:
        await control(bench.url, waiting=3)
        task = asyncio.create_task(bench.facts.ask(exchange()))
        await asyncio.sleep(0.1)
        assert await bodies(bench.url) == []
        await control(bench.url, waiting=0)
        assert (await task).why == "heard"


async def test_a_running_question_gives_way_and_comes_again() -> None:
    async with bench_of({"reply": REPLY}, {"priority": 0}) as bench:
        await control(bench.url, next=[{"first_ms": 60_000}])
        task = asyncio.create_task(bench.facts.ask(exchange()))
        async with asyncio.timeout(10):
            while not await bodies(bench.url):
                await asyncio.sleep(0.01)
        await control(bench.url, waiting=1)
        await asyncio.sleep(0.2)
        await control(bench.url, waiting=0)
        outcome = await task
        assert (outcome.why, outcome.yielded, outcome.questions) == ("heard", 1, 1)


async def test_a_load_that_cannot_be_read_is_busy() -> None:
    async with running_fake_vllm() as url:
        for addresses in (["http://127.0.0.1:9/metrics"], [f"{url}/health"], [f"{url}/nothing"]):
            load = VllmLoad([f"{url}/metrics", *addresses])
            assert await load.busy(0)
            await load.close()


async def test_without_addresses_only_the_other_voice_is_heard() -> None:
    assert not await VllmLoad([]).busy(0)
    assert await VllmLoad([], rising=lambda: True).busy(0)


async def test_requests_of_others_count_and_ours_do_not() -> None:
    async with running_fake_vllm(first_ms=60_000) as url, aiohttp.ClientSession() as session:
        load = VllmLoad([f"{url}/metrics"], running_max=0, interval_s=0)
        assert not await load.busy(0)
        request = {"messages": [{"role": "user", "content": "hi"}]}
        task = asyncio.create_task(session.post(f"{url}/v1/chat/completions", json=request).__aenter__())
        async with asyncio.timeout(10):
            while not await load.busy(0):
                await asyncio.sleep(0.01)
        assert not await load.busy(1)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await load.close()


async def test_the_metrics_are_read_at_most_once_in_an_interval() -> None:
    async with running_fake_vllm() as url:
        load = VllmLoad([f"{url}/metrics"], interval_s=3600)
        assert not await load.busy(0)
        await control(url, waiting=1)
        assert not any(await asyncio.gather(*(load.busy(0) for _ in range(5))))
        await load.close()


def test_metrics_of_several_engines_are_summed_and_odd_lines_passed_over() -> None:
    text = (
        "# HELP vllm:num_requests_waiting x\n"
        'vllm:num_requests_waiting{engine="0",model_name="a } b"} 1.0\n'
        'vllm:num_requests_waiting{engine="1"} 2e0 1700000000\n'
        'vllm:num_requests_waiting_by_reason{reason="x"} 9\n'
        "vllm:num_requests_running nonsense\n"
        'vllm:time_to_first_token_seconds_sum{a="b"} 3.5\n'
        "vllm:time_to_first_token_seconds_count 7\r\n\x00{{{ 1\n"
    )
    found = read_metrics(text)
    assert (found.waiting, found.running, found.first_sum_s, found.first_count) == (3.0, None, 3.5, 7.0)
    assert read_metrics("").waiting is None
