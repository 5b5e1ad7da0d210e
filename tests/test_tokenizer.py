"""Token counts: exact where a tokenizer or the upstream is at hand, safe guesses where none is."""

from __future__ import annotations

import ast
import asyncio
import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.fake_vllm.launch import running_fake_vllm
from memory.adapters.model_files import locate
from memory.adapters.model_registry import DEFAULT_MODEL, read_registry
from memory.adapters.tokenizer import EstimatedTokens, LocalTokenizer, UpstreamTokenizer, estimate
from memory.errors import ModelFileInvalid, TokenizerUnavailable


def wordpiece() -> LocalTokenizer:
    spec = read_registry()[DEFAULT_MODEL]
    return LocalTokenizer(locate(spec, spec.file("tokenizer")).parent)


WORDPIECE = wordpiece()

PROSE = "We met at the station on a cold morning, and she told me that the keys had been in the blue bowl all along. "
CHINESE = "我们在一个寒冷的早晨在车站见面，她告诉我钥匙一直在蓝色的碗里。"


def test_local_count_ignores_the_truncation_and_padding_in_the_file() -> None:
    assert WORDPIECE.exact
    assert WORDPIECE.count("hello world") == 2
    assert WORDPIECE.count("hello " * 3_000) == 3_000


@given(text=st.text(st.characters(codec=None), max_size=300))
@settings(max_examples=100, deadline=None)
def test_local_offsets_lie_in_the_text_in_order(text: str) -> None:
    offsets = WORDPIECE.offsets(text)
    assert len(offsets) == WORDPIECE.count(text)
    assert all(0 <= low <= high <= len(text) for low, high in offsets)
    assert [low for low, _ in offsets] == sorted(low for low, _ in offsets)


def test_a_text_over_the_bound_is_refused_not_counted() -> None:
    spec = read_registry()[DEFAULT_MODEL]
    small = LocalTokenizer(locate(spec, spec.file("tokenizer")).parent, text_chars_max=100)
    with pytest.raises(TokenizerUnavailable, match="101 characters"):
        small.count("x" * 101)


def test_a_file_that_is_no_tokenizer_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(ModelFileInvalid, match=r"tokenizer\.json"):
        LocalTokenizer(tmp_path)
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(ModelFileInvalid, match=r"tokenizer\.json"):
        LocalTokenizer(tmp_path)


@pytest.mark.parametrize("text", [PROSE * 5, CHINESE * 5, inspect.getsource(ast)], ids=["prose", "chinese", "python"])
def test_estimate_is_not_below_the_count(text: str) -> None:
    assert WORDPIECE.count(text) <= estimate(text) <= 3 * WORDPIECE.count(text)


@given(text=st.text(st.characters(codec=None)), more=st.text())
def test_estimate_is_total_and_grows_with_the_text(text: str, more: str) -> None:
    assert estimate(text) <= estimate(text + more) <= estimate(text) + estimate(more)
    assert EstimatedTokens().count(text) == estimate(text)
    assert not EstimatedTokens().exact


class Upstream:
    """An upstream that answers one thing, and keeps what it was asked."""

    def __init__(self, answer: Mapping[str, Any] | Exception, delay_s: float = 0.0) -> None:
        self.asked: list[tuple[str, Mapping[str, Any]]] = []
        self._answer = answer
        self._delay_s = delay_s

    async def post_json(self, path: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
        self.asked.append((path, body))
        await asyncio.sleep(self._delay_s)
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer


def said(text: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text}]


async def test_upstream_counts_a_conversation_as_the_model_gets_it() -> None:
    upstream = Upstream({"count": 12, "max_model_len": 8192, "tokens": []})
    tools = [{"type": "function", "function": {"name": "f"}}]
    found = await UpstreamTokenizer(upstream.post_json).count_messages(
        "m", [{"role": "user", "content": "hi"}], tools=tools, chat_template_kwargs={"enable_thinking": False}
    )
    assert found == 12
    path, body = upstream.asked[0]
    assert path == "/tokenize"
    assert body["tools"] == tools
    assert body["chat_template_kwargs"] == {"enable_thinking": False}


async def test_upstream_is_asked_once_for_the_same_and_again_for_another() -> None:
    upstream = Upstream({"count": 3})
    tokenizer = UpstreamTokenizer(upstream.post_json, cache_entries=2)
    for text in ("a", "a", "b", "a", "c", "a"):
        assert await tokenizer.count_messages("m", said(text)) == 3
    assert [body["messages"] for _, body in upstream.asked] == [said("a"), said("b"), said("c")]
    await tokenizer.count_messages("other", said("a"))
    assert len(upstream.asked) == 4


@pytest.mark.parametrize(
    "upstream",
    [
        Upstream({"error": {"message": "no"}}),
        Upstream({"count": "12"}),
        Upstream({"count": True}),
        Upstream({"count": -1}),
        Upstream(ConnectionRefusedError()),
        Upstream(ValueError("not JSON")),
        Upstream({"count": 1}, delay_s=30),
    ],
    ids=["error", "text", "flag", "negative", "refused", "garbled", "late"],
)
async def test_an_upstream_that_cannot_count_is_one_fault_and_not_remembered(upstream: Upstream) -> None:
    tokenizer = UpstreamTokenizer(upstream.post_json, timeout_s=0.05)
    for _ in range(2):
        with pytest.raises(TokenizerUnavailable):
            await tokenizer.count_messages("m", said("text"))
    assert len(upstream.asked) == 2


async def test_a_count_that_much_hangs_on_may_take_longer() -> None:
    tokenizer = UpstreamTokenizer(Upstream({"count": 7}, delay_s=0.2).post_json, timeout_s=0.05)
    with pytest.raises(TokenizerUnavailable):
        await tokenizer.count_messages("m", [])
    assert await tokenizer.count_messages("m", [], within_s=30) == 7


async def test_lone_surrogates_are_counted_not_refused() -> None:
    upstream = Upstream({"count": 2})
    tokenizer = UpstreamTokenizer(upstream.post_json)
    assert await tokenizer.count_messages("m", said("a\ud800")) == 2
    assert upstream.asked[0][1]["messages"] == said("a\ud800")


async def test_counts_come_from_a_server_with_the_route() -> None:
    async with running_fake_vllm(model_names=("fake",)) as base_url, aiohttp.ClientSession(base_url) as session:

        async def post_json(path: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
            async with session.post(path, json=body) as answer:
                return dict(await answer.json())

        tokenizer = UpstreamTokenizer(post_json, timeout_s=20)
        conversation = await tokenizer.count_messages("fake", said(PROSE))
    assert conversation > 0
