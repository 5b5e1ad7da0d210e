"""The replay benchmark sends what it says, and counts only what is byte-identical."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest

from bench.replay import VARIANTS, as_text, differs, exchanges_of, passed
from proxy.wire.chat_request import ChatRequest

DIALOGUE = {
    "messages": [
        {"role": role, "content": text}
        for role, text in (("user", "a"), ("assistant", "b"), ("user", "c"), ("assistant", "d"), ("user", "e"))
    ]
}


def said(**changed: Any) -> dict[str, Any]:
    digest = hashlib.sha256(b"{}").hexdigest()
    return {"request": "{}", "identical": True, "sha256_sent": digest, "sha256_rebuilt": digest, **changed}


def test_every_variant_says_the_same_messages_in_bytes_of_its_own() -> None:
    messages = [{"role": "user", "content": "ein \u201eWort\u201c"}]
    bodies = {name: made(messages) for name, made in VARIANTS.items()}
    assert len(set(bodies.values())) == len(VARIANTS)
    assert {ChatRequest.parse(body).query_text for body in bodies.values()} == {"ein \u201eWort\u201c"}
    assert {ChatRequest.parse(body).model for body in bodies.values()} == {"m"}


def test_exchanges_go_on_with_what_was_answered() -> None:
    made = exchanges_of([DIALOGUE, DIALOGUE], 3)
    assert [(one.number, one.answer) for one in made] == [(0, "b"), (1, "d"), (2, "b")]
    sent = json.loads(made[1].body)["messages"]
    assert len(sent) == 3 and sent[2]["content"][0]["text"] == "c"
    assert len({one.variant for one in made}) == 3


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        (said(), None),
        (said(request="{ }"), "other bytes"),
        (said(identical=False), "same bytes, other digests"),
        (said(sha256_sent="0"), "same bytes, other digests"),
        ({"error": {"code": "gone"}, "why": "erased"}, "erased"),
        ({"error": {"code": "not_found"}}, "not_found"),
    ],
    ids=["same", "other bytes", "says no", "another digest", "gone", "not there"],
)
def test_only_the_very_bytes_count(answer: dict[str, Any], fault: str | None) -> None:
    assert differs(answer, hashlib.sha256(b"{}").hexdigest()) == fault


def test_bodies_without_memory_show_nothing_of_replay() -> None:
    report = {"answers": 9, "identical": 9, "with_memory": 4, "with_kept_blocks": 2, "salted": True, "variants": {}}
    report |= {"faults": [], "replay_ms_mean": 1.0}
    assert passed(report)
    assert not passed({**report, "identical": 8})
    assert not passed({**report, "with_memory": 0})
    assert "nothing is shown" in as_text({**report, "with_memory": 0})
