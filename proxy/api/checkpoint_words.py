"""Checkpoints as the API shows them, and as the gate knows them: values in, bodies and items out. Pure.

Raises ScopeDenied for what would take words along that its caller may not see.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from functools import partial

from memory.checkpoints import Checkpoint, CheckpointRow, StoredPart
from memory.errors import ScopeDenied
from memory.model import Scope
from policies.checkpoint import Changed, Part, difference
from policies.checkpoint import Said as Compared
from policies.gate import Holder, Item
from policies.labels import Sensitivity
from proxy.api.schemas_checkpoint import (
    ChangeSaid,
    CheckpointDiffSaid,
    CheckpointListed,
    CheckpointSaid,
    DifferenceSaid,
    PartSaid,
)
from proxy.gated import readable


def row_item(scope: Scope, row: CheckpointRow) -> Item:
    """A checkpoint as the gate knows it: it says no more than its name, its parts are judged one by one."""
    return Item(scope.tenant, Sensitivity.PUBLIC, session_id=row.session_id)


def readable_parts(scope: Scope, holder: Holder, one: Checkpoint) -> Sequence[StoredPart]:
    """The parts of a checkpoint that may leave."""
    return readable(holder, one.parts, partial(_part_item, scope, one))


def require_own_seen(scope: Scope, holder: Holder, one: Checkpoint, gone: Container[Part] | None = None) -> None:
    """Raise ScopeDenied where words of its own would go, of these parts or of all, that this holder may not see."""
    going = [part for part in one.parts if part.own and (gone is None or part.part in gone)]
    if len(readable(holder, going, partial(_part_item, scope, one))) < len(going):
        raise ScopeDenied("more would go with it than this key may see")


def _part_item(scope: Scope, one: Checkpoint, part: StoredPart) -> Item:
    session_id = part.session_id or one.row.session_id
    return Item(scope.tenant, Sensitivity(part.sensitivity), session_id=session_id)


def checkpoint_said(one: Checkpoint, shown: Sequence[StoredPart], label: str | None, trimmed: int) -> CheckpointSaid:
    """A checkpoint with these of its parts. `label`: what its conversation is called."""
    row = one.row
    return CheckpointSaid(
        id=str(row.checkpoint_id),
        name=row.name,
        version=one.version,
        current_version=row.version,
        session=label,
        branched_from=str(row.branched_from) if row.branched_from else None,
        created_at=row.created_at,
        changed_at=row.changed_at,
        recorded_at=one.recorded_at,
        tokens=one.tokens,
        parts=[_part_said(part) for part in shown],
        withheld=len(one.parts) - len(shown),
        trimmed=trimmed,
    )


def listed(row: CheckpointRow, label: str | None) -> CheckpointListed:
    """A checkpoint in a list."""
    return CheckpointListed(
        id=str(row.checkpoint_id),
        name=row.name,
        version=row.version,
        session=label,
        branched_from=str(row.branched_from) if row.branched_from else None,
        created_at=row.created_at,
        changed_at=row.changed_at,
        tokens=row.tokens,
        parts=row.part_count,
    )


def diff_said(scope: Scope, holder: Holder, before: Checkpoint, after: Checkpoint) -> CheckpointDiffSaid:
    """From one to the other, in the words that were saved, as far as the parts may be seen."""
    found = difference(_compared(scope, holder, before), _compared(scope, holder, after))
    labels = {str(part.memory_id): part.integrity for one in (before, after) for part in one.parts}
    return CheckpointDiffSaid(
        id=str(before.row.checkpoint_id),
        name=before.row.name,
        version=before.version,
        with_id=str(after.row.checkpoint_id),
        with_name=after.row.name,
        with_version=after.version,
        added=[_difference_said(one, labels) for one in found.added],
        removed=[_difference_said(one, labels) for one in found.removed],
        changed=[_change_said(one, labels) for one in found.changed],
        same=found.same,
    )


def _compared(scope: Scope, holder: Holder, one: Checkpoint) -> list[Compared]:
    shown = readable_parts(scope, holder, one)
    return [Compared(part.part, str(part.memory_id), part.saved) for part in shown if not _is_gone(part)]


def _difference_said(one: Compared, labels: Mapping[str, str]) -> DifferenceSaid:
    return DifferenceSaid(part=one.part, memory_id=one.key, content=one.text, integrity=labels[one.key])


def _change_said(one: Changed, labels: Mapping[str, str]) -> ChangeSaid:
    return ChangeSaid(
        part=one.part,
        before=one.before.text,
        after=one.after.text,
        integrity_before=labels[one.before.key],
        integrity_after=labels[one.after.key],
        unified=one.unified,
    )


def _is_gone(part: StoredPart) -> bool:
    """Whether its words are not said any more; those that something took the place of are."""
    return part.state not in ("", "superseded")


def _part_said(part: StoredPart) -> PartSaid:
    gone = _is_gone(part)
    return PartSaid(
        part=part.part,
        own=part.own,
        memory_id=str(part.memory_id),
        version=part.memory_version,
        current_version=part.current_version,
        content="" if gone else part.content,
        saved=None if gone or part.saved == part.content else part.saved,
        role=part.role,
        integrity=part.integrity,
        sensitivity=part.sensitivity,
        state=part.state,
        successor=str(part.successor) if part.successor else None,
    )
