"""The checkpoint that a task names: a name in, its id out where the caller may see it; and of a task its name again.

One that the caller may not see looks like one that is not there, in an answer, a list and an export. Raises NotFound,
StoreUnavailable.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from uuid import UUID

from memory.errors import NotFound
from memory.tasks import CheckpointNamed, Task
from policies.gate import Holder, Item
from policies.labels import Sensitivity
from proxy.api.asking import Caller
from proxy.api.keeps_tasks import KeepsTasks
from proxy.gated import readable


async def checkpoints_of(
    tasks: KeepsTasks, caller: Caller, holder: Holder, names: Iterable[str | None]
) -> Mapping[str | None, UUID | None]:
    """The checkpoints of these names by name; of no name, none. Raises NotFound for one that is not there."""
    ids: dict[str | None, UUID | None] = {None: None}
    kept = {name: caller.credential.hide(name) for name in names if name is not None}
    found = await tasks.checkpoints(caller.scope, sorted(set(kept.values()))) if kept else {}
    for name, hidden in kept.items():
        if hidden not in found or not _may_see(holder, found[hidden]):
            raise NotFound("there is no such checkpoint in this scope", param="checkpoint")
        ids[name] = found[hidden].checkpoint_id
    return ids


def name_shown(holder: Holder, one: Task) -> str | None:
    """The name of the checkpoint that a task names, as far as this caller may see it."""
    return one.checkpoint.name if one.checkpoint is not None and _may_see(holder, one.checkpoint) else None


def _may_see(holder: Holder, one: CheckpointNamed) -> bool:
    return bool(readable(holder, [one], lambda it: Item(holder.tenant, Sensitivity.PUBLIC, session_id=it.session_id)))
