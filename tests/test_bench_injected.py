"""What the recall harness says of injected evidence, mixed scopes, baselines and earlier runs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from bench.recall.__main__ import parse_arguments
from bench.recall.against import ReportUnreadable, difference_table, differences, read_report
from bench.recall.baseline import SingleTurnBm25, SingleTurnDense, dense_text, fused
from bench.recall.chat import Given, given_in
from bench.recall.client import CallFailed
from bench.recall.corpus import EvalSet, SetUnreadable, group_of, read_set
from bench.recall.injected import (
    gold_injected,
    injected_figures,
    tokens_of_answered,
    updates_gone_wrong,
)
from bench.recall.mixed import openings, paired, read_mixed
from bench.recall.plot import plot
from bench.recall.report import failures, table
from bench.recall.result import admission_figures, leaks_of, openings_figures, set_result
from bench.recall.run import baseline_rankings
from bench.recall.score import (
    Ranked,
    auc,
    auc_figure,
    share_of_gold,
)
from tests.bench_recall_values import (
    TURNS,
    asked,
    injection,
    lines_of,
    measured,
    opening,
    put,
    question,
    written,
)


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
    found = injected_figures(injections, {"c1": frozenset("ab")}, {})
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
