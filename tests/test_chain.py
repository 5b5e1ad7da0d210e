"""The same conversation gives the same chain, whatever a client's library does to its messages; others do not."""

import base64
import json
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openai.lib.streaming.chat import ChatCompletionStreamState
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from memory.chain import (
    BEFORE_THE_FIRST,
    DIGEST_BYTES,
    canonical_message,
    chain,
    extend,
    is_chained,
    message_text,
    told_attachments,
    with_attachments_read,
)
from memory.write.parts import typed
from policies.redaction import Redacted
from proxy.wire.answer import assemble_stream, parse_body

UNTIMED = settings(deadline=None)  # the machine is shared: a slow example proves nothing

KEY = b"k" * 32
PNG = bytes(range(256))


def same(first: object, second: object) -> bool:
    return extend(KEY, None, first) == extend(KEY, None, second)


def user(content: object) -> dict[str, object]:
    return {"role": "user", "content": content}


def calling(arguments: object, **others: object) -> dict[str, object]:
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": arguments}}
    return {"role": "assistant", "tool_calls": [call], **others}


def chunk(fields: dict[str, object]) -> dict[str, object]:
    choice = {"index": 0, "delta": fields, "finish_reason": None}
    return {"id": "i", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}


STREAM = [
    chunk({"role": "assistant", "content": ""}),
    chunk({"reasoning": "hm"}),
    chunk({"content": "Zoe\u0308 is "}),
    chunk({"content": "here.\n"}),
    chunk({"tool_calls": [{"index": 0, "id": "c1", "type": "function", "function": {"name": "f", "arguments": ""}}]}),
    chunk({"tool_calls": [{"index": 0, "function": {"arguments": '{"b": 1,'}}]}),
    chunk({"tool_calls": [{"index": 0, "function": {"arguments": ' "a": [2]}'}}]}),
]


def streamed_message() -> dict[str, object]:
    raw = b"".join(b"data: " + json.dumps(piece).encode() + b"\n\n" for piece in STREAM)
    return assemble_stream(raw + b"data: [DONE]\n\n").choices[0].as_message()


@pytest.mark.parametrize("dump", [{}, {"exclude_none": True}, {"exclude_unset": True}, {"by_alias": True}])
def test_a_streamed_answer_is_recognised_when_the_openai_client_sends_it_back(dump: dict[str, bool]) -> None:
    state = ChatCompletionStreamState()
    for piece in STREAM:
        state.handle_chunk(ChatCompletionChunk.model_validate(piece))
    sent_back = state.get_final_completion().choices[0].message.model_dump(**dump)
    assert same(streamed_message(), sent_back)
    assert same(streamed_message(), json.loads(json.dumps(sent_back)))


@pytest.mark.parametrize("dump", [{}, {"exclude_none": True}, {"exclude_unset": True}])
@pytest.mark.parametrize("content", ["Hello!", None, ""])
def test_a_plain_answer_is_recognised_when_the_openai_client_sends_it_back(
    content: str | None, dump: dict[str, bool]
) -> None:
    message: dict[str, object] = {"role": "assistant", "content": content, "reasoning": "r", "tool_calls": []}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    body = {"id": "i", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
    sent_back = ChatCompletion.model_validate(body).choices[0].message.model_dump(**dump)
    ours = parse_body(json.dumps(body).encode()).choices[0].as_message()
    assert same(ours, sent_back)
    assert same(ours, message)


def test_what_clients_change_on_the_way_does_not_matter() -> None:
    arguments = '{"a":[2],"b":1}'
    for variant in (
        calling(arguments, content=[{"type": "text", "text": "Zoë is here."}]),
        calling(json.loads(arguments), content="  Zoë is here. ", refusal=None, annotations=[], audio=None),
        calling(arguments, content=[{"type": "text", "text": "Zoë is here."}, {"type": "refusal", "refusal": "x"}]),
        calling(arguments, content="Zoë is here.", name="bot", reasoning="other", function_call=None),
        calling(arguments, content=["Zoë is here.", {"type": "text", "text": ""}], tool_call_id=""),
    ):
        assert same(streamed_message(), variant)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (user("a"), user("b")),
        (user("a"), {"role": "assistant", "content": "a"}),
        (user("a  b"), user("a b")),
        (user(["a", "b"]), user("ab")),
        (calling('{"a":1}'), calling('{"a":2}')),
        (calling("not json"), calling("not  json")),
        (calling("1"), {"role": "assistant"}),
        ({"role": "tool", "tool_call_id": "x"}, {"role": "tool", "tool_call_id": "y"}),
        ({"role": "tool", "content": "x"}, {"role": "tool", "tool_call_id": "x"}),
        ({"role": "userx", "content": ""}, {"role": "user", "content": "x"}),
        (user(7), user("7")),
        ("user", user(None)),
        (None, {}),
    ],
)
def test_different_messages_differ(first: object, second: object) -> None:
    assert not same(first, second)


def picture(url: str) -> dict[str, object]:
    return user([{"type": "image_url", "image_url": {"url": url, "detail": "low"}}])


def test_a_call_without_arguments_is_the_same_however_that_is_written() -> None:
    streamed = [
        chunk({"tool_calls": [{"index": 0, "id": "c1", "type": "function", "function": {"name": "f"}}]}),
        chunk({"tool_calls": [{"index": 0, "function": {"arguments": ""}}]}),
    ]
    raw = b"".join(b"data: " + json.dumps(piece).encode() + b"\n\n" for piece in streamed)
    answer = assemble_stream(raw + b"data: [DONE]\n\n").choices[0].as_message()
    nothing: list[object] = ["", None, "{}", "{ }", {}]
    assert all(same(answer, calling(arguments)) for arguments in nothing)
    assert not any(same(answer, calling(arguments)) for arguments in ("[]", "null", '{"a": 1}', " x"))


@pytest.mark.parametrize("name", ["think", "thinking", "reasoning"])
def test_an_answer_is_the_same_with_and_without_the_thought_it_opens_with(name: str) -> None:
    answer = {"role": "assistant", "content": f"\n<{name}>Bees? Yes.</{name}>\n\nWax is made by bees."}
    shown = {"role": "assistant", "content": "Wax is made by bees."}
    assert same(answer, shown) and same(answer, {**shown, "content": [{"type": "text", "text": answer["content"]}]})
    assert not same(user(answer["content"]), user(shown["content"]))
    assert not same(answer, {**shown, "content": f"<{name}>Bees? Yes. Wax is made by bees."})
    behind = {**shown, "content": f"Wax is made by bees. <{name}>Bees? Yes.</{name}>"}
    assert not same(behind, shown)


def test_numbers_that_javascript_writes_otherwise_are_equal() -> None:
    written = '{"x": 20.0, "y": [1e2, -0.0, 0.5, 1e400]}'
    again = calling('{"x":20,"y":[100,0,0.5,1e999]}')
    assert canonical_message(calling(written)) == canonical_message(again)
    assert canonical_message(calling(json.loads(written))) == canonical_message(again)
    assert canonical_message(calling('{"x":20.5}')) != canonical_message(calling('{"x":20}'))


def test_equal_files_are_equal_however_they_are_sent() -> None:
    encoded = base64.b64encode(PNG).decode()
    expected = picture(f"data:image/png;base64,{encoded}")
    for url in (
        f"data:image/jpeg;charset=x;BASE64,{encoded}",
        f"DATA:;base64,{encoded.rstrip('=')}",
        f"data:;base64,{base64.urlsafe_b64encode(PNG).decode()}",
        f"data:;base64,{quote(encoded, safe='')}",
        f"data:;base64,{encoded[:76]}\n{encoded[76:]}",
        f"data:,{quote(PNG)}",
    ):
        assert same(expected, picture(url))
    for part in (
        {"type": "input_image", "image_url": f"data:image/png;base64,{encoded}"},
        {"image_url": {"url": f"data:image/png;base64,{encoded}"}},
        {"type": "file", "file": {"filename": "a.png", "file_data": f"data:image/png;base64,{encoded}"}},
        {"type": "input_file", "filename": "b.png", "file_data": encoded},
        {"type": "input_audio", "input_audio": {"data": encoded, "format": "wav"}},
    ):
        assert same(expected, user([part]))


def test_different_files_differ() -> None:
    encoded = base64.b64encode(PNG).decode()
    parts: list[object] = [
        {"type": "image_url", "image_url": {"url": f"data:;base64,{encoded}"}},
        {"type": "image_url", "image_url": {"url": f"data:;base64,{encoded[4:]}"}},
        {"type": "image_url", "image_url": {"url": "data:;base64,???"}},
        {"type": "image_url", "image_url": {"url": "data:"}},
        {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}},
        {"type": "image_url", "image_url": {"url": "https://example.org/b.png"}},
        {"type": "image_url", "image_url": None, "uuid": "1"},
        {"type": "image_url", "image_url": None, "uuid": "2"},
        {"type": "file", "file": {"file_id": "file-1"}},
        {"type": "file", "file": {"file_id": "file-2"}},
        {"type": "image_embeds", "image_embeds": {"a": "b"}},
        7,
        None,
    ]
    assert len({extend(KEY, None, user([part])) for part in parts}) == len(parts)


def test_system_and_developer_messages_are_no_links() -> None:
    system, developer = {"role": "system", "content": "s"}, {"role": "developer", "content": "d"}
    plain = chain(KEY, [user("a"), user("b")])
    assert chain(KEY, [system, user("a"), developer, user("b"), system]) == [None, plain[0], None, plain[1], None]
    assert not is_chained(system)
    assert is_chained("junk")


def test_each_link_depends_on_the_key_and_on_all_before_it() -> None:
    links = chain(KEY, [user("a"), user("b"), user("b")])
    assert len({*links, *chain(b"other", [user("a"), user("b")]), extend(KEY, None, user("b"))}) == 6
    assert all(link is not None and len(link) == DIGEST_BYTES for link in links)
    assert extend(KEY, links[1], user("b")) == links[2]
    assert extend(KEY, BEFORE_THE_FIRST, user("a")) == links[0]
    assert chain(KEY, []) == []


def test_lone_surrogates_are_text_like_any_other() -> None:
    assert not same(user("\ud800"), user("\ud801"))
    assert same(user("\ud83d\ude00 é"), user("\U0001f600 e\u0301"))
    hostile = "\ud800"
    assert extend(KEY, None, {"role": hostile, "tool_call_id": hostile, **calling(hostile)}) is not None
    assert extend(KEY, None, picture(f"data:;base64,{hostile}")) is not None


JSON_VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=4)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(
                ("role", "content", "type", "text", "image_url", "url", "file", "data", "tool_calls", "function", "id")
            ),
            inner,
            max_size=4,
        ),
    ),
    max_leaves=12,
)


@UNTIMED
@given(JSON_VALUES)
def test_any_message_gets_a_stable_digest(value: object) -> None:
    for message in (value, user(value), {"role": value}, {"role": "assistant", "tool_calls": value}, user([value])):
        assert len(extend(KEY, None, message)) == DIGEST_BYTES
        assert canonical_message(message) == canonical_message(json.loads(json.dumps(message)))
        assert isinstance(message_text(message), str)
        read = with_attachments_read(message)
        assert canonical_message(read) == canonical_message(message) and message_text(read) == message_text(message)


@UNTIMED
@given(st.lists(st.text(max_size=4), min_size=1, max_size=4), st.lists(st.text(max_size=4), min_size=1, max_size=4))
def test_the_encoding_is_unambiguous(first: list[str], second: list[str]) -> None:
    def message(names: list[str]) -> dict[str, object]:
        calls = [{"id": name, "function": {"name": name, "arguments": name + "x"}} for name in names]
        return {"role": "assistant", "tool_calls": calls}

    assert (canonical_message(message(first)) == canonical_message(message(second))) == (first == second)


def test_nesting_past_the_limit_is_a_digest_too() -> None:
    deep: object = "x"
    for _ in range(100_000):
        deep = [deep]
    assert len(extend(KEY, None, user(deep))) == DIGEST_BYTES
    assert len(extend(KEY, None, calling("[" * 100_000))) == DIGEST_BYTES


def test_text_of_a_message_is_its_text_parts() -> None:
    parts = [{"type": "text", "text": "a"}, "b", {"type": "image_url"}, {"type": "input_text", "text": "c"}, None]
    assert message_text(user(parts)) == "a\nb\nc"
    assert message_text(user({"text": "a"})) == ""
    assert message_text("junk") == ""


class KeepsAll:
    def redact(self, text: str) -> Redacted:
        return Redacted(text, ())


@pytest.mark.parametrize(
    "part",
    [
        {"type": "image_url", "image_url": {"url": "data:image/png;base64," + base64.b64encode(PNG).decode()}},
        {"type": "image_url", "image_url": {"url": "data:image/png," + quote(PNG)}},
        {"type": "image_url", "image_url": {"url": "data:;base64," + quote(base64.b64encode(PNG), safe="")}},
        {"type": "image_url", "image_url": {"url": "data:text/plain,"}},
        {"type": "image_url", "image_url": {"url": "https://pictures.example/cat.png"}},
        {"image_url": "https://pictures.example/cat.png"},
        {"type": "input_audio", "input_audio": {"data": base64.b64encode(PNG).decode(), "format": "wav"}},
        {"type": "file", "file": {"file_id": "file-7"}},
        {"type": "file", "file": {"file_data": base64.b64encode(PNG).decode(), "filename": "cat.png"}},
        {"type": "refusal", "refusal": "No."},
    ],
)
def test_what_is_kept_of_an_attachment_is_the_same_in_the_chain(part: dict[str, object]) -> None:
    message = user([{"type": "text", "text": "Look."}, part])
    kept = typed(message, KeepsAll())
    assert extend(KEY, None, user(kept.text), told_attachments(kept.parts or ())) == extend(KEY, None, message)
    read = with_attachments_read(message)
    assert isinstance(read, dict) and typed(read, KeepsAll()) == kept and same(read, message)
