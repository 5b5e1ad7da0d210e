"""A real cross-encoder, as small as can be: its logit is 3 for each word of the text that the question has, less 2.

Written with `onnx` and `tokenizers`, so nothing is downloaded and what runs is ONNX Runtime on a real graph.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Tokenizer, models, pre_tokenizers, processors

WORDS = ("boat", "called", "halcyon", "cat", "sleeps", "day", "my", "is", "the", "what", "all", "tea", "a", "b")
PER_WORD, LESS = 3.0, 2.0


def write_tokenizer(directory: Path) -> None:
    """A tokenizer of whole words that joins a pair as BERT does."""
    vocabulary = {word: number for number, word in enumerate(("[PAD]", "[UNK]", "[CLS]", "[SEP]", *WORDS))}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", vocabulary["[CLS]"]), ("[SEP]", vocabulary["[SEP]"])],
    )
    tokenizer.save(str(directory / "tokenizer.json"))


def write_model(directory: Path, outputs: int | None = 1, positions: int | None = None) -> None:
    """The graph. `outputs`: None gives [n], k gives [n, k], whose last column is the logit and the others 0.

    `positions`: it fails on longer pairs, as a model with that many position embeddings does.
    """
    first_word = len(("[PAD]", "[UNK]", "[CLS]", "[SEP]"))
    constants = {
        "second_axis": np.asarray([1], np.int64),
        "third_axis": np.asarray([2], np.int64),
        "zero": np.asarray(0, np.int64),
        "first_word": np.asarray(first_word, np.int64),
        "per_word": np.asarray(PER_WORD, np.float32),
        "less": np.asarray(LESS, np.float32),
        "place": np.eye(outputs or 1, dtype=np.float32)[-1:],
    }
    nodes = [
        helper.make_node("Equal", ["token_type_ids", "zero"], ["in_question"]),
        helper.make_node("Not", ["in_question"], ["in_text"]),
        helper.make_node("GreaterOrEqual", ["input_ids", "first_word"], ["is_word"]),
        helper.make_node("Cast", ["attention_mask"], ["is_read"], to=TensorProto.BOOL),
        helper.make_node("And", ["in_question", "is_read"], ["asked_all"]),
        helper.make_node("And", ["asked_all", "is_word"], ["asked"]),
        helper.make_node("And", ["in_text", "is_word"], ["said"]),
        helper.make_node("Unsqueeze", ["input_ids", "third_axis"], ["ids_column"]),
        helper.make_node("Unsqueeze", ["input_ids", "second_axis"], ["ids_row"]),
        helper.make_node("Equal", ["ids_column", "ids_row"], ["same"]),
        helper.make_node("Unsqueeze", ["asked", "second_axis"], ["asked_row"]),
        helper.make_node("And", ["same", "asked_row"], ["matches"]),
        helper.make_node("Cast", ["matches"], ["matches_float"], to=TensorProto.FLOAT),
        helper.make_node("ReduceMax", ["matches_float", "third_axis"], ["matched"], keepdims=0),
        helper.make_node("Cast", ["said"], ["said_float"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["matched", "said_float"], ["words"]),
        helper.make_node("ReduceSum", ["words", "second_axis"], ["count"], keepdims=1),
        helper.make_node("Mul", ["count", "per_word"], ["weighed"]),
        helper.make_node("Sub", ["weighed", "less"], ["column"]),
        helper.make_node("MatMul", ["column", "place"], ["placed"]),
    ]
    last = "placed"
    if outputs is None:
        nodes.append(helper.make_node("Squeeze", [last, "second_axis"], ["flat"]))
        last = "flat"
    if positions is not None:
        constants["positions"] = np.zeros((positions,), np.float32)
        nodes += [
            helper.make_node("CumSum", ["attention_mask", "one"], ["ends"]),
            helper.make_node("Gather", ["positions", "ends"], ["embedded"]),
            helper.make_node("ReduceSum", ["embedded"], ["nothing"], keepdims=0),
            helper.make_node("Add", [last, "nothing"], ["positioned"]),
        ]
        constants["one"] = np.asarray(1, np.int64)
        last = "positioned"
    inputs = ("input_ids", "attention_mask", "token_type_ids")
    shape = ["n"] if outputs is None else ["n", outputs]
    graph = helper.make_graph(
        nodes,
        "overlap",
        [helper.make_tensor_value_info(name, TensorProto.INT64, ["n", "tokens"]) for name in inputs],
        [helper.make_tensor_value_info(last, TensorProto.FLOAT, shape)],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    onnx.checker.check_model(model)
    onnx.save(model, str(directory / "model.onnx"))


def write_cross_encoder(directory: Path, outputs: int | None = 1, positions: int | None = None) -> Path:
    """The directory, with both files in it."""
    write_tokenizer(directory)
    write_model(directory, outputs, positions)
    return directory
