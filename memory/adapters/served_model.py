"""From the model that a store is searched with to files that may be loaded: (settings, StoredModel) -> ModelFiles.

Refused with ModelFileInvalid, with the remedy: files that make other vectors than those that are stored.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable
from pathlib import Path

from memory.adapters.model_files import ModelFiles, default_cache_dir, prepare_model
from memory.adapters.model_registry import ModelSpec, choose_model, read_registry
from memory.config import Settings
from memory.errors import ModelFileInvalid
from memory.seldom import Seldom
from memory.serving import StoredModel
from memory.telemetry import event

log = logging.getLogger("memory_proxy.serving")
Said = Callable[[str], None]


def configured_spec(settings: Settings) -> ModelSpec:
    """The model of `embedding.model`. Raises ModelFileInvalid."""
    embedding = settings.embedding
    return choose_model(read_registry(), embedding.model, directory=embedding.directory, dim=embedding.dim)


def configured_files(settings: Settings, said: Said) -> ModelFiles:
    """Its files, verified. Blocking. Raises ModelFileInvalid."""
    return prepare_model(configured_spec(settings), cache_dir(settings), said)


def named_files(settings: Settings, name: str, directory: Path | None, said: Said) -> ModelFiles:
    """The files of a model that a command line names. Blocking. Raises ModelFileInvalid."""
    return prepare_model(choose_model(read_registry(), name, directory=directory), cache_dir(settings), said)


def stored_files(settings: Settings, model: StoredModel, said: Said) -> ModelFiles:
    """The files that make the very vectors that are stored, verified. Blocking. Raises ModelFileInvalid.

    Looked for where the configuration has this name, then where they were when the model's table was made.
    """
    finds: list[Callable[[], ModelFiles]] = [lambda: named_files(settings, model.name, model.directory, said)]
    if model.name == settings.embedding.model:
        finds.insert(0, lambda: configured_files(settings, said))
    reasons: list[str] = []
    for find in finds:
        try:
            files = find()
        except (ModelFileInvalid, OSError) as fault:  # OSError: a directory that this process may not enter
            reasons.append(str(fault))
            continue
        if files.digest == model.digest:
            return files
        reasons.append(f"the files found make other vectors (digest {files.digest[:12]}, not {model.digest[:12]})")
    raise ModelFileInvalid(
        f"the memories here are embedded with {model.name}, which cannot be loaded: "
        f"{'; '.join(dict.fromkeys(reasons))}. "
        "Put its files back (of a packaged model: the former version of its package)"
    )


def can_be_loaded(settings: Settings, model: StoredModel, *, said: Seldom) -> bool:
    """Whether its files are on this machine; said in the log where not, once a minute. Blocking."""
    try:
        stored_files(settings, model, _unsaid)
    except ModelFileInvalid as fault:
        if said.due(str(fault)):
            event(log, "model_not_here", logging.ERROR, model=model.name, fault=str(fault))
        return False
    return True


def files_to_begin_with(settings: Settings, noted: StoredModel | None) -> ModelFiles:
    """Of the model that was served last, as far as it is known here, else of the configured one. Blocking.

    Raises ModelFileInvalid.
    """
    if noted is not None:
        with contextlib.suppress(ModelFileInvalid):
            return stored_files(settings, noted, _unsaid)
    return configured_files(settings, _unsaid)


def cache_dir(settings: Settings) -> Path:
    """Where prepared models lie."""
    return settings.embedding.cache_dir or default_cache_dir(os.environ)


def _unsaid(_step: str) -> None:
    """Nobody watches."""
