"""What the chat shows: no text steers the terminal, an answer is shown whole, every fault has a remedy."""

from __future__ import annotations

import io
import json
import re
import unicodedata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.cli.chat_answer import Answer, AnswerFailed, Piece, error_of
from proxy.cli.chat_screen import Screen
from proxy.cli.chat_words import Failure, failure_words, printable, remedy, status_line

STEERS = st.text(
    st.one_of(
        st.characters(),
        st.sampled_from("\x1b\x9b\x9d\x90\x07\x08\r\x7f\u202e\u2066\u2069\u2028\U000e0041\ufff9[]0;31mHello"),
    )
)
OURS = ("\x1b[2m", "\x1b[1m", "\x1b[31m", "\x1b[0m", "\r \r")


def pieces(*deltas: dict[str, Any], done: bool = True) -> bytes:
    events = [{"choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    return b"".join(b"data: %b\n\n" % json.dumps(one).encode() for one in events) + (b"data: [DONE]\n\n" * done)


# --- the wall before the terminal ------------------------------------------------------------------------------------


@given(STEERS)
def test_nothing_that_steers_a_terminal_passes(text: str) -> None:
    shown = printable(text)
    for char in shown:
        assert char in "\n\t" or unicodedata.category(char) not in ("Cc", "Cs", "Zl", "Zp")
        assert unicodedata.bidirectional(char) not in ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")
    shown.encode()


@given(st.lists(STEERS))
def test_what_is_cut_into_pieces_is_shown_as_what_came_whole(texts: list[str]) -> None:
    assert "".join(map(printable, texts)) == printable("".join(texts))


@given(st.text())
def test_what_is_shown_once_is_not_changed_again(text: str) -> None:
    assert printable(printable(text)) == printable(text)


@pytest.mark.parametrize(
    "text",
    [
        "Zürich\n\tOslo",
        "日本語\u3000です",
        "👩‍👩‍👧‍👦 🏳️‍🌈",
        "می‌خواهم",
        "שלום\u200f!",
        "1\u202f000\u00a0€",
        "e\u0301",
        "किताब",
    ],
)
def test_the_writing_of_no_language_is_touched(text: str) -> None:
    assert printable(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred", "�[31mred"),
        ("\x1b]52;c;aGk=\x07", "�]52;c;aGk=�"),
        ("\x9b2J", "�2J"),
        ("safe\rEVIL", "safeEVIL"),
        ("a\r\nb", "a\nb"),
        ("user\u202egnp.exe", "user�gnp.exe"),
        ("half \ud83d", "half �"),
        ("seen\U000e0068\U000e0069", "seen��"),
    ],
)
def test_what_is_taken_out_is_seen_to_be_gone(text: str, shown: str) -> None:
    assert printable(text) == shown


@given(st.lists(st.tuples(st.sampled_from(["said", "thought", "called", "note", "bad", "waiting", "ended"]), STEERS)))
def test_the_screen_writes_no_escape_but_its_own(moves: list[tuple[str, str]]) -> None:
    out = io.StringIO()
    screen = Screen(out, out, live=True, colour=True)
    for name, text in moves:
        getattr(screen, name)(*([] if name in ("waiting", "ended") else [text]))
    written = out.getvalue()
    for ours in OURS:
        written = written.replace(ours, "")
    assert not {"\x1b", "\r", "\x9b", "\x07", "\x08"} & set(written)


def test_a_script_gets_the_answer_and_nothing_else() -> None:
    out, err = io.StringIO(), io.StringIO()
    screen = Screen(out, err, live=False, colour=False)
    screen.waiting()
    screen.thought("Let me see.")
    screen.said("Hal")
    screen.said("cyon")
    screen.ended()
    screen.note("memory: 1 new")
    assert (out.getvalue(), err.getvalue()) == ("Halcyon\n", "memory: 1 new\n")


def test_thoughts_stand_apart_from_the_answer() -> None:
    out = io.StringIO()
    screen = Screen(out, out, live=True, colour=False)
    screen.waiting()
    screen.thought("\nHm.")
    screen.said("\n\nYes.")
    screen.called('{"name":\n"x"}')
    screen.ended()
    assert out.getvalue() == '…\r \r(thinking) Hm.\nYes.\ntool call: {"name": "x"}\n'


# --- answers ---------------------------------------------------------------------------------------------------------


@given(st.lists(st.text(min_size=1)), st.data())
def test_a_stream_cut_anywhere_gives_the_same_text(texts: list[str], data: st.DataObject) -> None:
    raw = pieces(*({"content": text} for text in texts))
    answer, found = Answer(), list[Piece]()
    while raw:
        cut = data.draw(st.integers(1, len(raw)))
        found += answer.feed(raw[:cut])
        raw = raw[cut:]
    assert found == [Piece("text", text) for text in texts]
    assert answer.complete


@pytest.mark.parametrize("name", ["reasoning", "reasoning_content"])
def test_thoughts_are_told_from_the_answer(name: str) -> None:
    found = list(Answer().feed(pieces({name: "Hm."}, {"content": "Yes."})))
    assert found == [Piece("thought", "Hm."), Piece("text", "Yes.")]


def test_a_tool_call_is_shown_whole_though_it_comes_in_pieces() -> None:
    calls = [
        {"tool_calls": [{"index": 0, "id": "a", "function": {"name": "look", "arguments": ""}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": '{"at":'}}]},
        {"tool_calls": [{"index": 1, "function": {"name": "go", "arguments": "{}"}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": " 1}"}}]},
    ]
    assert list(Answer().feed(pieces(*calls))) == [Piece("call", 'look({"at": 1})'), Piece("call", "go({})")]


def test_an_answer_that_is_no_stream_is_shown_too() -> None:
    message = {"role": "assistant", "content": "Yes.", "reasoning": "Hm.", "tool_calls": None}
    body = json.dumps({"choices": [{"index": 0, "message": message, "finish_reason": "length"}]}).encode()
    assert list(Answer().whole(body)) == [Piece("thought", "Hm."), Piece("text", "Yes."), Piece("end", "length")]


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        (b'data: {"error": {"message": "CUDA out of memory", "code": 500}}\n\n', "CUDA out of memory"),
        (b'data: {"error": "gone"}\n\n', "gone"),
        (b"data: {\n\n", "no JSON"),
        (b"data: 7\n\n", "no JSON object"),
    ],
)
def test_what_fails_in_the_middle_says_why(raw: bytes, says: str) -> None:
    with pytest.raises(AnswerFailed, match=says):
        list(Answer().feed(raw))


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), lambda v: st.lists(v) | st.dictionaries(
    st.sampled_from(["choices", "delta", "index", "content", "tool_calls", "function", "name", "x"]), v)))  # fmt: skip
def test_an_event_of_any_form_is_read_or_refused(value: Any) -> None:
    try:
        found = list(Answer().feed(b"data: %b\n\n" % json.dumps(value).encode()))
    except AnswerFailed:
        return
    assert all(isinstance(one.text, str) for one in found)


@given(st.binary())
def test_the_reason_of_any_error_body_is_a_text(body: bytes) -> None:
    assert error_of(body)[0]


# --- sentences -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("headers", "says"),
    [
        ({"status": "injected", "count": "2", "kept": "0", "tokens": "96", "millis": "14.2", "retrieval": "r"},
         "memory: 2 new, 96 tokens, 14.2 ms; /why shows it · 0.5 s in all"),
        ({"status": "injected", "count": "1", "kept": "3", "tokens": "~96", "retrieval": "r"},
         "memory: 1 new and 3 from before, ~96 tokens; /why shows it · 0.5 s in all"),
        ({"status": "empty", "count": "0", "retrieval": "r"}, "memory: nothing recalled · 0.5 s in all"),
        ({"status": "degraded; reason=deadline; rung=none"},
         "memory: none this time, it was not found in time · 0.5 s in all"),
        ({"status": "degraded; reason=store", "capture": "spool"},
         "memory: none this time, its store does not answer · 0.5 s in all"),
        ({"status": "empty", "capture": "none"},
         "memory: nothing recalled, this exchange could NOT be kept · 0.5 s in all"),
        ({"status": "empty", "capture": "off"},
         "memory: nothing recalled, this exchange is not kept: the key may not write · 0.5 s in all"),
        ({"status": "injected", "count": "1", "kept": "0", "tokens": "40", "outside": "found; pages=1"},
         "memory: 1 new, 40 tokens, 1 pages of the web · 0.5 s in all"),
        ({"status": "empty", "outside": "too_slow; pages=0"},
         "memory: nothing recalled, no pages of the web (too_slow) · 0.5 s in all"),
        ({}, "memory: this is no memory-proxy · 0.5 s in all"),
    ],
)  # fmt: skip
def test_the_status_line_says_what_memory_did(headers: dict[str, str], says: str) -> None:
    assert status_line(headers, 0.5, "on") == says


def test_a_script_is_told_of_no_command_that_only_a_talk_has() -> None:
    headers = {"status": "injected", "count": "1", "tokens": "9", "retrieval": "r1"}
    said = status_line(headers, 0.5, "on", in_talk=False)
    assert "/why" not in said and "memory-proxy search --retrieval r1" in said


@given(st.dictionaries(st.sampled_from(["status", "count", "kept", "tokens", "millis", "capture"]), st.text()))
def test_any_header_makes_one_line(headers: dict[str, str]) -> None:
    assert status_line(headers, 1.0, "on").startswith("memory: ")


@pytest.mark.parametrize(
    ("failure", "does"),
    [
        (Failure("away", "Connection refused"), "memory-proxy serve"),
        (Failure("broke", "the connection was cut"), "/retry"),
        (Failure("refused", "no", 401, "invalid_api_key"), "--key"),
        (Failure("refused", "no", 401, "401"), "--key"),
        (Failure("refused", "no", 403, "scope_denied"), "another key"),
        (Failure("refused", "no", 403, "capability_missing"), "--can"),
        (Failure("refused", "The model `x` does not exist.", 404, "404"), "/model"),
        (Failure("refused", "no such persona", 404, "not_found", "X-Memory-Persona"), "/persona -"),
        (Failure("refused", "no such value", 400, "memory_invalid", "X-Memory-Persona"), "/persona -"),
        (Failure("refused", "no such checkpoint", 404, "not_found", "X-Memory-Checkpoint"), "/checkpoint load"),
        (Failure("refused", "This model's maximum context length is 8192 tokens", 400), "/session new"),
        (Failure("refused", "slow down", 429, "rate_limited", retry_after="7"), "come again in 7 s"),
        (Failure("refused", "vLLM is away", 502, "upstream_unreachable"), "doctor"),
        (Failure("refused", "vLLM is loading", 503), "/retry"),
    ],
)
def test_every_fault_says_what_to_do(failure: Failure, does: str) -> None:
    said = failure_words(failure, "http://h")
    assert does in said
    assert failure.message in said
    in_a_script = failure_words(failure, "http://h", in_talk=False)
    assert failure.message in in_a_script
    assert not re.search(r"/(retry|undo|session|model|persona|checkpoint)", in_a_script)


def test_a_fault_of_a_command_has_a_remedy_only_where_its_code_has_one() -> None:
    assert remedy("not_found") == ""
    assert "--can" in remedy("capability_missing")
