"""The cross-encoder on a real graph: scores that follow the pair, never on the loop, and nobody waits for the late."""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory.adapters.cross_encoder import CrossEncoder
from memory.errors import ModelFileInvalid, RerankerUnavailable
from tests.cross_encoder_fixture import LESS, PER_WORD, write_cross_encoder, write_model, write_tokenizer


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_cross_encoder(tmp_path_factory.mktemp("cross-encoder"))


@pytest.fixture(scope="module")
def encoder(directory: Path) -> Iterator[CrossEncoder]:
    built = CrossEncoder(directory)
    yield built
    built.close()


def expected(words: int) -> float:
    return 1 / (1 + math.exp(LESS - PER_WORD * words))


TEXTS = ("tea", "my boat", "my boat is called halcyon", "the cat sleeps all day " * 30, "")


async def test_scores_are_the_sigmoid_of_the_logit_in_the_order_of_the_texts(encoder: CrossEncoder) -> None:
    found = await encoder.rerank("what is my boat called", TEXTS)
    assert found == pytest.approx([expected(0), expected(2), expected(4), expected(0), expected(0)], abs=1e-6)
    assert await encoder.rerank("what is my boat called", ()) == ()


@pytest.mark.parametrize("outputs", [None, 1, 2])
async def test_one_logit_and_two_classes_are_read_alike(tmp_path: Path, outputs: int | None) -> None:
    encoder = CrossEncoder(write_cross_encoder(tmp_path, outputs))
    found = await encoder.rerank("what is my boat called", TEXTS[:3])
    assert found == pytest.approx([expected(0), expected(2), expected(4)], abs=1e-6)
    encoder.close()


async def test_a_score_does_not_depend_on_its_batch(encoder: CrossEncoder) -> None:
    texts = ["my boat " * number for number in range(1, 40)]
    together = await encoder.rerank("boat", texts)
    alone = [(await encoder.rerank("boat", [text]))[0] for text in texts]
    assert np.allclose(together, alone, atol=1e-6)


async def test_of_what_is_too_long_the_question_keeps_its_end_and_the_text_its_start(encoder: CrossEncoder) -> None:
    asked = "tea " * 5_000 + "halcyon"
    (start,) = await encoder.rerank(asked, ["halcyon " + "day " * 5_000])
    (end,) = await encoder.rerank(asked, ["day " * 5_000 + "halcyon"])
    assert start == pytest.approx(expected(1), abs=1e-6)
    assert end == pytest.approx(expected(0), abs=1e-6)


@given(query=st.text(max_size=60), text=st.one_of(st.text(), st.text(st.characters(codec=None), max_size=200)))
@settings(max_examples=60, deadline=None)
def test_any_text_has_a_score(encoder: CrossEncoder, query: str, text: str) -> None:
    (score,) = encoder.rerank_sync(query, [text])
    assert 0 <= score <= 1


@pytest.mark.parametrize(
    "text", ["\x00" * 10_000, "\ud800", "x" * 2_000_000, "日" * 2_000_000, "[SEP] [CLS]", "! " * 9_000]
)
async def test_weird_text_has_a_score(encoder: CrossEncoder, text: str) -> None:
    for score in (*await encoder.rerank(text, [text, "boat"]), *await encoder.rerank("boat", [text])):
        assert 0 <= score <= 1


@pytest.mark.parametrize("missing", ["model.onnx", "tokenizer.json"])
def test_a_missing_file_is_named(tmp_path: Path, missing: str) -> None:
    (write_cross_encoder(tmp_path) / missing).unlink()
    with pytest.raises(ModelFileInvalid, match=rf"{tmp_path}/{missing}: expected a file, found none"):
        CrossEncoder(tmp_path)


def test_a_broken_file_is_named(tmp_path: Path) -> None:
    write_cross_encoder(tmp_path)
    (tmp_path / "tokenizer.json").write_text("{")
    with pytest.raises(ModelFileInvalid, match=rf"{tmp_path}/tokenizer\.json: expected a tokenizer"):
        CrossEncoder(tmp_path)
    write_tokenizer(tmp_path)
    (tmp_path / "model.onnx").write_bytes(b"not a graph")
    with pytest.raises(ModelFileInvalid, match=rf"{tmp_path}/model\.onnx: expected an ONNX graph"):
        CrossEncoder(tmp_path)


def test_a_model_with_more_classes_is_refused_at_load(tmp_path: Path) -> None:
    write_tokenizer(tmp_path)
    write_model(tmp_path, outputs=3)
    with pytest.raises(ModelFileInvalid, match=r"model\.onnx: expected a cross-encoder .* shape \[\d, 3\]"):
        CrossEncoder(tmp_path)


def test_a_model_too_short_for_the_longest_pair_is_refused_at_load(tmp_path: Path) -> None:
    write_cross_encoder(tmp_path, positions=129)
    with pytest.raises(ModelFileInvalid, match=r"model\.onnx: expected a cross-encoder for pairs of up to 512 tokens"):
        CrossEncoder(tmp_path)
    CrossEncoder(tmp_path, tokens_max=128).close()


async def test_after_close_every_call_is_refused(directory: Path) -> None:
    own = CrossEncoder(directory)
    own.close()
    with pytest.raises(RerankerUnavailable, match="closed"):
        await own.rerank("boat", ["boat"])


class Gate:
    """Holds each run of a graph until it is opened; says on which threads and how often it ran."""

    def __init__(self, encoder: CrossEncoder, monkeypatch: pytest.MonkeyPatch) -> None:
        self.opened, self.entered = threading.Event(), threading.Event()
        self.threads: list[str] = []
        self._run = encoder._graph.run
        monkeypatch.setattr(encoder._graph, "run", self._held)

    def _held(self, *given: object) -> object:
        self.threads.append(threading.current_thread().name)
        self.entered.set()
        assert self.opened.wait(30)
        return self._run(*given)  # type: ignore[arg-type]


async def test_a_call_that_is_left_ends_with_its_batch_and_the_next_one_is_served(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = CrossEncoder(directory)
    gate = Gate(own, monkeypatch)
    late = asyncio.create_task(own.rerank("boat", ["my boat " * 100] * 20))  # a batch each
    await asyncio.to_thread(gate.entered.wait, 30)
    late.cancel()
    with pytest.raises(asyncio.CancelledError):  # at once, though its batch still runs
        await late
    following = asyncio.create_task(own.rerank("boat", ["boat"]))
    await asyncio.sleep(0.01)
    gate.opened.set()
    assert await following == pytest.approx([expected(1)], abs=1e-6)
    assert len(gate.threads) == 2
    assert {name.rpartition("_")[0] for name in gate.threads} == {"rerank"}
    own.close()


async def test_more_calls_than_can_keep_their_deadline_are_refused_and_places_come_back(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = CrossEncoder(directory, calls_max=2)
    gate = Gate(own, monkeypatch)
    held = [asyncio.create_task(own.rerank("boat", ["boat"])) for _ in range(2)]
    await asyncio.sleep(0)
    with pytest.raises(RerankerUnavailable, match="overload"):
        await own.rerank("boat", ["boat"])
    held[1].cancel()
    await asyncio.gather(held[1], return_exceptions=True)
    gate.opened.set()
    assert await own.rerank("boat", ["boat"]) == await held[0]
    own.close()
