"""A conversation of the chat: what is sent is what was said, and nothing that was typed is lost by a fault."""

from __future__ import annotations

import itertools
import os
import pwd
import stat
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.home import home_dir
from proxy.cli.chat_conversation import Conversation, Exchange, exchanges_of
from proxy.cli.chat_prompt import HISTORY_MAX, FileHistory, history_path
from proxy.cli.chat_records import parted
from proxy.cli.chat_talk import session_name
from proxy.cli.demo_model import demo_cache_dir


def turn(role: str, content: str | None, attempt: int = 0) -> dict[str, Any]:
    return {"role": role, "content": content, "attempt": attempt}


def spoken(conversation: Conversation, question: str = "now") -> list[tuple[str, str]]:
    return [(one["role"], one["content"]) for one in conversation.body(question)["messages"]]


def test_all_that_was_said_is_sent_with_the_next_question() -> None:
    known = Conversation(model="m", system="Be brief.").answered("a", "b", {}).answered("c", "", {})
    assert spoken(known) == [
        ("system", "Be brief."), ("user", "a"), ("assistant", "b"), ("user", "c"), ("assistant", ""), ("user", "now"),
    ]  # fmt: skip


def test_the_name_of_a_conversation_is_ours_and_else_the_services() -> None:
    assert (
        Conversation(session="trip/1").answered("a", "b", {"session": "s"}).headers()["X-Memory-Session"] == "trip%2F1"
    )
    assert Conversation().answered("a", "b", {"session": "s"}).headers()["X-Memory-Session"] == "s"
    assert "X-Memory-Session" not in Conversation().headers()
    named = Conversation().answered("a", "b", {"session": "R%C3%A9union%20%25"})  # as a header says it
    assert (named.session, named.headers()["X-Memory-Session"]) == ("R\xe9union %", "R%C3%A9union%20%25")
    assert Conversation().answered("a", "b", {}).session is None


@pytest.mark.parametrize(
    ("words", "name", "more"),
    [
        ("the harbour -- Mind the tide -- twice.", "the harbour", "Mind the tide -- twice."),
        ("v1--final", "v1--final", ""),
        ("v1--final -- as it was", "v1--final", "as it was"),
        ("plan --", "plan", ""),
        ("-- notes of nothing", "", "notes of nothing"),
        ("", "", ""),
    ],
)
def test_a_checkpoint_is_kept_under_the_whole_of_its_name(words: str, name: str, more: str) -> None:
    assert parted(words) == (name, more)


def test_only_what_is_asked_of_the_web_says_so() -> None:
    assert Conversation(outside=True).headers()["X-Memory-Outside"] == "now"
    assert "X-Memory-Outside" not in Conversation().headers()


def test_names_of_conversations_begun_in_one_second_differ() -> None:
    now = datetime(2026, 11, 23, 9, 5, 7, tzinfo=UTC)
    assert session_name(now).startswith("chat-20261123-090507-")
    assert len({session_name(now) for _ in range(20)}) > 1


def test_a_question_without_an_answer_is_not_sent_again_and_not_lost() -> None:
    known = Conversation(model="m").answered("a", "b", {}).failed("c")
    assert spoken(known) == [("user", "a"), ("assistant", "b"), ("user", "now")]
    assert known.last_question() == "c"
    assert known.undone().last_question() == "a"
    assert known.undone().undone().exchanges == ()


def test_undo_of_nothing_is_nothing() -> None:
    assert Conversation().undone() == Conversation()
    assert Conversation().last_question() is None


@given(st.lists(st.tuples(st.text(min_size=1), st.text(min_size=1))))
def test_a_stored_conversation_is_sent_as_it_was(said: list[tuple[str, str]]) -> None:
    turns = [one for question, answer in said for one in (turn("user", question), turn("assistant", answer))]
    assert exchanges_of(turns) == tuple(Exchange(*one) for one in said)


@pytest.mark.parametrize(
    ("turns", "sent"),
    [
        ([turn("user", "a"), turn("assistant", "b"), turn("assistant", "B", 1)], [("a", "B")]),
        ([turn("user", "a"), turn("assistant", "b"), turn("user", "A", 1), turn("assistant", "B")], [("A", "B")]),
        ([turn("user", "a"), turn("user", "b"), turn("assistant", "c")], [("a\n\nb", "c")]),
        ([turn("system", "s"), turn("user", "a"), turn("tool", "t"), turn("assistant", "b")], [("a", "b")]),
        ([turn("user", "a"), turn("assistant", None), turn("tool", "t"), turn("assistant", "b")], [("a", "b")]),
        ([turn("assistant", "welcome"), turn("user", "a"), turn("assistant", "b")], [(None, "welcome"), ("a", "b")]),
        ([turn("user", "a")], []),
    ],
)
def test_what_was_asked_again_and_what_tools_said_is_not_sent(
    turns: list[Any], sent: list[tuple[str | None, str]]
) -> None:
    assert exchanges_of(turns) == tuple(Exchange(*one) for one in sent)


@given(st.lists(st.tuples(st.sampled_from(["user", "assistant", "tool", "system"]), st.text(), st.integers(0, 2))))
def test_questions_and_answers_take_turns_whatever_is_stored(turns: list[tuple[str, str, int]]) -> None:
    known = Conversation(model="m", exchanges=exchanges_of([turn(*one) for one in turns]))
    roles = [role for role, _ in spoken(known)]
    assert all(a != b for a, b in itertools.pairwise(roles))


# --- what was typed before -------------------------------------------------------------------------------------------


def test_what_was_typed_is_found_again_and_read_by_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "state" / "memory-proxy" / "chat_history"
    before = os.umask(0)
    try:
        FileHistory(path).store_string("first\nof two lines")
        FileHistory(path).store_string("zweite ä")
    finally:
        os.umask(before)
    assert list(FileHistory(path).load_history_strings()) == ["zweite ä", "first\nof two lines"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_a_history_that_others_could_read_is_closed_to_them(tmp_path: Path) -> None:
    path = tmp_path / "chat_history"
    path.touch(0o644)
    FileHistory(path).store_string("private")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_long_history_is_cut_to_its_newest(tmp_path: Path) -> None:
    path = tmp_path / "chat_history"
    path.write_bytes(b"".join(b'"%d"\n' % number for number in range(2 * HISTORY_MAX + 1)))
    found = list(FileHistory(path).load_history_strings())
    assert (len(found), found[0]) == (HISTORY_MAX, str(2 * HISTORY_MAX))
    assert len(path.read_bytes().splitlines()) == HISTORY_MAX
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_history_that_cannot_be_used_costs_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b'"good"\nnot json\n7\n\xff\n"cut')
    assert list(FileHistory(tmp_path / "file").load_history_strings()) == ["good"]
    below_a_file = FileHistory(tmp_path / "file" / "chat_history")
    below_a_file.store_string("x")
    assert list(below_a_file.load_history_strings()) == []


def test_an_account_without_a_home_has_paths_where_it_may_write_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody(number: int) -> None:
        raise KeyError(number)

    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setattr(pwd, "getpwuid", nobody)
    assert demo_cache_dir({}) == Path("/.cache/memory-proxy/demo")
    assert history_path({}, home_dir()) == Path("/.local/state/memory-proxy/chat_history")


def test_the_history_lies_where_the_desktop_says_and_never_in_the_services_directory() -> None:
    home = Path("/home/ada")
    assert history_path({}, home) == home / ".local/state/memory-proxy/chat_history"
    assert history_path({"XDG_STATE_HOME": "/x"}, home) == Path("/x/memory-proxy/chat_history")
    assert history_path({"XDG_STATE_HOME": "relative"}, home) == history_path({}, home)
