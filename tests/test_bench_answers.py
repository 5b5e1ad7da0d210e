"""Answers with memory and without: scored as SQuAD does, the same sample each time, never by the stand-in."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.fake_vllm.launch import running_fake_vllm
from bench.recall.__main__ import main, parse_arguments
from bench.recall.against import differences
from bench.recall.answer_score import declined, exact, is_short, token_f1, tokens_of
from bench.recall.answers import Probe, answer_figures, sampled
from bench.recall.chat import INSTRUCTION, READ_TOKENS, ask_answer, refuse_stand_in
from bench.recall.client import CallFailed, session
from bench.recall.corpus import EvalSet, Question, read_set
from bench.recall.report import table
from bench.recall.result import set_result
from bench.recall.run import answer_set, import_set
from tests.bench_recall_values import QUERIES, TURNS, answered, asked, lines_of, measured, opening, question, written
from tests.service_fixture import Service


def knows(answer: str, scope: str = "c1") -> Question:
    return replace(question("a", scope=scope), answer=answer)


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("The Eiffel Tower!", ["eiffel", "tower"]),
        ("a well-known “pup”", ["wellknown", "pup"]),  # punctuation is taken out, not made a gap
        ("$6,200  per\nYear.", ["6200", "per", "year"]),
        ("浙江杭州。", ["浙", "江", "杭", "州"]),
        ("华为Mate 60", ["华", "为", "mate", "60"]),
        ("１６０ｃｍ", ["160cm"]),
        ("theatre an", ["theatre"]),
        ("…", []),
    ],
)
def test_what_does_not_count_is_taken_out_of_an_answer(text: str, tokens: list[str]) -> None:
    assert list(tokens_of(text)) == tokens


@pytest.mark.parametrize(
    ("said", "known", "same", "overlap"),
    [
        ("The red canoe.", "red canoe", 1, 1),
        ("a red boat", "red canoe", 0, 1 / 2),  # precision 1/2, recall 1/2
        ("She bought a red canoe", "red canoe", 0, 2 / 3),  # 2/4 and 2/2
        ("canoe canoe canoe", "red canoe", 0, 2 / 5),  # a token counts as often as it stands in both: 1/3 and 1/2
        ("21 August 2022", "21 August, 2022", 1, 1),
        ("August 21, 2022", "21 August, 2022", 0, 1),  # the order counts for the one only
        ("在杭州", "浙江杭州", 0, 4 / 7),  # 2/3 and 2/4
        ("unknown", "red canoe", 0, 0),
        ("", "red canoe", 0, 0),
        ("", "", 1, 1),
    ],
)
def test_an_answer_scores_as_counted_by_hand(said: str, known: str, same: float, overlap: float) -> None:
    assert exact(said, known) == same
    assert token_f1(said, known) == pytest.approx(overlap)


@given(st.text(), st.text())
def test_a_score_lies_between_nothing_and_all_and_knows_no_sides(one: str, other: str) -> None:
    assert 0 <= token_f1(one, other) <= 1
    assert token_f1(one, other) == token_f1(other, one)
    assert exact(one, other) <= token_f1(one, other)
    assert exact(one, one) == token_f1(one, one) == 1


def test_only_an_answer_that_says_so_is_taken_as_unknown() -> None:
    for said in ("Unknown.", "I don’t know", "It is not mentioned in the text.", "There is no information", "我不知道"):
        assert declined(said), said
    for said in ("red canoe", "No", "not a canoe", "杭州"):
        assert not declined(said), said


def test_short_answers_are_told_from_long_ones_in_words_and_in_characters() -> None:
    assert is_short("The stuffed toy pup, named Tilly")
    assert is_short("中心公园; 三个周")
    assert not is_short("one two three four five six seven")
    assert not is_short("手工音乐盒展览结合音乐会现场")
    assert not is_short("")


def test_the_answer_is_read_as_the_audit_corrected_it(tmp_path: Path) -> None:
    queries = [{**query, "answer": answer} for query, answer in zip(QUERIES, ("red", "blue", None), strict=True)]
    queries[1]["audit"] = {"correct_answer": "green"}
    chosen = read_set(written(tmp_path, queries=queries), "locomo")
    assert [q.answer for q in chosen.questions] == ["red", "green", ""]


def test_a_sample_has_short_answers_and_some_unanswerable_ones_and_is_the_same_again() -> None:
    short = [replace(knows("red"), question_id=f"s{n}") for n in range(40)]
    absent = [question("", answerable=False)] * 20
    long = [knows("one two three four five six seven")] * 40
    chosen = EvalSet("memsim", {"c1": lines_of("a")}, (*long, *absent, opening(), *short))
    found = sampled(chosen, 20)
    assert found == sampled(chosen, 20)
    assert [q.answer for q in found] == ["red"] * 20 + [""] * 5
    assert len({q.question_id for q in found[:20]}) == 20
    assert not [q for q in sampled(chosen, 1000) if q.kind == "opening"]


def test_the_difference_is_taken_question_by_question_and_the_unanswerable_stand_apart() -> None:
    absent = question("", answerable=False)
    probe = Probe(
        "small",
        (
            answered(knows("red canoe"), "the red canoe", "unknown", placed="a"),
            answered(knows("red canoe", scope="c2"), "a red boat", "red boat", placed="b"),
            answered(absent, "unknown", "a tent", placed="b"),
        ),
    )
    found = answer_figures(probe)
    assert found["model"] == "small"
    assert found["answerable"]["questions"] == 2
    assert found["answerable"]["exact"]["with"]["mean"] == 0.5
    assert found["answerable"]["f1"]["with"]["mean"] == 0.75
    assert found["answerable"]["f1"]["without"]["mean"] == 0.25
    assert found["answerable"]["f1"]["more"] == {"mean": 0.5, "low": 0, "high": 1}
    assert found["answerable"]["declined"] == {"with": 0, "without": 0.5}
    assert found["evidence_placed"]["f1"]["with"]["mean"] == 1
    assert found["unanswerable"] == {
        "questions": 1,
        "given_something": 1,
        "declined": {"with": 1, "without": 0},
    }
    assert [one["known"] for one in found["said"]] == ["red canoe", "red canoe", ""]
    nothing = answer_figures(Probe("small", ()))
    assert nothing["answerable"] is nothing["unanswerable"] is None


def test_answers_are_in_the_table_and_compared_with_an_earlier_run() -> None:
    asks = [asked(question("a"), "ab", admitted=1)]
    chosen = EvalSet("memsim", {"c1": lines_of("ab")}, (asks[0].question,))

    def report(said: str) -> dict[str, Any]:
        probe = Probe("small", (answered(knows("red canoe"), said, "unknown", placed="a"),))
        return {"sets": {"memsim": set_result(chosen, measured(asks, probe=probe))}}

    before, after = report("a boat"), report("red canoe")
    shown = table(after)
    assert "answers   by small, with memory / without" in shown
    assert "exact 1.000 [1.000, 1.000] / 0.000 [0.000, 0.000], +1.000 [+1.000, +1.000]" in shown
    changed = {one.name: (one.before, one.after) for one in differences(before, after)}
    assert changed["answers F1, with memory"] == changed["answers exact, with memory"] == (0, 1)
    assert changed["answers F1, without"] == (0, 0)
    json.dumps(after)
    assert "answers   " not in table({"sets": {"memsim": set_result(chosen, measured(asks))}})


def test_answers_of_the_stand_in_are_refused_before_anything_runs(capsys: pytest.CaptureFixture[str]) -> None:
    refused = {
        ("--answers", "5"): "--upstream",
        ("--answers", "0", "--upstream", "http://x"): "1 question or more",
        ("--upstream", "http://x", "--url", "http://y"): "--url",
        ("--model", "m", "--upstream", "http://x"): "--answers",
    }
    for options, why in refused.items():
        with pytest.raises(SystemExit, match="2"):
            parse_arguments(list(options))
        assert why in capsys.readouterr().err
    assert parse_arguments(["--answers", "5", "--url", "http://y", "--model", "m"]).answers == 5


async def test_a_service_before_the_stand_in_is_known_by_what_stands_behind_it(service: Service) -> None:
    async with session() as client:
        with pytest.raises(CallFailed, match="stand-in"):
            await refuse_stand_in(client, service.url)
        with pytest.raises(CallFailed, match="__counters"):
            await refuse_stand_in(client, "http://127.0.0.1:1")


def test_a_run_before_the_stand_in_ends_without_an_import(
    tmp_path: Path, service: Service, capsys: pytest.CaptureFixture[str]
) -> None:
    options = [
        "--data",
        str(written(tmp_path)),
        "--sets",
        "locomo",
        "--no-dense",
        "--answers",
        "1",
        "--url",
        service.url,
    ]
    assert main(options) == 1
    said = capsys.readouterr().err
    assert "need a real model" in said
    assert "importing" not in said


async def test_each_question_is_asked_with_memory_and_without_by_the_same_settings(
    tmp_path: Path, service: Service, user: str
) -> None:
    turns = [{**turn, "scope": f"{user}-{turn['scope']}"} for turn in TURNS]
    queries = [{**query, "scope": f"{user}-{query['scope']}", "audit": None, "answer": "red"} for query in QUERIES]
    chosen = read_set(written(tmp_path, turns, queries), "locomo")
    async with session() as client:
        await import_set(client, service.url, chosen, lambda _: None)
        probe = await answer_set(client, service.url, chosen, 2, lambda _: None)
        async with client.get(f"{service.upstream}/__last?n=6") as answer:
            bodies = [json.loads(base64.b64decode(one["body"])) for one in (await answer.json())["data"]]
    assert len(probe.answered) == 3
    found = {one.question.question_id: one for one in probe.answered}["q1"]
    assert found.remembering.given.source_ids[0] == "c1:2"
    assert found.remembering.text
    assert (found.bare.given.status, found.bare.given.source_ids) == ("off", ())
    assert {(body["temperature"], body["max_tokens"]) for body in bodies} == {(0, READ_TOKENS)}
    assert {body["messages"][0]["content"] for body in bodies} == {INSTRUCTION}
    asked_of_it = [body["messages"][1]["content"] for body in bodies if "canoe was" in body["messages"][1]["content"]]
    assert sorted("<memory>" in text for text in asked_of_it) == [False, True]


async def test_what_is_no_answer_ends_the_run() -> None:
    async with running_fake_vllm() as upstream, session() as client:
        with pytest.raises(CallFailed, match="X-Memory"):  # no service stands before it
            await ask_answer(client, upstream, "fake-model", "c1", "Which canoe?", mode="off", budget=None)
