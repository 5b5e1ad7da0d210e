"""A second embedding model beside the first: filled, broken off, switched to and back. Nothing is lost."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pytest

from memory import reembed_command
from memory.adapters.embedder import OnnxEmbedder
from memory.adapters.model_files import ModelFiles, prepare_model
from memory.adapters.model_registry import spec_from_directory
from memory.adapters.postgres import reembed_store
from memory.adapters.postgres.migrate import (
    check,
    drop_standby_model,
    ensure_embedding_table,
    serve_model,
)
from memory.adapters.postgres.read_store import ReadStore
from memory.adapters.postgres.redact_store import RedactStore
from memory.adapters.postgres.reembed_store import ReembedStore
from memory.adapters.postgres.serving_store import ServingStore
from memory.adapters.postgres.write_store import WriteStore
from memory.config import load_settings
from memory.errors import LeaseLost, StoreUnavailable
from memory.read.hot import HotScopes
from memory.serving import StoredModel
from memory.stored import MemoryChange
from memory.telemetry import Metrics
from memory.write.reembed import Filled, Reembedding, Taken, Vectors
from memory.write.sweep import CleanMemory, CleanVersion
from memory.write.windows import dated
from tests.postgres.seed import SUBJECT, T0, Stores, chunk, exchange, stores, vectors
from tests.postgres_fixture import DIM, MODEL, TestDatabase
from tests.small_model_fixture import write_small_model
from tests.waiting import until

SMALL = 32
# A copy of a memory, made so many days ago, at the first change of its scope and before every other id.
PAST_THE_CURSOR = """
WITH one AS (SELECT * FROM memories WHERE changed_version = 1 LIMIT 1),
made AS (
    INSERT INTO memories (tenant_id, memory_id, scope_id, kind, collection, content_key, session_id, subject_id,
                          changed_version, created_at)
    SELECT tenant_id, '00000000-0000-0000-0000-00000000000{number}', scope_id, kind, 'episode',
           sha256('{number}'::bytea), session_id, subject_id, 1, now() - interval '{days} days' FROM one
    RETURNING tenant_id, memory_id)
INSERT INTO memory_versions
SELECT (jsonb_populate_record(v, jsonb_build_object('memory_id', made.memory_id))).*
FROM memory_versions v JOIN one USING (memory_id), made
"""


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> ModelFiles:
    """A model of 32 dimensions that takes 64 tokens."""
    directory = write_small_model(tmp_path_factory.mktemp("small"), dim=SMALL, max_tokens=64)
    return prepare_model(spec_from_directory("small", directory), directory, print)


@pytest.fixture(scope="module")
def embedder(files: ModelFiles) -> Iterator[OnnxEmbedder]:
    built = OnnxEmbedder(files)
    yield built
    built.close()


class Deaf(ReembedStore):
    """A store whose process is killed at its n-th call: nothing runs after it, not even giving back the lead."""

    def __init__(self, database: Any, holder: str, dies_at: int, *, after: bool) -> None:
        super().__init__(database, holder)
        self.calls, self.dies_at, self.after, self.dead = 0, dies_at, after, False

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if name not in ("put", "take", "hold", "switch", "left", "paused", "resign", "lead", "passed_over"):
            return found

        async def call(*arguments: Any) -> Any:
            if self.dead:
                raise Killed
            self.calls += 1
            dies = self.calls == self.dies_at
            if dies and not self.after:
                self.dead = True
                raise Killed
            answer = await found(*arguments)
            if dies:
                self.dead = True
                raise Killed
            return answer

        return call


class Killed(BaseException):
    """kill -9."""


@dataclass(frozen=True)
class Both:
    """A store with memories of the test model, served, and the small model beside it."""

    stores: Stores
    postgres: TestDatabase
    first: StoredModel
    second: StoredModel
    embedder: OnnxEmbedder

    def work(self, store: Any = None, model: StoredModel | None = None, **more: Any) -> Reembedding:
        options: dict[str, Any] = {"rest": 0.0, "stop": asyncio.Event(), "say": lambda _: None, **more}
        chosen = model or self.second
        embedder: Any = self.embedder if chosen.dim == SMALL else OfTestModel(self.embedder)
        return Reembedding(store or self.store("filler"), chosen, embedder, embedder, **options)

    def store(self, holder: str) -> ReembedStore:
        return ReembedStore(self.stores.database, holder)

    def lacking(self, model: StoredModel) -> int:
        """Versions of memories that have no vector of this model."""
        return int(
            self.postgres.psql(
                "SELECT count(*) FROM memory_versions v WHERE NOT EXISTS (SELECT FROM "
                f"{model.table} e WHERE e.memory_id = v.memory_id AND e.version = v.version)"
            )
        )

    def forget_the_lease(self) -> None:
        """Time passes until the lease of a process that was killed is over, and its hold on writers too."""
        self.postgres.psql("UPDATE lane_leases SET expires_at = '-infinity' WHERE lane = 'job:reembed'")
        self.postgres.psql("UPDATE embedding_serving SET held_until = '-infinity'")

    async def served(self) -> StoredModel:
        serving = await ServingStore(self.stores.database).serving()
        assert serving is not None
        return serving.model

    def writer(self, model: StoredModel) -> WriteStore:
        return WriteStore(self.stores.database, self.stores.scopes, model.table)


class OfTestModel:
    """The test model, whose vectors nobody looks at: as long as its table wants them."""

    def __init__(self, embedder: OnnxEmbedder) -> None:
        self._embedder = embedder
        self.model, self.dim, self.window_tokens = MODEL, DIM, 200

    async def embed_query(self, text: str) -> Any:
        return vectors(1)[0]

    async def embed_documents(self, texts: Sequence[str]) -> Any:
        return vectors(len(texts))

    def offsets(self, text: str) -> Sequence[tuple[int, int]]:
        return self._embedder.offsets(text)


@pytest.fixture
async def both(postgres: TestDatabase, files: ModelFiles, embedder: OnnxEmbedder) -> AsyncIterator[Both]:
    await ensure_embedding_table(postgres.owner, "small", files.digest, SMALL, files.spec.directory)
    async with stores(postgres) as made:
        models = {model.name: model for model in await ServingStore(made.database).models()}
        await serve_model(postgres.owner, models[MODEL].model_id, None, known=0)
        yield Both(made, postgres, models[MODEL], models["small"], embedder)


def commit_of(scope: Any, session: str, texts: Sequence[str] = ("hello", "hi there"), dim: int = DIM) -> Any:
    """An exchange as the worker of a model of so many dimensions hands it over."""
    made = exchange(scope, session, 0, texts)
    if dim == DIM:
        return made
    unit = np.eye(dim, dtype=np.float32)[:1]
    return replace(made, memories=tuple(replace(memory, vectors=unit) for memory in made.memories))


async def told(both: Both, sessions: int = 5, user: str = "ada", tenant_scope: Any = None) -> None:
    for number in range(sessions):
        await both.stores.write.commit(
            commit_of(tenant_scope or both.stores.scope(user), f"s{number}", (f"the cat of {user} is {number}", "so")),
            now=T0,
        )


# ------------------------------------------------------------ filling


async def test_every_version_of_every_scope_gets_the_vectors_it_would_be_born_with(both: Both) -> None:
    await told(both)
    await told(both, user="eve")
    one, items = chunk(both.stores.scope("bob"), [("t", "Ein langer Satz über Boote.", "a"), ("t", "はい", "b")])
    await both.stores.imports.commit_import(one, items, subject_id=SUBJECT, lane="live-0", fence=1, now=T0)
    assert both.lacking(both.second) == 22
    said: list[Filled] = []
    assert await both.store("x").stand_by(both.second)
    assert await both.work(say=said.append).fill() == "filled"
    assert both.lacking(both.second) == 0
    assert await both.store("x").left(both.second) == 0
    assert (said[-1].memories, said[-1].embedded, said[-1].left) == (22, 22, 0)
    found = both.postgres.psql(
        f"SELECT v.content, v.occurred_at, e.embedding FROM {both.second.table} e JOIN memory_versions v "
        "USING (memory_id, version) WHERE v.content LIKE 'Ein%'"
    )
    stored = np.fromstring(found.rsplit("|", 1)[1].strip("[]"), sep=",")
    (wanted,) = await both.embedder.embed_documents([dated("Ein langer Satz über Boote.", T0)])
    assert np.allclose(stored, wanted, atol=2e-3)


async def test_a_text_beyond_the_limit_of_the_model_is_embedded_to_its_end_and_no_window_is_cut(both: Both) -> None:
    text = " ".join(
        f"Sentence {number} speaks of unpronounceable Llanfairpwllgwyngyll. 猫が好き" for number in range(150)
    )
    await both.stores.write.commit(commit_of(both.stores.scope(), "long", (text, "")), now=T0)
    await both.store("x").stand_by(both.second)
    assert await both.work().fill() == "filled"
    rows = both.postgres.psql(
        f"SELECT span_start, span_end FROM {both.second.table} e JOIN memory_versions v USING (memory_id, version) "
        "WHERE v.content <> '' ORDER BY window_no"
    )
    spans = [tuple(map(int, line.split("|"))) for line in rows.splitlines()]
    assert spans[0][0] == 0
    assert spans[-1][1] == len(text)
    assert len(spans) >= 100
    assert all(after[0] <= before[1] for before, after in itertools.pairwise(spans))
    encoder = both.embedder._encoder
    for start, end in spans:
        whole = encoder._tokenizer.encode(dated(text[start:end], T0 + timedelta(days=280))).ids
        assert len(whole) <= 64
        assert encoder.document(dated(text[start:end], T0)) == encoder._tokenizer.encode(dated(text[start:end], T0)).ids


async def test_the_past_of_a_memory_is_filled_too(both: Both) -> None:
    """`as_of` shows versions of before, and those that are hidden."""
    await told(both, 2)
    scope = both.stores.scope()
    first = (await both.stores.records.memories(scope, limit=9)).rows
    await both.stores.records.patch_memory(
        scope, first[0].memory_id, 1, MemoryChange(content="new", windows=((0, 3),), vectors=vectors(1)), T0
    )
    await both.stores.records.patch_memory(scope, first[1].memory_id, 1, MemoryChange(pinned=True), T0)
    await both.stores.records.delete_memory(scope, first[2].memory_id, T0)
    await both.store("x").stand_by(both.second)
    assert await both.work().fill() == "filled"
    assert both.lacking(both.second) == 0
    assert both.postgres.psql(f"SELECT count(*) FROM {both.second.table}") == "6"


async def test_a_batch_is_bounded_and_one_longer_text_goes_alone(both: Both, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reembed_store, "CHARS_AT_ONCE", 30)
    monkeypatch.setattr(reembed_store, "VERSIONS_AT_ONCE", 3)
    await told(both, 8)
    await both.stores.write.commit(commit_of(both.stores.scope(), "long", ("word " * 400, "so")), now=T0)
    scope_id = await both.stores.scopes.ensure(both.stores.scope())
    taken = await both.store("x").take(both.second, both.stores.tenant, scope_id)
    assert 1 <= len(taken.lacking) <= 3
    assert taken.upto is None
    await both.store("x").stand_by(both.second)
    assert await both.work().fill() == "filled"
    assert both.lacking(both.second) == 0


async def test_what_is_stored_without_a_new_scope_version_is_filled_too(both: Both) -> None:
    """As an episode is: the cursor may have gone past its place before it was there."""
    await told(both, 3)
    await both.store("x").stand_by(both.second)
    assert await both.work().fill() == "filled"
    for number, days in ((1, 0), (2, 30)):
        both.postgres.psql(PAST_THE_CURSOR.format(number=number, days=days, table=both.first.table))
    assert both.lacking(both.second) == 2
    assert await both.work().switch() is not None
    assert both.lacking(both.second) == 0


# ------------------------------------------------------------ pausing, being killed, being two


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
async def test_killed_between_any_two_steps_the_next_fill_and_switch_go_on(
    both: Both, monkeypatch: pytest.MonkeyPatch, after: bool
) -> None:
    monkeypatch.setattr(reembed_store, "MEMORIES_AT_ONCE", 4)
    await told(both, 5)
    await both.store("x").stand_by(both.second)
    died, filled = 0, False
    for dies_at in range(1, 60):
        dying = Deaf(both.stores.database, f"dying {dies_at}", dies_at, after=after)
        try:
            work = both.work(dying)
            if not filled:
                filled = await work.fill() == "filled"
            if await work.switch() is not None:
                break
        except Killed:
            died += 1
        assert both.lacking(both.first) == 0, "the served model never lacks anything"
        if (await both.served()).table == both.second.table:
            assert both.lacking(both.second) == 0
            break
        both.forget_the_lease()
        await both.stores.write.commit(commit_of(both.stores.scope(), f"after {dies_at}"), now=T0)
    assert died > 10
    assert (await both.served()).table == both.second.table
    assert both.lacking(both.second) == 0


async def test_a_pause_is_heard_and_the_next_run_goes_on_where_it_stood(
    both: Both, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reembed_store, "MEMORIES_AT_ONCE", 2)
    await told(both, 6)
    store = both.store("filler")
    await store.stand_by(both.second)
    stop = asyncio.Event()
    assert await both.work(stop=stop, say=lambda _: stop.set()).fill() == "paused"
    assert await store.left(both.second) == 10
    await store.pause(True)
    assert await both.work().fill() == "paused"
    assert await store.left(both.second) == 10
    assert await store.stand_by(both.second)
    said: list[Filled] = []
    assert await both.work(say=said.append).fill() == "filled"
    assert said[-1].embedded == 10


async def test_of_two_one_fills_and_the_other_stores_nothing(both: Both) -> None:
    await told(both, 2)
    first, second = both.store("first"), both.store("second")
    await first.stand_by(both.second)
    fence = await first.lead(60)
    assert fence is not None
    assert await both.work(second).fill() is None
    assert await both.work(second).switch() is None
    scope_id = await both.stores.scopes.ensure(both.stores.scope())
    taken = await first.take(both.second, both.stores.tenant, scope_id)
    both.forget_the_lease()
    assert await second.lead(60) == fence + 1
    made = [
        Vectors(one.memory_id, one.version, ((0, 1),), np.eye(SMALL, dtype=np.float32)[:1]) for one in taken.lacking
    ]
    for refused in (
        first.put(both.second, both.stores.tenant, scope_id, taken, made, fence),
        first.hold(5, fence),
        first.switch(both.second, fence),
    ):
        with pytest.raises(LeaseLost):
            await refused
    assert both.lacking(both.second) == 4


# ------------------------------------------------------------ writers beside it


async def test_vectors_are_written_for_the_served_model_alone(both: Both) -> None:
    """A worker that has not followed a switch stores nothing and comes again, so nothing is of two models."""
    await told(both, 1)
    await both.store("x").stand_by(both.second)
    scope = both.stores.scope()
    with pytest.raises(StoreUnavailable):
        await both.writer(both.second).commit(commit_of(scope, "early", dim=SMALL), now=T0)
    assert await both.work().fill() == "filled"
    assert await both.work().switch() is not None
    late = commit_of(scope, "late")
    with pytest.raises(StoreUnavailable):
        await both.writer(both.first).commit(late, now=T0)
    assert both.postgres.psql("SELECT count(*) FROM sessions WHERE label = 'late'") == "0"
    again = replace(commit_of(scope, "late", dim=SMALL), exchange=late.exchange)
    assert (await both.writer(both.second).commit(again, now=T0)).new_turns == 2


async def test_what_is_written_during_fill_switch_and_back_is_in_the_table_that_is_served(both: Both) -> None:
    """Writers follow the row as workers do: embed with what they know, and come again when they are refused."""
    await told(both, 20)
    await both.store("x").stand_by(both.second)
    done = asyncio.Event()
    written = 0

    async def write(name: str) -> None:
        nonlocal written
        number = 0
        while not done.is_set():
            model = await both.served()
            await asyncio.sleep(0.002)  # the embedding: the model may change meanwhile
            with contextlib.suppress(StoreUnavailable):
                texts = (f"{name} {number}", "so")
                scope = both.stores.scope(name)
                await both.writer(model).commit(commit_of(scope, f"w{number}", texts, dim=model.dim), now=T0)
                number, written = number + 1, written + 1

    writers = [asyncio.create_task(write(f"user{n}")) for n in range(3)]
    try:
        for model in (both.second, both.first, both.second):
            assert await both.work(model=model).switch() is not None
            assert (await both.served()).table == model.table
            before = written
            while written < before + 6:  # all writers have followed
                await asyncio.sleep(0.01)
    finally:
        done.set()
        await asyncio.gather(*writers)
    assert written >= 18
    assert both.lacking(both.second) == 0
    assert int(both.postgres.psql("SELECT count(*) FROM memories")) == 2 * written + 40


async def test_a_switch_is_refused_while_writers_are_not_held(both: Both) -> None:
    await told(both, 1)
    store = both.store("x")
    await store.stand_by(both.second)
    fence = await store.lead(60)
    assert fence is not None
    assert await store.switch(both.second, fence) is None
    await store.hold(5, fence)
    with pytest.raises(StoreUnavailable):
        await both.stores.write.commit(commit_of(both.stores.scope(), "held"), now=T0)
    await store.hold(-1, fence)
    await both.stores.write.commit(commit_of(both.stores.scope(), "held"), now=T0)
    assert (await both.served()).table == both.first.table


@pytest.mark.parametrize("unheard", ["switch", "resign"])
async def test_a_switch_whose_end_is_not_heard_is_one(
    both: Both, unheard: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await told(both, 1)
    store = both.store("x")
    await store.stand_by(both.second)
    act = getattr(store, unheard)

    async def lost(*given: Any) -> None:
        await act(*given)
        raise StoreUnavailable("the answer was lost")

    monkeypatch.setattr(store, unheard, lost)
    assert await both.work(store).switch() is not None, "told otherwise, who comes again switches back"
    assert (await both.served()).table == both.second.table


async def test_switching_back_brings_what_was_written_since(both: Both) -> None:
    await told(both, 2)
    await both.store("x").stand_by(both.second)
    await both.work().switch()
    await both.writer(both.second).commit(commit_of(both.stores.scope(), "since", dim=SMALL), now=T0)
    assert both.lacking(both.first) == 2
    assert await both.work(model=both.first).switch() is not None
    assert both.lacking(both.first) == 0
    serving = await ServingStore(both.stores.database).serving()
    assert serving is not None
    assert serving.standby is not None
    assert (serving.model.table, serving.standby.table) == (both.first.table, both.second.table)


async def test_a_switch_and_a_way_back_that_are_asked_for_again_are_done_once(
    both: Both, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Killed behind its commit, or cut off from its answer, the command says nothing: who asks again switched back."""
    monkeypatch.setattr(reembed_command, "step_back", lambda: None)
    given = {"database.url": both.postgres.app, "database.owner_url": both.postgres.owner, "data.dir": str(tmp_path)}
    settings = load_settings(None, given, {})

    async def again(mode: str) -> tuple[int, str]:
        code = await reembed_command.reembedded(settings, reembed_command.Asked(mode, None, None, 0.0, False))
        return code, capsys.readouterr().err

    await told(both, 1)
    await both.store("x").stand_by(both.second)
    await both.work().switch()
    assert await again("switch") == (0, f"small is served already; --back serves {MODEL} again\n")
    assert (await both.served()).table == both.second.table
    assert await both.store("x").stand_by(both.first), "what is filled again is switched back to all the same"
    assert (await again("switch"))[0] == 0 and (await both.served()).table == both.second.table
    await both.work(model=both.first).switch()
    assert await again("back") == (0, f"{MODEL} is served already; --switch serves small again\n")
    assert (await both.served()).table == both.first.table


async def test_a_switch_waits_for_who_was_paused_and_for_who_was_killed(
    both: Both, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The pause is heard behind a batch and its rest; a switch that is asked for at once took it back before."""
    monkeypatch.setattr(reembed_command, "step_back", lambda: None)
    given = {"database.url": both.postgres.app, "database.owner_url": both.postgres.owner, "data.dir": str(tmp_path)}
    asked = reembed_command.Asked("switch", None, None, 0.0, False)
    await told(both, 1)
    filler = both.store("filler")
    await filler.stand_by(both.second)
    assert await filler.lead(60) is not None
    await filler.pause(True)
    switching = asyncio.create_task(reembed_command.reembedded(load_settings(None, given, {}), asked))
    await until(lambda: "waiting" in capsys.readouterr().err or switching.done())
    assert await filler.paused()
    assert await filler.lead(1.0) is not None  # and is killed
    assert await switching == 0
    assert (await both.served()).table == both.second.table


async def test_what_was_never_served_is_none_to_switch_back_to(both: Both) -> None:
    await told(both, 1)
    store, serving = both.store("x"), ServingStore(both.stores.database)
    await store.stand_by(both.second)
    await both.work().switch()
    assert await store.stand_by(both.first)
    former = await serving.serving()
    assert former is not None and former.switched_at is not None
    await drop_standby_model(both.postgres.owner)
    await ensure_embedding_table(both.postgres.owner, "third", "3" * 64, 8)
    third = next(one for one in await serving.models() if one.name == "third")
    assert await store.stand_by(third)
    new = await serving.serving()
    assert new is not None and new.standby == third and new.switched_at is None


# ------------------------------------------------------------ what goes, and who sees it


async def test_what_is_erased_is_erased_in_both_and_during_the_embedding_too(both: Both) -> None:
    await told(both, 2)
    store = both.store("filler")
    await store.stand_by(both.second)
    fence = await store.lead(60)
    scope_id = await both.stores.scopes.ensure(both.stores.scope())
    taken: Taken = await store.take(both.second, both.stores.tenant, scope_id)
    gone = taken.lacking[0].memory_id
    made = [
        Vectors(one.memory_id, one.version, ((0, 1),), np.eye(SMALL, dtype=np.float32)[:1]) for one in taken.lacking
    ]
    both.postgres.psql(f"DELETE FROM memories WHERE memory_id = '{gone}'")
    assert fence is not None
    await store.put(both.second, both.stores.tenant, scope_id, taken, made, fence)
    await store.resign()
    assert both.lacking(both.second) == 0
    assert both.postgres.psql(f"SELECT count(*) FROM {both.second.table}") == "3"
    both.postgres.psql(f"DELETE FROM memories WHERE memory_id = '{taken.lacking[1].memory_id}'")
    for model in (both.first, both.second):
        assert both.postgres.psql(f"SELECT count(*) FROM {model.table}") == "2"


async def test_what_a_sweep_cuts_while_it_is_embedded_gets_the_vectors_of_what_is_left(both: Both) -> None:
    """Else what is searched by, from the switch on, is made of the words that were cut."""
    await told(both, 1)
    store, sweeping = both.store("filler"), RedactStore(both.stores.database, both.first.table)
    await store.stand_by(both.second)
    fence = await store.lead(60)
    assert fence is not None
    scope_id = await both.stores.scopes.ensure(both.stores.scope())
    taken = await store.take(both.second, both.stores.tenant, scope_id)
    cut, kept = taken.lacking
    await _cut(sweeping, cut.memory_id)
    vectors_of = (
        Vectors(one.memory_id, one.version, ((0, 1),), np.eye(SMALL, dtype=np.float32)[:1]) for one in taken.lacking
    )
    await store.put(both.second, both.stores.tenant, scope_id, taken, list(vectors_of), fence)
    assert both.postgres.psql(f"SELECT memory_id FROM {both.second.table}") == str(kept.memory_id)
    await store.resign()
    assert await both.work().fill() == "filled"
    assert both.lacking(both.second) == 0


async def test_a_sweep_that_began_before_a_model_stood_by_leaves_none_of_its_former_vectors(both: Both) -> None:
    await told(both, 1)
    sweeping = RedactStore(both.stores.database, both.first.table)
    cut = UUID(both.postgres.psql("SELECT memory_id FROM memories LIMIT 1"))
    await both.store("filler").stand_by(both.second)
    assert await both.work().fill() == "filled"
    before = both.postgres.psql(f"SELECT embedding FROM {both.second.table} WHERE memory_id = '{cut}'")
    await _cut(sweeping, cut)
    assert both.lacking(both.second) == 1
    assert await both.work().fill() == "filled"
    assert both.lacking(both.second) == 0
    assert both.postgres.psql(f"SELECT embedding FROM {both.second.table} WHERE memory_id = '{cut}'") != before


async def _cut(sweeping: RedactStore, memory_id: UUID) -> None:
    """As a sweep leaves a memory that held a secret."""
    scope = await anext(sweeping.scopes())
    version = CleanVersion(1, "[redacted]", {}, T0, True, ((0, 10),), vectors(1))
    await sweeping.put_memories(scope, [CleanMemory(memory_id, (version,), None, None)], [], "2.keep", (), T0)


async def test_another_scope_sees_nothing_of_the_second_table(both: Both) -> None:
    await told(both, 1)
    await told(both, 1, user="eve")
    await both.store("x").stand_by(both.second)
    await both.work().fill()
    own, other = [await both.stores.scopes.ensure(both.stores.scope(name)) for name in ("ada", "eve")]

    def seen(tenant: UUID, *scope_ids: int) -> tuple[str, str]:
        scopes = ",".join(map(str, scope_ids))
        become = f"SET ROLE mp_app; SET mp.tenant = '{tenant}'; SET mp.scopes = '{{{scopes}}}'; "
        last = [
            both.postgres.psql(f"{become}SELECT count(*) FROM {table}").splitlines()[-1]
            for table in (both.second.table, "reembed_progress")
        ]
        return last[0], last[1]

    assert seen(both.stores.tenant, own, other) == ("4", "2")
    assert seen(both.stores.tenant, own) == ("2", "2")
    assert seen(UUID(int=9), own, other) == ("0", "0")


async def test_a_dropped_model_leaves_nothing_and_may_come_again(both: Both, files: ModelFiles) -> None:
    await told(both, 2)
    await both.store("x").stand_by(both.second)
    await both.work().fill()
    assert await drop_standby_model(both.postgres.owner) == both.second.table
    assert await drop_standby_model(both.postgres.owner) is None
    assert both.postgres.psql(f"SELECT to_regclass('{both.second.table}') IS NULL") == "t"
    assert both.postgres.psql("SELECT count(*) FROM reembed_progress") == "0"
    assert await check(both.postgres.owner) == []
    await ensure_embedding_table(both.postgres.owner, "small", files.digest, SMALL)
    again = next(one for one in await ServingStore(both.stores.database).models() if one.name == "small")
    await both.store("x").stand_by(again)
    assert await both.work(model=again).fill() == "filled"
    assert both.lacking(again) == 0


async def test_a_third_model_and_the_served_one_cannot_stand_by(both: Both) -> None:
    await ensure_embedding_table(both.postgres.owner, "third", "3" * 64, 8)
    third = next(one for one in await ServingStore(both.stores.database).models() if one.name == "third")
    store = both.store("x")
    assert not await store.stand_by(both.first)
    assert await store.stand_by(both.second)
    assert not await store.stand_by(third)
    assert await store.stand_by(both.second)


# ------------------------------------------------------------ reading


async def test_a_memory_without_vectors_of_the_served_model_is_found_by_its_words(both: Both) -> None:
    """What a process sees that has not followed a switch yet: before, its index refused the whole scope."""
    await told(both, 3)
    read = ReadStore(both.stores.database, both.stores.scopes, both.second.table, dim=SMALL)
    hot = HotScopes(read, dim=SMALL, bytes_max=1 << 30, staleness_ms=1000, metrics=Metrics())
    try:
        held = await hot.get(both.stores.scope(), None)
        assert len(held.index) == 6
    finally:
        hot.close()
