"""What a text was cleaned by is said truly; a stream cut anywhere hides nothing; names that are secrets are hidden."""

from __future__ import annotations

import hashlib
import json
import pickle
import random
import string
from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import policies
from memory.adapters.redaction import mark_of
from memory.adapters.secret_rules import secret_detectors
from memory.erasure.model import TargetKind
from memory.forget_command import Asked, target_of
from memory.model import Scope
from memory.names import NAMES_MAX, Names
from memory.write.parts import typed
from memory.write.redact import Redactor
from policies.personal import KINDS, Action, PersonalPolicy
from policies.redaction import RULES, Finding, moved, replace_findings
from proxy.wire.answer import assemble_stream

ROOT = Path(policies.__file__).parents[1]
SOURCES = (
    "policies/redaction.py",
    "policies/personal.py",
    "memory/adapters/secret_rules.py",
    "memory/adapters/secret_context.py",
    "memory/adapters/secret_hidden.py",
    "memory/adapters/secret_samples.py",
)
KNOWN = {"5": "314bdf7ceada65ac"}
REDACTOR = Redactor(secret_detectors())
KEY = "ghp" + "_" + "a1B" + "".join(random.Random(8).choices(string.ascii_letters + string.digits, k=33))


def test_rules_that_have_changed_have_another_number() -> None:
    """Raise RULES with the rules, and put the new digest here: what is stored then counts as cleaned by others."""
    whole = hashlib.sha256(b"\x00".join((ROOT / name).read_bytes() for name in SOURCES)).hexdigest()[:16]
    assert KNOWN.get(RULES) == whole


def test_every_policy_has_a_mark_of_its_own() -> None:
    actions: tuple[Action, ...] = ("mask", "drop", "tokenise")
    policies_ = [PersonalPolicy(**{kind.replace("-", "_"): action}) for kind in KINDS for action in actions]
    marks = {mark_of(one) for one in [PersonalPolicy(), *policies_]}
    assert len(marks) == len(policies_) + 1
    assert mark_of(PersonalPolicy()) == f"{RULES}.keep"


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet="ab ", max_size=40), st.lists(st.tuples(st.integers(0, 39), st.integers(1, 12)), max_size=5))
def test_a_window_still_holds_its_words_when_others_went(text: str, cuts: list[tuple[int, int]]) -> None:
    findings = [Finding(start, min(start + size, len(text)), "token") for start, size in cuts if start < len(text)]
    done = replace_findings(text, findings)
    for start in range(len(text)):
        if not any(cut.start <= start < cut.end for cut in done.findings):
            assert done.text[moved(done, start)] == text[start]
    assert moved(done, len(text), is_end=True) == len(done.text)
    assert moved(done, 0) == 0


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 60), max_size=12), st.sampled_from(["", "the key is ", "password: ", "```\n"]))
def test_a_secret_that_the_stream_cuts_anywhere_is_redacted(cuts: list[int], before: str) -> None:
    text, pieces = f"{before}{KEY} for it", []
    for size in (*cuts, len(KEY) + 40):
        pieces.append(text[:size])
        text = text[size:]
    events = [{"choices": [{"index": 0, "delta": {"content": piece}}]} for piece in pieces]
    raw = b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events) + b"data: [DONE]\n\n"
    answer = assemble_stream(raw)
    assert len(answer.choices) == 1
    said = str(answer.choices[0].content)
    assert KEY in said
    done = typed({"role": "assistant", "content": said}, REDACTOR).text
    assert KEY[10:] not in done
    assert done.endswith(" for it")


def test_a_name_that_is_a_secret_is_always_the_same_other_name() -> None:
    names = Names(REDACTOR, bytes(32))
    hidden = names(f"session of {KEY}")
    assert KEY not in hidden
    assert hidden == names(f"session of {KEY}") == Names(REDACTOR, bytes(32))(f"session of {KEY}")
    assert hidden != Names(REDACTOR, bytes([1]) * 32)(f"session of {KEY}")
    assert names(hidden) == hidden


@pytest.mark.parametrize(
    "name", ["default", "ada", "bob@example.com", "conversation 2026-11-22", "1b4e28ba-2fa1-11d2-883f"]
)
def test_ordinary_names_stay(name: str) -> None:
    assert Names(REDACTOR, bytes(32))(name) == name


@pytest.mark.parametrize("kind", ["user", "project", "session", "query"])
def test_what_the_command_forgets_is_named_as_it_is_stored(kind: TargetKind) -> None:
    names, tenant = Names(REDACTOR, bytes(32)), UUID(int=1)
    for named, stored in (("Zoe\u0301", "Zo\u00e9"), (KEY, names(KEY))):
        target = target_of(Asked("t", kind, named, named, named, named), tenant, names)
        assert target.scope == Scope(tenant, stored, stored, stored)
        assert target.value == (named if kind == "query" else stored)


def test_names_are_not_remembered_without_end() -> None:
    names = Names(REDACTOR, bytes(32))
    for number in range(NAMES_MAX + 10):
        names(f"a name of some length {number}")
    assert len(names._known) == NAMES_MAX
    assert names("ada.lovelace@example.org") == "ada.lovelace@example.org"
    assert b"lovelace" not in pickle.dumps(names._known), "who is forgotten is named in no process"
