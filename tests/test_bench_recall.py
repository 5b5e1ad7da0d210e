"""The recall benchmark measures what it says: the sets read whole, corrected evidence, scores as in the book, leaks."""

from __future__ import annotations

import json
import lzma
import math
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from bench.recall.__main__ import main, parse_arguments
from bench.recall.against import ReportUnreadable, difference_table, differences, read_report
from bench.recall.baseline import SingleTurnBm25, SingleTurnDense, dense_text, fused
from bench.recall.chat import Given, given_in
from bench.recall.client import CallFailed, Found, found_in, import_turns, search, session
from bench.recall.corpus import EvalSet, Question, SetUnreadable, group_of, parse_date, read_set
from bench.recall.injected import (
    Injection,
    gold_injected,
    injected_figures,
    tokens_of_answered,
    updates_gone_wrong,
)
from bench.recall.mixed import openings, paired, read_mixed
from bench.recall.plot import plot
from bench.recall.report import failures, table
from bench.recall.result import admission_figures, leak_count, leaks_of, openings_figures, set_result
from bench.recall.run import Asked, Measured, ask_set, baseline_rankings, chat_set, import_set
from bench.recall.score import (
    Ranked,
    auc,
    auc_figure,
    difference,
    figure,
    ndcg_at,
    recall_at,
    reciprocal_rank,
    share_of_gold,
    updated_above,
)
from bench.vllm_sample import plain, sampled, share_held
from tests.service_fixture import Service

TURNS: list[dict[str, Any]] = [
    {"scope": "c1", "session": "s1", "id": "c1:1", "role": "Ann", "date": "7:31 pm on 21 January, 2022", "text": "Hi!"},
    {"scope": "c1", "session": "s1", "id": "c1:2", "role": "Ben", "date": None, "text": "I bought a red canoe."},
    {"scope": "c1", "session": "s2", "id": "c1:3", "role": "Ann", "date": "12:05 am on 2 May, 2023", "text": "Nice."},
    {"scope": "c2", "session": "s1", "id": "c2:1", "role": "assistant", "date": None, "text": "A canoe is a boat."},
]
QUERIES: list[dict[str, Any]] = [
    {"scope": "c1", "qid": "q1", "type": "single", "q": "Which canoe was bought?", "gold": ["c1:2"]},
    {
        "scope": "c1",
        "qid": "q2",
        "type": "multi",
        "q": "?",
        "gold": ["c1:1"],
        "audit": {"correct_evidence": ["2", "3"]},
    },
    {"scope": "c2", "qid": "q3", "type": "adversarial", "q": "Who?", "gold": ["c2:1"], "unanswerable": True},
]


def written(folder: Path, turns: Sequence[Any] = TURNS, queries: Sequence[Any] = QUERIES, stem: str = "locomo") -> Path:
    for name, objects in (("corpus", turns), ("queries", queries)):
        put(folder / f"{stem}.{name}.jsonl.xz", objects)
    return folder


def put(path: Path, objects: Sequence[Any]) -> None:
    with lzma.open(path, "wt", encoding="utf-8") as out:
        out.writelines(json.dumps(one) + "\n" for one in objects)


def question(gold: str, stale: str = "", scope: str = "c1", *, answerable: bool = True) -> Question:
    return Question("q", scope, "kind", "?", frozenset(gold), frozenset(stale), answerable)


def lines_of(ids: str) -> tuple[dict[str, str], ...]:
    return tuple({"source_id": turn_id, "content": turn_id, "role": "user"} for turn_id in ids)


def opening(scope: str = "c1") -> Question:
    return Question("o", scope, "opening", "Write a poem.", frozenset(), frozenset(), answerable=False)


def asked(of: Question, ids: str, *, admitted: int = 0, chance: float = 0.0) -> Asked:
    return Asked(of, Found(tuple(ids), len(ids), admitted, chance, 1.0, "full", tuple(ids[:admitted])))


def injection(of: Question, ids: str, *, tokens: int = 10, millis: float = 1.0) -> Injection:
    return Injection(of, Given("injected" if ids else "empty", len(ids), tokens, millis, "r", tuple(ids)))


def measured(asks: Sequence[Asked], *, given: Sequence[Given] = (), import_s: float = 2.0, **more: Any) -> Measured:
    sorted_ids = [tuple(sorted(a.found.ids)) for a in asks]
    return Measured(asks, {"bm25": sorted_ids, **more.pop("baselines", {})}, import_s, given, **more)


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


def test_injected_gold_is_a_share_of_each_question_s_own() -> None:
    injections = [
        injection(question("ab"), "axyz"),
        injection(question("a"), "a"),
        injection(question("a"), ""),
        injection(question("c", answerable=False), "c"),
    ]
    assert [found.mean for found in gold_injected(injections)] == pytest.approx([0.5, 2 / 3, 1 / 3])
    assert share_of_gold(Ranked(question("ab"), tuple("xxxxa"))) == 0.5


@given(st.sets(st.sampled_from("abcdef"), min_size=1), st.lists(st.sampled_from("abcdefxyz"), unique=True))
def test_all_gold_is_never_more_than_its_fraction_nor_that_than_any(gold: set[str], ids: list[str]) -> None:
    fraction, some, whole = gold_injected([injection(question("".join(gold)), "".join(ids))])
    assert whole.mean <= fraction.mean <= some.mean


def test_tokens_count_only_where_gold_was_injected() -> None:
    injections = [
        injection(question("a"), "a", tokens=100),
        injection(question("a"), "ab", tokens=300),
        injection(question("a"), "b", tokens=900),
        injection(question("a"), "", tokens=0),
        injection(question("a", answerable=False), "a", tokens=900),
    ]
    assert tokens_of_answered(injections) == {"questions": 2, "median": 200, "p90": 280}
    assert tokens_of_answered(injections[2:]) is None


def test_an_update_goes_wrong_only_where_the_old_comes_without_the_new() -> None:
    injections = [
        injection(question("a", "b"), "b"),
        injection(question("a", "b"), "ba"),
        injection(question("a", "b"), "a"),
        injection(question("a", "b"), ""),
        injection(question("a"), "b"),
    ]
    assert updates_gone_wrong(injections) == {"old_without_new": 1, "questions": 4}
    assert updates_gone_wrong(injections[4:]) is None


def test_injected_figures_tell_groups_statuses_times_and_leaks() -> None:
    injections = [
        injection(question("a"), "ax", millis=1),
        injection(question("", answerable=False), "", millis=3),
        injection(opening(), "", millis=2),
    ]
    found = injected_figures(injections, {"c1": frozenset("ab")})
    assert found["given_something"] == {"answerable": 1, "opening": 0, "unanswerable": 0}
    assert found["statuses"] == {"empty": 2, "injected": 1}
    assert found["added_ms"]["p50"] == 2
    assert found["leaks"] == 1


def test_a_leak_at_any_budget_fails_the_run() -> None:
    asks = [asked(question("a"), "ab", admitted=1)]
    chosen = EvalSet("memsim", {"c1": lines_of("ab")}, (asks[0].question,))
    good, bad = injection(question("a"), "a").given, injection(question("a"), "ax").given
    result = set_result(chosen, measured(asks, given=[good], budgets={2000: [bad], 500: [good]}))
    assert list(result["budgets"]) == ["500", "2000"]
    assert result["budgets"]["500"]["fraction"]["mean"] == 1
    assert (result["leaks"], result["injected"]["leaks"], leaks_of(result)) == (0, 0, 1)
    assert any("another scope" in line for line in failures({"sets": {"memsim": result}}))


def test_what_an_answer_s_head_says_is_read_and_anything_else_refused() -> None:
    head = {
        "X-Memory-Status": "degraded; reason=deadline",
        "X-Memory-Count": "3",
        "X-Memory-Tokens": "~120",
        "X-Memory-Millis": "4.5",
        "X-Memory-Retrieval": "id",
    }
    assert given_in(head) == Given("degraded", 3, 120, 4.5, "id")
    assert given_in({"X-Memory-Status": "off"}) == Given("off", 0, 0, 0)
    for broken in ({}, {"X-Memory-Status": "injected", "X-Memory-Count": "many"}):
        with pytest.raises(CallFailed, match="X-Memory"):
            given_in(broken)


def test_the_interval_of_the_auc_is_over_scopes_and_holds_it() -> None:
    positive = [(f"c{n % 4}", 0.9 if n % 4 else 0.2) for n in range(20)]
    negative = [(f"c{n % 4}", 0.5) for n in range(20)]
    found = auc_figure(positive, negative)
    assert found is not None
    assert found.mean == auc([v for _, v in positive], [v for _, v in negative]) == 0.75
    assert found.low < 0.75 < found.high
    assert auc_figure(positive, []) is None


def test_scopes_with_one_kind_of_question_only_still_have_an_interval() -> None:
    found = auc_figure([("c1", 0.9), ("c1", 0.1)], [("c2", 0.5)])
    assert found is not None
    assert (found.low, found.mean, found.high) == (0.5, 0.5, 0.5)


def test_a_hit_counts_after_admission_only_when_its_gold_was_admitted() -> None:
    asks = [
        asked(question("a"), "ab", admitted=1),
        asked(question("b"), "ab", admitted=1),
        asked(question("z"), "abcdefghijz", admitted=11),
        asked(opening(), "ab", admitted=1, chance=1.0),
        asked(question("", answerable=False), "ab"),
    ]
    found = admission_figures(asks)
    assert found["hit@10"] == {"before": round(2 / 3, 4), "after": round(1 / 3, 4)}
    assert found["unanswerable"]["given_something"] == 0  # openings are counted apart
    assert found["opening"]["given_something"] == 1
    assert found["auc"] == 0.5


def test_openings_that_are_given_too_much_fail_the_run() -> None:
    asks = [asked(question("a"), "ab"), *[asked(opening(), "ab", admitted=n % 2) for n in range(10)]]
    chosen = EvalSet("mixed", {"c1": lines_of("ab")}, tuple(a.question for a in asks))
    none = [injection(a.question, "").given for a in asks]
    assert openings_figures(asks, ()) == {"questions": 10, "admitted": 0.5, "injected": None}
    assert openings_figures(asks[:1], ()) is None
    searched = set_result(chosen, measured(asks))
    chatted = set_result(chosen, measured(asks, given=none))
    assert any("openings" in line for line in failures({"sets": {"mixed": searched}}))
    assert not failures({"sets": {"mixed": chatted}})  # what was injected is what counts
    assert "limit 0.05 MISSED" in table({"sets": {"mixed": searched}})


def test_a_mixed_scope_holds_both_lives_and_is_asked_about_both(tmp_path: Path) -> None:
    written(tmp_path)
    chats = [{**turn, "scope": f"b{n}", "id": f"b{n}:1", "role": "user"} for n in range(3) for turn in TURNS[:1]]
    queries = [{"scope": f"b{n}", "qid": f"bq{n}", "type": "t", "q": "?", "gold": [f"b{n}:1"]} for n in range(3)]
    written(tmp_path, chats, queries, "beam_100K")
    said = [
        [
            {"role": "system", "content": "s"},
            {"role": "user", "content": f"first {n}"},
            {"role": "user", "content": "x"},
        ]
        for n in range(4)
    ]
    dialogues = [
        {"id": n, "messages": messages} for n, messages in enumerate([*said, [], [{"role": "user", "content": " "}]])
    ]
    put(tmp_path / "sharegpt_300_multiturn.jsonl.xz", dialogues)
    chosen = read_mixed(tmp_path)
    assert list(chosen.lines) == ["c1+b0", "c2+b1", "c1+b2"]
    assert [line["source_id"] for line in chosen.lines["c2+b1"]] == ["c2:1", "b1:1"]
    assert [line["session"] for line in chosen.lines["c2+b1"]] == ["s1", "s1"]
    first = [q for q in chosen.questions if q.scope == "c1+b0"]
    assert [q.question_id for q in first] == ["q1", "q2", "bq0", "opening-0", "opening-3"]
    assert [group_of(q) for q in first] == ["answerable"] * 3 + ["opening"] * 2
    assert first[3].text == "first 0"
    with pytest.raises(SetUnreadable, match="at least"):
        paired([], ["b0"])
    assert openings([], ("c1",)) == []


def test_every_opening_goes_to_one_scope_in_turn() -> None:
    dialogues = [{"id": n, "messages": [{"role": "user", "content": "x"}]} for n in range(5)]
    assert [q.scope for q in openings(dialogues, ("a", "b"))] == ["a", "b", "a", "b", "a"]


def test_fusion_is_that_of_the_paper() -> None:
    assert fused([("a", "b"), ("b", "c")], 10) == ("b", "a", "c")  # 1/62 + 1/61, 1/61, 1/62
    assert fused([("a",), ("b",)], 1) == ("a",)
    assert fused([(), ()], 5) == ()


def test_words_that_no_turn_holds_give_fusion_nothing() -> None:
    index = SingleTurnBm25([{"source_id": str(n), "content": text} for n, text in enumerate(["a tent", "a canoe"])])
    assert index.matching("canoes", 5) == ("1",)
    assert index.matching("bicycle", 5) == ()


def test_the_nearest_turn_comes_first_and_a_long_one_is_cut() -> None:
    vectors = np.eye(3, dtype=np.float32)
    assert SingleTurnDense("abc", vectors).ranked(np.array([0.1, 0.2, 0.9], np.float32), 2) == ("c", "b")
    assert len(dense_text({"content": "x" * 9_000, "name": "Ann"})) == 4_000


class LetterEmbedder:
    """Counts the letters of a text: near enough to a meaning for three invented turns."""

    model, dim = "letters", 26

    async def embed_query(self, text: str) -> NDArray[np.float32]:
        counts = np.array([text.lower().count(chr(97 + n)) for n in range(26)], np.float32)
        unit: NDArray[np.float32] = counts / np.float32(max(float(np.linalg.norm(counts)), 1e-9))
        return unit

    async def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.texts = len(texts)
        return np.stack([await self.embed_query(text) for text in texts])


async def test_baselines_rank_the_same_turns_for_every_question(tmp_path: Path) -> None:
    chosen = read_set(written(tmp_path), "locomo")
    embedder = LetterEmbedder()
    found = await baseline_rankings(chosen, embedder, lambda _: None)
    assert list(found) == ["bm25", "dense", "rrf"]
    assert [ranking[0] for ranking in (found[name][0] for name in found)] == ["c1:2"] * 3
    assert all(len(rankings) == 3 for rankings in found.values())
    assert embedder.texts == 4
    assert list(await baseline_rankings(chosen, None, lambda _: None)) == ["bm25"]


def test_the_ceiling_is_what_a_perfect_ranking_could_reach() -> None:
    asks = [asked(question("ab"), "xy")]
    chosen = EvalSet("memsim", {"c1": lines_of("abxy")}, (asks[0].question,))
    gold = set_result(chosen, measured(asks))["gold"]
    assert [gold[name]["mean"] for name in ("recall@1", "recall@5", "ndcg@10", "mrr")] == [0.5, 1, 1, 1]


def report_of(ids: str, placed: str, **more: Any) -> dict[str, Any]:
    asks = [asked(question("a"), ids, admitted=1), asked(question("", answerable=False), "b")]
    given_ = [injection(asks[0].question, placed).given, injection(asks[1].question, "").given]
    chosen = EvalSet("memsim", {"c1": lines_of("ab")}, tuple(a.question for a in asks))
    return {"at": "then", "sets": {"memsim": set_result(chosen, measured(asks, given=given_, **more))}}


def test_every_headline_figure_is_compared_with_an_earlier_run(tmp_path: Path) -> None:
    before, after = report_of("ba", ""), report_of("ab", "a")
    (tmp_path / "before.json").write_text(json.dumps(before))
    found = {one.name: (one.before, one.after) for one in differences(read_report(tmp_path / "before.json"), after)}
    assert found["recall@1"] == (0, 1)
    assert found["injected fraction"] == (0, 1)
    assert found["given something, answerable"] == (0, 1)
    assert found["AUC"] == (0.5, 0.5)
    assert {"recall@5", "recall@10", "recall@20", "ndcg@10", "mrr"} < found.keys()
    assert "tokens median" not in found  # nothing was injected before
    said = difference_table(differences(before, after))
    assert "+1" in said
    assert "=" in said


def test_an_older_report_without_a_figure_is_compared_in_the_others() -> None:
    after = report_of("ab", "a")
    older = {"sets": {"memsim": {"ours": after["sets"]["memsim"]["ours"], "admission": {"auc": 0.4}}}}
    assert [one.name for one in differences(older, after)] == [
        *("recall@1", "recall@5", "recall@10", "recall@20", "ndcg@10", "mrr", "AUC")
    ]
    assert difference_table(differences({"sets": {}}, after)).startswith("nothing to compare")


def test_what_is_no_report_is_refused_before_anything_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "list.json").write_text("[]")
    with pytest.raises(ReportUnreadable, match="no sets"):
        read_report(tmp_path / "list.json")
    for options in (
        ["--against", str(tmp_path / "none.json")],
        ["--budgets", "500", "--no-injected"],
        ["--budgets", "0"],
    ):
        with pytest.raises(SystemExit, match="2"):
            parse_arguments(options)
    assert "none.json" in capsys.readouterr().err
    assert parse_arguments(["--budgets", "500,1000", "--sets", "mixed"]).budgets == (500, 1000)


def test_the_table_and_the_plot_have_the_baselines_and_what_was_injected(tmp_path: Path) -> None:
    baselines = {"dense": [("a",), ("b",)], "rrf": [("b", "a"), ("b",)]}
    given_ = [injection(question("a"), "a").given, injection(question("a"), "").given]
    report = report_of("ab", "a", baselines=baselines, budgets={500: given_})
    said = table(report)
    head = said.splitlines()[1].split()
    assert head[-4:] == ["bm25", "dense", "rrf", "gold"]
    assert "injected  fraction 1.000" in said
    assert "budgets   500 tokens: fraction 1.000, 10 used" in said
    plot(report, tmp_path / "recall.png")
    assert (tmp_path / "recall.png").read_bytes().startswith(b"\x89PNG")


async def test_a_set_goes_through_the_running_service(tmp_path: Path, service: Service, user: str) -> None:
    turns = [{**turn, "scope": f"{user}-{turn['scope']}"} for turn in TURNS]
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
