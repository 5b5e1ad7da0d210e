"""Wherever two client requests share a token prefix, the upstream prompts share it too, with the blocks inside it.

The ledger is a parameter: LEDGERS names those that keep the promise. A wrong one must be found out, else the check
shows nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings

from bench.prefix_cache.families import Family
from bench.prefix_cache.sharing import Violation, shares_prefix, violations
from tests.ledger_clients import (
    FAMILIES,
    Message,
    Place,
    Remembered,
    family_of,
    forgets,
    keeps_all,
    moves,
    moves_up,
    placed,
    renders_again,
    requests_of,
)
from tests.product_ledger import product, product_by_postgres_alone, product_without_redis

LEDGERS: dict[str, Place] = {
    "reference": keeps_all,
    "product": product,
    "product without redis": product_without_redis,
    "product by postgres alone": product_by_postgres_alone,
}
WRONG: dict[str, Place] = {"dropped": forgets, "moved": moves_up, "rendered again": renders_again}
THREE_TURNS = requests_of(
    [("on", 0, "Where does the boat lie?"), ("on", 0, "Since when?"), ("on", 0, "Why?")], system=True
)


def violations_of(requests: Sequence[Sequence[Message]], place: Place, family: Family) -> list[Violation]:
    """What is wrong between any two requests of one conversation."""
    remembered: Remembered = {}
    return violations([({"messages": list(one)}, placed(one, place(one, remembered))) for one in requests], family)


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("ledger", sorted(LEDGERS))
@given(moves=moves)
@settings(max_examples=6)
def test_what_clients_share_the_prompts_share_with_their_blocks(
    ledger: str, name: str, moves: list[tuple[str, int, str]]
) -> None:
    for system in (False, True):
        requests = requests_of(moves, system=system)
        assert violations_of(requests, LEDGERS[ledger], family_of(name)) == []


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("fault", sorted(WRONG))
def test_a_ledger_that_breaks_the_promise_is_found_out(fault: str, name: str) -> None:
    found = violations_of(THREE_TURNS, WRONG[fault], family_of(name))
    assert {violation.kind for violation in found} == {"shorter"}
    for violation in found:
        assert violation.shared_with < violation.owed


@pytest.mark.parametrize("name", FAMILIES)
@given(moves=moves)
@settings(max_examples=8)
def test_a_dropped_block_is_found_in_every_conversation_that_goes_on(
    name: str, moves: list[tuple[str, int, str]]
) -> None:
    requests = requests_of([("on", 0, "An opening."), ("on", 0, "Go on."), *moves], system=True)
    assert violations_of(requests, forgets, family_of(name))


@pytest.mark.parametrize("name", FAMILIES)
def test_a_block_that_was_placed_late_is_found_out(name: str) -> None:
    late: Remembered = {}

    def place(messages: Sequence[Message], _: Remembered) -> dict[int, str]:
        blocks = keeps_all(messages, late)
        return {at: block for at, block in blocks.items() if at < len(messages) - 1}

    found = violations_of(THREE_TURNS, place, family_of(name))
    assert [violation.kind for violation in found] == ["shorter"] * 3


@pytest.mark.parametrize("kept", [1, 2], ids=["the first message", "with its answer"])
def test_the_first_message_keeps_its_block_where_its_client_drops_what_came_behind_it(kept: int) -> None:
    moves = [("on", 0, f"This is question {number}, asked in quite a number of words.") for number in range(6)]
    *requests, last = requests_of(moves, system=True)
    requests.append([*last[: 1 + kept], *last[-5:]])
    remembered: Remembered = {}
    sent = [({"messages": one}, placed(one, product(one, remembered))) for one in requests]
    assert "<memory>" in sent[0][1]["messages"][1]["content"]
    assert violations(sent, family_of("phi-4")) == []


def test_all_pairs_at_once_are_judged_as_pair_by_pair() -> None:
    remembered: Remembered = {}
    one, two = ({"messages": sent} for sent in THREE_TURNS[:2])
    upstream = [placed(sent, forgets(sent, remembered)) for sent in THREE_TURNS[:2]]
    by_pair = shares_prefix(one, two, upstream[0], upstream[1], family_of("phi-4"))
    assert by_pair is not None
    assert violations([(one, upstream[0]), (two, upstream[1])], family_of("phi-4")) == [by_pair]


def test_requests_that_share_nothing_owe_nothing() -> None:
    one: list[Message] = [{"role": "user", "content": "Aye."}]
    other: list[Message] = [{"role": "user", "content": "No."}]
    bodies = {"messages": one}, {"messages": other}, placed(one, {0: "<memory>a</memory>"}), {"messages": other}
    assert shares_prefix(*bodies, family_of("phi-4")) is None


def test_another_salt_owes_nothing_between_clients_and_everything_between_prompts() -> None:
    one, two = THREE_TURNS[:2]
    a, b = {"messages": one}, {"messages": two}
    assert shares_prefix({**a, "cache_salt": "x"}, b, {**a, "cache_salt": "x"}, b, family_of("phi-4")) is None
    found = shares_prefix(a, b, {**a, "cache_salt": "x"}, {**b, "cache_salt": "y"}, family_of("phi-4"))
    assert found is not None
    assert (found.kind, found.shared_with) == ("shorter", 0)


@pytest.mark.parametrize(
    ("named", "change"),
    [
        ("system", {0: {"role": "system", "content": "Be long."}}),
        ("assistant", {2: {"role": "assistant", "content": "changed"}}),
        ("stripped", {1: {"role": "user", "content": "Where does the boat lie"}}),
        ("behind", {1: {"role": "user", "content": "Where does the boat lie?<memory>a</memory>"}}),
        ("named", {1: {"role": "user", "content": "Where does the boat lie?", "name": "ada"}}),
        ("parts", {1: {"role": "user", "content": [{"type": "text", "text": "Where does the boat lie?"}]}}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_change_to_the_clients_own_text_is_called_altered(named: str, change: dict[int, Message]) -> None:
    client = {"messages": THREE_TURNS[1]}
    upstream = {"messages": [change.get(at, message) for at, message in enumerate(THREE_TURNS[1])]}
    found = shares_prefix(client, client, client, upstream, family_of("phi-4"))
    assert found is not None
    assert found.kind == "altered", named


def test_a_message_more_or_another_member_is_called_altered() -> None:
    client = {"messages": THREE_TURNS[0], "temperature": 0, "memory": {"user": "ada"}}
    more = {"messages": [*THREE_TURNS[0], {"role": "user", "content": "<memory>"}], "temperature": 0}
    warmer = {"messages": THREE_TURNS[0], "temperature": 1}
    ours = {"messages": THREE_TURNS[0], "temperature": 0, "cache_salt": "tenant"}
    kinds = [shares_prefix(client, client, ours, upstream, family_of("phi-4")) for upstream in (more, warmer, ours)]
    assert [found.kind if found else None for found in kinds] == ["altered", "altered", None]
