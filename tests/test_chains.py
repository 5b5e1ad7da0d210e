"""A chain of a history that was seen before is the one that `chain` gives, and what was seen is not read again."""

import base64
import json
from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from memory.chain import Attachment, Digest, chain, with_attachments_read
from memory.json_spans import parse_document
from memory.read.chains import RUN_MESSAGES, ChainsAtHand

UNTIMED = settings(deadline=None)  # the machine is shared: a slow example proves nothing
KEY = b"k" * 32
OTHER = b"o" * 32

TEXTS = st.sampled_from(["", "Halcyon", " Zoe\u0308 ", "\u4f60\u597d", '"', "<think>a</think>b", "\ud83d", "\x00"])
ROLES = st.sampled_from(["system", "user", "assistant", "tool", None])
PARTS = st.fixed_dictionaries({"type": st.just("text"), "text": TEXTS}) | st.fixed_dictionaries(
    {"type": st.just("image_url"), "image_url": st.fixed_dictionaries({"url": st.just("data:;base64,YWJj")})}
)
SAID = st.fixed_dictionaries({"role": ROLES, "content": TEXTS | st.lists(PARTS, max_size=2)})
ODD: st.SearchStrategy[object] = st.sampled_from([None, 1, 12, 2, "1", [], {}])
HISTORIES = st.lists(SAID | ODD, max_size=3 * RUN_MESSAGES)


def sent(messages: Sequence[object], *, indent: int | None = None, ascii_only: bool = True) -> str:
    text = json.dumps({"model": "m", "messages": messages}, indent=indent, ensure_ascii=ascii_only)
    return text.encode("utf-8", "replace").decode()


def chained(chains: ChainsAtHand, text: str, key: bytes = KEY) -> list[Digest | None]:
    member = parse_document(text, split=("messages",)).last("messages")
    assert member is not None
    places = [(one.start, one.end) for one in member.elements]
    return chains.of(key, text, places, [with_attachments_read(one.value) for one in member.elements])


def plain(text: str, key: bytes = KEY) -> list[Digest | None]:
    return chain(key, json.loads(text)["messages"])


@UNTIMED
@given(HISTORIES, st.lists(SAID, max_size=2 * RUN_MESSAGES), st.integers(0, 60), st.booleans())
def test_a_chain_is_the_same_whatever_was_seen_before(
    history: list[object], more: list[object], at: int, ascii_only: bool
) -> None:
    chains = ChainsAtHand()
    whole = [*history, *more]
    changed = [*whole[:at], {"role": "user", "content": "Or so."}, *whole[at + 1 :]]
    for messages in (history, whole, changed, whole, history[1:], [*history[:5], *whole[7:]]):
        for indent in (None, 1):
            text = sent(messages, indent=indent, ascii_only=ascii_only)
            for key in (KEY, OTHER):
                assert chained(chains, text, key) == plain(text, key)


def test_messages_that_run_together_are_told_apart() -> None:
    chains = ChainsAtHand()
    for numbers in ([1, 23], [12, 3]):
        text = sent([*numbers, *["x"] * (RUN_MESSAGES - 2)])
        assert chained(chains, text) == plain(text)


def test_what_was_seen_before_is_not_read_again() -> None:
    chains = ChainsAtHand()
    messages: list[object] = [{"role": "user", "content": f"Message {at}."} for at in range(4 * RUN_MESSAGES + 3)]
    text = sent(messages)
    known = chained(chains, text)
    places = [(one.start, one.end) for one in parse_document(text, split=("messages",)).members[1].elements]
    unread: list[object] = [*[None] * (4 * RUN_MESSAGES), *messages[4 * RUN_MESSAGES :]]
    assert chains.of(KEY, text, places, unread) == known


def test_a_picture_that_was_seen_before_is_not_decoded_again() -> None:
    chains = ChainsAtHand()
    url = "data:image/png;base64," + base64.b64encode(bytes(range(256))).decode()
    picture = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]}
    messages = [picture, *({"role": "assistant", "content": str(at)} for at in range(RUN_MESSAGES))]
    text = sent(messages)
    places = [(one.start, one.end) for one in parse_document(text, split=("messages",)).members[1].elements]
    for decoded in (True, False):
        read = [with_attachments_read(one) for one in messages]
        assert chains.of(KEY, text, places, read) == plain(text)
        (part,) = read[0]["content"]  # type: ignore[index]
        assert isinstance(part, Attachment) and ("told" in vars(part)) is decoded


def test_so_many_runs_are_kept_and_those_last_asked_for_stay() -> None:
    chains = ChainsAtHand(runs_max=3)
    texts = [sent([{"role": "user", "content": f"{one} {at}"} for at in range(RUN_MESSAGES)]) for one in range(5)]
    for text in texts[:3]:
        chained(chains, text)
    chained(chains, texts[0])
    for text in texts[3:]:
        chained(chains, text)
        assert len(chains) == 3
    places = [(one.start, one.end) for one in parse_document(texts[0], split=("messages",)).members[1].elements]
    nothing: list[object] = [None] * RUN_MESSAGES
    assert chains.of(KEY, texts[0], places, nothing) == plain(texts[0])
    assert chains.of(KEY, texts[1], places, nothing) != plain(texts[1])
