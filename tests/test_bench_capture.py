"""The benchmark of capture counts as kept what is durable, and nothing else."""

from __future__ import annotations

import argparse
from typing import Any, cast

import pytest

from bench.capture import _level, lines_of
from memory.ports import Entry
from memory.write.hand_off import HandOff, Where


class Says:
    """A hand-off that says where everything goes."""

    def __init__(self, where: Where) -> None:
        self._where: Where = where

    async def hand_off(self, entry: Entry) -> Where:
        return self._where


@pytest.mark.parametrize(("where", "kept"), [("queue", True), ("spool", True), ("none", False)])
async def test_what_is_in_memory_alone_is_not_kept(where: Where, kept: bool) -> None:
    arguments = argparse.Namespace(seconds=0.05, bytes=64)
    found = await _level(arguments, cast(HandOff, Says(where)), 2)
    assert (found["per_s"] > 0) is kept
    held: dict[str, Any] = {"held_ms": {"p50": 0.1, "p99": 0.2}, "chance_ms": {"p50": 0.0}, "errors": 0}
    lines = lines_of({"always": {"held": held, "written": {"64": {**found, "by": {"undurable": 1}}}}})
    assert kept or [line.kept for line in lines if line.figure.startswith("exchanges kept")] == [False]
