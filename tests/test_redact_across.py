"""A secret that two messages hold together is cut in both; what only stands side by side stays.

All secrets are made up at run time.
"""

from __future__ import annotations

import random
import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory.adapters.redaction import borders
from memory.adapters.secret_rules import secret_detectors
from memory.write.redact import Redactor

REDACTOR = Redactor(secret_detectors())
ALNUM = string.ascii_letters + string.digits


def made_up(length: int, seed: int = 5) -> str:
    return "a1B" + "".join(random.Random(seed).choices(ALNUM, k=length - 3))


def clean(texts: list[str]) -> list[str]:
    known = borders().beside(REDACTOR, texts)
    return [known.redact(text).text for text in texts]


GITHUB = "ghp" + "_" + made_up(36)
OPENAI = "sk" + "-" + made_up(48)
LINES = [made_up(64, seed) for seed in range(12)]
BLOCK = "\n".join([f"-----{'BEGIN'} RSA PRIVATE KEY-----", *LINES, f"-----{'END'} RSA PRIVATE KEY-----"])


@pytest.mark.parametrize(
    ("before", "between", "after"),
    [
        ("the first half is {}", [], "{}"),
        ("key: {} (more follows)", [], "and the second: {}, thanks"),
        ("{}", ["go on"], "{}"),
        ("take {}", ["I have 12 of 40 characters, please send the rest."], "here it is: {}."),
    ],
)
@pytest.mark.parametrize("at", [9, 15, 25, 32])
def test_halves_of_a_token_go_from_both_messages(before: str, between: list[str], after: str, at: int) -> None:
    texts = [before.format(GITHUB[:at]), *between, after.format(GITHUB[at:])]
    done = clean(texts)
    assert GITHUB[:at] not in done[0]
    assert GITHUB[at:] not in done[-1]
    assert done[1:-1] == between


def test_the_rest_of_a_token_goes_though_its_head_is_a_secret_alone() -> None:
    first, second = clean([f"my key {OPENAI[:35]}", OPENAI[35:]])
    assert (first, second) == ("my key [redacted:model-provider]", "[redacted:model-provider]")


@settings(max_examples=60, deadline=None)
@given(st.integers(40, len(BLOCK) - 40), st.booleans())
def test_a_key_block_is_cut_wherever_a_message_ends(at: int, answered: bool) -> None:
    done = "\n".join(clean([BLOCK[:at], *(["Please send the rest of it."] if answered else []), BLOCK[at:]]))
    assert not any(line[at : at + 24] in done for line in LINES for at in range(0, 40, 8))


def test_a_value_goes_whose_name_ended_the_message_before() -> None:
    assert clean(["The wifi password is", "Tr0ub4dor&3x"]) == ["The wifi password is", "[redacted:password]"]
    assert clean(["send me the API token:", made_up(30)])[1] == "[redacted:token]"


@pytest.mark.parametrize(
    "texts",
    [
        ["I forgot my password", "Sure, I can help you with that in 2 minutes."],
        ["see build_2024-05-01.log", "v1.2.3 and user_17 at 10:30:00"],
        ["hello there", "I like cats"],
        ["", "", ""],
        ["ghp_ is the prefix", "of tokens by a forge, 40 characters in all"],
        [made_up(40), made_up(40, 9)],
    ],
)
def test_messages_that_only_stand_side_by_side_stay(texts: list[str]) -> None:
    assert clean(texts) == texts


@settings(max_examples=100, deadline=None)
@given(st.lists(st.text(alphabet=st.sampled_from("ghp_sk-aB1 \n=+/:'\"."), max_size=60), max_size=5))
def test_any_messages_can_be_looked_at(texts: list[str]) -> None:
    assert len(clean(texts)) == len(texts)
