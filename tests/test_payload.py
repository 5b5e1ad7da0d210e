"""Payloads come back as they went in, and nothing else is taken for one."""

import base64
import json
import math
import random
import struct
import zlib
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory import payload
from memory.chain import Digest
from memory.errors import EnvelopeUnreadable
from memory.ids import new_id
from memory.model import (
    Captured,
    Entry,
    ImportChunk,
    ImportLine,
    Placed,
    Retrieval,
    Scope,
    SessionRef,
    Shown,
    Withdrawn,
)
from memory.read.entries import packed, unpacked
from policies.labels import Sensitivity
from policies.ledger import Standing, withdrawal

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
SCOPE = Scope(new_id(), "ünïcode", "p", "a")


def captured(request: bytes, content: str) -> Captured:
    entry = Entry("<memory>…</memory>", 12, (Shown(new_id(), 3, b"\x01" * 8),), "internal", new_id())
    placed = Placed(2, Digest(b"\x07" * 32), entry, since=new_id())
    retrieval = Retrieval(
        retrieval_id=new_id(),
        status="injected",
        reason=None,
        rung="full",
        config_digest="d",
        embedding_model="m",
        query="q",
        candidates=({"id": "x", "score": 0.5},),
        placed=(placed,),
        tokens=12,
        tokens_exact=False,
        millis=1.5,
        sha256_sent=b"\x01" * 32,
        created_at=NOW,
    )
    return Captured(
        exchange_id=new_id(),
        scope=SCOPE,
        session=SessionRef(new_id(), "label"),
        mode="on",
        status="complete",
        reason=None,
        http_status=200,
        model="m",
        arrived_at=NOW,
        finished_at=NOW,
        request=request,
        answer={"choices": [{"index": 0, "message": {"role": "assistant", "content": content}}]},
        digests=(None, Digest(b"\x02" * 32)),
        retrieval=retrieval,
    )


@settings(deadline=None, max_examples=50)
@given(request=st.binary(max_size=2_000), content=st.text(st.characters(), max_size=200))
def test_an_exchange_comes_back_as_it_went_in(request: bytes, content: str) -> None:
    before = captured(request, content)
    assert payload.unpack_captured(payload.pack_captured(before)) == before


@pytest.mark.parametrize("size", [1_000, 262_143, 262_144, 262_145, 1_000_003])
@pytest.mark.parametrize("of", ["a picture", "talk", "both"])
def test_a_large_request_comes_back_whatever_it_is_made_of(size: int, of: str) -> None:
    picture, talk = random.Random(7).randbytes(size), b"and then we said that it was to be said again, so we said it; "
    encoded, said = base64.b64encode(picture)[:size], (talk * (size // len(talk) + 1))[:size]
    request = {"a picture": encoded, "talk": said, "both": encoded[: size // 2] + said[: size - size // 2]}[of]
    packed = payload.pack_captured(captured(request, ""))
    assert payload.unpack_captured(packed).request == request
    assert len(packed) < size * {"a picture": 0.8, "talk": 0.05, "both": 0.8}[of] + 2_000


def test_a_lone_surrogate_in_an_answer_survives() -> None:
    before = captured(b"{}", "half \ud800 pair")
    assert payload.unpack_captured(payload.pack_captured(before)) == before


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(st.characters(), max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(st.characters(), max_size=4), inner, max_size=3)
    ),
    max_leaves=12,
)


@settings(deadline=None, max_examples=150)
@given(st.dictionaries(st.text(st.characters(), max_size=4), JSON, max_size=3))
def test_whatever_json_an_upstream_says_comes_back(answer: dict[str, Any]) -> None:
    before = replace(captured(b"{}", ""), answer=answer)
    assert payload.unpack_captured(payload.pack_captured(before)) == before


@pytest.mark.parametrize("number", [10**30, -(2**64), math.inf, 5e-324])
def test_a_number_beyond_the_usual_comes_back(number: float) -> None:
    before = replace(captured(b"{}", ""), answer={"usage": {"total_tokens": number}})
    assert payload.unpack_captured(payload.pack_captured(before)) == before


def test_an_answer_that_is_nested_deeply_comes_back() -> None:
    nested: Any = "leaf"
    for _ in range(400):
        nested = [nested]
    before = replace(captured(b"{}", ""), answer={"choices": nested})
    assert payload.unpack_captured(payload.pack_captured(before)) == before


def head_of(packed: bytes) -> dict[str, Any]:
    """The JSON in front of the body, as a worker of any version reads it."""
    (length,) = struct.unpack_from(">I", packed)
    head: dict[str, Any] = json.loads(packed[4 : 4 + length])
    return head


def joined(head: dict[str, Any], body: bytes = b"") -> bytes:
    encoded = json.dumps(head).encode()
    return struct.pack(">I", len(encoded)) + encoded + body


def test_what_only_some_exchanges_say_comes_back_and_the_others_do_not_say_it() -> None:
    """A worker of an older version refuses a field that it does not know."""
    plain = captured(b"{}", "")
    assert plain.retrieval is not None
    head = head_of(payload.pack_captured(plain))
    assert "looked" not in head and not {"apart", "restored"} & head["retrieval"].keys()
    withdrawn = (Withdrawn(Digest(b"\x05" * 32), "quarantined"),)
    more = replace(plain.retrieval, apart=True, left_out=(1, 4), cut=b"\x09" * 32, withdrawn=withdrawn)
    fresh = replace(more, placed=(replace(more.placed[0], since=None, anew=True, stood=1, stood_tokens=7),))
    given = replace(plain.retrieval, restored=b"\x0a" * 20)
    for retrieval in (more, fresh, given, None):
        before = replace(plain, looked=True, retrieval=retrieval)
        assert payload.unpack_captured(payload.pack_captured(before)) == before


def test_what_an_older_proxy_captured_is_read() -> None:
    before = captured(b"{}", "")
    head = head_of(payload.pack_captured(before))
    for name in ("withdrawn", "left_out", "cut"):
        del head["retrieval"][name]
    for name in ("stood", "stood_tokens"):
        del head["retrieval"]["placed"][0][name]
    assert payload.unpack_captured(joined(head, b"{}")) == before


def test_what_a_proxy_captured_before_there_was_a_ledger_is_read() -> None:
    """It waits in the queue over an upgrade: each exchange that was given memory became a dead letter."""
    before = captured(b"{}", "")
    assert before.retrieval is not None
    (placed,) = before.retrieval.placed
    entry = placed.entry
    head = head_of(payload.pack_captured(before))
    then = {"text": entry.text, "tokens": entry.tokens, "memory_ids": [str(one) for one in entry.memory_ids]}
    chain = head["retrieval"]["placed"][0]["chain"]
    head["retrieval"]["placed"] = [{"position": placed.position, "chain": chain, **then}]
    head["retrieval"]["candidates"] = [{"id": str(entry.memory_ids[0]), "sensitivity": "confidential"}]
    read = payload.unpack_captured(joined(head, b"{}"))
    assert read.retrieval is not None
    (again,) = read.retrieval.placed
    assert (again.position, again.chain, again.since) == (placed.position, placed.chain, None)
    assert (again.entry.text, again.entry.memory_ids) == (entry.text, entry.memory_ids)
    assert again.entry.sensitivity == "confidential"
    unworded = unpacked(packed(again.entry)).shown[0].fingerprint
    assert withdrawal(unworded, Standing(b"\x01" * 8, Sensitivity.INTERNAL, None), now=NOW, ceiling=None) == "reworded"


def test_a_long_request_is_packed_small() -> None:
    assert len(payload.pack_captured(captured(b"x" * 100_000, ""))) < 10_000


def test_a_ceiling_of_an_import_is_said_where_there_is_one() -> None:
    chunk = ImportChunk(new_id(), new_id(), 3, SCOPE, True, "update", NOW, ())
    assert "ceiling" not in head_of(zlib.decompress(payload.pack_import(chunk)))
    below = replace(chunk, ceiling="internal")
    assert payload.unpack_import(payload.pack_import(below)) == below


def test_import_lines_come_back_as_they_went_in() -> None:
    line = ImportLine(7, "s", "user", None, "text \x00 \U0001f600", NOW, "src", b"\x03" * 32)
    chunk = ImportChunk(new_id(), new_id(), 3, SCOPE, True, "update", NOW, (line,))
    assert payload.unpack_import(payload.pack_import(chunk)) == chunk
    assert (
        not {"integrity", "memory", "parent", "parts", "model"}
        & head_of(zlib.decompress(payload.pack_import(chunk)))["lines"][0].keys()
    )
    imported = replace(
        chunk,
        lines=(replace(line, integrity="imported", memory="hidden", parent="", parts=[{"type": "file"}], model="m"),),
    )
    assert payload.unpack_import(payload.pack_import(imported)) == imported


@pytest.mark.parametrize("junk", [b"", b"\x00\x00\x00\x04nope", b"\xff\xff\xff\xff{}", b"\x00\x00\x00\x02{}"])
def test_junk_is_refused_by_name(junk: bytes) -> None:
    with pytest.raises(EnvelopeUnreadable):
        payload.unpack_captured(junk)
    with pytest.raises(EnvelopeUnreadable):
        payload.unpack_import(junk)
