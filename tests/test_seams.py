"""Every seam's default, and what else we ship for it, keeps the contract; docs/seams.md is executed."""

from __future__ import annotations

import dataclasses
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import numpy as np
import pytest

from memory.adapters.cross_encoder import CrossEncoder
from memory.adapters.embedder import OnnxEmbedder
from memory.adapters.model_files import prepare_model
from memory.adapters.model_registry import DEFAULT_MODEL, read_registry
from memory.adapters.tokenizer import EstimatedTokens, LocalTokenizer
from memory.late import LateEmbedder
from memory.ports import Compressor, ContextRouter, Embedder, Evaluator, QueryTransformer, Reranker, TokenCounter
from memory.read.extract import SentenceCompressor
from memory.read.route import ByLength
from memory.read.transform import FollowUp
from policies.admission import admit
from tests.cross_encoder_fixture import write_cross_encoder, write_tokenizer
from tests.postgres.seed import T0, exchange, stores
from tests.postgres_fixture import DIM, TestDatabase
from tests.seam_contracts import (
    ColdStoreContract,
    CompressorContract,
    ContextRouterContract,
    EmbedderContract,
    EvaluatorContract,
    Filled,
    QueryTransformerContract,
    RerankerContract,
    TokenCounterContract,
    candidate,
)

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "seams.md").read_text("utf-8")
CONTRACTS = (ROOT / "tests" / "seam_contracts.py").read_text("utf-8")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OnnxEmbedder]:
    embedder = OnnxEmbedder(prepare_model(read_registry()[DEFAULT_MODEL], tmp_path_factory.mktemp("models"), print))
    yield embedder
    embedder.close()


class TestOnnxEmbedder(EmbedderContract):
    @pytest.fixture(params=["itself", "late"])
    def embedder(self, built: OnnxEmbedder, request: pytest.FixtureRequest) -> Embedder:
        if request.param == "itself":
            return built
        late = LateEmbedder(built.model, built.dim)
        late.arrived(built)
        return late


class TestTokenCounters(TokenCounterContract):
    @pytest.fixture(params=["estimated", "local"])
    def counter(self, tmp_path: Path, request: pytest.FixtureRequest) -> TokenCounter:
        if request.param == "estimated":
            return EstimatedTokens()
        write_tokenizer(tmp_path)
        return LocalTokenizer(tmp_path)


class TestSentenceCompressor(CompressorContract):
    @pytest.fixture
    def compressor(self) -> Compressor:
        return SentenceCompressor()


class TestByLength(ContextRouterContract):
    @pytest.fixture
    def router(self) -> ContextRouter:
        return ByLength()

    @pytest.mark.parametrize(("place", "chars", "found"), [(0, 400, None), (0, 401, 400), (4, 200, None), (4, 201, 80)])
    def test_a_short_one_stands_whole_and_the_best_have_more_room(
        self, router: ContextRouter, place: int, chars: int, found: int | None
    ) -> None:
        assert router.excerpt_chars(candidate("x" * chars, "episodic"), place, {}) == found


class TestAdmission(EvaluatorContract):
    @pytest.fixture
    def evaluator(self) -> Evaluator:
        return admit


class TestCrossEncoder(RerankerContract):
    @pytest.fixture
    def reranker(self, tmp_path: Path) -> Iterator[Reranker]:
        encoder = CrossEncoder(write_cross_encoder(tmp_path))
        yield encoder
        encoder.close()


class TestFollowUp(QueryTransformerContract):
    @pytest.fixture
    def transformer(self) -> QueryTransformer:
        return FollowUp()

    def test_the_question_is_searched_as_it_was_asked(self, transformer: QueryTransformer) -> None:
        assert transformer.transform("and in May?", ("What was the budget in April?",)) == "and in May?"


class TestReadStore(ColdStoreContract):
    @pytest.fixture
    async def filled(self, postgres: TestDatabase) -> AsyncIterator[Filled]:
        near = np.eye(DIM, dtype=np.float32)
        texts = ("the nearest", "not so near", "far")
        async with stores(postgres) as made:
            scope = made.scope()
            commit = exchange(scope, "s", 0, (texts[2], texts[0], texts[1]))
            places = dict(zip(texts, (near[0], (near[0] + near[1]) / np.sqrt(np.float32(2)), near[2]), strict=True))
            memories = tuple(dataclasses.replace(one, vectors=places[one.content][None]) for one in commit.memories)
            await made.write.commit(dataclasses.replace(commit, memories=memories), now=T0)
            yield Filled(made.read, scope, T0, near[0], texts)


def test_the_page_names_every_seam_and_where_it_is_wired() -> None:
    for protocol in re.findall(r"^class (\w+Contract):", CONTRACTS, re.MULTILINE):
        assert f"### `{protocol.removesuffix('Contract')}`" in PAGE, protocol
        assert f"`{protocol}`" in PAGE, protocol
    named = re.findall(r"`((?:memory|proxy|policies|tests)/[\w/]+\.py)`", PAGE)
    assert named
    assert [path for path in named if not (ROOT / path).is_file()] == []


def test_the_example_of_the_page_runs_and_keeps_its_contract(tmp_path: Path) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    (tmp_path / "test_example.py").write_text("\n\n".join(blocks), "utf-8")
    command = ["-m", "pytest", "-q", "-c", str(ROOT / "pyproject.toml"), "-p", "no:cacheprovider", str(tmp_path)]
    ran = subprocess.run(
        [sys.executable, *command],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert re.search(r"\b(\d+) passed", ran.stdout), ran.stdout
