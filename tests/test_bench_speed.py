"""What the proxy costs is judged by what was asked: each bound can be missed, and what was left out is said."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from aiohttp import test_utils, web

from bench import capture, series_plot
from bench.fake_vllm.launch import running_fake_vllm
from bench.figures import Line
from bench.overhead.load import Target
from bench.overhead.measure import Latency, Pace, Plan, Questions, TargetFailed
from bench.overhead.report import BASELINE, DIRECT
from bench.own_valkey import own_valkey
from bench.rivals import RIVALS, Rival, RivalLeftOut, programs_of
from bench.search_times import growth
from bench.search_times.calls import Timed
from bench.search_times.fill import FILLER_MEMORIES
from bench.search_times.measure import Hot
from bench.speed import __main__ as speed
from bench.speed.__main__ import parse_arguments, scope_held
from bench.speed.measure import Repeated, measure_paired, stage_sums, stages_between
from bench.speed.report import CONTROL, OFF, ON, READ, REPEATED, WRITE, lines_of

EMBEDDING = {"p50": 4.0, "p99": 9.0}


def added(p10: float, p50: float, p99: float) -> dict[str, Any]:
    return {
        "ttft_ms": {"p10": 1 + p10, "p50": 1 + p50, "p99": 1 + p99},
        "added_ms": {"p10": p10, "p50": p50, "p99": p99},
        "errors": 0,
        "memory_status": {"injected": 3},
    }


def level(streams_per_s: float, cpu: float) -> dict[str, Any]:
    return {"64": {"streams_per_s": streams_per_s, "errors": 0, "cpu_ms_per_stream": cpu, "cpu_ms_by_kind_settled": {}}}


def found(**changes: Any) -> dict[str, Any]:
    """A run that keeps everything, but for what is changed."""
    latency = {
        DIRECT: added(0, 0, 0),
        CONTROL: added(-0.1, 0, 1.0),
        BASELINE: added(0.8, 1.0, 2.0),
        OFF: added(0.9, 1.1, 2.5),
        ON: added(5.0, 6.9, 14.0),
    }
    throughput = {
        DIRECT: level(2000, 0.1),
        BASELINE: level(600, 1.0),
        OFF: level(500, 1.1),
        ON: level(130, 5.0),
        READ: level(150, 4.0),
        WRITE: level(300, 2.0),
        REPEATED: level(310, 3.0),
    }
    return {"latency": latency | changes.get("latency", {}), "throughput": throughput | changes.get("throughput", {})}


def test_streams_whose_memory_gave_way_are_told_beside_their_number() -> None:
    shed = {
        "64": level(331, 2.0)["64"] | {"memory_status": {"injected": 30, "degraded; reason=overload; rung=none": 70}}
    }
    lines = lines_of(found(throughput={ON: shed}), EMBEDDING, EMBEDDING, 64, {})
    (said,) = (line.measured for line in lines if line.figure == "64 clients, unique questions: memory status")
    assert said == "injected 30.0%, degraded; reason=overload; rung=none 70.0%"


def missed(run: dict[str, Any], **left_out: str) -> list[Line]:
    return [line for line in lines_of(run, EMBEDDING, EMBEDDING, 64, left_out) if line.kept is False]


def test_a_store_without_room_for_a_scope_of_each_block_is_refused_and_says_how_much_there_must_be(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        parse_arguments(["--store", "20000", "--in-scope", "10000", "--rounds", "1"])
    assert "--store at least 70000" in capsys.readouterr().err
    assert parse_arguments(["--store", "70000", "--in-scope", "10000", "--rounds", "1"]).store == 70_000


def test_a_run_within_all_bounds_is_kept() -> None:
    assert missed(found()) == []


@pytest.mark.parametrize(
    ("changes", "figure"),
    [
        ({"latency": {OFF: added(1.0, 1.1, 2)}}, "p10"),
        ({"latency": {OFF: added(0.9, 1.2, 2)}}, "p50"),
        ({"throughput": {OFF: level(500, 1.2)}}, "CPU"),
        ({"latency": {ON: added(5, 7.1, 14)}}, "over the embedding"),
        ({"latency": {ON: added(5, 6.9, 15.1)}}, "noise control"),
        ({"throughput": {ON: level(119, 5)}}, "unique"),
        ({"throughput": {REPEATED: level(299, 5)}}, "repeated"),
        ({"throughput": {OFF: level(299, 1.1)}}, "memory off"),
    ],
    ids=["off-p10", "off-p50", "off-cpu", "on-p50", "on-p99", "unique", "repeated", "off-streams"],
)
def test_each_bound_can_be_missed(changes: dict[str, Any], figure: str) -> None:
    [line] = missed(found(**changes))
    assert figure in line.figure


@pytest.mark.parametrize(
    "status", ["degraded; reason=deadline; rung=none", "injected; reason=embedder; rung=lexical", "empty", ""]
)
def test_memory_that_did_not_take_part_costs_nothing_and_is_not_kept(status: str) -> None:
    [line] = missed(found(latency={ON: added(0.5, 0.6, 1.0) | {"memory_status": {"injected": 49, status: 51}}}))
    assert line.figure == "memory status" and status in line.measured


def test_a_ratio_to_what_is_below_chance_is_not_judged() -> None:
    lines = lines_of(found(latency={BASELINE: added(0.8, -0.1, 2.0)}), EMBEDDING, EMBEDDING, 64, {})
    [line] = [line for line in lines if "p50 / plain" in line.figure]
    assert line.kept is None
    assert "chance" in line.measured


def test_cpu_by_stage_is_told_by_pairs_of_modes() -> None:
    said = {
        line.figure: line.measured
        for line in lines_of(found(), EMBEDDING, EMBEDDING, 64, {})
        if line.part == "CPU a request"
    }
    assert said["recall and assembly (read - off), proxy"] == "2.90 ms"
    assert said["capture (write - off), proxy"] == "0.90 ms"


def test_a_rival_that_was_left_out_is_told_with_the_reason() -> None:
    assert [
        line.measured
        for line in lines_of(found(), EMBEDDING, EMBEDDING, 64, {"litellm": "no network"})
        if line.part == "others"
    ]


@pytest.mark.long
async def test_a_rival_that_cannot_be_installed_is_left_out(tmp_path: Path) -> None:
    nowhere = Rival("x", str(tmp_path / "no-such-package"), RIVALS["litellm"].start, "/", "")
    with pytest.raises(RivalLeftOut, match="cannot be installed"):
        await programs_of(nowhere, tmp_path / "cache")


@pytest.mark.parametrize(("status", "said"), [(503, {"error": {}}), (200, {"rung": "no-rerank"})])
async def test_a_search_that_fails_does_not_hold_the_scope(
    status: int, said: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refused(_: web.Request) -> web.Response:
        return web.json_response(said, status=status)

    monkeypatch.setattr(speed, "SETTLE_MAX_S", 0.2)
    app = web.Application()
    app.router.add_post("/memory/v1/search", refused)
    async with test_utils.TestServer(app) as server:
        target = Target(ON, str(server.make_url("")).rstrip("/"))
        with pytest.raises(TargetFailed, match="not loaded"):
            await scope_held(target, 1, Questions(), lambda text: None)


def test_repeated_questions_are_few_and_never_those_asked_once() -> None:
    repeated, once = Repeated(4), Questions()
    again = [repeated.next() for _ in range(12)]
    assert set(Counter(again).values()) == {3}
    assert not {once.next() for _ in range(200)} & set(again)


class Silent:
    """An embedder that only counts."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def embed_query(self, text: str) -> None:
        self.asked.append(text)


async def test_the_embedder_is_timed_in_the_rounds_on_questions_nobody_else_asks() -> None:
    embedder = Silent()
    async with running_fake_vllm(tokens=4) as url:
        targets = [Target(DIRECT, url), Target(CONTROL, url)]
        plan = Plan(30, 1, 0.0, (1,), 4, None, 1)
        paired = await measure_paired(targets, Pace("i", 0, 0), plan, Questions(), embedder, lambda text: None)  # type: ignore[arg-type]
    assert len(paired.embedding_ms) == len(paired.latency.first_s[DIRECT]) == 30
    assert len(set(embedder.asked)) == len(embedder.asked) == 1 + 30 + 30  # a warm-up, the rounds, one after the other
    assert len(paired.embedding_alone_ms) == 30
    assert paired.latency.errors == {DIRECT: 0, CONTROL: 0}


async def test_ways_that_never_answer_together_are_told_before_the_half_hour_of_blocks() -> None:
    asked = 0

    async def tires(_: web.Request) -> web.Response:
        nonlocal asked
        asked += 1
        if asked > 1:
            return web.Response(status=429)
        whole = web.Response(text="data: [DONE]\n\n")
        whole.enable_chunked_encoding()
        return whole

    app = web.Application()
    app.router.add_post("/v1/chat/completions", tires)
    async with running_fake_vllm(tokens=4) as url, test_utils.TestServer(app) as server:
        targets = [Target(DIRECT, url), Target("litellm", str(server.make_url("")).rstrip("/"))]
        pace, plan = Pace("i", 0, 0), Plan(3, 1, 0.0, (1,), 4, None, 1)
        with pytest.raises(TargetFailed, match="'litellm': 3"):
            await measure_paired(targets, pace, plan, Questions(), Silent(), lambda text: None)  # type: ignore[arg-type]
    with pytest.raises(TargetFailed):
        capture.held_json([Latency(*({capture.OFF: [], capture.CONTROL: [], capture.WRITE: []},) * 2, {}, {})])


def test_stages_are_means_of_what_passed_in_between() -> None:
    def metrics(often: int, seconds: float) -> str:
        name = "memory_proxy_recall_seconds"
        return (
            f'# TYPE {name} histogram\n{name}_bucket{{rung="full",le="+Inf"}} {often}\n'
            f'{name}_count{{rung="full"}} {often}\n{name}_sum{{rung="full"}} {seconds}\n'
        )

    between = stages_between(stage_sums(metrics(10, 1.0)), stage_sums(metrics(30, 1.5)))
    assert between == {"recall full": {"times": 20, "mean_ms": 25.0}}
    assert stages_between(stage_sums(metrics(10, 1.0)), stage_sums(metrics(10, 1.0))) == {}


def grown(factor: float) -> dict[str, dict[str, Any]]:
    def one(p50: float) -> dict[str, Any]:
        times = {"p50": p50, "p99": p50 * 2}
        answered = {"chat_ms": {"full": 9}, "search_ms": {"full": 9, "no-rerank": 1}}
        return {
            "chat_ms": times,
            "search_ms": times,
            "embedding_ms": times,
            "answered": answered,
            "bytes": 1 << 20,
        }

    return {"10000": one(5.0), "1000000": one(5.0 * factor), "10000000": one(50.0)}


@pytest.mark.parametrize(("factor", "kept"), [(1.29, True), (1.31, False)])
def test_growth_is_judged_at_the_second_size_and_told_beyond(factor: float, kept: bool) -> None:
    lines = growth.lines_of(grown(factor))
    judged = [line for line in lines if line.kept is not None]
    assert [line.kept for line in judged] == [kept, kept]
    assert any("10,000,000" in line.figure and line.measured == "10.000" for line in lines)
    assert growth.lines_of({"10000": grown(1)["10000"]})


def test_growth_of_chats_without_memory_is_not_kept() -> None:
    sizes = grown(0.2)
    sizes["1000000"]["answered"] = {"chat_ms": {"store": 200}, "search_ms": {"full": 200}}
    [line] = [line for line in growth.lines_of(sizes) if line.kept is False]
    assert "a chat" in line.figure and line.measured == "{'store': 200}"
    timed = [Timed(1.0, 1.0, "full"), Timed(1.0, 1.0, "deadline")]
    told = growth.size_json(Hot([1.0], timed, timed[1:], {}), 1.0, 1)
    assert told["answered"] == {"chat_ms": {"deadline": 1}, "search_ms": {"full": 1, "deadline": 1}}


def test_a_store_grows_to_the_size_asked_for_around_the_same_scope() -> None:
    first, then = growth.lots_between(0, 12_500, 10_000), growth.lots_between(12_500, 15_000, 10_000)
    assert sum(lot.memories for lot in first) == 12_500
    assert sum(lot.memories for lot in then) == 2_500
    assert first[0].memories == 10_000
    assert max(lot.memories for lot in [*first[1:], *then]) == FILLER_MEMORIES
    assert len({lot.user for lot in [*first, *then]}) == len(first) + len(then)


@pytest.mark.parametrize("stores", ["10000", "x,y", "5000,10000"])
def test_growth_that_cannot_be_measured_is_refused(stores: str) -> None:
    with pytest.raises(SystemExit) as refused:
        growth.parse_arguments(["--stores", stores])
    assert refused.value.code == 2


def test_a_store_without_room_is_refused_before_anything_starts(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        growth.parse_arguments(["--stores", "10000,1000000000000"])
    assert "MiB free" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        parse_arguments(["--store", "1000000000000"])
    with pytest.raises(SystemExit):
        parse_arguments(["--rivals", "nonsense"])


def test_what_is_held_is_the_time_after_the_first_byte() -> None:
    first = {capture.OFF: [0.01], capture.CONTROL: [0.01], capture.WRITE: [0.05]}
    total = {capture.OFF: [0.02], capture.CONTROL: [0.02], capture.WRITE: [0.063]}
    held = capture.held_json([Latency(first, total, {}, {capture.OFF: 0})])
    assert held["held_ms"]["p50"] == pytest.approx(3.0)
    assert held["chance_ms"]["p50"] == pytest.approx(0.0)


@pytest.mark.parametrize(("per_s", "p50", "kept"), [(2_500, 1.9, True), (1_900, 1.9, False), (2_500, 2.1, False)])
def test_capture_is_judged_by_both_bounds(per_s: float, p50: float, kept: bool) -> None:
    held = {"held_ms": {"p50": p50, "p99": 9}, "chance_ms": {"p50": 0}, "errors": 0, "captures": {"queue": 9}}
    written = {"64": {"per_s": per_s, "by": {"queued": 9}}, "1": {"per_s": 1, "by": {"queued": 1, "spooled": 2}}}
    lines = capture.lines_of({"always": {"held": held, "written": written}})
    assert all(line.kept is not False for line in lines) is kept
    assert any("spooled" in line.measured for line in lines)


def test_growth_and_capture_are_drawn(tmp_path: Path) -> None:
    level = {"per_s": 9.0, "ms": {"p50": 1.0, "p99": 2.0}, "by": {}}
    for report in (
        {"bench": "growth", "sizes": grown(1.1)},
        {"bench": "capture", "queues": {"always": {"written": {"1": level, "64": level}}}},
    ):
        png = tmp_path / f"{report['bench']}.png"
        (tmp_path / "r.json").write_text(json.dumps(report))
        assert series_plot.main([str(tmp_path / "r.json"), str(png)]) == 0
        assert png.read_bytes().startswith(b"\x89PNG")
    assert series_plot.main([]) == 2


async def test_writers_reach_a_queue_of_their_own(tmp_path: Path) -> None:
    arguments = capture.parse_arguments(["--writers", "4", "--seconds", "0.3", "--bytes", "100"])
    async with own_valkey(tmp_path, {"appendfsync": "always"}) as valkey:
        found = await capture.written(arguments, tmp_path, valkey, "always")
    assert found["4"]["per_s"] > 0
    assert sum(found["4"]["by"].values()) > 0
    assert json.dumps(found)
