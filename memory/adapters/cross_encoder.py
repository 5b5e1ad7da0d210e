"""Question and texts to scores with an ONNX cross-encoder: the Reranker port.

In come a question and texts, out go scores 0..1: the sigmoid of the model's one logit, or of the second class over the
first. The directory holds `model.onnx` (it takes input_ids and, where it wants them, attention_mask and token_type_ids)
and the `tokenizer.json` it was trained with, whose template joins the pair. A pair is cut to `tokens_max`: the question
keeps its end, at most half of that; the text its start.

Computes on one thread of its own, batch by batch. A cancelled call is not waited for: what waits of it is dropped, and
the batch in hand (512 tokens) runs to its end, since ONNX Runtime cannot be stopped inside an operator. So a later call
waits for one batch of each call that lives and of at most one that does not. Calls take turns batch by batch; more than
`calls_max` at once would all miss their deadline, so the next is refused.

Refused: a file that is missing, is no such model, or fails on its longest pair (ModelFileInvalid, at load, naming it);
calls beyond `calls_max` or after `close`, and whatever the runtime fails at (RerankerUnavailable).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from memory.adapters.onnx_graph import BATCH_TOKENS, RUNTIME_ERRORS, TextGraph, batches
from memory.adapters.tokenizer import open_tokenizer, sayable
from memory.errors import ModelFileInvalid, RerankerUnavailable

TOKENS_MAX: Final = 512
# Characters kept of question and text for each token, before tokenising; prose has 4.3.
_CHARS_PER_TOKEN_MAX: Final = 16
# Beyond it the exponential of a float32 overflows; the sigmoid is 0 or 1 by then.
_LOGIT_MAX: Final = 80.0

T = TypeVar("T")
Scores = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class _Pair:
    """One question and text as the model reads them."""

    ids: Sequence[int]
    kinds: Sequence[int]


class CrossEncoder:
    """The Reranker port over one model. Build it off the event loop (it loads and tries the model); `close` it."""

    def __init__(self, directory: Path, *, threads: int = 2, tokens_max: int = TOKENS_MAX, calls_max: int = 4) -> None:
        """Raises ModelFileInvalid. `threads` of ONNX Runtime for one batch; `calls_max` calls at once."""
        for name in ("model.onnx", "tokenizer.json"):
            if not (directory / name).is_file():
                raise ModelFileInvalid(
                    f"{directory / name}: expected a file, found none; recall.reranker_dir names a directory with "
                    "model.onnx and tokenizer.json"
                )
        self._model = directory / "model.onnx"
        self._pairs = _Pairs(open_tokenizer(directory / "tokenizer.json"), tokens_max)
        self._graph = TextGraph(self._model, threads=threads)
        self._calls_left = calls_max
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="rerank")
        self._try_longest(tokens_max)

    async def rerank(self, query: str, texts: Sequence[str]) -> Sequence[float]:
        """One score for each text, 0..1. Raises RerankerUnavailable."""
        if not texts:
            return ()
        if self._calls_left <= 0:
            raise RerankerUnavailable("overload")
        self._calls_left -= 1
        try:
            return await self._in_batches(query, texts)
        finally:
            self._calls_left += 1

    def rerank_sync(self, query: str, texts: Sequence[str]) -> Sequence[float]:
        """The same on the calling thread, for callers that have one of their own. Raises RerankerUnavailable."""
        pairs = self._pairs.of(query, texts)
        scores = np.empty(len(pairs), np.float32)
        for batch in batches([pair.ids for pair in pairs], BATCH_TOKENS):
            scores[batch] = self._scores([pairs[index] for index in batch])
        found: list[float] = scores.tolist()
        return found

    def close(self) -> None:
        """Stop the thread: the batch in hand ends, what waits is dropped, later calls raise RerankerUnavailable."""
        self._thread.shutdown(wait=True, cancel_futures=True)

    async def _in_batches(self, query: str, texts: Sequence[str]) -> Sequence[float]:
        pairs = await self._on_thread(partial(self._pairs.of, query, texts))
        scores = np.empty(len(pairs), np.float32)
        for batch in batches([pair.ids for pair in pairs], BATCH_TOKENS):
            scores[batch] = await self._on_thread(partial(self._scores, [pairs[index] for index in batch]))
        found: list[float] = scores.tolist()
        return found

    async def _on_thread(self, work: Callable[[], T]) -> T:
        try:
            job = self._thread.submit(work)
        except RuntimeError as exc:
            raise RerankerUnavailable("closed") from exc
        return await asyncio.wrap_future(job)

    def _scores(self, pairs: Sequence[_Pair]) -> Scores:
        try:
            logits, _ = self._graph.run([pair.ids for pair in pairs], [pair.kinds for pair in pairs])
        except RUNTIME_ERRORS as exc:
            raise RerankerUnavailable(f"the runtime failed: {type(exc).__name__}") from exc
        return _probabilities(logits, len(pairs))

    def _try_longest(self, tokens_max: int) -> None:
        """Run the longest pair and a short one once: proves that the model takes them, and warms it up."""
        try:
            self.rerank_sync("is anybody there?", ["nobody", "a " * tokens_max])
        except RerankerUnavailable as exc:
            raise ModelFileInvalid(
                f"{self._model}: expected a cross-encoder for pairs of up to {tokens_max} tokens, found: {exc}; export "
                "one with one logit or two classes"
            ) from exc


class _Pairs:
    """(question, texts) -> pairs of at most `tokens_max` tokens. On one thread."""

    def __init__(self, tokenizer: Tokenizer, tokens_max: int) -> None:
        self._tokenizer = tokenizer
        self._tokens_max = tokens_max
        self._chars_max = tokens_max * _CHARS_PER_TOKEN_MAX

    def of(self, query: str, texts: Sequence[str]) -> list[_Pair]:
        """The pairs, in the order of the texts."""
        query = self._end_of(sayable(query[-self._chars_max :]))
        return [self._pair(query, sayable(text[: self._chars_max])) for text in texts]

    def _pair(self, query: str, text: str) -> _Pair:
        encoded = self._tokenizer.encode(query, text)
        while text and len(encoded.ids) > self._tokens_max:
            # The text is cut, not the ids, so that the special tokens stay where the template puts them. A cut inside
            # a word can leave a token more than counted: then once more. Each round takes a character at least.
            offsets = self._tokenizer.encode(text, add_special_tokens=False).offsets
            surplus = min(len(offsets), len(encoded.ids) - self._tokens_max)
            text = text[: min(len(text) - 1, offsets[-surplus][0])] if surplus else ""
            encoded = self._tokenizer.encode(query, text)
        # A tokenizer without special tokens gives nothing for empty texts; a graph needs one token.
        return _Pair(encoded.ids[: self._tokens_max] or [0], encoded.type_ids[: self._tokens_max] or [0])

    def _end_of(self, query: str) -> str:
        """The question's end, at most half of the tokens."""
        offsets = self._tokenizer.encode(query, add_special_tokens=False).offsets
        half = self._tokens_max // 2
        return query[offsets[-half][0] :] if len(offsets) > half else query


def _probabilities(logits: Scores, count: int) -> Scores:
    """[count], [count, 1] or [count, 2] -> [count], 0..1. Raises RerankerUnavailable for anything else."""
    if logits.shape == (count, 2):
        logits = logits[:, 1] - logits[:, 0]
    elif logits.shape in ((count,), (count, 1)):
        logits = logits.reshape(count)
    else:
        raise RerankerUnavailable(f"the model gave an output of shape {list(logits.shape)} for {count} pairs")
    if not np.isfinite(logits).all():
        raise RerankerUnavailable("the model gave a score that is not finite")
    return (1 / (1 + np.exp(-np.clip(logits, -_LOGIT_MAX, _LOGIT_MAX)))).astype(np.float32)
