"""What is stored says by what it was cleaned; a sweep finds what older rules let through and cuts it everywhere.

All secrets are made up at run time.
"""

from __future__ import annotations

import asyncio
import random
import string
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

import asyncpg
import pytest

from memory.adapters.postgres.redact_store import RedactStore
from memory.adapters.redaction import Again
from memory.adapters.secret_rules import secret_detectors
from memory.errors import StoreRefused
from memory.ids import new_id
from memory.keys import KeyRing
from memory.model import Commit, Committed, NewFact, SealedToken
from memory.redact_command import _tokens, shown
from memory.stored import MemoryChange
from memory.write.personal import PersonalRedactor, SubjectTokens, revealed
from memory.write.procedures import embedded_procedures, procedures_of
from memory.write.redact import Redactor
from memory.write.sweep import SessionText, Sweep, SweepParts, clean_session, clean_turn
from policies.fact import Fact
from policies.personal import PersonalPolicy
from policies.reconcile import content_key
from tests.postgres.seed import T0, Stores, Words, exchange, memory_of, session_of, stores, vectors
from tests.postgres_fixture import TestDatabase

SECRET = "ghp" + "_" + "a1B" + "".join(random.Random(2).choices(string.ascii_letters + string.digits, k=33))
NOW, OLD = "2.keep", "1.keep"
SAID = (f"my token is {SECRET}, keep it", "I will remember that")


@pytest.fixture
async def store(postgres: TestDatabase) -> AsyncIterator[Stores]:
    async with stores(postgres) as opened:
        yield opened


@pytest.fixture
async def eyes(postgres: TestDatabase) -> AsyncIterator[Any]:
    """A connection past row-level security."""
    connection = await asyncpg.connect(postgres.owner)
    yield connection
    await connection.close()


def swept(store: Stores, postgres: TestDatabase, *, apply: bool, **more: Any) -> Sweep:
    redactor = more.pop("redactor", None) or PersonalRedactor(Redactor(secret_detectors()), PersonalPolicy())
    words: Any = Words()
    parts: dict[str, Any] = {
        "store": more.pop("on", None) or RedactStore(store.database, postgres.embeddings, page=2),
        "redactor": redactor,
        "keeper": None,
        "keeping": redactor.keeping,
        "embedder": words,
        "windows": words,
        "mark": NOW,
        "apply": apply,
        "again": False,
        "clock": lambda: T0 + timedelta(days=1),
        "stop": asyncio.Event(),
        "say": lambda _: None,
    }
    return Sweep(SweepParts(**{**parts, **more}))


async def everything(eyes: Any) -> str:
    """All text of all tables."""
    names = await eyes.fetch("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
    rows = [await eyes.fetch(f'SELECT t::text AS said FROM "{name[0]}" t') for name in names]
    return "\n".join(row["said"] for found in rows for row in found)


def stating(words: str, *, said: str | None = None, **more: Any) -> Fact:
    """A fact of many, as it is told of what somebody said."""
    sentence = f"The key of the user is {said or words}."
    fields: dict[str, Any] = {"subject": "user", "predicate": "has_key", "object": words.casefold(), **more}
    return Fact(statement=sentence, span=(0, 5), **fields)


async def say(store: Stores, one: Fact, day: int = 0) -> Committed:
    """An exchange that states it, in a session of its own."""
    now = T0 + timedelta(days=day)
    made = exchange(store.scope(), f"s{new_id()}", 0, ("said so",), retrieval=None, fence=store.fence)
    turn = replace(made.turns[0], occurred_at=now)
    memory = replace(
        memory_of(turn, content=one.statement, windows=((0, 9),)),
        memory_id=new_id(),
        kind="semantic",
        content_key=content_key(one),
    )
    facts = (NewFact(memory, one, turn.event_id),)
    return await store.write.commit(replace(made, turns=(turn,), memories=(), facts=facts), now=now)


async def teach(store: Stores, text: str) -> Committed:
    """An exchange that teaches it, in a session of its own."""
    made = exchange(store.scope(), f"s{new_id()}", 0, (text,), retrieval=None, fence=store.fence)
    words: Any = Words()
    taught = procedures_of(made.turns)
    memories = await embedded_procedures([one.memory for one in taught], words, words)
    lessons = tuple(replace(one, memory=memory) for one, memory in zip(taught, memories, strict=True))
    return await store.write.commit(replace(made, procedures=lessons), now=T0)


def dirty(store: Stores, **more: Any) -> Commit:
    """An exchange as older rules have let it through, in text, tool calls, attributes and the session's label."""
    made = exchange(store.scope(), f"session {SECRET}", 0, SAID, fence=store.fence, **more)
    first = replace(made.turns[0], tool_calls=[{"function": {"name": "f", "arguments": SECRET}}], name=SECRET)
    memory = replace(memory_of(first), attributes={"object": SECRET, "n": 1})
    return replace(made, turns=(first, *made.turns[1:]), memories=(memory, memory_of(made.turns[1])))


async def test_what_a_commit_stores_says_by_what_it_was_cleaned(store: Stores, eyes: Any) -> None:
    await store.write.commit(exchange(store.scope(), "a", 0, fence=store.fence, cleaned_by=NOW), now=T0)
    await store.write.commit(exchange(store.scope(), "b", 0, fence=store.fence), now=T0)
    for table in ("turns", "memory_versions"):
        marks = await eyes.fetch(f"SELECT cleaned_by, count(*) FROM {table} GROUP BY 1 ORDER BY 1")
        assert [tuple(row) for row in marks] == [("", 2), (NOW, 2)]


async def test_a_copy_of_an_older_text_is_no_cleaner_than_that_was(store: Stores, eyes: Any) -> None:
    made = dirty(store)
    await store.write.commit(made, now=T0)
    one = made.memories[0].memory_id
    await store.records.patch_memory(store.scope(), one, 1, MemoryChange(pinned=True, importance=0.9), T0)
    found = await eyes.fetch("SELECT version, cleaned_by FROM memory_versions WHERE memory_id = $1 ORDER BY 1", one)
    assert [tuple(row) for row in found] == [(1, ""), (2, "")]
    async with eyes.transaction():  # a writer that has just cleaned something else
        await eyes.execute("SELECT set_config('mp.rules', $1, true)", NOW)
        await eyes.execute("UPDATE memory_versions SET recorded_to = now() WHERE memory_id = $1", one)
        next_one = "jsonb_build_object('version', 3, 'recorded_to', NULL, 'cleaned_by', mp_rules())"
        await eyes.execute(
            f"INSERT INTO memory_versions SELECT (jsonb_populate_record(v, {next_one})).*"
            " FROM memory_versions v WHERE memory_id = $1 AND version = 2",
            one,
        )
    assert await eyes.fetchval("SELECT cleaned_by FROM memory_versions WHERE memory_id = $1 AND version = 3", one) == ""


async def test_recall_cleans_what_other_rules_cleaned_and_leaves_the_rest_as_it_is(store: Stores) -> None:
    made = dirty(store, cleaned_by=OLD)
    await store.write.commit(made, now=T0)
    again = Again(PersonalRedactor(Redactor(secret_detectors()), PersonalPolicy()), NOW)
    scope_ids = [one.scope_id for one in await store.read.visible_scopes(store.scope())]
    rows = [row async for page in store.read.index_rows(store.tenant, scope_ids) for row in page]
    assert any(SECRET in row.content for row in rows)
    cleaned = [again.cleaned(row) for row in rows]
    assert not any(SECRET in row.content for row in cleaned)
    for before, row in zip(rows, cleaned, strict=True):
        assert len(row.windows) == len(row.vectors) == len(before.windows)
        assert all(0 <= start <= end <= len(row.content) for start, end in row.windows)
    marked = [replace(row, cleaned_by=NOW) for row in rows]
    assert all(again.cleaned(row) is row for row in marked)


async def test_a_rehearsal_counts_by_rule_and_changes_nothing(store: Stores, postgres: TestDatabase, eyes: Any) -> None:
    await store.write.commit(dirty(store), now=T0)
    before = await everything(eyes)
    sweep = swept(store, postgres, apply=False)
    assert await sweep.run()
    assert await everything(eyes) == before
    assert sweep.swept.changed == {"turns": 1, "memories": 1, "versions": 1, "sessions": 1}
    assert any(rule.startswith("github/") for rule in sweep.swept.rules)
    told = shown(sweep.swept, apply=False, as_json=False) + shown(sweep.swept, apply=False, as_json=True)
    assert SECRET not in told
    assert "github/" in told


async def test_a_sweep_leaves_the_secret_nowhere_and_everything_else_as_it_was(
    store: Stores, postgres: TestDatabase, eyes: Any
) -> None:
    made = dirty(store)
    await store.write.commit(made, now=T0)
    one = made.memories[0].memory_id
    change = MemoryChange(content=f"edited: {SECRET}", windows=((0, 20),), vectors=vectors(1))
    await store.records.patch_memory(store.scope(), one, 1, change, T0)
    vectors_of = f"SELECT version, embedding::text FROM {postgres.embeddings} WHERE memory_id = $1 ORDER BY 1"
    old = await eyes.fetch(vectors_of, one)
    version = await eyes.fetchval("SELECT version FROM scope_versions")
    assert await swept(store, postgres, apply=True).run()
    assert SECRET not in await everything(eyes)
    said = [
        row[0] for row in await eyes.fetch("SELECT content FROM memory_versions WHERE memory_id = $1 ORDER BY 1", one)
    ]
    assert sorted(said) == ["edited: [redacted:github]", "my token is [redacted:github], keep it"]
    new = await eyes.fetch(vectors_of, one)
    assert {row[0] for row in new} == {row[0] for row in old} == {1, 2}
    assert not {row[1] for row in new} & {row[1] for row in old}
    other = made.memories[1]
    assert await eyes.fetchval("SELECT content FROM memory_versions WHERE memory_id = $1", other.memory_id) == SAID[1]
    row = await eyes.fetchrow("SELECT version, rebuild_version FROM scope_versions")
    assert row["version"] > version
    assert row["rebuild_version"] > version
    told = await eyes.fetch("SELECT event, object_id, metadata::text AS m FROM outbox WHERE caused_by = 'redaction'")
    assert [(line["event"], line["object_id"]) for line in told] == [("updated", one)]
    assert await eyes.fetchval("SELECT count(*) FROM turns WHERE cleaned_by <> $1", NOW) == 0
    assert await eyes.fetchval("SELECT redactions FROM turns ORDER BY seq LIMIT 1") >= 3


async def test_a_fact_rests_on_its_own_words_after_a_sweep(store: Stores, postgres: TestDatabase) -> None:
    text = f"My token is {SECRET}. I live in Oslo, and I like tea."
    made = exchange(store.scope(), "s", 0, (text,), retrieval=None, fence=store.fence)
    facts = []
    for words in ("I live in Oslo", "My token is", f"{SECRET}. I live"):
        span = (text.index(words), text.index(words) + len(words))
        one = Fact("user", "says", words.casefold(), f"The user says {words[:9]}.", span)
        memory = replace(
            memory_of(made.turns[0], content=one.statement, windows=((0, 9),)),
            memory_id=new_id(),
            kind="semantic",
            content_key=content_key(one),
        )
        facts.append(NewFact(memory, one, made.turns[0].event_id))
    await store.write.commit(replace(made, memories=(), facts=tuple(facts)), now=T0)
    assert await swept(store, postgres, apply=True).run()
    found = postgres.psql(
        "SELECT substring(t.content FROM d.span_start + 1 FOR d.span_end - d.span_start) FROM derivations d"
        " JOIN turns t ON t.event_id = d.source_id ORDER BY d.span_start, d.span_end"
    )
    assert SECRET not in postgres.psql("SELECT content FROM turns")
    first, second, third = found.splitlines()
    assert (first, third) == ("My token is", "I live in Oslo")
    assert second.startswith("[redacted:") and second.endswith("]. I live")


async def test_a_second_sweep_has_nothing_to_do_and_looks_again_where_asked(
    store: Stores, postgres: TestDatabase
) -> None:
    await store.write.commit(dirty(store), now=T0)
    await swept(store, postgres, apply=True).run()
    second = swept(store, postgres, apply=True)
    await second.run()
    assert (second.swept.looked_at["turns"], second.swept.looked_at["memories"]) == (0, 0)
    third = swept(store, postgres, apply=False, again=True)
    await third.run()
    assert (third.swept.looked_at["turns"], third.swept.changed.total()) == (2, 0)


def test_a_cleaned_label_is_no_longer_than_a_client_may_say_it() -> None:
    """An import refuses a longer one, and no request names it."""
    said = "\u044f" * 118 + " password: hunter2x"
    assert len(said.encode()) <= 256
    cleaned = clean_session(SessionText(new_id(), said, {}), Redactor(secret_detectors()))
    assert cleaned is not None and "hunter2x" not in cleaned.label
    assert len(cleaned.label) > 125 and len(cleaned.label.encode()) <= 256


async def test_what_carries_a_session_s_former_label_goes_on_in_it_after_a_sweep(
    store: Stores, postgres: TestDatabase, eyes: Any
) -> None:
    """Entries of the queue and of the spool, dead letters, what Redis holds, an import: all have label and id."""
    made = dirty(store)
    await store.write.commit(made, now=T0)
    await swept(store, postgres, apply=True).run()
    later = exchange(store.scope(), f"session {SECRET}", 2, fence=store.fence)
    done = await store.write.commit(later, now=T0)
    assert done.new_turns == 2
    rows = await eyes.fetch("SELECT session_id, label, next_seq FROM sessions")
    assert [(row["session_id"], row["next_seq"]) for row in rows] == [(made.session.session_id, 4)]
    assert SECRET not in rows[0]["label"]
    tail = await store.imports.session_tail(store.scope(), made.session)
    assert (tail.next_seq, tail.tip_chain) == (4, later.turns[-1].chain)
    assert (await store.imports.session_tail(store.scope(), session_of(store.scope(), "other"))).next_seq == 0


async def test_a_session_id_of_another_scope_is_refused_and_not_waited_for(store: Stores) -> None:
    made = exchange(store.scope(), "s", 0, fence=store.fence)
    await store.write.commit(made, now=T0)
    other = exchange(store.scope(user="eve"), "t", 0, fence=store.fence)
    with pytest.raises(StoreRefused):
        await store.write.commit(replace(other, session=replace(made.session, label="t")), now=T0)


async def test_a_scope_that_came_back_under_another_id_is_asked_for_anew(store: Stores, postgres: TestDatabase) -> None:
    """Its session is not seen by the old id, which this process holds; the refusal tells it."""
    made = exchange(store.scope(), "s", 0, fence=store.fence)
    await store.write.commit(exchange(store.scope(), "t", 0, fence=store.fence), now=T0)
    postgres.psql("UPDATE scopes SET user_name = 'gone'")
    postgres.psql(
        "INSERT INTO scopes (tenant_id, user_name, project, agent) SELECT tenant_id, 'ada', 'p', 'a' FROM scopes"
    )
    versions = "INSERT INTO scope_versions SELECT tenant_id, scope_id, 0, 0 FROM scopes WHERE user_name = 'ada'"
    postgres.psql(versions)
    postgres.psql(
        "INSERT INTO sessions (tenant_id, session_id, scope_id, label, created_at, last_at)"
        f" SELECT tenant_id, '{made.session.session_id}', scope_id, 'cleaned', now(), now() FROM scopes"
        " WHERE user_name = 'ada'"
    )
    with pytest.raises(StoreRefused):
        await store.write.commit(made, now=T0)
    assert (await store.write.commit(made, now=T0)).new_turns == 2


async def test_a_fact_is_known_by_the_words_that_a_sweep_leaves_it(
    store: Stores, postgres: TestDatabase, eyes: Any
) -> None:
    """The same said again is one more saying of it; said openly under another policy it is another fact."""
    key = "AKIA" + "".join(random.Random(3).choices(string.ascii_uppercase + "234567", k=16))
    clear, hidden = stating(key), stating("[redacted:aws]")
    await say(store, clear)
    one = (await eyes.fetchrow("SELECT memory_id FROM facts"))["memory_id"]
    assert await swept(store, postgres, apply=True).run()
    text = await everything(eyes)
    assert key not in text and key.casefold() not in text and content_key(clear).hex() not in text
    row = await eyes.fetchrow("SELECT object, content_key FROM facts JOIN memories USING (memory_id)")
    assert tuple(row) == ("[redacted:aws]", content_key(hidden))
    assert (await say(store, hidden)).facts_new == 0
    assert await eyes.fetchval("SELECT count(*) FROM fact_sayings WHERE memory_id = $1", one) == 2
    assert (await say(store, clear)).facts_new == 1


async def test_facts_that_say_the_same_after_a_sweep_stand_in_nobody_s_way(
    store: Stores, postgres: TestDatabase, eyes: Any
) -> None:
    keys = ["AKIA" + "".join(random.Random(n).choices(string.ascii_uppercase + "234567", k=16)) for n in range(4)]
    for one in keys[:2]:  # the same statement, afterwards
        await say(store, stating(one))
    for one in keys[2:]:  # two things of which one can be so at a time, which are one thing afterwards
        await say(store, stating("berlin", subject=f"the host of {one}".casefold(), cardinality="one", said=one))
        await say(store, stating("paris", subject=f"the host of {one}".casefold(), cardinality="one", said=one))
    assert await swept(store, postgres, apply=True).run()
    text = await everything(eyes)
    assert not any(one in text or one.casefold() in text for one in keys)
    alike = await eyes.fetch("SELECT count(*) FROM memories WHERE kind = 'semantic' GROUP BY content_key")
    assert len(alike) == 6 and all(row[0] == 1 for row in alike)
    for words in ("[redacted:aws]", *keys):
        await say(store, stating(words))
    for day, place in enumerate(("rome", "paris", "berlin"), 1):
        await say(store, stating(place, subject="the host of [redacted:aws]", cardinality="one"), day)
    current = "SELECT object FROM facts WHERE state = 'current' AND subject = 'the host of [redacted:aws]'"
    assert [row[0] for row in await eyes.fetch(current)] == ["berlin"]


async def test_a_procedure_is_known_by_the_words_that_a_sweep_leaves_it(
    store: Stores, postgres: TestDatabase, eyes: Any
) -> None:
    steps = f"To deploy: 1. log in with {SECRET} 2. push the image"
    purpose = f"To rotate {SECRET}: 1. stop the writers 2. copy the files"
    other = purpose.replace(SECRET, SECRET[:-1] + "Z")
    for text in (steps, purpose, other):
        assert (await teach(store, text)).procedures_new == 1
    keys = [
        bytes(row[0]).hex() for row in await eyes.fetch("SELECT content_key FROM memories WHERE kind = 'procedural'")
    ]
    assert await swept(store, postgres, apply=True).run()
    text = await everything(eyes)
    assert not any(one in text for one in (*keys, SECRET, SECRET[4:].casefold()))
    found = await eyes.fetch("SELECT trigger, number, holds FROM procedures ORDER BY 1, 2")
    assert [(row["number"], row["holds"]) for row in found] == [(1, True), (1, True), (2, False)]
    redactor = Redactor(secret_detectors())
    for one in (steps, purpose):  # the same said again is the same
        assert (await teach(store, redactor.redact(one).text)).procedures_new == 0
    for one in (steps, purpose, other):  # and openly, by whoever allows it
        assert (await teach(store, one)).procedures_new == 1


class Dies:
    """A store that is killed at its n-th write, before it or after it."""

    def __init__(self, inner: RedactStore, at: int, *, after: bool) -> None:
        self._inner, self._left, self._after = inner, at, after

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        return partial(self._put, found) if name.startswith("put_") else found

    async def _put(self, put: Callable[..., Any], *given: Any) -> None:
        self._left -= 1
        if self._left == 0 and not self._after:
            raise KeyboardInterrupt
        await put(*given)
        if self._left == 0:
            raise KeyboardInterrupt


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("at", range(1, 8))
async def test_a_sweep_that_is_killed_anywhere_goes_on_and_ends_the_same(
    at: int, after: bool, store: Stores, postgres: TestDatabase, eyes: Any
) -> None:
    for n in range(3):
        made = exchange(store.scope(user=f"u{n % 2}"), f"s{n}", 0, (f"{n} {SECRET}", "ok"), fence=store.fence)
        await store.write.commit(made, now=T0)
    killed = Dies(RedactStore(store.database, postgres.embeddings, page=2), at, after=after)
    try:
        await swept(store, postgres, apply=True, on=killed).run()
    except KeyboardInterrupt:
        await swept(store, postgres, apply=True).run()
    assert SECRET not in await everything(eyes)
    assert await eyes.fetchval("SELECT count(*) FROM turns") == 6
    assert await eyes.fetchval(f"SELECT count(*) FROM {postgres.embeddings}") == 6
    assert await eyes.fetchval("SELECT count(*) FROM outbox WHERE caused_by = 'redaction'") == 3


async def test_a_turn_that_was_written_anew_meanwhile_is_left_to_its_writer(
    store: Stores, postgres: TestDatabase, eyes: Any
) -> None:
    made = dirty(store)
    await store.write.commit(made, now=T0)
    read = RedactStore(store.database, postgres.embeddings)
    scope = await anext(read.scopes())
    turns = [one async for page in read.turns(scope, NOW, again=False) for one in page]
    await eyes.execute("UPDATE turns SET content = 'said anew' WHERE event_id = $1", made.turns[0].event_id)
    redactor = PersonalRedactor(Redactor(secret_detectors()), PersonalPolicy())
    changed = [clean_turn(one, redactor) for one in turns]
    await read.put_turns(scope, [one for one in changed if one.found], [], NOW, (), T0)
    assert await eyes.fetchval("SELECT content FROM turns WHERE event_id = $1", made.turns[0].event_id) == "said anew"


async def test_a_sweep_with_another_policy_puts_personal_data_behind_tokens(
    store: Stores, postgres: TestDatabase, eyes: Any
) -> None:
    made = exchange(store.scope(), "s", 0, ("write to bob@example.com", "ok"), fence=store.fence, cleaned_by=NOW)
    await store.write.commit(made, now=T0)
    keys = KeyRing(store.keys, bytes(32))
    redactor = PersonalRedactor(Redactor(secret_detectors()), PersonalPolicy(email="tokenise"))
    more: dict[str, Any] = {"redactor": redactor, "keeper": partial(_tokens, keys), "mark": f"2.{redactor.mark}"}
    assert await swept(store, postgres, apply=True, **more).run()
    assert "bob@example" not in await everything(eyes)
    row = await eyes.fetchrow("SELECT token, subject_id, sealed FROM personal_tokens")
    assert row["token"] in await eyes.fetchval("SELECT content FROM turns ORDER BY seq LIMIT 1")
    key = await keys.subject_key(store.tenant, "ada")
    assert revealed(key, store.tenant, row["subject_id"], row["token"], row["sealed"]) == "bob@example.com"


async def test_tokens_are_kept_with_the_exchange_and_seen_in_its_scope_only(store: Stores, eyes: Any) -> None:
    keys = KeyRing(store.keys, bytes(32))
    kept = SubjectTokens(
        await keys.subject_key(store.tenant, "ada"), store.tenant, await keys.subject_id(store.tenant, "ada")
    )
    token = kept.token("email", "bob@example.com")
    sealed: tuple[SealedToken, ...] = tuple(kept.kept.values())
    for n in range(2):
        made = exchange(store.scope(), f"s{n}", 0, fence=store.fence, cleaned_by=NOW, tokens=sealed)
        done = await store.write.commit(made, now=T0)
    assert await eyes.fetchval("SELECT count(*) FROM personal_tokens") == 1
    for seen, found in (([done.scope_id], 1), ([done.scope_id + 1], 0), ([], 0)):
        async with store.database.transaction(store.tenant, seen, read_only=True) as tx:
            assert len(await tx.fetch("token_of_scopes", store.tenant, [done.scope_id], token)) == found
