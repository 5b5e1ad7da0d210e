"""What is true of a key: the newer value, the user's correction, the higher word, and never the order of arrival."""

from __future__ import annotations

import itertools
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.fact import Aspect, Fact
from policies.labels import Integrity, Sensitivity
from policies.reconcile import (
    OBJECT_CHARS_MAX,
    Saying,
    Statement,
    concerned,
    content_key,
    content_words,
    contradict,
    fact_key,
    moment,
    settle,
    statement_of,
    unfit,
)

T0 = datetime(2026, 11, 21, 12, tzinfo=UTC)
DAY = timedelta(days=1)


def said(what: str, day: int, **more: Any) -> Saying:
    """One saying of a key with one object at a time; "-berlin" denies, "*berlin" corrects."""
    text = what.lstrip("-*")
    statement = Statement(text, "-" in what[:2], more.pop("cardinality", "one"))
    fields: dict[str, Any] = {"integrity": Integrity.USER, "correction": "*" in what[:2], "said_at": T0 + day * DAY}
    return Saying(statement, **{**fields, **more})


def states(*sayings: Saying) -> dict[str, str]:
    return {("-" if one.negated else "") + one.object: standing.state for one, standing in settle(sayings).items()}


def current(*sayings: Saying) -> set[str]:
    return {name for name, state in states(*sayings).items() if state == "current"}


CASES: dict[str, tuple[list[Saying], set[str]]] = {
    "one saying": ([said("berlin", 1)], {"berlin"}),
    "said again": ([said("berlin", 1), said("berlin", 2)], {"berlin"}),
    "newer value": ([said("berlin", 1), said("paris", 2)], {"paris"}),
    "there and back": ([said("berlin", 1), said("paris", 2), said("berlin", 3)], {"berlin"}),
    "no longer": ([said("berlin", 1), said("-berlin", 2)], {"-berlin"}),
    "no longer the old one": ([said("berlin", 1), said("paris", 2), said("-berlin", 3)], {"paris", "-berlin"}),
    "the end of the new does not bring back the old": (
        [said("berlin", 1), said("paris", 2), said("-paris", 3)],
        {"-paris"},
    ),
    "ended and begun again": ([said("berlin", 1), said("-berlin", 2), said("berlin", 3)], {"berlin"}),
    "corrected": ([said("berlin", 1), said("*paris", 2)], {"paris"}),
    "a correction stays won": ([said("berlin", 1), said("*paris", 2), said("berlin", 3)], {"paris"}),
    "also said again": ([said("berlin", 1), said("*paris", 2), said("paris", 3), said("berlin", 4)], {"paris"}),
    "corrected back": ([said("berlin", 1), said("*paris", 2), said("*berlin", 3)], {"berlin"}),
    "a value unheard of is a change": ([said("berlin", 1), said("*paris", 2), said("rome", 3)], {"rome"}),
    "after a change the correction has had its day": (
        [said("berlin", 1), said("*paris", 2), said("rome", 3), said("berlin", 4)],
        {"berlin"},
    ),
    "the world has changed since": (
        [said("berlin", 1), said("*paris", 2), said("berlin", 9, valid_from=T0 + 5 * DAY)],
        {"berlin"},
    ),
    "what held before the correction is no change": (
        [said("berlin", 1), said("*paris", 5), said("berlin", 9, valid_from=T0 + 2 * DAY)],
        {"paris"},
    ),
    "the corrected value ends": (
        [said("berlin", 1), said("*paris", 2), said("-paris", 3), said("berlin", 4)],
        {"-paris", "berlin"},
    ),
    "a denial corrects too": ([said("berlin", 1), said("-*berlin", 2), said("berlin", 3)], {"-berlin"}),
    "a machine's word does not displace a person's": (
        [said("berlin", 1), said("paris", 2, integrity=Integrity.WEB)],
        {"berlin"},
    ),
    "nor does a machine's correction": (
        [said("berlin", 1), said("*paris", 2, integrity=Integrity.ASSISTANT)],
        {"berlin"},
    ),
    "nor its denial": ([said("berlin", 1), said("-berlin", 2, integrity=Integrity.TOOL)], {"berlin"}),
    "a person's word displaces a machine's": (
        [said("paris", 1, integrity=Integrity.WEB), said("berlin", 2)],
        {"berlin"},
    ),
    "a machine corrects nobody": (
        [said(w, d, integrity=Integrity.TOOL) for w, d in (("berlin", 1), ("*paris", 2), ("berlin", 3))],
        {"berlin"},
    ),
    "many live side by side": (
        [said("jazz", 1, cardinality="many"), said("blues", 2, cardinality="many")],
        {"jazz", "blues"},
    ),
    "of many only the denied one ends": (
        [said(w, d, cardinality="many") for w, d in (("jazz", 1), ("blues", 2), ("-jazz", 3))],
        {"blues", "-jazz"},
    ),
    "what was does not contradict what is": (
        [said("paris", 1), said("berlin", 2, valid_to=T0 - 9 * DAY)],
        {"paris"},
    ),
    "what ends as it is said is over": ([said("berlin", 2, valid_to=T0 + 2 * DAY)], set()),
    "a machine does not end what a person said": (
        [said("berlin", 1), said("berlin", 3, integrity=Integrity.WEB, valid_to=T0 + 2 * DAY)],
        {"berlin"},
    ),
    "a machine's repetition does not weaken a person's word": (
        [said("berlin", 1), said("berlin", 2, integrity=Integrity.WEB), said("paris", 3, integrity=Integrity.TOOL)],
        {"berlin"},
    ),
    "nor does it make the person's own repetition news": (
        [said("berlin", 1), said("berlin", 2, integrity=Integrity.WEB), said("*paris", 3), said("berlin", 4)],
        {"paris"},
    ),
    "a person's word is no repetition of a machine's": (
        [said("berlin", 1, integrity=Integrity.WEB), said("*paris", 2), said("berlin", 3)],
        {"berlin"},
    ),
    "what held as the correction was said is no change": (
        [said("berlin", 1), said("*paris", 5), said("berlin", 9, valid_from=T0 + 5 * DAY)],
        {"paris"},
    ),
    "nor has a correction another day when its value comes back": (
        [said("berlin", 1), said("*paris", 2), said("rome", 3), said("paris", 4), said("berlin", 5)],
        {"berlin"},
    ),
    "an operator corrects as well": (
        [said(w, d, integrity=Integrity.ADMIN) for w, d in (("berlin", 1), ("*paris", 2), ("berlin", 3))],
        {"paris"},
    ),
    "an operator's word stands above a person's correction": (
        [
            said("berlin", 1, integrity=Integrity.ADMIN, valid_to=T0 - DAY),
            said("*paris", 2),
            said("berlin", 3, integrity=Integrity.ADMIN),
        ],
        {"berlin"},
    ),
    "an end told in its own words": ([said("berlin", 1), said("berlin", 3, valid_to=T0 + 2 * DAY)], set()),
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_current(name: str) -> None:
    sayings, wanted = CASES[name]
    for order in itertools.islice(itertools.permutations(sayings), 24):
        assert current(*order) == wanted


@pytest.mark.parametrize(
    ("sayings", "what", "state", "by", "reason"),
    [
        ([said("berlin", 1), said("paris", 2)], "berlin", "superseded", "paris", "newer value"),
        ([said("berlin", 1), said("*paris", 2)], "berlin", "superseded", "paris", "corrected by the user"),
        ([said("berlin", 1), said("-berlin", 2)], "berlin", "superseded", "berlin", "no longer"),
        (
            [said("paris", 1, integrity=Integrity.WEB), said("berlin", 2)],
            "paris",
            "superseded",
            "berlin",
            "contradiction",
        ),
        ([said("berlin", 1), said("paris", 2, integrity=Integrity.WEB)], "paris", "disputed", "berlin", None),
        (
            [said("berlin", 1), said("paris", 2, integrity=Integrity.WEB), said("oslo", 3)],
            "paris",
            "superseded",
            "oslo",
            "contradiction",
        ),
        (
            [said("berlin", 1), said("paris", 2, integrity=Integrity.WEB), said("oslo", 3), said("rome", 4)],
            "paris",
            "superseded",
            "oslo",
            "contradiction",
        ),
        ([said("paris", 1), said("berlin", 2, valid_to=T0 - DAY)], "berlin", "past", None, None),
        (
            [said("berlin", 1), said("paris", 2), said("berlin", 9, valid_to=T0 + 2 * DAY)],
            "berlin",
            "superseded",
            "paris",
            "newer value",
        ),
        (
            [said("berlin", 1), said("berlin", 3, valid_to=T0 + 2 * DAY), said("paris", 4)],
            "berlin",
            "superseded",
            "berlin",
            "no longer",
        ),
        (
            [said("berlin", 1), said("paris", 2), said("berlin", 3, integrity=Integrity.WEB), said("oslo", 4)],
            "berlin",
            "superseded",
            "paris",
            "newer value",
        ),
        (
            [said("paris", 1), said("berlin", 2, integrity=Integrity.WEB), said("berlin", 3), said("oslo", 4)],
            "berlin",
            "superseded",
            "oslo",
            "newer value",
        ),
        (
            [
                said("rome", 1, integrity=Integrity.ADMIN),
                said("berlin", 2),
                said("-rome", 3, integrity=Integrity.ADMIN),
                said("paris", 4, integrity=Integrity.WEB),
            ],
            "berlin",
            "disputed",
            "rome",
            None,
        ),
    ],
)
def test_why_a_statement_does_not_hold(
    sayings: list[Saying], what: str, state: str, by: str | None, reason: str | None
) -> None:
    standing = settle(sayings)[Statement(what, cardinality="one")]
    assert (standing.state, standing.by and standing.by.object, standing.reason) == (state, by, reason)


def test_validity_ends_where_the_next_begins_and_what_was_wrong_never_held() -> None:
    berlin = Statement("berlin", cardinality="one")
    moved = T0 + 3 * DAY
    assert settle([said("berlin", 1), said("paris", 9, valid_from=moved)])[berlin].until == moved
    assert settle([said("berlin", 1), said("paris", 2)])[berlin].until == T0 + 2 * DAY
    never = settle([said("berlin", 1), said("*paris", 2)])[berlin]
    assert never.until == never.since.begins
    back = settle([said("berlin", 1), said("paris", 2), said("berlin", 3)])[berlin]
    assert (back.since.said_at, back.until) == (T0 + 3 * DAY, None)


def test_an_end_is_the_one_that_was_named_last_and_a_run_that_is_over_begins_anew() -> None:
    berlin = Statement("berlin", cardinality="one")
    friday, later = T0 + 5 * DAY, T0 + 60 * DAY
    assert settle([said("berlin", 1, valid_to=friday), said("berlin", 2)])[berlin].until == friday
    assert settle([said("berlin", 1, valid_to=friday), said("berlin", 2, valid_to=later)])[berlin].until == later
    assert settle([said("berlin", 1), said("berlin", 2, valid_to=later)])[berlin].until == later
    anew = settle([said("berlin", 1, valid_to=friday), said("berlin", 30)])[berlin]
    assert (anew.state, anew.since.said_at, anew.until) == ("current", T0 + 30 * DAY, None)
    at_its_end = settle([said("berlin", 1, valid_to=friday), said("berlin", 5)])[berlin]
    assert (at_its_end.since.said_at, at_its_end.until) == (friday, None)
    ended = settle([said("berlin", 1), said("berlin", 2, valid_to=friday), said("paris", 30)])[berlin]
    assert (ended.state, ended.until) == ("superseded", friday)


def test_a_statement_has_the_best_word_for_it_and_the_strictest_label() -> None:
    web = said("berlin", 1, integrity=Integrity.WEB, sensitivity=Sensitivity.CONFIDENTIAL)
    (standing,) = settle([web, said("berlin", 2), said("berlin", 3, integrity=Integrity.ASSISTANT)]).values()
    assert (standing.integrity, standing.sensitivity) == (Integrity.USER, Sensitivity.CONFIDENTIAL)
    assert standing.last.said_at == T0 + 3 * DAY
    for late in (said("berlin", 2, sensitivity=Sensitivity.SECRET), said("berlin", 2, integrity=Integrity.WEB)):
        (standing,) = settle([said("berlin", 1), late]).values()
        assert (standing.integrity, standing.sensitivity) == (Integrity.USER, late.sensitivity)


def test_what_is_disputed_is_so_since_it_was_first_said() -> None:
    paris = [said("paris", day, integrity=Integrity.WEB) for day in (2, 3)]
    standing = settle([said("berlin", 1), *paris])[paris[0].statement]
    assert (standing.state, standing.since, standing.last) == ("disputed", *paris)


def test_of_two_values_in_one_moment_the_later_number_holds_then_the_later_word() -> None:
    assert current(said("berlin", 1, seq=4), said("paris", 1, seq=5)) == {"paris"}
    assert current(said("berlin", 1, seq=5, at=30), said("paris", 1, seq=5, at=10)) == {"berlin"}


def of(what: str, day: int, words: str = "", **more: Any) -> Saying:
    """The same of an aspect: the first sprint, the second."""
    return said(what, day, aspect=Aspect(of=words, **more))


def test_the_first_sprint_is_not_the_second() -> None:
    assert current(of("april 1", 1, "first"), of("may 5", 2, "second")) == {"april 1", "may 5"}
    assert current(of("april 1", 1, "first"), of("april 5", 2, "first")) == {"april 5"}


def test_the_sprint_is_the_one_that_was_spoken_of_last() -> None:
    assert current(of("april 1", 1, "first"), of("april 5", 2)) == {"april 5"}
    assert current(of("april 1", 1, "first"), of("may 5", 2, "second"), of("may 9", 3)) == {"april 1", "may 9"}


def test_who_names_the_first_sprint_means_it_also_when_another_was_spoken_of_since() -> None:
    first, last = of("april 1", 1, "first"), of("april 2", 4, "first")
    assert current(first, of("may 5", 2, "second"), of("may 9", 3), last) == {"may 9", "april 2"}
    (standing,) = settle([first]).values()
    assert standing.aspect == first.aspect


def test_a_share_is_no_sum() -> None:
    assert current(of("33%", 1, unit="%"), of("20000", 2)) == {"33%", "20000"}


def test_an_unnamed_meeting_is_another_one_until_a_change_is_spoken_of() -> None:
    monday, tuesday = of("monday", 1, "ann", of_many=True), of("tuesday", 2, of_many=True)
    assert current(monday, tuesday) == {"monday", "tuesday"}
    assert current(monday, of("tuesday", 2, of_many=True, changed=True)) == {"tuesday"}


# ---------------------------------------------------------------- properties

ANY_SAYING = st.builds(
    lambda text, negated, day, seq, integrity, correction, since, until: Saying(
        statement=Statement(text, negated, "one" if text in "abc" else "many"),
        said_at=T0 + day * DAY,
        integrity=integrity,
        seq=seq,
        correction=correction,
        valid_from=None if since is None else T0 + since * DAY,
        valid_to=None if until is None else T0 + until * DAY,
    ),
    st.sampled_from("abcxy"),
    st.booleans(),
    st.integers(0, 5),
    st.integers(0, 2),
    st.sampled_from([Integrity.ADMIN, Integrity.USER, Integrity.ASSISTANT, Integrity.WEB]),
    st.booleans(),
    st.none() | st.integers(0, 5),
    st.none() | st.none() | st.integers(0, 5),
)


ASPECTS = st.builds(Aspect, st.sampled_from(["", "x", "x y", "z"]), st.sampled_from(["", "%"]), st.booleans())
OF_ASPECTS = st.lists(st.builds(lambda one, aspect: replace(one, aspect=aspect), ANY_SAYING, ASPECTS), max_size=12)


@given(OF_ASPECTS, st.randoms(use_true_random=False))
def test_of_one_aspect_one_value_is_current_whatever_the_order(sayings: list[Saying], random: Any) -> None:
    shuffled = list(sayings)
    random.shuffle(shuffled)
    standings = settle(sayings)
    assert settle(shuffled) == standings
    held = [
        (standing.aspect.of, standing.aspect.unit)
        for one, standing in standings.items()
        if standing.state == "current" and one.cardinality == "one" and not one.negated and standing.aspect.is_one
    ]
    assert len(held) == len(set(held))


@given(st.lists(ANY_SAYING, max_size=12), st.randoms(use_true_random=False))
def test_the_order_of_arrival_decides_nothing(sayings: list[Saying], random: Any) -> None:
    shuffled = list(sayings)
    random.shuffle(shuffled)
    assert settle(shuffled) == settle(sayings)


@given(st.lists(ANY_SAYING, max_size=12))
def test_nothing_current_contradicts_anything_current(sayings: list[Saying]) -> None:
    standings = settle(sayings)
    assert set(standings) == {one.statement for one in sayings}
    holds = [one for one, standing in standings.items() if standing.state == "current"]
    assert not [pair for pair in itertools.combinations(holds, 2) if contradict(*pair)]
    assert sum(not one.negated and one.cardinality == "one" for one in holds) <= 1
    for standing in standings.values():
        assert (standing.by is not None) == (standing.state in ("superseded", "disputed"))
        assert (standing.reason is not None) == (standing.state == "superseded")


@given(st.lists(ANY_SAYING, max_size=10), ANY_SAYING)
def test_a_lower_word_never_takes_a_higher_one_out_of_force(sayings: list[Saying], last: Saying) -> None:
    late = replace(last, said_at=T0 + 99 * DAY, integrity=Integrity.IMPORTED, valid_to=None)
    before = {one for one, standing in settle(sayings).items() if standing.state == "current"}
    after = {one for one, standing in settle([*sayings, late]).items() if standing.state == "current"}
    assert before <= after


@given(st.lists(ANY_SAYING, max_size=12), st.sampled_from("abcxy"))
def test_what_is_loaded_for_an_object_is_enough_to_rule_on_it(sayings: list[Saying], asked: str) -> None:
    """The store reads the statements of an object, those that exclude each other, and all denials."""
    loaded = [
        one
        for one in sayings
        if one.statement.object == asked or one.statement.cardinality == "one" or one.statement.negated
    ]
    whole, part = settle(sayings), settle(loaded)
    within = concerned({one.statement for one in loaded}, [asked])
    for statement, standing in part.items():
        if statement.object in within:
            assert standing == whole[statement]


@given(st.integers(1, 8).flatmap(lambda n: st.lists(ANY_SAYING, min_size=n, max_size=n)), ANY_SAYING)
def test_what_a_person_corrected_is_not_said_back_by_repeating_it(sayings: list[Saying], last: Saying) -> None:
    """After a correction no plain word for a value that was said before it takes its place."""
    people = [replace(one, integrity=Integrity.USER, valid_from=None, valid_to=None) for one in sayings]
    right = replace(last, statement=Statement("right", cardinality="one"), said_at=T0 + 50 * DAY, correction=True)
    right = replace(right, integrity=Integrity.USER, valid_to=None)
    old = [one for one in people if not one.statement.negated and one.statement.cardinality == "one"]
    again = [replace(one, said_at=T0 + 60 * DAY, correction=False) for one in old]
    standing = settle([*people, right, *again])[right.statement]
    assert standing.state == "current"


# ---------------------------------------------------------------- keys, time, and what is unfit


def test_the_same_fact_has_the_same_key_however_it_is_written() -> None:
    one = Fact("User", "lives_in", "New  York", "The user lives in New York.", (0, 3))
    two = Fact("user ", "lives_in", "new york", "Lives in New York", (5, 9), category="decision", correction=True)
    assert content_key(one) == content_key(two)
    assert content_words(one) == ("user", "lives_in", "new york", "")
    assert fact_key("A  b", "c") == ("a b", "c")
    assert content_key(replace(one, negated=True)) != content_key(one)
    assert statement_of(replace(one, cardinality="one")) == Statement("new york", False, "one")
    joined = Fact("user lives_in", "new", "york", "", (0, 1)), Fact("user", "lives_in new", "york", "", (0, 1))
    assert content_key(joined[0]) != content_key(joined[1])


def test_a_key_is_the_one_that_is_stored_already() -> None:
    """Another digest would make every fact of a filled store a new one."""
    fact = Fact("user", "lives_in", "Zürich", "The user lives in Zürich.", (0, 3))
    assert content_key(fact).hex() == "3a4f75ff7a066f6334cd1020a5c6157f730a0d535465e3cfa218ff137da841de"
    assert (
        content_key(replace(fact, negated=True)).hex()
        == "fe10928f6297e553243d2d547d1a6fe0e736951248d2fec8e94959afcbab9397"
    )


@pytest.mark.parametrize(
    ("span", "role", "changes", "wanted"),
    [
        ((0, 4), "user", {}, None),
        ((4, 4), "user", {}, "no span"),
        ((6, 5), "user", {}, "no span"),
        ((-1, 4), "user", {}, "no span"),
        ((0, 99), "user", {}, "no span"),
        ((4, 6), "user", {}, "no span"),
        ((0, 4), "assistant", {}, "not their words"),
        ((0, 4), "assistant", {"subject": "server"}, None),
        ((0, 4), "user", {"object": " "}, "empty"),
        ((0, 4), "user", {"object": "x" * (OBJECT_CHARS_MAX + 1)}, "too long"),
        ((0, 4), "user", {"object": "x" * OBJECT_CHARS_MAX}, None),
        ((6, 10), "user", {}, None),
    ],
)
def test_a_fact_needs_words_that_support_it(
    span: tuple[int, int], role: str, changes: dict[str, Any], wanted: str | None
) -> None:
    fact = Fact(**{"subject": "user", "predicate": "p", "object": "o", "statement": "s", "span": span, **changes})
    assert unfit(fact, "text  more", role) == wanted


def test_a_clock_that_jumps_does_not_turn_the_order_round() -> None:
    now, hour = T0, timedelta(hours=1)
    place: dict[str, Any] = {"live": True, "behind": None, "key_last": None, "now": now}
    assert moment(now - hour, **place) == now - hour
    # Back by an hour inside a session: not before what was said before it.
    assert moment(now - hour, **{**place, "behind": now}) == now
    # What it was said behind being from after now does not date this one after now ...
    assert moment(now - hour, **{**place, "behind": now + hour}) == now
    # ... but a key does: its date was given by a clock that has been put back since.
    assert moment(now, **{**place, "key_last": now + hour}) > now + hour
    assert moment(now - hour, **{**place, "key_last": now - timedelta(minutes=1)}) == now - hour
    assert moment(now - hour, **{**place, "key_last": now}) == now - hour
    # Dates of an import are its own, only not of the time to come.
    imported = {**place, "live": False, "behind": now, "key_last": now + hour}
    assert moment(now - hour, **imported) == now - hour
    assert moment(now + hour, **imported) == now
