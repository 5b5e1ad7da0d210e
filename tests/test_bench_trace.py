"""The replay of real traffic starts requests when the trace says, counts what fails, and judges by minutes."""

from __future__ import annotations

import asyncio
import json
import lzma
import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from bench.fake_vllm.launch import running_fake_vllm
from bench.figures import Line, any_missed, as_json, from_json, table
from bench.overhead.load import Target, Timing
from bench.overhead.processes import free_port
from bench.recall.corpus import EvalSet, Question, SetUnreadable
from bench.soak import PRESET
from bench.trace.__main__ import parse_arguments
from bench.trace.arrivals import FILES, TOKEN_CHARS, Arrival, Words, plain, read_trace
from bench.trace.bounds import bounds_of, bounds_yaml
from bench.trace.replay import Load, Sample, due, replay
from bench.trace.report import OURS, endurance, lines_of, minutes_of, summary
from bench.trace.watch import Reading, weights
from memory.config import Settings

QUESTION = Question("q", "a", "k", "Where is the violin?", frozenset(), frozenset(), True)
SAID = tuple(
    {"role": "user", "content": f"The violin number {at} is in the attic of the old house."} for at in range(50)
)
SET = EvalSet("s", {"a": SAID}, (QUESTION,))
WORDS = Words([SET], None)


def packed(folder: Path, name: str, lines: list[str]) -> Path:
    (folder / FILES[name]).write_bytes(lzma.compress("\n".join(lines).encode()))
    return folder


def lone(at_s: float) -> Arrival:
    return Arrival(at_s, "s-a", None, lambda: [{"role": "user", "content": "hello"}], lambda: "so it is", 4)


def sample(way: str, arrival: int, at_s: float, first_s: float | None, status: str = "injected; rung=full") -> Sample:
    timing = None if first_s is None else Timing(first_s, first_s + 1, True, status, 2.0)
    return Sample(way, arrival, at_s, 0.001, timing)


def test_azure_lengths_and_times_are_those_of_the_trace(tmp_path: Path) -> None:
    rows = ["TIMESTAMP,ContextTokens,GeneratedTokens"]
    rows += ["2023-11-16 18:15:46.6805900,374,44", "2023-11-16 18:15:50.9951690,396,109"]
    first, second = read_trace(packed(tmp_path, "azure", rows), "azure", WORDS)
    assert (first.at_s, round(second.at_s, 3)) == (0.0, 4.315)
    assert sum(len(message["content"]) for message in first.messages()) == 374 * TOKEN_CHARS
    assert len(second.answer()) == pytest.approx(109 * TOKEN_CHARS, abs=4)
    assert "Where is the violin?" in first.messages()[-1]["content"]
    assert first.messages()[-1]["content"] != second.messages()[-1]["content"]
    assert first.messages() == first.messages()


def test_of_more_users_than_scopes_the_others_ask_the_same_and_have_said_nothing(tmp_path: Path) -> None:
    rows = ["TIMESTAMP,ContextTokens,GeneratedTokens"]
    rows += [f"2023-11-16 18:15:{second:02}.0000000,374,44" for second in range(60)]
    words = Words([SET], None, users=3)
    arrivals = read_trace(packed(tmp_path, "azure", rows), "azure", words)
    assert {one.user for one in arrivals} == {"s-a", "s-a+1", "s-a+2"}
    assert all("Where is the violin?" in one.messages()[-1]["content"] for one in arrivals)
    assert list(words.lines) == ["s-a"], "what is imported is the scopes' own users'"
    with pytest.raises(SystemExit):
        parse_arguments(["--users", "0"])


def test_mooncake_prompts_that_share_blocks_share_bytes_and_session(tmp_path: Path) -> None:
    rows = [
        {"timestamp": at, "input_length": 512 * len(blocks), "output_length": 3, "hash_ids": blocks}
        for at, blocks in ((0, [0, 1, 2]), (500, [0, 7]), (900, [0, 1, 2, 3]))
    ]
    one, other, next_turn = read_trace(packed(tmp_path, "mooncake", [*map(json.dumps, rows)]), "mooncake", WORDS)
    assert one.session == next_turn.session != other.session
    assert one.user == next_turn.user
    assert next_turn.at_s == 0.9
    shared = one.messages()[0]["content"]
    assert next_turn.messages()[0]["content"].startswith(shared)
    assert not other.messages()[0]["content"].startswith(shared[: 600 * TOKEN_CHARS])


def test_a_dialogue_sends_back_the_answers_it_was_given(tmp_path: Path) -> None:
    said = [
        ("assistant", "cut off"),
        ("user", "one"),
        ("assistant", "eins –\nja"),
        ("user", "two"),
        ("assistant", "zwei"),
    ]
    row = {"id": "d", "messages": [{"role": role, "content": content} for role, content in said]}
    first, second = read_trace(packed(tmp_path, "sharegpt", [json.dumps(row)]), "sharegpt", WORDS)
    assert [message["content"] for message in second.messages()] == ["one", first.answer(), "two"]
    assert first.at_s < second.at_s


def test_an_answer_fits_a_header() -> None:
    assert plain("ü\n a\t\x00b  c " + "x" * 100_000).isascii()
    assert "\n" not in plain("a\nb")
    assert len(plain("x" * 100_000)) < 64_000
    assert plain("….") == "."
    assert plain("…")


def test_a_missing_trace_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(SetUnreadable, match="Azure"):
        read_trace(tmp_path, "azure", WORDS)


def test_only_what_starts_within_the_run_is_due() -> None:
    arrivals = [lone(0.0), lone(119.0), lone(120.0)]
    assert len(due(arrivals, Load(1.0, 120.0))) == 2
    assert len(due(arrivals, Load(4.0, 29.9))) == 2


async def test_requests_start_while_earlier_ones_run() -> None:
    heard: list[Sample] = []
    async with running_fake_vllm() as url:
        load = Load(1.0, 10.0, first_ms=400.0)
        began = asyncio.get_running_loop().time()
        await replay([lone(at / 100) for at in range(10)], [Target(OURS, url)], load, heard.append)
        took = asyncio.get_running_loop().time() - began
    assert len(heard) == 10
    assert all(one.timing is not None and one.timing.first_s >= 0.4 for one in heard)
    assert took < 10 * 0.4


async def test_a_way_that_does_not_answer_is_counted_and_the_others_go_on() -> None:
    heard: list[Sample] = []
    async with running_fake_vllm() as url:
        targets = [Target(OURS, f"http://127.0.0.1:{free_port()}"), Target("direct", url)]
        await replay([lone(0.0), lone(0.01)], targets, Load(1.0, 1.0), heard.append)
    whole = summary(heard, "direct")
    assert whole["errors"] == {OURS: 2}
    assert whole["requests"] == {OURS: 2, "direct": 2}
    assert whole["added_ms"] is None
    assert any_missed(lines_of(whole, [], "azure x1", "direct"))
    assert any_missed(lines_of(summary([], "direct"), [], "azure x1", "direct")), (
        "nothing was asked, so nothing is kept"
    )


def test_what_is_added_is_paired_by_arrival() -> None:
    heard = [
        sample(OURS, 0, 0, 0.012),
        sample("plain", 0, 0, 0.002),
        sample(OURS, 1, 1, 0.2),
        sample("plain", 1, 1, None),
    ]
    whole = summary(heard, "plain")
    assert whole["added_ms"] == {"p50": 10.0, "p95": 10.0, "p99": 10.0}
    assert whole["errors"] == {"plain": 1}
    assert whole["memory_status"] == {"injected; rung=full": 2}


def hour(
    minutes: int, *, rss: float = 1.0, slower: float = 1.0, dearer: float = 1.0, silent: int = 0, bare: int = 0
) -> list[dict[str, Any]]:
    """A run whose last ten minutes are so many times worse; in so many at the end nothing is answered, or
    memory is kept out.
    """
    heard: list[Sample] = []
    readings: list[Reading] = []
    cpu_s = 0.0
    for minute in range(minutes):
        late = minute >= minutes - 10
        for second in range(0, 60, 10):
            at_s = minute * 60.0 + second
            weight = {"proxy worker 1": 100.0 * (rss if late else 1.0)}
            readings.append(Reading(at_s, weight, {"proxy": cpu_s}, 0.0, 4.0, {"pending": 0}))
            cpu_s += 1.0 * (dearer if late else 1.0)
            first_s = None if minute >= minutes - silent else 0.01 * (slower if late else 1.0)
            status = "degraded; reason=store" if minute >= minutes - bare else "injected; rung=full"
            heard.append(sample(OURS, minute * 60 + second, at_s, first_s, status))
    return minutes_of(heard, readings, None)


def test_an_even_hour_is_kept() -> None:
    lines = endurance(hour(40), "azure x1")
    assert [line.kept for line in lines[:3]] == [True] * 3


@pytest.mark.parametrize(("what", "place"), [("rss", 0), ("slower", 1), ("dearer", 2)])
def test_what_grows_over_the_hour_is_missed(what: str, place: int) -> None:
    worse: dict[str, Any] = {what: 1.3}
    lines = endurance(hour(40, **worse), "azure x1")
    assert [line.kept for line in lines[:3]] == [at != place for at in range(3)]


@pytest.mark.parametrize("silent", [1, 10])
def test_minutes_without_an_answer_are_told_and_not_stumbled_over(silent: int) -> None:
    minutes = hour(40, silent=silent)
    lines = endurance(minutes, "azure x1")
    assert [line.kept for line in lines[:3]] == [True, silent < 10, True]
    assert len(endurance(minutes, "azure x1", bounded=True)) == len(lines)


def test_a_service_that_is_not_watched_is_said_to_weigh_nothing_nowhere() -> None:
    heard = [sample(OURS, minute, minute * 60.0, 0.01) for minute in range(30)]
    readings = [Reading(second * 30.0, {}, {}, 0.0, 4.0, {"pending": 7}) for second in range(60)]
    minutes = minutes_of(heard, readings, None)
    lines = lines_of(summary(heard, None), minutes, "azure x1", None)
    assert not [line.figure for line in lines if "CPU" in line.figure or "MiB" in line.figure]
    assert ("waiting in the queue at the end", "7") in [(line.figure, line.measured) for line in lines]
    assert [line.kept for line in endurance(minutes, "azure x1")] == [None]
    with pytest.raises(SystemExit):
        parse_arguments(["--url", "http://x", "--upstream", "http://y"], "python -m bench.soak", PRESET)


@pytest.mark.parametrize("bounded", [False, True])
def test_an_hour_at_whose_end_memory_is_kept_out_is_not_kept(bounded: bool) -> None:
    assert any_missed(endurance(hour(40, bare=6), "azure x1", bounded=bounded))
    assert not any_missed(endurance(hour(40, bare=5), "azure x1", bounded=bounded))


def test_with_full_caches_memory_alone_is_judged() -> None:
    grown = endurance(hour(40, rss=1.3, slower=1.3, dearer=1.3), "azure x1", bounded=True)
    assert [(line.kept, line.measured) for line in grown[:3]] == [(False, "1.300"), (None, "1.300"), (None, "1.300")]
    assert endurance(hour(40), "azure x1", bounded=True)[0].kept


def test_bounds_of_caches_reach_the_service_and_its_report() -> None:
    given = ["--hot-scope-bytes", "1000", "--ledger-bytes", "2000", "--hot-state-s", "240"]
    arguments = parse_arguments(given, "python -m bench.soak", PRESET)
    assert bounds_of(arguments) == {"hot_scope_bytes": 1000, "ledger_bytes": 2000, "hot_state_s": 240}
    settings = Settings.model_validate(yaml.safe_load(bounds_yaml(bounds_of(arguments))))
    session = settings.session
    assert (settings.ledger.cache_bytes_max, session.hot_ttl_s, session.working_ttl_s) == (2000, 240, 240)
    assert (bounds_of(parse_arguments([])), bounds_yaml({})) == ({}, "")


def test_a_short_run_is_not_judged() -> None:
    assert not any_missed(endurance(hour(12, rss=9.0), "azure x1"))
    assert endurance(hour(12), "azure x1")[0].kept is None


def test_lines_survive_json_and_a_miss_is_shouted() -> None:
    line = Line("p", "f", "<= 1", "2", False)
    assert from_json(json.loads(json.dumps(as_json([line])))) == [line]
    assert "| NO |" in table([line])


def test_every_process_is_weighed() -> None:
    found = weights(os.getpid())
    assert found[f"supervisor {os.getpid()}"] > 1


def test_what_postgres_shares_is_told_apart(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("bench.trace.watch.process_tree", lambda supervisor: {1, 2})
    monkeypatch.setattr("bench.trace.watch.kind_of", lambda pid: "backend")
    said = "Rss: 9999 kB\nPss: 3072 kB\nPss_Anon: 7 kB\nPss_Shmem: 2048 kB\n"
    monkeypatch.setattr(Path, "read_text", lambda path: said)
    assert weights(0) == {"postgres": 2.0, "postgres, shared buffers": 4.0}


def test_soak_is_an_hour_of_azure_and_can_be_shortened() -> None:
    whole = parse_arguments([], "python -m bench.soak", PRESET)
    assert (whole.trace, whole.speed, whole.minutes, whole.endurance) == ("azure", 1.0, 59.0, True)
    assert parse_arguments(["--minutes", "2"], "python -m bench.soak", PRESET).minutes == 2.0


@pytest.mark.parametrize(
    "given",
    [
        ["--speed", "0"],
        ["--url", "http://x"],
        ["--sets", "nonsense"],
        ["--trace", "x"],
        ["--url", "http://x", "--upstream", "http://y", "--ledger-bytes", "1"],
    ],
)
def test_what_cannot_be_followed_is_refused(given: list[str]) -> None:
    with pytest.raises(SystemExit) as refused:
        parse_arguments(given)
    assert refused.value.code == 2


async def test_a_request_without_an_answer_hangs_up(monkeypatch: pytest.MonkeyPatch) -> None:
    left = asyncio.Event()

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()  # to the end of what the client says
        left.set()
        writer.close()

    monkeypatch.setattr("bench.overhead.load.ANSWER_TIMEOUT_S", 0.1)
    heard: list[Sample] = []
    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    async with server:
        target = Target(OURS, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        await replay([lone(0.0)], [target], Load(1.0, 1.0), heard.append)
        async with asyncio.timeout(5):
            await left.wait()
    assert [one.timing for one in heard] == [None]
