"""Tasks as the API shows them: values in, bodies out. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from uuid import UUID

from memory.tasks import Task
from policies.graph import in_order
from proxy.api.schemas_task import TaskGraphSaid, TaskSaid


def waiting(needed: Iterable[Task]) -> frozenset[UUID]:
    """Those of these tasks that are not done."""
    return frozenset(one.task_id for one in needed if one.status != "done")


def task_said(one: Task, labels: Mapping[UUID, str], not_done: Set[UUID], checkpoint: str | None) -> TaskSaid:
    """A task; its words only where a prompt may have them too."""
    words = {name: "" if one.hidden else getattr(one, name) for name in ("title", "notes", "input", "output")}
    return TaskSaid(
        id=str(one.task_id),
        version=one.version,
        status=one.status,
        needs=list(map(str, one.needs)),
        waits_for=[str(need) for need in one.needs if need in not_done],
        checkpoint=checkpoint,
        session=labels.get(one.session_id) if one.session_id else None,
        memory_id=str(one.memory_id),
        integrity=one.integrity,
        sensitivity=one.sensitivity,
        state=one.hidden,
        created_at=one.created_at,
        changed_at=one.changed_at,
        **words,
    )


def graph_said(found: Sequence[TaskSaid]) -> TaskGraphSaid:
    """How these tasks hang together: what may be begun is what a move would not be refused for."""
    ids = {one.id for one in found}
    order = in_order({one.id: {need for need in one.needs if need in ids} for one in found})
    ready = [one.id for one in found if one.status == "queued" and not one.waits_for]
    return TaskGraphSaid(order=order, ready=ready, waiting={one.id: one.waits_for for one in found if one.waits_for})
