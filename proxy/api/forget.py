"""`POST /memory/v1/forget`: what is to be forgotten in, what that comes to or a signed receipt out.

A job is written first and gone through with by a memory worker; whoever asked waits ANSWER_S, then gets 202 and asks
`GET /memory/v1/forget/{id}`. Wants the capability memory:erase. Fails closed: a key that fixes a scope cannot reach
beyond it, nor a token beyond its session (403); what lies outside the caller's scope, or above its ceiling, is not
there (404), and what rests on such or holds some stays (403). Raises StoreUnavailable, TimedOut.
"""

from __future__ import annotations

import asyncio
import hmac
import time
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final
from uuid import UUID

from aiohttp import web

from memory.audit import noted
from memory.erasure.model import ID_BYTES, WHOLE, Labelled, Listed, Step, Target
from memory.errors import Conflict, NotFound, ScopeDenied, StoreUnavailable
from memory.model import Scope
from memory.off_loop import off_loop
from memory.read.items import Filter
from memory.read.recall import Question
from policies.capabilities import ADMIN, READ_OWN
from policies.gate import Holder, Item
from policies.labels import Sensitivity
from proxy.api.answers import json_answer, said
from proxy.api.asking import (
    Caller,
    body_as,
    caller_of,
    holder_for,
    id_in_path,
    parameters,
    require,
    require_not_one_session,
)
from proxy.api.paging import page_of
from proxy.api.parts import OwnParts
from proxy.api.schemas_forget import ErasureList, ErasureListed, ForgetAsked, ForgetPlanned, ForgetWaits
from proxy.api.search_turns import DEADLINE_S, SearchTurns
from proxy.gated import let_through, may_erase, within

ANSWER_S: Final = 10.0
_POLL_S: Final = 0.05
_SAMPLE_IDS: Final = 20
_QUERY_K: Final = 50
_OR_DONE: Final = "; GET /memory/v1/forget lists what was forgotten before"
_KINDS: Final = frozenset({"episodic", "semantic", "procedural", "document"})

Answer = ForgetPlanned | ForgetWaits | Mapping[str, Any]  # the last: a receipt


class Forget:
    """The handlers of erasure."""

    def __init__(self, parts: OwnParts, turns: SearchTurns) -> None:
        self._parts = parts
        self._turns = turns
        self._forgets = parts.forgets

    async def start(self, request: web.Request) -> web.Response:
        """Forget, or say what would go."""
        caller = caller_of(request, self._parts.door, "memory:erase")
        parameters(request, ())
        answer = await self.forgotten(caller, await body_as(request, ForgetAsked))
        return _answered(answer)

    async def forgotten(self, caller: Caller, asked: ForgetAsked) -> Answer:
        """What would go, or the receipt of what went, or how far it is. Raises ScopeDenied, NotFound, Conflict,
        StoreUnavailable, TimedOut.
        """
        holder = await holder_for(caller, self._parts.keys)
        target = await self._target(asked, caller, holder)
        dry = asked.dry_run if asked.dry_run is not None else target.kind == "query" and asked.confirm is None
        if dry or asked.confirm is not None:
            planned = await self._planned(target, holder)
            if dry:
                return planned
            if not hmac.compare_digest(
                planned.confirm.encode(), (asked.confirm or "").encode("utf-8", "surrogatepass")
            ):
                raise Conflict(f"what would be forgotten is not what was confirmed; ask with dry_run again{_OR_DONE}")
        note = noted(caller.scope.tenant, caller.actor, "forget", why=target.kind, names={target.kind: target.value})
        erasure_id = await self._forgets.ask(target, caller.now, await self._parts.audit.witness(note))
        await self._parts.tells.asked()
        return await self._answer(caller, erasure_id, ANSWER_S, "asked")

    async def listed(self, request: web.Request) -> web.Response:
        """The erasures that `show` shows, the newest first: for who lost the answer."""
        caller = caller_of(request, self._parts.door, "memory:erase")
        require_not_one_session(caller, "the list is of all of them")
        page = page_of(parameters(request, {"limit", "cursor"}), "forget")
        scope = None if caller.credential.can(ADMIN) else caller.scope
        found = await self._forgets.listed(caller.scope.tenant, scope, page.id_behind(), page.limit)
        return said(ErasureList(data=[*map(_listed, found.rows)], next_cursor=page.next_cursor(found.next_cursor)))

    async def show(self, request: web.Request) -> web.Response:
        """How far an erasure is that was asked for in the caller's scope; an admin sees those of all."""
        caller = caller_of(request, self._parts.door, "memory:erase")
        parameters(request, ())
        erasure_id = id_in_path(request, "erasure")
        of_all = caller.credential.can(ADMIN) and caller.credential.session is None
        if not of_all and not await self._forgets.is_of(caller.scope, erasure_id):
            raise NotFound("there is no such erasure in this scope")
        return _answered(await self._answer(caller, erasure_id, 0))

    async def _answer(self, caller: Caller, erasure_id: UUID, wait_s: float, step: Step | None = None) -> Answer:
        """The receipt, or how far it is. `step`: how far it is known to be. It goes on whatever becomes of who waits:
        who is told of a store that is away asks for it again.
        """
        until_s = time.monotonic() + wait_s
        while True:
            try:
                job = await self._forgets.job(caller.scope.tenant, erasure_id)
                if job is None:
                    raise NotFound("there is no such erasure in this scope")
                if job.receipt is not None:
                    return job.receipt
                step = job.step
            except StoreUnavailable:
                if step is None:
                    raise
            if time.monotonic() >= until_s:
                return ForgetWaits(id=str(erasure_id), status="running", step=step)
            await asyncio.sleep(_POLL_S)

    async def _planned(self, target: Target, holder: Holder) -> ForgetPlanned:
        plan, turns, memories = await self._forgets.remembered(target)
        counts = {
            "scopes": len(plan.scopes),
            "sessions": len(plan.sessions),
            "turns": len(turns),
            "memories": len(memories),
        }
        key = await self._parts.keys.content_key(target.scope.tenant)
        size_bytes = (len(turns) + len(memories)) * ID_BYTES
        confirm = await off_loop(size_bytes, partial(_confirm, key, target, turns, memories))
        sample = await self._shown(target, holder, [*memories, *turns][:_SAMPLE_IDS])
        return ForgetPlanned(counts=counts, sample_ids=sample, confirm=confirm)

    async def _shown(self, target: Target, holder: Holder, ids: list[str]) -> list[str]:
        """Those of these ids that the caller may be told."""
        labels = await self._forgets.labels(target, [UUID(one) for one in ids])
        hidden = {str(one.item_id) for one in labels if not may_erase(holder, _item(holder, one))}
        return [one for one in ids if one not in hidden]

    async def _target(self, asked: ForgetAsked, caller: Caller, holder: Holder) -> Target:
        kind, value = asked.named()
        if kind in WHOLE or kind == "session":
            value = caller.kept(value)
        if kind in WHOLE:
            _refuse_beyond(caller, kind, value)
            return Target(kind, value, caller.scope)
        if kind == "session":
            value = await self._label(caller.scope, value)
        if kind == "session" and caller.credential.session is not None:
            _refuse_other(caller, value)
        if kind == "memory":
            _refuse_no_id(value)
        found = await self._found(caller, holder, value) if kind == "query" else ()
        target = Target(kind, value, caller.scope, found)
        await self._refuse_unseen(target, holder)
        return target

    async def _label(self, scope: Scope, named: str) -> str:
        """What its client calls a conversation, which may be named by its id; one that is not stored keeps its name."""
        try:
            return (await self._parts.records.session(scope, named)).label
        except NotFound:
            return named

    async def _refuse_unseen(self, target: Target, holder: Holder) -> None:
        """Raise NotFound for what is not there or may not be seen, ScopeDenied where such would go with it."""
        plan, labels = await self._forgets.named(target)
        if target.kind == "memory" and not plan.memories:
            raise NotFound(f"there is no such memory in this scope{_OR_DONE}")
        if holder.capabilities is None:
            return
        held = {one.kind for one in labels if not may_erase(holder, _item(holder, one))}
        if (target.kind == "memory" and "memory" in held) or (
            target.kind == "source_id" and ("turn" in held or not plan.turns)
        ):
            raise NotFound(f"there is no such {target.kind} in this scope{_OR_DONE}")
        if held:
            raise ScopeDenied("more would go with it than this key may see", param=target.kind)

    async def _found(self, caller: Caller, holder: Holder, text: str) -> tuple[UUID, ...]:
        """What a search for this text would put into a prompt of the caller's."""
        require(caller.credential, READ_OWN)
        where = within(Filter(kinds=_KINDS), holder)
        now = datetime.now(UTC)
        question = Question(caller.scope, text, k=_QUERY_K, now=now, where=where, strict=True, alike=True)
        async with self._turns.turn(caller.scope):
            recall = await self._parts.recaller.search(question, DEADLINE_S)
        recall = let_through(recall, holder)
        if recall.rung == "none" and recall.reason is not None:
            raise StoreUnavailable(f"memory cannot be searched now ({recall.reason})", retry_after_s=1)
        return tuple(found for one in recall.candidates if one.admitted for found in (one.memory_id, *one.same))


def _confirm(key: bytes, target: Target, turns: Iterable[str], memories: Iterable[str]) -> str:
    """What stands for all that would go."""
    text = "\n".join([target.kind, target.value, *sorted(turns), *sorted(memories)])
    return hmac.digest(key, b"confirm\x00" + text.encode("utf-8", "surrogatepass"), "sha256").hex()


def _answered(answer: Answer) -> web.Response:
    if isinstance(answer, ForgetWaits):
        response = said(answer, 202)
        response.headers["Location"] = f"/memory/v1/forget/{answer.id}"
        return response
    return said(answer) if isinstance(answer, ForgetPlanned) else json_answer(answer)


def _listed(one: Listed) -> ErasureListed:
    return ErasureListed(
        id=str(one.erasure_id),
        kind=one.kind,
        status="running" if one.finished_at is None else "ended",
        step=one.step,
        complete=one.complete,
        requested_at=one.requested_at,
        finished_at=one.finished_at,
    )


def _item(holder: Holder, one: Labelled) -> Item:
    return Item(holder.tenant, Sensitivity(one.sensitivity), session_id=one.session_id)


def _refuse_other(caller: Caller, label: str) -> None:
    """Raise ScopeDenied where a token for one session names another."""
    if label not in (caller.credential.session, caller.ask.session):
        raise ScopeDenied("this token is for one session", param="session")


def _refuse_beyond(caller: Caller, kind: str, value: str) -> None:
    """Raise ScopeDenied where the key's fixed values do not cover all that goes. A project is every user's."""
    credential = caller.credential
    fixed = credential.fixed
    if credential.session is not None:
        raise ScopeDenied(f"this token is for one session: it cannot forget a {kind}", param=kind)
    if credential.key_id is None or credential.can("memory:admin"):
        return
    if kind in fixed and caller.kept(fixed[kind]) != value:
        raise ScopeDenied(f"this key fixes the {kind}", param=kind)
    beyond = {"user": ("project", "agent"), "project": ("user", "agent")}[kind]
    if any(name in fixed for name in beyond):
        raise ScopeDenied(f"this key fixes more than the {kind}: it cannot forget all of one", param=kind)
    if (kind == "project" or kind not in fixed) and not credential.can("act:any_user"):
        raise ScopeDenied(f"this key may not forget any {kind}", param=kind)


def _refuse_no_id(value: str) -> None:
    try:
        UUID(value)
    except ValueError as exc:
        raise NotFound("there is no such memory in this scope") from exc
