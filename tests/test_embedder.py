"""The embedder on the real default model: vectors that mean something, always the same, and never in the way."""

from __future__ import annotations

import asyncio
import os
import shutil
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory.adapters.embedder import OnnxEmbedder
from memory.adapters.model_files import ModelFiles, locate, prepare_model
from memory.adapters.model_registry import DEFAULT_MODEL, read_registry, spec_from_directory
from memory.adapters.onnx_graph import batches
from memory.errors import EmbedderUnavailable, ModelFileInvalid

KEYS = "The bicycle keys are in the blue bowl next to the door."
UNRELATED = "Interest rates rose by a quarter of a point on Thursday."
QUESTION = "Where did I put the keys of my bike?"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> ModelFiles:
    return prepare_model(read_registry()[DEFAULT_MODEL], tmp_path_factory.mktemp("models"), print)


@pytest.fixture(scope="module")
def embedder(files: ModelFiles) -> Iterator[OnnxEmbedder]:
    built = OnnxEmbedder(files)
    yield built
    built.close()


async def test_a_question_is_nearer_to_its_answer_than_to_anything_else(embedder: OnnxEmbedder) -> None:
    query = await embedder.embed_query(QUESTION)
    documents = await embedder.embed_documents([KEYS, UNRELATED])
    near, far = documents @ query
    assert near > 0.5 > 0.2 > far


async def test_vectors_have_the_shape_and_length_the_port_promises(embedder: OnnxEmbedder) -> None:
    query = await embedder.embed_query(QUESTION)
    assert query.shape == (embedder.dim,)
    assert query.dtype == np.float32
    documents = await embedder.embed_documents([KEYS, UNRELATED, ""])
    assert documents.shape == (3, embedder.dim)
    assert documents.dtype == np.float32
    assert np.allclose(np.linalg.norm(documents, axis=1), 1, atol=1e-5)
    assert (await embedder.embed_documents([])).shape == (0, embedder.dim)
    assert embedder.model == DEFAULT_MODEL


async def test_int8_stays_near_the_packaged_weights(embedder: OnnxEmbedder, files: ModelFiles) -> None:
    spec = files.spec
    original = OnnxEmbedder(replace(files, model=locate(spec, spec.file("model"))))
    texts = [KEYS, UNRELATED, QUESTION, KEYS * 8, "我的自行车钥匙在哪里？", "def add(a, b):\n    return a + b"]
    cosines = (await embedder.embed_documents(texts) * await original.embed_documents(texts)).sum(axis=1)
    original.close()
    assert cosines.min() > 0.98


async def test_a_vector_does_not_depend_on_its_batch(embedder: OnnxEmbedder) -> None:
    texts = [KEYS, "Yes.", UNRELATED * 9, "", QUESTION * 30, "!" * 500]
    together = await embedder.embed_documents(texts)
    alone = np.stack([(await embedder.embed_documents([text]))[0] for text in texts])
    assert np.abs(together - alone).max() < 1e-5


async def test_sync_and_async_queries_are_one(embedder: OnnxEmbedder) -> None:
    text = "which bowl?"
    assert np.array_equal(embedder.embed_query_sync(text), await embedder.embed_query(text))


async def test_several_threads_give_the_same_documents(files: ModelFiles, embedder: OnnxEmbedder) -> None:
    wide = OnnxEmbedder(files, document_threads=2)
    assert (
        np.abs(await wide.embed_documents([KEYS, UNRELATED]) - await embedder.embed_documents([KEYS, UNRELATED])).max()
        < 1e-5
    )
    wide.close()


@given(text=st.one_of(st.text(), st.text(st.characters(codec=None), max_size=200)))
@settings(max_examples=60, deadline=None)
def test_any_text_has_a_vector(embedder: OnnxEmbedder, text: str) -> None:
    assert np.isclose(np.linalg.norm(embedder.embed_query_sync(text)), 1, atol=1e-5)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\x00",
        "\x00" * 10_000,
        "\ud800",
        "a\udfffb",
        " " * 5_000_000,
        "x" * 5_000_000,
        "日" * 5_000_000,
        "😀" * 9_000,
        "[SEP] [CLS] [PAD]",
    ],
    ids=["empty", "nul", "nuls", "high", "low", "spaces", "one-word", "cjk", "emoji", "specials"],
)
async def test_weird_text_has_a_vector(embedder: OnnxEmbedder, text: str) -> None:
    vectors = [await embedder.embed_query(text), (await embedder.embed_documents([text]))[0]]
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)


async def test_a_long_query_keeps_its_end(embedder: OnnxEmbedder) -> None:
    history = "We spoke about interest rates and the weather in the mountains. " * 2_000
    vector = await embedder.embed_query(history + QUESTION)
    moved = await embedder.embed_query(QUESTION + history)
    answer = (await embedder.embed_documents([KEYS]))[0]
    assert vector @ answer > moved @ answer
    assert np.array_equal(vector, await embedder.embed_query("something quite different, " + history + QUESTION))


async def test_a_long_document_keeps_its_start(embedder: OnnxEmbedder) -> None:
    long = " ".join(f"word{n}" for n in range(3_000))
    first, second = await embedder.embed_documents([long, long + KEYS])
    assert np.array_equal(first, second)


async def test_prefix_survives_the_cut(files: ModelFiles) -> None:
    spec = replace(files.spec, query_prefix="search_query: ", max_tokens=32)
    prefixed = OnnxEmbedder(replace(files, spec=spec))
    plain = OnnxEmbedder(replace(files, spec=replace(spec, query_prefix="")))
    long = "one two three four five " * 50
    # 32 tokens: two special ones, three of the prefix (search, _, query, :), and the end of the text.
    kept = long.split()[-26:]
    assert np.allclose(
        await prefixed.embed_query(long), await plain.embed_query("search_query: " + " ".join(kept)), atol=1e-5
    )
    prefixed.close()
    plain.close()


async def test_queries_and_documents_have_their_own_prefixes(files: ModelFiles, embedder: OnnxEmbedder) -> None:
    spec = replace(files.spec, query_prefix="question: ", document_prefix="passage: ")
    prefixed = OnnxEmbedder(replace(files, spec=spec))
    assert np.allclose(await prefixed.embed_query("keys"), await embedder.embed_query("question: keys"), atol=1e-5)
    assert np.allclose(
        await prefixed.embed_documents(["keys"]), await embedder.embed_documents(["passage: keys"]), atol=1e-5
    )
    prefixed.close()


async def test_too_many_waiting_queries_are_refused_and_places_come_back(
    files: ModelFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    small, all_have_asked = OnnxEmbedder(files, waiting_max=4), threading.Event()
    compute = small._session.vectors

    def held(rows: list[list[int]]) -> np.ndarray:
        all_have_asked.wait(30)
        return compute(rows)

    monkeypatch.setattr(type(small._session), "vectors", staticmethod(held))
    asking = [asyncio.create_task(small.embed_query(f"{KEYS} {n}" * 5)) for n in range(40)]
    await asyncio.wait(asking, return_when=asyncio.FIRST_COMPLETED)
    all_have_asked.set()
    results = await asyncio.gather(*asking, return_exceptions=True)
    refused = [result for result in results if isinstance(result, EmbedderUnavailable)]
    served = [result for result in results if isinstance(result, np.ndarray)]
    assert len(served) == 4
    assert len(refused) == 36
    assert str(refused[0]) == "overload"
    assert (await small.embed_query("after")).shape == (384,)
    small.close()


async def test_cancelled_queries_give_their_places_back(files: ModelFiles) -> None:
    small = OnnxEmbedder(files, waiting_max=8)
    for _ in range(5):
        tasks = [asyncio.create_task(small.embed_query(f"{KEYS} {n}")) for n in range(8)]
        await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        # The one that was running ends on its own; then all places are free.
        await small.embed_query("next")
    small.close()


@given(st.lists(st.integers(1, 300), max_size=40), st.integers(1, 600), st.sampled_from([0.0, 0.05, 0.3, float("inf")]))
def test_batches_take_every_text_once_within_both_bounds(sizes: list[int], tokens_max: int, padding: float) -> None:
    rows = [[0] * size for size in sizes]
    found = batches(rows, tokens_max, padding)
    assert sorted(index for batch in found for index in batch) == list(range(len(rows)))
    for batch in found:
        padded, own = len(batch) * max(sizes[index] for index in batch), sum(sizes[index] for index in batch)
        assert len(batch) == 1 or (padded <= tokens_max and padded <= (1 + padding) * own)
    # Equal texts fill a batch: a bound on padding alone splits nothing that needs none.
    assert len(batches([[0] * 50] * 10, 500, 0.0)) == 1


async def test_a_cancelled_batch_stops_between_batches(files: ModelFiles) -> None:
    own = OnnxEmbedder(files, batch_tokens=64)
    task = asyncio.create_task(own.embed_documents([f"{KEYS} {n}" * 10 for n in range(400)]))
    await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await own.embed_documents([KEYS])).shape == (1, 384)
    own.close()


async def test_the_event_loop_never_computes(embedder: OnnxEmbedder, monkeypatch: pytest.MonkeyPatch) -> None:
    names: set[str] = set()
    compute = embedder._session.vectors

    def recorded(rows: list[list[int]]) -> np.ndarray:
        names.add(threading.current_thread().name)
        return compute(rows)

    monkeypatch.setattr(type(embedder._session), "vectors", staticmethod(recorded))
    await embedder.embed_query("computed elsewhere")
    await embedder.embed_documents(["computed elsewhere"])
    assert {name.rsplit("_", 1)[0] for name in names} == {"embed-query", "embed-documents"}


async def test_after_close_every_call_is_refused(files: ModelFiles) -> None:
    own = OnnxEmbedder(files)
    own.close()
    with pytest.raises(EmbedderUnavailable, match="closed"):
        await own.embed_query("late")
    with pytest.raises(EmbedderUnavailable, match="closed"):
        await own.embed_documents(["late"])


def test_another_dimension_than_the_registered_one_is_refused_at_load(files: ModelFiles) -> None:
    with pytest.raises(ModelFileInvalid, match=r"model\.onnx: expected vectors of 768, found 384; set embedding\.dim"):
        OnnxEmbedder(replace(files, spec=replace(files.spec, dim=768)))


def test_bytes_that_are_no_graph_are_refused_at_load(files: ModelFiles, tmp_path: Path) -> None:
    broken = tmp_path / "model.onnx"
    broken.write_bytes(b"not a graph")
    with pytest.raises(ModelFileInvalid, match="expected an ONNX graph"):
        OnnxEmbedder(replace(files, model=broken))
    with pytest.raises(ModelFileInvalid, match=r"tokenizer\.json"):
        OnnxEmbedder(replace(files, tokenizer=broken))


async def test_a_directory_model_is_loaded_with_its_own_pooling(
    files: ModelFiles, embedder: OnnxEmbedder, tmp_path: Path
) -> None:
    os.symlink(files.model, tmp_path / "model.onnx")
    shutil.copy(files.tokenizer, tmp_path / "tokenizer.json")
    (tmp_path / "config.json").write_text('{"hidden_size": 384}')
    mean = OnnxEmbedder(prepare_model(spec_from_directory("mine", tmp_path), tmp_path, print))
    assert np.allclose(await mean.embed_query(KEYS), await embedder.embed_query(KEYS), atol=1e-5)
    mean.close()
    (tmp_path / "1_Pooling").mkdir()
    (tmp_path / "1_Pooling/config.json").write_text('{"pooling_mode_cls_token": true}')
    cls = OnnxEmbedder(prepare_model(spec_from_directory("mine", tmp_path), tmp_path, print))
    assert not np.allclose(await cls.embed_query(KEYS), await embedder.embed_query(KEYS), atol=1e-2)
    cls.close()
