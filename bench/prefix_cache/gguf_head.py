"""The metadata at the head of a GGUF file: a path in, names and values out; tensors are not read.

Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md (version 2 and 3). Raises ValueError for another file.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any, BinaryIO, Final

_FIXED: Final = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING: Final = 8
_ARRAY: Final = 9


def metadata(path: Path) -> dict[str, Any]:
    """All of it."""
    with path.open("rb") as stream:
        if stream.read(4) != b"GGUF" or _read(stream, "I") not in (2, 3):
            raise ValueError(f"{path} is no GGUF file of version 2 or 3")
        _read(stream, "Q")  # number of tensors
        return {_string(stream): _value(stream, _read(stream, "I")) for _ in range(_read(stream, "Q"))}


def _read(stream: BinaryIO, kind: str) -> Any:
    return struct.unpack(f"<{kind}", stream.read(struct.calcsize(f"<{kind}")))[0]


def _string(stream: BinaryIO) -> str:
    return stream.read(_read(stream, "Q")).decode("utf-8")


def _value(stream: BinaryIO, kind: int) -> Any:
    if kind == _STRING:
        return _string(stream)
    if kind == _ARRAY:
        inner, count = _read(stream, "I"), _read(stream, "Q")
        return [_value(stream, inner) for _ in range(count)]
    return _read(stream, _FIXED[kind])
