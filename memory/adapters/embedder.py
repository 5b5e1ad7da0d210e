"""Text to unit vectors with ONNX Runtime: the Embedder port.

In come a query or documents, out go float32 vectors of length 1. Nothing runs on the event loop: queries have a thread
of their own, documents another, so a query never waits behind a batch. One session serves both, unless documents are
given several threads.

What is done to a text, in this order: cut by characters (16 for each token the model takes; a query loses its start,
since the question comes last; a document its end, `windows.py` sees to it that there is none), lone surrogates become
U+FFFD, prefix, tokenise, cut by tokens at the same side. NUL is dropped by the tokenizer, the empty text has a vector.

Refused: files whose graph or dimension is not the registered one (ModelFileInvalid, at load); more waiting queries
than `waiting_max`, anything after `close` and whatever the runtime fails at (EmbedderUnavailable).

Measured with the default model, one thread, AVX512-VNNI, machine idle: 2.0 ms a query of 11 tokens, 3.1 of 22, 23 ms a
text of 160; twice that on a busy one. Load 0.1 s, verification of the files 16 ms. Resident: 72 MiB after the imports,
132 after the load, 160 after a text of 200 tokens.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime
from functools import partial
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from memory.adapters.model_files import ModelFiles
from memory.adapters.onnx_graph import RUNTIME_ERRORS, TextGraph, batches
from memory.adapters.tokenizer import open_tokenizer, sayable
from memory.errors import EmbedderBusy, EmbedderUnavailable, ModelFileInvalid
from memory.write.windows import WINDOW_TOKENS, dated

CHARS_PER_TOKEN_MAX = 16
"""Characters kept for each token the model takes, before tokenising: 4,096 for 256 tokens (1 ms). Prose has 4.3."""

# Of documents. An exchange's few windows are of all lengths, and padding is computed like words. Microseconds a token,
# one thread of a busy machine, of single exchanges / chunks of 64 turns / of 64 short ones: 145 / 135 / 126 at 512
# tokens, 130 / 127 / 115 at 256, 127 / 121 / 117 at 256 with at most 5 % padding, 128 / 123 / 138 one by one.
BATCH_TOKENS = 256
PADDING_MAX = 0.05

# Texts tokenised at once; batches are sorted by length inside such a slice.
_SLICE_TEXTS = 1024
_NORM_MIN = 1e-12
# What stands before a window (windows.dated), at its longest, and what a cut between the two can add.
_LONGEST_DATE = dated("", datetime(2026, 9, 30, tzinfo=UTC))
_SEAM_TOKENS = 2

T = TypeVar("T")
Vectors = NDArray[np.float32]


class OnnxEmbedder:
    """The Embedder port over one model. Build it off the event loop (it loads and verifies), `close` it at the end.

    Vectors do not depend on the batch they were computed in, for float models and those with one int8 scale per row
    (the default's recipe): a text embedded alone, again or among others has the same vector within 1e-5.
    """

    def __init__(
        self,
        files: ModelFiles,
        *,
        document_threads: int = 1,
        waiting_max: int = 64,
        batch_tokens: int = BATCH_TOKENS,
    ) -> None:
        """Raises ModelFileInvalid.

        `waiting_max` queries in flight or waiting (64 are 0.12-0.25 s of work); `document_threads` above 1 loads a
        second session (32 MiB). Keeps no vector: `memory/read/query_cache.py` does.
        """
        self._files = files
        self._encoder = _Encoder(files)
        self._session = _Session(files, threads=1)
        self._document_session = self._session if document_threads == 1 else _Session(files, threads=document_threads)
        self._batch_tokens = batch_tokens
        self._queries = ThreadPoolExecutor(1, thread_name_prefix="embed-query")
        self._documents = ThreadPoolExecutor(1, thread_name_prefix="embed-documents")
        self._places = threading.BoundedSemaphore(waiting_max)
        self._check_dimension()

    @property
    def model(self) -> str:
        """Registry name of the model."""
        return self._files.spec.name

    @property
    def dim(self) -> int:
        """Length of a vector."""
        return self._files.spec.dim

    @property
    def digest(self) -> str:
        """Names everything that decides a vector; vectors of different digests must not be compared."""
        return self._files.digest

    async def embed_query(self, text: str) -> Vectors:
        """One unit vector, shape [dim], read-only. Raises EmbedderUnavailable.

        A query that is cancelled while it waits is never computed.
        """
        text = self._encoder.last_characters(text)
        if not self._places.acquire(blocking=False):
            raise EmbedderBusy("overload")
        try:
            job = self._submit(self._queries, partial(self._compute_query, text))
        except EmbedderUnavailable:
            self._places.release()
            raise
        job.add_done_callback(lambda _: self._places.release())
        return await asyncio.wrap_future(job)

    def embed_query_sync(self, text: str) -> Vectors:
        """The same on the calling thread, for callers that have one of their own. Raises EmbedderUnavailable."""
        return self._compute_query(self._encoder.last_characters(text))

    async def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """Unit vectors, shape [len(texts), dim], in the order given. Raises EmbedderUnavailable.

        A cancelled call stops after the batch in hand (40 ms at 256 tokens).
        """
        vectors = np.empty((len(texts), self.dim), np.float32)
        for start in range(0, len(texts), _SLICE_TEXTS):
            chunk = texts[start : start + _SLICE_TEXTS]
            rows = await self._on_document_thread(partial(self._encode_documents, chunk))
            for batch in batches(rows, self._batch_tokens, PADDING_MAX):
                ids = [rows[index] for index in batch]
                found = await self._on_document_thread(partial(self._document_session.vectors, ids))
                vectors[[start + index for index in batch]] = found
        return vectors

    def offsets(self, text: str) -> Sequence[tuple[int, int]]:
        """Character ranges of this model's tokens, without special ones: what `windows.split_windows` asks for."""
        return self._encoder.offsets(text)

    @property
    def window_tokens(self) -> int:
        """Tokens of one window that it embeds whole under a date: 200, or what a smaller model has room for."""
        return self._encoder.window_tokens

    def close(self) -> None:
        """Stop both threads. What was accepted finishes first (0.2 s), later calls raise EmbedderUnavailable."""
        self._queries.shutdown(wait=True)
        self._documents.shutdown(wait=True)

    def _compute_query(self, text: str) -> Vectors:
        vector: Vectors = self._session.vectors([self._encoder.query(text)])[0]
        vector.setflags(write=False)
        return vector

    def _encode_documents(self, texts: Sequence[str]) -> list[list[int]]:
        return [self._encoder.document(text) for text in texts]

    async def _on_document_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.wrap_future(self._submit(self._documents, work))

    def _submit(self, executor: ThreadPoolExecutor, work: Callable[[], T]) -> Future[T]:
        try:
            return executor.submit(work)
        except RuntimeError as exc:
            raise EmbedderUnavailable("closed") from exc

    def _check_dimension(self) -> None:
        """Run once: proves that the graph works, and warms it up."""
        try:
            found = self._session.vectors([self._encoder.query("dimension")]).shape[-1]
        except EmbedderUnavailable as exc:
            raise ModelFileInvalid(f"{self._files.model}: cannot be run ({exc}); export the model again") from exc
        if found != self.dim:
            raise ModelFileInvalid(
                f"{self._files.model}: expected vectors of {self.dim}, found {found}; set embedding.dim to {found} or "
                "point embedding.directory at the other model"
            )


class _Encoder:
    """Text -> token ids of one model, special tokens and prefix included, at most `max_tokens`."""

    def __init__(self, files: ModelFiles) -> None:
        spec = files.spec
        self._tokenizer = open_tokenizer(files.tokenizer)
        self._query_prefix = spec.query_prefix
        self._document_prefix = spec.document_prefix
        self._max_tokens = spec.max_tokens
        self._chars_max = spec.max_tokens * CHARS_PER_TOKEN_MAX
        self._special = self._tokenizer.num_special_tokens_to_add(False)
        before = len(self._tokenizer.encode(spec.document_prefix + _LONGEST_DATE).ids)
        self.window_tokens = max(1, min(WINDOW_TOKENS, spec.max_tokens - before - _SEAM_TOKENS))

    def last_characters(self, text: str) -> str:
        """What of a query can matter at all: its last `chars_max` characters."""
        return text[-self._chars_max :]

    def query(self, text: str) -> list[int]:
        """Ids of a query. Too long: its end is kept."""
        return self._ids(self._query_prefix, self.last_characters(text), keep_end=True)

    def document(self, text: str) -> list[int]:
        """Ids of a document. Too long: its start is kept."""
        return self._ids(self._document_prefix, text[: self._chars_max], keep_end=False)

    def offsets(self, text: str) -> Sequence[tuple[int, int]]:
        """Character ranges of the text's tokens."""
        offsets: list[tuple[int, int]] = self._tokenizer.encode(sayable(text), add_special_tokens=False).offsets
        return offsets

    def _ids(self, prefix: str, text: str, *, keep_end: bool) -> list[int]:
        text = sayable(text)
        ids: list[int] = self._tokenizer.encode(prefix + text).ids
        while text and len(ids) > self._max_tokens:
            # Cut the text, not the ids, so that prefix and special tokens stay where the model expects them. A cut
            # inside a word can leave a token more than counted: then once more. Each round takes a character at least.
            tokens = self.offsets(text)
            if not tokens:
                break
            surplus = min(len(tokens), len(ids) - self._max_tokens)
            cut = max(1, tokens[surplus - 1][1]) if keep_end else min(len(text) - 1, tokens[-surplus][0])
            text = text[cut:] if keep_end else text[:cut]
            ids = self._tokenizer.encode(prefix + text).ids
        # A tokenizer without special tokens gives nothing for the empty text; a graph needs one token.
        return ids[: self._max_tokens] or [0]


class _Session:
    """One ONNX session: token ids -> unit vectors. Thread-safe; the runtime releases the GIL."""

    def __init__(self, files: ModelFiles, *, threads: int) -> None:
        self._graph = TextGraph(files.model, threads=threads)
        self._pooling = files.spec.pooling
        self._normalise = files.spec.normalise

    def vectors(self, rows: Sequence[Sequence[int]]) -> Vectors:
        """Rows of token ids, padded to the longest -> [len(rows), dim]. Raises EmbedderUnavailable."""
        try:
            states, mask = self._graph.run(rows)
        except RUNTIME_ERRORS as exc:
            raise EmbedderUnavailable(f"the runtime failed: {type(exc).__name__}") from exc
        return self._unit(self._pool(states, mask))

    def _pool(self, states: Vectors, mask: NDArray[np.int64]) -> Vectors:
        """[n, tokens, dim] -> [n, dim]; a graph that pools by itself gives the latter at once."""
        if states.ndim == 2:
            return states
        if self._pooling == "cls":
            return states[:, 0]
        weights = mask.astype(np.float32)
        pooled: Vectors = np.einsum("ntd,nt->nd", states, weights) / np.maximum(weights.sum(axis=1), 1)[:, None]
        return pooled

    def _unit(self, pooled: Vectors) -> Vectors:
        if not np.isfinite(pooled).all():
            raise EmbedderUnavailable("the model gave a vector that is not finite")
        if not self._normalise:
            return pooled
        unit: Vectors = pooled / np.maximum(np.linalg.norm(pooled, axis=1, keepdims=True), _NORM_MIN)
        return unit
