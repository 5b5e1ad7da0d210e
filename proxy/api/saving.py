"""What a checkpoint is to hold: what was said and a conversation as it stands in, its parts as they are stored out.

Words of the caller pass redaction, and are refused where they address the model; words of a conversation keep the
labels of the turns that they are quoted from. What is made is embedded before anything is stored, with nothing held
open meanwhile. Raises NotFound, TooLarge, Unprocessable, StoreUnavailable.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final
from uuid import UUID

from memory.checkpoints import Checkpoint, NewCheckpoint, NewPart, StoredPart
from memory.errors import NotFound, TooLarge, Unprocessable
from memory.ids import new_id
from memory.model import NewMemory
from memory.stored import SessionRecord
from memory.write.windows import dated
from policies.checkpoint import Part, fitting, in_order, may_become
from policies.gate import Holder, Item
from policies.injection.judge import Origin
from policies.labels import Integrity, Sensitivity, within_ceiling
from policies.persona import BUILT_IN, rendered, style_of
from policies.text import storable
from proxy.api.asking import Caller, is_id
from proxy.api.checkpoint_words import require_own_seen
from proxy.api.conversation_parts import Words
from proxy.api.entity_words import taken_along
from proxy.api.memories import item_of
from proxy.api.parts import OwnParts
from proxy.api.pieces import Piece, Pieces
from proxy.api.saved_conversation import Conversations
from proxy.api.schemas_checkpoint import CheckpointAsked, CheckpointPatch
from proxy.api.screening import require_quotable
from proxy.api.vectors import vectors_of, windows_of
from proxy.gated import require_readable, sees

EXTRACTOR: Final = "checkpoint/1"
_LINES: Final[tuple[tuple[Part, str], ...]] = (("goal", "goals"), ("task", "tasks"), ("entity", "entities"))
_NAMED: Final[tuple[tuple[Part, str, frozenset[str]], ...]] = (
    ("fact", "memories", frozenset({"semantic", "episodic", "procedural"})),
    ("document", "documents", frozenset({"document"})),
    ("preference", "preferences", frozenset({"semantic"})),
)
# Which parts a member of a body stands in the place of.
_INSTEAD_OF: Final[dict[str, tuple[Part, ...]]] = {
    "notes": ("notes",),
    "persona": ("persona",),
    "goals": ("goal",),
    "tasks": ("task", "plan", "open"),
    "entities": ("entity",),
    "memories": ("fact",),
    "documents": ("document",),
    "preferences": ("preference",),
}
_OF_SESSION: Final[frozenset[Part]] = frozenset(
    {"goal", "plan", "open", "task", "fact", "document", "preference", "summary"}
)


class Saving:
    """Puts checkpoints together."""

    def __init__(self, parts: OwnParts) -> None:
        self._parts = parts
        self._pieces = Pieces(parts)
        self._conversations = Conversations(parts, self._pieces)

    async def made_new(
        self,
        caller: Caller,
        holder: Holder,
        asked: CheckpointAsked,
        session: SessionRecord | None,
        integrity: Integrity,
    ) -> tuple[NewCheckpoint, int]:
        """What is to be stored under a new name, and how many parts were left out because of their length."""
        given = asked.model_fields_set
        pieces = await self._given(caller, holder, asked, given, integrity)
        if session is not None:
            await self._conversations.settle()
            without = _instead_of(given) | (frozenset() if asked.summary else frozenset({"summary"}))
            pieces += await self._conversations.pieces(caller, holder, session, _OF_SESSION - without)
        if not pieces:
            what = (
                "this conversation says nothing yet" if session else "name a session, or say notes, goals or entities"
            )
            raise Unprocessable(f"there is nothing to keep: {what}", param="session")
        return await self._finished(caller, asked.name, session.session_id if session else None, pieces, asked.trim, ())

    async def made_next(
        self,
        caller: Caller,
        holder: Holder,
        asked: CheckpointPatch,
        known: Checkpoint,
        session: SessionRecord | None,
    ) -> tuple[NewCheckpoint, int]:
        """What its next version is to hold."""
        given = asked.model_fields_set
        replaced = _instead_of(given)
        pieces = await self._given(caller, holder, asked, given, Integrity.USER)
        if asked.refresh and session is not None:
            await self._conversations.settle()
            pieces += await self._conversations.pieces(caller, holder, session, _OF_SESSION - replaced)
            replaced |= _OF_SESSION
        require_own_seen(caller.scope, holder, known, replaced)
        pieces += [self._pieces.as_it_was(one.part, one) for one in known.parts if one.part not in replaced]
        if not pieces:
            raise Unprocessable("nothing would be left of it: delete the checkpoint instead", param="body")
        return await self._finished(caller, known.row.name, known.row.session_id, pieces, asked.trim, known.parts)

    async def made_from(self, caller: Caller, name: str, parts: Sequence[StoredPart]) -> tuple[NewCheckpoint, int]:
        """What is to be stored of the parts of a checkpoint of another scope: their words as they are now, each of
        which ends with its source. Of files and documents, and of what is above `internal`, nothing is taken.
        """
        taken = [one for one in parts if one.part != "document" and _may_leave(one)]
        words = [
            Words(one.part, one.content, one.role, Integrity(one.integrity), Sensitivity(one.sensitivity), (), None)
            for one in taken
        ]
        if not words:
            raise Unprocessable("nothing of it may be taken to another project", param="from_project")
        pieces = [self._pieces.of_words(one) for one in words]
        made, trimmed = await self._finished(caller, name, None, pieces, True, ())
        source = {(one.part, one.content): one.memory_id for one in taken}
        copied = tuple(
            replace(one, copied_from=source[one.part, one.made.content]) for one in made.parts if one.made is not None
        )
        return replace(made, parts=copied), trimmed + len(parts) - len(taken)

    async def cleaned(self, words: Sequence[Words]) -> list[Words]:
        """Words that were a checkpoint elsewhere; they pass as words of the caller's do. Raises Unprocessable."""
        return await asyncio.to_thread(lambda: [self._words_cleaned(one) for one in words])

    async def made_of(
        self, name: str, words: Sequence[Words], caller: Caller, session_id: UUID | None
    ) -> NewCheckpoint:
        """What is to be stored of words that are clean."""
        pieces = [self._pieces.of_words(one) for one in words]
        made, _ = await self._finished(caller, name, session_id, pieces, False, ())
        return made

    def _words_cleaned(self, one: Words) -> Words:
        return replace(one, text=self._cleaned("parts", one.text, "own" if one.role == "user" else "model"))

    # ------------------------------------------------------------ what is said

    async def _given(
        self,
        caller: Caller,
        holder: Holder,
        asked: CheckpointAsked | CheckpointPatch,
        given: Collection[str],
        integrity: Integrity,
    ) -> list[Piece]:
        """What the body says itself, as somebody's words. Raises NotFound, Unprocessable."""
        said: list[tuple[Part, str, str]] = []
        if asked.notes.strip():
            said.append(("notes", "notes", asked.notes))
        lines = [(part, member, line.strip()) for part, member in _LINES for line in getattr(asked, member)]
        selected = [UUID(line) for part, _, line in lines if part == "entity" and is_id(line)]
        said += [one for one in lines if one[2] and not (one[0] == "entity" and is_id(one[2]))]
        origin: Origin = "own" if integrity is Integrity.USER else "model"
        role = "user" if integrity is Integrity.USER else "assistant"
        texts = await asyncio.to_thread(lambda: [self._cleaned(member, text, origin) for _, member, text in said])
        sensitivity = Sensitivity(asked.sensitivity)
        words = [
            Words(part, text, role, integrity, sensitivity, (), caller.now)
            for (part, _, _), text in zip(said, texts, strict=True)
        ]
        pieces = [self._pieces.of_words(one) for one in words]
        pieces += [piece for one in selected for piece in await self._known_one(caller, holder, one)]
        for part, member, kinds in _NAMED:
            ids = [UUID(one) for one in getattr(asked, member)] if member in given else []
            pieces += [await self._named(caller, holder, part, member, one, kinds) for one in ids]
        return pieces + (await self._styled(caller, holder, asked.persona) if asked.persona.strip() else [])

    async def _known_one(self, caller: Caller, holder: Holder, entity_id: UUID) -> list[Piece]:
        """A person or a thing by its card, or the newest facts that name it, as far as they hold. Raises NotFound."""
        try:
            known = await self._parts.entities.one(caller.scope, entity_id)
            require_readable(holder, Item(caller.scope.tenant, Sensitivity(known.sensitivity)), "entity")
        except NotFound:
            raise NotFound(f"there is no entity {entity_id} in this scope", param="entities") from None
        taken = taken_along(known, self._parts.checkpoints.bounds.parts_max)
        pieces = [piece for one in taken for piece in await self._pieces.if_readable(caller, holder, "entity", one)]
        if not pieces:
            raise NotFound(f"nothing is known of {entity_id} any more", param="entities")
        return pieces

    async def _styled(self, caller: Caller, holder: Holder, said: str) -> list[Piece]:
        """The persona that is named, by reference, and facets in words of ours."""
        try:
            style = style_of(said)
        except ValueError as exc:
            raise Unprocessable(f"persona: {exc}", param="persona") from None
        facets, pieces = dict(style.facets), list[Piece]()
        if style.name in BUILT_IN:
            facets = {**BUILT_IN[style.name], **facets}
        elif style.name:
            try:
                name, seen = caller.credential.hide(style.name), partial(sees, holder)
                known = await self._parts.personas.one(caller.scope, name, seen=seen)
                item = Item(caller.scope.tenant, Sensitivity(known.sensitivity))
                require_readable(holder, item, "persona")
            except NotFound as missing:
                raise NotFound(missing.message, param="persona") from None
            record = await self._parts.records.memory(caller.scope, known.memory_id, now=caller.now)
            pieces.append(self._pieces.of_memory("persona", record))
        if facets or style.name in BUILT_IN:
            words = Words("persona", rendered(facets), "user", Integrity.USER, Sensitivity.PUBLIC, (), caller.now)
            pieces.append(self._pieces.of_words(words))
        return pieces

    def _cleaned(self, member: str, raw: str, origin: Origin) -> str:
        """Without secrets. Raises Unprocessable where it addresses the model."""
        text = self._parts.redactor.redact(storable(raw)).text.strip()
        require_quotable(text, origin, f"{member} address", instead="word them as a statement", param=member)
        return text

    async def _named(
        self, caller: Caller, holder: Holder, part: Part, member: str, memory_id: UUID, kinds: frozenset[str]
    ) -> Piece:
        try:
            record = await self._parts.records.memory(caller.scope, memory_id, now=caller.now)
            require_readable(holder, item_of(caller.scope, record), "memory")
        except NotFound:
            raise NotFound(f"there is no memory {memory_id} in this scope", param=member) from None
        if record.kind not in kinds or record.collection == "checkpoint":
            raise Unprocessable(
                f"{memory_id} is of kind {record.kind}; {member} takes {' or '.join(sorted(kinds))}", param=member
            )
        if not may_become(part, Integrity(record.integrity)):
            raise Unprocessable(
                f"{memory_id} is {record.integrity}'s: only a user's own words become a {part}", param=member
            )
        return self._pieces.of_memory(part, record)

    # ------------------------------------------------------------ all of it together

    async def _finished(
        self,
        caller: Caller,
        name: str,
        session_id: UUID | None,
        pieces: Sequence[Piece],
        trim: bool,
        before: Iterable[StoredPart],
    ) -> tuple[NewCheckpoint, int]:
        same = {(one.part, one.content): one for one in before if one.own and not one.state}
        pieces = [self._unless_there(piece, same) for piece in pieces]
        wanted = in_order(list({piece.key: piece for piece in reversed(pieces)}.values())[::-1])
        kept = self._within_bounds(wanted, trim)
        made = await self._remembered([one.words for one in kept if one.words is not None])
        parts = []
        for piece in kept:
            if piece.words is not None:
                memory = made.pop(0)
                parts.append(NewPart(piece.part, memory.memory_id, 1, True, memory))
            elif piece.named is not None:
                parts.append(NewPart(piece.part, *piece.named, piece.own))
        tokens = sum(one.tokens for one in kept)
        return NewCheckpoint(name, session_id, tuple(parts), tokens), len(wanted) - len(kept)

    def _unless_there(self, piece: Piece, same: Mapping[tuple[Part, str], StoredPart]) -> Piece:
        """What was said in these words before keeps its memory: embedded once, and told to a conversation once. Not
        where it is to be more sensitive from now on.
        """
        known = same.get((piece.part, piece.words.text)) if piece.words else None
        if piece.words is None or known is None:
            return piece
        is_as_sensitive = within_ceiling(piece.words.sensitivity, Sensitivity(known.sensitivity))
        return self._pieces.as_it_was(piece.part, known) if is_as_sensitive else piece

    def _within_bounds(self, pieces: list[Piece], trim: bool) -> list[Piece]:
        """Raises TooLarge, unless it may be trimmed to fit."""
        bounds = self._parts.checkpoints.bounds
        kept = fitting(pieces, bounds.tokens_max) if trim else pieces
        tokens = sum(one.tokens for one in kept)
        if tokens > bounds.tokens_max:
            raise TooLarge(
                f"this is about {tokens} tokens, and a checkpoint has {bounds.tokens_max} (checkpoint.tokens_max): "
                + ("shorten the notes" if trim else 'say less, name the memories to take along, or send "trim": true'),
                param="trim",
            )
        if len(kept) > bounds.parts_max:
            raise TooLarge(
                f"this has {len(kept)} parts, and a checkpoint {bounds.parts_max} (checkpoint.parts_max)",
                param="memories",
            )
        return kept

    async def _remembered(self, words: Sequence[Words]) -> list[NewMemory]:
        """Words as memories, embedded. Raises StoreUnavailable."""
        windows = [await windows_of(self._parts.windows, one.text) for one in words]
        texts = [
            dated(one.text[a:b], one.occurred_at) for one, spans in zip(words, windows, strict=True) for a, b in spans
        ]
        vectors = await vectors_of(self._parts.embedder, texts) if texts else None
        made, at = [], 0
        for one, spans in zip(words, windows, strict=True):
            memory_id = new_id()
            made.append(
                NewMemory(
                    memory_id=memory_id,
                    kind="working",
                    content=one.text,
                    content_key=b"",
                    role=one.role,
                    integrity=one.integrity,
                    sensitivity=one.sensitivity,
                    origin="checkpoint",
                    importance=0.5,
                    confidence=1.0,
                    occurred_at=one.occurred_at,
                    extractor_version=EXTRACTOR,
                    source_turns=one.sources,
                    windows=tuple(spans),
                    vectors=None if vectors is None else vectors[at : at + len(spans)],
                )
            )
            at += len(spans)
        return made


def _may_leave(one: StoredPart) -> bool:
    """Whether it stands and is labelled low enough to be copied to another scope."""
    return not one.state and within_ceiling(Sensitivity(one.sensitivity), Sensitivity.INTERNAL)


def _instead_of(given: Collection[str]) -> frozenset[Part]:
    return frozenset(part for member in given for part in _INSTEAD_OF.get(member, ()))
