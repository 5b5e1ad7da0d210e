"""What a model is told of a checkpoint that it loads."""

from __future__ import annotations

from typing import Any

from proxy.api.checkpoint_tools import loaded
from proxy.api.schemas_checkpoint import PartSaid


def part(content: str, state: str = "") -> PartSaid:
    known: dict[str, Any] = {"part": "fact", "own": False, "memory_id": "1", "version": 1, "current_version": 1}
    known |= {"role": "user", "integrity": "user", "sensitivity": "internal", "content": content, "state": state}
    return PartSaid(**known)


def test_what_is_left_out_of_a_load_is_said_with_its_reason() -> None:
    told = loaded([part("We deploy on Friday."), part("We use Redis.", "superseded"), part("x", "superseded")])
    assert "We deploy on Friday." in told and "We use Redis." not in told
    assert told.endswith("Left out: 2 superseded.")
    assert loaded([part("x", "hidden")]) == "Nothing of it may be given now. Left out: 1 hidden."
    assert loaded([]) == "Nothing of it may be given now."
    assert "Left out" not in loaded([part("We deploy on Friday.")])
