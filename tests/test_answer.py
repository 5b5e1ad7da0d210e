"""An answer put together from what the client got is the answer the model gave."""

import codecs
import gzip
import json
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openai.lib.streaming.chat import ChatCompletionStreamState
from openai.types.chat import ChatCompletionChunk

from proxy.wire.alike import ALIKE_MAX
from proxy.wire.answer import Answer, AnswerUnreadable, Choice, ToolCall, assemble_stream, decompress, parse_body

UNTIMED = settings(deadline=None)  # the machine is shared: a slow example proves nothing

HEAD: dict[str, object] = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
DONE = b"data: [DONE]\n\n"


def event(value: object) -> bytes:
    return b"data: " + json.dumps(value).encode() + b"\n\n"


def delta(fields: dict[str, object], index: int = 0, finish: str | None = None) -> dict[str, object]:
    return HEAD | {"choices": [{"index": index, "delta": fields, "logprobs": None, "finish_reason": finish}]}


def stream(*chunks: object) -> bytes:
    return b"".join(map(event, chunks)) + DONE


def call_delta(index: int, arguments: str, **first: object) -> dict[str, object]:
    name = {"name": first.pop("name")} if "name" in first else {}
    return {"tool_calls": [{"index": index, **first, "function": {**name, "arguments": arguments}}]}


def only(answer: Answer) -> Choice:
    (choice,) = answer.choices
    return choice


def test_text_reasoning_and_usage_of_a_stream_come_together() -> None:
    answer = assemble_stream(
        b": keep-alive\n\n"
        + stream(
            delta({"role": "assistant", "content": ""}),
            delta({"reasoning": "let me "}),
            delta({"reasoning": "think"}),
            delta({"content": "It is "}),
            delta({"content": "blue \U0001f600"}),
            delta({}, finish="stop"),
            HEAD | {"choices": [], "usage": {"prompt_tokens": 9}},
        )
    )
    assert (answer.id, answer.model, answer.complete, answer.error) == ("chatcmpl-1", "m", True, None)
    assert answer.usage == {"prompt_tokens": 9}
    assert answer.extra == {"object": "chat.completion.chunk", "created": 1}
    choice = only(answer)
    assert (choice.role, choice.content, choice.reasoning) == ("assistant", "It is blue \U0001f600", "let me think")
    assert (choice.refusal, choice.finish_reason, choice.tool_calls) == (None, "stop", ())


def test_tool_calls_are_joined_by_their_index() -> None:
    answer = assemble_stream(
        stream(
            delta(call_delta(1, "", id="b", type="function", name="second")),
            delta(call_delta(0, "", id="a", type="function", name="first")),
            delta(call_delta(1, '{"x":')),
            delta(call_delta(0, "{}")),
            delta(call_delta(1, "1}")),
            delta({}, finish="tool_calls"),
        )
    )
    choice = only(answer)
    assert choice.tool_calls == (
        ToolCall(0, "a", "function", "first", "{}", {}),
        ToolCall(1, "b", "function", "second", '{"x":1}', {}),
    )
    assert (choice.content, choice.finish_reason) == (None, "tool_calls")


def test_several_choices_are_kept_apart() -> None:
    answer = assemble_stream(stream(delta({"content": "b"}, 1), delta({"content": "a"}), delta({"content": "B"}, 1)))
    assert [(choice.index, choice.content) for choice in answer.choices] == [(0, "a"), (1, "bB")]


def test_unknown_fields_survive() -> None:
    answer = assemble_stream(
        stream(
            delta({"reasoning_content": "ab", "score": 1, "nothing": None}),
            delta({"reasoning_content": "cd", "score": 2, "nothing": None}),
        )
    )
    assert only(answer).extra == {"reasoning_content": "abcd", "score": 2}


def test_an_error_in_mid_stream_is_seen_and_what_came_before_is_kept() -> None:
    answer = assemble_stream(stream(delta({"content": "half"}), {"error": {"message": "engine died", "code": 500}}))
    assert answer.error == {"message": "engine died", "code": 500}
    assert only(answer).content == "half"
    named = assemble_stream(b'event: error\ndata: {"message":"m"}\n\n')
    assert named.error == {"message": "m"}


@pytest.mark.parametrize("cut", [1, 5, 14, 15, 30])
def test_a_stream_that_broke_off_is_not_complete(cut: int) -> None:
    whole = stream(delta({"content": "one"}), delta({"content": "two"}))
    answer = assemble_stream(whole[: -len(DONE) - cut])
    assert not answer.complete
    assert (only(answer).content or "").startswith("one")


def test_a_final_event_without_its_line_ends_counts() -> None:
    assert assemble_stream(stream(delta({"content": "x"})).rstrip(b"\n")).complete


def test_events_that_are_not_objects_are_counted_not_raised() -> None:
    answer = assemble_stream(b"data: {broken\n\ndata: [1]\n\ndata: " + b"[" * 100_000 + b"\n\n" + stream())
    assert (answer.malformed_events, answer.choices, answer.complete) == (3, (), True)


def test_a_body_gives_the_same_answer_as_its_stream() -> None:
    call = {"id": "a", "type": "function", "function": {"name": "f", "arguments": '{"x":1}'}}
    message = {"role": "assistant", "content": "hi", "refusal": None, "reasoning": "r", "tool_calls": [call]}
    body = HEAD | {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}], "usage": {"total_tokens": 3}}
    streamed = stream(
        delta({"role": "assistant", "content": "h", "reasoning": "r"}),
        delta({"content": "i"}),
        delta(call_delta(0, '{"x"', id="a", type="function", name="f")),
        delta(call_delta(0, ":1}"), finish="stop"),
        HEAD | {"choices": [], "usage": {"total_tokens": 3}},
    )
    assert parse_body(json.dumps(body).encode()) == assemble_stream(streamed)


def test_a_body_may_begin_with_a_byte_order_mark_as_a_stream_may() -> None:
    body = codecs.BOM_UTF8 + b'{"choices":[{"index":0,"message":{"content":"hi"},"finish_reason":"stop"}]}'
    assert only(parse_body(body)).content == "hi"


def test_an_error_body_is_an_error() -> None:
    answer = parse_body(b'{"error":{"message":"too long","code":400}}')
    assert (answer.error, answer.complete) == ({"message": "too long", "code": 400}, False)
    older = parse_body(b'{"object":"error","message":"too long","code":400}')
    assert older.error is not None
    assert older.error["code"] == 400
    assert parse_body(b'{"error":"plain"}').error == {"message": "plain"}


def test_a_body_with_an_error_is_not_complete_whatever_it_says_beside_it() -> None:
    body = {"error": {"message": "engine died"}, "choices": [{"index": 0, "message": {"content": "half"}}]}
    answer = parse_body(json.dumps(body).encode())
    assert (answer.error, answer.complete, only(answer).content) == ({"message": "engine died"}, False, "half")


def test_what_the_model_said_is_the_assistants_whoever_it_says_it_is() -> None:
    """Where add_generation_prompt is false, vLLM gives an answer the role of the message before it."""
    said = only(parse_body(b'{"choices":[{"index":0,"message":{"role":"user","content":"I am the admin"}}]}'))
    assert said.as_message() == {"role": "assistant", "content": "I am the admin"}


def test_arguments_that_are_an_object_are_kept_as_json() -> None:
    call = {"id": "a", "function": {"name": "f", "arguments": {"on": True, "who": None}}}
    body = {"choices": [{"index": 0, "message": {"tool_calls": [call]}}]}
    (made,) = only(parse_body(json.dumps(body).encode())).tool_calls
    assert json.loads(made.arguments) == {"on": True, "who": None}


def test_a_reason_to_finish_outlives_the_chunks_behind_it() -> None:
    answer = assemble_stream(stream(delta({"content": "x"}, finish="length"), delta({"content": ""})))
    assert only(answer).finish_reason == "length"


@pytest.mark.parametrize("raw", [b"", b"<html>", b"[]", b'{"choices":', b"\xff\xfe", b"[" * 100_000])
def test_a_body_that_is_no_json_object_says_so(raw: bytes) -> None:
    answer = parse_body(raw)
    assert answer.unreadable is not None
    assert not answer.complete


TEXTS = st.lists(st.text(max_size=4), max_size=5)
JSON_VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=3)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(
                ("choices", "delta", "message", "tool_calls", "function", "index", "error", "content", "id")
            ),
            inner,
            max_size=4,
        ),
    ),
    max_leaves=12,
)


@UNTIMED
@given(st.lists(JSON_VALUES, max_size=4))
def test_no_answer_of_any_shape_raises(values: list[object]) -> None:
    assert assemble_stream(stream(*values)).complete
    for value in values:
        parse_body(json.dumps({"choices": value}).encode())
        parse_body(json.dumps({"choices": [{"message": value, "index": value}]}).encode())


@UNTIMED
@given(
    st.lists(st.text(max_size=4), max_size=5), st.lists(st.tuples(st.integers(0, 2), st.text(max_size=4)), max_size=6)
)
def test_the_answer_is_what_the_openai_client_puts_together(texts: list[str], calls: list[tuple[int, str]]) -> None:
    chunks = [delta({"role": "assistant", "content": ""}), *(delta({"content": text}) for text in texts)]
    chunks += [delta(call_delta(i, "", id=f"c{i}", type="function", name=f"f{i}")) for i in range(3)]
    chunks += [delta(call_delta(index, text)) for index, text in calls]
    chunks.append(delta({}, finish="stop"))
    state = ChatCompletionStreamState()
    for chunk in chunks:
        state.handle_chunk(ChatCompletionChunk.model_validate(chunk))
    theirs = state.get_final_completion().choices[0].message
    ours = only(assemble_stream(stream(*chunks)))
    assert ours.content == theirs.content
    assert [(c.id, c.name, c.arguments) for c in ours.tool_calls] == [
        (c.id, c.function.name, c.function.arguments) for c in theirs.tool_calls
    ]


PLAIN = b'{"a":"' + b"x" * 1_000 + b'"}'


@pytest.mark.parametrize(
    ("encoding", "sent"),
    [
        ("", PLAIN),
        ("identity", PLAIN),
        ("gzip", gzip.compress(PLAIN, mtime=0)),
        ("X-GZIP", gzip.compress(PLAIN, mtime=0)),
        ("gzip", gzip.compress(PLAIN[:7], mtime=0) + gzip.compress(PLAIN[7:], mtime=0)),
        ("gzip", gzip.compress(PLAIN, mtime=0) + b"\0\0"),
        ("gzip", b"".join(gzip.compress(PLAIN[at : at + 1], mtime=0) for at in range(len(PLAIN)))),
        ("deflate", zlib.compress(PLAIN)),
        ("deflate", zlib.compress(PLAIN)[2:-4]),
        ("deflate, gzip", gzip.compress(zlib.compress(PLAIN), mtime=0)),
    ],
)
def test_compressed_answers_are_read(encoding: str, sent: bytes) -> None:
    assert decompress(sent, encoding, bytes_max=len(PLAIN)) == PLAIN


def test_an_answer_whose_every_event_is_a_member_of_its_own_is_read_to_its_end() -> None:
    events = [b"data: %d\n\n" % number for number in range(5_000)]
    assert decompress(b"".join(map(gzip.compress, events)), "gzip", bytes_max=1_000_000) == b"".join(events)
    with pytest.raises(AnswerUnreadable, match="gzip members"):
        decompress(gzip.compress(b"") * 70_000, "gzip", bytes_max=1_000_000)


def test_a_truncated_answer_gives_what_there_is() -> None:
    whole = gzip.compress(bytes(range(256)) * 400)
    part = decompress(whole[: len(whole) // 2], "gzip", bytes_max=1_000_000)
    assert (bytes(range(256)) * 400).startswith(part)
    assert decompress(b"", "gzip", bytes_max=10) == b""


@pytest.mark.parametrize(
    ("encoding", "sent"),
    [
        ("br", PLAIN),
        ("zstd", PLAIN),
        ("gzip", b"not gzip"),
        ("gzip", gzip.compress(b"x" * 10_000_000)),
        ("deflate", zlib.compress(PLAIN + b"1")),
        ("identity", PLAIN + b"1"),
        ("gzip", gzip.compress(PLAIN, mtime=0) * 2),
    ],
)
def test_what_cannot_be_read_is_said_so(encoding: str, sent: bytes) -> None:
    with pytest.raises(AnswerUnreadable):
        decompress(sent, encoding, bytes_max=len(PLAIN))


def test_an_event_with_half_a_character_is_read() -> None:
    raw = b'data: {"choices": [{"index": 0, "delta": {"content": "half \\ud83d"}}]}\n\ndata: [DONE]\n\n'
    answer = assemble_stream(raw)
    assert (answer.choices[0].content, answer.malformed_events, answer.complete) == ("half \ud83d", 0, True)


def test_a_long_stream_is_read_in_pieces_that_cut_characters_and_events() -> None:
    words = [f"Wörter und 字 {number} " for number in range(4_000)]
    events = [json.dumps({"choices": [{"index": 0, "delta": {"content": one}}]}, ensure_ascii=False) for one in words]
    raw = "".join(f"data: {one}\n\n" for one in events).encode() + b"data: [DONE]\n\n"
    answer = assemble_stream(raw)
    assert (answer.choices[0].content, answer.malformed_events) == ("".join(words), 0)


@pytest.mark.parametrize("ends", ["\n", "\r\n", "\r"])
def test_a_stream_says_the_same_however_its_lines_end(ends: str) -> None:
    lines = [
        ": a comment",
        'data: {"id": "a", "choices": [{"index": 0, "delta": {"role": "assistant", "content": "Zwölf "}}]}',
        "",
        "id: 7",
        'data: {"choices": [{"index": 0,',
        'data: "delta": {"content": "Boote"}}]}',
        "",
        "",
        'data:{"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}',
        "",
        "data: [DONE]",
        "",
        "",
    ]
    answer = assemble_stream(ends.join(lines).encode())
    assert (only(answer).content, only(answer).finish_reason, answer.complete) == ("Zwölf Boote", "stop", True)


def test_a_byte_that_is_no_text_costs_its_character_alone() -> None:
    raw = b'data: {"choices": [{"index": 0, "delta": {"content": "a\xffb"}}]}\n\ndata: [DONE]\n\n'
    assert only(assemble_stream(raw)).content == "a\N{REPLACEMENT CHARACTER}b"


WORDS = (
    *(b"", b"a", b" b", b"\\n", b'\\"', b"\\\\", b"\\ud83d", b"\\ude00", b"\xff", b"\xc3", b"\xa9", b"\\", b'"', b","),
    *(
        b'x","y',
        b'x",\n"y',
        b'"],["',
        b'","content":"z',
        b'"},{"',
        b"\n",
        b"\n\n",
        b"\ndata: 1",
        b"\x01",
        b"-",
        b" [DONE]",
    ),
)
FRAMES = (
    (b'{"choices":[{"index":0,"delta":{"content":"', b'"}}]}'),
    (b'{"choices": [{"delta": {"content": "', b'"}, "finish_reason": null}], "x": {"delta": {"content": "n"}}}'),
    (b'{"choices":[{"index":1,"delta":{"reasoning":"', b'"}}],"created":1}'),
    (b'{"choices":[{"index":0,"delta":{"content":"', b'"},"finish_reason":"stop"}],"usage":{"total_tokens":1}}'),
    (b'{"choices":[{"index":0,"delta":{"content":"', b'"}},{"index":1,"delta":{"content":"n"}}]}'),
    (b'{"choices":[{"delta":{"content":"', b'"},"\\u0064elta":{"content":"n"}}]}'),
    (b'{"choices":[{"delta":{"content":"', b'","content":"n"}}]}'),
    (b'{"choices":[{"delta":{"role":"', b'"}}]}'),
    (b'{"choices":[{"delta":{"tool_calls":"', b'"}}]}'),
    (b'{"error":{"delta":{"content":"', b'"}}}'),
    (b'{"choices":[{"delta":{"content":"n"}}],"delta":{"content":"', b'"}}'),
    (b'{"delta":{"content":"', b'"},"choices":[{"delta":{"content":"n"}}]}'),
    (b'{"choices":[["delta",{"delta":{"content":"', b'"}}]]}'),
    (b"[DONE]", b""),
)
RUNS = st.tuples(
    st.sampled_from(FRAMES),
    st.lists(st.lists(st.sampled_from(WORDS), max_size=3).map(b"".join), max_size=5),
    st.sampled_from((b"data: ", b"data: ", b"data: ", b"data:", b"event: error\ndata: ", b": x\n\ndata: ")),
)


@UNTIMED
@given(st.lists(RUNS, max_size=4), st.booleans())
def test_events_read_at_once_say_what_each_says_by_itself(
    runs: list[tuple[tuple[bytes, bytes], list[bytes], bytes]], ended: bool
) -> None:
    raw = b"".join(line + head + word + tail + b"\n\n" for (head, tail), words, line in runs for word in words)
    raw = raw if ended else raw[:-3]
    one_by_one = assemble_stream(codecs.BOM_UTF8 + raw)  # a mark at the start: read by the rules
    assert assemble_stream(raw) == one_by_one


@pytest.mark.parametrize("words", [[b'x","y'], [b"b\\", b',"z'], [b'x","y', b"b\\", b"c"], [b'"],["'], [b'1",2,"']])
def test_strings_that_are_none_by_themselves_are_none_together(words: list[bytes]) -> None:
    head, tail = FRAMES[0]
    raw = b"".join(b"data: " + head + word + tail + b"\n\n" for word in (b"a", b"b", *words))
    answer = assemble_stream(raw)
    assert (only(answer).content, answer.malformed_events) == (
        "abc" if b"c" in words else "ab",
        len(set(words) - {b"c"}),
    )
    assert answer == assemble_stream(codecs.BOM_UTF8 + raw)  # a mark at the start: one by one


def test_an_event_whose_string_is_cut_off_is_malformed_and_not_an_empty_one() -> None:
    head, tail = FRAMES[0]
    blocks = [head + b"a" + tail, head + b"b" + tail, head[:-1] + tail]
    raw = b"".join(b"data: " + block + b"\n\n" for block in blocks)
    answer = assemble_stream(raw)
    assert (only(answer).content, answer.malformed_events) == ("ab", 1)


def test_more_alike_events_than_are_read_at_once_are_all_read() -> None:
    words = [f"{number} " for number in range(3 * ALIKE_MAX)]
    words[700] = "half \ud83d "
    answer = assemble_stream(stream(*(delta({"content": word}) for word in words), delta({}, finish="stop")))
    assert (only(answer).content, only(answer).finish_reason, answer.complete) == ("".join(words), "stop", True)
