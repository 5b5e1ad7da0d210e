"""`/memory/v1/artifacts`: files in, what they are and their bytes out.

A file is written sealed while it comes and known by its first bytes; refused, or cut off, nothing of it stays. A prompt
is given what it is, where it is to be had and an excerpt, never its bytes. Words in it pass redaction; an excerpt that
addresses the model is left out. Raises NotFound, Conflict, TooLarge, VersionRequired, Unprocessable, Gone, ScopeDenied,
StoreUnavailable.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Final
from uuid import UUID

from aiohttp import web

from memory.artifact_links import check, link_key, signed
from memory.artifact_types import is_text, media_type_of
from memory.artifacts import CARD, About, Artifact, Content, NewArtifact, Owner
from memory.audit import Note, noted
from memory.errors import NotFound, ScopeDenied, Unprocessable
from memory.ids import new_id
from memory.master import hkdf
from memory.model import NewMemory, SessionRef
from memory.stored import MemoryChange
from policies.artifact import image, told
from policies.gate import Holder, Item
from policies.injection.judge import Origin, judge
from policies.labels import Integrity, Sensitivity, derived_integrity, within_ceiling
from policies.lifetime import UNDO
from policies.text import storable
from proxy.api.answers import said
from proxy.api.artifact_bytes import Passing, sent, whole
from proxy.api.asking import (
    Caller,
    as_id,
    body_as,
    caller_of,
    holder_for,
    id_in_path,
    parameters,
    require_change,
    session_listed,
    session_named,
    validated,
)
from proxy.api.forms import read_form
from proxy.api.memories import version_in
from proxy.api.paging import PARAMETERS, page_of
from proxy.api.parts import OwnParts
from proxy.api.schemas_artifact import (
    CAPTION_CHARS_MAX,
    TEXT_CHARS_MAX,
    ArtifactAsked,
    ArtifactDeleted,
    ArtifactKept,
    ArtifactList,
    ArtifactPatch,
    ArtifactSaid,
    LinkAsked,
    LinkSaid,
)
from proxy.api.screening import clean_beside, require_no_secret, require_quotable
from proxy.api.sessions import Labels
from proxy.api.upload_turns import UploadTurns
from proxy.api.vectors import memory_of_record
from proxy.gated import holder_of, may_show, readable, require_readable, require_writable

EXTRACTOR: Final = "artifact/1"
KIND: Final = "artifact"
CAPTION_BYTES_MAX: Final = 20_971_520
"""Of a picture that a model is shown."""
FIELD_BYTES_MAX: Final = 4 * TEXT_CHARS_MAX
_FIELDS: Final = frozenset({"name", "caption", "text", "metadata", "session", "sensitivity"})
_SEPARATORS: Final = re.compile(r"[^a-z0-9]+")
_require_quotable: Final = partial(require_quotable, instead="say what the file is")
Scalar = str | bool | int | float
_READS: Final = "memory:read:own"
_WRITES: Final = "memory:write"


class ArtifactCalls:
    """The handlers of artifacts."""

    def __init__(self, parts: OwnParts, labels: Labels) -> None:
        self._parts = parts
        self._labels = labels
        self._turns = UploadTurns()

    async def add(self, request: web.Request) -> web.Response:
        """Keep a file."""
        caller = caller_of(request, self._parts.door, _WRITES)
        parameters(request, ())
        require_writable(holder_of(caller.credential), Item(caller.scope.tenant, Sensitivity.PUBLIC), "scope")
        async with self._turns.turn(caller.scope):
            new, session = await self._taken(request, caller)
            files, note = self._parts.artifacts, _note(caller, "add", [new.artifact_id])
            room, holder = files.scope_bytes_max, await holder_for(caller, self._parts.keys)
            seen = _reusable(caller, holder, new.memory.sensitivity, session)
            made, reused = await files.store.add(
                caller.scope, new, session, bytes_max=room, now=caller.now, note=note, seen=seen
            )
            if reused:
                made = await self._raised(caller, made, new.memory.sensitivity)
        await self._changed(caller, "reused" if reused else "added")
        label = session.label if session and session.session_id == made.session_id else None
        return said(ArtifactKept(**dict(_said(made, label)), reused=reused))

    async def _raised(self, caller: Caller, known: Artifact, asked: Sensitivity) -> Artifact:
        """A file that is there, at least as sensitive as it was sent as now. Raises Conflict."""
        if within_ceiling(asked, Sensitivity(known.sensitivity)):
            return known
        records, scope, memory_id = self._parts.records, caller.scope, known.memory_id
        card, change = await records.memory(scope, memory_id, now=caller.now), MemoryChange(sensitivity=asked.value)
        note = noted(scope.tenant, caller.actor, "memory.patch", why="sensitivity", ids=[memory_id], at=caller.now)
        await records.patch_memory(scope, memory_id, card.version, change, caller.now, note=note)
        return await self._parts.artifacts.store.one(scope, known.artifact_id)

    async def list(self, request: web.Request) -> web.Response:
        """Files by when they were kept; `session` narrows the list."""
        caller = caller_of(request, self._parts.door, _READS)
        given = parameters(request, PARAMETERS | {"session"})
        page = page_of(given, "artifacts")
        try:
            session_id = await session_listed(caller, self._parts.records, given)
        except NotFound:
            return said(ArtifactList(data=[], next_cursor=None))
        store = self._parts.artifacts.store
        found = await store.page(
            caller.scope, limit=page.limit, cursor=page.cursor, order=page.order, session_id=session_id
        )
        holder = await holder_for(caller, self._parts.keys)
        seen = readable(holder, found.rows, lambda one: _item(caller, one))
        rows = await self._said(caller, seen)
        return said(ArtifactList(data=[*rows], next_cursor=page.next_cursor(found.next_cursor)))

    async def show(self, request: web.Request) -> web.Response:
        """One file; its version is the ETag."""
        caller = caller_of(request, self._parts.door, _READS)
        parameters(request, ())
        known = await self._readable(caller, id_in_path(request, KIND))
        return _tagged(known, await self._label(caller, known))

    async def content(self, request: web.Request) -> web.StreamResponse:
        """Its bytes."""
        caller = caller_of(request, self._parts.door, _READS)
        parameters(request, ())
        known = await self._readable(caller, id_in_path(request, KIND))
        if known.hidden:
            raise NotFound("this file is held back: a review decides")
        return await sent(request, known, self._parts.artifacts.blobs, self._parts.keys)

    async def link(self, request: web.Request) -> web.Response:
        """A link to its bytes for whoever has no key."""
        caller = caller_of(request, self._parts.door, _READS)
        parameters(request, ())
        asked = await body_as(request, LinkAsked)
        known = await self._readable(caller, id_in_path(request, KIND))
        tenant, key = caller.scope.tenant, await self._link_key(caller.scope.tenant)
        label = Sensitivity(known.sensitivity)
        made = signed(key, tenant, known.artifact_id, label, now=caller.now, expires_s=asked.expires_s)
        path = f"/memory/links/{tenant}/{known.owner.scope_id}/{known.artifact_id}"
        await self._parts.audit.record([_note(caller, "link", [known.artifact_id])])
        await self._changed(caller, "linked")
        at = datetime.fromtimestamp(made.expires, UTC)
        return said(LinkSaid(url=f"{path}?expires={made.expires}&sig={made.sig}", expires_at=at))

    async def open_link(self, request: web.Request) -> web.StreamResponse:
        """What a link opens; whoever has it may."""
        given = parameters(request, ("expires", "sig"))
        tenant, artifact_id = as_id(request.match_info["tenant"], KIND), id_in_path(request, KIND)
        scope = request.match_info["scope"]
        if not (scope.isascii() and scope.isdecimal() and len(scope) < 19):
            raise NotFound("there is no such file")
        if not await self._parts.keys.knows(tenant):
            raise ScopeDenied("this link was not made here", param="tenant")
        key, now = await self._link_key(tenant), datetime.now(UTC)
        ceiling = check(key, tenant, artifact_id, given.get("expires", ""), given.get("sig", ""), now=now)
        known = await self._parts.artifacts.store.of_scope(tenant, int(scope), artifact_id)
        if known.hidden or not within_ceiling(Sensitivity(known.sensitivity), ceiling):
            raise NotFound("there is no such file")
        return await sent(request, known, self._parts.artifacts.blobs, self._parts.keys)

    async def change(self, request: web.Request) -> web.Response:
        """What is said of a file from now on."""
        caller = caller_of(request, self._parts.door, _WRITES)
        parameters(request, ())
        artifact_id, version = id_in_path(request, KIND), version_in(request)
        asked = await body_as(request, ArtifactPatch)
        version = require_change(asked, version)
        known = await self._writable(caller, artifact_id)
        given, was = asked.model_fields_set, known.about
        members = ("name", "caption", "text", "metadata")
        about = About(*(getattr(asked if name in given else was, name) for name in members))
        trust = Integrity(known.integrity), known.sensitivity
        memory = await self._memory(caller, artifact_id, about, known.content, *trust)
        # Before it is changed: who is told of a fault behind that sends it again.
        label = await self._label(caller, known)
        note = _note(caller, "change", [artifact_id])
        made = await self._parts.artifacts.store.change(
            caller.scope, artifact_id, version, memory, now=caller.now, note=note
        )
        await self._changed(caller, "changed")
        return _tagged(made, label)

    async def caption(self, request: web.Request) -> web.Response:
        """Have the chat model say what is in a picture."""
        caller = caller_of(request, self._parts.door, _WRITES)
        parameters(request, ())
        known, files = await self._writable(caller, id_in_path(request, KIND)), self._parts.artifacts
        if files.captions is None:
            raise Unprocessable("captions come from chat_model.model, and none is configured", param="id")
        _require_shown_picture(known)
        picture = await whole(known, files.blobs, self._parts.keys)
        said_of_it = await files.captions.caption(caller.scope, known.content.media_type, picture)
        about = replace(known.about, caption=said_of_it[:CAPTION_CHARS_MAX])
        integrity = derived_integrity((Integrity(known.integrity), Integrity.ASSISTANT))
        memory = await self._memory(caller, known.artifact_id, about, known.content, integrity, known.sensitivity)
        label, note = await self._label(caller, known), _note(caller, "caption", [known.artifact_id])
        made = await files.store.change(
            caller.scope, known.artifact_id, known.version, memory, now=caller.now, note=note
        )
        await self._changed(caller, "captioned")
        return _tagged(made, label)

    async def delete(self, request: web.Request) -> web.Response:
        """Hide a file."""
        caller = caller_of(request, self._parts.door, _WRITES)
        parameters(request, ())
        known = await self._writable(caller, id_in_path(request, KIND))
        note, version = _note(caller, "delete", [known.artifact_id]), version_in(request)
        store = self._parts.artifacts.store
        await store.delete(caller.scope, known.artifact_id, version=version, now=caller.now, note=note)
        await self._changed(caller, "deleted")
        until = caller.now + UNDO
        return said(ArtifactDeleted(id=str(known.artifact_id), deleted_at=caller.now, undo_until=until))

    async def undelete(self, request: web.Request) -> web.Response:
        """Bring back a file that was deleted."""
        caller = caller_of(request, self._parts.door, _WRITES)
        parameters(request, ())
        artifact_id = id_in_path(request, KIND)
        note = _note(caller, "undelete", [artifact_id])
        may = may_show(await holder_for(caller, self._parts.keys), partial(_item, caller), KIND)
        back = await self._parts.artifacts.store.undelete(caller.scope, artifact_id, now=caller.now, note=note, may=may)
        await self._changed(caller, "undeleted")
        return _tagged(back, await self._label(caller, back))

    # ------------------------------------------------------------ an upload

    async def _taken(self, request: web.Request, caller: Caller) -> tuple[NewArtifact, SessionRef | None]:
        """A file as it comes, its bytes kept; where it is refused nothing of it stays."""
        files, keys, scope = self._parts.artifacts, self._parts.keys, caller.scope
        subject_id = await keys.subject_id(scope.tenant, scope.user)
        owner = Owner(scope.tenant, subject_id, await files.store.scope_id(scope))
        names_key = hkdf(await keys.content_key(scope.tenant), b"artifact names")
        key = await keys.subject_key(scope.tenant, scope.user)
        async with files.blobs.writing(owner, key, names_key, files.bytes_max) as writing:
            passing = Passing(writing)
            form = await read_form(
                request, _FIELDS, file_bytes_max=files.bytes_max, idle_s=files.idle_s, bound="artifacts.bytes_max",
                field_bytes_max=FIELD_BYTES_MAX, into=passing.take,
            )  # fmt: skip
            asked = validated(ArtifactAsked, {"file": b"", **form.fields})
            session = await session_named(caller, self._parts.keys, asked.session)
            media_type = self._media_type(passing.head, form.declared)
            about = About(self._name(caller, asked.name or form.filename), asked.caption, asked.text, asked.metadata)
            if not about.text and is_text(media_type):
                about = replace(about, text=await asyncio.to_thread(self._excerpt, passing, form.declared))
            seen = image(passing.head)
            size = (seen.width, seen.height) if seen else (None, None)
            content = Content(media_type, passing.bytes, passing.sha256, *size)
            trusted = caller.credential.can("memory:import:trusted")
            trust = (Integrity.USER if trusted else Integrity.IMPORTED), asked.sensitivity
            artifact_id = new_id()
            memory = await self._memory(caller, artifact_id, about, content, *trust)
            label = session.label if session is not None else None
            unless = await self._parts.forgets.unless(scope, [], label, caller.now)
            blob = await writing.keep()
        return NewArtifact(artifact_id, owner, blob, content, replace(memory, unless=unless)), session

    def _media_type(self, head: bytes, declared: str) -> str:
        """By its first bytes and what it was sent as. Raises Unprocessable."""
        if self._parts.redactor.redact(declared).text != declared:
            raise Unprocessable("the file's Content-Type holds what looks like a secret", param="file")
        media_type = media_type_of(head, declared)
        _require_quotable(_SEPARATORS.sub(" ", media_type), "foreign", "its Content-Type addresses", param="file")
        return media_type

    def _name(self, caller: Caller, name: str) -> str:
        last = storable(name.rpartition("/")[2].rpartition("\\")[2])[:255]
        if name and not last:
            raise Unprocessable("the name ends where a directory does: say what the file is called", param="name")
        return caller.credential.hide(last)

    def _excerpt(self, passing: Passing, declared: str) -> str:
        """Words of a file, if a prompt may have them: what addresses the model is left out."""
        said = passing.ends(lambda text: self._parts.redactor.redact(storable(text)).text, declared)
        return "" if judge(said, "foreign").quarantined else said

    async def _memory(
        self,
        caller: Caller,
        artifact_id: UUID,
        about: About,
        content: Content,
        integrity: Integrity,
        sensitivity: str,
    ) -> NewMemory:
        """What is said of a file as it is stored. Raises Unprocessable, StoreUnavailable."""
        source: Origin = "own" if integrity is Integrity.USER else "foreign"
        clean = await asyncio.to_thread(self._cleaned, about, source)
        size, about_it = content.bytes, (clean.caption, clean.text, clean.metadata)
        text = told(artifact_id, clean.name, content.media_type, size, *about_it)
        await asyncio.to_thread(_require_quotable, text, source, "all that is said of it addresses", param="name")
        kept = {"name": clean.name, "caption": clean.caption, "text": clean.text, "sha256": content.sha256}
        more = {"metadata": dict(clean.metadata)} if clean.metadata else {}
        return await memory_of_record(
            self._parts,
            text,
            caller.now,
            origin=KIND,
            extractor_version=EXTRACTOR,
            sensitivity=Sensitivity(sensitivity),
            attributes={CARD: {**kept, **more}},
            integrity=integrity,
        )

    def _cleaned(self, about: About, source: Origin) -> About:
        words = {"name": about.name, "caption": about.caption, "text": about.text}
        clean = {name: self._parts.redactor.redact(storable(raw)).text.strip() for name, raw in words.items()}
        if about.name and not clean["name"]:
            raise Unprocessable("name is blank: say what the file is called", param="name")
        for name, text in clean.items():
            _require_quotable(text, source, f"{name} addresses", param=name)
        return About(**clean, metadata=self._known_of_it(about.metadata, source))

    def _known_of_it(self, given: Mapping[str, Scalar], source: Origin) -> dict[str, Scalar]:
        """Metadata without secrets; what addresses the model, name and value read as one, is refused."""
        clean: dict[str, Scalar] = {}
        for name, value in given.items():
            require_no_secret(name, self._parts.redactor, "metadata")
            said = value
            if isinstance(value, str):
                said = clean_beside(name, storable(value), self._parts.redactor).strip()
            _require_quotable(f"{name.replace('_', ' ')}: {said}", source, "metadata addresses", param="metadata")
            clean[name] = said
        return clean

    # ------------------------------------------------------------ steps

    async def _link_key(self, tenant: UUID) -> bytes:
        return link_key(await self._parts.keys.content_key(tenant))

    async def _readable(self, caller: Caller, artifact_id: UUID) -> Artifact:
        known = await self._parts.artifacts.store.one(caller.scope, artifact_id)
        require_readable(await holder_for(caller, self._parts.keys), _item(caller, known), KIND)
        return known

    async def _writable(self, caller: Caller, artifact_id: UUID) -> Artifact:
        known = await self._readable(caller, artifact_id)
        require_writable(await holder_for(caller, self._parts.keys), _item(caller, known), KIND)
        return known

    async def _changed(self, caller: Caller, what: str) -> None:
        if what not in ("linked", "reused"):
            await self._parts.tells.changed(caller.scope)
        self._parts.metrics.artifacts.labels(what).inc()

    async def _label(self, caller: Caller, one: Artifact) -> str | None:
        """What the client calls the conversation that a file was given in."""
        labels = await self._labels.of(caller.scope, [one.session_id])
        return labels.get(one.session_id) if one.session_id else None

    async def _said(self, caller: Caller, found: Sequence[Artifact]) -> Sequence[ArtifactSaid]:
        labels = await self._labels.of(caller.scope, [one.session_id for one in found])
        return [_said(one, labels.get(one.session_id) if one.session_id else None) for one in found]


def _tagged(one: Artifact, session: str | None) -> web.Response:
    answer = said(_said(one, session))
    answer.headers["ETag"] = f'"{one.version}"'
    return answer


def _said(one: Artifact, session: str | None) -> ArtifactSaid:
    """A file; words of it only where a prompt may have them too."""
    about = About("") if one.hidden else one.about
    return ArtifactSaid(
        id=str(one.artifact_id),
        version=one.version,
        name=about.name,
        media_type=one.content.media_type,
        bytes=one.content.bytes,
        sha256=one.content.sha256,
        width=one.content.width,
        height=one.content.height,
        caption=about.caption,
        text=about.text,
        metadata=dict(about.metadata),
        session=session,
        memory_id=str(one.memory_id),
        integrity=one.integrity,
        sensitivity=one.sensitivity,
        state=one.hidden,
        created_at=one.created_at,
        changed_at=one.changed_at,
    )


def _require_shown_picture(one: Artifact) -> None:
    """What a model may be shown: a picture, no longer than it takes, no more than internal. Raises Unprocessable."""
    if not one.content.media_type.startswith("image/"):
        raise Unprocessable("only a picture is shown to a model: say yourself what this file is", param="id")
    if one.content.bytes > CAPTION_BYTES_MAX:
        raise Unprocessable(f"a picture that a model is shown has at most {CAPTION_BYTES_MAX} bytes", param="id")
    if one.hidden or not within_ceiling(Sensitivity(one.sensitivity), Sensitivity.INTERNAL):
        raise Unprocessable("what is confidential or held back is shown to no model", param="id")


def _note(caller: Caller, what: str, ids: Sequence[UUID]) -> Note:
    return noted(caller.scope.tenant, caller.actor, f"artifact.{what}", ids=ids, at=caller.now)


def _reusable(
    caller: Caller, holder: Holder, asked: Sensitivity, session: SessionRef | None
) -> Callable[[Artifact], bool]:
    """Whether a file with these bytes may stand for one that is sent with this label in this conversation: the caller
    may see it, it has the label or can get it, and it does not go with another conversation.
    """
    stays = (None, session.session_id if session else None)

    def seen(one: Artifact) -> bool:
        stands = not one.hidden or within_ceiling(asked, Sensitivity(one.sensitivity))
        return stands and one.session_id in stays and bool(readable(holder, [one], partial(_item, caller)))

    return seen


def _item(caller: Caller, one: Artifact) -> Item:
    return Item(caller.scope.tenant, Sensitivity(one.sensitivity), session_id=one.session_id)
