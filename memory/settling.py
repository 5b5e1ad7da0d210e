"""Which model a store is searched with, decided at a start: settings and the store in, the served model out.

`embedding.model` is what a new store begins with. One that holds vectors keeps the model that made them, whatever the
configuration says by now (it says so in the log); `memory-proxy reembed` changes it. Refused with ModelFileInvalid: a
store whose model cannot be loaded any more, unless `embedding.on_lost_model` says `words`.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from memory.adapters.model_files import ModelFiles
from memory.adapters.postgres.database import Bounds, Database
from memory.adapters.postgres.migrate import embedding_table_name, ensure_embedding_table, serve_model
from memory.adapters.postgres.serving_store import ServingStore
from memory.adapters.served_model import configured_files, stored_files
from memory.config import Settings
from memory.errors import ConfigInvalid, ModelFileInvalid, StartFailed, StoreUnavailable
from memory.seldom import Lasting
from memory.serving import Serving, StoredModel
from memory.telemetry import event

log = logging.getLogger("memory_proxy.serving")
ASK_AGAIN_S: Final = 0.5
_FEW: Final = Bounds(connections_max=1, acquire_timeout_s=10.0, statement_timeout_ms=60_000)


async def settle(settings: Settings, owner_url: str) -> None:
    """Make the row that all follow agree with what the store holds. Raises StoreUnavailable, ModelFileInvalid."""
    if settings.database.url is None:
        raise ConfigInvalid("database.url is not resolved")
    database = await Database.open(settings.database.url.get_secret_value(), _FEW)
    try:
        await _settle(settings, owner_url, ServingStore(database))
    finally:
        await database.close()


async def _settle(settings: Settings, owner_url: str, store: ServingStore) -> None:
    serving = await store.serving()
    files: ModelFiles | None = None
    missing: ModelFileInvalid | None = None
    try:
        files = await asyncio.to_thread(configured_files, settings, _say)
    except ModelFileInvalid as fault:
        missing = fault
    held = await _held(store, serving, files)
    if held is not None and not _same(held, files):
        try:
            await asyncio.to_thread(stored_files, settings, held, _say)
        except ModelFileInvalid as fault:
            if settings.embedding.on_lost_model == "refuse" or files is None:
                raise ModelFileInvalid(
                    f"{fault}. Or set embedding.on_lost_model to words: then memories are found by their words alone "
                    f"until `memory-proxy reembed --to {settings.embedding.model}` has embedded them again"
                ) from fault
            event(log, "model_lost", logging.ERROR, model=held.name, now=files.spec.name, recall="by words alone")
        else:
            event(
                log,
                "model_kept",
                logging.WARNING,
                model=held.name,
                configured=settings.embedding.model,
                remedy=f"memory-proxy reembed --to {settings.embedding.model}",
            )
            if serving is None:
                await serve_model(owner_url, held.model_id, None, known=0)
            return
    if files is None:
        raise missing or StartFailed("no embedding model")
    spec = files.spec
    table = await ensure_embedding_table(owner_url, spec.name, files.digest, spec.dim, spec.directory)
    if serving is None or serving.model.table != table:
        model = next(one for one in await store.models() if one.table == table)
        beside = held if held is not None and held.table != table else None
        known = serving.generation if serving else 0
        await serve_model(owner_url, model.model_id, beside.model_id if beside else None, known=known)


async def until_settled(store: ServingStore, over: asyncio.Event) -> Serving | None:
    """What is served, waited for; None when it is over before."""
    lasting = Lasting()
    while not over.is_set():
        try:
            serving = await store.serving()
            if serving is not None:
                return serving
        except StoreUnavailable as fault:
            level = logging.WARNING if lasting.due(str(fault)) else logging.DEBUG
            event(log, "not_there_yet", level, fault=str(fault))
        await asyncio.sleep(ASK_AGAIN_S)
    return None


async def _held(store: ServingStore, serving: Serving | None, files: ModelFiles | None) -> StoredModel | None:
    """The model whose vectors the store holds; of a store without the row, the configured one before others."""
    models = [serving.model] if serving else sorted(await store.models(), key=lambda one: not _same(one, files))
    for model in models:
        if await store.has_vectors(model):
            return model
    return None


def _same(model: StoredModel, files: ModelFiles | None) -> bool:
    return files is not None and model.table == embedding_table_name(files.spec.name, files.digest)


def _say(step: str) -> None:
    event(log, "model", step=step)
