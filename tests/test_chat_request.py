"""A request is read without loss, and only what must change does."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory.chain import Digest
from memory.json_spans import JsonUnreadable
from proxy.wire.chat_request import ChatRequest, mentions_memory
from tests.test_json_spans import BLANKS, RawObject, pairs_of, raw_array, raw_objects, raw_strings, raw_values

UNTIMED = settings(deadline=None)  # the machine is shared: a slow example proves nothing

BLOCK = '<memory>\n"Zoë" \\ \U0001f600 BLOCK</memory>\n'


def request(messages: object, **others: object) -> ChatRequest:
    return ChatRequest.parse(json.dumps({"messages": messages, **others}).encode())


def user(content: object) -> dict[str, object]:
    return {"role": "user", "content": content}


def instructs(content: object) -> dict[str, object]:
    return {"role": "system", "content": content}


def assistant(content: object) -> dict[str, object]:
    return {"role": "assistant", "content": content}


@st.composite
def raw_messages(draw: st.DrawFn) -> str:
    roles = st.sampled_from(('"user"', '"user"', '"assistant"', '"system"', '"\\u0075ser"', "1", "null"))
    contents = st.one_of(raw_strings(), raw_array(raw_values()), raw_values())
    keys = st.sampled_from(('"content"', '"content"', '"name"', '"c\\u006fntent"'))
    pairs = draw(st.permutations([('"role"', draw(roles)), *draw(st.lists(st.tuples(keys, contents), max_size=3))]))
    return draw(raw_objects(st.just(pairs))).text


@st.composite
def raw_requests(draw: st.DrawFn) -> RawObject:
    messages = raw_array(st.one_of(raw_messages(), raw_messages(), raw_values()))
    keys = st.sampled_from(('"memory"', '"m\\u0065mory"', '"cache_salt"', '"x"', '"tools"', '"stream"', '"n"'))
    pairs = [('"messages"', draw(messages)), *draw(st.lists(st.tuples(keys, raw_values()), max_size=5))]
    return draw(raw_objects(st.permutations(pairs)))


def expected_value(value: object, block: str) -> object:
    assert isinstance(value, dict)
    content = value["content"]
    head = {"type": "text", "text": block}
    return value | {"content": block + content if isinstance(content, str) else [head, *content]}


@UNTIMED
@given(raw_requests(), st.data())
def test_an_edited_body_says_what_was_asked_and_nothing_else_changes(made: RawObject, data: st.DataObject) -> None:
    parsed = ChatRequest.parse(made.text.encode())
    takers = [index for index, view in enumerate(parsed.messages) if view.takes_block]
    chosen = data.draw(st.sets(st.sampled_from(takers))) if takers else set()
    drop = data.draw(st.booleans())
    salt = data.draw(st.sampled_from((None, "salt-é", "")))
    body = parsed.edited({index: BLOCK for index in chosen}, drop_memory=drop, cache_salt=salt)

    expected = []
    for member in parsed.root.members:
        value = member.value
        if member.key == "messages":
            value = [expected_value(v.value, BLOCK) if i in chosen else v.value for i, v in enumerate(parsed.messages)]
        if member.key == "memory" and isinstance(value, dict) and drop:
            continue
        if member.key != "cache_salt" or salt is None:
            expected.append((member.key, json.dumps(value)))
        elif member is parsed.root.last("cache_salt"):
            expected.append((member.key, json.dumps(salt)))
    if salt is not None and parsed.root.last("cache_salt") is None:
        expected.append(("cache_salt", json.dumps(salt)))
    assert pairs_of(body.decode()) == expected


@UNTIMED
@given(raw_requests())
def test_taking_the_blocks_out_again_gives_the_received_bytes(made: RawObject) -> None:
    received = made.text.encode()
    parsed = ChatRequest.parse(received)
    blocks = {index: BLOCK for index, view in enumerate(parsed.messages) if view.takes_block}
    edited = parsed.edited(blocks, drop_memory=False, cache_salt=None)
    inner = json.dumps(BLOCK)[1:-1].encode()
    part = b'{"type":"text","text":"' + inner + b'"}'
    assert edited.count(inner) == len(blocks)
    for taken_out in (part + b",", part, inner):
        edited = edited.replace(taken_out, b"")
    assert edited == received


@UNTIMED
@given(raw_values(), BLANKS)
def test_no_body_raises_anything_but_unreadable(raw: str, blank: str) -> None:
    try:
        parsed = ChatRequest.parse((blank + raw + blank).encode())
    except JsonUnreadable:
        assert not isinstance(json.loads(raw), dict)
    else:
        assert parsed.placeable in (True, False)
        assert isinstance(parsed.query_text, str)


@UNTIMED
@given(raw_values())
def test_odd_messages_are_viewed_and_never_raise(raw: str) -> None:
    for text in (f'{{"messages":{raw}}}', f'{{"messages":[{raw},{{"role":"user","content":{raw}}}]}}'):
        parsed = ChatRequest.parse(text.encode())
        assert isinstance(parsed.query_text, str)
        if parsed.placeable:
            assert parsed.newest_user is not None
            json.loads(parsed.edited({parsed.newest_user: "b"}, drop_memory=True, cache_salt="s"))


def test_the_body_object_itself_comes_back_when_nothing_changes() -> None:
    body = b'{"messages":[{"role":"user","content":"hi"}],"cache_salt":"s","memory":"not ours"}'
    parsed = ChatRequest.parse(body)
    assert parsed.edited({}, drop_memory=True, cache_salt="s") is body
    assert parsed.edited({0: ""}, drop_memory=False, cache_salt=None) is body


def test_a_block_stands_right_before_the_clients_text() -> None:
    body = b'{"messages" : [ {"content": "caf\xc3\xa9 \\ud800", "role":"user" , "x":1e999} ] }'
    edited = ChatRequest.parse(body).edited({0: "B\n"}, drop_memory=False, cache_salt=None)
    assert edited == b'{"messages" : [ {"content": "B\\ncaf\xc3\xa9 \\ud800", "role":"user" , "x":1e999} ] }'


def test_a_block_becomes_the_first_part() -> None:
    body = b'{"messages":[{"role":"user","content":[ {"type":"text","text":"q"} ]},{"role":"user","content":[]}]}'
    edited = ChatRequest.parse(body).edited({0: "A", 1: "B"}, drop_memory=False, cache_salt=None)
    assert edited == (
        b'{"messages":[{"role":"user","content":[{"type":"text","text":"A"}, {"type":"text","text":"q"} ]},'
        b'{"role":"user","content":[{"type":"text","text":"B"}]}]}'
    )


def test_every_memory_object_is_removed_and_the_last_one_counts() -> None:
    body = b'{"memory":{"user":"a"},"model":"m","m\\u0065mory":{"user":"b"},"memory":7,"messages":[{"memory":{}}]}'
    parsed = ChatRequest.parse(body)
    assert parsed.memory == {"user": "b"}
    assert (
        parsed.edited({}, drop_memory=True, cache_salt=None) == b'{"model":"m","memory":7,"messages":[{"memory":{}}]}'
    )


def test_no_salt_of_the_client_survives_the_tenants() -> None:
    body = b'{"cache_salt":"x","a":1,"cache_s\\u0061lt":["y"]}'
    assert ChatRequest.parse(body).edited({}, drop_memory=False, cache_salt="t") == b'{"a":1,"cache_s\\u0061lt":"t"}'
    only_memory = ChatRequest.parse(b'{"memory":{}}')
    assert only_memory.edited({}, drop_memory=True, cache_salt="t") == b'{"cache_salt":"t"}'


@pytest.mark.parametrize(
    ("messages", "others"),
    [
        ([], {}),
        (None, {}),
        ("hi", {}),
        ([{"role": "system", "content": "s"}], {}),
        ([user(None)], {}),
        ([{"role": "user"}], {}),
        ([user(7)], {}),
        ([user({"text": "hi"})], {}),
        ([user("hi"), "junk", user(None)], {}),
        ([user("hi"), assistant("I would say")], {}),
        ([user("hi")], {"continue_final_message": True}),
        ([user("hi")], {"continue_final_message": "true"}),
        ([user("hi")], {"echo": True, "add_generation_prompt": False}),
        ([user("hi")], {"echo": 1, "add_generation_prompt": "no"}),
        ([user("### Task:\nGenerate a concise title.\n<chat_history>\nUSER: hi\n</chat_history>")], {}),
        ([user("Please generate a concise, 5-word-or-less title for the conversation.\nUser: hi")], {}),
        ([instructs("You are a title generator. You output ONLY a thread title."), user("hi")], {}),
        ([instructs("- you will generate a short title based on the first message a user begins"), user("hi")], {}),
    ],
)
def test_nothing_is_placed_where_there_is_no_place(messages: object, others: dict[str, object]) -> None:
    assert not request(messages, **others).placeable


@pytest.mark.parametrize(
    "messages",
    [
        [user("hi")],
        [user("")],
        [user([{"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}])],
        [user("hi"), assistant(None), {"role": "tool", "tool_call_id": "c", "content": "4"}],
        [user("hi"), "junk"],
        [instructs("You write titles."), user("hi")],
        [user("hi"), assistant("ho"), user("hi"), instructs("Create a summary of the conversation above:")],
    ],
)
def test_memory_is_placed_in_the_newest_user_message(messages: list[object]) -> None:
    assert request(messages, continue_final_message=False).placeable


@pytest.mark.parametrize(
    "others", [{"echo": True}, {"echo": True, "add_generation_prompt": True}, {"add_generation_prompt": False}]
)
def test_an_answer_that_does_not_begin_with_the_message_leaves_it_its_place(others: dict[str, object]) -> None:
    assert request([user("hi")], **others).placeable


def test_a_place_that_takes_no_block_is_refused_loudly() -> None:
    parsed = request([{"role": "system", "content": "s"}, user("q")])
    for index in (0, 2, -1):
        with pytest.raises(ValueError, match="does not take a block"):
            parsed.edited({index: "b"}, drop_memory=False, cache_salt=None)


def test_the_query_is_the_newest_users_text() -> None:
    long = "Which of the two hotels did we book for the trip to Lisbon?"
    picture = {"type": "image_url", "image_url": {"url": "u"}}
    parts = [{"type": "text", "text": long}, picture, {"type": "text", "text": "x"}]
    assert request([user("first"), assistant("sure"), user(parts)]).query_text == f"{long}\nx"
    assert request([user(long), assistant("ok"), {"role": "tool", "content": "t"}]).query_text == long


def test_a_question_comes_with_the_ends_of_what_was_said_before_it() -> None:
    system = {"role": "system", "content": "s"}
    tool = {"role": "tool", "content": "42"}
    parsed = request([system, user("x"), user("who?"), assistant("b" * 650 + "a" * 250), tool, user(" and why? ")])
    assert (parsed.query_text, parsed.earlier_texts) == ("and why?", ("who?", "a" * 250))
    assert request([system, user("and why?")]).earlier_texts == ()
    ruled = user("who?\n<rules>\n" + "Be brief. " * 30 + "\n</rules>")
    assert request([ruled, user("and why?")]).earlier_texts == ("who?",)
    assert request([user("before"), assistant(None), user("why?"), assistant("begun")]).earlier_texts == ("before",)
    assert request([user("before"), user(None)]).query_text == ""
    assert request([system]).earlier_texts == ()


def test_a_query_and_a_block_can_always_be_encoded() -> None:
    parsed = request([user("lone \ud800 half")])
    assert parsed.query_text == "lone \ufffd half"
    edited = parsed.edited({0: "b\ud83d"}, drop_memory=False, cache_salt=None)
    assert json.loads(edited)["messages"][0]["content"] == "b\ufffdlone \ud800 half"


def test_options_of_the_wrong_type_are_as_if_absent() -> None:
    odd = request([], model=1, stream="no", n=True, user=[], max_tokens="5", tools={}, cache_salt=1)
    assert (odd.model, odd.stream, odd.n, odd.user, odd.max_tokens, odd.tools) == (None, False, 1, None, None, None)
    assert (odd.cache_salt, odd.memory) == (None, None)


def test_options_are_read() -> None:
    body = {"model": "m", "stream": True, "n": 2, "user": "u", "safety_identifier": "s", "cache_salt": "c"}
    parsed = request([user("q")], **body, max_tokens=5, max_completion_tokens=7, tools=[{"type": "function"}])
    assert (parsed.model, parsed.stream, parsed.n, parsed.user) == ("m", True, 2, "u")
    assert (parsed.safety_identifier, parsed.cache_salt, parsed.max_tokens) == ("s", "c", 7)
    assert parsed.tools is not None
    assert parsed.text[parsed.tools.value_start : parsed.tools.end] == '[{"type": "function"}]'
    member = parsed.member("n")
    assert member is not None
    assert member.value == 2


def test_of_a_key_that_is_there_twice_the_last_one_counts() -> None:
    """As for vLLM: what is recalled for, told apart and edited must be what it reads."""
    first = b'"messages":[{"role":"user","content":"a"}],"tools":[{"x":1}],"model":"m","user":"u","stream":true,"n":2'
    last = b'"messages":[{"role":"user","content":"b"}],"tools":[{"x":2}],"model":"n","user":"v","stream":false,"n":3'
    parsed = ChatRequest.parse(b"{" + first + b"," + last + b"}")
    assert (parsed.query_text, parsed.model, parsed.user, parsed.stream, parsed.n) == ("b", "n", "v", False, 3)
    assert parsed.tools is not None and parsed.tools.value == [{"x": 2}]
    edited = parsed.edited({0: "B "}, drop_memory=True, cache_salt=None)
    assert edited == b"{" + first + b"," + last.replace(b'"b"', b'"B b"') + b"}"


def test_options_are_read_as_vllm_reads_them() -> None:
    for word in (True, 1, "1", "on", "T", "true", "y", "YES"):
        flags = request([], stream=word, continue_final_message=word, echo=word)
        assert (flags.stream, flags.continue_final_message, flags.echo) == (True, True, True), word
    for odd in (False, 0, "off", "", None, [True]):
        flags = request([], stream=odd, continue_final_message=odd, echo=odd)
        assert (flags.stream, flags.continue_final_message, flags.echo) == (False, False, False), odd
    assert request([], max_tokens=5).max_tokens == 5
    assert request([], max_completion_tokens=7).max_tokens == 7
    assert [request([], truncate_prompt_tokens=said).truncated_to for said in (-1, 9, "9", True)] == [-1, 9, None, None]


@pytest.mark.parametrize(
    ("given", "brings"),
    [({"prompt_token_ids": [1, 2]}, True), ({"prompt_token_ids": []}, False), ({"do_remote_decode": True}, False)],
)
def test_a_prompt_of_token_ids_is_known_as_one(given: dict[str, object], brings: bool) -> None:
    assert request([user("q")], kv_transfer_params=given).brings_tokens is brings
    assert not request([user("q")], kv_transfer_params=[given]).brings_tokens
    assert not request([user("q")]).brings_tokens


@pytest.mark.parametrize(
    ("messages", "gone_on"),
    [
        ([], False),
        ([assistant("hello")], False),
        ([assistant("hello"), user("q")], False),
        ([user("q"), {"role": "system", "content": "s"}, {"role": "developer", "content": "d"}], False),
        ([user("q"), assistant("a")], True),
        ([user("q"), {"role": "developer", "content": "d"}, {"role": "tool", "content": "4"}], True),
    ],
)
def test_only_what_was_said_behind_the_question_has_gone_on(messages: list[object], gone_on: bool) -> None:
    assert request(messages).has_gone_on is gone_on


def test_messages_that_are_left_out_are_gone_but_for_what_instructs() -> None:
    body = b'{"messages":[{"role":"user","content":"a"}, {"role":"system","content":"s"} ,\n{"role":"tool"},'
    body += b'{"role":"developer","content":"d"},{"role":"user","content":"b"}],"memory":{}}'
    edited = ChatRequest.parse(body).edited({4: "B "}, drop_memory=True, cache_salt=None, left_out=(0, 4))
    assert edited == (
        b'{"messages":[{"role":"system","content":"s"} ,\n{"role":"developer","content":"d"},'
        b'{"role":"user","content":"B b"}]}'
    )


def test_a_block_may_stand_in_user_messages_that_take_one_and_have_a_place_in_the_chain() -> None:
    parsed = request([{"role": "system", "content": "s"}, user("a"), assistant("b"), user(None), user("c"), user("d")])
    digests = [Digest(bytes([at] * 32)) for at in range(5)]
    assert parsed.places([*digests, None]) == {1: digests[1], 4: digests[4]}


def test_values_do_not_show_message_text_when_printed() -> None:
    parsed = request([user("my secret")], memory={"user": "u"})
    assert "secret" not in f"{parsed!r} {parsed.messages!r} {parsed.root!r}"


@UNTIMED
@given(st.lists(st.booleans(), min_size=6, max_size=6), st.booleans())
def test_a_memory_member_is_never_overlooked(escaped: list[bool], upper: bool) -> None:
    letters = [f"\\u{ord(c):04{'X' if upper else 'x'}}" if e else c for c, e in zip("memory", escaped, strict=True)]
    assert mentions_memory(f'{{"a":"\\u00e9","{"".join(letters)}" : {{}}}}'.encode())
    assert not mentions_memory(b'{"a":"\\u006d\\u00e9mory","x":"my memory"}')
