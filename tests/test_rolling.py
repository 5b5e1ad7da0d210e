"""Who follows a switch of the embedding model, and how: asked for once, ready before the other goes, never mixed."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from memory.adapters.embedder import OnnxEmbedder
from memory.adapters.model_files import prepare_model
from memory.adapters.model_registry import DEFAULT_MODEL, read_registry, spec_from_directory
from memory.errors import StoreUnavailable
from memory.late import LateEmbedder
from memory.serving import NOTE, Serving, StoredModel, read_note, until_moved, write_note
from memory.write.windows import WINDOW_TOKENS, dated, split_windows
from proxy import rolling
from proxy.rolling import Follower
from tests.small_model_fixture import write_small_model

FIRST = StoredModel(1, "first", "a" * 64, 384, None, "memory_embeddings_first")
SECOND = StoredModel(2, "second", "b" * 64, 32, Path("/models/second"), "memory_embeddings_second")


class Store:
    """A store that is switched while it is followed."""

    def __init__(self) -> None:
        self.found: Serving | None = Serving(1, FIRST, SECOND, False, None)
        self.away = False

    async def serving(self) -> Serving | None:
        if self.away:
            raise StoreUnavailable("away")
        return self.found

    async def generation(self) -> int | None:
        found = await self.serving()
        return found.generation if found else None


@pytest.fixture
def hups() -> Iterator[list[int]]:
    """SIGHUPs that this process, as the supervisor of its own workers, has got."""
    got: list[int] = []
    before = signal.signal(signal.SIGHUP, lambda number, _: got.append(number))
    yield got
    signal.signal(signal.SIGHUP, before)


def follower(store: Store, run: Path, *, here: bool = True) -> Follower:
    return Follower(run, FIRST.table, store.serving, store.generation, os.getpid(), lambda _: here)


async def followed(*followers: Follower, store: Store, seconds: float = 0.3) -> None:
    tasks = [asyncio.create_task(one.follow()) for one in followers]
    await asyncio.sleep(0.1)
    store.found = Serving(2, SECOND, FIRST, False, None)
    await asyncio.sleep(seconds)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


@pytest.fixture(autouse=True)
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rolling, "ASK_EVERY_S", 0.02)
    monkeypatch.setattr(os, "getppid", os.getpid)

    async def soon(ask: Callable[[], Awaitable[int | None]], generation: int) -> None:
        await until_moved(ask, generation, 0.02)

    monkeypatch.setattr(rolling, "until_moved", soon)


async def test_of_all_workers_one_asks_for_the_roll_and_notes_the_model(tmp_path: Path, hups: list[int]) -> None:
    store = Store()
    await followed(*(follower(store, tmp_path) for _ in range(3)), store=store)
    assert len(hups) == 1
    assert read_note(tmp_path) == SECOND


@pytest.mark.parametrize("clocks", [1, -1], ids=["right", "turned back since"])
async def test_a_roll_that_was_not_heard_is_asked_for_again(tmp_path: Path, hups: list[int], clocks: int) -> None:
    store = Store()
    await followed(follower(store, tmp_path), store=store)
    long_ago = time.time() - clocks * (rolling.CLAIM_S + 10)
    os.utime(tmp_path / "rolled-to-2", (long_ago, long_ago))
    await followed(follower(store, tmp_path), store=store)
    assert len(hups) == 2


def test_a_claim_that_a_sibling_takes_away_for_a_later_one_is_not_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It follows a switch that this worker has not heard of yet, in the moment in which this one looks at the claim."""

    def touched(claim: Path, **_: object) -> None:
        claim.unlink()
        raise FileExistsError(claim)

    (tmp_path / "rolled-to-2").touch()
    monkeypatch.setattr(Path, "touch", touched)
    assert not rolling._claimed(tmp_path, 2)


async def test_a_machine_without_the_model_goes_on_with_the_former(tmp_path: Path, hups: list[int]) -> None:
    store = Store()
    await followed(follower(store, tmp_path, here=False), store=store)
    assert hups == []
    assert read_note(tmp_path) is None


async def test_a_model_that_cannot_be_noted_moves_nobody(tmp_path: Path, hups: list[int]) -> None:
    """A successor would begin with the former model, find the other served, and end: a crash loop on a full disk."""
    store = Store()
    (tmp_path / NOTE).mkdir()
    await followed(follower(store, tmp_path), store=store)
    assert hups == []
    assert [path.name for path in tmp_path.iterdir()] == [NOTE], "nor is a draft left"
    (tmp_path / NOTE).rmdir()
    await followed(follower(store, tmp_path), store=store)
    assert len(hups) == 1


async def test_a_store_that_is_away_moves_nobody(tmp_path: Path, hups: list[int]) -> None:
    store = Store()
    task = asyncio.create_task(follower(store, tmp_path).follow())
    await asyncio.sleep(0.1)
    store.away = True
    await asyncio.sleep(0.1)
    assert not task.done()
    assert hups == []
    store.away, store.found = False, Serving(2, SECOND, FIRST, False, None)
    await asyncio.sleep(0.3)
    assert len(hups) == 1
    task.cancel()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"name": 1}', '{"model_id": "x"}', "\x00"])
def test_a_note_that_cannot_be_read_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "embedding-model.json").write_text(text)
    assert read_note(tmp_path) is None
    write_note(tmp_path, FIRST)
    assert read_note(tmp_path) == FIRST


def test_the_packaged_model_keeps_its_windows_and_a_smaller_one_gets_its_own(tmp_path: Path) -> None:
    packaged = prepare_model(read_registry()[DEFAULT_MODEL], tmp_path, print)
    embedder = OnnxEmbedder(packaged)
    late = LateEmbedder(embedder.model, embedder.dim)
    late.arrived(embedder)
    text = "The harbour of Lisbon is wide, and its ferries leave at dawn. " * 60
    assert embedder.window_tokens == late.window_tokens == WINDOW_TOKENS
    assert split_windows(text, late) == split_windows(text, embedder, 200, 40)
    embedder.close()
    directory = write_small_model(tmp_path / "small", max_tokens=24)
    small = OnnxEmbedder(prepare_model(spec_from_directory("small", directory), tmp_path, print))
    assert 4 <= small.window_tokens <= 24
    windows = split_windows(text, small)
    assert windows[-1][1] == len(text)
    for start, end in windows:
        whole = small._encoder._tokenizer.encode(dated(text[start:end], None)).ids
        assert small._encoder.document(text[start:end]) == whole
    small.close()
