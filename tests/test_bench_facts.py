"""The bench of extraction counts what it says it counts."""

# ruff: noqa: E501  one turn a line
from __future__ import annotations

import json
import lzma
from pathlib import Path
from typing import Any

import pytest

from bench.facts import Found, collisions, extracted, main, rests_on_its_words, summary, updates, user_turns
from policies.fact import Fact

TURNS: list[dict[str, Any]] = [
    {"scope": "s", "session": "s:1", "id": "s:0", "role": "user", "date": "March-15-2024", "text": "My sprint deadline is April 1."},
    {"scope": "s", "session": "s:1", "id": "s:1", "role": "assistant", "date": None, "text": "My name is Bob."},
    {"scope": "s", "session": "s:1", "id": "s:2", "role": "user", "date": None, "text": "Thanks!"},
    {"scope": "s", "session": "s:1", "id": "s:3", "role": "user", "date": None, "text": "The sprint deadline is now April 5."},
]  # fmt: skip


def put(path: Path, rows: list[dict[str, Any]]) -> None:
    with lzma.open(path, "wt", encoding="utf-8") as lines:
        lines.writelines(json.dumps(row) + "\n" for row in rows)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    put(tmp_path / "beam_100K.corpus.jsonl.xz", TURNS)
    put(tmp_path / "beam_100K.queries.jsonl.xz", [])
    asked = {"q": "When is the deadline?", "must": ["5"], "must_not_alone": ["1"], "gold": ["s:3"], "stale": ["s:0"]}
    unknown = {"q": "How many?", "must": ["7"], "must_not_alone": [], "gold": ["s:2"], "stale": ["s:0"]}
    put(tmp_path / "beam_ku_numeric.jsonl.xz", [asked, unknown])
    return tmp_path


def found(data: Path) -> list[Found]:
    return extracted(user_turns(data, "beam"))


def test_only_what_users_say_is_counted(data: Path) -> None:
    figures = summary(found(data), 0.001)
    assert (figures["user turns"], figures["facts"], figures["turns with a fact"]) == (3, 2, "66.7 %")
    assert figures["valid spans"] == "100.0 %"


def test_an_update_counts_when_new_and_old_value_share_a_key(data: Path) -> None:
    first, second = updates(data, found(data))
    assert (first.value_found, first.same_key, first.may_replace) == (True, True, True)
    assert (second.value_found, second.same_key, second.may_replace) == (False, False, False)


def test_the_price_of_a_coarse_key_is_counted(data: Path) -> None:
    ((older, newer),) = collisions(found(data))
    assert (older.object, newer.object) == ("april 1", "april 5")


def test_a_span_without_the_words_of_its_object_is_not_valid() -> None:
    fact = Fact("user", "lives_in", "oslo", "The user lives in Oslo.", (0, 14))
    assert rests_on_its_words(fact, "I live in Oslo.")
    assert not rests_on_its_words(fact, "I live in Rome.")
    assert not rests_on_its_words(fact, "Oslo")


def test_missing_files_and_unknown_sets_are_named(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--data", str(data), "--sets", "beam,beam_ku", "--show", "3"]) == 0
    assert "may replace it 1" in capsys.readouterr().out
    assert main(["--data", str(tmp_path / "none"), "--sets", "beam"]) == 2
    assert main(["--sets", "nonsense"]) == 2
    assert "nonsense" in capsys.readouterr().err
