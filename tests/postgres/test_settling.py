"""What a start does with the configured model: an empty store takes it, a filled one keeps its own, loudly."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from memory.adapters.model_files import prepare_model
from memory.adapters.model_registry import spec_from_directory
from memory.adapters.postgres.migrate import ensure_embedding_table
from memory.adapters.postgres.serving_store import ServingStore
from memory.adapters.postgres.write_store import WriteStore
from memory.config import Settings
from memory.errors import ModelFileInvalid
from memory.serving import StoredModel
from memory.settling import settle
from tests.postgres.seed import T0, Stores, stores
from tests.postgres.test_reembed import commit_of
from tests.postgres_fixture import TestDatabase
from tests.small_model_fixture import write_small_model


@pytest.fixture
async def store(postgres: TestDatabase) -> AsyncIterator[Stores]:
    async with stores(postgres) as made:
        yield made


def configured(postgres: TestDatabase, name: str, directory: Path, **more: Any) -> Settings:
    embedding = {"model": name, "directory": str(directory), "cache_dir": str(directory), **more}
    return Settings.model_validate({"database": {"url": postgres.app}, "embedding": embedding})


async def served(store: Stores) -> StoredModel:
    found = await ServingStore(store.database).serving()
    assert found is not None
    return found.model


async def fill(store: Stores, model: StoredModel) -> None:
    one = commit_of(store.scope(), "s", dim=model.dim)
    await WriteStore(store.database, store.scopes, model.table).commit(one, now=T0)
    assert np.isfinite(one.memories[0].vectors).all()


async def test_an_empty_store_takes_what_is_configured_as_often_as_it_changes(
    postgres: TestDatabase, store: Stores, tmp_path: Path
) -> None:
    for name, dim in (("one", 32), ("two", 16), ("one", 32)):
        directory = write_small_model(tmp_path / name, dim=dim)
        await settle(configured(postgres, name, directory), postgres.owner)
        assert (await served(store)).name == name
        assert (await served(store)).directory == directory


async def test_a_filled_store_keeps_its_model_and_finds_it_where_it_was(
    postgres: TestDatabase, store: Stores, tmp_path: Path
) -> None:
    one, two = write_small_model(tmp_path / "one"), write_small_model(tmp_path / "two", dim=16)
    await settle(configured(postgres, "one", one), postgres.owner)
    model = await served(store)
    await fill(store, model)
    for name, directory in (("two", two), ("one", two), ("one", tmp_path / "nowhere")):
        await settle(configured(postgres, name, directory), postgres.owner)
        assert await served(store) == model


async def test_a_store_of_before_is_searched_with_the_model_whose_vectors_it_holds(
    postgres: TestDatabase, store: Stores, tmp_path: Path
) -> None:
    directory = write_small_model(tmp_path / "one")
    files = prepare_model(spec_from_directory("one", directory), tmp_path, print)
    await ensure_embedding_table(postgres.owner, "one", files.digest, 32, directory)
    held = next(model for model in await ServingStore(store.database).models() if model.name == "one")
    await fill(store, held)
    await settle(configured(postgres, "two", write_small_model(tmp_path / "two", dim=16)), postgres.owner)
    assert await served(store) == held


async def test_a_model_that_is_gone_stops_the_start_unless_words_will_do(
    postgres: TestDatabase, store: Stores, tmp_path: Path
) -> None:
    one, two = write_small_model(tmp_path / "one"), write_small_model(tmp_path / "two", dim=16)
    await settle(configured(postgres, "one", one), postgres.owner)
    former = await served(store)
    await fill(store, former)
    write_small_model(tmp_path / "one", seed=2)  # the same name and dimension, other vectors
    for name, directory in (("one", one), ("two", two)):
        with pytest.raises(ModelFileInvalid, match="on_lost_model to words"):
            await settle(configured(postgres, name, directory), postgres.owner)
    assert await served(store) == former
    await settle(configured(postgres, "two", two, on_lost_model="words"), postgres.owner)
    found = await ServingStore(store.database).serving()
    assert found is not None
    assert (found.model.name, found.standby) == ("two", former)
    # Its files are back: what it holds is worth more than a table that is empty.
    write_small_model(tmp_path / "one")
    await settle(configured(postgres, "one", one), postgres.owner)
    assert await served(store) == former
