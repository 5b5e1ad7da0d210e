"""What a model is told of a checkpoint that it saves or loads."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any
from uuid import UUID

from memory.errors import StoreUnavailable
from proxy.api.checkpoint_tools import loaded, saved
from proxy.api.schemas_checkpoint import CheckpointSaid, PartSaid
from proxy.api.schemas_checkpoint_tools import CheckpointListArguments
from proxy.api.tool_calls import kept_call


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


def test_what_is_left_out_of_a_save_is_said() -> None:
    now = datetime(2026, 11, 23, tzinfo=UTC)
    times: dict[str, Any] = dict.fromkeys(("created_at", "changed_at", "recorded_at"), now)
    known: dict[str, Any] = {
        "id": "1",
        "name": "plan",
        "version": 2,
        "current_version": 2,
        "session": None,
        "branched_from": None,
    }
    made = CheckpointSaid(**known, **times, tokens=9, parts=[part("We deploy on Friday.")], trimmed=3)
    assert saved(made) == "Kept as checkpoint plan, version 2, with 1 parts. 3 parts were left out."
    assert saved(made.model_copy(update={"trimmed": 0})) == "Kept as checkpoint plan, version 2, with 1 parts."


class KeysAreAway:
    """A store that cannot be reached, and a journal that takes what it is told."""

    def __init__(self) -> None:
        self.noted: list[dict[str, Any]] = []

    async def chain_key(self, tenant: UUID) -> bytes:
        raise StoreUnavailable("away")

    def note(self, tenant: UUID, actor: str, action: str, **said: Any) -> None:
        self.noted.append({"action": action, **said})


async def test_what_was_done_is_answered_where_its_record_cannot_be_kept() -> None:
    away, tenant = KeysAreAway(), UUID(int=1)
    parts: Any = SimpleNamespace(keys=away, journal=away, tool_records=None)
    caller: Any = SimpleNamespace(
        scope=SimpleNamespace(tenant=tenant), actor="key", ask=SimpleNamespace(session=None), now=datetime.now(UTC)
    )
    assert await kept_call(parts, "task_add", CheckpointListArguments(), caller, [UUID(int=7)]) is None
    assert away.noted == [{"action": "tool.task_add", "ids": [UUID(int=7)], "detail": {"recorded": False}}]
