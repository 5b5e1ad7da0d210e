"""From a ModelSpec to files that may be loaded: (ModelSpec, cache directory) -> ModelFiles.

Every source file is checked against its sha256. What a recipe makes of them is kept under
`<cache>/<digest of sources and recipe>/` beside a manifest with the sha256 of each output; those are checked again
before every load (23 MB: 20 ms with SHA instructions, 90 ms without). A directory appears there complete or not at all
(built beside it, fsynced, renamed), one builder at a time (file lock), so processes may start together, and be killed.

Refused with ModelFileInvalid, naming file, expectation, finding and remedy: missing and altered sources, a cache that
cannot be written. An altered or half-deleted cache entry is built anew. Nothing is downloaded.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from memory.adapters.model_registry import ModelFile, ModelSpec, Role
from memory.errors import ModelFileInvalid
from memory.home import home_dir
from memory.on_disk import synced

Progress = Callable[[str], None]
"""Told what is being done, one line for people at a time."""

MANIFEST = "manifest.json"
# Raised whenever memory/adapters/quantise.py makes another graph of the same source; its VERSION must say the same.
RECIPE_VERSIONS = {"as-is": "as-is/1", "row-int8": "row-int8/2"}
# A minute is a hundred times what MiniLM takes (0.6 s).
_RECIPE_TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """Verified files of one model. `digest` names every vector it makes: sources, recipe, pooling, prefixes, length."""

    spec: ModelSpec
    model: Path
    tokenizer: Path
    digest: str


def default_cache_dir(environ: Mapping[str, str]) -> Path:
    """`$XDG_CACHE_HOME/memory-proxy/models`, or the same below `~/.cache`: of $HOME, else of the account."""
    root = environ.get("XDG_CACHE_HOME") or os.path.join(environ.get("HOME") or home_dir(), ".cache")
    return Path(root) / "memory-proxy" / "models"


def prepare_model(spec: ModelSpec, cache_dir: Path, progress: Progress) -> ModelFiles:
    """The model's files, verified; built and cached first where the recipe asks for it. Blocks: 0.1 s, 1 s when new.

    Raises ModelFileInvalid.
    """
    if spec.recipe == "as-is":
        digest = _digest(spec, {file: _verified(spec, file) for file in spec.files})
        return ModelFiles(spec, locate(spec, spec.file("model")), locate(spec, spec.file("tokenizer")), digest)
    digest = _digest(spec, {file: file.sha256 or _verified(spec, file) for file in spec.files})
    target = cache_dir / digest
    if not _intact(target, digest):
        _build(spec, target, digest, progress)
    return ModelFiles(spec, target / "model.onnx", target / "tokenizer.json", digest)


def locate(spec: ModelSpec, file: ModelFile) -> Path:
    """Where a source file lies. Looks packages up without importing them: theirs import torch and friends."""
    if file.package is None:
        if spec.directory is None:
            raise ModelFileInvalid(f"{file.path}: {spec.name} is loaded from a directory; set embedding.directory")
        return spec.directory / file.path
    return package_file(file.package, file.path)


def package_file(package: str, path: str) -> Path:
    """Where a file of an installed package lies, without importing it. Raises ModelFileInvalid."""
    found = importlib.util.find_spec(package)
    if found is None or not found.submodule_search_locations:
        raise ModelFileInvalid(
            f"{package}/{path}: expected the installed package {package.replace('_', '-')}, found none; "
            "install requirements-nodeps.lock with --no-deps"
        )
    return Path(found.submodule_search_locations[0]) / path


def sha256_file(path: Path) -> str:
    """Hex sha256 of a file. Raises ModelFileInvalid when it cannot be read."""
    try:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as exc:
        reason = exc.strerror or type(exc).__name__
        raise ModelFileInvalid(f"{path}: expected a readable file, found: {reason}; restore it") from exc


def _verified(spec: ModelSpec, file: ModelFile) -> str:
    """The sha256 of a source file as it lies there. Raises ModelFileInvalid when the spec pins another."""
    path = locate(spec, file)
    found = sha256_file(path)
    if file.sha256 is not None and found != file.sha256:
        remedy = f"reinstall the package {file.package}" if file.package else "fetch the file again"
        raise ModelFileInvalid(f"{path}: expected sha256 {file.sha256}, found {found}; {remedy}")
    return found


def _digest(spec: ModelSpec, digests: Mapping[ModelFile, str]) -> str:
    parts = {
        "recipe": RECIPE_VERSIONS[spec.recipe],
        "files": [[file.role, digests[file]] for file in spec.files],
        "dim": spec.dim,
        "pooling": spec.pooling,
        "normalise": spec.normalise,
        "prefixes": [spec.query_prefix, spec.document_prefix],
        "max_tokens": spec.max_tokens,
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _intact(target: Path, digest: str) -> bool:
    """Whether a cache entry is whole: its manifest is for this digest and every file in it has the sha256 it says."""
    try:
        manifest = json.loads((target / MANIFEST).read_text("utf-8"))
        outputs = dict(manifest["outputs"])
        return bool(
            manifest["digest"] == digest
            and {"model.onnx", "tokenizer.json"} <= outputs.keys()
            and all(sha256_file(target / name) == expected for name, expected in outputs.items())
        )
    except (OSError, ValueError, KeyError, TypeError, ModelFileInvalid):
        return False


def _build(spec: ModelSpec, target: Path, digest: str, progress: Progress) -> None:
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with _locked(target.with_suffix(".lock")):
            if _intact(target, digest):
                return
            _sweep(target)
            for file in spec.files:
                progress(f"checking {file.path} of {spec.name}")
                _verified(spec, file)
            progress(f"preparing {spec.name}")
            fresh = Path(tempfile.mkdtemp(prefix=f"{digest}.new-", dir=target.parent))
            _fill(fresh, spec, digest)
            fresh.rename(target)
            synced(target.parent)
            progress(f"prepared {spec.name} in {target}")
    except OSError as exc:
        raise ModelFileInvalid(
            f"{target}: expected a writable cache, found: {exc}; make room there or set embedding.cache_dir"
        ) from exc


def _fill(fresh: Path, spec: ModelSpec, digest: str) -> None:
    """Write the outputs and, last, the manifest; everything on disk before the rename makes it visible."""
    sources: dict[Role, Path] = {file.role: locate(spec, file) for file in spec.files}
    _run_recipe(sources["model"], fresh / "model.onnx")
    shutil.copyfile(sources["tokenizer"], fresh / "tokenizer.json")
    outputs = {name: sha256_file(fresh / name) for name in ("model.onnx", "tokenizer.json")}
    manifest = {
        "digest": digest,
        "model": spec.name,
        "licence": spec.licence,
        "recipe": RECIPE_VERSIONS[spec.recipe],
        "sources": [[file.package, file.path, file.sha256] for file in spec.files],
        "outputs": outputs,
    }
    (fresh / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n", "utf-8")
    fresh.chmod(0o755)
    for path in (*(fresh / name for name in outputs), fresh / MANIFEST, fresh):
        synced(path)


def _run_recipe(source: Path, target: Path) -> None:
    """Quantise in a process of its own: what it imports (32 MiB, 0.5 s) stays out of this one."""
    # -P: a package called `memory` where the service is started must not take the place of ours.
    command = [sys.executable, "-P", "-m", "memory.adapters.quantise", str(source), str(target)]
    try:
        subprocess.run(command, check=True, capture_output=True, timeout=_RECIPE_TIMEOUT_S)
    except subprocess.TimeoutExpired as exc:
        raise ModelFileInvalid(f"{source}: quantising took over {_RECIPE_TIMEOUT_S:.0f} s; try again") from exc
    except subprocess.CalledProcessError as exc:
        last = exc.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
        raise ModelFileInvalid(f"{source}: cannot be quantised ({last}); use recipe as-is") from exc


def _sweep(target: Path) -> None:
    """Remove what an earlier builder left of this entry: a broken one, or its unfinished copies. Under the lock."""
    for leftover in target.parent.glob(f"{target.name}.new-*"):
        shutil.rmtree(leftover)
    if target.exists():
        shutil.rmtree(target)


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield
