"""The recall benchmark measures what it says: the sets read whole, corrected evidence, scores as in the book, leaks."""

from __future__ import annotations

import json
import math
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.recall.__main__ import main
from bench.recall.baseline import SingleTurnBm25
from bench.recall.client import CallFailed, found_in, import_turns, search, session
from bench.recall.corpus import EvalSet, SetUnreadable, parse_date, read_set
from bench.recall.plot import plot
from bench.recall.report import failures, table
from bench.recall.result import leak_count, leaks_of, set_result
from bench.recall.run import Measured, ask_set, baseline_rankings, chat_set, import_set
from bench.recall.score import (
    Ranked,
    auc,
    difference,
    figure,
    ndcg_at,
    recall_at,
    reciprocal_rank,
    updated_above,
)
from bench.vllm_sample import plain, sampled, share_held
from tests.bench_recall_values import (
    QUERIES,
    TURNS,
    asked,
    lines_of,
    measured,
    question,
    written,
)
from tests.service_fixture import Service


def test_the_lines_of_the_page_are_a_set(tmp_path: Path) -> None:
    """The sets are not in the repository: who has none reads there what one is."""
    page = (Path(__file__).parent.parent / "docs" / "evaluation.md").read_text("utf-8")
    turns, queries = (json.loads(block) for block in re.findall(r"^```json\n(.*?)^```", page, re.MULTILINE | re.DOTALL))
    chosen = read_set(written(tmp_path, [turns], [queries]), "locomo")
    (line,) = chosen.lines["life"]
    assert line["name"] == "Ada" and line["occurred_at"].startswith("2022-01-21T19:31")
    assert [one.gold for one in chosen.questions] == [{line["source_id"]}]


def test_turns_become_import_lines_with_speakers_and_carried_dates(tmp_path: Path) -> None:
    chosen = read_set(written(tmp_path), "locomo")
    assert chosen.turn_count == 4
    first, second, third = chosen.lines["c1"]
    assert first == {
        "session": "s1",
        "role": "user",
        "name": "Ann",
        "content": "Hi!",
        "source_id": "c1:1",
        "occurred_at": "2022-01-21T19:31:00+00:00",
    }
    assert second["occurred_at"] == first["occurred_at"]
    assert third["occurred_at"] == "2023-05-02T00:05:00+00:00"
    [assistant] = chosen.lines["c2"]
    assert assistant["role"] == "assistant"
    assert "name" not in assistant
    assert "occurred_at" not in assistant  # never the date of another scope


def test_corrected_evidence_counts_and_the_unanswerable_are_told_apart(tmp_path: Path) -> None:
    first, second, third = read_set(written(tmp_path), "locomo").questions
    assert first.gold == {"c1:2"}
    assert second.gold == {"c1:2", "c1:3"}
    assert (first.answerable, second.answerable, third.answerable) == (True, True, False)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2024年04月01日 周一 08:43", datetime(2024, 4, 1, 8, 43, tzinfo=UTC)),
        ("12:30 pm on 3 June, 2023", datetime(2023, 6, 3, 12, 30, tzinfo=UTC)),
        ("March-15-2024", datetime(2024, 3, 15, tzinfo=UTC)),
    ],
)
def test_every_set_s_own_way_to_write_a_time_is_read(text: str, moment: datetime) -> None:
    assert parse_date(text) == moment


def test_what_cannot_be_read_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SetUnreadable, match="yesterday"):
        parse_date("yesterday")
    with pytest.raises(SetUnreadable, match="is no turn"):
        read_set(written(tmp_path, queries=[{**QUERIES[0], "gold": ["c1:9"]}]), "locomo")
    assert main(["--data", str(tmp_path / "none"), "--sets", "locomo"]) == 2
    assert "--data" in capsys.readouterr().err


def test_scores_are_those_of_the_book() -> None:
    ranked = Ranked(question("ad"), tuple("bacd"))
    assert [recall_at(ranked, depth) for depth in (1, 2, 4)] == [0, 0.5, 1]
    assert reciprocal_rank(ranked) == 0.5
    assert ndcg_at(ranked, 10) == pytest.approx((1 / math.log2(3) + 1 / math.log2(5)) / (1 + 1 / math.log2(3)))
    assert reciprocal_rank(Ranked(question("z"), tuple("ab"))) == 0


@given(st.permutations("abcdef"), st.sets(st.sampled_from("abcdef"), min_size=1))
def test_a_measure_lies_between_nothing_and_all(order: list[str], gold: set[str]) -> None:
    ranked = Ranked(question("".join(gold)), tuple(order))
    assert recall_at(ranked, 6) == 1
    assert 0 <= ndcg_at(ranked, 10) <= 1 + 1e-9
    assert recall_at(ranked, 1) <= recall_at(ranked, 5)


def test_the_interval_is_over_scopes_and_holds_the_mean() -> None:
    rankings = [Ranked(question("a", scope=f"c{n % 4}"), ("a",) if n % 4 else ("b",)) for n in range(40)]
    found = figure(rankings, lambda ranked: recall_at(ranked, 1))
    assert found.mean == 0.75
    assert found.low < 0.75 < found.high
    assert found == figure(rankings, lambda ranked: recall_at(ranked, 1))
    same = difference(rankings, rankings, lambda ranked: recall_at(ranked, 1))
    assert (same.mean, same.low, same.high) == (0, 0, 0)


def test_an_update_counts_only_where_the_new_stands_above_the_old() -> None:
    rankings = [
        Ranked(question("a", "b"), tuple("ab")),
        Ranked(question("a", "b"), tuple("ba")),
        Ranked(question("a", "b"), tuple("cd")),
        Ranked(question("a", "b"), tuple("ac")),
        Ranked(question("a"), tuple("a")),
    ]
    assert updated_above(rankings) == (2, 4)


def test_auc_is_the_chance_of_the_right_order() -> None:
    assert auc([0.9, 0.8], [0.1, 0.85]) == 0.75
    assert auc([0.5], [0.5]) == 0.5
    assert auc([0.5], []) is None


def test_a_turn_of_another_scope_is_counted_and_fails_the_run() -> None:
    asks = [
        asked(question("a"), "abx"),
        asked(question("b"), "cbd"),
        asked(question("", scope="c2", answerable=False), "xyz"),
    ]
    chosen = EvalSet("locomo", {"c1": lines_of("abcd"), "c2": lines_of("xyz")}, tuple(a.question for a in asks))
    assert leak_count(chosen, asks) == 1
    result = set_result(chosen, measured(asks))
    assert result["leaks"] == 1
    assert result["import"]["turns_per_s"] == 3.5
    assert any("another scope" in line for line in failures({"sets": {"locomo": result}}))


def test_the_report_has_every_set_and_names_a_missed_floor(tmp_path: Path) -> None:
    asks = [
        asked(question("a", "b"), "dcba", admitted=2, chance=0.9),
        asked(question("", answerable=False), "abcd", chance=0.2),
    ]
    chosen = EvalSet("memsim", {"c1": lines_of("abcd")}, tuple(a.question for a in asks))
    result = set_result(chosen, measured(asks))
    missed = {**result["ours"], "recall@10": {"mean": 0.1, "low": 0, "high": 0.2}}
    report = {"sets": {"memsim": result, "locomo": {**result, "ours": missed}}}
    assert [line.split(":")[0] for line in failures(report)] == ["locomo"]
    said = table(report)
    assert "== memsim" in said
    assert "MISSED" in said
    assert "AUC 1.000" in said
    assert "new above old 0/1 (bm25 1)" in said
    plot(report, tmp_path / "recall.png")
    assert (tmp_path / "recall.png").read_bytes().startswith(b"\x89PNG")
    json.dumps(report)


def test_bm25_ranks_the_turn_with_the_words_first_and_gives_all_of_a_small_scope() -> None:
    lines = [{"source_id": str(n), "content": text} for n, text in enumerate(["a tent", "the red canoe", "a canoe"])]
    assert SingleTurnBm25(lines).ranked("red canoes", 10) == ("1", "2", "0")


def test_each_turn_counts_once_in_the_order_of_the_candidates() -> None:
    scores = {"admission": 0.4}
    candidates = [
        {"source_ids": ["a", "b"], "scores": scores, "score": 1.0},
        {"source_ids": ["b", "c"], "scores": {"admission": 0.7}, "score": 0.5},
    ]
    found = found_in({"candidates": candidates, "admitted": 1, "rung": "full"}, 2.0)
    assert found.ids == ("a", "b", "c")
    assert (found.candidates, found.admitted, found.chance) == (2, 1, 0.7)


def test_evidence_is_found_in_a_prompt_however_its_lines_are_marked() -> None:
    prompt = "<memory>\n[2022-01-21 user] Ann: One\n| two  three\n</memory>\n\nWhat?"
    assert share_held(prompt, ["One\n\ntwo three", "absent"]) == 0.5
    assert plain("a\n| b") == plain("a b")


def test_a_sample_is_the_same_for_a_seed(tmp_path: Path) -> None:
    chosen = read_set(written(tmp_path), "locomo")
    assert sampled(chosen, 1, 7) == sampled(chosen, 1, 7)
    assert len(sampled(chosen, 100, 7)) == 2


async def test_a_set_goes_through_the_running_service(tmp_path: Path, service: Service, user: str) -> None:
    turns = [{**turn, "scope": f"{user}-{turn['scope']}"} for turn in TURNS]
    turns[0]["text"] = "It is cold."  # a greeting makes no memory
    queries = [{**query, "scope": f"{user}-{query['scope']}", "audit": None} for query in QUERIES]
    chosen = read_set(written(tmp_path, turns, queries), "locomo")
    said: list[str] = []
    async with session() as client:
        seconds = await import_set(client, service.url, chosen, said.append)
        asks = await ask_set(client, service.url, chosen, said.append)
        chats = await chat_set(client, service.url, chosen, None, said.append)
        nothing = await chat_set(client, service.url, chosen, 1, said.append)
        again = await ask_set(client, service.url, chosen, said.append)
    rankings = await baseline_rankings(chosen, None, said.append)
    result = set_result(chosen, Measured(asks, rankings, seconds, chats, {1: nothing}))
    assert leaks_of(result) == 0
    assert result["ours"]["recall@10"]["mean"] == 1
    assert asks[0].found.ids[0] == "c1:2"
    assert asks[0].found.admitted_ids[0] == "c1:2"
    assert chats[0].source_ids[0] == "c1:2"  # what the search admits is what the chat was given
    assert chats[0].tokens > 0
    assert result["injected"]["any"]["mean"] > 0
    assert result["budgets"]["1"]["fraction"]["mean"] == 0
    assert [a.found.ids for a in again] == [a.found.ids for a in asks]  # the chats taught it nothing
    assert "injected  fraction" in table({"sets": {"locomo": result}})


async def test_what_the_service_refuses_ends_the_run(service: Service, user: str) -> None:
    async with session() as client:
        with pytest.raises(CallFailed, match="refused line 1"):
            await import_turns(client, service.url, user, [{"role": "narrator", "content": "x"}], lambda _: None)
        with pytest.raises(CallFailed, match="answered 422"):
            await search(client, service.url, user, "", 0)
        with pytest.raises(CallFailed):
            await search(client, "http://127.0.0.1:1", user, "canoe", 5)


async def test_a_service_that_runs_already_is_asked_with_the_key_of_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One of our own asks for none, and would hand the key on to what stands behind it."""
    monkeypatch.setenv("MEMORY_PROXY_KEY", "mp-secret")
    async with session("http://127.0.0.1:8080") as client:
        assert client.headers["Authorization"] == "Bearer mp-secret"
    async with session() as client:
        assert "Authorization" not in client.headers
