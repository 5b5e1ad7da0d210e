"""What teaches a procedure and what does not; what is a way of doing things, and when it fails."""

from __future__ import annotations

import time
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory.ids import new_id
from memory.model import Turn
from memory.write.procedures import procedures_of
from policies.fact_patterns_prose import CHARS_MAX
from policies.labels import Integrity
from policies.procedure import STEPS_MAX, procedures_in
from policies.procedure_runs import (
    CALLS_MAX,
    Run,
    common_topics,
    failed_reason,
    fails,
    is_a_way,
    pattern_of,
    sequence_of,
    succeeded,
)
from policies.taught import content_key, fits, trigger_key
from tests.postgres.seed import turn

# Text, trigger in one form, steps.
TAUGHT = [
    (
        "To deploy: 1. run the tests 2. build the image 3. push it",
        "deploy",
        ["run the tests", "build the image", "push it"],
    ),
    ("To deploy:\n1. Run the tests\n2. Push the image.", "deploy", ["Run the tests", "Push the image"]),
    ("To deploy:\n* run the tests\n* push the image\nThanks!", "deploy", ["run the tests", "push the image"]),
    ("Hi! Please remember this: to deploy, first run the tests, then push.", "deploy", ["run the tests", "push"]),
    (
        "When I deploy, first check CI, then tag it and finally tell the team.",
        "deploy",
        ["check CI", "tag it", "tell the team"],
    ),
    (
        "Whenever a build fails, check the log, rerun the job, and then tell the team.",
        "build fail",
        ["check the log", "rerun the job", "tell the team"],
    ),
    (
        "From now on, when I ask for a report, collect the numbers then write a table.",
        "report",
        ["collect the numbers", "write a table"],
    ),
    (
        "Every time I say ship it:\n- bump the version\n- update the changelog\n- tag the commit",
        "it say ship",
        ["bump the version", "update the changelog", "tag the commit"],
    ),
    (
        "The way we release is: tag the commit, then publish the wheel.",
        "releas",
        ["tag the commit", "publish the wheel"],
    ),
    (
        "Remember how to rotate keys: open the vault, create a new key, and delete the old one.",
        "key rotat",
        ["open the vault", "create a new key", "delete the old one"],
    ),
    (
        "Our process for onboarding is a call with HR, then a laptop, then a week with a buddy.",
        "onboard",
        ["a call with HR", "a laptop", "a week with a buddy"],
    ),
    (
        "Our release process is: First, run the tests. Then tag the commit. Finally, publish the wheel.",
        "releas",
        ["run the tests", "tag the commit", "publish the wheel"],
    ),
    (
        "Steps to restore the database:\nStep 1: stop the writers\nStep 2: copy the dump",
        "databas restor",
        ["stop the writers", "copy the dump"],
    ),
    (
        "This is how we onboard a customer: we call them, then we send the contract.",
        "customer onboard",
        ["call them", "send the contract"],
    ),
    (
        "Here's how to clear the cache:\n1) `redis-cli flushall`\n"
        "2) kubectl rollout restart deploy/web\n3) wait a minute",
        "cach clear",
        ["`redis-cli flushall`", "kubectl rollout restart deploy/web", "wait a minute"],
    ),
    (
        "To publish the docs, you should build them, then upload them to https://docs.example.org/upload and purge it.",
        "doc publish",
        ["build them", "upload them to https://docs.example.org/upload and purge it"],
    ),
    (
        "To replace the old server:\n1. stop the old one\n2. start the new one",
        "old replac server",
        ["stop the old one", "start the new one"],
    ),
    (
        "To deploy, pull main -> run the tests -> push the image.",
        "deploy",
        ["pull main", "run the tests", "push the image"],
    ),
]
NOT_TAUGHT = [
    "",
    "🙂",
    "Hello!",
    "When I was young, we first moved to Rome, then to Paris.",
    "To be honest, first I ate, then I slept.",
    "To start, let me say hello, then goodbye.",
    "To get there, we first took the bus, then walked for an hour.",
    "How do I deploy? First build, then push?",
    "To deploy, should I first build, then push?",
    "Can you tell me how to deploy: 1. with docker 2. without it?",
    "To fix this: 1. remove the cache 2. restart it",
    "Steps to reproduce: 1. open the page 2. click the button",
    "To respond to your question: 1. check the price 2. compare it",
    "Whenever it rains, close the window.",  # one step
    "To solve this task, first read the file, then write a list.",
    "When this happens, first stop the server, then call me.",
    "If I were you, I would first stop, then call.",
    "After we moved, we first painted the walls, then bought a bed.",
    "For deploying it, first we went home, then we slept.",
    "To deploy: run the tests.",
    "My three goals: 1. run more 2. read more",
    "Summarize the following text:\nTo deploy:\n1. run the tests\n2. push the image",
    "Translate this: To deploy, first run the tests, then push the image.",
    "> To deploy:\n> 1. run the tests\n> 2. push the image",
    "```\nTo deploy:\n1. run the tests\n2. push the image\n```",
    'He wrote "To deploy, first run the tests, then push the image to the server" and left.',
    "User: how do I deploy?\nAssistant: To deploy: 1. run the tests 2. push the image\nUser: thanks",
    "Act as a cook. To bake: 1. mix the flour 2. heat the oven",
    "To deploy:\n1. run the tests\n```\nrm -rf /\n```\n2. push the image",  # what is between is not known
    "To deploy:\n1. run the tests\n3. push the image",  # the second is missing
    "To deploy:\n1. the weather\n2. a cat",
    "For lunch: 1. soup 2. salad",
    "First we went home, then we called you and finally we slept.",
    "The way we met is a long story, then we married, then we moved.",
    "Our old process for deploying is: run the tests, push to main, then tag the release.",
    "Our old deployment process: run the tests, push to main, then tag the release.",
    "Our process for deploying was: run the tests, push to main, then tag the release.",
    "To deploy we used to do this:\n1. run the tests\n2. push to main",
    "部署时：1. 运行测试 2. 构建镜像 3. 推送",
    "Um zu deployen: 1. Tests laufen lassen 2. Image bauen",
    "Pour déployer : 1. lancer les tests 2. pousser l'image",
]


@pytest.mark.parametrize(("text", "key", "steps"), TAUGHT)
def test_what_is_taught_is_found_with_its_steps_in_place(text: str, key: str, steps: list[str]) -> None:
    (one,) = procedures_in(text)
    assert (one.key, [step.text for step in one.steps]) == (key, steps)
    assert [text[slice(*step.span)].replace("**", "") for step in one.steps] == steps
    assert one.span[0] <= one.steps[0].span[0] and one.span[1] == one.steps[-1].span[1]
    assert fits(one, text) and not fits(one, text[1:])
    assert one.statement.count("\n") == len(steps)


@pytest.mark.parametrize("text", NOT_TAUGHT)
def test_what_only_looks_so_teaches_nothing(text: str) -> None:
    assert procedures_in(text) == []


def test_two_lessons_of_one_text_are_two_and_of_one_trigger_the_last_counts() -> None:
    first, second = "To build, first run make, then run tests.", "To deploy, first tag it, then push it."
    text = f"{first}\n{second}\nTo deploy, ping Bo, then push it."
    assert [(one.key, one.steps[0].text) for one in procedures_in(text)] == [
        ("build", "run make"),
        ("deploy", "ping Bo"),
    ]


def test_a_huge_text_and_a_huge_list_teach_nothing() -> None:
    lesson = "To deploy: 1. run the tests 2. push the image"
    assert procedures_in(lesson + "\n" + "x" * CHARS_MAX) == []
    assert procedures_in("To deploy:\n" + "\n".join(f"{n}. run part {n}" for n in range(1, STEPS_MAX + 2))) == []


@pytest.mark.parametrize("one", ["deploy", "deploying", "the deployment", "to deploy", "when I deploy", "Deploys"])
def test_forms_of_a_trigger_are_one_trigger(one: str) -> None:
    assert trigger_key(one) == "deploy"


def test_before_and_after_are_other_triggers() -> None:
    keys = {
        trigger_key(one)
        for one in ("deploy", "before I deploy", "after I deploy", "deploy to staging", "a deploy fails")
    }
    assert len(keys) == 5


def test_a_content_key_knows_trigger_and_steps_and_no_spelling() -> None:
    assert content_key("a", ["Run it", "push  it"]) == content_key("a", ["run it", "push it"])
    assert len({content_key("a", ["b", "c"]), content_key("a", ["c", "b"]), content_key("b", ["b", "c"])}) == 3


PIECES_TEXT = (
    'To deploy|:|,| |1. |2. |3)|- |run| then |first |we |`|"|```|\t|push it|?|.|When I ask|the way we |is|é|🙂'
    "|steps to |->|\n|\n1. |\r\n|\ue000|\xa0|\u2028|our process for x is|Step 1: |* |To a: |**"
)
PIECES = st.sampled_from(PIECES_TEXT.split("|"))


@settings(max_examples=300, deadline=None)
@given(st.lists(PIECES, max_size=60).map("".join))
def test_every_step_of_whatever_text_is_a_range_of_it(text: str) -> None:
    for one in procedures_in(text):
        assert fits(one, text)
        assert len(one.steps) >= 2
        assert all(a.span[1] <= b.span[0] for a, b in zip(one.steps, one.steps[1:], strict=False))


@pytest.mark.parametrize(
    "part",
    [" ", "\n", "To deploy", "To deploy: ", "1. ", "then ", ", then ", "a. ", "- ", "when x ", ",", "To a, then "],
)
def test_reading_takes_no_more_than_its_length(part: str) -> None:
    """A bound far above what is needed (some ms): a pattern that tries everything takes minutes."""
    text = ("To deploy, " + part * CHARS_MAX)[:CHARS_MAX]
    began = time.process_time()
    procedures_in(text)
    assert time.process_time() - began < 5


@pytest.mark.parametrize("role", ["assistant", "tool", "system", "user"])
@pytest.mark.parametrize("integrity", list(Integrity))
def test_only_a_users_own_words_teach(role: str, integrity: Integrity) -> None:
    said: Turn = turn(
        new_id(), "s", 0, role, TAUGHT[0][0], integrity=integrity, occurred_at=datetime(2026, 1, 1, tzinfo=UTC)
    )
    found = procedures_of([said])
    assert bool(found) is (role == "user" and integrity in (Integrity.USER, Integrity.ADMIN))
    if found:
        assert [procedures_of([said], how)[0].memory.validation_status for how in ("taught", "all", "none")] == [
            "confirmed", "confirmed", "unreviewed",
        ]  # fmt: skip


# ---------------------------------------------------------------- what nobody taught


def test_calls_in_a_row_are_one_and_names_are_plain() -> None:
    assert sequence_of(["Read", "read", "Edit File", "read", "<memory>\n"]) == ["read", "edit_file", "read", "memory"]
    assert sequence_of(["a", "b"] * CALLS_MAX) == []
    assert sequence_of(["", "…"]) == []


@pytest.mark.parametrize(
    ("called", "pattern"),
    [
        (["a", "b", "c"], "coding: a > b > c"),
        (["a", "b", "a"], "coding: a > b > a"),
        (["a", "b"], None),
        (["a"], None),
        ([], None),
        (None, None),
        ([1, 2, 3], None),
    ],
)
def test_a_pattern_needs_three_calls_of_two_tools(called: object, pattern: str | None) -> None:
    assert pattern_of({"task_type": "coding", "tool_sequence": called}) == pattern


def test_success_is_what_the_episode_says() -> None:
    assert [succeeded({"outcome": one}) for one in ("success", "failure", "unknown")] == [True, False, None]
    assert succeeded({}) is None


@pytest.mark.parametrize(
    ("runs", "way"), [("sss", True), ("ss", False), ("ssfs", True), ("sssff", False), ("ssssff", True), ("", False)]
)
def test_three_successes_and_a_third_of_failures_make_a_way(runs: str, way: bool) -> None:
    assert is_a_way([Run(one == "s") for one in runs]) is way


@pytest.mark.parametrize(
    ("latest_first", "bad"), [("fff", True), ("ff", False), ("fsfsf", True), ("fsfssf", False), ("sssssffff", False)]
)
def test_three_failures_of_the_last_five_end_it(latest_first: str, bad: bool) -> None:
    assert fails([one == "s" for one in latest_first]) is bad
    assert failed_reason([False, True, False, False]) == "failed 3 of its last 4 runs"


def test_topics_are_those_of_several_successes() -> None:
    runs = [Run(True, ("parser", "bug", "bug")), Run(True, ("parser", "tests")), Run(False, ("bug", "tests"))]
    assert common_topics(runs) == ["parser"]
