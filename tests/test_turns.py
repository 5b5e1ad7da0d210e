"""Turns keep what a message is: tool calls and outputs by name, attachments by digest, no bytes and no secrets."""

from __future__ import annotations

import base64
import hashlib
import json
import random
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.adapters.secret_rules import secret_detectors
from memory.adapters.tokenizer import EstimatedTokens
from memory.chain import Digest, chain
from memory.envelope import DataKey
from memory.ids import new_id
from memory.model import Captured, Entry, ImportChunk, ImportLine, Placed, Retrieval, Scope, SessionRef, Turn
from memory.write.copied import chained, kept
from memory.write.facts import facts_of
from memory.write.parts import PARTS_MAX, clean_calls, cut_binaries, told_again, typed
from memory.write.personal import PersonalRedactor, SubjectTokens
from memory.write.redact import Redactor
from memory.write.turns import as_sensitive_as_given, body_of, messages_of, place_of_line, turn_of, turn_of_line
from policies.personal import PersonalPolicy
from proxy.wire.answer import assemble_stream, parse_body

T0 = datetime(2026, 11, 21, tzinfo=UTC)
KEY = bytes(32)
REDACTOR = Redactor(secret_detectors())
RAW = random.Random(7).randbytes(225_000)
PICTURE = base64.b64encode(RAW).decode()
SHA = hashlib.sha256(RAW).hexdigest()
TOKEN = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"


class NoLanguage:
    """Detects nothing."""

    def detect(self, text: str) -> str | None:
        return None


def call(call_id: str, name: str, **arguments: Any) -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}


def turns_of(*messages: dict[str, Any], answer: dict[str, Any] | None = None, **more: Any) -> list[Turn]:
    """The turns of one live exchange, as the worker makes them."""
    captured = Captured(
        exchange_id=new_id(),
        scope=Scope(UUID(int=1)),
        session=SessionRef(UUID(int=2), "s"),
        mode="on",
        status="complete",
        reason=None,
        http_status=200,
        model="m",
        arrived_at=T0,
        finished_at=T0,
        request=json.dumps({"messages": messages, **more}).encode(),
        answer={"choices": [{"index": 0, "message": answer, "finish_reason": "stop"}]} if answer else {},
        digests=tuple(chain(KEY, messages)),
    )
    return [
        turn_of(
            one, captured.exchange_id, model="m", redactor=REDACTOR, counter=EstimatedTokens(), languages=NoLanguage()
        )
        for one in messages_of(captured, body_of(captured), KEY)
    ]


def test_a_tools_output_carries_the_tools_name_and_label() -> None:
    weather, clock = call("c1", "weather", city="Lisbon"), call("c2", "clock")
    user, calls, second, first = turns_of(
        {"role": "user", "content": "How is it there?"},
        {"role": "assistant", "content": None, "tool_calls": [weather, clock]},
        {"role": "tool", "tool_call_id": "c2", "content": "12:00"},
        {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "Sun."}]},
    )
    assert calls.tool_calls == [weather, clock] and calls.content == "" and calls.name is None
    assert [(one.name, one.tool_call_id, one.content) for one in (second, first)] == [
        ("clock", "c2", "12:00"),
        ("weather", "c1", "Sun."),
    ]
    assert {one.integrity.value for one in (second, first)} == {"tool"} and user.integrity.value == "user"


def test_the_call_before_an_output_counts_where_ids_come_again() -> None:
    turns = turns_of(
        {"role": "assistant", "tool_calls": [call("call_0", "weather")]},
        {"role": "tool", "tool_call_id": "call_0", "content": "Sun."},
        {"role": "assistant", "tool_calls": [call("call_0", "clock")]},
        {"role": "tool", "tool_call_id": "call_0", "content": "12:00"},
        {"role": "tool", "tool_call_id": "call_9", "content": "nobody asked"},
        {"role": "tool", "tool_call_id": "call_0", "name": "named", "content": "by itself"},
    )
    assert [one.name for one in turns] == [None, "weather", None, "clock", None, "named"]


def test_a_name_that_is_the_role_names_nobody() -> None:
    said, other, answer = turns_of(
        {"role": "user", "name": "user", "content": "My cat is called Mina."},
        {"role": "user", "name": "writer", "content": "Mine is called Tom."},
        {"role": "assistant", "name": "assistant", "content": "Fine names."},
    )
    assert (said.name, other.name, answer.name) == (None, "writer", None)
    assert [fact.fact.statement for fact in facts_of([said])] == ["The user's cat is called Mina."]


def test_an_answers_calls_and_refusal_are_kept_as_what_they_are() -> None:
    body = {"choices": [{"message": {"role": "assistant", "content": None, "refusal": f"No, {TOKEN} is a secret."}}]}
    choice = parse_body(json.dumps(body).encode()).choices[0]
    message = {**choice.as_message(), "refusal": choice.refusal}
    refused = turns_of({"role": "user", "content": "x"}, answer=message)[1]
    assert (refused.content, refused.parts) == ("", [{"type": "refusal", "text": "No, [redacted:github] is a secret."}])
    assert refused.redactions == 1
    again = turns_of({"role": "user", "content": "x"}, {"role": "assistant", "content": ""})[1]
    assert refused.chain == again.chain
    old = {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}}
    assert turns_of(old)[0].tool_calls == [{"type": "function", "function": {"name": "f", "arguments": "{}"}}]


@pytest.mark.parametrize("role", ["user", "system", "developer", "tool", ""])
@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "whole"])
def test_what_the_model_said_is_never_told_as_anybody_elses_words(role: str, streamed: bool) -> None:
    said = {"role": role, "content": "I live in Bergen."}
    body = json.dumps({"choices": [{"index": 0, "delta" if streamed else "message": said}]})
    answer = assemble_stream(f"data: {body}\n\ndata: [DONE]\n\n".encode()) if streamed else parse_body(body.encode())
    asked = {"role": "user", "content": "Go on:"}
    turn = turns_of(asked, answer=answer.choices[0].as_message())[1]
    assert (turn.role, turn.integrity.value, turn.model) == ("assistant", "assistant", "m")
    assert turn.chain == chain(KEY, [asked, {**said, "role": "assistant"}])[1]


def test_a_thought_in_an_answers_text_is_no_part_of_the_turn() -> None:
    thought = "<think>\nThe user has a boat.\n</think>\n\n"
    asked = {"role": "user", "content": f"{thought}What is that?"}
    user, answer = turns_of(asked, answer={"role": "assistant", "content": f"{thought}A tag."})
    assert (user.content, answer.content) == (asked["content"], "A tag.")
    sent_again = turns_of(asked, {"role": "assistant", "content": "A tag."})[1]
    assert answer.chain == sent_again.chain


def test_arguments_lose_their_secrets_and_keep_their_form() -> None:
    given_ = {
        "password": "hunter2-Xk99z",
        "script": f"export TOKEN={TOKEN}\nrun --now",
        "nested": json.dumps({"api_key": "sk-proj-abc123DEF456ghi789JKL012mno345PQR678"}),
        "n": 1,
    }
    calls, found = clean_calls([call("chatcmpl-tool-9f8a7b6c5d4e3f2a1b0c", "f", **given_)], REDACTOR)
    assert calls is not None
    cleaned = calls[0]
    arguments = json.loads(cleaned["function"]["arguments"])
    assert cleaned["id"] == "chatcmpl-tool-9f8a7b6c5d4e3f2a1b0c" and found >= 3
    assert arguments["n"] == 1 and arguments["script"].endswith("\nrun --now")
    for secret in ("hunter2", TOKEN, "sk-proj"):
        assert secret not in json.dumps(cleaned)


@pytest.mark.parametrize("old", [False, True])
def test_arguments_that_come_as_an_object_lose_what_they_would_lose_as_a_text(old: bool) -> None:
    said = {"user": "bob", "password": "hunter2hunter2", "n": [1, {TOKEN: None}]}
    body = {"name": "login", "arguments": said}
    message = {"function_call": body} if old else {"tool_calls": [{"id": "c1", "function": body}]}
    (turn,) = turns_of({"role": "assistant", **message})
    assert turn.tool_calls is not None and turn.redactions == 2
    assert turn.tool_calls[0]["function"]["arguments"] == {
        "user": "bob", "password": "[redacted:password]", "n": [1, {"[redacted:github]": None}]
    }  # fmt: skip
    plain = {"city": "Lisbon", "days": 3}
    assert clean_calls([{"function": {"arguments": plain}}], REDACTOR)[0] == [{"function": {"arguments": plain}}]


def test_a_call_and_its_output_are_tied_whatever_stands_in_the_id() -> None:
    for given_ in (f"call-{TOKEN}", "c" * 250 + TOKEN, "call_" + "x" * 600):
        calls, output = turns_of(
            {"role": "assistant", "tool_calls": [call(given_, "weather")]},
            {"role": "tool", "tool_call_id": given_, "content": "Sun."},
        )
        assert calls.tool_calls is not None
        assert calls.tool_calls[0]["id"] == output.tool_call_id and len(output.tool_call_id or "") <= 256
        assert TOKEN[:10] not in json.dumps(calls.tool_calls) and output.name == "weather"


def test_what_is_cut_short_is_cleaned_before() -> None:
    """The head of a token that the cut went through looks like none."""
    long = "n" * 249 + " " + TOKEN
    file = {"type": "file", "file": {"filename": long, "file_id": long}}
    link = {"type": "image_url", "image_url": {"url": f"https://x.org/{'p' * 2_020}/{TOKEN}"}}
    (said,) = turns_of({"role": "user", "name": long, "content": [{"type": "text", "text": "x"}, file, link]})
    refused = turns_of({"role": "user", "content": "x"}, {"role": "assistant", "refusal": "r" * 8_180 + " " + TOKEN})[1]
    assert said.name is not None and said.parts is not None and refused.parts is not None
    told = (said.name, said.parts[0]["name"], said.parts[0]["file_id"], said.parts[1]["url"], refused.parts[0]["text"])
    assert [len(one) <= most for one, most in zip(told, (256, 256, 256, 2_048, 8_192), strict=True)] == [True] * 5
    assert not any("ghp" in one for one in told)


def test_a_part_is_of_a_type_that_holds_no_secret() -> None:
    """Type and media type are free text of the client's, too: 64 characters of them were kept as they came."""
    kind = {"type": f"image {TOKEN}"}
    data = {"type": "image_url", "image_url": {"url": f"data:image/{TOKEN};base64,{PICTURE}"}}
    said = typed({"content": [kind, data]}, REDACTOR)
    assert said.parts is not None and "ghp" not in json.dumps(said.parts) and said.redactions == 2
    assert said.parts[0]["type"].startswith("image ") and said.parts[1]["media_type"].startswith("image/")


def test_arguments_without_a_secret_stay_byte_for_byte() -> None:
    calls = [{"id": "c", "type": "function", "function": {"name": "f", "arguments": '{ "a" : [1,2.50, "é\\n"]}'}}]
    assert clean_calls(calls, REDACTOR) == (calls, 0)


@pytest.mark.parametrize("calls", [["x"], [None], [{"function": 3}], [{"id": 3}], [{"function": {"arguments": {}}}]])
def test_odd_calls_are_kept(calls: list[Any]) -> None:
    assert turns_of({"role": "assistant", "tool_calls": calls})[0].tool_calls == calls


def test_calls_nested_too_deeply_cost_the_calls_only() -> None:
    deep: Any = "x"
    for _ in range(700):
        deep = [deep]
    turn = typed({"content": "hello", "tool_calls": [deep], "role": "assistant"}, REDACTOR)
    assert turn.text == "hello" and turn.tool_calls is not None
    arguments = {"function": {"arguments": "[" * 5000 + "]" * 5000}}
    assert typed({"content": "", "tool_calls": [arguments]}, REDACTOR).tool_calls is not None


def test_attachments_are_told_by_digest_or_address_never_by_bytes() -> None:
    (turn,) = turns_of(
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "What is this?"},
                {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PICTURE}", "detail": "low"}},
                {"type": "image_url", "image_url": {"url": "https://bob:pw@x.org/a.png?X-Amz-Signature=1f#z"}},
                {"type": "input_audio", "input_audio": {"data": PICTURE, "format": "wav"}},
                {"type": "file", "file": {"file_data": f"data:application/pdf;base64,{PICTURE}", "filename": "a.pdf"}},
                {"type": "file", "file": {"file_id": "file-1"}},
                {"type": "thinking", "thinking": "hidden"},
                {"type": "strange", "x": 1},
            ],
        }
    )
    assert turn.content == "What is this?"
    same = {"sha256": SHA, "bytes": len(RAW)}
    strange = json.dumps({"type": "strange", "x": 1}, sort_keys=True).encode()
    assert turn.parts == [
        {"type": "image_url", "media_type": "image/png", **same},
        {"type": "image_url", "url": "https://x.org/a.png"},
        {"type": "input_audio", **same},
        {"type": "file", "name": "a.pdf", "media_type": "application/pdf", **same},
        {"type": "file", "file_id": "file-1"},
        {"type": "strange", "sha256": hashlib.sha256(strange).hexdigest(), "bytes": len(strange)},
    ]
    many = [{"type": "image_url", "image_url": {"url": f"https://x.org/{n}"}} for n in range(500)]
    assert len(typed({"content": many}, REDACTOR).parts or ()) == PARTS_MAX


@pytest.mark.parametrize(
    "part",
    [
        {"type": "image_embeds", "image_embeds": PICTURE},
        {"image_embeds": PICTURE},
        {"type": "image_embeds", "image_embeds": {"url": PICTURE}},
        {"type": "image_embeds", "image_embeds": f" data:;base64,{PICTURE}"},
    ],
    ids=["bare", "untyped", "as a url", "behind a blank"],
)
def test_bytes_that_stand_where_an_address_would_are_told_by_their_digest(part: dict[str, Any]) -> None:
    """As vLLM takes them."""
    (turn,) = turns_of({"role": "user", "content": [part, {"type": "text", "text": "What is this?"}]})
    assert turn.parts == [{"type": "image_embeds", "sha256": SHA, "bytes": len(RAW)}]


def test_an_attachment_without_a_type_is_told_and_an_address_stays_one() -> None:
    long = "https://x.org/" + "a1B2" * 400
    (turn,) = turns_of({"role": "user", "content": [{"image_url": long}, {"text": "What is this?"}, {"odd": 1}]})
    assert (turn.content, turn.parts) == ("What is this?", [{"type": "image_url", "url": long}])


@pytest.mark.parametrize(
    "shown",
    [
        PICTURE,
        f"data:image/png;base64,{PICTURE}",
        base64.urlsafe_b64encode(RAW).decode(),
        base64.encodebytes(RAW).decode().rstrip("\n"),
        RAW.hex(),
    ],
    ids=["base64", "data url", "url-safe", "wrapped", "hex"],
)
def test_binary_data_in_a_text_is_named_and_known_by_its_bytes(shown: str) -> None:
    text, parts = cut_binaries(f"Here it is: ({shown}) and that was it.")
    assert text == f"Here it is: ([data: {len(RAW)} bytes]) and that was it."
    assert parts == [{"type": "data", "sha256": SHA, "bytes": len(RAW)}]
    assert cut_binaries(text) == (text, [])


def test_long_texts_that_are_no_binary_data_stay() -> None:
    rows = json.dumps([{"id": n, "name": f"row {n}"} for n in range(12_000)])
    assert len(rows) > 300_000
    (output,) = turns_of({"role": "tool", "tool_call_id": "c", "content": rows})
    assert output.content == rows and output.parts is None
    for text in ("a" * 300_000, "word " * 60_000, "Donaudampfschiff" * 100, "-" * 5000, "x/y/z_" * 500):
        assert cut_binaries(text) == (text, [])


@given(st.text(max_size=300), st.binary(min_size=800, max_size=3000), st.text(max_size=300))
def test_whatever_stands_around_it_no_text_is_lost(before: str, raw: bytes, after: str) -> None:
    """But for letters that themselves could be of the data."""
    text, parts = cut_binaries(f"{before} {base64.b64encode(raw).decode()} {after}")
    assert text.startswith(f"{before} ") and text.endswith(f" {after}")
    assert len(parts) <= 1


def test_an_imported_call_and_output_are_kept_too() -> None:
    chunk = ImportChunk(new_id(), new_id(), 0, Scope(UUID(int=1)), True, "error", T0, ())
    weather = call("c1", "weather", token=TOKEN)
    said = ImportLine(1, "s", "assistant", None, "", T0, None, b"d", [weather])
    output = ImportLine(2, "s", "tool", "weather", "Sun.", T0, None, b"e", None, "c1")
    turns = [
        turn_of_line(
            line, chunk, Digest(bytes(32)), None,
            redactor=REDACTOR, counter=EstimatedTokens(), languages=NoLanguage(),
        )
        for line in (said, output)
    ]  # fmt: skip
    assert turns[0].tool_calls is not None and TOKEN not in json.dumps(turns[0].tool_calls)
    assert (turns[1].name, turns[1].tool_call_id, turns[1].integrity.value) == ("weather", "c1", "tool")


def test_no_member_of_a_part_that_an_export_tells_brings_a_secret() -> None:
    told = [{name: f"{TOKEN} {name}" for name in ("type", "media_type", "name", "file_id", "url", "text")}]
    (part,) = told_again([{**told[0], "sha256": SHA, "bytes": 3}], REDACTOR)
    assert TOKEN not in json.dumps(part) and part.keys() == {*told[0], "sha256", "bytes"}
    assert (part["sha256"], part["bytes"]) == (SHA, 3)
    plain = {"type": "image_url", "media_type": "image/png", "sha256": SHA, "bytes": 3}
    assert told_again([plain], REDACTOR) == [plain]


@pytest.mark.parametrize(
    ("role", "was", "kept"), [("user", "imported", "imported"), ("assistant", "user", "assistant")]
)
def test_an_imported_turn_gains_no_trust_by_who_imports_it(role: str, was: str, kept: str) -> None:
    chunk = ImportChunk(new_id(), new_id(), 0, Scope(UUID(int=1)), True, "error", T0, ())
    line = ImportLine(1, "s", role, None, "I like tea.", T0, None, b"d", integrity=was)
    turn = turn_of_line(
        line, chunk, Digest(bytes(32)), None,
        redactor=REDACTOR, counter=EstimatedTokens(), languages=NoLanguage(),
    )  # fmt: skip
    assert turn.integrity.value == kept


@pytest.mark.parametrize(
    ("blocks", "label"),
    [
        ([], "internal"),
        ([("public", False)], "internal"),
        ([("internal", False), ("confidential", True)], "confidential"),
        ([("confidential", False), ("internal", True)], "confidential"),
    ],
)
def test_an_answer_is_as_sensitive_as_the_memory_it_was_given(blocks: list[tuple[str, bool]], label: str) -> None:
    placed = tuple(
        Placed(at, Digest(b"c" * 32), Entry("…", 3, (), sensitivity, UUID(int=2)), UUID(int=2) if kept else None)
        for at, (sensitivity, kept) in enumerate(blocks)
    )
    found = ({"sensitivity": "secret", "injected": False},)
    record = Retrieval(
        UUID(int=1), "injected", None, "full", "c", "m", "q", found, placed, 0, True, 1.0, b"", datetime.now(UTC)
    )
    turns = turns_of({"role": "user", "content": "and?"}, answer={"role": "assistant", "content": "so."})
    labelled = as_sensitive_as_given(turns, record)
    assert [turn.sensitivity.value for turn in labelled] == ["internal", label]
    assert as_sensitive_as_given(turns, None) == tuple(turns)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"continue_final_message": True}, " Lofthus."),
        ({"continue_final_message": "true"}, " Lofthus."),
        ({"continue_final_message": True, "echo": True}, "It is in Lofthus."),
    ],
)
def test_an_answer_that_its_client_had_begun_is_one_turn_and_is_where_it_is_sent_again(
    more: dict[str, Any], said: str
) -> None:
    user, begun = {"role": "user", "content": "Where is it?"}, {"role": "assistant", "content": "It is in"}
    turns = turns_of(user, begun, answer={"role": "assistant", "content": said}, **more)
    whole = {"role": "assistant", "content": "It is in Lofthus."}
    assert [turn.content for turn in turns] == ["Where is it?", "It is in Lofthus."]
    assert [turn.chain for turn in turns] == chain(KEY, [user, whole])


def test_what_a_client_had_begun_is_a_turn_where_no_answer_came_or_none_was_to_go_on_with_it() -> None:
    user, begun = {"role": "user", "content": "Where is it?"}, {"role": "assistant", "content": "It is in"}
    answer = {"role": "assistant", "content": "In Lofthus."}
    assert len(turns_of(user, begun, continue_final_message=True)) == 2
    assert len(turns_of(user, begun, answer=answer)) == 3
    assert len(turns_of(user, answer=answer, continue_final_message=True)) == 2


def test_a_line_with_tokens_stands_where_a_store_with_others_looks_for_it() -> None:
    """A token is an HMAC under a subject's key: the same address has another one in a copy, or a mask."""
    said = "Write to ada@example.org, please."
    elsewhere = SubjectTokens(DataKey(UUID(int=9), b"9" * 32), UUID(int=1), UUID(int=2))
    policy = PersonalPolicy(email="tokenise")
    exported = PersonalRedactor(REDACTOR, policy, elsewhere).redact(said).text
    assert "[kept:email:" in exported
    line = ImportLine(1, "s", "user", None, exported, T0, "a", b"d")
    for here in (policy, PersonalPolicy(email="mask")):
        words = kept([{"role": "user", "content": said}], PersonalRedactor(REDACTOR, here))
        assert [place_of_line(line, KEY, None)[1]] == chained(KEY, words)
