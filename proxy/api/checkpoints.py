"""`/memory/v1/checkpoints`: names in, checkpoints with what they hold out.

A checkpoint is saved from a conversation and from what the caller says, changed from a version (`If-Match`), branched,
compared, deleted and brought back. Parts that the caller may not see are counted, never named. Raises NotFound,
Conflict, TooLarge, VersionRequired, Unprocessable, StoreUnavailable.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final
from uuid import UUID

from aiohttp import web

from memory.audit import Note, noted
from memory.checkpoints import Checkpoint, CheckpointRow, Giving
from memory.errors import (
    MemoryInvalid,
    NotFound,
    QueueUnavailable,
    ScopeDenied,
    StoreUnavailable,
    Unprocessable,
)
from memory.model import SessionRef
from memory.read.conversation import session_ref
from memory.read.restore import mark_of
from memory.stored import SessionRecord
from policies.capabilities import ANY_PROJECT
from policies.checkpoint import name_of
from policies.gate import Holder, Item
from policies.labels import Integrity, Sensitivity
from policies.lifetime import UNDO
from proxy.api.answers import said
from proxy.api.asking import (
    Caller,
    body_as,
    caller_of,
    holder_for,
    parameters,
    require,
    require_change,
    session_listed,
)
from proxy.api.checkpoint_words import checkpoint_said, diff_said, listed, readable_parts, require_own_seen, row_item
from proxy.api.memories import version_in
from proxy.api.paging import PARAMETERS, page_of
from proxy.api.parts import OwnParts
from proxy.api.saving import Saving
from proxy.api.schemas_checkpoint import (
    BranchAsked,
    CheckpointAsked,
    CheckpointDeleted,
    CheckpointDiffSaid,
    CheckpointList,
    CheckpointListed,
    CheckpointLoaded,
    CheckpointPatch,
    CheckpointSaid,
    LoadAsked,
)
from proxy.api.sessions import Labels
from proxy.gated import may_show, readable, require_readable, require_writable

_READS: Final = "memory:read:own"
_WRITES: Final = "memory:write"


@dataclass(frozen=True, slots=True)
class Taking:
    """What is taken over: the checkpoint of this name of another project, under a name of this one."""

    project: str
    name: str
    new_name: str


class Checkpoints:
    """The handlers of checkpoints."""

    def __init__(self, parts: OwnParts, labels: Labels) -> None:
        self._parts = parts
        self._labels = labels
        self._saving = Saving(parts)

    async def save(self, request: web.Request) -> web.Response:
        """Keep a conversation, and what is said here, under a name."""
        caller = caller_of(request, self._parts.door, _WRITES)
        parameters(request, ())
        return _answer(await self.saved(caller, await body_as(request, CheckpointAsked), Integrity.USER))

    async def saved(self, caller: Caller, asked: CheckpointAsked, integrity: Integrity) -> CheckpointSaid:
        """Keep a conversation, and what is said as somebody's words, under a name."""
        name = caller.credential.hide(asked.name)
        holder = await holder_for(caller, self._parts.keys)
        label = caller.ask.session if asked.session is None else caller.kept(asked.session)
        session = await self._session(caller, holder, label)
        named = asked.model_copy(update={"name": name})
        new, trimmed = await self._saving.made_new(caller, holder, named, session, integrity)
        note = self._note(caller, "save", name)
        subject = await self._parts.keys.subject_id(caller.scope.tenant, caller.scope.user)
        store = self._parts.checkpoints.store
        made = await store.save(caller.scope, subject, new, now=caller.now, note=note)
        await self._parts.tells.changed(caller.scope)
        self._parts.metrics.checkpoints.labels("saved").inc()
        known_as = session.label if session is not None else None
        return checkpoint_said(made, readable_parts(caller.scope, holder, made), known_as, trimmed)

    async def named(self, caller: Caller, name: str) -> CheckpointSaid:
        """One checkpoint with the parts that the caller may see. Raises NotFound."""
        holder = await holder_for(caller, self._parts.keys)
        return await self._said(caller, holder, await self._known(caller, holder, kept_name(name, caller), None))

    async def listed(self, caller: Caller, limit: int) -> tuple[Sequence[CheckpointListed], bool]:
        """The newest ones, and whether there are more."""
        holder = await holder_for(caller, self._parts.keys)
        store = self._parts.checkpoints.store
        found = await store.page(caller.scope, limit=limit, cursor=None, order="desc", session_id=None)
        return await self._rows(caller, holder, found.rows), found.next_cursor is not None

    async def list(self, request: web.Request) -> web.Response:
        """Checkpoints, newest first; `session` narrows the list."""
        caller = caller_of(request, self._parts.door, _READS)
        given = parameters(request, PARAMETERS | {"session"})
        page = page_of(given, "checkpoints")
        holder = await holder_for(caller, self._parts.keys)
        try:
            session_id = await session_listed(caller, self._parts.records, given)
        except NotFound:
            return said(CheckpointList(data=[], next_cursor=None))
        found = await self._parts.checkpoints.store.page(
            caller.scope, limit=page.limit, cursor=page.cursor, order=page.order, session_id=session_id
        )
        rows = await self._rows(caller, holder, found.rows)
        return said(CheckpointList(data=[*rows], next_cursor=page.next_cursor(found.next_cursor)))

    async def show(self, request: web.Request) -> web.Response:
        """One checkpoint with its parts; its version is the ETag."""
        caller = caller_of(request, self._parts.door, _READS)
        version = _number(parameters(request, {"version"}).get("version"), "version")
        holder = await holder_for(caller, self._parts.keys)
        known = await self._known(caller, holder, _name_in(request, caller), version)
        return await self._shown(caller, holder, known)

    async def change(self, request: web.Request) -> web.Response:
        """The next version of a checkpoint."""
        caller = caller_of(request, self._parts.door, _WRITES)
        parameters(request, ())
        name, version = _name_in(request, caller), version_in(request)
        asked = await body_as(request, CheckpointPatch)
        version = require_change(
            asked, version, how={"trim", "sensitivity"} if asked.refresh else {"trim", "sensitivity", "refresh"}
        )
        holder = await holder_for(caller, self._parts.keys)
        known = await self._known(caller, holder, name, None)
        self._require_writable(caller, holder, known)
        label = await self._label(caller, known)
        session = await self._session(caller, holder, label) if asked.refresh else None
        if asked.refresh and session is None:
            raise Unprocessable("it was saved of no conversation: there is nothing to take again", param="refresh")
        new, trimmed = await self._saving.made_next(caller, holder, asked, known, session)
        subject = await self._parts.keys.subject_id(caller.scope.tenant, caller.scope.user)
        note = self._note(caller, "change", name, known.row.checkpoint_id)
        store = self._parts.checkpoints.store
        made = await store.change(caller.scope, subject, version, new, now=caller.now, note=note)
        await self._parts.tells.changed(caller.scope)
        self._parts.metrics.checkpoints.labels("changed").inc()
        return _answer(checkpoint_said(made, readable_parts(caller.scope, holder, made), label, trimmed))

    async def delete(self, request: web.Request) -> web.Response:
        """Hide a checkpoint: gone from lists and loads; what it was made of stays."""
        caller = caller_of(request, self._parts.door, _WRITES)
        parameters(request, ())
        return said(await self.deleted(caller, _name_in(request, caller), version_in(request)))

    async def deleted(self, caller: Caller, name: str, version: int | None = None) -> CheckpointDeleted:
        """Hide the checkpoint that is kept under this name. Raises NotFound, and Conflict for another version."""
        holder = await holder_for(caller, self._parts.keys)
        known = await self._known(caller, holder, name, None)
        self._require_writable(caller, holder, known)
        require_own_seen(caller.scope, holder, known)
        note = self._note(caller, "delete", name, known.row.checkpoint_id)
        await self._parts.checkpoints.store.delete(caller.scope, name, version=version, now=caller.now, note=note)
        await self._parts.tells.changed(caller.scope)
        self._parts.metrics.checkpoints.labels("deleted").inc()
        until, gone = caller.now + UNDO, str(known.row.checkpoint_id)
        return CheckpointDeleted(id=gone, name=name, deleted_at=caller.now, undo_until=until)

    async def undelete(self, request: web.Request) -> web.Response:
        """Bring back the checkpoint of this name that was deleted last."""
        caller = caller_of(request, self._parts.door, _WRITES)
        parameters(request, ())
        name = _name_in(request, caller)
        holder = await holder_for(caller, self._parts.keys)
        note = self._note(caller, "undelete", name)
        may = may_show(holder, partial(row_item, caller.scope), "checkpoint")
        back = await self._parts.checkpoints.store.undelete(caller.scope, name, now=caller.now, note=note, may=may)
        await self._parts.tells.changed(caller.scope)
        return await self._shown(caller, holder, back)

    async def branch(self, request: web.Request) -> web.Response:
        """Another name for what a checkpoint holds now, which goes on by itself."""
        caller = caller_of(request, self._parts.door, _WRITES)
        parameters(request, ())
        name = _name_in(request, caller)
        return _answer(await self.branched(caller, name, await body_as(request, BranchAsked)))

    async def branched(self, caller: Caller, name: str, asked: BranchAsked) -> CheckpointSaid:
        """Another name for what is kept under this one, here or in another project. Raises NotFound, Conflict."""
        holder = await holder_for(caller, self._parts.keys)
        if asked.from_project is not None:
            taking = Taking(asked.from_project, name, caller.credential.hide(asked.name))
            made, trimmed = await self._taken_over(caller, holder, taking)
            return await self._said(caller, holder, made, trimmed)
        known = await self._known(caller, holder, name, None)
        self._require_writable(caller, holder, known)
        new_name, label = caller.credential.hide(asked.name), await self._label(caller, known)
        note = self._note(caller, "branch", new_name, known.row.checkpoint_id)
        made = await self._parts.checkpoints.store.branch(caller.scope, name, new_name, now=caller.now, note=note)
        self._parts.metrics.checkpoints.labels("branched").inc()
        return checkpoint_said(made, readable_parts(caller.scope, holder, made), label, 0)

    async def load(self, request: web.Request) -> web.Response:
        """Have a conversation be given a checkpoint with its next message, once."""
        caller = caller_of(request, self._parts.door, _WRITES)
        parameters(request, ())
        name = _name_in(request, caller)
        asked = await body_as(request, LoadAsked)
        holder = await holder_for(caller, self._parts.keys)
        session = await self._given_to(caller, holder, asked.session)
        trimmed = 0
        if asked.from_project is not None:
            taking = Taking(asked.from_project, name, caller.credential.hide(asked.name or name))
            giving = Giving(session.session_id, self._note(caller, "load", taking.new_name))
            known, trimmed = await self._taken_over(caller, holder, taking, giving)
        elif asked.name is not None:
            raise Unprocessable("name says what one of another project is called here: give from_project", param="name")
        else:
            known = await self._known(caller, holder, name, None)
            giving = Giving(session.session_id, self._note(caller, "load", name, known.row.checkpoint_id))
            await self._parts.checkpoints.store.load(caller.scope, known, giving, now=caller.now)
        await self._marked(caller, known, session)
        parts = len(readable_parts(caller.scope, holder, known))
        loaded = CheckpointLoaded(
            name=known.row.name, version=known.version, session=session.label, parts=parts, trimmed=trimmed
        )
        return said(loaded)

    async def diff(self, request: web.Request) -> web.Response:
        """What another checkpoint (`with`), or another version (`from`, `to`) of it, holds more, less and otherwise."""
        caller = caller_of(request, self._parts.door, _READS)
        given = parameters(request, {"with", "from", "to"})
        name = _name_in(request, caller)
        other = caller.credential.hide(_name(given["with"], "with")) if "with" in given else name
        versions = _number(given.get("from"), "from"), _number(given.get("to"), "to")
        return said(await self.compared(caller, (name, versions[0]), (other, versions[1])))

    async def compared(
        self, caller: Caller, before: tuple[str, int | None], after: tuple[str, int | None]
    ) -> CheckpointDiffSaid:
        """From one to the other, each by the name it is kept under and its version, None for the current. NotFound."""
        holder = await holder_for(caller, self._parts.keys)
        known = [await self._known(caller, holder, *one) for one in (before, after)]
        return diff_said(caller.scope, holder, *known)

    # ------------------------------------------------------------ steps

    async def _session(self, caller: Caller, holder: Holder, label: str | None) -> SessionRecord | None:
        """The conversation of this name. Raises NotFound."""
        if label is None:
            return None
        found = await self._parts.records.session(caller.scope, label)
        require_readable(holder, Item(caller.scope.tenant, Sensitivity.PUBLIC, session_id=found.session_id), "session")
        return found

    async def _given_to(self, caller: Caller, holder: Holder, named: str) -> SessionRef:
        """The conversation that is to be given one. Raises NotFound, CapabilityMissing."""
        label = caller.kept(named)
        session = session_ref(await self._parts.keys.chain_key(caller.scope.tenant), caller.scope, label)
        item = Item(caller.scope.tenant, Sensitivity.PUBLIC, session_id=session.session_id)
        require_writable(holder, item, "session")
        return session

    async def _marked(self, caller: Caller, known: Checkpoint, session: SessionRef) -> None:
        """Have the hot ledger know too what the store has noted. Raises StoreUnavailable, with what is kept by then."""
        mark, name = mark_of(known.row.checkpoint_id, known.version), known.row.name
        try:
            await self._parts.checkpoints.ledgers.mark_restore(caller.scope, session.session_id, mark)
        except QueueUnavailable as fault:
            again = f"it is kept here as {name!r}: load it by this name, without from_project, in a moment"
            raise StoreUnavailable(f"the queue does not answer ({fault}); {again}", retry_after_s=1) from fault
        self._parts.metrics.checkpoints.labels("loaded").inc()

    async def _taken_over(
        self, caller: Caller, holder: Holder, taking: Taking, giving: Giving | None = None
    ) -> tuple[Checkpoint, int]:
        """A checkpoint of another project of the same user as one of this project, loaded where it is `giving`; and how
        many parts stayed there.
        """
        require(caller.credential, ANY_PROJECT)
        if {"project", "session"}.intersection(caller.credential.fixed):
            raise ScopeDenied("this key is for one project", param="from_project")
        project = caller.kept(taking.project)
        source = replace(caller.scope, project=project)
        if source == caller.scope:
            raise Unprocessable("from_project is this very project: leave it out", param="from_project")
        known = await self._known(replace(caller, ask=replace(caller.ask, scope=source)), holder, taking.name, None)
        parts = readable_parts(caller.scope, holder, known)
        new, trimmed = await self._saving.made_from(caller, taking.new_name, parts)
        note = self._note(caller, "branch", taking.new_name, known.row.checkpoint_id)
        subject = await self._parts.keys.subject_id(caller.scope.tenant, caller.scope.user)
        store = self._parts.checkpoints.store
        made = await store.save(caller.scope, subject, new, now=caller.now, note=note, source=source, given=giving)
        await self._parts.tells.changed(caller.scope)
        self._parts.metrics.checkpoints.labels("branched").inc()
        return made, trimmed

    async def _known(self, caller: Caller, holder: Holder, name: str, version: int | None) -> Checkpoint:
        """One that the caller may see. Raises NotFound, which of another says neither when it was deleted nor at which
        version it is.
        """
        store = self._parts.checkpoints.store
        try:
            known = await store.one(caller.scope, name)
        except NotFound:
            require_readable(holder, Item(caller.scope.tenant, Sensitivity.PUBLIC), "checkpoint")
            raise
        require_readable(holder, row_item(caller.scope, known.row), "checkpoint")
        return known if version is None else await store.one(caller.scope, name, version=version)

    def _require_writable(self, caller: Caller, holder: Holder, known: Checkpoint) -> None:
        require_writable(holder, row_item(caller.scope, known.row), "checkpoint")

    def _note(self, caller: Caller, what: str, name: str, checkpoint_id: UUID | None = None) -> Note:
        ids = () if checkpoint_id is None else (checkpoint_id,)
        tenant = caller.scope.tenant
        return noted(tenant, caller.actor, f"checkpoint.{what}", ids=ids, names={"checkpoint": name}, at=caller.now)

    async def _rows(self, caller: Caller, holder: Holder, found: Sequence[CheckpointRow]) -> Sequence[CheckpointListed]:
        shown = readable(holder, found, partial(row_item, caller.scope))
        labels = await self._labels.of(caller.scope, (one.session_id for one in shown))
        return [listed(one, labels.get(one.session_id) if one.session_id else None) for one in shown]

    async def _shown(self, caller: Caller, holder: Holder, one: Checkpoint) -> web.Response:
        return _answer(await self._said(caller, holder, one))

    async def _said(self, caller: Caller, holder: Holder, one: Checkpoint, trimmed: int = 0) -> CheckpointSaid:
        label = await self._label(caller, one)
        return checkpoint_said(one, readable_parts(caller.scope, holder, one), label, trimmed)

    async def _label(self, caller: Caller, one: Checkpoint) -> str | None:
        """What the client calls the conversation that it was saved of. Asked before anything is kept: who is told of a
        fault behind that sends it again, and is refused.
        """
        labels = await self._labels.of(caller.scope, [one.row.session_id])
        return labels.get(one.row.session_id) if one.row.session_id else None


def _answer(one: CheckpointSaid) -> web.Response:
    answer = said(one)
    answer.headers["ETag"] = f'"{one.version}"'
    return answer


def _name_in(request: web.Request, caller: Caller) -> str:
    """The name in the path, as it is kept. Raises NotFound for one that no checkpoint can have."""
    return kept_name(request.match_info["id"], caller)


def kept_name(name: str, caller: Caller) -> str:
    """A name as it is kept. Raises NotFound for one that no checkpoint can have."""
    try:
        return caller.credential.hide(name_of(name))
    except ValueError:
        raise NotFound("there is no such checkpoint in this scope") from None


def _name(raw: str, param: str) -> str:
    try:
        return name_of(raw)
    except ValueError as exc:
        raise MemoryInvalid(str(exc), param=param) from None


def _number(raw: str | None, param: str) -> int | None:
    if raw is None:
        return None
    if not (raw.isascii() and raw.isdigit() and 1 <= len(raw) <= 9 and int(raw)):
        raise MemoryInvalid(f"{param} must be a version, a whole number from 1", param=param)
    return int(raw)
