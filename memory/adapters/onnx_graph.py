"""An ONNX text encoder's graph: rows of token ids in, its first output out. The only module that imports onnxruntime.

Refused with ModelFileInvalid at load: what is no graph, and a graph that wants other inputs than tokens. What the
runtime fails at later is one of RUNTIME_ERRORS, for the adapter to translate. Blocks: run it on a thread of your own.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from memory.errors import ModelFileInvalid

# As it is loaded the runtime begins to tell its makers of the machine and of each session, by a thread and a database
# in ~/.cache; its own call against that (`disable_telemetry_events`) comes too late.
os.environ["ORT_DISABLE_TELEMETRY"] = "1"
import onnxruntime
from onnxruntime.capi import onnxruntime_pybind11_state as runtime_state

# Known names of what a graph takes; a graph that wants anything else is not a text encoder.
_INPUTS: Final = frozenset({"input_ids", "attention_mask", "token_type_ids"})
# A batch's tokens, padding included. Larger ones were slower (18,907 tokens: 3.1 s at 512, 3.7 at 1,024, 5.9 at 4,096,
# 8.5 at 8,192): the intermediate tensors leave the cache.
BATCH_TOKENS: Final = 512
_CPU_INFO: Final = Path("/proc/cpuinfo")
_VNNI: Final = re.compile(r"^flags\s*:.*\bavx(512)?_vnni\b", re.MULTILINE)

# The runtime's exceptions share no base class but Exception.
RUNTIME_ERRORS: Final[tuple[type[Exception], ...]] = (
    runtime_state.EngineError,
    runtime_state.EPFail,
    runtime_state.Fail,
    runtime_state.InvalidArgument,
    runtime_state.InvalidGraph,
    runtime_state.InvalidProtobuf,
    runtime_state.NoModel,
    runtime_state.NoSuchFile,
    runtime_state.NotImplemented,
    runtime_state.RuntimeException,
    MemoryError,
)


class TextGraph:
    """One ONNX session. Thread-safe; the runtime releases the GIL."""

    def __init__(self, path: Path, *, threads: int) -> None:
        """Raises ModelFileInvalid."""
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        # Without the arena each run's buffers go back: it kept several times the largest batch ever seen.
        options.enable_cpu_mem_arena = False
        options.log_severity_level = 3
        # Idle threads sleep instead of spinning on a core that the event loop wants.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        # Before VNNI the u8 x s8 product saturates at 16 bits; "1" trades speed for the right sums there.
        options.add_session_config_entry("session.x64quantprecision", "0" if _sums_exactly() else "1")
        try:
            self._session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        except RUNTIME_ERRORS as exc:
            raise ModelFileInvalid(f"{path}: expected an ONNX graph, found: {exc}; export it again") from exc
        self._inputs = {entry.name for entry in self._session.get_inputs()}
        if not {"input_ids"} <= self._inputs <= _INPUTS:
            raise ModelFileInvalid(
                f"{path}: expected inputs {sorted(_INPUTS)}, found {sorted(self._inputs)}; export a text encoder"
            )
        self._output = self._session.get_outputs()[0].name

    def run(
        self, rows: Sequence[Sequence[int]], kinds: Sequence[Sequence[int]] | None = None
    ) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Rows of token ids, padded to the longest -> the graph's first output, and the mask, shape [rows, tokens].

        `kinds` are the token types, row by row; all 0 without. Raises one of RUNTIME_ERRORS.
        """
        width = max(1, max(len(row) for row in rows))
        ids, mask, types = (np.zeros((len(rows), width), np.int64) for _ in range(3))
        for index, row in enumerate(rows):
            ids[index, : len(row)] = row
            mask[index, : len(row)] = 1
            if kinds is not None:
                types[index, : len(row)] = kinds[index]
        feed = {"input_ids": ids, "attention_mask": mask, "token_type_ids": types}
        output = self._session.run([self._output], {name: feed[name] for name in self._inputs})[0]
        return np.asarray(output, np.float32), mask


def batches(
    rows: Sequence[Sequence[int]], tokens_max: int = BATCH_TOKENS, padding_max: float = float("inf")
) -> list[list[int]]:
    """Indices of rows, shortest first, in groups (or of one row) whose padded size stays within `tokens_max`.

    `padding_max` bounds what is padded, as a share of the group's tokens.
    """
    found: list[list[int]] = []
    tokens = 0
    for index in sorted(range(len(rows)), key=lambda index: len(rows[index])):
        own = len(rows[index])
        padded = own * (len(found[-1]) + 1) if found else 0
        if found and padded <= tokens_max and padded <= (1 + padding_max) * (tokens + own):
            found[-1].append(index)
            tokens += own
        else:
            found.append([index])
            tokens = own
    return found


@functools.cache
def _sums_exactly() -> bool:
    """Whether this CPU adds u8 x s8 products in 32 bits (VNNI); where nobody says so, it is taken not to.

    Asked for in vain, the careful kernels cost 2.3 times the product: 22 tokens took 5.0 ms, not 3.1.
    """
    try:
        return _VNNI.search(_CPU_INFO.read_text("utf-8")) is not None
    except OSError:
        return False
