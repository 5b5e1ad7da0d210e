"""Which embedding models there are: models.yaml, or a directory of the operator's -> ModelSpec.

A spec says everything that decides a vector: files and their sha256, recipe, pooling, prefixes, length. Nothing is
loaded or downloaded here. Refused with ModelFileInvalid: an unknown name or member, a directory without its two files,
a dimension other than the one configured.
"""

from __future__ import annotations

import importlib.resources
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from memory.errors import ModelFileInvalid

Role = Literal["model", "weights", "tokenizer"]
Recipe = Literal["as-is", "row-int8"]
Pooling = Literal["mean", "cls"]

DEFAULT_MODEL = "all-MiniLM-L6-v2-int8"
_SHA256 = r"^[0-9a-f]{64}$"
# Where exporters put the graph, in the order of preference.
_GRAPH_PATHS = ("model.onnx", "onnx/model.onnx")
# Weights beyond protobuf's 2 GiB lie beside the graph under one of these names; the graph refers to them.
_WEIGHT_SUFFIXES = ("_data", ".data")


@dataclass(frozen=True, slots=True)
class ModelFile:
    """One file of a model: in an installed package, or (package None) in the spec's directory."""

    role: Role
    path: str
    package: str | None
    sha256: str | None
    """None: not pinned (a directory of the operator's); its digest still enters the model's identity."""


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """Everything that decides which vector a text gets. `dim` in elements, `max_tokens` with the special ones."""

    name: str
    dim: int
    licence: str
    files: tuple[ModelFile, ...]
    directory: Path | None
    recipe: Recipe
    pooling: Pooling
    normalise: bool
    query_prefix: str
    document_prefix: str
    max_tokens: int

    def file(self, role: Role) -> ModelFile:
        """The file that plays this role. Raises ModelFileInvalid when the spec has none."""
        for file in self.files:
            if file.role == role:
                return file
        raise ModelFileInvalid(f"{self.name}: no {role} file in the registry entry; add one to it")


def read_registry() -> dict[str, ModelSpec]:
    """The models shipped with the project, by name."""
    text = importlib.resources.files("memory.adapters").joinpath("models.yaml").read_text("utf-8")
    return parse_registry(text, "models.yaml")


def parse_registry(text: str, where: str) -> dict[str, ModelSpec]:
    """The models a registry file describes, by name. Raises ModelFileInvalid with `where` and the faulty member."""
    try:
        entries = _Registry.model_validate(yaml.safe_load(text)).models
    except (yaml.YAMLError, ValidationError) as exc:
        raise ModelFileInvalid(f"{where}: {exc}") from exc
    specs = {entry.name: entry.spec() for entry in entries}
    if len(specs) != len(entries):
        raise ModelFileInvalid(f"{where}: two models of one name; rename one")
    return specs


def choose_model(
    registry: Mapping[str, ModelSpec], name: str, *, directory: Path | None = None, dim: int | None = None
) -> ModelSpec:
    """The spec for a configuration (`embedding.model`, `.directory`, `.dim`).

    A registered name with a directory: the entry's pooling, prefixes and digests, files from the directory.
    Another name with a directory: read from what the directory says of itself (`spec_from_directory`).
    """
    known = registry.get(name)
    if known is None:
        if directory is None:
            names = ", ".join(sorted(registry))
            raise ModelFileInvalid(f"{name}: not a registered model (there are {names}); or set embedding.directory")
        return spec_from_directory(name, directory, dim=dim)
    if dim is not None and dim != known.dim:
        raise ModelFileInvalid(
            f"{name}: embedding.dim is {dim}, the registered model has {known.dim}; remove embedding.dim or choose "
            "another model"
        )
    if known.files[0].package is not None:
        if directory is not None:
            raise ModelFileInvalid(f"{name}: comes from packages; remove embedding.directory or choose another name")
        return known
    if directory is None:
        raise ModelFileInvalid(f"{name}: set embedding.directory to the directory with {known.file('model').path}")
    return _placed(known, directory)


def spec_from_directory(name: str, directory: Path, *, dim: int | None = None) -> ModelSpec:
    """The spec of a model that nobody registered, from the files sentence-transformers leaves beside the weights.

    `model.onnx` (or `onnx/model.onnx`) and `tokenizer.json` must be there. Optional: `config.json` (hidden_size,
    max_position_embeddings), `1_Pooling/config.json` (pooling, dimension), `sentence_bert_config.json`
    (max_seq_length), `config_sentence_transformers.json` (prompts query, document or passage). Without them: mean
    pooling, 256 tokens, and `dim` must be given. Vectors are normalised always: every distance in the store
    is a cosine.
    """
    files = (*_graph_files(directory, None), ModelFile("tokenizer", "tokenizer.json", None, None))
    if not _is_file(directory / "tokenizer.json"):
        raise ModelFileInvalid(f"{directory / 'tokenizer.json'}: expected a file, found none; export the tokenizer")
    config = _read_json(directory / "config.json")
    pooling = _read_json(directory / "1_Pooling" / "config.json")
    prompts = _mapping(_read_json(directory / "config_sentence_transformers.json").get("prompts"))
    found = pooling.get("word_embedding_dimension", config.get("hidden_size", dim))
    if found is None:
        raise ModelFileInvalid(f"{directory}: no dimension in 1_Pooling/config.json or config.json; set embedding.dim")
    if dim is not None and dim != found:
        raise ModelFileInvalid(
            f"{directory}: embedding.dim is {dim}, its configuration says {found}; set embedding.dim to {found} or "
            "point embedding.directory at the other model"
        )
    length = _read_json(directory / "sentence_bert_config.json").get("max_seq_length")
    return ModelSpec(
        name=name,
        dim=int(found),
        licence="unknown",
        files=files,
        directory=directory,
        recipe="as-is",
        pooling="cls" if pooling.get("pooling_mode_cls_token") else "mean",
        normalise=True,
        query_prefix=str(prompts.get("query", "")),
        document_prefix=str(prompts.get("document", prompts.get("passage", ""))),
        max_tokens=min(int(length or 256), int(config.get("max_position_embeddings") or 1 << 20)),
    )


def _placed(spec: ModelSpec, directory: Path) -> ModelSpec:
    """A registered directory model with its files looked for in `directory`."""
    files = (*_graph_files(directory, spec.file("model").sha256), spec.file("tokenizer"))
    return replace(spec, files=files, directory=directory)


def _graph_files(directory: Path, sha256: str | None) -> tuple[ModelFile, ...]:
    """The graph, and the weights beside it where they are kept apart."""
    for path in _GRAPH_PATHS:
        if _is_file(directory / path):
            beside = (path + suffix for suffix in _WEIGHT_SUFFIXES if _is_file(directory / (path + suffix)))
            return (
                ModelFile("model", path, None, sha256),
                *(ModelFile("weights", weights, None, None) for weights in beside),
            )
    raise ModelFileInvalid(
        f"{directory}: expected {' or '.join(_GRAPH_PATHS)}, found neither; export the model to ONNX there"
    )


def _is_file(path: Path) -> bool:
    """Whether a file is there. Raises ModelFileInvalid where this account may not look."""
    try:
        return path.is_file()
    except OSError as exc:
        raise ModelFileInvalid(
            f"{path}: expected a readable directory, found: {exc.strerror}; give it to the account that runs "
            "memory-proxy"
        ) from exc


def _read_json(path: Path) -> dict[str, Any]:
    """An optional JSON object; absent is empty, malformed is refused."""
    try:
        value = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as exc:
        raise ModelFileInvalid(f"{path}: expected a JSON object, found {exc}; restore the file") from exc
    return _mapping(value)


def _mapping(value: object) -> dict[str, Any]:
    return dict(value) if isinstance(value, Mapping) else {}


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid")


class _File(_Entry):
    role: Role
    path: str
    package: str | None = None
    sha256: str = Field(pattern=_SHA256)


class _Model(_Entry):
    name: str = Field(min_length=1, max_length=200)
    dim: int = Field(ge=1, le=16_000)
    licence: str
    recipe: Recipe
    pooling: Pooling
    normalise: bool
    query_prefix: str
    document_prefix: str
    max_tokens: int = Field(ge=16, le=131_072)
    files: list[_File] = Field(min_length=2)

    def spec(self) -> ModelSpec:
        files = tuple(ModelFile(file.role, file.path, file.package, file.sha256) for file in self.files)
        return ModelSpec(**{**self.model_dump(), "files": files, "directory": None})


class _Registry(_Entry):
    models: list[_Model]
