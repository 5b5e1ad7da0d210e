"""The holds change no byte wherever the stream is cut, and the parser gives the same events."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.wire.sse import HELD_BYTES_MAX, FinalEventHold, LastByteHold, SseEvent, SseParser

UNTIMED = settings(deadline=None)  # the machine is shared: a slow example proves nothing

LINE_ENDS = ("\n", "\r\n", "\r")
FINAL_LINES = ("data: [DONE]", "data:[DONE]")


def cuts(stream: bytes, places: list[int]) -> list[bytes]:
    borders = [0, *sorted(place % (len(stream) + 1) for place in places), len(stream)]
    return [stream[start:end] for start, end in pairwise(borders)]


def parse(chunks: list[bytes]) -> list[SseEvent]:
    parser = SseParser()
    return [event for chunk in chunks for event in parser.feed(chunk)]


def passed_by(hold: FinalEventHold | LastByteHold, chunks: list[bytes]) -> bytes:
    return b"".join(map(hold.feed, chunks))


PLACES = st.lists(st.integers(0, 10_000), max_size=12)
SNIPPETS = st.sampled_from(
    (
        *LINE_ENDS,
        *FINAL_LINES,
        "data: ",
        "data",
        ":",
        "[DONE]",
        '{"content":"data: [DONE]',
        " ",
        "event: x",
        "id: 7",
        "id: \0",
        "retry: 30",
        "retry: x",
        ": keep-alive",
        "é😀",
        "\ufeff",
    )
)
STREAMS = st.one_of(
    st.lists(SNIPPETS, max_size=16).map(lambda parts: "".join(parts).encode()),
    st.binary(max_size=60),
)


@UNTIMED
@given(STREAMS, PLACES)
def test_the_hold_never_changes_or_loses_a_byte(stream: bytes, places: list[int]) -> None:
    hold = FinalEventHold()
    taken = b""
    passed = b""
    for chunk in cuts(stream, places):
        taken += chunk
        passed += hold.feed(chunk)
        assert passed + hold.held == taken


@UNTIMED
@given(STREAMS, PLACES)
def test_what_is_held_at_the_end_does_not_depend_on_the_cuts(stream: bytes, places: list[int]) -> None:
    whole, cut, bytewise = FinalEventHold(), FinalEventHold(), FinalEventHold()
    whole.feed(stream)
    passed_by(cut, cuts(stream, places))
    passed_by(bytewise, [bytes((byte,)) for byte in stream])
    assert whole.held == cut.held == bytewise.held
    assert whole.final_seen == cut.final_seen == bytewise.final_seen


@pytest.mark.parametrize("line_end", LINE_ENDS)
@pytest.mark.parametrize("final", FINAL_LINES)
def test_no_byte_of_the_final_event_passes_wherever_it_is_cut(final: str, line_end: str) -> None:
    before = f'data: {{"a":"data: [DONE]"}}{line_end}{line_end}'.encode()
    end = f"{final}{line_end}{line_end}".encode()
    stream = before + end
    for first in range(len(stream) + 1):
        for second in range(first, len(stream) + 1):
            hold = FinalEventHold()
            assert passed_by(hold, [stream[:first], stream[first:second], stream[second:]]) == before
            assert hold.held == end
            assert hold.final_seen


def test_an_ordinary_event_passes_at_once_as_the_very_object() -> None:
    hold = FinalEventHold()
    chunk = b'data: {"choices":[{"delta":{"content":"data: [DONE]\\n"}}]}\n\n'
    assert hold.feed(chunk) is chunk
    assert hold.held == b""


def test_bytes_before_the_final_event_in_the_same_read_go_out_first() -> None:
    hold = FinalEventHold()
    assert hold.feed(b"data: 1\n\ndata: [DONE]\n\n") == b"data: 1\n\n"
    assert hold.held == b"data: [DONE]\n\n"


def test_what_only_began_like_the_final_event_is_released() -> None:
    hold = FinalEventHold()
    assert hold.feed(b"x\ndata: [DO") == b"x\n"
    assert hold.feed(b"G]\n") == b"data: [DOG]\n"
    assert hold.feed(b"data: [DONE]") == b""
    assert hold.feed(b"!\n\n") == b"data: [DONE]!\n\n"


def test_a_final_event_without_a_line_end_is_held() -> None:
    hold = FinalEventHold()
    assert hold.feed(b"data: [DONE]") == b""
    assert hold.held == b"data: [DONE]"
    assert not hold.final_seen


def test_what_follows_the_final_event_waits_with_it_up_to_a_bound() -> None:
    hold = FinalEventHold()
    hold.feed(b"data: [DONE]\n\n")
    assert hold.feed(b": bye\n\n") == b""
    flood = b"x" * HELD_BYTES_MAX
    assert hold.feed(flood) == b"data: [DONE]\n\n: bye\n\n" + flood[:-1]
    assert hold.held == b"x"
    assert hold.feed(b"data: y\n\n") == b""
    assert hold.held == b"xdata: y\n\n"


@pytest.mark.parametrize("unfinished", [b'data: {"choices":[', b"d4", b"data: [d", b": keep-al", b"data:  [DO"])
def test_an_unfinished_line_that_is_not_the_final_one_passes_at_once(unfinished: bytes) -> None:
    hold = FinalEventHold()
    assert hold.feed(b"data: 1\n\n" + unfinished) == b"data: 1\n\n" + unfinished
    assert hold.held == b""


@pytest.mark.parametrize("final", [b"data: [DO", b"data: [DONE]\n\n"])
def test_the_final_event_begins_a_line(final: bytes) -> None:
    hold = FinalEventHold()
    hold.feed(b"x\ny")
    assert hold.feed(final) == final
    assert not hold.held and not hold.final_seen


@UNTIMED
@given(st.binary(max_size=40), PLACES)
def test_the_last_byte_of_a_body_is_always_held(body: bytes, places: list[int]) -> None:
    hold = LastByteHold()
    assert passed_by(hold, cuts(body, places)) == body[:-1]
    assert hold.held == body[-1:]


@UNTIMED
@given(STREAMS, PLACES)
def test_events_do_not_depend_on_the_cuts(stream: bytes, places: list[int]) -> None:
    whole = parse([stream])
    assert parse(cuts(stream, places)) == whole
    assert parse([bytes((byte,)) for byte in stream]) == whole


@pytest.mark.parametrize("line_end", LINE_ENDS)
def test_events_are_read_by_the_standard(line_end: str) -> None:
    lines = (
        "\ufeffdata: first",
        "",
        ": a comment",
        "event: add",
        "data:two",
        "data:  lines",
        "data",
        "id: 7",
        "retry: 250",
        "unknown: x",
        "",
        "event: dropped, no data",
        "",
        "id: 8\0",
        "retry: 1e3",
        "data:",
        "",
        "data: never ended",
    )
    stream = line_end.join(lines).encode()
    expected = [
        SseEvent("message", "first"),
        SseEvent("add", "two\n lines\n"),
        SseEvent("message", ""),
    ]
    assert parse([bytes((byte,)) for byte in stream]) == expected
    for cut in range(len(stream) + 1):
        assert parse([stream[:cut], stream[cut:]]) == expected


def test_an_event_has_no_name_of_the_one_before() -> None:
    named, plain = parse([b"event: error\ndata: 1\n\ndata: 2\n\n"])
    assert (named.event, plain.event) == ("error", "message")


def test_a_byte_order_mark_stands_at_the_very_beginning_only() -> None:
    chunks = ["\ufeffdata: 1\n\n".encode(), "\ufeffdata: 2\n\n".encode()]
    assert parse(chunks) == [SseEvent("message", "1")]


def test_broken_utf8_becomes_replacement_characters() -> None:
    assert parse([b"data: a\xff\xe2\x82", b"\n\n"]) == [SseEvent("message", "a\ufffd\ufffd")]


def test_an_event_does_not_show_its_data_when_printed() -> None:
    assert "secret" not in repr(SseEvent("message", "secret"))
